"""Dropping by policy: what stays is proved and answers as before; no crash leaves it half done."""

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_walk import AuditReport
from kubeledger.ledger.base import BASE, Base, load_base, save_base
from kubeledger.ledger.dropping import Policy, choose
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.sealing import decompress
from kubeledger.ledger.snapshots import Snapshot
from kubeledger.ledger.storage import DERIVED, MANIFEST
from kubeledger.model.bodies.ledger import RecordsDropped
from kubeledger.model.errors import (
    BadQuestionError,
    DamagedLedgerError,
    KubeledgerError,
    LedgerUnavailableError,
    RecordsDroppedError,
)
from kubeledger.replay import refresh_snapshots, state_at
from kubeledger.replay.dropping import drop_by_policy, plan_drops
from kubeledger.replay.node.state import canonical_json
from tests.faults import LOSSES, Fault, FaultyDisk, Loss, PowerCut
from tests.ledger.making import NODE, append, batch, copy, import_of, ledger_of, segment_paths, seqs

NOW_NS = 1_800_000_000_000_000_000


def small(path: Path, count: int = 24) -> Ledger:
    """A segment for every four records, at the times 0, 1 ..."""
    return ledger_of(path, *(batch(s, 4) for s in range(0, count, 4)), segment_bytes=1000)


def before(ts_ns: int) -> Policy:
    """What is from before a time may go."""
    return Policy(before_ns=ts_ns, words=f"before {ts_ns}")


def drop(ledger: Ledger, ts_ns: int) -> None:
    drop_by_policy(ledger, before(ts_ns), NOW_NS)


def states(ledger: Ledger, first_seq: int, last_seq: int) -> list[bytes]:
    """The state after each of some records."""
    return [canonical_json(state_at(ledger, seq=seq)) for seq in range(first_seq, last_seq + 1)]


def base_path(ledger: Ledger) -> Path:
    """The node's ``base.json``."""
    return ledger.path / "nodes" / NODE / BASE


def dropped_records(ledger: Ledger) -> list[RecordsDropped]:
    bodies = (record.body for record in ledger.records(NODE))
    return [body for body in bodies if isinstance(body, RecordsDropped)]


def problems(report: AuditReport) -> str:
    return "\n".join(finding.problem for finding in report.findings)


# What a drop leaves


def test_every_kept_record_has_the_state_that_it_had(tmp_path: Path) -> None:
    """For every boundary there is; the chain, the numbers and the last digest go on."""
    whole = small(tmp_path / "whole")
    expected = states(whole, 1, 24)
    digest = whole.digest_at(NODE, 24)
    for cut in range(4, 24, 4):
        ledger = copy(whole, tmp_path / f"{cut}")
        drop(ledger, cut)
        assert seqs(ledger) == list(range(cut + 1, 26))
        assert states(ledger, cut, 24) == expected[cut - 1 :]
        assert ledger.digest_at(NODE, 24) == digest
        (reported,) = dropped_records(ledger)
        assert (reported.first_seq, reported.last_seq, sum(reported.records.values())) == (
            1,
            cut,
            cut,
        )
        assert reported.chain == (whole.digest_at(NODE, cut) or b"").hex()
        report = audit(ledger)
        assert report.findings == ()
        assert (report.nodes[0].first_seq, report.nodes[0].last_seq) == (cut + 1, 25)
        (ledger.path / MANIFEST).unlink()
        with ledger.writer() as writer:
            assert writer.next_seq(NODE) == 26
        assert states(ledger, cut, 24) == expected[cut - 1 :]
        assert audit(ledger).findings == ()


def test_the_last_segment_is_never_dropped(tmp_path: Path) -> None:
    """Whatever the policy; and what it does not allow stays."""
    ledger = small(tmp_path / "l")
    assert [found.choice.last_seq for found in plan_drops(ledger, before(3))] == [0]
    drop(ledger, 3)
    assert not base_path(ledger).exists()
    drop(ledger, 10**9)
    assert seqs(ledger) == [21, 22, 23, 24, 25]
    drop(ledger, 10**9)
    drop(ledger, 10**9)
    assert seqs(ledger)[-1] <= 26


