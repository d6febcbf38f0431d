"""Golden recordings: decisions that must come out as they were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import histories_of_recording
from kubeledger.ledger.standalone import read_recording, write_recording
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Decision, Record
from kubeledger.model.units import format_ts
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.replay.instants import renumbered
from kubeledger.verify import Finding

Group = tuple[str, str]
"""Node, and kind of decision."""


def groups_of(path: Path) -> list[Group]:
    """Decision groups of a recording, in the order in which they begin.

    Raises:
        BadInputError: the file is damaged.
    """
    found = {(r.node, r.kind): None for r in _records(path) if r.role == "decision"}
    return list(found)


def unproved(path: Path) -> str | None:
    """Where a recording is not as it was written: changed by hand, since it can be read."""
    try:
        for _ in read_recording(path):
            pass
    except BadInputError as error:
        return str(error)
    return None


def _records(path: Path) -> Iterator[Record]:
    return read_recording(path, proved=False)


def verify_file(path: Path) -> dict[Group, list[Finding]]:
    """Findings of a recording by group; decisions that are missing stand in the group of theirs.

    Raises:
        BadInputError: the file is damaged.
    """
    found: dict[Group, list[Finding]] = {}
    for history in histories_of_recording(path, proved=False):
        for outcome in history.verify():
            if isinstance(outcome, Finding):
                found.setdefault((history.node, outcome.kind), []).append(outcome)
    return found


def differences(findings: Iterable[Finding]) -> list[Finding]:
    """Those that the kubelet could not have taken."""
    return [finding for finding in findings if finding.verdict == "impossible"]


def words_of(found: list[Finding]) -> str:
    """The first difference as a kubelet developer wants to read it, and how many follow."""
    first = found[0]
    lines = [
        f"record {first.seq} at {format_ts(first.ts_ns)}: {first.kind} {first.subject}",
        f"  {first.why}",
        f"  expected  {_shown(first.expected)}",
        f"  recorded  {_shown(first.recorded)}",
    ]
    if first.rule:
        lines.append(f"  rule      {first.rule}")
    lines.append(f"  evidence  {first.place}")
    if first.inputs:
        lines.append(f"  rests on  records {', '.join(map(str, first.inputs[:20]))}")
    if len(found) > 1:
        others = ", ".join(str(finding.seq) for finding in found[1:10])
        lines.append(f"  and {len(found) - 1} more: records {others}")
    return "\n".join(lines)


def _shown(fields: object) -> str:
    if fields is None:
        return "no such decision"
    return msgspec.json.encode(fields, order="deterministic").decode()


def rewrite(path: Path) -> int | None:
    """Put what is decided now in place of what was recorded.

    Lines that were changed by hand are proved again: whoever rewrites a recording means it.

    Returns:
        how many decisions changed; None where the file stays as it is.

    Raises:
        BadInputError: the file is damaged.
        LedgerUnavailableError: it cannot be written.
    """
    found = {group: differences(findings) for group, findings in verify_file(path).items()}
    wrong = {(node, f.seq, f.recorded is None): f for (node, _), fs in found.items() for f in fs}
    if not wrong and unproved(path) is None:
        return None
    write_recording(path, list(rewritten(_records(path), wrong)))
    return len(wrong)


def rewritten(
    records: Iterable[Record], wrong: dict[tuple[str, int, bool], Finding]
) -> Iterator[Record]:
    """Records with other decisions, numbered again.

    Args:
        wrong: (node, seq, whether the decision is missing) -> what is expected there.
    """
    return renumbered(_settled(records, wrong))


def _settled(
    records: Iterable[Record], wrong: dict[tuple[str, int, bool], Finding]
) -> Iterator[Record]:
    for record in records:
        finding = wrong.get((record.node, record.seq, False))
        if finding is None:
            yield record
        elif finding.expected is not None:
            fields = {**msgspec.to_builtins(record.body), **finding.expected}
            body = msgspec.convert(fields, type(record.body))
            yield msgspec.structs.replace(record, body=body)
        missing = wrong.get((record.node, record.seq, True))
        if missing is not None and missing.expected is not None:
            yield _decision(record, missing, missing.expected)


def _decision(observation: Record, finding: Finding, fields: dict[str, Any]) -> Record:
    """The decision that was missing, right after what leads to it."""
    body = msgspec.convert(fields, BODY_TYPES[finding.kind])
    assert isinstance(body, Decision)
    return Record(
        node=observation.node,
        seq=-observation.seq,  # no other record has it; the numbers are given again
        ts_ns=observation.ts_ns,
        role="decision",
        kind=finding.kind,
        v=body.v,
        cause=observation.seq,
        evidence=(),
        body=body,
    )
