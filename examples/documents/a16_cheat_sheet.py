"""A §16: from a fingerprint in a log to its mechanism and the fix, each with the script or test that shows it."""

from show import heading, table

import tinygrad_lite as tl
from tinygrad_lite import diagnostics

SHEET = (
    ("loss turns NaN", "a product above 1; fp16 overflow", "clip at 1.0; bf16", "a05, RNN-06"),
    ("long dependencies never learnt", "0.84^n", "gated cell, forget bias, attention", "a06, RNN-04"),
    ("loss flat after a few hundred steps", "softmax saturated: √d_k missing", "divide by √d_k", "a07, SQ-04"),
    ("attention uniform", "divided by d_k", "divide by √d_k", "a07, SQ-08"),
    ("attention rows below 1", "mask after the softmax", "mask before it", "a07, ATT-07"),
    ("word order ignored", "no positions", "sinusoids, a table, rotation", "a07, MH-04"),
    ("spike at exactly 0 among activations", "dead ReLU units", "lower lr, warm-up, GELU, He, norm", "a13, DIE-06"),
    ("worse in eval() than in train()", "dropout before BatchNorm", "dropout after it", "a11, DRP-07"),
    ("output changes with the batch", "BatchNorm", "LayerNorm", "a09, NRM-09"),
    ("deeper plain net trains worse", "product of Jacobians", "residual connections", "a10, RES-01"),
    ("diverges early, deep and post-norm", "norms on the residual path", "pre-norm, warm-up", "a08, BLK-09"),
    ("logits about 8 times too large", "stream grows to 1 + 2L", "final norm, branches ÷ √2L", "a08, BLK-08"),
    ("large uniform regions mislabelled", "receptive field too small", "downsample, dilate", "a03, RF-11"),
    ("places lost", "pooling", "U-Net skips, pyramid", "a04, POOL-05"),
    ("serving memory grows", "KV cache, 2 L d_kv a token", "shared key heads, 8-bit cache", "a15, PAR-15"),
    ("size off from 12 L d²", "d_ff is not 4 d, or untied", "read the configuration", "a15, PAR-19"),
    ("odd output on rare tokens", "rows hardly updated", "more data, merge tokens", "a12, EMB-05"),
    ("pretraining slowed", "dropout in a single epoch", "off; on for fine-tuning", "a11, DRP-01"),
)

heading("Cheat sheet")
table(["fingerprint", "mechanism", "fix", "shown by"], SHEET)

heading("Number formats: the largest number, and what 1e38 becomes")
rows = []
for name in ("float32", "float16", "bfloat16"):
    dtype = getattr(tl, name)
    rows.append((name, tl.tensor(1.0).to(dtype).element_size(), tl.finfo(dtype).max, tl.tensor(1e38).to(dtype).float()))
table(["format", "bytes", "largest", "1e38"], rows)

heading("What gradients of 1e-12 to 1 lose in each format, and in float16 once the loss is scaled by 2^16")
gradients = 10 ** tl.linspace(-12, 0, 1000)
rows = [(name, *loss) for name, loss in diagnostics.number_formats(gradients).items()]
rows.append(("float16, scaled", *diagnostics.number_formats(gradients * 2**16 * 0.9)["float16"]))
table(["format", "bytes", "infinite", "zero", "relative error of the rest"], rows)
