"""Installed as tinygrad_lite.ir."""

if __name__ != "tinygrad_lite.ir":
    raise ImportError("import tinygrad_lite.ir: a bare 'ir' would make a second registry")
