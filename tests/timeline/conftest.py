"""Pages of the recordings, made once."""

from pathlib import Path

import pytest

from kubeledger.cli.timeline import write_timeline
from tests.recordings import import_recording


@pytest.fixture(scope="session")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name in ("node-a", "node-b", "node-e-evictions"):
        directory = tmp_path_factory.mktemp("ledgers") / name
        import_recording(name, directory)
        made[name] = directory
    return made


@pytest.fixture(scope="session")
def pages(ledgers: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of the recordings, by name."""
    made = {}
    for name, ledger in ledgers.items():
        made[name] = tmp_path_factory.mktemp("pages") / f"{name}.html"
        write_timeline(ledger, made[name])
    return made
