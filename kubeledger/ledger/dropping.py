"""Dropping a node's first segments: every step can be the last one before a crash.

What is kept in place of the records is written, then ``base.json`` (what is about to happen),
then the record of the drop, which makes it so, then the segments go, one by one from the
beginning. The next writer takes back a drop without its record, and finishes one with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from kubeledger.ledger.base import BASE, Base, Begin, load_base, recorded_bases, save_base
from kubeledger.ledger.base_content import content_path, content_seqs
from kubeledger.ledger.index import without_dropped
from kubeledger.ledger.manifest import NodeInfo
from kubeledger.ledger.reader import NodeReader
from kubeledger.ledger.segments import Segment, list_segments
from kubeledger.ledger.snapshots import SnapshotStore, derived_stores
from kubeledger.ledger.storage import make_directory, remove, write_atomically
from kubeledger.model.bodies.ledger import RecordsDropped
from kubeledger.model.errors import DamagedLedgerError


def prepare_drop(
    node: str, directory: Path, begin: Begin, record_seq: int, dropped: RecordsDropped, data: bytes
) -> Base:
    """Write all that must be on disk before the record of a drop.

    Args:
        directory: of the node's segments.
        begin: where the records begin now.
        record_seq: the number that the record will have.
        dropped: the record's body.
        data: what is kept in place of the records, as a file.

    Raises:
        OSError: as the operating system says; nothing was dropped.
    """
    previous = msgspec.structs.replace(begin.base, previous=None) if begin.base else None
    base = Base(node=node, record_seq=record_seq, dropped=dropped, previous=previous)
    path = content_path(directory.parent, dropped.last_seq)
    make_directory(path.parent)
    write_atomically(path, data)
    save_base(directory.parent, base)
    return base


def finish_drop(directory: Path, base: Base) -> None:
    """The record is on disk: remove the segments, then what was made from them.

    Each removal is on disk before the next: whatever a crash leaves begins at one place.

    Raises:
        OSError: as the operating system says; the next writer continues.
    """
    for segment in list_segments(directory):
        if segment.first_seq < base.first_seq:
            remove(segment.path)
            remove(segment.sealed_path)
    SnapshotStore(directory.parent, base.node).drop(last_seq=base.dropped.last_seq)
    for store in derived_stores(directory.parent, base.node):
        store.drop()  # each may tell of what went
    _remove_contents(directory.parent, keep=base)


def settle(node: str, directory: Path, begin: Begin, info: NodeInfo) -> NodeInfo:
    """Finish a drop that was recorded, take one back that was not.

    Args:
        directory: of its segments, the ends of which are in order.
        begin: where the records begin by what is there.
        info: counts of them.

    Returns:
        the counts afterwards.

    Raises:
        DamagedLedgerError: segments are gone and no record says so; nothing was changed.
        OSError: as the operating system says.
    """
    place = directory.parent
    written = load_base(place)
    if written is None and begin.base is None and not (place / BASE).exists():
        _remove_contents(place, keep=None)
        return info
    segments = [s for s in list_segments(directory) if s.first_seq > begin.seq]
    base = written or max(recorded_bases(node, segments), key=lambda b: b.record_seq, default=None)
    base = base or begin.base
    if base is not None and _is_recorded(node, base, segments, begin, info):
        if written is None:
            save_base(place, base)
        finish_drop(directory, base)
        return without_dropped(info, Begin(base))
    if begin.base is not None and (base is None or begin.base.dropped == base.dropped):
        raise DamagedLedgerError(
            f"records 1 to {begin.seq} of {node} are missing, and no record says that they "
            "were dropped",
            advice="nothing was changed; restore the ledger from a copy (`kubeledger audit` "
            "lists all damage)",
            file=str(place / BASE),
        )
    if begin.base is not None:
        save_base(place, begin.base)
    else:
        remove(place / BASE)
    _remove_contents(place, keep=begin.base)
    return info


def _is_recorded(
    node: str, base: Base, segments: Sequence[Segment], begin: Begin, info: NodeInfo
) -> bool:
    """Whether the record of the drop stands where it should, or was lost with others."""
    if base.record_seq > info.last_seq or base.record_seq <= begin.seq:
        return any(loss.first_seq <= base.record_seq <= loss.last_seq for loss in info.losses)
    reader = NodeReader(node, list(segments), 0, "crc", begin)
    record = next(reader.records(base.record_seq - 1), None)
    if record is not None and record.body == base.dropped:
        return True
    lost = any(loss.first_seq <= base.record_seq <= loss.last_seq for loss in info.losses)
    return lost and begin.base is not None and begin.base.dropped == base.dropped


def _remove_contents(place: Path, keep: Base | None) -> None:
    kept = keep.dropped.last_seq if keep else 0
    for seq in content_seqs(place):
        if seq != kept:
            remove(content_path(place, seq))
