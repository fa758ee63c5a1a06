"""What the models of this package weigh and multiply, part by part, from their configurations alone.

A ledger holds, for each part of a model, its trained numbers and the operations of the products of one forward pass
over one example; a multiply-add counts as two. Tests hold every preset's against the built model and its graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tinygrad_lite.models.autoencoder import AutoencoderConfig
from tinygrad_lite.models.charrnn import CharRNNConfig
from tinygrad_lite.models.dit import DiTConfig
from tinygrad_lite.models.encoder import EncoderConfig
from tinygrad_lite.models.fpn import FPNConfig
from tinygrad_lite.models.gpt import GPTConfig
from tinygrad_lite.models.llama import LlamaConfig
from tinygrad_lite.models.mlp import MLPConfig
from tinygrad_lite.models.resnet import ResNetConfig
from tinygrad_lite.models.t5 import T5Config
from tinygrad_lite.models.unet import UNetConfig
from tinygrad_lite.models.vgg import VGGConfig
from tinygrad_lite.models.vit import ViTConfig

# ---- layers ------------------------------------------------------------------------------------------------


def linear_parameters(inputs: int, outputs: int, bias: bool = True) -> int:
    """in · out + out."""
    return inputs * outputs + outputs * bias


def conv_parameters(inputs: int, outputs: int, kernel: int | Sequence[int], bias: bool = True, axes: int = 2) -> int:
    """Window · in · out + out; an integer kernel is the same along all axes."""
    window = kernel**axes if isinstance(kernel, int) else math.prod(kernel)
    return window * inputs * outputs + outputs * bias


def recurrent_parameters(cell: str, inputs: int, hidden: int, biases: int = 1) -> int:
    """gates · (in · h + h² + biases · h), 1 gate of an "rnn", 3 of a "gru", 4 of an "lstm"; PyTorch has two biases."""
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    return gates * (inputs * hidden + hidden * hidden + biases * hidden)


def mlp_parameters(sizes: Sequence[int], bias: bool = True) -> int:
    """Of linear layers between consecutive sizes."""
    return sum(linear_parameters(a, b, bias) for a, b in pairwise(sizes))


def attention_parameters(d: int, heads: int, kv_heads: int | None = None, bias: bool = False) -> int:
    """Four projections, two of them narrowed to kv_heads heads; 4 d² whatever the heads where all are kept."""
    narrow = d // heads * (heads if kv_heads is None else kv_heads)
    return 2 * linear_parameters(d, d, bias) + 2 * linear_parameters(d, narrow, bias)


class Share(NamedTuple):
    """Trained numbers, and operations of one example's products."""

    parameters: int
    flops: int


Ledger = dict[str, Share]


def _sum(*shares: Share) -> Share:
    return Share(sum(s.parameters for s in shares), sum(s.flops for s in shares))


def _repeated(count: int, *shares: Share) -> Share:
    once = _sum(*shares)
    return Share(count * once.parameters, count * once.flops)


def _used(count: int, share: Share) -> Share:
    """The same weights at `count` places."""
    return share._replace(flops=count * share.flops)


def _linear(inputs: int, outputs: int, bias: bool = True) -> Share:
    return Share(linear_parameters(inputs, outputs, bias), 2 * inputs * outputs)


def _conv(inputs: int, outputs: int, kernel: int, pixels: int, bias: bool = True) -> Share:
    """Of a square kernel that puts out so many pixels."""
    weights = kernel * kernel * inputs * outputs
    return Share(weights + outputs * bias, 2 * weights * pixels)


def _numbers(count: int) -> Share:
    """Tables and norms: nothing is multiplied by a matrix."""
    return Share(count, 0)


def _scores(queries: int, keys: int, width: int) -> Share:
    """Of scores and weighted sums."""
    return Share(0, 4 * queries * keys * width)


# ---- families ----------------------------------------------------------------------------------------------


def _mlp(c: MLPConfig, _: int) -> Ledger:
    return {"layers": _sum(*(_linear(a, b, c.bias) for a, b in pairwise(c.sizes)))}


