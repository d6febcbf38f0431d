"""Lakes that something was done to: what died left there, what is damaged, how it is mended."""

import os
import shutil
from pathlib import Path

import pytest

from kubeledger import open as open_ledger
from kubeledger.fleet.lake import Lake, MovedOnError
from kubeledger.fleet.layout import claims_of, done_of, done_path
from kubeledger.fleet.sealed import seal_ledger, unseal_ledger
from kubeledger.fleet.types import Head
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.remote.store import digest_of_file
from tests.fleet.places import log_lines, put_node, write_bundle
from tests.fleet.test_task import facts, imported
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


# A ledger as one file and back.


def test_a_ledger_survives_being_sealed_and_goes_on(tmp_path: Path) -> None:
    """The same bytes however often, whatever clocks say; what it kept is still read again."""
    part = write_bundle(tmp_path / "part", log=log_lines(0, 1000))
    ledger = imported(tmp_path / "ledger", part)
    (ledger.path / "history").mkdir()
    (ledger.path / "history" / "copy.parquet").write_bytes(b"made again")
    seal_ledger(ledger.path, tmp_path / "1")
    os.utime(ledger.path / "ledger.json", (1, 1))
    unseal_ledger(tmp_path / "1", tmp_path / "unsealed")
    seal_ledger(tmp_path / "unsealed", tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert not (tmp_path / "unsealed" / "history").exists()
    whole = write_bundle(tmp_path / "whole")
    for directory in (ledger.path, tmp_path / "unsealed"):
        imported(directory, whole)
    assert facts(type(ledger).open(tmp_path / "unsealed")) == facts(ledger)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_damage_is_told(damage: str, tmp_path: Path) -> None:
    ledger = imported(tmp_path / "ledger", write_bundle(tmp_path / "in", log=log_lines(0, 600)))
    sealed = tmp_path / "x.tar.zst"
    seal_ledger(ledger.path, sealed)
    content = bytearray(sealed.read_bytes())
    content[len(content) // 2] ^= 0xFF
    cut = sealed.read_bytes()[: len(content) // 2]
    sealed.write_bytes({"cut": cut, "changed": bytes(content), "empty": b""}[damage])
    with pytest.raises(DamagedLedgerError, match=r"x\.tar\.zst"):
        unseal_ledger(sealed, tmp_path / "unsealed")
