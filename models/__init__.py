"""Installed as tinygrad_lite.models."""

if __name__ != "tinygrad_lite.models":
    raise ImportError("import tinygrad_lite.models: a bare 'models' would make a second registry")
