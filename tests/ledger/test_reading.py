import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.ledger import reading as reading_module
from kubeledger.ledger import segments as segments_module
from kubeledger.ledger.ledger import Following, Ledger
from kubeledger.ledger.manifest import is_superseded, merged_spans, spans_of
from kubeledger.ledger.reader import Verify
from kubeledger.ledger.sealing import seek_table
from kubeledger.ledger.segments import Lines, Segment, SegmentGoneError, lines_of
from kubeledger.ledger.tail import Draft
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.bodies.ledger import RecordsSuperseded, SeqSpan
from tests.ledger.making import NODE, append, batch, deleted, ledger_of, segment_paths, seqs


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """Sealed segments of several frames, and an open one of several blocks."""
    path = tmp_path_factory.mktemp("large") / "l"
    ledger = Ledger.create(path, WriterOptions(segment_bytes=2_500_000, level=1))
    with ledger.writer() as writer:
        for start in range(0, 20_000, 1000):
            writer.append(
                NODE, [Draft(ts_ns, deleted(ts_ns)) for ts_ns in range(start, start + 1000)]
            )
    paths = segment_paths(ledger)
    assert [path.suffix for path in paths] == [".zst", ".zst", ".jsonl"]
    assert paths[-1].stat().st_size > 524_288
    return ledger


@pytest.mark.parametrize("verify", ["chain", "crc"])
@pytest.mark.parametrize(
    "after_seq", [0, 1, 999, 7_999, 8_000, 8_001, 12_345, 17_000, 19_998, 19_999, 20_000, 20_001]
)
def test_reading_from_anywhere(large: Ledger, after_seq: int, verify: Verify) -> None:
    """Begins behind the record, over segment borders, to the end."""
    read = [record.seq for record in large.records(NODE, after_seq, verify=verify)]
    assert read == list(range(after_seq + 1, 20_001))


def test_every_start_near_the_borders(large: Ledger) -> None:
    """Of segments, frames and blocks: every record can be found by itself."""
    borders = [1, *(segment.first_seq for segment in large.info(NODE).segments), 20_000]
    for border in borders:
        for seq in range(max(1, border - 3), min(20_000, border + 3) + 1):
            record = large.record(NODE, seq)
            assert record is not None
            assert (record.seq, record.ts_ns) == (seq, seq - 1)
    for seq in range(1, 20_000, 617):
        record = large.record(NODE, seq)
        assert record is not None
        assert record.ts_ns == seq - 1
    for seq in (-1, 0, 20_001):
        assert large.record(NODE, seq) is None
        assert large.digest_at(NODE, seq) is None


