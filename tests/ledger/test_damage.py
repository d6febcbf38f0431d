"""No byte of a ledger can change without a reader or an audit telling."""

import re
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.reader import Verify
from kubeledger.ledger.snapshots import Snapshot
from kubeledger.ledger.storage import MANIFEST
from kubeledger.ledger.tail import Draft
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import GENESIS, chained, payload_of
from tests.ledger.making import NODE, append, batch, deleted, ledger_of, segment_paths, seqs

VERIFY: tuple[Verify, ...] = ("chain", "crc")


def read_until_damage(ledger: Ledger) -> tuple[list[Record], DamagedLedgerError | None]:
    """Records handed out before the error, and the error."""
    read: list[Record] = []
    try:
        read.extend(ledger.records(NODE))
    except DamagedLedgerError as error:
        return read, error
    return read, None


def flipped(data: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


def test_a_flip_at_every_byte_of_an_open_segment(tmp_path: Path) -> None:
    """Readers stop before the damaged record and name it; audit names it; writers refuse."""
    ledger = ledger_of(tmp_path / "l", [Draft(ts_ns, deleted(ts_ns)) for ts_ns in range(3)])
    path = segment_paths(ledger)[0]
    data, records = path.read_bytes(), list(ledger.records(NODE))
    starts = [0, *(index + 1 for index, byte in enumerate(data) if byte == 10)]
    for position in range(len(data)):
        changed = flipped(data, position, position % 8)
        path.write_bytes(changed)
        at = sum(start <= position for start in starts) - 1
        read, error = read_until_damage(ledger)
        assert error is not None
        assert read == records[:at]
        finding = audit(ledger).findings[0]
        assert (finding.node, finding.file, finding.seq) == (NODE, str(path), at + 1)
        if position != len(data) - 1:  # without its newline, it looks like one being written
            assert (error.file, error.offset) == (str(path), starts[at])
            assert finding.offset == starts[at]
        if position % 16 == 0 or position == len(data) - 1:
            with pytest.raises(DamagedLedgerError), ledger.writer():
                pass
            assert path.read_bytes() == changed


def test_a_flip_at_every_byte_of_a_sealed_segment(tmp_path: Path) -> None:
    """Readers give what was written or an error; audit finds each flip."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4), segment_bytes=1000)
    path = segment_paths(ledger)[0]
    assert path.suffix == ".zst"
    data, records = path.read_bytes(), list(ledger.records(NODE))
    for position in range(len(data)):
        path.write_bytes(flipped(data, position, position % 8))
        read, error = read_until_damage(ledger)
        assert read == records if error is None else read == records[: len(read)]
        assert [finding.file for finding in audit(ledger).findings][:1] == [str(path)]


def test_a_cut_at_every_byte_of_a_sealed_segment(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 4), batch(4, 1), segment_bytes=1000)
    path = segment_paths(ledger)[0]
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert audit(ledger).findings
        read, error = read_until_damage(ledger)
        # Cut inside the table behind the lines, all lines are there.
        assert error is not None or [record.seq for record in read] == [1, 2, 3, 4, 5]


def test_a_flip_at_every_byte_of_the_manifest(tmp_path: Path) -> None:
    """Never believed: told by audit, or refused as a newer version."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    path = ledger.path / MANIFEST
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(flipped(data, position, position % 7))
        if b'"version": 1' not in path.read_bytes() and _is_newer(path):
            with pytest.raises(DamagedLedgerError, match="newer version"):
                audit(ledger)
            continue
        assert [finding.file for finding in audit(ledger).findings] == [str(path)]
        assert seqs(ledger) == [1, 2]


def _is_newer(path: Path) -> bool:
    """The flip made a greater number of the version."""
    match = re.search(rb'"version": (\d+),', path.read_bytes())
    return match is not None and int(match[1]) > 1


def test_a_flip_at_every_byte_of_a_snapshot(tmp_path: Path) -> None:
    """Audit names the file and the record; readers do without it."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4))
    digest = ledger.digest_at(NODE, 3)
    assert digest is not None
    store = ledger.snapshots(NODE)
    path = store.save(Snapshot(seq=3, ts_ns=2, version="1", chain=digest.hex(), state=b"state"))
    assert audit(ledger).findings == ()
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(flipped(data, position, position % 8))
        (finding,) = audit(ledger).findings
        assert (finding.file, finding.seq) == (str(path), 3)
        assert store.newest("1", [], lambda _seq: digest) is None


def test_a_snapshot_of_another_chain_is_found(tmp_path: Path) -> None:
    """Sound in itself, but not of this ledger; or of a record that is not there."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4))
    for seq in (3, 9):
        snapshot = Snapshot(seq=seq, ts_ns=2, version="1", chain="00" * 32, state=b"state")
        ledger.snapshots(NODE).save(snapshot)
    found = [(one.seq, "another chain" in one.problem) for one in audit(ledger).findings]
    assert found == [(3, True), (9, True)]


def rechained(lines: list[bytes]) -> bytes:
    """Lines whose CRCs and chain were all made to fit again: the perfect forgery."""
    digest, data = GENESIS, b""
    for line in lines:
        frame, digest = chained(payload_of(line), digest)
        data += payload_of(line) + frame
    return data


@pytest.mark.parametrize(
    ("forge", "problem"),
    [
        (lambda lines: [lines[0], *lines[2:]], "record 3, and 2 should be here"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "record 2, and 1 should be here"),
        (lambda lines: [lines[0].replace(b"node-a", b"node-b"), *lines[1:]], "record of node-b"),
        (lambda lines: [lines[0].replace(b'"cause":null', b'"cause":3'), *lines[1:]], "its cause"),
        (lambda lines: [lines[0].replace(b"Deleted", b"Found"), *lines[1:]], "unknown kind"),
        (lambda lines: [lines[0].replace(b'"ts_ns":0', b'"ts_ns":7'), *lines[1:]], "another chain"),
    ],
    ids=["removed", "swapped", "other node", "cause", "kind", "rewritten"],
)  # fmt: skip
def test_forgeries_with_a_fitting_chain(tmp_path: Path, forge, problem: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - lambdas above
    """The manifest's digest and the numbers still give them away."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4))
    path = segment_paths(ledger)[0]
    path.write_bytes(rechained(forge(path.read_bytes().splitlines(keepends=True))))
    assert any(problem in finding.problem for finding in audit(ledger).findings)


@pytest.mark.parametrize("after_seq", [0, 1, 2, 3])
def test_removed_and_doubled_lines(tmp_path: Path, after_seq: int) -> None:
    """Found from wherever the reading begins, before the damage or behind it."""
    ledger = ledger_of(tmp_path / "l", batch(0, 6))
    path = segment_paths(ledger)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    for forged in ([*lines[:3], *lines[4:]], [*lines[:3], lines[2], *lines[3:]]):
        path.write_bytes(b"".join(forged))
        for verify in VERIFY:
            with pytest.raises(DamagedLedgerError) as caught:
                list(ledger.records(NODE, after_seq, verify=verify))
            assert caught.value.offset == sum(map(len, lines[:3]))
        with pytest.raises(DamagedLedgerError):
            list(ledger.raw_lines(NODE, after_seq, verify="crc"))


def test_audit_goes_on_behind_damage(tmp_path: Path) -> None:
    """Each fault once, in its place, over all segments and nodes."""
    ledger = ledger_of(tmp_path / "l", *(batch(start, 4) for start in (0, 4, 8)))
    append(ledger, batch(0, 3), node="other")
    path, other = segment_paths(ledger)[0], segment_paths(ledger, "other")[0]
    lines = path.read_bytes().splitlines(keepends=True)
    for index in (2, 7):
        lines[index] = lines[index].replace(b"sha256", b"sha512")
    path.write_bytes(b"".join(lines))
    other.write_bytes(other.read_bytes().replace(b"a line", b"a lime", 1))
    found = [(finding.node, finding.seq, finding.offset) for finding in audit(ledger).findings]
    offsets = [sum(map(len, lines[:index])) for index in (2, 7)]
    assert found == [(NODE, 3, offsets[0]), (NODE, 8, offsets[1]), ("other", 1, 0)]


def test_a_sound_audit_gives_the_heads(tmp_path: Path) -> None:
    """Record counts and digests, to be kept elsewhere."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4), segment_bytes=1000)
    append(ledger, batch(0, 2), node="other")
    report = audit(ledger)
    assert report.findings == ()
    assert [(node.node, node.records, node.last_seq) for node in report.nodes] == [
        (NODE, 4, 4),
        ("other", 2, 2),
    ]
    for node in report.nodes:
        digest = ledger.digest_at(node.node, node.last_seq)
        assert digest is not None
        assert node.head == digest.hex()
