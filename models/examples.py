"""Example inputs of every preset: what its forward pass takes, and a batch with the loss that it is trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tinygrad_lite as tl
from tinygrad_lite.models import autoencoder, charrnn, dit, encoder, fpn, gpt, llama, mlp, resnet, t5, unet, vgg, vit
from tinygrad_lite.nn import Module
from tinygrad_lite.nn import functional as F
from tinygrad_lite.tensor import Tensor

TOKENS = 64  # at most, where a model takes sequences of any length


class Example(NamedTuple):
    """`model(*inputs)` is a forward pass, `loss(model, *batch)` what a training step lowers."""

    inputs: tuple[Tensor, ...]
    batch: tuple[Tensor, ...]
    loss: Callable[..., Tensor]


def example(model: Module, batch: int = 1) -> Example:
    """An Example of `batch` inputs for a model of this zoo: ones of the right shapes, each tensor its own.

    Raises:
        TypeError: a model of another kind.
    """
    for kind, make in _KINDS.items():
        if isinstance(model, kind):
            return make(model.config, batch)
    raise TypeError(f"no example input is known for a {type(model).__name__}")


def _ids(*shape: int) -> Tensor:
    return tl.ones(shape, dtype=tl.int64)


def _classes(model: Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def _second(model: Module, *batch: Tensor) -> Tensor:
    return model(*batch)[1]


def _labelled(x: Tensor, *grid: int) -> Example:
    return Example((x,), (x, _ids(x.shape[0], *grid)), _classes)


def _tokens(batch: int, length: int) -> Example:
    return Example((_ids(batch, length),), (_ids(batch, length), _ids(batch, length)), _second)


def _side(config: resnet.ResNetConfig) -> int:
    return 32 if config.stem == "cifar" else 224


def _mlp(config: Any, batch: int) -> Example:
    return _labelled(tl.ones(batch, config.sizes[0]))


def _square(config: Any, batch: int) -> Example:
    return _labelled(tl.ones(batch, config.in_channels, config.image, config.image))


def _resnet(config: Any, batch: int) -> Example:
    return _labelled(tl.ones(batch, config.in_channels, _side(config), _side(config)))


def _unet(config: Any, batch: int) -> Example:
    side = 4 * 2 ** len(config.channels)
    return _labelled(tl.ones(batch, config.in_channels, side, side), side, side)


def _fpn(config: Any, batch: int) -> Example:
    side = _side(config.backbone)
    return _labelled(tl.ones(batch, config.backbone.in_channels, side, side), side, side)


def _t5(config: Any, batch: int) -> Example:
    shape = (batch, min(TOKENS, config.block_size))
    return Example((_ids(*shape), _ids(*shape)), (_ids(*shape), _ids(*shape)), lambda m, x, y: m(x, m.shifted(y), y)[1])


def _dit(config: Any, batch: int) -> Example:
    shape = (batch, config.channels, config.image, config.image)
    inputs = (tl.ones(shape), _ids(batch), _ids(batch))
    noise = (tl.ones(shape), *inputs[1:])
    return Example(inputs, (tl.ones(shape), *noise), lambda m, x, e, t, y: F.mse_loss(m(m.noised(x, t, e), t, y), e))


def _autoencoder(config: Any, batch: int) -> Example:
    x = tl.ones(batch, config.in_channels, config.image, config.image)
    return Example((x,), (x,), _second)


_KINDS: dict[type[Module], Callable[[Any, int], Example]] = {
    mlp.MLP: _mlp,
    vgg.VGG: _square,
    resnet.ResNet: _resnet,
    unet.UNet: _unet,
    fpn.FPN: _fpn,
    charrnn.CharRNN: lambda config, batch: _tokens(batch, TOKENS),
    encoder.MaskedLM: lambda config, batch: _tokens(batch, min(TOKENS, config.max_len)),
    gpt.GPT: lambda config, batch: _tokens(batch, config.block_size),
    llama.Llama: lambda config, batch: _tokens(batch, min(TOKENS, config.block_size)),
    t5.T5: _t5,
    vit.ViT: _square,
    dit.DiT: _dit,
    autoencoder.Autoencoder: _autoencoder,
}
