"""The recovery table of docs/format.md, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.batch import Draft
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.names import MANIFEST
from kubeledger.ledger.recovery import CountedAnew, RecoveryReport
from kubeledger.ledger.sealing import seal
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.bodies.ledger import RecordsLost
from kubeledger.model.errors import DamagedLedgerError
from tests.ledger.making import (
    NODE,
    append,
    batch,
    copy,
    deleted,
    import_of,
    ledger_of,
    segment_paths,
    seqs,
)


def crashed(path: Path, acknowledged: int, behind: int) -> Ledger:
    """A ledger whose writer died: ``behind`` records are on disk that no manifest counts."""
    ledger = ledger_of(path, batch(0, acknowledged))
    manifest = (ledger.path / MANIFEST).read_bytes()
    append(ledger, *(batch(ts_ns, 1) for ts_ns in range(acknowledged, acknowledged + behind)))
    (ledger.path / MANIFEST).write_bytes(manifest)
    return ledger


def recovered(ledger: Ledger) -> tuple[RecoveryReport, ...]:
    """Open for writing, which recovers; afterwards all must be sound, but for known losses."""
    with ledger.writer() as writer:
        reports = writer.recovery
    assert all(finding.is_loss for finding in audit(ledger).findings)
    with ledger.writer() as writer:
        assert writer.recovery == ()
    return tuple(report for report in reports if isinstance(report, RecoveryReport))


def line_ends(path: Path) -> list[int]:
    """Offsets behind each newline."""
    data = path.read_bytes()
    return [index + 1 for index, byte in enumerate(data) if byte == 10]


def test_nothing_to_recover(tmp_path: Path) -> None:
    """A clean close leaves nothing to report."""
    assert recovered(ledger_of(tmp_path / "l", batch(0, 3))) == ()


def test_a_cut_at_every_byte_of_the_last_segment(tmp_path: Path) -> None:
    """All whole records before the cut are there, the torn rest is dropped and told."""
    plain = [Draft(ts_ns, deleted(ts_ns)) for ts_ns in range(4)]
    ledger = ledger_of(tmp_path / "l", plain[:2])
    manifest = (ledger.path / MANIFEST).read_bytes()
    append(ledger, plain[2:3], plain[3:])
    path = segment_paths(ledger)[0]
    data, ends = path.read_bytes(), line_ends(path)
    for size in range(ends[1], len(data) + 1):
        (ledger.path / MANIFEST).write_bytes(manifest)
        path.write_bytes(data[:size])
        whole = sum(end <= size for end in ends)
        assert seqs(ledger) == list(range(1, whole + 1))
        with ledger.writer() as writer:
            reports = writer.recovery
            appended = writer.append(NODE, plain[:1])
        torn = size - ends[whole - 1]
        cut_off = [one.dropped_bytes for one in reports if isinstance(one, RecoveryReport)]
        assert cut_off == ([torn] if torn else [])
        assert appended == [whole + 1]
        assert path.read_bytes()[: ends[whole - 1]] == data[: ends[whole - 1]]
        assert seqs(ledger) == list(range(1, whole + 2))


def test_a_torn_first_record_of_a_node(tmp_path: Path) -> None:
    """The node has no records then, and takes its first one."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    path = segment_paths(ledger)[0]
    path.write_bytes(path.read_bytes()[:100])
    (ledger.path / MANIFEST).unlink()
    (report,) = recovered(ledger)
    assert (report.last_seq, report.dropped_bytes, report.lost_seq) == (0, 100, None)
    assert append(ledger, batch(0, 1)) == [[1]]


@pytest.mark.parametrize("garbage", [b"x", b"\0" * 5000, b"x\n", b"\0\n\0\n", b"{}\n" * 9, b"\n"])
def test_garbage_behind_the_last_record(tmp_path: Path, garbage: bytes) -> None:
    """Blocks that were given to the file before their content: dropped."""
    ledger = crashed(tmp_path / "l", acknowledged=2, behind=1)
    path = segment_paths(ledger)[0]
    with path.open("ab") as file:
        file.write(garbage)
    (report,) = recovered(ledger)
    assert (report.last_seq, report.dropped_bytes) == (3, len(garbage))
    assert f"{len(garbage)} bytes of an unfinished write were dropped" in report.message


