"""The gradient's identity path: A §10, B §4 and §5. The floor of 1 is no theorem: RES-04 holds the bound that is."""

from __future__ import annotations

from itertools import combinations
from math import comb, prod

import tinygrad_lite as tl
from tests.documents.helpers import close, gradient, jacobian, same_bits, seeded, t
from tinygrad_lite import diagnostics, nn

DEPTH = 50


def chain(factor, residual):
    def forward(x):
        for _ in range(DEPTH):
            x = x + factor * x if residual else factor * x
        return x

    return forward


def test_RES_01_plain_chain(run):
    close(run(gradient(chain(0.8, residual=False)))(t(1.0)), 1.427248e-5, rtol=1e-6)


def test_RES_02_ratio_to_the_identity_path():
    close(1 / 0.8**DEPTH, 70_065, 1)


def test_RES_03_residual_chain(run):
    close(run(gradient(chain(0.8, residual=True)))(t(1.0)), 1.8**50, rtol=1e-6)
    assert 5.795e12 < 1.8**50 < 5.805e12
    close(run(gradient(chain(0.0, residual=True)))(t(1.0)), 1.0)


def test_RES_04_no_floor_against_opposed_blocks(run):
    got = run(gradient(chain(-0.8, residual=True)))(t(1.0)).item()
    close(got, 1.126e-35, rtol=1e-3)
    close(got, (1 - 0.8) ** DEPTH, rtol=1e-6)


def test_RES_05_paths():
    assert 2**50 == 1_125_899_906_842_624
    blocks = (0.5, -2.0, 3.0)
    paths = {path: j.item() for path, j in diagnostics.path_products(blocks).items()}
    assert paths == {subset: prod(blocks[i] for i in subset) for n in range(4) for subset in combinations(range(3), n)}
    assert len(paths) == 8
    assert sum(paths.values()) == prod(1 + j for j in blocks)


def test_RES_06_paths_left():
    assert 2**49 == 562_949_953_421_312 == 2**50 // 2


def branch(width, seed):
    tl.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)).double()


def test_RES_07_identity_in_the_jacobian(run):
    f = branch(5, 0)
    x = seeded(5)
    whole = run(lambda x: jacobian(lambda x: x + f(x), x))(x)
    close(whole - jacobian(f, x), tl.eye(5, dtype=tl.float64), 1e-12)


def test_RES_08_the_stream_is_a_sum(run):
    """Pre-norm: the output is the input plus every branch's."""
    branches = [nn.Sequential(nn.LayerNorm(8), branch(8, i)).double() for i in range(4)]

    def forward(x):
        written = []
        for f in branches:
            written.append(f(x))
            x = x + written[-1]
        return x, tl.stack(written)

    x = seeded(3, 8)
    out, written = run(forward)(x)
    close(out, x + written.sum(0), 1e-12)


# What part 1 asks of stacks


def test_jacobians_multiply(run):
    """The end-to-end Jacobian is the product of the layers', last one leftmost."""
    layers = [branch(4, i) for i in range(3)]

    def stack(x):
        for f in layers:
            x = f(x)
        return x

    x = seeded(4)
    whole, product, h = run(lambda x: jacobian(stack, x))(x), tl.eye(4, dtype=tl.float64), x
    for f in layers:
        product, h = jacobian(f, h) @ product, f(h)
    close(whole, product, 1e-10)


def test_all_paths_make_the_jacobian():
    """Every subset of blocks, later ones leftmost: eight products for three linear blocks."""
    blocks = [0.3 * seeded(4, 4, seed=i) for i in range(3)]
    total = sum(diagnostics.path_products(blocks).values())

    def stack(x):
        for block in blocks:
            x = x + block @ x
        return x

    close(total, jacobian(stack, seeded(4)), 1e-12)


class Stack(nn.Module):
    """Tanh layers, each added to its input or not; `skip` leaves blocks out."""

    def __init__(self, depth, width=16, residual=True, gain=0.8):
        super().__init__()
        self.residual, self.skip = residual, ()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        for layer in self.layers:
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            if i not in self.skip:
                x = x + layer(x).tanh() if self.residual else layer(x).tanh()
        return x


def gradient_share(stack, run):
    """Norm of the gradient that arrives at the input, over that at the output."""

    def share(x):
        x = x.detach().requires_grad_(True)
        out = stack(x)
        at_input, at_output = tl.autograd.grad(out.square().mean(), [x, out])
        return at_input.norm() / at_output.norm()

    return run(share)(tl.randn(32, 16)).item()


def test_plain_depth_starves_the_first_layer(run):
    shares = [gradient_share(Stack(depth, residual=False), run) for depth in (5, 20, 50)]
    assert shares[0] > 10 * shares[1] > 100 * shares[2]
    assert gradient_share(Stack(50, gain=0.1), run) > 0.5


def test_depth_contains_the_shallower_net(run):
    """Blocks that write nothing make 50 blocks a 25-block net, to the bit; dropping one costs little."""
    deep = Stack(50, gain=0.1)
    for layer in deep.layers[25:]:
        nn.init.zeros_(layer.weight)
    x = tl.randn(4, 16)
    whole = run(deep)(x)
    deep.skip = tuple(range(25, 50))
    same_bits(run(deep)(x), whole)
    deep.skip = ()


def test_a_dropped_block_hurts_a_plain_stack_more(run):
    def change(stack):
        x = tl.randn(8, 16)
        before = run(stack)(x)
        stack.skip = (10,)
        return ((run(stack)(x) - before).norm() / before.norm()).item()

    assert change(Stack(20, gain=0.1)) < 0.15
    assert change(Stack(20, residual=False, gain=1.0)) > 0.5


def test_identity_is_easy_for_a_residual_block(run):
    block = Stack(1)
    nn.init.zeros_(block.layers[0].weight)
    x = tl.randn(4, 16)
    same_bits(run(block)(x), x)
    block.residual = False
    assert (run(block)(x) - x).abs().amax().item() > 0.5


def test_most_gradient_flows_through_short_paths():
    """With branches of gain a, paths of length k weigh C(L, k) aᵏ: their mean length is L·a / (1 + a)."""
    depth, a = 50, 0.1
    shares = diagnostics.path_shares(depth, a)
    close(sum(k * share for k, share in enumerate(shares)), depth * a / (1 + a), 1e-9)
    close(shares[3] * (1 + a) ** depth, comb(depth, 3) * a**3, rtol=1e-12)
    # counted one by one: of four blocks of slope 0.5 those paths that have each length
    paths = diagnostics.path_products([0.5] * 4)
    weights = [sum(j.item() for path, j in paths.items() if len(path) == k) for k in range(5)]
    close([w / sum(weights) for w in weights], diagnostics.path_shares(4, 0.5), 1e-15)