def test_a_size_to_keep(tmp_path: Path) -> None:
    """The newest segments that fit stay; any condition that allows a drop is enough."""
    ledger = small(tmp_path / "l")
    sizes = [path.stat().st_size for path in segment_paths(ledger)]
    fits = Policy(keep_bytes=sum(sizes[-3:]), words="size")
    (found,) = plan_drops(ledger, fits)
    assert (found.choice.last_seq, found.choice.stored_bytes) == (12, sum(sizes[:3]))
    both = Policy(before_ns=17, keep_bytes=sum(sizes[-3:]), words="both")
    (found,) = plan_drops(ledger, both)
    assert found.choice.last_seq == 16
    assert plan_drops(ledger, Policy(keep_bytes=10**9, words="much"))[0].choice.last_seq == 0
    assert plan_drops(ledger, Policy(keep_bytes=0, words="none"))[0].choice.last_seq == 20
    for wrong in (None, -1):
        with pytest.raises(BadQuestionError):
            Policy(words="", keep_bytes=wrong)
    assert seqs(ledger) == list(range(1, 25))


def test_drop_after_drop(tmp_path: Path) -> None:
    """The newer record tells of the older ones, whose records may be gone themselves."""
    ledger = small(tmp_path / "l")
    expected = states(ledger, 1, 24)
    drop(ledger, 8)
    drop(ledger, 16)
    assert states(ledger, 16, 24) == expected[15:]
    append(ledger, *(batch(s, 4) for s in range(24, 40, 4)))
    drop(ledger, 32)
    assert seqs(ledger)[0] > 26  # the records of both drops went, too
    (reported,) = dropped_records(ledger)
    assert [(d.first_seq, d.last_seq, d.seq) for d in reported.earlier] == [(1, 8, 25), (9, 16, 26)]
    assert reported.first_seq == 17
    assert audit(ledger).findings == ()
    assert [path.name for path in (base_path(ledger).parent / "base").iterdir()] == [
        f"{reported.last_seq:020d}.zst"
    ]


def test_what_was_dropped_is_told(tmp_path: Path) -> None:
    """No question about it gets a wrong answer."""
    ledger = small(tmp_path / "l")
    refresh_snapshots(ledger, NODE, 2)
    drop(ledger, 12)
    assert [seq for seq in ledger.snapshots(NODE).seqs() if seq <= 12] == []
    for ask in (
        lambda: state_at(ledger, seq=11),
        lambda: state_at(ledger, ts_ns=10),
        lambda: seqs(ledger, after_seq=5),
    ):
        with pytest.raises(RecordsDroppedError, match=r"record 25: before 12") as caught:
            ask()
        assert caught.value.exit_code == 2
    assert ledger.record(NODE, 12) is None
    assert ledger.digest_at(NODE, 11) is None
    assert state_at(ledger, ts_ns=11).seq == 12
    assert seqs(ledger, after_seq=12)[0] == seqs(ledger)[0] == 13


def test_a_file_that_goes_while_it_is_chosen_counts_as_it_was_sealed(tmp_path: Path) -> None:
    ledger = small(tmp_path / "l")
    stored_bytes = sum(segment.stored_bytes for segment in ledger.info(NODE).segments[:2])
    with ledger.reading(NODE) as look:
        segment_paths(ledger)[0].unlink()
        assert choose(look, before(8)).stored_bytes == stored_bytes


def test_what_was_derived_goes_with_what_was_dropped(tmp_path: Path) -> None:
    """Up to whatever record it was made: it may tell of those that went."""
    ledger = small(tmp_path / "ledger")
    for place in DERIVED:
        for seq in (5, 20):
            kept = Snapshot(seq=seq, ts_ns=0, version="1", chain="0" * 64, state=b"")
            ledger.snapshots(NODE, place).save(kept)
    drop(ledger, 12)
    assert not any(ledger.snapshots(NODE, place).seqs() for place in DERIVED)


