"""Checkpoints, and what else is not about tensors."""