def test_reading_one_record_reads_little(large: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the lines before it: a few pieces to find it, whatever the segment's size."""
    read = 0
    real = segments_module.blocks_of

    def counted(segment: Segment, offset: int = 0) -> Iterator[bytes]:
        nonlocal read
        for block in real(segment, offset):
            read += len(block)
            yield block

    monkeypatch.setattr(segments_module, "blocks_of", counted)
    monkeypatch.setattr("kubeledger.ledger.reader.blocks_of", counted)
    large.record(NODE, 7_900)
    assert 0 < read < 1_600_000  # a frame, and the first block of a few others
    read = 0
    large.record(NODE, 19_000)
    assert 0 < read < 1_600_000  # a few blocks of the plain one


@pytest.mark.parametrize("off", [-1, 1])
def test_a_place_that_is_not_where_a_line_says_is_not_believed(
    large: Ledger, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    """The lines are counted from the begin of the segment then."""
    located = segments_module.locate

    def wrong(segment: Segment, seq: int) -> tuple[int, int]:
        offset, found = located(segment, seq)
        return offset, found + off

    monkeypatch.setattr("kubeledger.ledger.reader.locate", wrong)
    assert seqs(large, after_seq=7_999)[0] == 8_000


def test_a_segment_that_goes_while_it_is_listed_is_listed_anew(
    large: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, calls = segments_module.hold, list[int]()

    @contextmanager
    def gone_once(segments: Sequence[Segment], *count: int) -> Iterator[list[Segment]]:
        calls.append(len(segments))
        if len(calls) == 1:
            raise SegmentGoneError("gone", file="")
        with held(segments, *count) as found:
            yield found

    monkeypatch.setattr(reading_module, "hold", gone_once)
    with large.reading(NODE) as look:
        assert len(look.segments) == calls[1] == 3


def test_who_follows_is_given_what_is_superseded_meanwhile(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    following = Following(ledger)
    gone = RecordsSuperseded(digest="0" * 64, spans=(SeqSpan(first_seq=3, last_seq=4),))
    append(ledger, batch(2, 2), [Draft(4, gone)])
    assert [record.seq for record in following.new()] == [3, 4, 5]
    assert seqs(ledger, after_seq=2) == [5]


def test_raw_lines_tell_where_they_stand(large: Ledger) -> None:
    """File, offset and bytes fit the files; in sealed ones, the decompressed content."""
    offset, file = 0, ""
    for raw in large.raw_lines(NODE):
        if raw.file != file:
            offset, file = 0, raw.file
        assert raw.offset == offset
        offset += len(raw.line)
    plain = segment_paths(large)[-1]
    data = plain.read_bytes()
    for raw in list(large.raw_lines(NODE, 19_990)):
        assert raw.file == str(plain)
        assert data[raw.offset : raw.offset + len(raw.line)] == raw.line


def test_memory_is_flat(large: Ledger) -> None:
    """Twenty thousand records, 5 MB of lines, in a fraction of that."""
    sum(1 for _ in large.records(NODE))  # warm
    tracemalloc.start()
    try:
        assert sum(1 for _ in large.replay(NODE)) == 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def test_a_sealed_file_is_a_plain_zstd_file(large: Ledger) -> None:
    """Other tools read it; the table behind the frames is skipped."""
    zstandard = pytest.importorskip("zstandard")
    path = segment_paths(large)[0]
    with path.open("rb") as file:
        content = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
        assert len(seek_table(file)) > 1
    info = large.info(NODE).segments[0]
    assert len(content) == info.size_bytes
    assert path.stat().st_size == info.stored_bytes
    assert content.count(b"\n") == info.last_seq
    assert info.stored_bytes < info.size_bytes / 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_of_any_blocks(size: int) -> None:
    """However the bytes come, the lines are the same."""
    data = b"one\ntwo\r\n\n\x0bthree\x1c\nrest"
    blocks = (data[start : start + size] for start in range(0, len(data), size))
    pieces = list(lines_of(blocks, 10))
    assert [line for piece in pieces for line in piece.lines] == [
        b"one\n", b"two\r\n", b"\n", b"\x0bthree\x1c\n",
    ]  # fmt: skip
    assert pieces[0].offset == 10
    assert pieces[-1] == Lines(10 + len(data) - 4, [], b"rest")


def test_a_giant_line_is_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without newlines ends the reading, not the memory."""
    monkeypatch.setattr(segments_module, "LINE_BYTES_MAX", 1000)
    taken = 0

    def blocks() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield b"x" * 100

    (piece,) = lines_of(blocks())
    assert len(piece.rest) == 1100
    assert taken == 11


def test_many_nodes(tmp_path: Path) -> None:
    """Each with its own chain; read one after the other."""
    ledger = ledger_of(tmp_path / "l")
    with ledger.writer() as writer:
        for start in range(3):
            for node in ("b", "a", "c"):
                writer.append(node, batch(start, 1))
    assert [(record.node, record.seq) for record in ledger.records()] == [
        (node, seq) for node in "abc" for seq in (1, 2, 3)
    ]
    append(ledger, batch(3, 1), node="b")
    assert seqs(ledger, "b") == [1, 2, 3, 4]


# -- Spans of record numbers are sets of them ------------------------------------------------------

SPANS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 8)), max_size=12)


@given(SPANS)
def test_spans_are_sets_of_numbers(begins_and_lengths: list[tuple[int, int]]) -> None:
    """The fewest that hold the same numbers, sorted; and each number is in one or in none."""
    spans = [(begin, begin + length) for begin, length in begins_and_lengths]
    numbers = {seq for first, last in spans for seq in range(first, last + 1)}
    merged = merged_spans(spans)
    assert [seq for first, last in merged for seq in range(first, last + 1)] == sorted(numbers)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(merged))
    assert spans_of(numbers) == merged
    assert {seq for seq in range(80) if is_superseded(seq, merged)} == numbers