def test_garbage_with_records_behind_it_is_damage(tmp_path: Path) -> None:
    """No torn tail has sound records behind it: nothing is dropped."""
    ledger = crashed(tmp_path / "l", acknowledged=1, behind=3)
    path = segment_paths(ledger)[0]
    data, ends = bytearray(path.read_bytes()), line_ends(path)
    data[ends[1] + 30] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLedgerError) as caught, ledger.writer():
        pass
    assert (caught.value.file, caught.value.offset) == (str(path), ends[1])
    assert "record 3" in caught.value.message
    assert path.read_bytes() == data


def test_a_changed_last_newline_is_no_torn_tail(tmp_path: Path) -> None:
    """Even if no manifest counts the record: an unfinished write does not end like this."""
    ledger = crashed(tmp_path / "l", acknowledged=1, behind=2)
    path = segment_paths(ledger)[0]
    data = path.read_bytes()
    for bit in range(8):
        changed = data[:-1] + bytes([data[-1] ^ 1 << bit])
        path.write_bytes(changed)
        with pytest.raises(DamagedLedgerError, match="newline") as caught, ledger.writer():
            pass
        assert caught.value.offset == line_ends(path)[1]
        with pytest.raises(DamagedLedgerError, match="newline"):
            seqs(ledger)
        (finding,) = audit(ledger).findings
        assert (finding.file, finding.seq, finding.offset) == (str(path), 3, caught.value.offset)
        assert path.read_bytes() == changed


def test_damage_in_the_last_acknowledged_record_is_no_torn_tail(tmp_path: Path) -> None:
    """The manifest counts it, so it was whole once."""
    ledger = ledger_of(tmp_path / "l", batch(0, 3))
    path = segment_paths(ledger)[0]
    data, ends = bytearray(path.read_bytes()), line_ends(path)
    for position in (ends[1], ends[1] + 50, len(data) - 2, len(data) - 1):
        changed = bytearray(data)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(DamagedLedgerError) as caught, ledger.writer():
            pass
        assert caught.value.offset == ends[1]
        assert path.read_bytes() == changed


def test_a_cut_below_what_was_acknowledged_is_never_silent(tmp_path: Path) -> None:
    """Readers refuse; a writer goes on, says what is gone, and audit keeps telling."""
    ledger = ledger_of(tmp_path / "l", import_of(range(5), "d1"))
    whole = copy(ledger, tmp_path / "copy")
    head = audit(whole).nodes[0].head
    path = segment_paths(ledger)[0]
    data, ends = path.read_bytes(), line_ends(path)
    for size in (ends[3], ends[3] + 40):
        path.write_bytes(data[:size])
        with pytest.raises(DamagedLedgerError, match="acknowledged"):
            seqs(ledger)
        with pytest.raises(DamagedLedgerError, match="acknowledged"):
            seqs(ledger, after_seq=6)
        assert any("acknowledged" in finding.problem for finding in audit(ledger).findings)
    (report,) = recovered(ledger)
    assert (report.last_seq, report.dropped_bytes, report.lost_seq) == (4, 40, 7)
    assert "records 5 to 7 were acknowledged and are gone" in report.message
    append(ledger, batch(9, 2))
    assert seqs(ledger) == [1, 2, 3, 4, 5, 6, 7]
    reported = ledger.record(NODE, 5)
    assert reported is not None
    assert isinstance(reported.body, RecordsLost)
    assert (reported.body.first_seq, reported.body.last_seq, reported.body.chain) == (5, 7, head)
    (run,) = ledger.info(NODE).runs
    assert (run.last_seq, run.max_ts_ns, run.complete) == (7, 10, False)
    for _ in range(2):
        (finding,) = audit(ledger).findings
        assert head in finding.problem
        (ledger.path / MANIFEST).unlink(missing_ok=True)
        append(ledger, batch(11, 1))


