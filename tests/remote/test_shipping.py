"""What is sealed is stored elsewhere, each segment once, and a ledger comes back from there."""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.dropping import Policy
from kubeledger.ledger.kept import SHIPPED, load_mark
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import MANIFEST, shipper_lock
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError, LedgerBusyError
from kubeledger.remote.restore import find_copies, restore
from kubeledger.remote.shipping import Backlog, ShipConflictError, Shipment, Shipper
from kubeledger.remote.store import Store
from kubeledger.replay.dropping import drop_by_policy, plan_drops
from tests.buckets import DyingStore, Killed, Place, put_odd
from tests.cli.nodes import run
from tests.ledger.making import (
    NODE,
    append,
    batch,
    copy,
    import_of,
    ledger_of,
    lines,
    segment_paths,
    seqs,
)

SMALL_BYTES = 1000
"""Of a segment: four records."""


def small(path: Path, count: int = 22) -> Ledger:
    """A sealed segment for every four records, at the times 0, 1 ...; the last one is open."""
    return ledger_of(
        path, *(batch(s, min(4, count - s)) for s in range(0, count, 4)), segment_bytes=SMALL_BYTES
    )


def shipped(ledger: Ledger, store: Store) -> list[Shipment]:
    return list(Shipper(ledger, store).ship())


def stored(store: Store) -> dict[str, bytes]:
    return {each.path: store.get(each.path) or b"" for each in store.list()}


def brought_back(store: Store, path: Path) -> Ledger:
    restore(store, find_copies(store), path)
    return Ledger.open(path)


