"""Installed as tinygrad_lite.ops."""

if __name__ != "tinygrad_lite.ops":
    raise ImportError("import tinygrad_lite.ops: a bare 'ops' would make a second registry")
