"""Recordings as ledgers, imported once."""

from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

from tests.recordings import import_recording


class Recorded(Protocol):
    """Ledger of a recording, by its name."""

    def __call__(self, name: str) -> Path:
        """Its directory."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    @cache
    def directory(name: str) -> Path:
        path = tmp_path_factory.mktemp("mcp") / name
        import_recording(name, path)
        return path

    return directory
