"""What several families share: their input checks, and convolution with norm."""

from __future__ import annotations

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.tensor import Tensor


def check_sizes(config: object, *names: str) -> None:
    """Raise ValueError where a field, or one of a tuple of sizes, is below 1."""
    for name in names:
        value = getattr(config, name)
        for n in value if isinstance(value, tuple) else (value,):
            if isinstance(n, int) and n < 1:
                raise ValueError(f"{type(config).__name__}: {name} must be at least 1, not {value}")


def check_probability(config: object, *names: str) -> None:
    """Raise ValueError where a field lies outside [0, 1)."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{type(config).__name__}: {name} must lie in [0, 1), not {getattr(config, name)}")


def images(x: Tensor, channels: int, channels_last: bool, layer: str) -> Tensor:
    """A batch (B, channels, H, W) of one that may come (B, H, W, channels). ValueError where it is neither."""
    if x.dim() != 4 or x.shape[-1 if channels_last else 1] != channels:
        order = "(B, H, W, channels)" if channels_last else "(B, channels, H, W)"
        raise ValueError(f"{layer}: expected {order} with {channels} channels, got shape {tuple(x.shape)}")
    return x.permute(0, 3, 1, 2) if channels_last else x


def check_tokens(idx: Tensor, limit: int, layer: str, name: str = "block_size") -> int:
    """The length of a (B, T) batch of ids. ValueError where it is none, or longer than the positions there are."""
    if idx.dim() != 2:
        raise ValueError(f"{layer}: token ids have shape (batch, length), not {tuple(idx.shape)}")
    if idx.shape[1] > limit:
        raise ValueError(f"{layer}: a sequence of {idx.shape[1]} tokens exceeds {name} {limit}")
    return int(idx.shape[1])


def upsample2x(x: Tensor) -> Tensor:
    """Every pixel twice along both axes: (B, C, H, W) to (B, C, 2 H, 2 W)."""
    B, C, H, W = x.shape
    return x.reshape(B, C, H, 1, W, 1).expand(B, C, H, 2, W, 2).reshape(B, C, 2 * H, 2 * W)


def conv_norm_relu(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution that keeps the size (but for the stride), batch norm, ReLU."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


def init_convolutions(model: nn.Module) -> None:
    """He's normal scheme on convolutions by their outputs (He et al. 2015), norms at 1 and 0."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def count(model: nn.Module) -> int:
    """Trained numbers of a model, tied ones once."""
    return sum(p.numel() for p in model.parameters())


def next_token_loss(logits: Tensor, targets: Tensor | None, ignore: int = -100) -> Tensor | None:
    """Mean cross-entropy of (B, T, V) logits, None without targets; targets of `ignore` do not count."""
    if targets is None:
        return None
    return tl.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=ignore
    )
