"""Optimisers and learning-rate schedules under torch.optim's names."""

from tinygrad_lite.optim import lr_scheduler
from tinygrad_lite.optim.adam import Adam
from tinygrad_lite.optim.adamw import AdamW
from tinygrad_lite.optim.optimizer import Optimizer
from tinygrad_lite.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
