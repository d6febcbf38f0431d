"""The audit of whatever holds records: ledgers, recordings, and a node's own files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kubeledger.analyze.histories.history import History, histories_of_ledger
from kubeledger.analyze.histories.sources import (
    STDIN,
    is_ledger,
    is_recording,
    open_histories,
    recording_on_stdin,
)
from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_walk import Finding, NodeAudit, audit_recording
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import VERDICTS
from kubeledger.model.bodies.cgroups import CgroupUpdated, PodsStateRead
from kubeledger.model.bodies.devicemanager import CheckpointRead, DraManagerStateRead
from kubeledger.model.bodies.resourcemanagers import CpuManagerStateRead, MemoryManagerStateRead
from kubeledger.model.errors import BadInputError

if TYPE_CHECKING:
    from kubeledger.verify.finding import Fields, Violation
    from kubeledger.verify.finding import Finding as Verdict


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A value in a cgroup's file that is not what the pods ask for.

    Attributes:
        seq, ts_ns: the record that shows it, and its time.
        place: its evidence, ``file:line``.
        cgroup: path below the controller.
        value: field of the record, with the file's name where the field holds several
            (``cpu_shares``, ``unified/cpu.weight``).
        expected: what the pods ask for.
        found: what the file holds; None where it holds what it did before, and had to change.
        why: one sentence.
    """

    seq: int
    ts_ns: int
    place: str
    cgroup: str
    value: str
    expected: Any
    found: Any
    why: str


def drift_of(finding: Verdict) -> Iterator[Drift]:
    """The values of a cgroup that cannot be; none for a finding about anything else."""
    if finding.kind != CgroupUpdated.kind or finding.verdict != "impossible":
        return
    found = dict(_flat(finding.recorded or {}))
    for value, expected in _flat(finding.expected or {}):
        if finding.recorded is None or found.get(value, expected) != expected:
            yield Drift(
                seq=finding.seq,
                ts_ns=finding.ts_ns,
                place=finding.place,
                cgroup=finding.subject.removeprefix("cgroup/"),
                value=value,
                expected=expected,
                found=found.get(value),
                why=finding.why,
            )


def _flat(fields: Fields) -> Iterator[tuple[str, Any]]:
    for field, value in fields.items():
        if isinstance(value, dict):
            yield from ((f"{field}/{file}", text) for file, text in value.items())
        else:
            yield field, value


def check_caches(ledgers: Iterable[Ledger]) -> Iterator[Finding]:
    """Bytes and places of the history's files; those of snapshots are the ledger's audit's.

    Raises:
        KubeledgerError: they cannot be read.
    """
    from kubeledger.ledger.history.parts import HISTORY

    for ledger in ledgers:
        if os.path.lexists(ledger.path / HISTORY):
            from kubeledger.ledger.history.proof import (
                check_history,  # DuckDB takes its time to load
            )

            yield from check_history(ledger)


def prove_caches(ledgers: Iterable[Ledger]) -> Iterator[Finding]:
    """What the caches hold against what the records give.

    Raises:
        KubeledgerError: the records cannot be read, or are not as they were written.
    """
    from kubeledger.ledger.history.proof import prove_history
    from kubeledger.replay.proof import SnapshotProof

    for ledger in ledgers:
        for history in histories_of_ledger(ledger, verify="crc") if ledger.nodes() else ():
            states = SnapshotProof(ledger, history.node)
            derived = list(_prove_derived(ledger, history.noting(states.take)))
            yield from states.findings()
            yield from derived
        with TemporaryDirectory(prefix="kubeledger-audit-") as scratch:
            yield from prove_history(ledger, Path(scratch))


