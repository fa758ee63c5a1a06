"""The command line, `tinygrad-lite`."""

from tinygrad_lite.cli.app import main

__all__ = ["main"]
