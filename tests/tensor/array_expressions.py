"""Movement, indexing and linear algebra as tables of expressions, written for any library with PyTorch's names.

test_array_expressions.py compares them with PyTorch, compiled with eager, and the errors with PyTorch's.
"""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)

# ---- movement and indexing: f(t, F, x, y, v, s) on float32 leaves of these shapes -------------------------------

SMALL = {
    "x": RNG.normal(size=(3, 4)).astype(np.float32),
    "y": RNG.normal(size=(2, 3, 4)).astype(np.float32),
    "v": np.arange(5, dtype=np.float32) + 0.5,
    "s": RNG.normal(size=(4, 4)).astype(np.float32),
}
INDEX = [[1, 0, 2, 1], [2, 2, 0, 0]]
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _written_views(t, F, x, y, v, s):
    c = x.clone()
    c.diagonal().mul_(v[:3])
    c.select(1, 2).add_(v[:3])
    c.narrow(0, 1, 2).mul_(2)
    c.unfold(1, 2, 2)[0].mul_(3)
    c.reshape(2, 6).swapaxes(0, 1)[1:3].flatten(0).add_(9)  # flatten copies here
    return c


def _written_pieces(t, F, x, y, v, s):
    """PyTorch lets nobody write to one of several views that autograd follows."""
    c = x.detach().clone()
    c.unbind(0)[0].add_(1)
    c.split(2)[1].t().add_(0.5)
    c.chunk(2, 1)[1].neg_()
    c.tensor_split(2, 1)[0].squeeze().mul_(1.5)
    c.hsplit(2)[1].diagonal().fill_(7)
    return c + x


def _written_masks(t, F, x, y, v, s):
    c, d = x * 1, y * 1
    c[c > 0] = 0.5
    c[:, t.tensor([True, False, True, False])] = v[0]
    c[t.tensor([False, True, False])] = -1.0
    d[0, d[0] > 0] = 2.0
    d[:, x > 1] = v[:0].sum()
    d[t.tensor([True, False])] = s[:3]
    d[..., t.tensor([True, False, True, True]), None] = 7.0
    d[:, t.tensor([False, True, False])] = v[:4]
    return c + d


def _written_indices(t, F, x, y, v, s):
    c = y * 1
    c[t.tensor([0]), t.tensor([1])] = x[:1]
    c[:, [0, 2], 1] = v[:2]
    c[1, [0, 0], [1, 2]] = v[1:3]
    c[t.tensor(1), :, t.tensor([3])] = v[:1]
    return c


def _written_in_place(t, F, x, y, v, s):
    c = x.clone()
    c.index_add_(0, t.tensor([1, 1]), s[:2])
    c.scatter_(1, t.tensor([[0], [1], [2]]), 9.0)
    c.index_fill_(0, t.tensor([0]), -1)
    c.masked_scatter_(c > 1, s)
    c.put_(t.tensor([3]), v[:1])
    c.index_put_((t.tensor([1]),), v[:4])
    c.index_copy_(1, t.tensor([0]), s[:3, :1])
    c.scatter_reduce_(0, t.tensor([[0, 0, 1, 2]]), s[:1], "amax")
    return c


