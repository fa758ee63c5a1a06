"""The passes stage; see docs/architecture.md."""
