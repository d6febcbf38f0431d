"""Pages of the recordings, made once, and one browser for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeledger.cli.timeline import write_timeline
from tests.recordings import import_recording
from tests.timeline.browser import CHROMIUM, DRIVER, Browser, open_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; where there is none, the tests that need it are skipped and say so."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver on this machine: pages are not looked at")
    with open_browser() as started:
        yield started


@pytest.fixture(scope="session")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Ledgers of recordings, by name."""
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
