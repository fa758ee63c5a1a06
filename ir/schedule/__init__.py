"""The schedule stage; see docs/architecture.md."""