def check_copy(ledger: Ledger, store: Store, tmp_path: Path) -> None:
    """The copy holds all sealed records, byte for byte, and so does one that a plain tool makes."""
    sealed = [path for path in segment_paths(ledger) if path.suffix == ".zst"]
    shutil.rmtree(tmp_path / "back", ignore_errors=True)
    back = brought_back(store, tmp_path / "back")
    assert [p.read_bytes() for p in segment_paths(back)] == [p.read_bytes() for p in sealed]
    assert audit(back).findings == ()
    assert back.info(NODE) == Ledger.open(back.path).manifest().nodes[NODE]
    (prefix,) = {path.partition("/nodes/")[0] for path in stored(store) if "/nodes/" in path}
    plain = tmp_path / "plain"
    shutil.rmtree(plain, ignore_errors=True)
    for name, content in stored(store).items():
        file = plain / name.removeprefix(f"{prefix}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    assert audit(Ledger.open(plain)).findings == ()


def test_what_is_sealed_is_stored_once_and_comes_back(place: Place, tmp_path: Path) -> None:
    """The open segment stays; what is sealed later follows; nothing is stored twice."""
    ledger, store = small(tmp_path / "l"), Store(place.url, make=True)
    shipper = Shipper(ledger, store)
    sizes = [path.stat().st_size for path in segment_paths(ledger) if path.suffix == ".zst"]
    assert shipper.backlog() == Backlog(5, sum(sizes))
    found = list(shipper.ship())
    assert [(each.first_seq, each.last_seq, each.was_there) for each in found] == [
        (first, first + 3, False) for first in range(1, 20, 4)
    ]
    assert shipper.backlog() == Backlog(0, 0)
    assert list(shipper.ship()) == []
    check_copy(ledger, store, tmp_path)
    append(ledger, batch(22, 4), import_of([30], "ab" * 32), batch(29, 1))
    assert [each.last_seq for each in shipped(ledger, store)] == [26, 29]
    with ledger.writer() as writer:
        writer.seal_open()
    assert [each.last_seq for each in shipped(ledger, store)] == [30]
    check_copy(ledger, store, tmp_path)


def test_without_a_mark_what_is_there_is_read_and_not_stored_again(tmp_path: Path) -> None:
    ledger, store = small(tmp_path / "l"), Store(str(tmp_path / "place"), make=True)
    shipped(ledger, store)
    before = {each.path: each for each in store.list() if "segments" in each.path}
    mark = ledger.path / "nodes" / NODE / SHIPPED
    for spoil in (mark.unlink, lambda: mark.write_bytes(mark.read_bytes()[:-30])):
        spoil()
        assert [each.was_there for each in shipped(ledger, store)] == [True] * 5
        assert {each.path: each for each in store.list() if "segments" in each.path} == before
        check_copy(ledger, store, tmp_path)


def test_a_death_at_every_write(tmp_path: Path) -> None:
    """What is left is a copy that lacks its end at most, and the next one goes on."""
    whole = small(tmp_path / "whole", 14)
    for writes in range(30):
        ledger = copy(whole, tmp_path / f"l{writes}")
        store = DyingStore(str(tmp_path / f"s{writes}"), make=True)
        store.writes_left = writes
        try:
            shipped(ledger, store)
        except Killed:
            store.writes_left = 1 << 30
            if any("segments" in path for path in stored(store)):
                half = brought_back(store, tmp_path / f"half{writes}")
                assert seqs(half) == list(range(1, len(seqs(half)) + 1))
            shipped(ledger, store)
            check_copy(ledger, store, tmp_path)
        else:
            break
    assert writes == 6  # a segment and the manifest, three times


def test_a_death_before_the_mark_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, store = small(tmp_path / "l"), Store(str(tmp_path / "place"), make=True)

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("kubeledger.remote.shipping.save_mark", die)
        with pytest.raises(Killed):
            shipped(ledger, store)
    assert [each.was_there for each in shipped(ledger, store)] == [True] + [False] * 4
    check_copy(ledger, store, tmp_path)


def test_two_shippers_at_once(place: Place, tmp_path: Path) -> None:
    """Of copies of one ledger, on two machines: both find the same there."""
    ledger = small(tmp_path / "l")
    twin = copy(ledger, tmp_path / "twin")
    store = Store(place.url, make=True)
    one, other = Shipper(ledger, store).ship(), Shipper(twin, store).ship()
    found = [each.was_there for pair in zip(one, other, strict=True) for each in pair]
    assert found == [False, True] * 5
    check_copy(ledger, store, tmp_path)


def test_one_shipper_a_ledger(tmp_path: Path) -> None:
    ledger = small(tmp_path / "l")
    with (
        shipper_lock(ledger.path),
        pytest.raises(LedgerBusyError, match="another shipper is at work"),
        shipper_lock(ledger.path),
    ):
        pass
    with ledger.writer(), shipper_lock(ledger.path):
        pass


def test_another_ledger_of_the_same_node_is_another_copy(tmp_path: Path) -> None:
    """As after a disk was replaced; which one is to come back must be said."""
    store = Store(str(tmp_path / "place"), make=True)
    first = small(tmp_path / "l")
    other = ledger_of(tmp_path / "m", batch(100, 4), batch(104, 4), segment_bytes=SMALL_BYTES)
    shipped(first, store)
    shipped(other, store)
    copies = find_copies(store)
    assert len(copies.copies) == 2
    with pytest.raises(BadQuestionError, match="there are 2 ledgers of node-a"):
        restore(store, copies, tmp_path / "back")
    for each in copies.copies:
        back = tmp_path / each.prefix.replace("/", "-")
        below = Store(store.address(each.prefix))
        (restored,) = restore(below, find_copies(below), back).nodes
        assert restored.last_seq in (20, 8)


def test_a_fork_is_refused_and_nothing_is_overwritten(tmp_path: Path) -> None:
    """A ledger restored from an older copy, that went on otherwise."""
    ledger = small(tmp_path / "l", 10)
    fork = copy(ledger, tmp_path / "fork")
    store = Store(str(tmp_path / "place"), make=True)
    append(ledger, batch(10, 4), batch(14, 4))
    shipped(ledger, store)
    append(fork, batch(50, 4), batch(54, 4))
    before = stored(store)
    with pytest.raises(ShipConflictError, match="left as it is"):
        shipped(fork, store)
    assert {path: data for path, data in stored(store).items() if MANIFEST not in path} == {
        path: data for path, data in before.items() if MANIFEST not in path
    }
    # Its mark beside the fork: the chain shows that it is of another history.
    mark = Path("nodes", NODE, SHIPPED)
    shutil.copyfile(ledger.path / mark, fork.path / mark)
    append(fork, batch(58, 4))
    with pytest.raises(ShipConflictError, match="is not the one that was shipped"):
        shipped(fork, store)


def test_a_damaged_segment_is_not_stored(tmp_path: Path) -> None:
    ledger, store = small(tmp_path / "l"), Store(str(tmp_path / "place"), make=True)
    damaged = segment_paths(ledger)[2]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(DamagedLedgerError):
        shipped(ledger, store)
    (mark,) = [load_mark(ledger.path / "nodes" / NODE)]
    assert mark is not None
    assert mark.info.last_seq == 8
    assert damaged.name not in "".join(stored(store))


def test_what_does_not_read_back_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, store = small(tmp_path / "l"), Store(str(tmp_path / "place"), make=True)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "digest", lambda *_: "0" * 32)
        with pytest.raises(Exception, match="does not read back"):
            shipped(ledger, store)
    assert load_mark(ledger.path / "nodes" / NODE) is None


