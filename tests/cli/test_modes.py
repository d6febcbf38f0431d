"""A ledger holds what pods were given, so it is its user's alone, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeledger.ledger.history.history import History
from kubeledger.ledger.ledger import Ledger
from tests.cli.nodes import run
from tests.ingest.feeding import DATA


@pytest.fixture
def _careless() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): path.stat().st_mode & 0o777
        for path in (root, *root.rglob("*"))
    }


@pytest.mark.usefixtures("_careless")
def test_a_ledger_is_its_users_alone(tmp_path: Path) -> None:
    """Imported or recorded, with its history, that queries make; not so the directories above."""
    ledger = tmp_path / "new" / "ledger"
    told = run("import", DATA / "kubelet" / "startup-1.36.2.log", "--ledger", ledger, exits=0)
    assert "other users" not in told.output
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    History(Ledger.open(ledger), scratch).cover(grow_bytes=0)
    log = DATA / "kubelet" / "startup-1.36.2.log"
    other = tmp_path / "new" / "recorded"
    assert run("record", "--once", "--node", "n", "--log", log, "--ledger", other).exit_code == 0
    assert run("fleet", "import", log, "--lake", tmp_path / "new" / "lake").exit_code == 0
    assert (tmp_path / "new" / "lake").stat().st_mode & 0o777 == 0o700
    assert ledger.parent.stat().st_mode & 0o777 == 0o777
    assert any(name.endswith(".parquet") for name in modes(ledger))
    for root, found in ((ledger, modes(ledger)), (other, modes(other))):
        assert {
            name: oct(mode)
            for name, mode in found.items()
            if mode != (0o700 if (root / name).is_dir() else 0o600)
        } == {}


def test_a_ledger_that_others_can_read_is_told(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir(0o755)
    told = run("import", DATA / "kubelet" / "startup-1.36.2.log", "--ledger", ledger, exits=0)
    assert f"other users can read {ledger}" in told.output
    assert f"chmod -R go= {ledger}" in told.output
