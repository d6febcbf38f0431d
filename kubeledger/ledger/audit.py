"""Audit: every byte of a ledger is proved, and all that does not fit is listed.

Unlike a reader, an audit goes on behind damage, so that its list is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from kubeledger.errors import DamagedLedgerError
from kubeledger.ledger.base import BASE, Base, Begin, base_of_line, begin_of, load_base
from kubeledger.ledger.base_content import load_content
from kubeledger.ledger.index import without_dropped
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import NodeInfo, load_manifest
from kubeledger.ledger.names import MANIFEST, NODES, SEGMENTS, node_directory
from kubeledger.ledger.segments import (
    Segment,
    SegmentGoneError,
    blocks_of,
    hold,
    lines_of,
    list_segments,
)
from kubeledger.ledger.snapshots import SnapshotStore
from kubeledger.ledger.storage import storage_errors
from kubeledger.wire.codec import (
    BadLineError,
    chain_of,
    check_crc,
    decode_envelope,
    decode_line,
    is_whole_but_for_its_end,
    next_digest,
)

__all__ = ["AuditReport", "Finding", "NodeAudit", "audit"]


_ATTEMPTS = 10  # each is taken back only by a drop that came between two system calls


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it was written.

    Attributes:
        node: whose; None for the ledger itself.
        file: path; ``offset`` a byte offset in its (decompressed) lines, None for the whole.
        seq: the record at fault, if it is one.
        problem: one sentence.
    """

    node: str | None
    file: str
    offset: int | None
    seq: int | None
    problem: str


class NodeAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What was proved of one node.

    Attributes:
        records: how many lines were read.
        first_seq, last_seq: numbers of the first one there and of the last.
        dropped: what was dropped before the first one, and by what; None when nothing was.
        head: its chain digest, 64 hex digits: keep it elsewhere, and a later audit can be
            held against it. Of no use when there are findings.
    """

    node: str
    records: int
    first_seq: int = 1
    last_seq: int
    head: str
    dropped: Base | None = None


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an audit; a sound ledger has no findings."""

    nodes: tuple[NodeAudit, ...]
    findings: tuple[Finding, ...]


def audit(ledger: Ledger) -> AuditReport:
    """Read and check everything: frames, CRCs, chains, numbers, schemas, the manifest.

    Raises:
        KubeledgerError: no ledger, or one of a newer version, or it cannot be read.
    """
    with storage_errors("read the ledger", ledger.path):
        manifest = load_manifest(ledger.path)
        findings: list[Finding] = []
        if manifest is None:
            findings.append(_about(ledger.path / MANIFEST, "the manifest is damaged or lost"))
        audits = [
            _audit_node(
                node,
                ledger.path / NODES / node_directory(node) / SEGMENTS,
                manifest.nodes.get(node, NodeInfo()) if manifest else NodeInfo(),
                findings,
            )
            for node in ledger.nodes()
        ]
    return AuditReport(nodes=tuple(audits), findings=tuple(findings))


def _audit_node(
    node: str, directory: Path, counted: NodeInfo, findings: list[Finding]
) -> NodeAudit:
    """Audit files that are held open: a drop may take their names meanwhile."""
    for _ in range(_ATTEMPTS):
        auditor = _NodeAuditor(node, directory, counted, findings)
        with suppress(SegmentGoneError), hold(auditor.segments) as held:
            auditor.segments = held
            return auditor.run()
    return auditor.run()


def _about(path: Path, problem: str) -> Finding:
    return Finding(node=None, file=str(path), offset=None, seq=None, problem=problem)


