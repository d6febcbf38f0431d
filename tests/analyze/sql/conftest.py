"""One ledger that all query tests read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeledger.analyze.sql.api import Queryable, connect
from tests.analyze.sql.fixture_ledger import manager_story, whole_story, write_ledger


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the records of ``whole_story``."""
    return write_ledger(tmp_path_factory.mktemp("ledger"), whole_story())


@pytest.fixture(scope="session")
def database(ledger: Path) -> Iterator[Queryable]:
    with connect(ledger) as opened:
        yield opened


@pytest.fixture(scope="session")
def managers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queryable]:
    """The records of ``manager_story``, open for SQL."""
    with connect(write_ledger(tmp_path_factory.mktemp("managers"), manager_story())) as opened:
        yield opened
