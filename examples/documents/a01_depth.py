"""A §1: depth against width."""

import numpy as np
from diagrams import decision_tree, model, save
from show import folder, heading, table
from trees import boosted, grown

import tinygrad_lite as tl
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models.mlp import fold_network, plain_stack, residual_stack, shallow_network


def pieces(net, grid):
    y = net(tl.arange(grid + 1).double().reshape(-1, 1) / grid).detach().numpy().ravel()
    return 1 + int((np.abs(np.diff(y, 2)) > 1e-12).sum())


heading("The fold |2x - 1| and the fold of the fold")
x = tl.arange(9).double() / 8
for name, net in (("once", fold_network(1).double()), ("twice", fold_network(2).double())):
    table(["x", *x.tolist()], [[name, *net(x.reshape(-1, 1)).flatten().tolist()]])

heading("Pieces counted on a grid aligned with the kinks")
rows = [
    (f"{n} folds", pieces(fold_network(n).double(), 2 ** (n + 1)), ar.mlp_parameters((1, *[2] * n, 1)))
    for n in (1, 2, 5, 10)
]
rows += [
    (f"{w} units", pieces(shallow_network(w).double(), 4 * (w + 1)), ar.mlp_parameters((1, w, 1))) for w in (7, 1023)
]
table(["network", "pieces", "parameters"], rows)
print("ratio at 1,024 pieces:", round(3070 / 61, 2), " bound:", ar.region_bound(2, 1, 10), ar.region_bound(1023, 1, 1))

heading("Deep is not trainable: gradient at the input over that at the output")
rows = []
for depth in (5, 20, 50):
    shares = []
    for make in (plain_stack, residual_stack):
        tl.manual_seed(0)
        stack, given = make(depth, 16), tl.randn(64, 16, requires_grad=True)
        out = stack(given)
        first, last = tl.autograd.grad(out.square().mean(), [given, out])
        shares.append((first.norm() / last.norm()).item())
    rows.append((depth, *shares))
table(["layers", "plain", "residual"], rows)

heading("A table: boosted trees against a dense net, mean squared error")
table(["rounds", "trees, training error"], [(n, e) for n, e in enumerate(boosted()[1], 1) if n in (1, 5, 20, 40)])
table(["model", "test error"], grown())

save(decision_tree(), folder() / "a01_decision_tree.svg")
model(fold_network(3), tl.zeros(5, 1), path=folder() / "a01_folds.svg")
