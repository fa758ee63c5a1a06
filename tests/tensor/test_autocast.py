"""autocast: which functions convert what, eagerly, under autograd and in captures."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import amp, nn, optim
from tinygrad_lite.utils.checkpoint import checkpoint

RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


M, X, Y = draw(3, 4), draw(2, 3, 4), draw(1, 2, 5, 5)
TARGET = np.array([0, 2, 1])

# Calls of a library on float32 operands: (lib, functional, tensor) → result
LOWERED = {
    "mm": lambda t, F, of: t.mm(of(M), of(M).t()),
    "matmul": lambda t, F, of: of(X) @ of(M).t(),
    "bmm": lambda t, F, of: of(X).bmm(of(X).transpose(1, 2)),
    "addmm": lambda t, F, of: t.addmm(of(M)[:, :3], of(M), of(M).t(), beta=0.5),
    "baddbmm": lambda t, F, of: t.baddbmm(of(X)[:, :, :3], of(X), of(X).transpose(1, 2)),
    "einsum": lambda t, F, of: t.einsum("ij,kj->ik", of(M), of(M)),
    "tensordot": lambda t, F, of: t.tensordot(of(M), of(M).t(), 1),
    "inner": lambda t, F, of: t.inner(of(M), of(M)),
    "multi_dot": lambda t, F, of: t.linalg.multi_dot([of(M), of(M).t(), of(M)]),
    "linear": lambda t, F, of: F.linear(of(X), of(M), of(M)[:, 0]),
    "conv1d": lambda t, F, of: F.conv1d(of(X), of(draw(4, 3, 2)), of(M)[0]),
    "conv2d": lambda t, F, of: F.conv2d(of(Y), of(np.ones((3, 2, 2, 2), np.float32)), padding=1),
    "conv_transpose2d": lambda t, F, of: F.conv_transpose2d(of(Y), of(np.ones((2, 3, 2, 2), np.float32))),
    "attention": lambda t, F, of: F.scaled_dot_product_attention(of(X), of(X), of(X)),
    "prelu": lambda t, F, of: F.prelu(of(M), of(M)[0, :1]),
}
# The same on operands in bfloat16 and in float32.
WIDENED = {
    "cross_entropy": lambda t, F, of: F.cross_entropy(of(M).bfloat16(), t.tensor(TARGET)),
    "nll_loss": lambda t, F, of: F.nll_loss(of(M).bfloat16(), t.tensor(TARGET)),
    "mse_loss": lambda t, F, of: F.mse_loss(of(M).bfloat16(), of(M)),
    "l1_loss": lambda t, F, of: F.l1_loss(of(M).bfloat16(), of(M)),
    "smooth_l1_loss": lambda t, F, of: F.smooth_l1_loss(of(M).bfloat16(), of(M)),
    "bce": lambda t, F, of: F.binary_cross_entropy_with_logits(of(M).bfloat16(), of(M).sigmoid()),
    "prod": lambda t, F, of: of(M).bfloat16().prod(),
    "prod, dim": lambda t, F, of: t.prod(of(M).bfloat16(), dim=1),
    "quantile": lambda t, F, of: t.quantile(of(M).bfloat16(), 0.3),
    "cdist": lambda t, F, of: t.cdist(of(M).bfloat16(), of(M)),
    "inv": lambda t, F, of: t.linalg.inv(t.eye(3).bfloat16()),
    "svdvals": lambda t, F, of: t.linalg.svdvals(of(M).bfloat16()),
    "cat": lambda t, F, of: t.cat([of(M).bfloat16(), of(M)]),
    "stack": lambda t, F, of: t.stack([of(M), of(M).bfloat16()]),
    "index_copy": lambda t, F, of: t.index_copy(of(M), 0, t.tensor([1]), of(M)[:1].bfloat16()),
}
UNTOUCHED = {
    "add": lambda t, F, of: of(M) + of(M),
    "add, mixed": lambda t, F, of: of(M) + of(M).bfloat16(),
    "softmax": lambda t, F, of: F.softmax(of(M).bfloat16(), -1),
    "layer_norm": lambda t, F, of: F.layer_norm(of(M).bfloat16(), (4,)),
    "sum": lambda t, F, of: of(M).bfloat16().sum(),
    "gelu": lambda t, F, of: F.gelu(of(M)),
    "dot": lambda t, F, of: of(M)[0].dot(of(M)[1]),
    "mv": lambda t, F, of: of(M).mv(of(M)[0]),
    "outer": lambda t, F, of: t.outer(of(M)[0], of(M)[1]),
    "bilinear": lambda t, F, of: F.bilinear(of(M), of(M), of(np.ones((2, 4, 4), np.float32))),
    "double": lambda t, F, of: of(M).double() @ of(M).double().t(),
    "embedding": lambda t, F, of: F.embedding(t.tensor(TARGET), of(M)),
    "avg_pool2d": lambda t, F, of: F.avg_pool2d(of(Y).bfloat16(), 2),
}
CALLS = {**LOWERED, **WIDENED, **UNTOUCHED}


def ours(call):
    return call(tl, nn.functional, tl.tensor)


@pytest.mark.parametrize("name", LOWERED)
@pytest.mark.parametrize("dtype", [tl.bfloat16, tl.float16])
def test_products_are_taken_in_16_bits(name, dtype):
    state = RNG.bit_generator.state
    with tl.autocast("cpu", dtype):
        found = ours(LOWERED[name])
    assert found.dtype is dtype
    RNG.bit_generator.state = state
    expected = LOWERED[name](tl, nn.functional, lambda a: tl.tensor(a).to(dtype))
    np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())


@pytest.mark.parametrize("name", WIDENED)
def test_others_are_computed_in_float32(name):
    with tl.autocast("cpu"):
        assert ours(WIDENED[name]).dtype is tl.float32


@pytest.mark.torch
@pytest.mark.parametrize("name", CALLS)
def test_against_torch(name):
    torch = pytest.importorskip("torch")
    state = RNG.bit_generator.state
    with torch.autocast("cpu", torch.bfloat16):
        expected = CALLS[name](torch, torch.nn.functional, torch.tensor)
    RNG.bit_generator.state = state
    with tl.autocast("cpu", tl.bfloat16):
        found = ours(CALLS[name])
    assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
    rough = found.dtype is tl.bfloat16 or name in WIDENED
    np.testing.assert_allclose(found.float().numpy(), expected.float().numpy(), rtol=0.02 if rough else 1e-5, atol=0.02)


MODULES = {
    "LSTM": (lambda n: n.LSTM(4, 5, 2, bidirectional=True), X),
    "GRU": (lambda n: n.GRU(4, 5), X),
    "RNN": (lambda n: n.RNN(4, 5), X),
    "LSTMCell": (lambda n: n.LSTMCell(4, 5), M),
    "Conv2d": (lambda n: n.Conv2d(2, 3, 2), Y),
    "BatchNorm": (lambda n: n.Sequential(n.Conv2d(2, 3, 2, bias=False), n.BatchNorm2d(3), n.ReLU()), Y),
    "TransformerEncoderLayer": (lambda n: n.TransformerEncoderLayer(4, 2, 8, dropout=0.0), X),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", MODULES)
def test_modules_against_torch(name):
    """Results, and the parameters' gradients, which keep float32."""
    torch = pytest.importorskip("torch")
    if name == "LSTM" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("PyTorch has no bfloat16 LSTM for this CPU")
    make, x = MODULES[name]
    theirs, mine = make(torch.nn), make(nn)
    mine.load_state_dict({key: value.numpy().copy() for key, value in theirs.state_dict().items()})
    outputs = []
    for lib, model in ((torch, theirs), (tl, mine)):
        with lib.autocast("cpu", lib.bfloat16):
            out = model(lib.tensor(x))
        out = out[0] if isinstance(out, tuple) else out
        outputs.append(out)
        (out.float() ** 2).sum().backward()
    expected, found = outputs
    assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_allclose(found.detach().float().numpy(), expected.detach().float().numpy(), rtol=0.05, atol=0.05)
    for (key, p), (_, q) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        assert p.grad.dtype is tl.float32
        scale = q.grad.abs().max().item()
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=0.05 * scale + 1e-3, err_msg=key)