def _prove_derived(ledger: Ledger, history: History) -> Iterator[Finding]:
    """What is kept of names, subjects and verdicts against what the records give now."""
    from kubeledger.analyze.histories.derived import prove
    from kubeledger.analyze.why.names import kept_folds

    with ledger.reading(history.node) as look:
        wrong = list(prove(ledger, look, kept_folds()))
    if history.kept is not None and (false := history.kept.disproved(history.decided)):
        wrong.append((VERDICTS, false))
    for place, seq in wrong:
        yield Finding(
            node=history.node,
            file=str(ledger.snapshots(history.node, place).path(seq)),
            offset=None,
            seq=seq,
            problem="it is not what the records give; no record is lost, remove this file",
        )


_CHECKPOINTS = (
    CheckpointRead, CpuManagerStateRead, DraManagerStateRead, MemoryManagerStateRead, PodsStateRead,
)  # fmt: skip


class BadCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of the kubelet whose checksum does not fit its content.

    Attributes:
        seq: the record that holds it.
        place: its file.
    """

    node: str
    seq: int
    place: str
    problem: str


class Contents(msgspec.Struct, kw_only=True):
    """What was looked at, and what does not fit.

    Attributes:
        checkpoints: how many were read.
        unchecked: those of them whose form has no checksum that can be computed.
        cgroups: values of cgroups that were judged.
        unverifiable: those of them that could not be, because an input is missing.
        bad_checkpoints, drifts, violations: what does not fit; the last two with their node.
    """

    checkpoints: int = 0
    unchecked: int = 0
    cgroups: int = 0
    unverifiable: int = 0
    bad_checkpoints: list[BadCheckpoint] = []
    drifts: list[tuple[str, Drift]] = []
    violations: list[tuple[str, Violation]] = []

    @property
    def sound(self) -> bool:
        """Whether all fits."""
        return not (self.bad_checkpoints or self.drifts or self.violations)


def contents_of(histories: Iterable[History], *, by_kept: bool = False) -> Contents:
    """Check the checkpoints and cgroups of these nodes.

    Args:
        by_kept: verdicts that are kept are those that the records give; they are not made again.

    Raises:
        KubeledgerError: records cannot be read, or are not as they were written.
    """
    from kubeledger.verify.finding import Finding, Violation
    from kubeledger.verify.rules.cgroups.rule import CgroupVerifier
    from kubeledger.verify.rules.disputes import SafetyVerifier

    contents, judges = Contents(), (CgroupVerifier, SafetyVerifier)
    for history in histories:
        contents.bad_checkpoints += _checkpoints(history, contents)
        kept = history.kept.held() if by_kept and history.kept is not None else None
        judged = kept.outcomes() if kept else history.verified(verifiers=judges)
        for outcome in judged:
            if isinstance(outcome, Violation):
                contents.violations.append((history.node, outcome))
            elif isinstance(outcome, Finding) and outcome.kind == CgroupUpdated.kind:
                contents.cgroups += 1
                contents.unverifiable += outcome.verdict == "unverifiable"
                contents.drifts += [(history.node, drift) for drift in drift_of(outcome)]
    return contents


def _checkpoints(history: History, contents: Contents) -> Iterator[BadCheckpoint]:
    for record in history.read(tuple(body.kind for body in _CHECKPOINTS)):
        body = record.body
        assert isinstance(body, _CHECKPOINTS)
        contents.checkpoints += 1
        contents.unchecked += body.checksum_ok is None
        if body.checksum_ok is False:
            yield BadCheckpoint(
                node=history.node,
                seq=record.seq,
                place=record.evidence[0].file if record.evidence else f"record {record.seq}",
                problem=f"the checkpoint's checksum {body.checksum} does not fit its content",
            )


class SourcesAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an audit.

    Attributes:
        nodes: of each ledger and recording.
        findings: what is not as it was written, caches included.
        missing_digests: digests that were expected, and that no proved record has.
    """

    nodes: tuple[NodeAudit, ...]
    findings: tuple[Finding, ...]
    missing_digests: tuple[str, ...]
    contents: Contents | None = None

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        fits = self.contents is None or self.contents.sound
        return fits and not self.findings and not self.missing_digests


