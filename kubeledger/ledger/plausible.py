"""Whether a manifest can be one that a writer wrote.

Its CRC finds damage, but whoever changes a ledger on purpose fits the CRC, too. What readers
rely on without looking is therefore checked here: numbers that follow each other, digests
that are some. A manifest that does not pass counts as lost, and is made again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kubeledger.model.wire.codec import DIGEST_BYTES
from kubeledger.model.wire.instants import is_storable

if TYPE_CHECKING:
    from kubeledger.ledger.manifest import Loss, NodeInfo

__all__ = ["is_plausible"]

_SEQ_MAX = (1 << 63) - 1


def is_plausible(node: NodeInfo) -> bool:
    """Whether counts of a node fit together."""
    spans = [(segment.first_seq, segment.last_seq) for segment in node.segments]
    runs = [(run.first_seq, run.last_seq) for run in node.runs]
    return (
        all(0 < first <= last + 1 for first, last in spans)
        and all(later[0] == earlier[1] + 1 for earlier, later in pairwise(spans))
        and all(0 < first <= last <= max(node.last_seq, 0) for first, last in runs)
        and all(later[0] > earlier[1] for earlier, later in pairwise(runs))
        and all(run.first_ts_ns <= run.max_ts_ns for run in node.runs)
        and all(0 <= run.end_seq <= run.last_seq for run in node.runs)
        and all(0 <= (run.reopened_seq or 0) <= run.last_seq for run in node.runs)
        and all(map(_can_be_told, node.losses))
        and all(0 < first <= last for first, last in node.superseded)
        and all(later[0] > earlier[1] for earlier, later in pairwise(node.superseded))
        and (node.dropped_seq > 0) == bool(node.dropped_head)
        and _have_digests(node)
    )


def _can_be_told(loss: Loss) -> bool:
    """Whether a record can hold it; a loss that cannot be told would stop every writer."""
    times = (loss.first_ts_ns, loss.last_ts_ns, loss.found_ts_ns)
    return 0 < loss.first_seq <= loss.last_seq <= _SEQ_MAX and all(
        ts_ns is None or is_storable(ts_ns) for ts_ns in times
    )


def _have_digests(node: NodeInfo) -> bool:
    given = [segment.head for segment in node.segments] + [loss.head for loss in node.losses]
    if node.dropped_head:
        given.append(node.dropped_head)
    try:
        digests = [node.head, *map(bytes.fromhex, given)]
    except ValueError:
        return False
    return all(len(digest) == DIGEST_BYTES for digest in digests)
