"""What earlier imports of a node have already told.

A log is known again by the digest of its content, whatever it is called now, and one that
has grown since by the digest of its beginning. A snapshot is known by its digest and its
name, which holds its time: what a file held before, it may hold again.

A fact is old when the evidence that decides about it is: its log lines if it has any, else
its snapshots, else its API events (which only confirm what a log line said).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubeledger.importers.bundle import FoundFile
from kubeledger.importers.detect import LOG_FORMATS
from kubeledger.ledger.records import Source
from kubeledger.machine import Evidence

__all__ = ["Coverage", "coverage_of", "known_lengths"]

_WHOLE = 1 << 62


class Coverage(msgspec.Struct):
    """How many first bytes of each file are known.

    Attributes:
        known: file -> bytes; ``_WHOLE`` for a file that is known whole.
        ranks: file -> 0 for logs, 1 for snapshots, 2 for API events.
    """

    known: dict[str, int]
    ranks: dict[str, int]

    @property
    def is_empty(self) -> bool:
        """Nothing of the bundle has been imported before."""
        return not any(self.known.values())

    @property
    def is_whole(self) -> bool:
        """All of the bundle has been imported before."""
        return all(self.known.get(file) == _WHOLE for file in self.ranks)

    def known_bytes(self, file: str) -> int:
        """First bytes of a file that are known; 0 when it is new."""
        return self.known.get(file, 0)

    def holds(self, evidence: tuple[Evidence, ...]) -> bool:
        """A fact with this evidence was told by an earlier import."""
        if not evidence:
            return False
        rank = min(self.ranks.get(place.file, 0) for place in evidence)
        return all(
            self._holds_place(place) for place in evidence if self.ranks.get(place.file, 0) == rank
        )

    def _holds_place(self, place: Evidence) -> bool:
        known = self.known.get(place.file, 0)
        return known == _WHOLE or (place.offset is not None and place.offset < known)


def known_lengths(sources: Iterable[Source]) -> list[int]:
    """Lengths of the logs that were imported: a log may begin with one of them."""
    return sorted({source.size_bytes for source in sources if source.format in LOG_FORMATS})


def coverage_of(files: Iterable[FoundFile], imported: Iterable[Source]) -> Coverage:
    """Compare a bundle with the sources of completed imports."""
    names: dict[str, list[str]] = {}
    for source in imported:
        names.setdefault(source.digest, []).append(source.file)
    coverage = Coverage({}, {})
    for file in files:
        name = file.source.name
        coverage.ranks[name] = _rank(file.format)
        same = names.get(file.digests.digest, ())
        if same and (file.survey is not None or any(_same_name(name, other) for other in same)):
            coverage.known[name] = _WHOLE
            continue
        lengths = [
            length
            for length, digest in file.digests.prefixes.items()
            if digest in names and length > 0
        ]
        if lengths:
            coverage.known[name] = _line_start(file, max(lengths))
    return coverage


def _same_name(name: str, other: str) -> bool:
    """One path is the end of the other: the bundle was named by another of its directories."""
    left, right = (text.removesuffix(".gz").removesuffix(".zst") for text in (name, other))
    return left == right or left.endswith(f"/{right}") or right.endswith(f"/{left}")


def _rank(form: str) -> int:
    if form in LOG_FORMATS:
        return 0
    return 2 if form == "events" else 1


def _line_start(file: FoundFile, length: int) -> int:
    """Start of the line that the end of the older copy cut; ``length`` if it cut none."""
    position, start = 0, 0
    for chunk in file.source.chunks():
        piece = chunk[: length - position]
        cut = piece.rfind(b"\n")
        if cut >= 0:
            start = position + cut + 1
        position += len(piece)
        if position >= length:
            break
    return start
