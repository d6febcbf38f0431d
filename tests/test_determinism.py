"""The same files give the same bytes, whatever process, time zone, locale or clock."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.ledger.audit import audit
from tests.recordings import RECORDINGS, import_anew

WORLDS: tuple[dict[str, str], ...] = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4242", "TZ": "Pacific/Chatham", "LC_ALL": "C.UTF-8"},
)


def kubeledger(world: dict[str, str], *arguments: str | Path) -> bytes:
    """Run a command in a process of that world."""
    command = [sys.executable, "-m", "kubeledger", *map(str, arguments)]
    return subprocess.run(command, env=os.environ | world, capture_output=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("node", [pytest.param("node-a", marks=pytest.mark.nightly), "node-b"])
def test_two_worlds_one_digest(node: str, tmp_path: Path) -> None:
    """Records, state and answers are equal byte for byte."""
    recording = RECORDINGS / f"{node}.tar.zst"
    seen = set()
    for number, world in enumerate(WORLDS):
        ledger = tmp_path / str(number)
        kubeledger(world, "import", recording, "--ledger", ledger, "-q")
        report = json.loads(kubeledger(world, "audit", "--ledger", ledger, "-o", "json"))
        state = kubeledger(
            world, "state", "--ledger", ledger, "-o", "json", "--at", "2026-11-21T03:08:00Z"
        )
        rows = kubeledger(
            world, "sql", "--ledger", ledger, "-o", "csv", "SELECT * FROM cgroup_updates"
        )
        seen.add((report["nodes"][0]["head"], state, rows))
    assert len(seen) == 1


def test_the_clock_of_the_importing_machine_leaves_no_trace(tmp_path: Path) -> None:
    """A recording imported next year is the same ledger."""
    heads = set()
    for year in ("2026-12-01", "2031-02-03"):
        with freeze_time(year):
            ledger, _ = import_anew("node-e-oom", tmp_path / year)
            heads.add(audit(ledger).nodes[0].head)
    assert len(heads) == 1


def drawn() -> list[list[int | str]]:
    """What a test that draws its inputs gets."""
    seen: list[list[int | str]] = []

    @settings(settings.get_profile("kubeledger"))
    @given(st.lists(st.integers() | st.text()))
    def draw(inputs: list[int | str]) -> None:
        seen.append(inputs)

    draw()
    return seen


def test_drawn_inputs_are_the_same_in_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever other tests of the same process have imported."""
    before = drawn()
    (tmp_path / "imported_later.py").write_text(f"NUMBERS = {list(range(10**9, 10**9 + 999))}")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("imported_later")
    assert drawn() == before
