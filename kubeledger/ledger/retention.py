"""What a policy allows to drop: whole segments from a node's beginning, never its last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kubeledger.ledger.manifest import NodeInfo, SegmentInfo
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.shipped import load_mark
from kubeledger.model.errors import BadQuestionError
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
