"""Optimisers and learning-rate schedules under torch.optim's names."""

from tinygrad_lite.optim import lr_scheduler, swa_utils
from tinygrad_lite.optim.adam import Adam
from tinygrad_lite.optim.adamw import AdamW
from tinygrad_lite.optim.optimizer import Optimizer
from tinygrad_lite.optim.sgd import SGD
from tinygrad_lite.optim.swa_utils import EMA

__all__ = ["EMA", "SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler", "swa_utils"]
