"""Answers for code that asks whether there is a GPU: there is none."""


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_bf16_supported() -> bool:
    """False."""
    return False


def manual_seed_all(seed: int) -> None:
    """Nothing to seed."""


manual_seed = manual_seed_all


def synchronize() -> None:
    """Nothing to wait for."""


def empty_cache() -> None:
    """Nothing to free."""