def test_a_lost_manifest_is_made_again(tmp_path: Path) -> None:
    """From the segments alone, the same as before."""
    ledger = ledger_of(
        tmp_path / "l", import_of(range(5), "d1"), import_of(range(9), "d2"), segment_bytes=2000
    )
    append(ledger, batch(0, 1), node="other")
    before = ledger.manifest()
    for damage in (None, b"", b"{}", (ledger.path / MANIFEST).read_bytes()[:-30]):
        (ledger.path / MANIFEST).unlink()
        if damage is not None:
            (ledger.path / MANIFEST).write_bytes(damage)
        assert seqs(ledger) == list(range(1, 19))
        assert ledger.info(NODE).runs == before.nodes[NODE].runs
        assert any("manifest" in finding.problem for finding in audit(ledger).findings)
        with ledger.writer() as writer:
            (report,) = writer.recovery
        assert isinstance(report, CountedAnew)
        assert report.message.startswith(f"{ledger.path / MANIFEST}: it was lost or damaged")
        assert recovered(ledger) == ()
        rebuilt = ledger.manifest()
        # An empty segment to come is named by the writer that left the last one.
        assert rebuilt.nodes[NODE].runs == before.nodes[NODE].runs
        assert [s for s in rebuilt.nodes[NODE].segments if s.size_bytes] == [
            s for s in before.nodes[NODE].segments if s.size_bytes
        ]


def test_a_manifest_that_is_behind_by_segments(tmp_path: Path) -> None:
    """Crash after a segment began and before the manifest said so."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2), segment_bytes=1500)
    manifest = (ledger.path / MANIFEST).read_bytes()
    append(ledger, *(batch(start, 2) for start in range(2, 20, 2)))
    assert len(segment_paths(ledger)) > 3
    (ledger.path / MANIFEST).write_bytes(manifest)
    assert seqs(ledger) == list(range(1, 21))
    assert ledger.info(NODE).last_seq == 20
    assert recovered(ledger) == ()
    assert ledger.manifest().nodes[NODE].last_seq == 20


def test_an_empty_new_segment(tmp_path: Path) -> None:
    """Crash between making the file and writing to it."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4), segment_bytes=1000)
    directory = segment_paths(ledger)[0].parent
    (directory / "00000000000000000005.jsonl").touch()
    assert seqs(ledger) == [1, 2, 3, 4]
    assert recovered(ledger) == ()
    assert append(ledger, batch(4, 1)) == [[5]]
    assert seqs(ledger) == [1, 2, 3, 4, 5]


def test_a_node_directory_without_a_segment(tmp_path: Path) -> None:
    """Crash between making the directory and the file in it."""
    ledger = ledger_of(tmp_path / "l")
    (ledger.path / "nodes" / NODE / "segments").mkdir(parents=True)
    assert ledger.nodes() == []
    assert append(ledger, batch(0, 1)) == [[1]]


def unsealed(path: Path) -> Ledger:
    """Two segments, of which a crash left the first one unsealed."""
    ledger = ledger_of(path, batch(0, 4), batch(4, 2), segment_bytes=1000)
    sealed = segment_paths(ledger)[0]
    lines = [raw.line for raw in ledger.raw_lines(NODE)][:4]
    sealed.with_name(sealed.name.removesuffix(".zst")).write_bytes(b"".join(lines))
    sealed.unlink()
    return ledger


def test_a_full_segment_that_was_not_sealed(tmp_path: Path) -> None:
    """Crash before sealing: the next writer does it."""
    ledger = unsealed(tmp_path / "l")
    assert seqs(ledger) == [1, 2, 3, 4, 5, 6]
    assert recovered(ledger) == ()
    assert segment_paths(ledger)[0].suffix == ".zst"
    assert seqs(ledger) == [1, 2, 3, 4, 5, 6]


def test_an_unfinished_compressed_file(tmp_path: Path) -> None:
    """Crash while compressing: the scrap is removed."""
    ledger = unsealed(tmp_path / "l")
    plain = segment_paths(ledger)[0]
    scrap = plain.with_name(plain.name + ".zst.tmp")
    scrap.write_bytes(b"half a frame")
    assert seqs(ledger) == [1, 2, 3, 4, 5, 6]
    assert recovered(ledger) == ()
    assert not scrap.exists()


