"""The kernels stage; see docs/architecture.md."""