def test_a_drop_takes_only_what_was_shipped(tmp_path: Path) -> None:
    """Unless it is said that it may; then the copy that comes next begins there."""
    ledger, store = small(tmp_path / "l"), Store(str(tmp_path / "place"), make=True)
    policy = Policy(before_ns=18, words="before 18")
    (found,) = plan_drops(ledger, policy)
    assert (found.choice.last_seq, found.choice.unshipped_seq) == (16, 0)  # nothing is shipped
    shipping = Shipper(ledger, store).ship()
    assert [next(shipping).last_seq, next(shipping).last_seq] == [4, 8]
    del shipping
    (found,) = plan_drops(ledger, policy)
    assert (found.choice.last_seq, found.choice.unshipped_seq) == (8, 16)
    drop_by_policy(ledger, policy, 1_000)
    assert [each.first_seq for each in shipped(ledger, store)] == [9, 13, 17, 21]
    with ledger.writer() as writer:
        writer.seal_open()
    shipped(ledger, store)
    back = brought_back(store, tmp_path / "back")
    assert seqs(back) == list(range(1, 24))  # the drop's record included, and what it dropped here
    assert audit(back).findings == ()
    append(ledger, batch(40, 4), batch(44, 4))
    drop_by_policy(ledger, Policy(before_ns=44, unshipped=True, words="all"), 2_000)
    shipped(ledger, store)
    copies = find_copies(store).copies
    assert len({each.prefix for each in copies}) == 2
    (newer,) = (each for each in copies if not each.files[-1].path.endswith("1.jsonl.zst"))
    assert newer


def test_nothing_is_there(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "place"), make=True)
    with pytest.raises(BadQuestionError, match="no shipped ledger of node-x"):
        find_copies(store, "node-x")
    shipped(small(tmp_path / "l"), store)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(BadQuestionError, match="not empty"):
        restore(store, find_copies(store, NODE), tmp_path / "full")


