"""Neural modules beside PyTorch's: how they print, the names and shapes of their state, arguments, results."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

IMAGE, SEQUENCE, VOLUME = (2, 4, 7, 6), (2, 4, 9), (2, 4, 5, 4, 6)

LOSS_NAMES = [
    "BCE",
    "BCEWithLogits",
    "CTC",
    "CosineEmbedding",
    "CrossEntropy",
    "GaussianNLL",
    "HingeEmbedding",
    "Huber",
    "KLDiv",
    "L1",
    "MSE",
    "MarginRanking",
    "MultiLabelMargin",
    "MultiLabelSoftMargin",
    "MultiMargin",
    "NLL",
    "PoissonNLL",
    "SmoothL1",
    "SoftMargin",
    "TripletMargin",
    "TripletMarginWithDistance",
]

#: class, its arguments, and shapes to call it on (none: only compared as an object)
MODULES = [
    ("Conv1d", (4, 6, 3), {}, [SEQUENCE]),
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2, "bias": False}, [IMAGE]),
    ("Conv2d", (4, 6, 3), {"padding": "same", "padding_mode": "reflect"}, [IMAGE]),
    ("Conv2d", (4, 6, 3), {"padding": 1, "padding_mode": "replicate"}, [IMAGE]),
    ("Conv3d", (4, 6, 3), {"padding": (1, 0, 1), "padding_mode": "circular"}, [VOLUME]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, [SEQUENCE]),
    ("ConvTranspose2d", (4, 6, 3), {}, [IMAGE]),
    ("ConvTranspose3d", (4, 6, 3), {"groups": 2}, [VOLUME]),
    ("Unfold", (2,), {}, [IMAGE]),
    ("Fold", ((4, 5), (2, 2)), {}, [(2, 12, 12)]),
    ("MaxPool1d", (2,), {}, [SEQUENCE]),
    ("MaxPool2d", (2,), {"stride": 3, "padding": 1, "ceil_mode": True}, [IMAGE]),
    ("MaxPool3d", (2,), {}, [VOLUME]),
    ("AvgPool1d", (2,), {}, [SEQUENCE]),
    ("AvgPool2d", (3,), {"padding": 1, "count_include_pad": False, "divisor_override": 4}, [IMAGE]),
    ("AvgPool3d", (2,), {}, [VOLUME]),
    ("LPPool1d", (2, 3), {}, [SEQUENCE]),
    ("LPPool2d", (2, 3), {}, [IMAGE]),
    ("LPPool3d", (2, 2), {}, [VOLUME]),
    ("MaxUnpool2d", (2,), {}, []),
    ("AdaptiveAvgPool1d", (3,), {}, [SEQUENCE]),
    ("AdaptiveAvgPool2d", ((None, 2),), {}, [IMAGE]),
    ("AdaptiveMaxPool1d", (3,), {}, [SEQUENCE]),
    ("AdaptiveMaxPool3d", (2,), {}, [VOLUME]),
    ("BatchNorm1d", (4,), {}, [SEQUENCE]),
    ("BatchNorm1d", (4,), {}, [(5, 4)]),
    ("BatchNorm2d", (4,), {"momentum": None, "affine": False}, [IMAGE]),
    ("BatchNorm2d", (4,), {"bias": False}, [IMAGE]),
    ("BatchNorm3d", (4,), {"track_running_stats": False}, [VOLUME]),
    ("InstanceNorm1d", (4,), {}, [SEQUENCE]),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, [IMAGE]),
    ("InstanceNorm2d", (4,), {"affine": True}, [IMAGE[1:]]),
    ("GroupNorm", (2, 4), {}, [IMAGE]),
    ("LocalResponseNorm", (3,), {}, [IMAGE]),
    ("CELU", (2.0,), {}, [IMAGE]),
    ("GLU", (1,), {}, [IMAGE]),
    ("Hardshrink", (), {}, [IMAGE]),
    ("Hardsigmoid", (), {}, [IMAGE]),
    ("Hardswish", (), {"inplace": True}, [IMAGE]),
    ("Hardtanh", (), {}, [IMAGE]),
    ("PReLU", (4,), {}, [IMAGE]),
    ("ReLU6", (), {}, [IMAGE]),
    ("RReLU", (), {}, []),
    ("SELU", (), {}, [IMAGE]),
    ("Softmax2d", (), {}, [IMAGE]),
    ("Softmin", (1,), {}, [IMAGE]),
    ("Softshrink", (), {}, [IMAGE]),
    ("Softsign", (), {}, [IMAGE]),
    ("Tanhshrink", (), {}, [IMAGE]),
    ("Threshold", (0.1, 2), {}, [IMAGE]),
    ("AlphaDropout", (), {}, []),
    ("Dropout1d", (), {}, []),
    ("Dropout2d", (0.3,), {"inplace": True}, []),
    ("Dropout3d", (), {}, []),
    ("FeatureAlphaDropout", (), {}, []),
    ("CosineSimilarity", (), {}, [IMAGE, IMAGE]),
    ("PairwiseDistance", (), {}, [(3, 4), (3, 4)]),
    ("ChannelShuffle", (2,), {}, [IMAGE]),
    ("PixelShuffle", (2,), {}, [IMAGE]),
    ("PixelUnshuffle", (2,), {}, [(2, 3, 4, 6)]),
    ("Upsample", (), {"scale_factor": 2}, [IMAGE]),
    ("Upsample", ((3, 4),), {"mode": "bilinear"}, [IMAGE]),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, [IMAGE]),
    ("UpsamplingBilinear2d", ((2, 3),), {}, [IMAGE]),
    *[
        (f"{kind}Pad{n}d", (1,), {}, [s])
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for n, s in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME))
    ],
    *[(f"ConstantPad{n}d", (1, 3.5), {}, [s]) for n, s in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME))],
    ("ReplicationPad2d", ((1, 2, 0, 1),), {}, [IMAGE]),
    *[(f"{name}Loss", (), {}, []) for name in LOSS_NAMES],
]
IDS = [f"{name} {i}" for i, (name, *_) in enumerate(MODULES)]


def _pair(name, args, options):
    theirs, ours = getattr(torch.nn, name)(*args, **options), getattr(nn, name)(*args, **options)
    ours.load_state_dict({k: tl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours


@pytest.mark.parametrize("name, args, options, shapes", MODULES, ids=IDS)
def test_looks_and_state(name, args, options, shapes):
    theirs, ours = _pair(name, args, options)
    assert repr(ours) == repr(theirs)
    mine, other = (
        {k: (tuple(v.shape), str(v.dtype).split(".")[-1]) for k, v in m.state_dict().items()} for m in (ours, theirs)
    )
    assert mine == other
    expected = [p for p in inspect.signature(type(theirs).__init__).parameters if p not in ("min_value", "max_value")]
    if "kwargs" not in expected:
        assert list(inspect.signature(type(ours).__init__).parameters) == expected


@pytest.mark.parametrize("name, args, options, shapes", [m for m in MODULES if m[3]])
def test_training_then_evaluating(name, args, options, shapes):
    theirs, ours = _pair(name, args, options)
    rng = np.random.default_rng(0)
    for mode in (True, True, False):
        theirs.train(mode), ours.train(mode)
        arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        expected = theirs(*[torch.tensor(a) for a in arrays]).detach().numpy()
        found = ours(*[tl.tensor(a) for a in arrays]).detach().numpy()
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        for (key, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6, err_msg=key)


LEGACY = [{"reduction": "sum"}, {"size_average": False}, {"reduce": False}, {"reduction": "none"}, {}]


@pytest.mark.parametrize("options", LEGACY)
@pytest.mark.parametrize(
    "name", ["MSELoss", "L1Loss", "SmoothL1Loss", "SoftMarginLoss", "HingeEmbeddingLoss", "KLDivLoss"]
)
def test_reductions(name, options):
    theirs, ours = _pair(name, (), options)
    x, y = (np.random.default_rng(i).standard_normal((3, 4)).astype(np.float32) for i in (0, 1))
    y = np.sign(y) if name != "KLDivLoss" else np.abs(y)
    expected, found = theirs(torch.tensor(x), torch.tensor(y)).numpy(), ours(tl.tensor(x), tl.tensor(y)).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "kind, args",
    [
        ("Conv2d", (200, 300, 3)),
        ("ConvTranspose2d", (200, 300, 3)),
        ("Conv1d", (100, 200, 5)),
        ("PReLU", (9,)),
    ],
)
def test_initial_distributions(kind, args):
    theirs, ours = getattr(torch.nn, kind)(*args), getattr(nn, kind)(*args)
    for (_, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        values, reference = a.detach().numpy(), b.detach().numpy()
        assert abs(values.std() - reference.std()) < 0.1 * reference.std() + 1e-12
        assert np.abs(values).max() <= np.abs(reference).max() * 1.1


@pytest.mark.parametrize("size", [(11, 14), (2, 6, 12, 13), [12, 14]])
def test_output_size_of_a_transposed_convolution(size):
    theirs, ours = _pair("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1})
    x = np.random.default_rng(0).standard_normal((2, 4, 6, 7)).astype(np.float32)
    expected = theirs(torch.tensor(x), output_size=size).detach().numpy()
    np.testing.assert_allclose(ours(tl.tensor(x), output_size=size).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="requested an output size"):
        ours(tl.tensor(x), output_size=(20, 20))
