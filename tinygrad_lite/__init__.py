"""Tensors, autograd and a graph compiler for CPUs."""
