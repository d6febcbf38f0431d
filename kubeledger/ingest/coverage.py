"""What earlier imports of a node have already reported.

A log is known again by the digest of its content, whatever it is called now, and one that
has grown since by the digest of its beginning. A snapshot is known by its digest and its
name, which holds its time: what a file held before, it may hold again.

This decides whether a bundle is read at all, and which accounts of lines are old. Whether
a fact is, the records themselves show (``stored``).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubeledger.ingest.planning.bundle import FoundFile
from kubeledger.ingest.sources.detect import LOG_FORMATS
from kubeledger.ingest.sources.packing import without_suffix
from kubeledger.model.bodies.ledger import Source
from kubeledger.model.record import Evidence

_WHOLE = 1 << 62


class Coverage(msgspec.Struct):
    """How many first bytes of each file are known.

    Attributes:
        known: file of the bundle -> bytes; 0 for a new one, ``_WHOLE`` for one known whole.
    """

    known: dict[str, int]

    @property
    def is_empty(self) -> bool:
        """Nothing of the bundle has been imported before."""
        return not any(self.known.values())

    @property
    def is_whole(self) -> bool:
        """All of the bundle has been imported before."""
        return all(known == _WHOLE for known in self.known.values())

    def known_bytes(self, file: str) -> int:
        """First bytes of a file that are known; 0 when it is new."""
        return self.known.get(file, 0)

    def holds(self, evidence: tuple[Evidence, ...]) -> bool:
        """An earlier import has read all of this evidence."""
        return bool(evidence) and all(self._holds_place(place) for place in evidence)

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
    coverage = Coverage({})
    for file in files:
        name = file.source.name
        coverage.known[name] = 0
        same = names.get(file.digests.digest, ())
        if same and (file.survey is not None or any(same_name(name, other) for other in same)):
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


def same_name(name: str, other: str) -> bool:
    """One path is the end of the other: the bundle was named by another of its directories."""
    left, right = without_suffix(name), without_suffix(other)
    return left == right or left.endswith(f"/{right}") or right.endswith(f"/{left}")


def _line_start(file: FoundFile, length: int) -> int:
    """Start of the line that the end of the older copy cut; ``length`` if it cut none."""
    position, start = 0, 0
    for chunk in file.source.stored_chunks():
        piece = chunk[: length - position]
        cut = piece.rfind(b"\n")
        if cut >= 0:
            start = position + cut + 1
        position += len(piece)
        if position >= length:
            break
    return start
