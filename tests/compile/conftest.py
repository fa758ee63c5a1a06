"""A disk cache of kernels for the test session, away from the user's."""

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ.setdefault("TINYGRAD_LITE_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
