"""Audit of a ledger: every byte is proved, and all that does not fit is listed.

Unlike a reader, an audit continues after damage, so that its list is complete.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from kubeledger.ledger.audit_walk import (
    AuditReport,
    ChainWalk,
    Fault,
    Finding,
    NodeAudit,
    Tail,
    ToldLoss,
    finding_of_loss,
)
from kubeledger.ledger.base import BASE, Begin, begin_of, load_base, load_content
from kubeledger.ledger.kept import SHIPPED, KeptSources, capture_flaws, load_mark
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import NodeInfo, load_manifest, without_dropped
from kubeledger.ledger.segments import (
    Lines,
    Segment,
    SegmentGoneError,
    blocks_of,
    hold,
    lines_of,
    list_segments,
)
from kubeledger.ledger.snapshots import SnapshotStore, derived_stores
from kubeledger.ledger.storage import (
    MANIFEST,
    NODES,
    SEGMENTS,
    NotRegularError,
    crc_of,
    node_directory,
    storage_errors,
)
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.wire.codec import chain_of, is_complete_except_newline

_ATTEMPTS = 10  # each is taken back only by a drop that came between two system calls


def audit(ledger: Ledger, wanted: Collection[str] = ()) -> AuditReport:
    """Read and check everything: frames, CRCs, chains, numbers, schemas, the manifest.

    Args:
        wanted: chain digests to look for, 64 hex digits each.

    Raises:
        KubeledgerError: no ledger, or one of a newer version, or it cannot be read.
    """
    with storage_errors("read the ledger", ledger.path):
        manifest = load_manifest(ledger.path)
        findings: list[Finding] = []
        if manifest is None:
            findings.append(_about(ledger.path / MANIFEST, "the manifest is damaged or lost"))
        counted = manifest.nodes if manifest else {}
        audits = [
            _audit_node(ledger.path, node, counted.get(node, NodeInfo()), wanted, findings)
            for node in ledger.nodes()
        ]
    return AuditReport(nodes=tuple(audits), findings=tuple(findings))


def _audit_node(
    ledger: Path, node: str, counted: NodeInfo, wanted: Collection[str], findings: list[Finding]
) -> NodeAudit:
    """Audit files that are held open: a drop may take their names meanwhile."""
    for _ in range(_ATTEMPTS):
        auditor = _NodeAuditor(ledger, node, counted, wanted, findings)
        with suppress(SegmentGoneError), hold(auditor.segments, irregular=True) as held:
            auditor.segments = held
            return auditor.run()
    return auditor.run()


def _about(path: Path, problem: str) -> Finding:
    return Finding(None, str(path), None, None, problem)


class _NodeAuditor:
    """One pass over a node; findings go to a list shared by all nodes."""

    def __init__(
        self,
        ledger: Path,
        node: str,
        counted: NodeInfo,
        wanted: Collection[str],
        findings: list[Finding],
    ) -> None:
        self.ledger = ledger
        self.node = node
        self.directory = ledger / NODES / node_directory(node) / SEGMENTS
        self.findings = findings
        self.wanted = wanted
        listed = list_segments(self.directory)
        self.begin = self._begin(listed)
        self.segments = [s for s in listed if s.first_seq > self.begin.seq]
        self.counted = counted = without_dropped(counted, self.begin)
        lost = {loss.chain for loss in counted.losses}
        self.walk = ChainWalk(node, self.begin.seq, self.begin.chain, lost.union(wanted))
        self.tail: Tail | None = None
        self.heads = {
            segment.last_seq: segment.head
            for segment in counted.segments
            if segment.last_seq >= segment.first_seq
        }
        self.counted_crcs = {
            segment.first_seq: segment.stored_crc for segment in counted.segments if segment.sealed
        }
        snapshots = SnapshotStore(self.directory.parent, node)
        self.stores = (snapshots, *derived_stores(self.directory.parent, node))
        known = [seq for store in self.stores for seq in store.seqs() if seq > self.begin.seq]
        self.snapshot_chains: dict[int, str | None] = dict.fromkeys(sorted(known))
        self.marks = sorted({*self.heads, *known})

    def run(self) -> NodeAudit:
        walk, segments = self.walk, self.segments
        for segment in segments:
            if segment.first_seq != walk.seq + 1:
                problem = f"the segment begins with record {segment.first_seq}, not {walk.seq + 1}"
                self._find(str(segment.path), 0, walk.seq + 1, problem)
                walk.leap(segment.first_seq - 1, self._counted_digest(segment.first_seq - 1))
            self._segment(segment)
        if walk.seq < self.counted.last_seq:
            self.tail = None  # no unfinished write: this was whole
            self._find(
                str(segments[-1].path if segments else self.directory),
                None,
                walk.seq + 1,
                f"records {walk.seq + 1} to {self.counted.last_seq} were acknowledged and "
                "are not there",
            )
        self._snapshots()
        self._base()
        completed = {run.digest for run in self.counted.runs if run.digest and run.complete}
        for path, problem in KeptSources(self.ledger, self.node).flaws(
            completed, keeps=self.counted.keeps
        ):
            self._find(str(path), None, None, problem)
        for path, offset, problem in capture_flaws(self.ledger, self.node):
            self._find(str(path), offset, None, problem)
        mark = self.directory.parent / SHIPPED
        if mark.exists() and load_mark(mark.parent) is None and mark.exists():
            self._find(str(mark), None, None, "the note of what was shipped is damaged")
        return NodeAudit(
            node=self.node,
            source=str(self.ledger),
            records=walk.records,
            first_seq=self.begin.seq + 1,
            last_seq=walk.seq,
            head=walk.digest.hex(),
            dropped=self.begin.base,
            holds=tuple(sorted((walk.held | self._ends_of_drops()).intersection(self.wanted))),
            losses=tuple(self._losses()),
            tail=self.tail,
        )

    def _begin(self, listed: list[Segment]) -> Begin:
        try:
            return begin_of(self.node, self.directory.parent, listed)
        except (DamagedLedgerError, NotRegularError):
            return Begin()  # what is missing is found where the first segment begins

    def _ends_of_drops(self) -> set[str]:
        """Chain digests of records that are gone, and that the record of the last drop holds."""
        if self.begin.base is None:
            return set()
        dropped = self.begin.base.dropped
        return {dropped.chain, *(drop.chain for drop in dropped.earlier)}

    def _base(self) -> None:
        """What was dropped: do base, the drop's record, and what was kept say the same?"""
        file = self.directory.parent / BASE
        drop, base = self.walk.last_drop, self.begin.base
        was_there = file.exists() or base is not None  # before it is read: it may come meanwhile
        written = load_base(file.parent)
        if written is None and was_there:
            self._find(str(file), None, None, "the base is damaged or lost; a record names it")
        if drop is not None and drop[1].last_seq > self.begin.seq:
            # A crash right after the record leaves this, with a base; the next writer continues.
            if written is None or written.dropped != drop[1]:
                problem = f"records up to {drop[1].last_seq} should be gone and are there"
                self._find(str(file), None, drop[0], problem)
            return
        if base is None:
            return
        if drop != (base.record_seq, base.dropped):
            problem = f"no record says that records up to {self.begin.seq} were dropped"
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
            number = 1
            for piece in lines_of(blocks_of(segment)):
                self._lines(file, number, piece)
                number += len(piece.lines)
                if piece.rest:
                    self._rest(segment, number, piece.offset, piece.rest)
        except DamagedLedgerError as error:
            self._find(file, error.offset, self.walk.seq + 1, error.message)
        except NotRegularError as error:
            self._find(file, None, segment.first_seq, f"it is not read: {error.strerror}")
            self._leap_over(segment)
            return
        counted = self.counted_crcs.get(segment.first_seq)
        if segment.sealed and counted:
            with segment.file() as content:
                if counted != crc_of(content):
                    self._find(file, None, None, "the bytes of the compressed file were changed")
        twin = segment.sealed_path
        if not segment.sealed and twin.exists():
            # A crash while sealing; the next writer tidies it up. Both must hold the same.
            self._twin(segment, twin)

    def _leap_over(self, segment: Segment) -> None:
        """Go on after a segment that cannot be read."""
        later = [s.first_seq - 1 for s in self.segments if s.first_seq > segment.first_seq]
        last_seq = later[0] if later else max(self.counted.last_seq, segment.first_seq - 1)
        self.walk.leap(last_seq, self._counted_digest(last_seq))

    def _counted_digest(self, seq: int) -> bytes | None:
        head = self.heads.get(seq)
        return bytes.fromhex(head) if head else None

    def _rest(self, segment: Segment, number: int, offset: int, text: bytes) -> None:
        """What follows the last newline of a segment."""
        problem = None
        if not segment.open:
            problem = "the segment ends inside a line"
        elif is_complete_except_newline(text):
            problem = "the newline of this record was changed"
        if problem is not None:
            self._find(str(segment.path), offset, self.walk.seq + 1, problem, number)
        else:
            size = sum(len(block) for block in blocks_of(segment)) - offset
            self.tail = Tail(file=str(segment.path), offset=offset, size_bytes=size)

    def _lines(self, file: str, number: int, piece: Lines) -> None:
        """Whole lines, of which the first has this number in the file."""
        walk, lines, at = self.walk, piece.lines, 0

        def find(seq: int, problem: str, index: int) -> None:
            offset = piece.offset + sum(map(len, lines[:index]))
            self._find(file, offset, seq, problem, number + index)

        def mark(seq: int, digest: str, index: int, fault: Fault | None = None) -> None:
            if fault is not None:
                find(fault.seq, fault.problem, index)
            elif self.heads.get(seq, digest) != digest:
                find(seq, "the manifest counts another chain digest here", index)
            if seq in self.snapshot_chains:
                self.snapshot_chains[seq] = digest

        while at < len(lines):
            first_seq = walk.seq + 1
            taken = walk.take_sound(lines[at:])
            for seq in self._marked(first_seq, walk.seq):
                index = at + seq - first_seq
                mark(seq, chain_of(lines[index]).hex(), index)
            at += taken
            if at < len(lines):
                fault = walk.take(lines[at])
                mark(walk.seq, walk.digest.hex(), at, fault)
                at += 1

    def _marked(self, first_seq: int, last_seq: int) -> list[int]:
        """Records from one to another of which someone else has noted the digest."""
        begin = bisect_left(self.marks, first_seq)
        return self.marks[begin : bisect_right(self.marks, last_seq)]

    def _losses(self) -> Iterator[ToldLoss]:
        """Losses that are recorded, and those that the next writer will record."""
        walk = self.walk
        unreported = [
            ToldLoss.of(self.node, None, loss.lost, healed=False)
            for loss in self.counted.losses
            if loss.lost not in walk.lost.values() and loss.chain not in walk.held
        ]
        for loss in [*walk.losses(), *unreported]:
            if not loss.healed:
                self.findings.append(finding_of_loss(self.node, str(self.directory), loss))
            yield loss

    def _snapshots(self) -> None:
        for store in self.stores:
            for seq in store.seqs():
                if seq not in self.snapshot_chains:
                    continue
                flaw = store.flaw(seq, self.snapshot_chains[seq])
                if flaw is not None:
                    problem = f"this snapshot is not used and may be removed: {flaw}"
                    self._find(str(store.path(seq)), None, seq, problem)

    def _twin(self, segment: Segment, twin: Path) -> None:
        other = Segment(twin, segment.first_seq, open=False)
        try:
            same = all(a == b for a, b in zip(_lines(segment), _lines(other), strict=True))
        except (DamagedLedgerError, NotRegularError, ValueError):
            same = False
        if not same:
            self._find(str(twin), None, None, "both forms of this segment are there and differ")

    def _find(
        self, file: str, offset: int | None, seq: int | None, problem: str, line: int | None = None
    ) -> None:
        self.findings.append(Finding(self.node, file, offset, seq, problem, line))


def _lines(segment: Segment) -> Iterator[tuple[int, bytes]]:
    """Lines with their offsets; last, maybe, a part of one without a newline."""
    for piece in lines_of(blocks_of(segment)):
        offset = piece.offset
        for line in piece.lines:
            yield offset, line
            offset += len(line)
        if piece.rest:
            yield offset, piece.rest
