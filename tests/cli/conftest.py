"""What the tests of commands share."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.analyze.sql.fixture_ledger import whole_story, write_ledger
from tests.cli.nodes import Nodes, run

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def query_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a bit of everything; read only."""
    return write_ledger(tmp_path_factory.mktemp("ledger"), whole_story())


@pytest.fixture
def ask(query_ledger: Path) -> Run:
    """Runs a command on ``query_ledger``: ``ask("sql", "SELECT 1", input=...)``."""

    def ask(command: str, *args: str, input: str | None = None, exits: int | None = None) -> Result:
        return run(command, "--ledger", query_ledger, *args, input=input, exits=exits)

    return ask


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    """Ledgers and files of the bundled recordings; read only."""
    return Nodes(tmp_path_factory.mktemp("nodes"))
