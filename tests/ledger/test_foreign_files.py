"""A ledger that someone else made: links, pipes and devices where its files should be."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.history.history import History
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import open_regular, read_regular
from kubeledger.model.errors import KubeledgerError
from kubeledger.replay.snapshotting import refresh_snapshots
from tests.ingest.node_files import log_text
from tests.ledger.making import copy


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    directory = tmp_path_factory.mktemp("made")
    (directory / "kubelet.log").write_text(log_text())
    made = Ledger.create(directory / "ledger")
    import_sources([str(directory / "kubelet.log")], made, ImportOptions(node="n", year=2026))
    refresh_snapshots(made, "n", every=10)
    (directory / "scratch").mkdir()
    History(made, directory / "scratch").cover(grow_bytes=0)
    return made


@pytest.fixture
def ledger(made: Ledger, tmp_path: Path) -> Ledger:
    """One import, snapshots, and a Parquet history."""
    (tmp_path / "scratch").mkdir()
    return copy(made, tmp_path / "ledger")


def use(ledger: Ledger, scratch: Path) -> None:
    """Read and write it in all ways; each may refuse."""
    for way in (
        lambda: list(Ledger.open(ledger.path).records()),
        lambda: refresh_snapshots(Ledger.open(ledger.path), "n", every=10),
        lambda: History(Ledger.open(ledger.path), scratch).cover(grow_bytes=0),
        lambda: _write(ledger),
    ):
        with suppress(KubeledgerError):
            way()


def _write(ledger: Ledger) -> None:
    with Ledger.open(ledger.path).writer():
        pass


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [_link, _pipe, _device])
@pytest.mark.parametrize(
    "pattern",
    [
        r"^ledger\.json$",
        r"^ledger\.json\.tmp$",
        r"\.jsonl$",
        r"\.jsonl\.zst\.tmp$",
        r"\.snapshot$",
        r"\.snapshot\.tmp$",
        r"history/index\.json$",
        r"history/index\.json\.tmp$",
        r"\.parquet$",
        r"\.parquet\.tmp$",
        r"^writer\.pid$",
        r"^writer\.lock$",
    ],
)
def test_what_is_no_regular_file(
    ledger: Ledger, tmp_path: Path, pattern: str, put: Callable[[Path, Path], None]
) -> None:
    """Nothing hangs, nothing outside is read as records, and nothing there is overwritten."""
    outside = tmp_path / "precious"
    outside.write_bytes(b"mine\n")
    files = {p.relative_to(ledger.path).as_posix(): p for p in ledger.path.rglob("*")}
    plain = pattern.replace(r"\.tmp", "")
    found = [p for name, p in files.items() if re.search(plain.replace(r"\.zst", ""), name)]
    path = found[0] if found else ledger.path / pattern.strip("^$").replace("\\", "")
    if pattern.endswith(r"\.tmp$"):
        path = path.with_name(path.name + (".zst.tmp" if "zst" in pattern else ".tmp"))
    path.unlink(missing_ok=True)
    put(path, outside)
    use(ledger, tmp_path / "scratch")
    assert outside.read_bytes() == b"mine\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger", "precious", "scratch"]


def test_the_ledger_itself_may_be_a_link(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ledger.path)
    assert list(Ledger.open(tmp_path / "link").records()) == list(ledger.records())


def test_open_regular(tmp_path: Path) -> None:
    """Regular files only; links where the user names them; no more than so many bytes."""
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "a", 5) == b"12345"
    assert read_regular(tmp_path / "link", 5, links=True) == b"12345"
    for path, says in (("link", "a link"), ("pipe", "no regular file"), (".", "no regular file")):
        with pytest.raises(OSError, match=says):
            open_regular(tmp_path / path)
    with pytest.raises(OSError, match="larger than"):
        read_regular(tmp_path / "a", 4)
    with pytest.raises(OSError, match="no regular file"):
        open_regular(Path("/dev/zero"), links=True)