def test_an_import_that_goes_on_behind_the_base(tmp_path: Path) -> None:
    """Its run is the same, with and without a manifest."""
    drafts = import_of(range(20), "d1")
    pieces = [drafts[start : start + 4] for start in range(0, len(drafts), 4)]
    ledger = ledger_of(tmp_path / "l", *pieces, segment_bytes=1000)
    append(ledger, import_of(range(30, 34), "d2"))
    drop(ledger, 10)
    begin = ledger.begin(NODE).seq
    assert begin > 4
    runs = ledger.info(NODE).runs
    assert [(r.first_seq, r.digest, r.complete) for r in runs] == [
        (begin + 1, "d1", True),
        (23, "d2", True),
    ]
    (ledger.path / MANIFEST).unlink()
    assert ledger.info(NODE).runs == runs
    with ledger.writer():
        pass
    assert ledger.manifest().nodes[NODE].runs == runs
    (reported,) = dropped_records(ledger)
    assert (reported.imports, reported.open_import, reported.open_run) == (("d1",), "d1", True)


def test_records_that_belong_before_dropped_ones_hold_them(tmp_path: Path) -> None:
    """An older log that was imported later comes first in a replay."""
    ledger = ledger_of(
        tmp_path / "l",
        *(import_of(range(start, start + 3), f"{start}") for start in (50, 60, 10, 70)),
        segment_bytes=1000,
    )
    (found,) = plan_drops(ledger, before(55))
    assert (found.choice.last_seq, found.choice.allowed_seq) == (0, 5)
    (found,) = plan_drops(ledger, before(65))
    assert (found.choice.last_seq, found.choice.allowed_seq) == (15, 15)
    last = ledger.info(NODE).last_seq
    expected = states(ledger, 17, last)
    drop(ledger, 65)
    assert states(ledger, 17, last) == expected


def test_damage_is_never_dropped(tmp_path: Path) -> None:
    """What goes was proved; else nothing goes."""
    ledger = small(tmp_path / "l")
    path = segment_paths(ledger)[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLedgerError):
        drop(ledger, 12)
    assert len(segment_paths(ledger)) == 6
    assert not base_path(ledger).exists()


def test_a_plain_file_that_a_drop_left_goes_with_the_next_writer(tmp_path: Path) -> None:
    """A crash while a segment was sealed leaves it in both forms."""
    ledger = small(tmp_path / "l")
    sealed = segment_paths(ledger)[1]
    with sealed.open("rb") as file:
        lines = b"".join(decompress(file))
    drop(ledger, 8)
    plain = sealed.with_suffix("")
    plain.write_bytes(lines)
    with ledger.writer():
        assert not plain.exists()
    assert seqs(ledger) == list(range(9, 26))


# Crashes


def interrupted(tmp_path: Path, whole: Ledger, fault: Fault, loss: Loss, *, twice: bool) -> bool:
    """One drop with a fault; whether the fault came. Afterwards all must be in order."""
    root = tmp_path / f"{fault.at}"
    root.mkdir()
    ledger = copy(whole, root / "l")
    earlier, target, last = (4, 8, 13) if twice else (0, 4, 12)
    with suppress(LedgerUnavailableError, PowerCut), FaultyDisk(root, fault) as disk:
        drop(ledger, target)
    disk.lose_power(loss)
    begin = ledger.begin(NODE).seq
    read = seqs(ledger)
    assert begin in {earlier, target}
    assert read == list(range(begin + 1, read[-1] + 1))
    assert read[-1] in {last, last + 1}
    assert audit(ledger).findings == ()
    state = canonical_json(state_at(ledger, seq=11))
    with FaultyDisk(root):
        with ledger.writer() as writer:
            reported = writer.next_seq(NODE) > last + 1
        assert ledger.begin(NODE).seq == (target if reported else earlier)
        assert canonical_json(state_at(ledger, seq=11)) == state
        drop(ledger, target)
        assert ledger.begin(NODE).seq == target
    assert canonical_json(state_at(ledger, seq=11)) == state
    assert audit(ledger).findings == ()
    assert not list(root.rglob("*.tmp"))
    assert len(list((base_path(ledger).parent / "base").iterdir())) == 1
    return disk.struck


