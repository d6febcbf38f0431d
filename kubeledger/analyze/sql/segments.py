"""Whether anything was appended since, and whether all is there that was acknowledged."""

from __future__ import annotations

from pathlib import Path

from kubeledger.ledger.base import begin_of
from kubeledger.ledger.manifest import Manifest, load_manifest
from kubeledger.ledger.names import (
    NODES,
    SEGMENTS,
    node_directory,
    segment_file,
)
from kubeledger.ledger.segments import Segment, list_segments
from kubeledger.model.errors import DamagedLedgerError

_ATTEMPTS = 3


def fingerprint(ledger: Path) -> tuple[tuple[str, int], ...]:
    """Names and sizes of all segments: equal as long as nothing was appended.

    Raises:
        BadQuestionError: there is no ledger at this path.
        DamagedLedgerError: a newer version wrote it, or a segment is gone or cut short.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _sizes(ledger)
        except FileNotFoundError:
            continue  # a segment was dropped or unpacked between the listing and the look at it
    return _sizes(ledger)


def _sizes(ledger: Path) -> tuple[tuple[str, int], ...]:
    looked = map(_looked_at, _segments(ledger))
    return tuple((str(path), size_bytes) for path, size_bytes in looked)


def _looked_at(segment: Segment) -> tuple[Path, int]:
    """File and size of a segment, which a writer may have sealed since it was listed.

    Raises:
        FileNotFoundError: it is gone, or was unpacked or dropped since.
    """
    try:
        return segment.path, segment.path.stat().st_size
    except FileNotFoundError:
        sealed = segment.path.with_name(segment_file(segment.first_seq, sealed=True))
        return sealed, sealed.stat().st_size


def _segments(ledger: Path) -> list[Segment]:
    """All segments: by node, then in the order they were written."""
    manifest = load_manifest(ledger)
    nodes = ledger / NODES
    directories = sorted(nodes.iterdir()) if nodes.is_dir() else []
    found = {directory.name: list_segments(directory / SEGMENTS) for directory in directories}
    if manifest is not None:
        _check_whole(ledger, manifest, found)
    return [segment for segments in found.values() for segment in segments]


def _holds(segment: Segment, least_bytes: int) -> bool:
    path, size_bytes = _looked_at(segment)
    return size_bytes >= least_bytes or path != segment.path


def _check_whole(ledger: Path, manifest: Manifest, found: dict[str, list[Segment]]) -> None:
    """What the manifest counts was acknowledged: an answer without it would not be true."""
    for node, info in manifest.nodes.items():
        directory = node_directory(node)
        listed = found.get(directory, [])
        begin = begin_of(node, ledger / NODES / directory, listed)
        segments = {segment.first_seq: segment for segment in listed}
        for counted in info.segments:
            if counted.first_seq <= begin.seq:
                continue
            segment = segments.get(counted.first_seq)
            least = counted.stored_bytes if segment and segment.sealed else counted.size_bytes
            if counted.sealed != (segment is not None and segment.sealed):
                least = 0  # it was sealed, or unpacked, since the manifest was written
            present = segment is not None and _holds(segment, least)
            if present or counted.last_seq < counted.first_seq:
                continue
            name = segment_file(counted.first_seq, sealed=counted.sealed)
            raise DamagedLedgerError(
                f"some of records {counted.first_seq} to {counted.last_seq} are missing",
                advice="restore the file from a copy; `kubeledger audit` lists all damage",
                file=str(ledger / NODES / directory / SEGMENTS / name),
            )
