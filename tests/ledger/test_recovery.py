"""The recovery table of docs/internals/format.md, row by row."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.recovery import CountedAnew, RecoveryReport
from kubeledger.ledger.sealing import seal
from kubeledger.ledger.storage import MANIFEST
from kubeledger.ledger.tail import Draft
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
    lines,
    segment_paths,
    seqs,
    sizes,
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


@pytest.mark.slow
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


def files(path: Path) -> dict[Path, bytes]:
    """All files below a directory, with their content."""
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


# What a crash leaves


def segments_that_no_manifest_names(path: Path) -> Ledger:
    """Crash after a segment began and before the manifest said so."""
    ledger = ledger_of(path, batch(0, 2), segment_bytes=1500)
    manifest = (ledger.path / MANIFEST).read_bytes()
    append(ledger, *(batch(start, 2) for start in range(2, 20, 2)))
    assert len(segment_paths(ledger)) > 3
    (ledger.path / MANIFEST).write_bytes(manifest)
    return ledger


def empty_last_segment(path: Path) -> Ledger:
    """Crash between making the file and writing to it."""
    ledger = ledger_of(path, batch(0, 4), segment_bytes=1000)
    (segment_paths(ledger)[0].parent / "00000000000000000005.jsonl").touch()
    return ledger


def first_segment_unsealed(path: Path) -> Ledger:
    """Crash before sealing."""
    ledger = ledger_of(path, batch(0, 4), batch(4, 2), segment_bytes=1000)
    sealed = segment_paths(ledger)[0]
    sealed.with_name(sealed.name.removesuffix(".zst")).write_bytes(b"".join(lines(ledger)[:4]))
    sealed.unlink()
    return ledger


def half_compressed_segment(path: Path) -> Ledger:
    ledger = first_segment_unsealed(path)
    plain = segment_paths(ledger)[0]
    plain.with_name(plain.name + ".zst.tmp").write_bytes(b"half a frame")
    return ledger


def both_forms_of_a_segment(path: Path) -> Ledger:
    """Crash between the rename and the removal."""
    ledger = first_segment_unsealed(path)
    plain = segment_paths(ledger)[0]
    data = plain.read_bytes()
    seal(plain, 3)
    plain.write_bytes(data)
    return ledger


def sealed_segment_called_open(path: Path) -> Ledger:
    """Crash between the removal and the manifest; it is the last segment, too."""
    ledger = ledger_of(path, batch(0, 4))
    seal(segment_paths(ledger)[0], 3)
    return Ledger(ledger.path, WriterOptions(segment_bytes=1000))


@pytest.mark.parametrize(
    ("scene", "count"),
    [
        (segments_that_no_manifest_names, 20),
        (empty_last_segment, 4),
        (first_segment_unsealed, 6),
        (half_compressed_segment, 6),
        (both_forms_of_a_segment, 6),
        (sealed_segment_called_open, 4),
    ],
)
def test_what_a_crash_leaves(tmp_path: Path, scene: Callable[[Path], Ledger], count: int) -> None:
    """No record is missed by readers; the next writer puts it right, and reports nothing."""
    ledger = scene(tmp_path / "l")
    assert sizes(ledger) == list(range(count))
    assert ledger.info(NODE).last_seq == count
    assert audit(ledger).findings == ()
    assert recovered(ledger) == ()
    assert ledger.manifest().nodes[NODE].last_seq == count
    assert {path.suffix for path in segment_paths(ledger)[:-1]} <= {".zst"}
    assert len(segment_paths(ledger)) == len(ledger.manifest().nodes[NODE].segments)
    assert append(ledger, batch(count, 1)) == [[count + 1]]
    assert sizes(ledger) == list(range(count + 1))
    assert seqs(ledger, after_seq=3) == list(range(4, count + 2))


def test_a_node_directory_without_a_segment(tmp_path: Path) -> None:
    """Crash between making the directory and the file in it."""
    ledger = ledger_of(tmp_path / "l")
    (ledger.path / "nodes" / NODE / "segments").mkdir(parents=True)
    assert ledger.nodes() == []
    assert append(ledger, batch(0, 1)) == [[1]]


# Damage


def changed_line_before_sound_ones(path: Path) -> tuple[Ledger, int | None]:
    """No torn tail has sound records after it."""
    return flipped(crashed(path, acknowledged=1, behind=3), 30)


def changed_last_newline(path: Path, bit: int) -> tuple[Ledger, int | None]:
    """Even if no manifest counts the record: an unfinished write does not end like this."""
    return flipped(crashed(path, acknowledged=1, behind=2), -1, bit)


def changed_record_that_is_counted(path: Path, at: int) -> tuple[Ledger, int | None]:
    """The manifest counts it, so it was whole once."""
    return flipped(ledger_of(path, batch(0, 3)), at)


def flipped(ledger: Ledger, at: int, bit: int = 0) -> tuple[Ledger, int]:
    """One bit turned in the third record, or from the end; and where that record begins."""
    file = segment_paths(ledger)[0]
    data, begin = bytearray(file.read_bytes()), line_ends(file)[1]
    data[begin + at if at >= 0 else at] ^= 1 << bit
    file.write_bytes(data)
    return ledger, begin


def forms_that_differ(path: Path, which: int) -> tuple[Ledger, int | None]:
    """Neither is removed: the plain one may be the only one that is sound."""
    ledger = both_forms_of_a_segment(path)
    form = segment_paths(ledger)[which]
    form.write_bytes(form.read_bytes()[:-40] + b" " * 40 * (which == 0))
    return ledger, None


def torn_segment_before_the_last(path: Path) -> tuple[Ledger, int | None]:
    """The next one begins only when all of it was on disk."""
    ledger = first_segment_unsealed(path)
    plain = segment_paths(ledger)[0]
    begin = line_ends(plain)[2]
    plain.write_bytes(plain.read_bytes()[:-5])
    return ledger, begin


def segment_that_is_gone(path: Path, which: int) -> tuple[Ledger, int | None]:
    """The first, one between, the last."""
    ledger = ledger_of(path, *(batch(start, 4) for start in (0, 4, 8)), segment_bytes=1000)
    append(Ledger(ledger.path, WriterOptions()), batch(12, 1))
    assert len(segment_paths(ledger)) == 4
    segment_paths(ledger)[which].unlink()
    return ledger, None


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        (changed_line_before_sound_ones, "record 3: "),
        *((partial(changed_last_newline, bit=bit), "newline") for bit in range(8)),
        *((partial(changed_record_that_is_counted, at=at), "record 3: ") for at in (0, 50, -2, -1)),
        (partial(forms_that_differ, which=0), "differ"),
        (partial(forms_that_differ, which=1), "differ"),
        (torn_segment_before_the_last, "record 4: the segment ends inside a line"),
        (partial(segment_that_is_gone, which=0), "records 1 to 4 should stand before"),
        (partial(segment_that_is_gone, which=1), "records 5 to 8 is gone"),
        (partial(segment_that_is_gone, which=3), "records 13 to 13 is gone"),
    ],
)
def test_damage_is_refused(
    tmp_path: Path, scene: Callable[[Path], tuple[Ledger, int | None]], words: str
) -> None:
    """By readers and writers, and nothing changes; audit finds it where it is."""
    ledger, offset = scene(tmp_path / "l")
    before = files(ledger.path / "nodes")
    with pytest.raises(DamagedLedgerError, match=words) as caught, ledger.writer():
        pass
    if words != "differ":  # of two forms readers take the plain one, which may be sound
        with pytest.raises(DamagedLedgerError):
            seqs(ledger)
    assert files(ledger.path / "nodes") == before
    finding = audit(ledger).findings[0]
    if offset is not None:
        file = str(segment_paths(ledger)[0])
        assert (caught.value.file, caught.value.offset) == (file, offset)
        assert (finding.file, finding.offset) == (file, offset)


def test_a_newer_ledger_is_left_alone(tmp_path: Path) -> None:
    """Whatever else its manifest holds, and with or without our CRC."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    path = ledger.path / MANIFEST
    for text in (
        path.read_bytes().replace(b'"version": 1', b'"version": 2'),
        b'{"format":"kubeledger","version":99,"shards":[]}',
    ):
        path.write_bytes(text)
        before = files(ledger.path)
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
        assert files(ledger.path) == before
