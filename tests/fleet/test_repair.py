"""Lakes that something was done to: what died left there, what is damaged, how it is mended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kubeledger import open as open_ledger
from kubeledger.fleet.lake import Lake, MovedOnError
from kubeledger.fleet.layout import claims_of, done_of, done_path
from kubeledger.fleet.types import Head
from kubeledger.remote.store import digest_of_file
from tests.fleet.lakes import put_node
from tests.recordings import extract

NODE = "pool-a/node-b"
LATER_NS = 1 << 62


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = extract("node-b", tmp_path_factory.mktemp("repair"))
    log = directory / "kubelet.log"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:1500]))
    shutil.rmtree(directory / "snapshots")
    made = directory.parent / "ledger"
    with open_ledger(made) as opened:
        opened.import_(directory)
    return made


def files_of(lake: Lake, head: Head) -> dict[str, Path]:
    assert lake.store.directory is not None
    found = {file.path: lake.store.directory / file.path for file in head.files}
    for file in head.files:
        assert digest_of_file(found[file.path]) == file.digest, file.path
    return found


def forget(lake: Lake, head: Head) -> None:
    """What the advice says: the node's claims and markers go, its files stay."""
    for prefix in (claims_of(head.node), done_of(head.node)):
        lake.store.delete(each.path for each in lake.store.list(prefix))


@pytest.mark.parametrize("room", ["records", "verdicts", "nodes", "ledgers"])
@pytest.mark.parametrize("is_there", [True, False], ids=["damaged", "gone"])
def test_a_lake_is_mended_as_it_is_advised(
    room: str, is_there: bool, ledger: Path, tmp_path: Path
) -> None:
    """What was left is used if it is sound, and never believed because it is there."""
    lake = Lake.open_or_create(str(tmp_path / "lake"))
    head = put_node(lake, ledger, NODE)
    for path, file in files_of(lake, head).items():
        if path.startswith(room):
            file.write_bytes(file.read_bytes()[:-9] + b"something") if is_there else file.unlink()
    forget(lake, head)
    again = put_node(lake, ledger, NODE)
    assert again.id == head.id
    files_of(lake, again)


def test_what_was_left_is_dated_anew(ledger: Path, tmp_path: Path) -> None:
    """A sweep that runs before the claim takes what is old, and that is in use again."""
    lake = Lake.open_or_create(str(tmp_path / "lake"))
    head = put_node(lake, ledger, NODE)
    for file in files_of(lake, head).values():
        os.utime(file, ns=(1, 1))
    forget(lake, head)
    commit = lake.commit

    def swept_before(head: Head, base: Head | None) -> None:
        assert lake.sweep(1 << 60).files == 0
        commit(head, base)

    lake.commit = swept_before  # type: ignore[method-assign] # the moment between two steps
    files_of(lake, put_node(lake, ledger, NODE))


def test_a_claim_whose_files_are_gone_is_nobodys(ledger: Path, tmp_path: Path) -> None:
    """Whoever made it died, and a sweep took the files before anybody completed it."""
    lake = Lake.open_or_create(str(tmp_path / "lake"))
    head = put_node(lake, ledger, NODE)
    next(iter(files_of(lake, head).values())).unlink()
    lake.store.delete([done_path(head.node, head.id)])
    assert lake.head(NODE) is None
    assert lake.store.list(claims_of(NODE)) == []
    files_of(lake, put_node(lake, ledger, NODE))


def test_whoever_comes_second_takes_its_files_along(ledger: Path, tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path / "lake"))

    def be_second(head: Head, base: Head | None) -> None:
        raise MovedOnError("another import was first")

    lake.commit = be_second  # type: ignore[method-assign] # the race, without a race
    with pytest.raises(MovedOnError):
        put_node(lake, ledger, NODE)
    assert [each.path for each in lake.store.list()] == ["lake.json"]


def test_a_sweep_removes_half_written_files(tmp_path: Path) -> None:
    """Those that a killed process left under their own names, when they are old."""
    lake = Lake.open_or_create(str(tmp_path / "lake"))
    folder = tmp_path / "lake" / "records" / "date=2026-11-21" / "node=n"
    folder.mkdir(parents=True)
    for name in ("old.parquet#1", "young.parquet#2"):
        (folder / name).write_bytes(b"half")
    os.utime(folder / "old.parquet#1", ns=(1, 1))
    assert lake.sweep(1 << 60).files == 1
    assert [file.name for file in folder.iterdir()] == ["young.parquet#2"]
    assert lake.sweep(LATER_NS).files == 1
