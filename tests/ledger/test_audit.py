"""Audit of recordings as of ledgers, and what it says besides damage."""

from pathlib import Path

import pytest
import zstandard

from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_walk import ChainWalk, audit_recording
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import MANIFEST
from kubeledger.model.errors import BadInputError
from tests.ledger.making import NODE, append, batch, ledger_of, lines, segment_paths


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = ledger_of(tmp_path / "l", batch(0, 6))
    append(ledger, batch(0, 2), node="other")
    return ledger


def digests(ledger: Ledger) -> list[str]:
    """Chain digests of the records of the first node."""
    found = [ledger.digest_at(NODE, seq) for seq in range(1, 7)]
    return [digest.hex() for digest in found if digest]


def faults(path: Path) -> list[tuple[str | None, int | None, int | None, int | None]]:
    """Where each finding is: node, record, line, offset."""
    found = audit_recording(path).findings
    return [(one.node, one.seq, one.line, one.offset) for one in found]


def test_a_recording_is_proved_as_its_ledger(tmp_path: Path, ledger: Ledger) -> None:
    """Same records, numbers and heads; nodes may be mixed."""
    one, other = lines(ledger), lines(ledger, "other")
    path = tmp_path / "r.ledger.jsonl"
    path.write_bytes(b"".join([*one[:2], other[0], *one[2:], other[1]]))
    report, of_ledger = audit_recording(path), audit(ledger)
    assert report.findings == of_ledger.findings == ()
    for reported, expected in zip(report.nodes, of_ledger.nodes, strict=True):
        assert (reported.node, reported.records, reported.head) == (
            expected.node,
            expected.records,
            expected.head,
        )
        assert (reported.source, expected.source) == (str(path), str(ledger.path))


def test_digests_that_are_looked_for(tmp_path: Path, ledger: Ledger) -> None:
    """Any proved record has one; none behind damage; not the first of an excerpt."""
    known = digests(ledger)
    path = tmp_path / "r.ledger.jsonl"
    path.write_bytes(b"".join(lines(ledger)))
    assert set(audit_recording(path, known).nodes[0].holds) == set(known)
    assert set(audit(ledger, known).nodes[0].holds) == set(known)
    path.write_bytes(b"".join(lines(ledger)[2:]))
    assert set(audit_recording(path, known).nodes[0].holds) == set(known[3:])
    spoilt = lines(ledger)
    spoilt[3] = spoilt[3].replace(b"a line", b"a lime")
    path.write_bytes(b"".join(spoilt))
    assert set(audit_recording(path, known).nodes[0].holds) == set(known[:3])
    assert ChainWalk(NODE, 3, b"head").digest == b"head"  # where nothing follows


def test_each_fault_of_a_recording_once(tmp_path: Path, ledger: Ledger) -> None:
    """Changed, removed, doubled and swapped lines; what is behind them is sound."""
    all_ = lines(ledger)
    at = [sum(map(len, all_[:count])) for count in range(7)]
    path = tmp_path / "r.ledger.jsonl"
    changed = [line.replace(b"a line", b"a lime") for line in all_]
    cases = [
        ([*all_[:1], changed[1], *all_[2:4], changed[4], all_[5]], [(2, 2, at[1]), (5, 5, at[4])]),
        ([*all_[:2], *all_[3:]], [(4, 3, at[2])]),
        ([*all_[:3], all_[2], *all_[3:]], [(3, 4, at[3])]),
        # A line in between has no number: then the next one is not the one that should be there.
        ([*all_[:5], b"\xff\n", all_[5]], [(6, 6, at[5]), (6, 7, at[5] + 2)]),
        ([*all_, b"half"], [(7, 7, at[6])]),
    ]
    for data, expected in cases:
        path.write_bytes(b"".join(data))
        assert faults(path) == [(NODE, *place) for place in expected]


def test_the_same_faults_of_a_ledger(ledger: Ledger) -> None:
    """One removed or doubled line is one fault there, too."""
    path, all_ = segment_paths(ledger)[0], lines(ledger)
    for data, seq in (([*all_[:2], *all_[3:]], 4), ([*all_[:3], all_[2], *all_[3:]], 3)):
        path.write_bytes(b"".join(data))
        (ledger.path / MANIFEST).unlink(missing_ok=True)
        found = [(one.seq, one.line) for one in audit(ledger).findings if one.seq]
        assert found == [(seq, data.index(all_[seq - 1]) + 1 + (seq == 3))]


def test_a_compressed_recording_that_is_cut(tmp_path: Path, ledger: Ledger) -> None:
    """A fault behind what could be read; nothing at all is bad input."""
    path = tmp_path / "r.ledger.jsonl.zst"
    one, other = (zstandard.compress(b"".join(lines(ledger, name))) for name in (NODE, "other"))
    path.write_bytes(one + other[:-9])
    (fault,) = audit_recording(path).findings
    assert "compressed" in fault.problem
    path.write_bytes(one[:5])
    with pytest.raises(BadInputError, match="no record"):
        audit_recording(path)


def test_a_torn_tail_is_told(ledger: Ledger) -> None:
    """With its place and its size; it is no finding, and gone with the next writer."""
    path = segment_paths(ledger)[0]
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"node":"node-a","se')
    report = audit(ledger)
    assert report.findings == ()
    (torn, other) = report.nodes
    assert torn.tail is not None
    assert (torn.tail.file, torn.tail.offset, torn.tail.size_bytes) == (str(path), size, 20)
    assert other.tail is None
    append(ledger, batch(6, 1))
    assert audit(ledger).nodes[0].tail is None


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_segment_that_cannot_be_read(tmp_path: Path, which: int) -> None:
    """A link, a pipe: listed by file, once; all others are proved."""
    ledger = ledger_of(
        tmp_path / "l", *(batch(start, 4) for start in (0, 4, 8)), segment_bytes=1000
    )
    append(ledger, batch(12, 1))
    path = segment_paths(ledger)[which]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    (finding,) = audit(ledger).findings
    assert (finding.file, finding.seq) == (str(path), 4 * which + 1)
    assert "a link" in finding.problem
    assert audit(ledger).nodes[0].records == 9
    (ledger.path / MANIFEST).unlink()
    assert [one.file for one in audit(ledger).findings] == [str(ledger.path / MANIFEST), str(path)]
