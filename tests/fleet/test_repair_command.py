"""Damaged lakes and one command: what it makes anew, from what, and what it leaves alone."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from kubeledger.fleet.identity import rules_version
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import ROW_ROOMS, claim_path, done_path, rows_path
from kubeledger.fleet.repair import lost_nodes, mend_small_files, repaired
from kubeledger.fleet.types import Head, NodeSpec
from tests.buckets import DyingStore, Killed
from tests.cli.nodes import run
from tests.fleet.places import head_of, log_lines, task, write_bundle
from tests.fleet.test_repair import LATER_NS, files_of

pytestmark = pytest.mark.slow

NODE = "node-a"


def stored_files(lake: Lake) -> set[str]:
    rooms = (*ROW_ROOMS, "nodes", "ledgers")
    return {each.path for room in rooms for each in lake.store.list(room)}


def damage(lake: Lake, head: Head, room: str, *, is_there: bool = True) -> None:
    """Write something else into the files of a room, or remove them."""
    for path, file in files_of(lake, head).items():
        if path.startswith(room):
            file.write_bytes(file.read_bytes()[:-9] + b"something") if is_there else file.unlink()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    log = log_lines()
    cut = log.index(b"\n", len(log) // 2) + 1
    for number, part in enumerate((log[:cut], log[cut:])):
        bundle = write_bundle(place / f"day-{number}" / NODE, log=part)
        head_of(task(str(place / "lake"), str(bundle)))
    return place


@pytest.fixture
def lake(whole: Path, tmp_path: Path) -> Lake:
    return Lake.open(str(shutil.copytree(whole / "lake", tmp_path / "lake")))


def reported(head: Head) -> tuple[object, ...]:
    row = head.summary
    return (row.chain, row.records, row.decisions, row.match, row.impossible, row.rules)


@pytest.mark.parametrize(
    ("room", "is_there"), [("records", True), ("nodes", False), ("ledgers", True)]
)
def test_one_command_repairs_a_node(room: str, is_there: bool, lake: Lake) -> None:
    """From its ledger, or from its sources; what was sound stays, and nothing is left over."""
    before = lake.heads()[NODE]
    sound = {file for file in before.files if not file.path.startswith((room, "nodes"))}
    damage(lake, before, room, is_there=is_there)
    result = task(lake.store.url, node=NODE, repair="wholly")
    head = head_of(result)
    assert (result.changed, reported(head)) == ((NODE,), reported(before))
    assert (head.sources, head.generation) == (before.sources, before.generation + 1)
    assert sound <= set(head.files)
    assert stored_files(lake) == files_of(lake, head).keys()
    again = task(lake.store.url, node=NODE, repair="wholly")
    assert (head_of(again), again.changed) == (head, ())


def test_a_repair_may_die_at_any_moment(lake: Lake, tmp_path: Path) -> None:
    """Before each of its writes: no sound file is lost, and the next repair completes it."""
    before = lake.heads()[NODE]
    damage(lake, before, "verdicts")
    sound = {file for file in before.files if not file.path.startswith(("verdicts", "nodes"))}
    spec = NodeSpec(lake=lake.store.url, rules=rules_version(), node=NODE, repair="wholly")
    died = 0
    for writes in range(20):
        store = DyingStore(lake.store.url)
        store.writes_left = writes
        scratch = tmp_path / f"scratch-{writes}"
        scratch.mkdir()
        try:
            repaired(spec, Lake(store), scratch)
            break
        except Killed:
            died += 1
            now = lake.heads()[NODE]
            assert reported(now) == reported(before)
            assert sound <= set(now.files)
    assert died >= 4
    head = lake.head(NODE)
    assert head is not None
    assert head.generation == before.generation + 1
    lake.sweep(LATER_NS)
    assert stored_files(lake) == files_of(lake, head).keys()


def test_a_ledger_is_not_made_of_other_sources(whole: Path, lake: Lake) -> None:
    """Which source is missing is told; who does without it says so."""
    before = lake.heads()[NODE]
    damage(lake, before, "ledgers", is_there=False)
    away = (whole / "day-1").rename(whole / "away")
    try:
        failure = task(lake.store.url, node=NODE, repair="wholly").failure
        assert failure is not None
        assert failure.kind == "input"
        assert before.sources[1].url in failure.reason
        assert "--partly" in failure.advice
        assert lake.heads()[NODE] == before
        head = head_of(task(lake.store.url, node=NODE, repair="partly"))
    finally:
        away.rename(whole / "day-1")
    assert head.sources == before.sources[:1]
    files_of(lake, head)


def test_small_files_are_mended_by_what_others_tell(lake: Lake) -> None:
    """A marker by its claim; where both are damaged, its sources have to be imported again."""
    head = lake.heads()[NODE]
    lake.write_index()
    (index,) = lake.store.list("index")
    marker, claim = done_path(NODE, head.id), claim_path(NODE, head.generation)
    damage(lake, head, "verdicts", is_there=False)  # a claim of such files would be a dead one's
    for damaged in ([marker], [index.path, "lake.json"]):
        for path in damaged:
            lake.store.replace(path, b"{")
        assert sorted(mend_small_files(lake.store.url)) == sorted(damaged)
        assert Lake.open(lake.store.url).heads() == {NODE: head}
        assert mend_small_files(lake.store.url) == []
    for path in (marker, claim):
        lake.store.replace(path, b"{")
    assert sorted(mend_small_files(lake.store.url)) == sorted([marker, claim])
    assert lake.heads() == {}
    for source in head.sources:
        again = head_of(task(lake.store.url, source.url))
    assert reported(again) == reported(head)
    files_of(lake, again)


def fleet(lake: Lake, *words: str, exits: int | None = None) -> Result:
    return run("fleet", *words, "--lake", lake.store.url, exits=exits)


def test_a_node_that_the_lake_lost_is_told_until_it_is_back(lake: Lake) -> None:
    """Not only by the repair that found it: a second one finds nothing damaged."""
    head = lake.heads()[NODE]
    for path in (done_path(NODE, head.id), claim_path(NODE, head.generation)):
        lake.store.replace(path, b"{")
    for mended in (2, 0):
        result = fleet(lake, "repair", "-o", "json")
        *rows, lost = msgspec.json.decode(result.stdout)
        assert (result.exit_code, len(rows)) == (1, mended)
        assert (lost["what"], lost["outcome"]) == (f"node {NODE}", "failed")
        assert lost["advice"] == "import its sources again"
    assert [failure.source for failure in lake.failures()] == [f"node {NODE}"]
    assert (
        fleet(lake, "import", *(each.url for each in head.sources), "--year", "2026").exit_code == 0
    )
    assert lost_nodes(lake, [], 0) == lake.failures() == []


def test_a_check_tells_everything_and_changes_nothing(lake: Lake) -> None:
    """What it names a repair mends; a marker that is gone takes no node away meanwhile."""
    assert lake.store.directory is not None
    (head,) = lake.heads().values()
    marker, claim = done_path(NODE, head.id), claim_path(NODE, head.generation)

    def contents() -> dict[str, bytes]:
        return {each.path: lake.store.get(each.path) or b"" for each in lake.store.list()}

    whole = contents()
    assert fleet(lake, "repair", "--check").output == "sound\n"
    for gone, damaged in (((marker,), ("lake.json",)), ((claim,), (head.files[0].path,))):
        lake.store.delete(gone)
        for path in damaged:
            lake.store.replace(path, whole[path][:-3] + b"x" + whole[path][-2:])
        before = contents()
        result = fleet(lake, "repair", "--check", exits=1)
        assert all(path[:40] in result.output for path in (*gone, *damaged))
        assert contents() == before
        if marker in gone:
            assert lake.heads() == {NODE: head}
        assert fleet(lake, "repair", "-o", "json").exit_code == 0
        assert fleet(lake, "repair", "--check").output == "sound\n"
    assert reported(lake.heads()[NODE]) == reported(head)


def test_an_import_removes_what_died_ones_left(whole: Path, tmp_path: Path) -> None:
    """Beside its own files, and older than its claim: what is younger may be somebody's work."""
    lake = Lake.open_or_create(str(tmp_path / "lake"))
    assert lake.store.directory is not None
    date = "2026-11-21"
    old, young = (rows_path("records", date, NODE, name) for name in ("old", "young"))
    other = rows_path("verdicts", date, "node-y", "old")
    for path in (old, young, other):
        lake.store.create(path, b"of an import that died")
    os.utime(lake.store.directory / young, ns=(LATER_NS, LATER_NS))
    head = head_of(task(lake.store.url, str(whole / "day-0" / NODE)))
    assert stored_files(lake) - files_of(lake, head).keys() == {young, other}
    lake.store.create(old, b"of an import that died")
    os.utime(lake.store.directory / old, ns=(1 << 40, 1 << 40))
    assert lake.sweep(0).files == 1  # older than the claim of its node
    assert stored_files(lake) - files_of(lake, head).keys() == {young, other}