def _vgg(c: VGGConfig, side: int) -> Ledger:
    convolutions, norms, channels = Share(0, 0), 0, c.in_channels
    for part in c.plan:
        if isinstance(part, str):
            side //= 2
            continue
        convolutions = _sum(convolutions, _conv(channels, part, 3, side * side))
        norms += 2 * part * c.batch_norm
        channels = part
    flat = channels * (c.image >> c.plan.count("M")) ** 2
    sizes = (channels, c.num_classes) if c.head == "gap" else (flat, c.hidden, c.hidden, c.num_classes)
    head = _sum(*(_linear(a, b) for a, b in pairwise(sizes)))
    return {"convolutions": convolutions, "norms": _numbers(norms), "head": head}


def _backbone(c: ResNetConfig, side: int) -> tuple[Ledger, list[tuple[int, int]]]:
    """A residual network without its head; (channels, side) of each stage."""
    layers: list[tuple[int, int, int, int]] = []  # (inputs, outputs, kernel, side of the result)
    kernels = {"canonical": ((7, 2),), "document": ((7, 2), (3, 1), (3, 2)), "cifar": ((3, 1),)}[c.stem]
    channels, found = c.in_channels, []
    for kernel, stride in kernels:
        side = -(-side // stride)
        layers.append((channels, c.widths[0], kernel, side))
        channels = c.widths[0]
    side = -(-side // 2) if c.stem == "canonical" else side
    for i, (count, width) in enumerate(zip(c.blocks, c.widths, strict=True)):
        for j in range(count):
            before, side = side, -(-side // 2) if i and not j else side
            outputs = 4 * width if c.bottleneck else width
            first = [(channels, width, 1, before), (width, width, 3, side), (width, outputs, 1, side)]
            layers += first if c.bottleneck else [(channels, width, 3, side), (width, width, 3, side)]
            projects = c.residual and c.shortcut == "projection" and (before, channels) != (side, outputs)
            layers += [(channels, outputs, 1, side)] * projects
            channels = outputs
        found.append((channels, side))
    convolutions = _sum(*(_conv(a, b, k, n * n, bias=False) for a, b, k, n in layers))
    return {"convolutions": convolutions, "norms": _numbers(sum(2 * layer[1] for layer in layers))}, found


def _resnet(c: ResNetConfig, side: int) -> Ledger:
    ledger, stages = _backbone(c, side)
    return {**ledger, "head": _linear(stages[-1][0], c.num_classes)}


def _fpn(c: FPNConfig, side: int) -> Ledger:
    ledger, stages = _backbone(c.backbone, side)
    levels = [
        (_conv(channels, c.width, 1, n * n), _conv(c.width, c.width, 3, n * n), _conv(c.width, c.num_classes, 1, n * n))
        for channels, n in stages
    ]
    pyramid = _sum(*(share for lateral, smooth, _ in levels for share in (lateral, smooth)))
    return {**ledger, "pyramid": pyramid, "head": _sum(*(head for _, _, head in levels))}


def _unet(c: UNetConfig, side: int) -> Ledger:
    convolutions, norms = [], 0

    def double(inputs: int, outputs: int, side: int) -> None:
        nonlocal norms
        convolutions.append(_conv(inputs, outputs, 3, side * side, bias=False))
        convolutions.append(_conv(outputs, outputs, 3, side * side, bias=False))
        norms += 4 * outputs

    for i, (inputs, outputs) in enumerate(pairwise((c.in_channels, *c.channels))):
        double(inputs, outputs, side >> i)
    ups = []
    for i, (outputs, inputs) in reversed(list(enumerate(pairwise(c.channels)))):
        n = side >> i
        if c.up == "transposed":  # each pixel of the input meets the whole kernel of 2 · 2
            ups.append(_conv(inputs, outputs, 2, n * n // 4))
        else:
            ups.append(_conv(inputs, outputs, 3, n * n))
        double(2 * outputs if c.skips else outputs, outputs, n)
    head = _conv(c.channels[0], c.num_classes, 1, side * side)
    return {"convolutions": _sum(*convolutions), "norms": _numbers(norms), "up": _sum(*ups), "head": head}


def _charrnn(c: CharRNNConfig, n: int) -> Ledger:
    layers = Share(0, 0)
    for i in range(c.layers):
        inputs = c.hidden if i else c.embed
        weights = recurrent_parameters(c.cell, inputs, c.hidden, 0)
        total = recurrent_parameters(c.cell, inputs, c.hidden, 1 if c.one_bias else 2)
        layers = _sum(layers, Share(total, 2 * n * weights))
    head = _used(n, _linear(c.hidden, c.vocab_size))
    tied = c.vocab_size * c.hidden * c.tied
    return {
        "embeddings": _numbers(c.vocab_size * c.embed),
        "recurrence": layers,
        "head": head._replace(parameters=head.parameters - tied),
    }


def _gpt(c: GPTConfig, n: int) -> Ledger:
    d, b = c.n_embd, c.bias
    head = _used(n, _linear(d, c.vocab_size, False))
    return {
        "attention": _repeated(c.n_layer, _used(n, _linear(d, 3 * d, b)), _used(n, _linear(d, d, b)), _scores(n, n, d)),
        "feedforward": _repeated(c.n_layer, _used(n, _linear(d, 4 * d, b)), _used(n, _linear(4 * d, d, b))),
        "norms": _numbers((2 * c.n_layer + 1) * d * (1 + b)),
        "embeddings": _numbers((c.vocab_size + c.block_size) * d),
        "head": head._replace(parameters=0) if c.tied else head,
    }


def _llama(c: LlamaConfig, n: int) -> Ledger:
    d = c.n_embd
    weights = attention_parameters(d, c.n_head, c.kv_heads)
    head = _used(n, _linear(d, c.vocab_size, False))
    return {
        "attention": _repeated(c.n_layer, Share(weights, 2 * weights * n), _scores(n, n, d)),
        "feedforward": _repeated(3 * c.n_layer, _used(n, _linear(d, c.feedforward, False))),
        "norms": _numbers((2 * c.n_layer + 1) * d + c.n_layer * 2 * c.head_dim * c.qk_norm),
        "embeddings": _numbers(c.vocab_size * d),
        "head": head._replace(parameters=0) if c.tied else head,
    }


def _layers(layers: int, d: int, d_ff: int, n: int) -> Ledger:
    """Attention and feed-forward of PyTorch's transformer layers, all with biases."""
    return {
        "attention": _repeated(layers, _used(n, _linear(d, 3 * d)), _used(n, _linear(d, d)), _scores(n, n, d)),
        "feedforward": _repeated(layers, _used(n, _linear(d, d_ff)), _used(n, _linear(d_ff, d))),
    }


def _encoder(c: EncoderConfig, n: int) -> Ledger:
    d, per_layer = c.width, 4 if c.norm == "sandwich" else 2
    final = 0 if c.norm == "post" else 1
    head = _used(n, _linear(d, c.vocab_size))._replace(parameters=c.vocab_size)  # its matrix is the embedding
    return {
        **_layers(c.layers, d, c.d_ff, n),
        "norms": _numbers((1 + per_layer * c.layers + final) * 2 * d),
        "embeddings": _numbers((c.vocab_size + c.max_len + c.types) * d),
        "head": _sum(_used(n, _linear(d, d)), _numbers(2 * d), head),
    }


def _t5(c: T5Config, n: int) -> Ledger:
    d, inner = c.width, c.heads * c.head
    attention = _sum(_repeated(3, _used(n, _linear(d, inner, False))), _used(n, _linear(inner, d, False)))
    attention = _sum(attention, _scores(n, n, inner))
    return {
        "attention": _repeated(3 * c.layers, attention),  # the encoder's, the decoder's own, and to the source
        "feedforward": _repeated((3 if c.gated else 2) * 2 * c.layers, _used(n, _linear(d, c.d_ff, False))),
        "norms": _numbers((5 * c.layers + 2) * d),
        "embeddings": _numbers(c.vocab_size * d + 2 * c.buckets * c.heads),
        "head": _used(n, _linear(d, c.vocab_size, False))._replace(parameters=0 if c.tied else c.vocab_size * d),
    }


def _vit(c: ViTConfig, _: int) -> Ledger:
    d, patches = c.width, (c.image // c.patch) ** 2
    tables = _numbers(c.tokens * d + (d if c.pool == "cls" else 0))
    return {
        **_layers(c.layers, d, c.d_ff, c.tokens),
        "norms": _numbers((2 * c.layers + 1) * 2 * d),
        "embeddings": _sum(_conv(c.in_channels, d, c.patch, patches), tables),
        "head": _linear(d, c.num_classes),
    }


def _dit(c: DiTConfig, _: int) -> Ledger:
    d, n = c.width, (c.image // c.patch) ** 2
    return {
        **_layers(c.layers, d, 4 * d, n),
        "conditions": _sum(_repeated(2, _linear(d, d)), _repeated(c.layers, _linear(d, 6 * d)), _linear(d, 2 * d)),
        "embeddings": _sum(_conv(c.channels, d, c.patch, n), _numbers((c.num_classes + 1) * d)),
        "head": _used(n, _linear(d, c.patch**2 * c.channels)),
    }


def _autoencoder(c: AutoencoderConfig, _: int) -> Ledger:
    pairs = list(enumerate(pairwise((c.in_channels, *c.channels))))
    flat = c.channels[-1] * (c.image >> len(pairs)) ** 2
    return {
        "encoder": _sum(*(_conv(a, b, 3, (c.image >> i + 1) ** 2) for i, (a, b) in pairs)),
        "code": _sum(_linear(flat, c.latent * (2 if c.variational else 1)), _linear(c.latent, flat)),
        "decoder": _sum(*(_conv(b, a, 3, (c.image >> i) ** 2) for i, (a, b) in pairs)),
    }


# configuration → (its ledger, the size of an example where none is given)
_FAMILIES: dict[type, tuple[Callable[[Any, int], Ledger], Callable[[Any], int]]] = {
    MLPConfig: (_mlp, lambda c: 1),
    VGGConfig: (_vgg, lambda c: c.image),
    ResNetConfig: (_resnet, lambda c: 32 if c.stem == "cifar" else 224),
    FPNConfig: (_fpn, lambda c: 32 if c.backbone.stem == "cifar" else 224),
    UNetConfig: (_unet, lambda c: 4 * 2 ** len(c.channels)),
    CharRNNConfig: (_charrnn, lambda c: 64),
    EncoderConfig: (_encoder, lambda c: c.max_len),
    GPTConfig: (_gpt, lambda c: c.block_size),
    LlamaConfig: (_llama, lambda c: c.block_size),
    T5Config: (_t5, lambda c: c.block_size),
    ViTConfig: (_vit, lambda c: c.image),
    DiTConfig: (_dit, lambda c: c.image),
    AutoencoderConfig: (_autoencoder, lambda c: c.image),
}


def ledger(config: Any, size: int | None = None) -> Ledger:
    """The parts of the model of a configuration, and "total".

    Args:
        size: tokens of the sequence (of a T5's source and of its target) or pixels of the image's side; None is what
            the configuration names (`image`, `block_size`, `max_len`), of others 64 characters, 224 pixels, 32 of
            a CIFAR stem, 4 at a U-Net's coarsest stage but one.

    Raises:
        TypeError: no configuration of this package.
    """
    if type(config) not in _FAMILIES:
        known = ", ".join(kind.__name__ for kind in _FAMILIES)
        raise TypeError(f"there is no ledger for a {type(config).__name__}; there are some for {known}")
    make, usual = _FAMILIES[type(config)]
    parts = make(config, usual(config) if size is None else size)
    return {**parts, "total": _sum(*parts.values())}


def parameters(config: Any) -> int:
    """The number of trained numbers of the model of a configuration, without building it. Raises as `ledger` does."""
    return ledger(config)["total"].parameters


def product_flops(config: Any, batch: int = 1, size: int | None = None) -> int:
    """Of the products of one forward pass over `batch` examples, attention's whole n² counted; `size` as in `ledger`.

    Convolutions count every tap, also those that lie on padding. Training takes three times as much, but for the
    gradient that the input does not get.
    """
    return batch * ledger(config, size)["total"].flops


def _weights(config: Any, without: Sequence[str] = ()) -> dict[str, int]:
    parts = {name: share.parameters for name, share in ledger(config).items() if name not in (*without, "total")}
    return {**parts, "total": sum(parts.values())}


def gpt_parameters(c: GPTConfig) -> dict[str, int]:
    """Parameters of a GPT: attention, feedforward, norms, embeddings, head; "total" is their sum."""
    return _weights(c)


def llama_parameters(c: LlamaConfig) -> dict[str, int]:
    """Parameters of a Llama by part."""
    return _weights(c)


def encoder_parameters(c: EncoderConfig, head: bool = True) -> dict[str, int]:
    """Parameters of a BERT by part, with or without the masked-language head."""
    return _weights(c) if head else {**_weights(c, ("head",)), "head": 0}


def vit_parameters(c: ViTConfig) -> dict[str, int]:
    """Parameters of a vision transformer by part."""
    return _weights(c)