def test_blocks_nest_and_end():
    a = tl.tensor(M)

    def dtype():
        return (a @ a.t()).dtype

    assert dtype() is tl.float32
    with tl.autocast("cpu"):
        assert dtype() is tl.bfloat16 and tl.is_autocast_enabled("cpu") and tl.is_autocast_cpu_enabled()
        with tl.autocast("cpu", enabled=False):
            assert dtype() is tl.float32 and not tl.is_autocast_enabled("cpu")
        with tl.autocast("cpu", tl.float16):
            assert dtype() is tl.float16 is tl.get_autocast_dtype("cpu")
        assert dtype() is tl.bfloat16
        others = []
        thread = threading.Thread(target=lambda: others.append(dtype()))
        thread.start()
        thread.join()
        assert others == [tl.float32]
    with pytest.raises(ZeroDivisionError), tl.autocast("cpu"):
        raise ZeroDivisionError
    assert dtype() is tl.float32 and not tl.is_autocast_enabled("cpu")
    assert tl.get_autocast_dtype("cpu") is tl.bfloat16 is tl.get_autocast_cpu_dtype()
    assert amp.autocast is tl.autocast and amp.is_autocast_available("cpu") and not amp.is_autocast_available("cuda")


def test_as_a_decorator():
    @tl.autocast("cpu", dtype=tl.float16)
    def product(a):
        """Doc."""
        return a @ a.t()

    assert product(tl.tensor(M)).dtype is tl.float16 and product.__doc__ == "Doc."
    assert not tl.is_autocast_enabled("cpu")