MOVEMENT = {
    "diagonal": lambda t, F, x, y, v, s: x.diagonal() + y.diagonal(1, 1, 2).sum() + y.diagonal(-1, 2, 0).sum(),
    "diagonal of others": lambda t, F, x, y, v, s: t.cat([x.diagonal(7), y.transpose(0, 2).diagonal(0, 1, 0)[0]]),
    "flips": lambda t, F, x, y, v, s: t.fliplr(x) + t.flipud(x) * 2 + x.flip(0, 1) + x.flip((-1,)),
    "rot90": lambda t, F, x, y, v, s: t.rot90(y, 1, (1, 2)).sum(2) + y.rot90(-1, (2, 0)).sum(1).t() + y.rot90(2).sum(),
    "roll": lambda t, F, x, y, v, s: y.roll((1, -5), (0, 2)) + y.roll(3) + y.roll(-1, 1),
    "stacks": lambda t, F, x, y, v, s: t.dstack([x, x * 2])[..., 1] + t.hstack([x, x])[:, 2:6] + t.vstack([x, x])[1:4],
    "stacks of vectors": lambda t, F, x, y, v, s: (
        t.column_stack([v, v * 2, t.stack([v, v], 1)])[:, 2]
        + t.hstack([v, v[0]])[1:]
        + t.vstack([v, v[None] * 3])[1]
        + t.dstack([v, v])[0, :, 1]
    ),
    "tensor_split": lambda t, F, x, y, v, s: t.cat(
        [p * i for i, p in enumerate((*v.tensor_split(3), *v.tensor_split((1, 3, 9)), *v.tensor_split((3, 1))), 1)]
    ),
    "other splits": lambda t, F, x, y, v, s: (
        x.hsplit(2)[1] * t.vsplit(x, 3)[0][:, :2] + (y.dsplit(2)[1] + y.split([1, 3], 2)[0])[0]
    ),
    "chunk": lambda t, F, x, y, v, s: (
        t.cat([p * i for i, p in enumerate(v.chunk(4), 1)]) * v.split_with_sizes([2, 3])[1][0]
    ),
    "atleast": lambda t, F, x, y, v, s: (
        (t.atleast_1d(v[0]) + t.atleast_2d(v) + t.atleast_3d(v[:4].reshape(2, 2)))
        * t.cat([a.reshape(-1) for a in t.atleast_3d(v[0], x)]).sum()
    ),
    "meshgrid": lambda t, F, x, y, v, s: sum(
        g * (i + 1) for i, g in enumerate(t.meshgrid(v, v[:2], v[0], indexing="xy"))
    ),
    "products of vectors": lambda t, F, x, y, v, s: t.cartesian_prod(v, v[:3]).sum(0) + t.cartesian_prod(v)[0],
    "combinations": lambda t, F, x, y, v, s: t.combinations(v, 3).sum(0)[:2] + t.combinations(v, 2, True).mean(0),
    "block_diag": lambda t, F, x, y, v, s: t.block_diag(x, v, v[0]),
    "diag_embed": lambda t, F, x, y, v, s: (
        t.diag_embed(x, 1).sum(0) + t.diag_embed(x, -1, 0, 2).sum(1) + t.diag_embed(x, 1, 2, 0).sum(1)
    ),
    "diag": lambda t, F, x, y, v, s: v.diag(-2)[1:6, 1:6] + t.diagflat(x[:2, :2], -1) + x.diag(1).sum() + x.trace(),
    "scatters of views": lambda t, F, x, y, v, s: (
        t.diagonal_scatter(s, v[:3], 1)[:3]
        + t.select_scatter(x, v[:4], 0, -1)
        + t.slice_scatter(x, x[:, :2] * 3, 1, 0, None, 2)
    ),
    "unfold": lambda t, F, x, y, v, s: (
        y.unfold(2, 2, 1)[..., 1] * 3 + y.unfold(1, 2, 2).sum() + v.unfold(0, 3, 1).sum()
    ),
    "repeat_interleave": lambda t, F, x, y, v, s: (
        t.repeat_interleave(x, 3, 1)[:, 4:8] + x.repeat_interleave(2)[:12].reshape(3, 4)
    ),
    "repeat_interleave by counts of known sum": lambda t, F, x, y, v, s: x.repeat_interleave(
        t.tensor([2, 0, 1]), 0, output_size=3
    ),
    "repeat_interleave by counts": lambda t, F, x, y, v, s: (
        t.repeat_interleave(x, t.tensor([2, 0, 1]), 0)
        + x.repeat_interleave(t.tensor([2]), dim=1)[:, 3:7]
        + v[t.repeat_interleave(t.tensor([2, 0, 2]))]
    ),
    "pad reflect": lambda t, F, x, y, v, s: (
        F.pad(y, (2, 1), mode="reflect").sum() + F.pad(y[None], (1, 2, 2, 1), mode="reflect")
    ),
    "pad replicate": lambda t, F, x, y, v, s: (
        F.pad(y, (5, 1), mode="replicate").mean() + F.pad(y[None], (1, 0, 0, 2, 1, 1), mode="replicate")
    ),
    "pad circular": lambda t, F, x, y, v, s: (
        F.pad(y[None], (3, 2, 1, 0), mode="circular") * F.pad(x, (4, 2), mode="circular").sum()
    ),
    "pad by less than nothing": lambda t, F, x, y, v, s: (
        F.pad(y, (-1, 2), mode="reflect") + F.pad(y, (2, -1), mode="replicate") + F.pad(y, (-1, 2, 0, 0), value=-3.5)
    ),
    "transposes": lambda t, F, x, y, v, s: t.adjoint(y) + y.mH + y.mT + y.movedim((0, 2), (0, 1)) * 2,
    "transposes of matrices": lambda t, F, x, y, v, s: x.H + x.T + x.t() + t.swapaxes(x, 0, -1) + x.swapdims(1, 0),
    "shapes": lambda t, F, x, y, v, s: (
        t.tile(y, (2, 1)).view(2, -1, 4)[:, :3]
        + x.unflatten(1, (2, -1)).flatten(1)
        + y.view_as(y).ravel().reshape_as(y)
    ),
    "broadcasts": lambda t, F, x, y, v, s: sum(t.broadcast_tensors(x, y, v[1:])) + t.broadcast_to(v[:4], y.shape),
    "writes through views": _written_views,
    "writes through pieces": _written_pieces,
}
INDEXING = {
    "gather": lambda t, F, x, y, v, s: x.gather(0, t.tensor(INDEX)) + x.gather(1, t.tensor(INDEX)),
    "take_along_dim": lambda t, F, x, y, v, s: (
        t.take_along_dim(x, t.tensor([[-1, 2]]), 1).sum(0) + t.take_along_dim(x, t.tensor([3, 0]))
    ),
    "argsort": lambda t, F, x, y, v, s: t.take_along_dim(x, x.argsort(dim=1, descending=True), 1),
    "index_select": lambda t, F, x, y, v, s: (
        y.index_select(1, t.tensor([2, 0, 2])) + v[0].index_select(0, t.tensor([0])) + x.index_select(0, t.tensor(1))
    ),
    "scatter": lambda t, F, x, y, v, s: (
        x.scatter(0, t.tensor([[1, 0, 2, 1], [2, 1, 0, 0]]), s[:2])
        + x.scatter(1, t.tensor([[1], [0], [3]]), 2.5) * x.scatter(1, t.tensor([[1], [0], [3]]), value=1.5)
    ),
    "scatter_add": lambda t, F, x, y, v, s: (
        x.scatter_add(0, t.tensor(INDEX), s[1:3]) * x + v[0].scatter_add(0, t.tensor(0), v[1])
    ),
    **{
        f"scatter_reduce {how}, {what}": lambda t, F, x, y, v, s, how=how, what=what: (
            x.scatter_reduce(0, t.tensor(INDEX), s[:2], how, include_self=what == "with self") * x
        )
        for how in REDUCTIONS
        for what in ("with self", "alone")
    },
    "index_add": lambda t, F, x, y, v, s: x.index_add(1, t.tensor([0, 0]), s[:3, :2], alpha=-2),
    "index_copy": lambda t, F, x, y, v, s: x.index_copy(0, t.tensor([2, 0]), s[:2]) * 2,
    "index_fill": lambda t, F, x, y, v, s: x.index_fill(1, t.tensor([0, -1]), 3.0) + x.index_fill(0, t.tensor(1), v[0]),
    "take": lambda t, F, x, y, v, s: x.take(t.tensor([[0, -1], [5, 5]])),
    "put": lambda t, F, x, y, v, s: (
        x.put(t.tensor([[0, -1], [5, 7]]), s[:2, :2]) * x.put(t.tensor([1, 1]), v[:2], accumulate=True)
    ),
    "index_put": lambda t, F, x, y, v, s: (
        x.index_put((t.tensor([0, 2, 0]), t.tensor([1, -1, 1])), v[:3], accumulate=True)
        + x.index_put((t.tensor([0]),), v[0])
    ),
    "index_put by a mask": lambda t, F, x, y, v, s: x.index_put((t.tensor([True, False, True]),), v[:4]),
    "masked_select": lambda t, F, x, y, v, s: t.masked_select(y, x > 0),
    "masked_scatter": lambda t, F, x, y, v, s: x.masked_scatter(x > 0, y) + y.masked_scatter(x > 0, s.repeat(2, 1)),
    "sort": lambda t, F, x, y, v, s: y.sort(1)[0] + y.sort(-1, descending=True)[0] * 2 + t.msort(y),
    "kthvalue": lambda t, F, x, y, v, s: x.kthvalue(2, 0)[0] + t.kthvalue(y, 3, 1, keepdim=True)[0] * 2,
    "topk": lambda t, F, x, y, v, s: y.topk(2, 1)[0] + y.topk(2, 1, largest=False)[0] * 3 + v[1].topk(1)[0],
    "advanced": lambda t, F, x, y, v, s: (
        (y[:, t.tensor([0, 2]), t.tensor([1, -1])] + y[t.tensor([1, 0]), :, t.tensor([1, 1])][:, :2])
        * (y[0, t.tensor([[0], [2]])] + y[..., t.tensor([0, 1, 2, 3])][0, 1]).sum()
        * y[t.tensor([1]), :, None, t.tensor([2])].sum()
    ),
    "embedding": lambda t, F, x, y, v, s: F.embedding(t.tensor([[0, 2], [1, 1]]), x),
    "histograms": lambda t, F, x, y, v, s: t.histc(x.detach(), 7) + t.histc(x.detach(), 7, -1, 1) + v[0],
    "histogram": lambda t, F, x, y, v, s: (
        t.histogram(x.detach(), 5)[0]
        + t.histogram(x.detach(), t.tensor([-1.0, -0.5, 0, 0.1, 0.2, 0.4]), weight=x.detach().abs(), density=True)[0]
        + t.histogram(x.detach(), 5, range=(-1.0, 2.0), density=True)[0]
        + t.histogram(x.detach(), 5)[1][1:]
        + v[0]
    ),
    "assigned by masks": _written_masks,
    "assigned by indices": _written_indices,
    "in place": _written_in_place,
}
#: What reads values, and so cannot be captured.
EAGER_ONLY = {"repeat_interleave by counts", "index_put by a mask", "masked_select"}

