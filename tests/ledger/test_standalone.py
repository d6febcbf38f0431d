import hashlib
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import FORMAT_VERSION
from kubeledger.ledger.segments import LINE_BYTES_MAX
from kubeledger.ledger.standalone import read_recording, write_recording
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.errors import BadInputError, LedgerUnavailableError
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import GENESIS, chained, encode_line, kind_of
from tests.ledger.making import NODE, append, batch, deleted, ledger_of, lines, segment_paths


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = ledger_of(tmp_path / "l", batch(0, 5))
    append(ledger, batch(0, 2), node="other")
    return ledger


def test_a_segment_is_a_recording(tmp_path: Path, ledger: Ledger) -> None:
    """Plain and compressed, whatever the name; nodes may be mixed."""
    one, other = lines(ledger), lines(ledger, "other")
    mixed = b"".join([*one[:2], other[0], *one[2:], other[1]])
    for name, data in (
        ("a.ledger.jsonl", mixed),
        ("a.ledger.jsonl.zst", zstandard.ZstdCompressor().compress(mixed)),
    ):
        (tmp_path / name).write_bytes(data)
        read = list(read_recording(tmp_path / name))
        assert [record for record in read if record.node == NODE] == list(ledger.records(NODE))
        assert len(read) == 7


def test_an_excerpt_begins_anywhere(tmp_path: Path, ledger: Ledger) -> None:
    """Its chain is proved from its first record on."""
    path = tmp_path / "excerpt.ledger.jsonl"
    path.write_bytes(b"".join(lines(ledger)[2:]))
    assert [record.seq for record in read_recording(path)] == [3, 4, 5]


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert list(read_recording(tmp_path / "empty")) == []


def _of_another_chain(line: bytes) -> bytes:
    """The line with a CRC that fits, as if it were the first."""
    payload = line[: line.rindex(b',"chain":')]
    return payload + chained(payload, GENESIS)[0]


@pytest.mark.parametrize(
    ("spoil", "line", "reason"),
    [
        (lambda all_: b"".join(all_)[:-1], 5, "ends inside a record"),
        (lambda all_: b"".join(all_).replace(b"00000002", b"00000009", 1), 3, "CRC"),
        (lambda all_: b"".join([all_[0], *all_[2:]]), 2, "record 3 of node-a follows record 1"),
        (lambda all_: b"".join(all_) + b"\n", 6, "CRC"),
        (lambda all_: b"\x7fELF" + bytes(900), 1, "ends inside a record"),
        (lambda all_: all_[0] + _of_another_chain(all_[1]), 2, "does not follow from the lines"),
        (lambda all_: zstandard.ZstdCompressor().compress(b"".join(all_))[:-9], 1, "frame"),
        (lambda all_: b"\x28\xb5\x2f\xfd junk", 1, "zstd"),
    ],
    ids=["cut", "flipped", "removed", "blank line", "binary", "chain", "cut zst", "junk zst"],
)
def test_a_bad_file_is_named_with_its_line(  # type: ignore[no-untyped-def]
    tmp_path: Path,
    ledger: Ledger,
    spoil,  # noqa: ANN001 - lambdas above
    line: int,
    reason: str,
) -> None:
    """It is the user's input, not a ledger: exit code 3."""
    path = tmp_path / "bad.ledger.jsonl"
    path.write_bytes(spoil(lines(ledger)))
    with pytest.raises(BadInputError, match=reason) as caught:
        list(read_recording(path))
    assert (caught.value.file, caught.value.line, caught.value.exit_code) == (str(path), line, 3)


@pytest.mark.parametrize("ts_ns", [2**63, -(2**63), 10**30])
def test_values_that_no_ledger_would_hold(tmp_path: Path, ts_ns: int) -> None:
    """A recording may come from anyone, with a chain and CRCs that fit."""
    record = Record(
        node=NODE,
        seq=1,
        ts_ns=ts_ns,
        role="decision",
        kind="images.ImageDeleted",
        v=1,
        cause=None,
        evidence=(),
        body=deleted(1),
    )
    payload = msgspec.json.encode(record)[:-1]
    path = tmp_path / "absurd.ledger.jsonl"
    path.write_bytes(payload + chained(payload, GENESIS)[0])
    with pytest.raises(BadInputError, match="its time is not in 1678 to 2261") as caught:
        list(read_recording(path))
    assert (caught.value.file, caught.value.line) == (str(path), 1)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "no", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(BadInputError, match=reason):
            list(read_recording(path))