class _NodeAuditor:
    """One pass over a node; findings go to a list shared by all nodes."""

    def __init__(
        self, node: str, directory: Path, counted: NodeInfo, findings: list[Finding]
    ) -> None:
        self.node = node
        self.directory = directory
        self.findings = findings
        listed = list_segments(directory)
        self.begin = self._begin(listed)
        self.segments = [s for s in listed if s.first_seq > self.begin.seq]
        self.counted = counted = without_dropped(counted, self.begin)
        self.told: Base | None = None
        self.heads = {
            segment.last_seq: segment.head
            for segment in counted.segments
            if segment.last_seq >= segment.first_seq
        }
        self.counted_crcs = {
            segment.first_seq: segment.stored_crc for segment in counted.segments if segment.sealed
        }
        self.snapshots = SnapshotStore(directory.parent, node)
        known = [seq for seq in self.snapshots.seqs() if seq > self.begin.seq]
        self.snapshot_chains: dict[int, str | None] = dict.fromkeys(known)
        self.records = 0
        self.seq = self.begin.seq
        self.digest = self.begin.chain
        self.previous = [self.digest]

    def run(self) -> NodeAudit:
        for loss in self.counted.losses:
            self._find(
                str(self.directory),
                None,
                loss.last_seq,
                f"records {loss.first_seq} to {loss.last_seq} (chain {loss.head}) were "
                "acknowledged, and a recovery did not find them",
            )
        segments = self.segments
        for segment in segments:
            if segment.first_seq != self.seq + 1:
                problem = f"the segment begins with record {segment.first_seq}, not {self.seq + 1}"
                self._find(str(segment.path), 0, self.seq + 1, problem)
                self.seq = segment.first_seq - 1
            self._segment(segment)
        if self.seq < self.counted.last_seq:
            self._find(
                str(segments[-1].path if segments else self.directory),
                None,
                self.seq + 1,
                f"records {self.seq + 1} to {self.counted.last_seq} were acknowledged and "
                "are not there",
            )
        self._snapshots()
        self._base()
        return NodeAudit(
            node=self.node,
            records=self.records,
            first_seq=self.begin.seq + 1,
            last_seq=self.seq,
            head=self.digest.hex(),
            dropped=self.begin.base,
        )

    def _begin(self, listed: list[Segment]) -> Begin:
        try:
            return begin_of(self.node, self.directory.parent, listed)
        except DamagedLedgerError:
            return Begin()  # what is missing is found where the first segment begins

    def _base(self) -> None:
        """What was dropped: do base, the drop's record, and what was kept tell the same?"""
        file = self.directory.parent / BASE
        written, told, base = load_base(file.parent), self.told, self.begin.base
        if written is None and (file.exists() or base is not None):
            self._find(str(file), None, None, "the base is damaged or lost; a record tells of it")
        if told is not None and told.dropped.last_seq > self.begin.seq:
            # A crash right behind the record leaves this, with a base; the next writer goes on.
            if written is None or written.dropped != told.dropped:
                problem = f"records up to {told.dropped.last_seq} should be gone and are there"
                self._find(str(file), None, told.record_seq, problem)
            return
        if base is None:
            return
        if told is None or (told.record_seq, told.dropped) != (base.record_seq, base.dropped):
            problem = f"no record tells that records up to {self.begin.seq} were dropped"
            self._find(str(file), None, base.record_seq, problem)
        try:
            load_content(file.parent, base)
        except DamagedLedgerError as error:
            if self._begin(list_segments(self.directory)).seq > self.begin.seq:
                return  # it was dropped, too, while we were reading
            self._find(error.file or str(file), None, self.begin.seq, error.message)

    def _segment(self, segment: Segment) -> None:
        file = str(segment.path)
        try:
            for offset, line in _lines(segment):
                if line.endswith(b"\n"):
                    self._line(file, offset, line)
                elif not segment.open:
                    self._find(file, offset, self.seq + 1, "the segment ends inside a line")
                elif is_whole_but_for_its_end(line):
                    self._find(file, offset, self.seq + 1, "the newline of this record was changed")
        except DamagedLedgerError as error:
            self._find(file, error.offset, self.seq + 1, error.message)
        counted = self.counted_crcs.get(segment.first_seq)
        if segment.sealed and counted and counted != _file_crc(segment):
            self._find(file, None, None, "the bytes of the compressed file were changed")
        twin = segment.sealed_path
        if not segment.sealed and twin.exists():
            # A crash while sealing; the next writer tidies it up. Both must hold the same.
            self._twin(segment, twin)

    def _line(self, file: str, offset: int, line: bytes) -> None:
        self.records += 1
        follows = [next_digest(line, previous) for previous in self.previous]
        stands: bytes | None = None
        try:
            stands = chain_of(line)
            check_crc(line)
            problem = None if stands in follows else "its chain digest does not follow"
        except BadLineError as error:
            problem = str(error)
        seq = self.seq + 1
        if problem is None:
            seq, problem = self._content(line)
        if problem is not None:
            self._find(file, offset, seq, problem)
        else:
            self.told = base_of_line(line) or self.told
        self.seq = max(seq, self.seq + 1)
        # Behind a bad line go on from what stands in it, or what should (it may be the chain
        # digest that is damaged): one changed line is one finding, not one each.
        bad = [stands or follows[0], follows[0]]
        self.previous = bad if problem is not None or stands is None else [stands]
        self.digest = stands or follows[0]
        if self.seq in self.snapshot_chains:
            self.snapshot_chains[self.seq] = self.digest.hex()
        head = self.heads.get(self.seq)
        if problem is None and head is not None and head != self.digest.hex():
            self._find(file, offset, seq, "the manifest counts another chain digest here")

    def _content(self, line: bytes) -> tuple[int, str | None]:
        expected = self.seq + 1
        try:
            envelope = decode_envelope(line)
            decode_line(line)
        except BadLineError as error:
            return expected, str(error)
        if envelope.node != self.node:
            return expected, f"it is a record of {envelope.node}"
        if envelope.seq != expected:
            return envelope.seq, f"it is record {envelope.seq}, and {expected} should be here"
        if envelope.cause is not None and not 0 < envelope.cause < expected:
            return expected, f"its cause, record {envelope.cause}, is not before it"
        return expected, None

    def _snapshots(self) -> None:
        for seq, chain in self.snapshot_chains.items():
            flaw = self.snapshots.flaw(seq, chain)
            if flaw is not None:
                problem = f"this snapshot is not used and may be removed: {flaw}"
                self._find(str(self.snapshots.path(seq)), None, seq, problem)

    def _twin(self, segment: Segment, twin: Path) -> None:
        other = Segment(twin, segment.first_seq, open=False)
        try:
            same = all(a == b for a, b in zip(_lines(segment), _lines(other), strict=True))
        except (DamagedLedgerError, ValueError):
            same = False
        if not same:
            self._find(str(twin), None, None, "both forms of this segment are there and differ")

    def _find(self, file: str, offset: int | None, seq: int | None, problem: str) -> None:
        self.findings.append(
            Finding(node=self.node, file=file, offset=offset, seq=seq, problem=problem)
        )


def _file_crc(segment: Segment) -> str:
    crc = 0
    with segment.file() as file:
        while block := file.read(1 << 20):
            crc = crc32(block, crc)
    return f"{crc:08x}"


def _lines(segment: Segment) -> Iterator[tuple[int, bytes]]:
    """Lines with their offsets; last, maybe, a part of one without a newline."""
    for piece in lines_of(blocks_of(segment)):
        offset = piece.offset
        for line in piece.lines:
            yield offset, line
            offset += len(line)
        if piece.rest:
            yield offset, piece.rest
