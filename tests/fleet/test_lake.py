"""The lake's protocol: whoever dies or comes second, nothing is lost, doubled or half there."""

import os
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeledger.fleet.lake import Lake, MovedOnError, lake_file
from kubeledger.fleet.layout import LAKE, claim_path, done_path, rows_path, run_id
from kubeledger.fleet.types import Failure, Head, LakeFile, NodeSummary, SourceSeen
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.remote.store import StorageError, Store
from tests.buckets import DyingStore, Killed, Place
from tests.waiting import PATIENCE_S

NODE = "pool-a/worker.1"
LATER_NS = 1 << 62


def _lake(url: Path) -> Lake:
    return Lake.open_or_create(str(url))


def _import(lake: Lake, source: str, scratch: Path) -> Head:
    """One more source for NODE: what it holds is its name, and a node's file is all its names."""
    base = lake.head(NODE)
    before = () if base is None else base.sources
    if source in {seen.url for seen in before} and base is not None:
        return base
    sources = (*before, SourceSeen(url=source, stamp="1", digest=source, size_bytes=1))
    names = sorted(seen.digest for seen in sources)
    id_ = run_id(names, "", "rules")
    path = rows_path("records", "2026-11-21", NODE, id_)
    file = scratch / f"{threading.get_ident()}-{id_}"
    file.write_text(" ".join(names))
    head = Head(
        layout=1,
        id=id_,
        generation=1 if base is None else base.generation + 1,
        sources=sources,
        files=(lake_file(path, file),),
        summary=NodeSummary(node=NODE, name="worker.1"),
    )
    lake.store.create(path, file)
    lake.commit(head, base)
    return head


def _import_until_done(lake: Lake, source: str, scratch: Path) -> None:
    for _ in range(10):
        try:
            _import(lake, source, scratch)
        except MovedOnError:
            continue
        return
    raise AssertionError("an import never got its turn")


def _content(lake: Lake) -> list[str]:
    head = lake.heads().get(NODE)
    if head is None:
        return []
    (file,) = head.files
    content = lake.store.get(file.path)
    assert content is not None, "a head names a file that is not there"
    assert len(content) == file.size_bytes
    return content.decode().split()


def test_a_new_source_takes_the_place_of_the_generation_before(tmp_path: Path) -> None:
    """Nothing of the generation before is left but its being counted."""
    lake = _lake(tmp_path / "lake")
    first = _import(lake, "a", tmp_path)
    second = _import(lake, "b", tmp_path)
    assert (first.generation, second.generation) == (1, 2)
    assert _content(lake) == ["a", "b"]
    stored = [each.path for each in lake.store.list()]
    assert stored == sorted(
        [LAKE, claim_path(NODE, 2), done_path(NODE, second.id), second.files[0].path]
    )


@pytest.mark.parametrize("kept", range(12))
def test_a_process_that_dies_before_any_write_loses_and_doubles_nothing(
    kept: int, tmp_path: Path
) -> None:
    """Readers see the generation before or this one, and the next import goes on."""
    lake = _lake(tmp_path / "lake")
    _import(lake, "a", tmp_path)
    store = DyingStore(lake.store.url)
    store.writes_left = kept
    died = False
    try:
        _import(Lake(store), "b", tmp_path)
    except Killed:
        died = True
    assert died == (kept < 7)  # file, claim, marker, and four removals
    assert _content(lake) in (["a"], ["a", "b"])
    _import_until_done(lake, "b", tmp_path)
    assert _content(lake) == ["a", "b"]
    _import_until_done(lake, "c", tmp_path)
    assert _content(lake) == ["a", "b", "c"]
    lake.sweep(LATER_NS)
    assert _content(lake) == ["a", "b", "c"]
    assert len(lake.store.list("records")) == len(lake.store.list("done")) == 1


class _Turns:
    """Lets two threads run in a given order, one store operation at a time."""

    def __init__(self, order: list[bool]) -> None:
        self._order = order
        self._turn = threading.Condition()
        self._alive = {False, True}

    def wait(self, me: bool) -> None:
        with self._turn:
            while self._alive == {False, True} and self._order and self._order[0] != me:
                self._turn.wait(PATIENCE_S)
            if self._order:
                self._order.pop(0)
            self._turn.notify_all()

    def leave(self, me: bool) -> None:
        with self._turn:
            self._alive.discard(me)
            self._turn.notify_all()


