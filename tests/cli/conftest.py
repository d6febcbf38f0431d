"""What the tests of commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubeledger.cli.main import cli
from tests.analyze.sql.fixture_ledger import whole_story, write_ledger
from tests.cli.nodes import Nodes

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def query_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a bit of everything; read only."""
    return write_ledger(tmp_path_factory.mktemp("ledger"), whole_story())


@pytest.fixture
def ask(query_ledger: Path) -> Run:
    """Runs a command on ``query_ledger``: ``ask("sql", "SELECT 1", input=...)``."""

    def run(command: str, *args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(cli, [command, "--ledger", str(query_ledger), *args], input=input)

    return run


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    """Ledgers and files of the bundled recordings; read only."""
    return Nodes(tmp_path_factory.mktemp("nodes"))