def audit_sources(
    sources: Sequence[str], ledger: Path, expected: Sequence[str] = (), *, chain_only: bool = False
) -> SourcesAudit:
    """Prove records, caches, and what is recorded.

    Args:
        sources: ledgers, recordings, or a node's files, which are imported temporarily;
            ``-`` is standard input.
        expected: ``[NODE=]DIGEST`` each: chain digests that some record must have.
        chain_only: leave out checkpoints, cgroups and what the caches hold.

    Raises:
        BadInputError: ``chain_only``, and a source is neither a ledger nor a recording.
        KubeledgerError: as the ledger, ``audit_recording`` and ``open_histories``.
    """
    with recording_on_stdin(sources) as copy:
        if copy is None:
            return _audit(sources, ledger, expected, chain_only=chain_only)
        names = [str(copy) if source == "-" else source for source in sources]
        return _of_stdin(_audit(names, ledger, expected, chain_only=chain_only), str(copy))


def _of_stdin(report: SourcesAudit, copy: str) -> SourcesAudit:
    """The same, about standard input instead of its copy."""

    def named(name: str) -> str:
        return STDIN if name == copy else name

    nodes = [
        replace(
            node,
            source=named(node.source),
            tail=node.tail and replace(node.tail, file=named(node.tail.file)),
        )
        for node in report.nodes
    ]
    findings = [replace(finding, file=named(finding.file)) for finding in report.findings]
    return replace(report, nodes=tuple(nodes), findings=tuple(findings))


def _audit(
    sources: Sequence[str], ledger: Path, expected: Sequence[str], *, chain_only: bool
) -> SourcesAudit:
    wanted = {_digest_of(text) for text in expected}
    places = [Path(source) for source in sources] if sources else [ledger]
    ledgers = [Ledger.open(path) for path in places if not sources or is_ledger(path)]
    files = [path for path in places if sources and not is_ledger(path) and is_recording(path)]
    if chain_only and sources:
        _check_chained(path for path in places if not is_ledger(path) and path not in files)
    reports = [
        *(audit(opened, wanted) for opened in ledgers),
        *(audit_recording(path, wanted) for path in files),
    ]
    nodes = tuple(node for report in reports for node in report.nodes)
    findings = [finding for report in reports for finding in report.findings]
    # Records that are not as they were written prove nothing: no cache, and not the kubelet.
    in_depth = not chain_only and all(finding.is_loss for finding in findings)
    findings += check_caches(ledgers)
    wrong = list(prove_caches(ledgers)) if in_depth else []
    findings += wrong
    contents = None
    if in_depth and (sources or nodes):
        with _histories(sources, ledgers) as histories:
            contents = contents_of(histories, by_kept=not wrong)
    return SourcesAudit(
        nodes=nodes,
        findings=tuple(findings),
        missing_digests=tuple(text for text in expected if not _is_held(text, nodes)),
        contents=contents,
    )


def _check_chained(others: Iterable[Path]) -> None:
    """Refuse what holds no chain, where nothing but that is proved."""
    for path in others:
        if str(path) != "-" and not path.exists():
            raise BadInputError("no such file or directory", file=str(path))
        raise BadInputError(
            "is neither a ledger nor a recording: it holds no chain to prove",
            advice="leave --chain-only out for a node's files",
            file=STDIN if str(path) == "-" else str(path),
        )


@contextmanager
def _histories(sources: Sequence[str], ledgers: Sequence[Ledger]) -> Iterator[list[History]]:
    if sources:
        with open_histories(sources) as histories:
            yield histories
    else:
        yield [each for opened in ledgers for each in histories_of_ledger(opened, verify="crc")]


def _digest_of(text: str) -> str:
    return text.rpartition("=")[2].lower()


def _is_held(text: str, nodes: Sequence[NodeAudit]) -> bool:
    """Whether a node (that of the text, or any) has a record with this digest."""
    name = text.rpartition("=")[0]
    return any(_digest_of(text) in node.holds for node in nodes if name in {"", node.node})