@pytest.mark.parametrize("lost", ["first", "middle", "last"])
def test_a_copy_that_is_not_whole_is_refused(tmp_path: Path, lost: str) -> None:
    """Wherever a segment is gone; what is right is not downloaded again afterwards."""
    store = Store(str(tmp_path / "place"), make=True)
    shipped(small(tmp_path / "l"), store)
    names = [path for path in stored(store) if "segments" in path]
    gone = names[{"first": 0, "middle": 2, "last": -1}[lost]]
    content = store.get(gone)
    assert content is not None
    store.delete([gone])
    with pytest.raises(DamagedLedgerError):
        brought_back(store, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    store.create(gone, content)
    assert seqs(brought_back(store, tmp_path / "back")) == list(range(1, 21))
    assert not (tmp_path / "back.restoring").exists()


def test_changed_bytes_are_found(tmp_path: Path) -> None:
    """The chain proves each line, the manifest each byte around them."""
    store = Store(str(tmp_path / "place"), make=True)
    shipped(small(tmp_path / "l"), store)
    name = next(path for path in stored(store) if "segments" in path)
    data = bytearray(store.get(name) or b"")
    data[20] ^= 1
    store.replace(name, bytes(data))
    with pytest.raises(DamagedLedgerError):
        brought_back(store, tmp_path / "back")


def test_no_change_of_a_copy_gives_other_records(tmp_path: Path) -> None:
    """Any byte of any object: what comes back is the same, or nothing does; with a base, too."""
    ledger, store = small(tmp_path / "l"), Store(str(tmp_path / "place"), make=True)
    shipped(ledger, store)
    drop_by_policy(ledger, Policy(before_ns=8, words="before 8"), 1_000)
    append(ledger, batch(40, 4))
    shipped(ledger, store)
    expected = lines(brought_back(store, tmp_path / "whole"))
    chance = random.Random(11)
    for number in range(40):
        path = chance.choice(store.list()).path
        content = store.get(path)
        assert content is not None
        at = chance.randrange(len(content))
        flipped = bytes([content[at] ^ 1 << chance.randrange(8)])
        store.replace(path, content[:at] + chance.choice((flipped + content[at + 1 :], b"")))
        with suppress(DamagedLedgerError):
            assert lines(brought_back(store, tmp_path / f"back{number}")) == expected
        store.replace(path, content)
        shutil.rmtree(tmp_path / f"back{number}.restoring", ignore_errors=True)


def test_a_manifest_that_is_behind_or_gone(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "place"), make=True)
    ledger = small(tmp_path / "l", 10)
    shipped(ledger, store)
    (name,) = (path for path in stored(store) if path.endswith(MANIFEST))
    behind = store.get(name)
    assert behind is not None
    append(ledger, batch(10, 4))
    shipped(ledger, store)
    store.replace(name, behind)
    assert seqs(brought_back(store, tmp_path / "one")) == list(range(1, 15))
    store.delete([name])
    back = brought_back(store, tmp_path / "two")
    assert seqs(back) == list(range(1, 15))
    assert audit(back).findings == ()
    assert all(segment.stored_crc for segment in back.info(NODE).segments)


def test_names_that_lead_out_are_not_taken(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "place"), make=True)
    shipped(small(tmp_path / "l"), store)
    (prefix,) = {each.prefix for each in find_copies(store).copies}
    for name in (
        "x",
        "nodes/node-a/x",
        "nodes/node-a/segments/../../../x",
        "nodes/node-a/segments/1.zst",
    ):
        (tmp_path / "place" / prefix / name).resolve().write_bytes(b"x")
    back = brought_back(store, tmp_path / "back")
    files = {path.name for path in back.path.rglob("*") if path.is_file()}
    assert files == {MANIFEST, *(path.name for path in segment_paths(back))}


def test_odd_objects_are_named_and_nothing_else_is_lost(place: Place, tmp_path: Path) -> None:
    """Names that are no path, junk segments, a damaged copy: told; all else comes back."""
    store, first = Store(place.url, make=True), small(tmp_path / "l")
    shipped(first, store)
    (good,) = find_copies(store).copies
    other = Ledger.create(tmp_path / "m", WriterOptions(segment_bytes=SMALL_BYTES))
    append(other, batch(0, 4), batch(4, 4), node="node-b")
    shipped(other, store)
    segments = f"{good.prefix}/nodes/{NODE}/segments"
    junk = [f"{segments}/{number:020d}.jsonl.zst" for number in (3, 99)]
    for path in junk:
        store.replace(path, b"junk")
    put_odd(place, ["zz//b", "zz/../b", f"{NODE}/zz//x"])
    outcome = restore(store, find_copies(store), tmp_path / "back")
    assert seqs(Ledger.open(tmp_path / "back")) == list(range(1, 21))
    assert {each.node for each in outcome.nodes} == {NODE, "node-b"}
    named = {each.path for each in outcome.left_out}
    assert named > set(junk)
    damaged = next(file for copy in find_copies(store, "node-b").copies for file in copy.files)
    store.replace(damaged.path, b"junk")
    command = ["restore", "--from", place.url, "--ledger", str(tmp_path / "again")]
    result = run(*command, exits=4)
    assert "not restored: node-b: " in result.stderr
    assert all(f"left out: {store.address(path)}: " in result.stderr for path in junk)
    assert lines(Ledger.open(tmp_path / "again")) == lines(Ledger.open(tmp_path / "back"))
