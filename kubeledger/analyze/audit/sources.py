"""The audit of whatever holds records: ledgers, recordings, and a node's own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kubeledger.analyze.audit.caches import check_caches, prove_caches
from kubeledger.analyze.audit.contents import Contents, contents_of
from kubeledger.analyze.histories.history import History, histories_of_ledger
from kubeledger.analyze.histories.sources import (
    STDIN,
    is_ledger,
    is_recording,
    open_histories,
    recording_on_stdin,
)
from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_recording import audit_recording
from kubeledger.ledger.audit_report import Finding, NodeAudit
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadInputError

__all__ = ["SourcesAudit", "audit_sources"]


class SourcesAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an audit.

    Attributes:
        nodes: of each ledger and recording.
        findings: what is not as it was written, caches included.
        missing_digests: digests that were expected, and that no proved record has.
        contents: checkpoints and cgroups; None where they were not looked at.
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
        sources: ledgers, recordings, or a node's files, which are imported for the while;
            ``-`` is standard input.
        ledger: is audited when there are no sources.
        expected: ``[NODE=]DIGEST`` each: chain digests that some record must have.
        chain_only: leave out checkpoints, cgroups and what the caches hold.

    Raises:
        BadInputError: ``chain_only``, and a source is no ledger and no recording.
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
    if in_depth:
        findings += prove_caches(ledgers)
    contents = None
    if in_depth and (sources or nodes):
        with _histories(sources, ledgers) as histories:
            contents = contents_of(histories)
    return SourcesAudit(
        nodes=nodes,
        findings=tuple(findings),
        missing_digests=tuple(text for text in expected if not _is_held(text, nodes)),
        contents=contents,
    )


def _check_chained(others: Iterable[Path]) -> None:
    """Refuse what holds no chain, where nothing but that is proved.

    Raises:
        BadInputError: there is some.
    """
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
        yield [history for opened in ledgers for history in histories_of_ledger(opened)]


def _digest_of(text: str) -> str:
    return text.rpartition("=")[2].lower()


def _is_held(text: str, nodes: Sequence[NodeAudit]) -> bool:
    """Whether a node (that of the text, or any) has a record with this digest."""
    name = text.rpartition("=")[0]
    return any(_digest_of(text) in node.holds for node in nodes if name in {"", node.node})