def test_writing_is_all_or_nothing(tmp_path: Path, ledger: Ledger) -> None:
    """A failure leaves the file of before, and nothing beside it."""
    path = tmp_path / "r.ledger.jsonl"
    records = list(ledger.records(NODE))
    assert write_recording(path, records) == len(records)
    before = path.read_bytes()

    def failing() -> Iterator[Record]:
        yield records[0]
        raise BadInputError("no more")

    with pytest.raises(BadInputError, match="no more"):
        write_recording(path, failing())
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == [path.name]


def test_a_place_that_cannot_be_written(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(LedgerUnavailableError):
        write_recording(tmp_path / "no" / "r.ledger.jsonl", ledger.records(NODE))


def test_both_forms_hold_the_same_lines(tmp_path: Path, ledger: Ledger) -> None:
    """Compressed by its name; the lines are the ledger's own."""
    plain, packed = tmp_path / "r.ledger.jsonl", tmp_path / "r.ledger.jsonl.zst"
    for path in (plain, packed):
        write_recording(path, ledger.records(NODE))
    assert plain.read_bytes() == b"".join(lines(ledger))
    data = zstandard.ZstdDecompressor().decompressobj().decompress(packed.read_bytes())
    assert data == plain.read_bytes()


def test_records_of_some_kinds(ledger: Ledger) -> None:
    """As if the others were filtered out; behind a number, too."""
    records = list(ledger.records(NODE))
    kinds = {records[0].kind}
    some = [record for record in records if record.kind in kinds]
    assert list(ledger.records(NODE, kinds=kinds)) == some
    assert list(ledger.records(NODE, 2, kinds=kinds)) == [r for r in some if r.seq > 2]
    assert list(ledger.records(NODE, kinds=())) == []
    assert list(ledger.records(NODE, kinds={"no.Such"})) == []


def test_the_kind_that_stands_in_a_line(ledger: Ledger) -> None:
    """Whatever texts of the record say; nothing is raised for what is no line."""
    assert [kind_of(line) for line in lines(ledger)] == [r.kind for r in ledger.records(NODE)]
    liar = msgspec.structs.replace(next(ledger.records(NODE)), node='"kind":"x"', seq=1)
    assert kind_of(encode_line(liar)[0]) == liar.kind
    assert [kind_of(line) for line in (b"", b"{}", b'{"kind":"', b'{"kind":"\xff"}')] == [
        "", "", "", "\ufffd",
    ]  # fmt: skip


# -- docs/internals/format.md says what the code does ----------------------------------------------

HERE = Path(__file__).parent
TEXT = (HERE.parents[1] / "docs" / "internals" / "format.md").read_text()
RECOVERY = TEXT.partition("## Recovery")[2].partition("\n## ")[0]


def test_every_row_of_the_recovery_table_is_a_test() -> None:
    rows = [line for line in RECOVERY.splitlines() if line.startswith("|")][2:]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[-1])]
    assert all(re.search(r"`test_\w+`(: `\w+`)? \|$", row) for row in rows)
    sources = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in sources] == []
    own = set(re.findall(r"def (test_\w+)\(", (HERE / "test_recovery.py").read_text()))
    assert own - set(named) == {"test_nothing_to_recover"}


def test_numbers_in_the_text() -> None:
    assert f"Version {FORMAT_VERSION}." in TEXT
    assert f"at most {LINE_BYTES_MAX >> 20} MiB" in TEXT
    assert f"reached {WriterOptions().segment_bytes >> 20} MiB" in TEXT


def test_a_segment_can_be_proved_from_the_description_alone(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 5))
    digest = bytes(32)
    for line in segment_paths(ledger)[0].read_bytes().splitlines():
        before_crc, _, crc = line.rpartition(b',"crc":"')
        payload, _, chain = before_crc.rpartition(b',"chain":"')
        digest = hashlib.blake2b(digest + payload, digest_size=32).digest()
        assert chain == digest.hex().encode() + b'"'
        assert crc == b'%08x"}' % zlib.crc32(before_crc)