# ---- contractions and linear algebra: f(t, F, x, y, v, s, b) on float64 leaves ----------------------------------

MATRICES = {
    "x": RNG.normal(size=(3, 4)),
    "y": RNG.normal(size=(2, 4, 5)),
    "v": RNG.normal(size=(4,)),
    "s": RNG.normal(size=(2, 4, 4)),
    "b": RNG.normal(size=(2, 4, 3)),
}
INF = float("inf")


def _positive(t, s):
    return s @ s.mT + t.eye(4, dtype=t.float64)


def _dominant(t, s):
    return s + 4 * t.eye(4, dtype=t.float64)


def _svd(t, F, x, y, v, s, b):
    u, values, vh = t.linalg.svd(s)
    return u.abs() + vh.abs() + values[:, None]


def _svd_wide(t, F, x, y, v, s, b):
    u, values, vh = t.linalg.svd(y, full_matrices=False)
    return (u * values[:, None] ** 2) @ vh


def _eigh(t, F, x, y, v, s, b):
    low, high = t.linalg.eigh(s + s.mT), t.linalg.eigh(s + s.mT, "U")
    return low[0][:, None] + low[1].abs() * high[1].abs() + high[0][:, None]


CONTRACTIONS = {
    "inner": lambda t, F, x, y, v, s, b: t.inner(x, s)[:, 0] + t.inner(v, v) + (t.inner(v[0], x) @ v)[:, None],
    "vectors": lambda t, F, x, y, v, s, b: (
        t.vdot(v, v) + v.dot(v) + t.ger(v, v) + t.outer(v, x[:, 0]).sum() + (s.mT @ v @ v).sum()
    ),
    "addmm": lambda t, F, x, y, v, s, b: (
        t.addmm(y[0, 0], x, y[1], beta=0.5, alpha=2) + t.addmm(y[0, 0], x, y[1], beta=0) + t.addmm(v[0], x, y[0])
    ),
    "addmv addr": lambda t, F, x, y, v, s, b: t.addmv(x[:, 0], x, v, alpha=3)[:, None] + x.addr(x[:, 0], v, beta=2),
    "baddbmm": lambda t, F, x, y, v, s, b: t.baddbmm(b, s, b, alpha=0.5) + t.addbmm(b[0], s, b, beta=3),
    "chains": lambda t, F, x, y, v, s, b: (
        t.linalg.multi_dot([x, s[0], s[1], b[0]])
        + t.linalg.multi_dot([v, s[0], s[1], v])
        + t.linalg.multi_dot([v, s[0]])[:3]
        + t.linalg.multi_dot([x, v])
    ),
    "einsum": lambda t, F, x, y, v, s, b: (
        t.einsum("ij,bjk->bik", x, y).sum()
        + t.einsum("i,j->ji", v, v)
        + t.einsum("ij->", x)
        + t.einsum("b...->...b", y).sum()
        + t.einsum("ij,ij->ij", x, x[:1]).sum()
        + t.einsum("ij,k->", x, v)
    ),
    "einsum diagonals": lambda t, F, x, y, v, s, b: (
        t.einsum("bii->bi", s).sum(0)
        + t.einsum("bii", s).sum()
        + t.einsum("iii->i", t.stack([s[0]] * 4))
        + t.einsum("ii,ij,jj->j", s[0], s[1], s[0])
    ),
    "einsum ellipsis": lambda t, F, x, y, v, s, b: (
        t.einsum("...ij,...jk", s, b).sum()
        + t.einsum("...i,...i->...", y, y[0])
        + t.einsum("i...,i->...", s, v[:2]).sum()
    ),
    "einsum of many": lambda t, F, x, y, v, s, b: (
        t.einsum("ij,bjk,bjl,bl->ik", x, y, s, s[:, 0])
        + t.einsum("a,a,a,a->a", v, v, v, v)[:3, None]
        + t.einsum("bA,Ab,a->a", s[0], s[1], v).sum()
        + t.einsum("bij,bjk->bk", s, s[:1]).sum()
    ),
    "einsum sublists": lambda t, F, x, y, v, s, b: (
        t.einsum(x, [0, 1], y, [2, 1, 3], [2, 3, 0]).sum()
        + t.einsum(y, [..., 1], y, [..., 1])
        + t.einsum("ij,ik->kj", [x[:, :1], x]).sum()
        + t.einsum("bhqd,bhkd->bhqk", s[None], s[None]).sum()
    ),
    "tensordot": lambda t, F, x, y, v, s, b: (
        t.tensordot(s, s.transpose(0, 2), 2).sum()
        + t.tensordot(x, y, ([1], [1]))
        + t.tensordot(v, v, 0).sum()
        + t.tensordot(y, y, dims=([0, 1], [0, 1])).sum()
        + t.tensordot(x, y[:, :1], ([1], [1]))
    ),
    "kron": lambda t, F, x, y, v, s, b: t.kron(x, y) * t.kron(v[0], x).sum(),
    "cross": lambda t, F, x, y, v, s, b: (
        t.cross(x[:, :1], x[:, 1:2], dim=0) + t.linalg.cross(x[:, :3], v[None, :3]).sum() + t.linalg.vecdot(s, v).sum()
    ),
    **{
        f"cdist {p}": lambda t, F, x, y, v, s, b, p=p: t.cdist(s, b.mT, p).sum(0) + t.cdist(x, x, p).sum()
        for p in (0.0, 1.0, 1.5, 2.0, 3.0, INF)
    },
    "cov": lambda t, F, x, y, v, s, b: (
        x.cov()
        + t.cov(v)
        + t.corrcoef(x)
        + t.corrcoef(v).nan_to_num()
        + t.cov(
            x, correction=0, fweights=t.tensor([1, 2, 3, 1]), aweights=t.tensor([0.1, 0.2, 0.3, 0.5], dtype=t.float64)
        )
        + t.cov(x, aweights=t.tensor([0.1, 0.2, 0.3, 0.5], dtype=t.float64))
    ),
    "bilinear": lambda t, F, x, y, v, s, b: F.bilinear(x, x[:, :2], t.stack([s[0, :, :2], s[1, :, :2]]), v[:2]),
}
LINALG = {
    "det": lambda t, F, x, y, v, s, b: t.det(s) + t.linalg.det(s[0]) + s.det()[0],
    "slogdet": lambda t, F, x, y, v, s, b: t.slogdet(s)[1] * s.slogdet()[0].detach() + t.logdet(_positive(t, s)),
    "inverse": lambda t, F, x, y, v, s, b: t.inverse(s) + t.linalg.inv(s) + s.inverse(),
    "solve": lambda t, F, x, y, v, s, b: (
        t.linalg.solve(s, b)
        + t.linalg.solve(s, v)[:, :, None]
        + t.linalg.solve(s, b[:, :, 0])[..., None]
        + t.linalg.solve(s, b.mT, left=False).mT
        + t.linalg.solve(s, b[0])
    ),
    "solve_triangular": lambda t, F, x, y, v, s, b: (
        t.linalg.solve_triangular(_dominant(t, s), b, upper=True)
        + t.linalg.solve_triangular(s, b.mT, upper=False, left=False, unitriangular=True).mT
    ),
    "cholesky": lambda t, F, x, y, v, s, b: (
        t.linalg.cholesky(_positive(t, s)) + t.cholesky(_positive(t, s), upper=True)
    ),
    "cholesky_solve": lambda t, F, x, y, v, s, b: (
        t.cholesky_solve(b, t.linalg.cholesky(_positive(t, s)))
        + t.cholesky_solve(b, t.linalg.cholesky(_positive(t, s), upper=True), upper=True)
        + t.cholesky_inverse(t.linalg.cholesky(_positive(t, s))).sum()
    ),
    "qr": lambda t, F, x, y, v, s, b: t.linalg.qr(s)[0].abs() + t.linalg.qr(s)[1].abs(),
    "qr of others": lambda t, F, x, y, v, s, b: (
        t.linalg.qr(y)[1].abs().sum() + t.linalg.qr(b)[0].abs() + t.linalg.qr(y, "complete")[0].abs().sum()
    ),
    "svd": _svd,
    "svd, wide": _svd_wide,
    "svd, tall": lambda t, F, x, y, v, s, b: t.linalg.svd(b, full_matrices=False)[0].abs() + t.svd(b)[2].abs().sum(),
    "svd, values": lambda t, F, x, y, v, s, b: (
        t.linalg.svd(b)[1] + t.linalg.svd(t.eye(3, dtype=t.float64) * v[:3].sum())[1] + t.linalg.svdvals(y)[:, :3]
    ),
    "eigh": _eigh,
    "eigvalsh": lambda t, F, x, y, v, s, b: t.linalg.eigvalsh(s + s.mT),
    "pinv": lambda t, F, x, y, v, s, b: (
        t.linalg.pinv(y)[:, :4] + t.pinverse(b).sum() + t.linalg.pinv(s + s.mT, hermitian=True)
    ),
    "pinv of less than full rank": lambda t, F, x, y, v, s, b: t.linalg.pinv(x.detach().mT @ x.detach()) + v,
    "lstsq": lambda t, F, x, y, v, s, b: (
        t.linalg.lstsq(b, s)[0] + t.linalg.lstsq(y, s)[0].sum() + t.linalg.lstsq(b, s)[2].sum()
    ),
    "lstsq, residuals": lambda t, F, x, y, v, s, b: (
        t.linalg.lstsq(b.detach(), s.detach(), driver="gelsd")[1].sum()
        + t.linalg.lstsq(b.detach(), s.detach(), driver="gelsd")[3].sum()
        + v
    ),
    **{
        f"matrix_norm {ord}": lambda t, F, x, y, v, s, b, ord=ord: (
            t.linalg.matrix_norm(y, ord)
            + t.linalg.matrix_norm(y, ord, keepdim=True).flatten()
            + t.linalg.matrix_norm(y, ord, (0, -1)).sum()
        )
        for ord in ("fro", "nuc", 1, -1, 2, -2, INF, -INF)
    },
    **{
        f"vector_norm {ord}": lambda t, F, x, y, v, s, b, ord=ord: (
            t.linalg.vector_norm(y, ord, dim=(0, 2)) + t.linalg.vector_norm(y, ord)
        )
        for ord in (0, 1, 2, 3, 0.5, -1, -2, INF, -INF)
    },
    "norm": lambda t, F, x, y, v, s, b: (
        t.linalg.norm(y)
        + t.linalg.norm(x, "nuc")
        + t.linalg.norm(v, 1)
        + t.linalg.norm(y, dim=2, ord=3)[0]
        + t.linalg.norm(y, 2, (1, 2), True)[0, 0]
    ),
    "norm of nothing": lambda t, F, x, y, v, s, b: (
        t.linalg.vector_norm(x * 0) + t.linalg.vector_norm(x * 0, 3) + t.linalg.norm(v * 0)
    ),
    "rank": lambda t, F, x, y, v, s, b: (
        t.linalg.matrix_rank(x)
        + t.linalg.matrix_rank(x.mT @ x)
        + t.linalg.matrix_rank(s + s.mT, hermitian=True)
        + t.linalg.matrix_rank(x, atol=2.0)
        + v[0]
    ),
    "powers": lambda t, F, x, y, v, s, b: t.matrix_power(s, 5) + t.linalg.matrix_power(s, -2) + s.matrix_power(0),
    "exp": lambda t, F, x, y, v, s, b: t.matrix_exp(s) + t.linalg.matrix_exp(s * 3),
    "cond": lambda t, F, x, y, v, s, b: t.linalg.cond(s) + t.linalg.cond(s, -2),
    "householder": lambda t, F, x, y, v, s, b: (
        t.linalg.householder_product(s, s[..., 0])
        + t.linalg.householder_product(s[..., :3] * 0.5, s[..., 1, :2] * 0.5).sum()
        + t.linalg.householder_product(s, s[..., 0] * 0)
    ),
    "tensors": lambda t, F, x, y, v, s, b: (
        t.linalg.tensorinv(s[0].reshape(2, 2, 4)).sum()
        + t.linalg.tensorsolve(s[0].reshape(2, 2, 4), x[:2, :2])
        + t.linalg.vander(x, N=3).sum()
        + t.linalg.diagonal(s, offset=1).sum()
        + t.trace(s[0])
    ),
    "empty": lambda t, F, x, y, v, s, b: (
        t.det(s[:, :0, :0])
        + t.linalg.inv(s[:0]).sum()
        + t.linalg.pinv(s[:, :, :0]).sum()
        + t.linalg.cholesky(s[:, :0, :0]).sum()
        + t.einsum("ij,jk->ik", x[:, :0], x[:0]).sum()
        + t.linalg.svdvals(s[:0]).sum()
    ),
}
LINALG_EAGER_ONLY = {"lstsq, residuals"}