class _TurnStore(Store):
    def __init__(self, url: str, turns: _Turns, me: bool) -> None:
        super().__init__(url)
        self._turns, self._me = turns, me

    def get(self, path: str) -> bytes | None:
        self._turns.wait(self._me)
        return super().get(path)

    def create(self, path: str, content: bytes | Path) -> bool:
        self._turns.wait(self._me)
        return super().create(path, content)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._turns.wait(self._me)
            super().delete([path])


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(order=st.lists(st.booleans(), min_size=10, max_size=60), same=st.booleans())
def test_two_imports_at_once_both_count_in_any_order(
    order: list[bool], same: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scratch = tmp_path_factory.mktemp("turns")
    lake = _lake(scratch / "lake")
    _import(lake, "a", scratch)
    turns = _Turns(order)
    wrong: list[BaseException] = []

    def run(me: bool, source: str) -> None:
        try:
            _import_until_done(Lake(_TurnStore(lake.store.url, turns, me)), source, scratch)
        except BaseException as error:  # told by the main thread
            wrong.append(error)
        finally:
            turns.leave(me)

    sources = {False: "b", True: "b" if same else "c"}
    threads = [threading.Thread(target=run, args=item) for item in sources.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not wrong
    assert _content(lake) == sorted({"a", *sources.values()})


def test_an_import_that_slept_through_two_generations_begins_again(tmp_path: Path) -> None:
    """The claims that would have told it so were tidied away, but the newest one is there."""
    lake = _lake(tmp_path / "lake")
    base = _import(lake, "a", tmp_path)
    for source in ("b", "c"):
        _import(lake, source, tmp_path)
    slow = msgspec.structs.replace(base, generation=2, id="0" * 32)
    with pytest.raises(MovedOnError):
        lake.commit(slow, base)
    assert _content(lake) == ["a", "b", "c"]
    assert [each.path for each in lake.store.list("claims")] == [claim_path(NODE, 3)]


def test_a_generation_counts_that_is_as_one_before_whose_marker_was_left(tmp_path: Path) -> None:
    """As when two versions of the rules take turns, and one died before it had tidied."""
    lake = _lake(tmp_path / "lake")
    first = _import(lake, "a", tmp_path)
    left = lake.store.get(done_path(NODE, first.id))
    assert left is not None
    second = _import(lake, "b", tmp_path)
    lake.store.create(done_path(NODE, first.id), left)
    path = first.files[0].path
    third = msgspec.structs.replace(first, generation=3)
    lake.store.create(path, b"a")
    lake.commit(third, second)
    assert (lake.head(NODE), _content(lake)) == (third, ["a"])
    assert _import(lake, "c", tmp_path).generation == 4


def test_an_index_saves_reading_markers_and_is_never_believed_over_them(tmp_path: Path) -> None:
    lake = _lake(tmp_path / "lake")
    _import(lake, "a", tmp_path)
    assert lake.write_index() == 1
    assert lake.write_index() == 1
    assert len(lake.store.list("index")) == 1
    _import(lake, "b", tmp_path)
    assert _content(lake) == ["a", "b"]


def test_failures_are_kept_by_source_until_it_is_in_the_lake(tmp_path: Path) -> None:
    """A newer failure of a source takes the place of the older one."""
    lake = _lake(tmp_path / "lake")
    for reason in ("first", "second"):
        lake.fail(Failure(source="s3://b/x", kind="input", reason=reason))
    lake.fail(Failure(source="/a", kind="lost", reason="gone"))
    assert [(each.source, each.reason) for each in lake.failures()] == [
        ("/a", "gone"),
        ("s3://b/x", "second"),
    ]
    lake.forget_failure("/a")
    lake.forget_failure("never failed")
    assert [each.source for each in lake.failures()] == ["s3://b/x"]


def test_what_is_no_lake_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadQuestionError, match="there is no lake"):
        Lake.open(str(tmp_path / "nothing"))
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mother.txt").write_text("dear")
    with pytest.raises(BadQuestionError, match="mother"):
        Lake.open_or_create(str(tmp_path / "letters"))
    lake = _lake(tmp_path / "lake")
    lake.store.replace(LAKE, b'{"format":"kubeledger lake","layout":99}')
    with pytest.raises(DamagedLedgerError, match="layout 99"):
        _lake(tmp_path / "lake")
    lake.store.replace(LAKE, b"\xff")
    with pytest.raises(DamagedLedgerError, match="cannot be read"):
        Lake.open(lake.store.url)


def test_a_damaged_marker_is_named(tmp_path: Path) -> None:
    lake = _lake(tmp_path / "lake")
    head = _import(lake, "a", tmp_path)
    lake.store.replace(done_path(NODE, head.id), b"{")
    with pytest.raises(DamagedLedgerError, match=head.id):
        lake.heads()


def test_a_store_tells_what_there_is(place: Place, tmp_path: Path) -> None:
    store = Store(f"{place.url}/store", make=True)
    store.replace("b/x%2Fy%40z/file", b"one")
    store.replace("b/a/file", b"one")
    assert (store.folders("b/"), store.folders("a/")) == (["a", "x%2Fy%40z"], [])
    assert store.create("a/x%2Fy", b"one")
    assert not store.create("a/x%2Fy", b"two")
    assert store.get("a/x%2Fy") == b"one"
    assert store.get("a/none") is None
    assert [(each.path, each.size_bytes) for each in store.list("a")] == [("a/x%2Fy", 3)]
    store.download("a/x%2Fy", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"one"
    with pytest.raises(StorageError, match="no such object"):
        store.download("a/none", tmp_path / "none")
    store.delete(["a/x%2Fy", "a/x%2Fy"])
    assert store.stat("a/x%2Fy") is None


def test_what_a_directory_acknowledges_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, int]] = []

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced.append((status.st_dev, status.st_ino))

    monkeypatch.setattr(os, "fsync", fsync)
    store = Store(str(tmp_path / "store"), make=True)
    for write in (store.create, store.replace):
        synced.clear()
        write("done/x%2Fy/1.json", b"{}")
        for path in ("done/x%2Fy/1.json", "done/x%2Fy", "done", ""):
            status = (tmp_path / "store" / path).stat()
            assert (status.st_dev, status.st_ino) in synced


@pytest.mark.parametrize("url", ["", "ftp://x/y", "s3://", "s3:///"])
def test_urls_that_mean_nothing_are_refused(url: str) -> None:
    with pytest.raises(BadQuestionError):
        Store(url)


def test_a_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    """The digest is BLAKE2b, and survives JSON."""
    file = tmp_path / "x"
    file.write_bytes(b"abc")
    known = lake_file("records/x", file, rows=3)
    assert known == LakeFile(
        path="records/x", size_bytes=3, digest="cf4ab791c62b8d2b2109c90275287816", rows=3
    )
    assert msgspec.json.decode(msgspec.json.encode(known), type=LakeFile) == known