def test_what_is_not_there_is_disabled_with_a_warning():
    a = tl.tensor(M)
    for make in (lambda: tl.autocast("cuda"), lambda: tl.autocast("cpu", tl.float32)):
        with pytest.warns(UserWarning, match="autocast is disabled"):
            block = make()
        with block:
            assert (a @ a.t()).dtype is tl.float32
    with tl.autocast("cpu"), tl.autocast("cuda", enabled=False):
        assert (a @ a.t()).dtype is tl.bfloat16 and not tl.is_autocast_enabled()
    for ask in (tl.autocast, tl.get_autocast_dtype, tl.is_autocast_enabled):
        with pytest.raises(RuntimeError, match=r"must be one of cpu, .* not 'tpu'"):
            ask("tpu")


def model() -> nn.Module:
    tl.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))


@pytest.mark.parametrize("around", ["the product", "the call"])
def test_compiled_steps_are_as_eager_ones(around):
    found = []
    for compiled in (False, True):
        net = model()
        optimizer = optim.AdamW(net.parameters(), lr=0.05)
        inside = around == "the product"

        def step(x, y, net=net, optimizer=optimizer, inside=inside):
            with tl.autocast("cpu", enabled=inside or tl.is_autocast_enabled("cpu")):
                out = net(x)
                loss = nn.functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss, out

        run = tl.compile(step) if compiled else step
        losses = []
        for _ in range(5):
            with tl.autocast("cpu", enabled=not inside):
                loss, out = run(tl.tensor(M), tl.tensor(TARGET))
            assert out.dtype is tl.bfloat16 and loss.dtype is net[0].weight.dtype is tl.float32
            losses.append(loss.item())
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=2e-2)
    assert found[1][-1] < found[1][0] and sum(map(len, run._captures.values())) == 1


def test_the_state_is_part_of_a_capture():
    run = tl.compile(lambda a: a @ a.t())
    a = tl.tensor(M)
    dtypes = []
    for enabled in (False, True, False, True):
        with tl.autocast("cpu", enabled=enabled):
            dtypes.append(run(a).dtype)
    assert dtypes == [tl.float32, tl.bfloat16] * 2
    assert sum(map(len, run._captures.values())) == 2


def test_segments_are_recomputed_as_they_were():
    gradients = []
    for segments in (False, True):
        net = model()
        with tl.autocast("cpu"):
            out = checkpoint(net, tl.tensor(M)) if segments else net(tl.tensor(M))
        out.float().sum().backward()
        gradients.append(net[0].weight.grad.numpy())
    np.testing.assert_array_equal(gradients[1], gradients[0])


def test_scaled_losses_under_float16():
    net = model()
    optimizer, scaler = optim.SGD(net.parameters(), lr=0.1), amp.GradScaler(init_scale=2.0**10)
    losses = []
    for _ in range(6):
        with amp.autocast("cpu", tl.float16):
            loss = nn.functional.cross_entropy(net(tl.tensor(M)), tl.tensor(TARGET))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0] and scaler.get_scale() == 2.0**10


class Product(tl.autograd.Function):
    @staticmethod
    @amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        left = g @ b.t()
        Product.seen = left.dtype
        return left.float(), (a.t() @ g).float()


class Wide(tl.autograd.Function):
    @staticmethod
    @amp.custom_fwd(device_type="cpu", cast_inputs=tl.float32)
    def forward(ctx, a, b):
        return a @ b

    @staticmethod
    @amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return g, g


def test_functions_run_backward_as_forward():
    a = tl.tensor(M[:, :3], requires_grad=True)
    for enabled, dtype in ((True, tl.bfloat16), (False, tl.float32)):
        with tl.autocast("cpu", enabled=enabled):
            out = Product.apply(a, a)
        assert out.dtype is dtype
        out.float().sum().backward()
        assert Product.seen is dtype
    with tl.autocast("cpu"):
        assert Wide.apply(a.bfloat16(), a).dtype is tl.float32
    with pytest.raises(RuntimeError, match="not 'tpu'"):
        amp.custom_fwd(lambda ctx: ctx, device_type="tpu")
