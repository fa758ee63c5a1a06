"""Options of the train command: defaults, contradictions, the learning rate's course."""

import math

import pytest

from tinygrad_lite.cli.options import SHAPE, TrainOptions
from tinygrad_lite.errors import UserError


def test_the_learning_rate_warms_up_and_falls_by_a_cosine():
    options = TrainOptions(steps=100, warmup=10, lr=1.0, min_lr=0.1)
    rates = [options.learning_rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.55)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert options.learning_rate(100) == pytest.approx(0.1)
    assert options.learning_rate(500) == pytest.approx(0.1)


@pytest.mark.parametrize("warmup", [0, 5, 10])
def test_a_run_may_be_shorter_than_its_warm_up(warmup):
    options = TrainOptions(steps=5, warmup=warmup)
    assert all(0 < options.learning_rate(step) <= options.lr for step in range(5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "--heads 3 does not divide --width 128"),
        ({"lr": 1e-5}, "--min-lr 0.0001 is above --lr 1e-05"),
        ({"lr": math.nan}, "--lr nan"),
        ({"clip": math.inf}, "--clip inf"),
        ({"weight_decay": -1.0}, "--weight-decay -1.0"),
        ({"dropout": 1.0}, "--dropout 1"),
    ],
)
def test_contradictions_are_named_by_their_options(changes, message):
    with pytest.raises(UserError, match=message):
        TrainOptions(**changes).check()


def test_the_defaults_agree():
    TrainOptions().check()
    assert set(SHAPE) <= set(TrainOptions.__dataclass_fields__)
