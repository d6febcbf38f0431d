"""What tests of the recorder share."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory in which a Unix socket's path fits into its 107 bytes, wherever tests run."""
    with tempfile.TemporaryDirectory(prefix="kl") as path:
        yield Path(path)


@pytest.fixture(autouse=True)
def _own_garbage() -> Iterator[None]:
    """A recorder collects its garbage: not the objects of all tests before, which takes seconds."""
    gc.freeze()
    yield
    gc.unfreeze()