def sweep(tmp_path: Path, index: int, step: int, loss: Loss, *, crash: bool, twice: bool) -> int:
    """Drops with a fault at every ``step``-th call; at which call no more came."""
    whole = small(tmp_path / "whole", 12)
    if twice:
        drop(whole, 4)
    for at in range(1 + index, 300, step):
        if not interrupted(tmp_path, whole, Fault(at=at, crash=crash), loss, twice=twice):
            return at
    raise AssertionError("the fault never stopped coming")


@pytest.mark.slow
@pytest.mark.parametrize("twice", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("index", range(3), ids=["power", "process", "error"])
def test_a_crash_at_every_call_of_a_drop(tmp_path: Path, index: int, twice: bool) -> None:
    """Before its record it never was, behind it it is done; readers see one or the other.

    A third of the calls each way.
    """
    loss: Loss = "strict" if index == 0 else "nothing"
    assert sweep(tmp_path, index, 3, loss, crash=index < 2, twice=twice) > 40


@pytest.mark.nightly
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("crash", [False, True], ids=["error", "crash"])
@pytest.mark.parametrize("twice", [False, True], ids=["first", "second"])
def test_a_crash_at_every_call_with_every_loss(
    tmp_path: Path, loss: Loss, crash: bool, twice: bool
) -> None:
    """The disk keeps names and forgets content, in all the ways there are."""
    assert sweep(tmp_path, 0, 1, loss, crash=crash, twice=twice) > 40


def stopped(ledger: Ledger, at: str, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A drop up to record 8 that dies at a step."""

    def die(*_: object, **__: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patch, suppress(PowerCut):
        patch.setattr(f"kubeledger.ledger.{at}", die)
        drop(ledger, 8)
    return ledger


def test_a_drop_without_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base goes back to the one before; a reader never went by it."""
    ledger = stopped(small(tmp_path / "l"), "writer.LedgerWriter.append", monkeypatch)
    assert base_path(ledger).exists()
    assert seqs(ledger) == list(range(1, 25))
    append(ledger, batch(24, 1))
    assert not base_path(ledger).exists()
    assert list((base_path(ledger).parent / "base").iterdir()) == []
    assert audit(ledger).findings == ()


def test_a_drop_that_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = stopped(small(tmp_path / "l"), "writer.finish_drop", monkeypatch)
    assert seqs(ledger) == list(range(1, 26))
    assert audit(ledger).findings == ()
    append(ledger, batch(25, 1))
    assert seqs(ledger) == list(range(9, 27))
    assert audit(ledger).findings == ()


@pytest.mark.parametrize("counted", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize(("first_back", "begins"), [(1, 13), (0, 1)], ids=["some", "all"])
def test_a_drop_of_which_some_segments_are_gone(
    tmp_path: Path, first_back: int, begins: int, counted: bool
) -> None:
    """Or were put back: readers begin at the base once one is gone, a writer removes the rest."""
    whole = small(tmp_path / "whole")
    ledger = copy(whole, tmp_path / "l")
    drop(ledger, 12)
    for path in segment_paths(whole)[first_back:3]:
        (segment_paths(ledger)[0].parent / path.name).write_bytes(path.read_bytes())
    if not counted:
        (ledger.path / MANIFEST).write_bytes((whole.path / MANIFEST).read_bytes())
    assert seqs(ledger) == list(range(begins, 26))
    assert ledger.info(NODE).last_seq == 25
    assert audit(ledger).findings == ()
    append(ledger, batch(25, 1))
    assert segment_paths(ledger)[0].name.startswith("00000000000000000013")
    assert seqs(ledger) == list(range(13, 27))


def test_a_lost_base_is_made_again(tmp_path: Path) -> None:
    """From the drop's record, the same as before; audit tells until then."""
    ledger = small(tmp_path / "l")
    drop(ledger, 12)
    data = base_path(ledger).read_bytes()
    for damaged in (None, b"", data[:-20], data.replace(b'"last_seq": 12', b'"last_seq": 13')):
        base_path(ledger).unlink()
        if damaged is not None:
            base_path(ledger).write_bytes(damaged)
        assert seqs(ledger) == list(range(13, 26))
        assert state_at(ledger, seq=13).seq == 13
        assert "damaged or lost" in problems(audit(ledger))
        with ledger.writer():
            pass
        assert base_path(ledger).read_bytes() == data
        assert audit(ledger).findings == ()


def refused(ledger: Ledger) -> None:
    """Readers of the state and writers say that it is damaged."""
    with pytest.raises(DamagedLedgerError) as caught:
        state_at(ledger)
    assert caught.value.exit_code == 4
    with pytest.raises(DamagedLedgerError):
        append(ledger, batch(0, 1))


@pytest.mark.parametrize("dropped", [False, True])
def test_segments_removed_by_hand(tmp_path: Path, dropped: bool) -> None:
    """Without a record of a drop, or beyond it: damage, as before."""
    ledger = small(tmp_path / "l")
    if dropped:
        drop(ledger, 8)
    segment_paths(ledger)[0].unlink()
    refused(ledger)
    with pytest.raises(DamagedLedgerError):
        seqs(ledger)
    assert "begins with record" in problems(audit(ledger))


@pytest.mark.parametrize("record_seq", [25, 20, 99])
def test_a_forged_base_is_found(tmp_path: Path, record_seq: int) -> None:
    """A larger drop than was recorded, with all that can be computed without the writer."""
    ledger = small(tmp_path / "l")
    drop(ledger, 8)
    base = load_base(base_path(ledger).parent)
    assert base is not None
    chain = (ledger.digest_at(NODE, 12) or b"").hex()
    larger = msgspec.structs.replace(base.dropped, last_seq=12, latest_ts_ns=11, chain=chain)
    save_base(base_path(ledger).parent, Base(node=NODE, record_seq=record_seq, dropped=larger))
    segment_paths(ledger)[0].unlink()
    assert "no record says" in problems(audit(ledger))
    refused(ledger)


def test_a_changed_base_beside_the_right_segments(tmp_path: Path) -> None:
    """Another digest, another policy: what the record says counts, and audit finds the base."""
    ledger = small(tmp_path / "l")
    drop(ledger, 8)
    base = load_base(base_path(ledger).parent)
    assert base is not None
    for changes in ({"chain": "00" * 32}, {"policy": "nothing"}, {"base_digest": "00" * 32}):
        dropped = msgspec.structs.replace(base.dropped, **changes)
        save_base(base_path(ledger).parent, msgspec.structs.replace(base, dropped=dropped))
        assert audit(ledger).findings
        refused(ledger)


def test_what_was_kept_is_no_cache(tmp_path: Path) -> None:
    """Gone or changed, no state is made up; the records can still be read."""
    ledger = small(tmp_path / "l")
    drop(ledger, 8)
    (path,) = (base_path(ledger).parent / "base").iterdir()
    data = path.read_bytes()
    for damaged in (None, b"", data[:-5], data[:30] + bytes([data[30] ^ 4]) + data[31:]):
        path.unlink(missing_ok=True)
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(KubeledgerError) as caught:
            state_at(ledger)
        assert caught.value.file == str(path)
        faults = [one for one in audit(ledger).findings if "in place of dropped" in one.problem]
        assert [one.file for one in faults] == [str(path)]
        assert seqs(ledger) == list(range(9, 26))


def test_what_was_kept_is_read_up_to_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = small(tmp_path / "l")
    drop(ledger, 8)
    (path,) = (base_path(ledger).parent / "base").iterdir()
    with path.open("rb") as file:
        size_bytes = len(b"".join(decompress(file)))
    monkeypatch.setattr("kubeledger.ledger.base._CONTENT_BYTES_MAX", size_bytes)
    assert state_at(ledger)
    monkeypatch.setattr("kubeledger.ledger.base._CONTENT_BYTES_MAX", size_bytes - 1)
    with pytest.raises(DamagedLedgerError, match="too large"):
        state_at(ledger)


def test_the_base_is_json_with_a_crc(tmp_path: Path) -> None:
    ledger = small(tmp_path / "l")
    drop(ledger, 8)
    document = json.loads(base_path(ledger).read_bytes())
    assert document["dropped"]["last_seq"] == 8
    assert document["record_seq"] == 25
