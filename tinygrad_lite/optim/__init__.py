"""Optimisers and learning-rate schedules under torch.optim's names."""

from tinygrad_lite.optim import lr_scheduler, swa_utils
from tinygrad_lite.optim.adadelta import Adadelta
from tinygrad_lite.optim.adagrad import Adagrad
from tinygrad_lite.optim.adam import Adam
from tinygrad_lite.optim.adamax import Adamax
from tinygrad_lite.optim.adamw import AdamW
from tinygrad_lite.optim.asgd import ASGD
from tinygrad_lite.optim.muon import Muon
from tinygrad_lite.optim.nadam import NAdam
from tinygrad_lite.optim.optimizer import Optimizer
from tinygrad_lite.optim.radam import RAdam
from tinygrad_lite.optim.rmsprop import RMSprop
from tinygrad_lite.optim.rprop import Rprop
from tinygrad_lite.optim.sgd import SGD
from tinygrad_lite.optim.swa_utils import EMA

__all__ = [
    "ASGD",
    "EMA",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]