def test_both_forms_of_a_segment(tmp_path: Path) -> None:
    """Crash between the rename and the removal: the plain file goes."""
    ledger = unsealed(tmp_path / "l")
    plain = segment_paths(ledger)[0]
    data = plain.read_bytes()
    seal(plain, 3)
    plain.write_bytes(data)
    assert audit(ledger).findings == ()
    assert seqs(ledger) == [1, 2, 3, 4, 5, 6]
    assert recovered(ledger) == ()
    assert not plain.exists()
    assert seqs(ledger) == [1, 2, 3, 4, 5, 6]


def test_both_forms_that_differ_are_damage(tmp_path: Path) -> None:
    """Neither is removed."""
    ledger = unsealed(tmp_path / "l")
    plain = segment_paths(ledger)[0]
    data = plain.read_bytes()
    seal(plain, 3)
    plain.write_bytes(data[:-1] + b" ")
    with pytest.raises(DamagedLedgerError, match="differ"), ledger.writer():
        pass
    assert any("differ" in finding.problem for finding in audit(ledger).findings)
    assert plain.exists()
    assert segment_paths(ledger)[1].exists()


def test_a_sealed_segment_that_the_manifest_calls_open(tmp_path: Path) -> None:
    """Crash between the removal and the manifest; it is the last segment, too."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4))
    seal(segment_paths(ledger)[0], 3)
    assert seqs(ledger) == [1, 2, 3, 4]
    assert recovered(ledger) == ()
    assert append(ledger, batch(4, 1)) == [[5]]
    assert len(segment_paths(ledger)) == 2
    assert seqs(ledger, after_seq=3) == [4, 5]


def test_a_torn_segment_before_the_last_is_damage(tmp_path: Path) -> None:
    """The next one begins only when all of it was on disk."""
    ledger = unsealed(tmp_path / "l")
    plain = segment_paths(ledger)[0]
    data = plain.read_bytes()
    plain.write_bytes(data[:-5])
    with pytest.raises(DamagedLedgerError) as caught, ledger.writer():
        pass
    assert caught.value.file == str(plain)
    assert plain.read_bytes() == data[:-5]
    with pytest.raises(DamagedLedgerError):
        seqs(ledger)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_segment_that_is_gone_is_damage(tmp_path: Path, which: int) -> None:
    """The first, one between, the last."""
    ledger = ledger_of(
        tmp_path / "l", *(batch(start, 4) for start in (0, 4, 8)), segment_bytes=1000
    )
    append(Ledger(ledger.path, WriterOptions()), batch(12, 1))
    paths = segment_paths(ledger)
    assert len(paths) == 4
    paths[(0, 1, 3)[which]].unlink()
    with pytest.raises(DamagedLedgerError):
        seqs(ledger)
    with pytest.raises(DamagedLedgerError, match="gone"), ledger.writer():
        pass
    assert audit(ledger).findings


def test_a_newer_ledger_is_left_alone(tmp_path: Path) -> None:
    """Whatever else its manifest holds, and with or without our CRC."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    path = ledger.path / MANIFEST
    for text in (
        path.read_bytes().replace(b'"version": 1', b'"version": 2'),
        b'{"format":"kubeledger","version":99,"shards":[]}',
    ):
        path.write_bytes(text)
        before = {file: file.read_bytes() for file in ledger.path.rglob("*") if file.is_file()}
        for use in (
            lambda: Ledger.open(ledger.path),
            lambda: Ledger.open_or_create(ledger.path),
            lambda: append(ledger, batch(1, 1)),
            lambda: seqs(ledger),
            lambda: audit(ledger),
        ):
            with pytest.raises(DamagedLedgerError, match="newer version") as caught:
                use()
            assert caught.value.exit_code == 4
        after = {file: file.read_bytes() for file in ledger.path.rglob("*") if file.is_file()}
        assert after == before
