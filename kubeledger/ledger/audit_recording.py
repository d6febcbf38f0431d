"""Audit of a file of records: the same walk as along a ledger's segments, a node at a time."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import zstandard

from kubeledger.ledger.audit_report import (
    AuditReport,
    Finding,
    NodeAudit,
    ToldLoss,
    finding_of_loss,
)
from kubeledger.ledger.chain_walk import ChainWalk
from kubeledger.ledger.segments import Lines, lines_of
from kubeledger.ledger.standalone import blocks_of_recording
from kubeledger.model.errors import BadInputError
from kubeledger.model.wire.codec import GENESIS, BadLineError, check_crc

_BEGIN = re.compile(rb'\{"node":("(?:[^"\\]|\\.)*"),"seq":(\d{1,19}),')


def audit_recording(path: Path, wanted: Collection[str] = ()) -> AuditReport:
    """Check each line of a ``*.ledger.jsonl`` file, or of a ``.zst`` of it.

    A node may begin at any record (an excerpt): its chain is proved from there on.

    Args:
        path: of the file.
        wanted: chain digests to look for, 64 hex digits each.

    Raises:
        BadInputError: it cannot be read, or holds no record at all.
    """
    auditor = _Auditor(path, wanted)
    try:
        with path.open("rb") as file:
            auditor.run(lines_of(blocks_of_recording(file)))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot be read: {reason}", file=str(path)) from error
    return auditor.report()


class _Auditor:
    """One pass over a file, whose lines may be of several nodes."""

    def __init__(self, path: Path, wanted: Collection[str]) -> None:
        self.file = str(path)
        self.wanted = wanted
        self.walks: dict[str, ChainWalk] = {}
        self.findings: list[Finding] = []
        self.walk: ChainWalk | None = None
        self.line, self.offset = 1, 0

    def run(self, pieces: Iterator[Lines]) -> None:
        try:
            for piece in pieces:
                for line in piece.lines:
                    self._line(line)
                    self.offset += len(line)
                    self.line += 1
                if piece.rest:
                    self._find("the file ends inside a record")
        except (EOFError, zstandard.ZstdError) as error:
            self._find(f"the compressed file is damaged: {error}")

    def report(self) -> AuditReport:
        """What was proved.

        Raises:
            BadInputError: no line was of any node.
        """
        if not self.walks:
            problem = self.findings[0].problem if self.findings else "it is empty"
            raise BadInputError(
                f"it has no record: {problem}",
                advice="a recording holds lines of a ledger, as `kubeledger export` writes them",
                file=self.file,
            )
        nodes = [self._node(walk) for _, walk in sorted(self.walks.items())]
        return AuditReport(nodes=tuple(nodes), findings=tuple(self.findings))

    def _line(self, line: bytes) -> None:
        self.walk = walk = self._walk_of(line)
        if walk is None:
            self._find("not a record")
            return
        fault = walk.take(line)
        if fault is not None:
            self._find(fault.problem, fault.seq)

    def _walk_of(self, line: bytes) -> ChainWalk | None:
        """Whose line it is: its node's; where its bytes are damaged, that of the line before."""
        begin = _BEGIN.match(line)
        if begin is None:
            return self.walk
        try:
            node = msgspec.json.decode(begin[1], type=str)
            if node not in self.walks:
                check_crc(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, BadLineError):
            return self.walk
        if node not in self.walks:
            seq = int(begin[2]) - 1
            digest = None if seq else GENESIS
            self.walks[node] = ChainWalk(node, seq, digest, self.wanted)
        return self.walks[node]

    def _node(self, walk: ChainWalk) -> NodeAudit:
        return NodeAudit(
            node=walk.node,
            source=self.file,
            records=walk.records,
            first_seq=walk.first_seq or 1,
            last_seq=walk.seq,
            head=walk.digest.hex(),
            holds=tuple(sorted(walk.held)),
            losses=tuple(self._losses(walk)),
        )

    def _losses(self, walk: ChainWalk) -> Iterator[ToldLoss]:
        for loss in walk.losses():
            if not loss.healed:
                self.findings.append(finding_of_loss(walk.node, self.file, loss))
            yield loss

    def _find(self, problem: str, seq: int | None = None) -> None:
        """Something is wrong with the present line."""
        walk = self.walk
        found = Finding(
            node=walk.node if walk else None,
            file=self.file,
            offset=self.offset,
            seq=walk.seq + 1 if walk and seq is None else seq,
            problem=problem,
            line=self.line,
        )
        self.findings.append(found)
