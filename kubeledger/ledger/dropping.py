"""Dropping a node's first segments: what a policy allows, in steps that survive a crash.

What is kept in place of the records is written, then ``base.json`` (what is about to happen),
then the record of the drop, which makes it so, then the segments go, one by one from the
beginning. The next writer takes back a drop without its record, and finishes one with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kubeledger.ledger.base import (
    BASE,
    Base,
    Begin,
    content_path,
    content_seqs,
    load_base,
    recorded_bases,
    save_base,
)
from kubeledger.ledger.kept import load_mark
from kubeledger.ledger.manifest import NodeInfo, SegmentInfo, without_dropped
from kubeledger.ledger.reader import NodeReader
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.segments import Segment, list_segments
from kubeledger.ledger.snapshots import SnapshotStore, derived_stores
from kubeledger.ledger.storage import make_directory, remove, write_atomically
from kubeledger.model.bodies.ledger import RecordsDropped
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.model.record import Record

INERT = "ledger."
"""Records of these kinds say something of the ledger, and change no state."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What may go: what any of the conditions allows.

    Attributes:
        before_ns: records with an earlier time; None is no such condition.
        keep_bytes: of each node so many bytes on disk are kept at least; None as above.
        unshipped: of a node that is shipped elsewhere, what is not there yet may go, too.
        words: the same for people.
    """

    before_ns: int | None = None
    keep_bytes: int | None = None
    unshipped: bool = False
    words: str

    def __post_init__(self) -> None:
        """Refuse what allows nothing, or everything.

        Raises:
            BadQuestionError: no condition, or a negative size.
        """
        if self.before_ns is None and self.keep_bytes is None:
            raise BadQuestionError("the policy has no condition")
        if self.keep_bytes is not None and self.keep_bytes < 0:
            raise BadQuestionError("a size cannot be negative")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy drops of one node.

    Attributes:
        first_seq: the first record that is there.
        last_seq: the last record to go; 0 when none does.
        segments, stored_bytes: how many files go, and their size on disk.
        allowed_seq: the policy alone would allow to drop up to here. More than ``last_seq``
            where kept records belong before dropped ones in the order of time.
        unshipped_seq: the policy would allow to drop up to here, but what comes after what was
            shipped stays; 0 where that makes no difference.
    """

    first_seq: int
    last_seq: int = 0
    segments: int = 0
    stored_bytes: int = 0
    allowed_seq: int = 0
    unshipped_seq: int = 0


def choose(look: Reading, policy: Policy) -> Choice:
    """What a policy drops of a node.

    Raises:
        KubeledgerError: the ledger cannot be read.
    """
    info = look.info()
    whole = [s for s in info.segments if s.last_seq >= s.first_seq][:-1]
    stored = {segment.first_seq: segment.path for segment in look.segments}
    sizes = [_size(segment, stored) for segment in whole]
    last = [s for s in info.segments if s.last_seq >= s.first_seq][-1:]
    kept_bytes = sum(_size(segment, stored) for segment in last)
    wanted = max(_by_time(whole, policy), _by_size(sizes, kept_bytes, policy))
    allowed = wanted if policy.unshipped else min(wanted, _shipped(whole, look))
    unshipped_seq = whole[wanted - 1].last_seq if allowed < wanted else 0
    for count in range(allowed, 0, -1):
        if _begins_the_replay(look, info, whole[:count]):
            return Choice(
                first_seq=look.begin.seq + 1,
                last_seq=whole[count - 1].last_seq,
                segments=count,
                stored_bytes=sum(sizes[:count]),
                allowed_seq=whole[allowed - 1].last_seq,
                unshipped_seq=unshipped_seq,
            )
    allowed_seq = whole[allowed - 1].last_seq if allowed else 0
    return Choice(
        first_seq=look.begin.seq + 1, allowed_seq=allowed_seq, unshipped_seq=unshipped_seq
    )


def _size(segment: SegmentInfo, stored: Mapping[int, Path]) -> int:
    path = stored[segment.first_seq]
    try:
        return path.stat().st_size
    except FileNotFoundError:  # sealed, or dropped by another one, in this moment
        return segment.stored_bytes


def _by_time(whole: Sequence[SegmentInfo], policy: Policy) -> int:
    """How many first segments have only records from before the time."""
    if policy.before_ns is None:
        return 0
    count = 0
    for segment in whole:
        if segment.max_ts_ns is None or segment.max_ts_ns >= policy.before_ns:
            break
        count += 1
    return count


def _by_size(sizes: Sequence[int], kept_bytes: int, policy: Policy) -> int:
    """How many first segments are not needed to keep so many bytes."""
    if policy.keep_bytes is None:
        return 0
    count = len(sizes)
    while count and kept_bytes + sizes[count - 1] <= policy.keep_bytes:
        count -= 1
        kept_bytes += sizes[count]
    return count


def _shipped(whole: Sequence[SegmentInfo], look: Reading) -> int:
    """How many first segments are stored elsewhere; all of a node that is not shipped at all."""
    mark = load_mark(look.directory)
    if mark is None:
        return len(whole)
    return sum(segment.last_seq <= mark.info.last_seq for segment in whole)


def _begins_the_replay(look: Reading, info: NodeInfo, dropped: Sequence[SegmentInfo]) -> bool:
    """Whether all that is kept comes after all that goes in the order of time.

    Else the state after what goes would not be one that the kept records follow on.
    """
    last_seq = dropped[-1].last_seq
    latest_ns = max(s.max_ts_ns for s in dropped if s.max_ts_ns is not None)
    for run in info.runs:
        if run.last_seq <= last_seq:
            latest_ns = max(latest_ns, run.max_ts_ns)
    for run in info.runs:
        if run.last_seq <= last_seq or run.first_ts_ns >= latest_ns:
            continue
        first = _first_fact(look, max(run.first_seq, last_seq + 1), run.last_seq)
        if first is None or first.ts_ns >= latest_ns:
            continue
        own = [s.max_ts_ns for s in dropped if s.first_seq >= run.first_seq and s.max_ts_ns]
        if max(own, default=first.ts_ns) < latest_ns:
            return False
    return True


def _first_fact(look: Reading, first_seq: int, last_seq: int) -> Record | None:
    for record in look.records(first_seq - 1, verify="crc"):
        if record.seq > last_seq:
            return None
        if not record.kind.startswith(INERT):
            return record
    return None


def prepare_drop(
    node: str, directory: Path, begin: Begin, record_seq: int, dropped: RecordsDropped, data: bytes
) -> Base:
    """Write all that must be on disk before the record of a drop.

    Args:
        begin: where the records begin now.
        record_seq: the number that the record will have.
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
        begin: where the records begin by what is there.

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
