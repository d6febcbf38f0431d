"""Excerpts of a ledger: what passes a filter, and what a reader needs besides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec

from kubeledger.analyze.sql.inputs import with_inputs
from kubeledger.analyze.sql.listing import Filter, selection
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.runs import replays_in_seq_order
from kubeledger.ledger.standalone import encode_recording
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletStarted,
    LogThinned,
    NodeObserved,
    SettingsObserved,
)
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import decode_line
from kubeledger.replay.excerpts import renumbered
from kubeledger.verify import Reader

__all__ = ["excerpt", "lines_of_excerpt", "records_of_excerpt"]

_ALWAYS = (ClockStepped, KubeletStarted, LogThinned, NodeObserved, SettingsObserved)


def excerpt(ledger: Ledger, wanted: Filter) -> Iterator[Record]:
    """Records that pass the filter, in the order of replay and with their own numbers.

    Besides these, up to the end of the time asked for: starts of the kubelet, its settings, the
    node, the lists of pods (of the pod asked for, if there is one), and what is known to be lost.
    Of one pod also what its decisions rest on, so that they verify as in the ledger
    (:func:`kubeledger.analyze.sql.inputs.with_inputs`).

    Raises:
        BadQuestionError: the ledger has no such node.
        DamagedLedgerError: a line is not as it was written; all before it were given.
    """
    wants = selection(ledger, wanted)
    until = msgspec.structs.replace(wanted, since_ns=None, kinds=())
    in_time = selection(ledger, msgspec.structs.replace(until, pod=None, container=None))
    of_pod = selection(ledger, msgspec.structs.replace(until, container=None))
    for node in ledger.nodes() if wanted.node is None else [wanted.node]:
        missing = {loss.seq for loss in ledger.info(node).missing}

        def is_needed(record: Record, missing: Collection[int] = missing) -> bool:
            always = isinstance(record.body, _ALWAYS) or record.seq in missing
            return (always and in_time(record)) or (
                isinstance(record.body, PodListed) and of_pod(record)
            )

        if wanted.pod is None:
            yield from (r for r in ledger.replay(node) if wants(r) or is_needed(r))
            continue
        read = _reader(ledger, node, in_time)
        kept = {record.seq for record in read(None) if wants(record) or is_needed(record)}
        mine = {record.seq for record in read(None) if record.role == "decision" and wants(record)}
        if mine:
            kept = with_inputs(read, kept, mine)
        yield from (record for record in read(None) if record.seq in kept)


def _reader(ledger: Ledger, node: str, in_time: Callable[[Record], bool]) -> Reader:
    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        for record in ledger.replay(node):
            if in_time(record) and (kinds is None or record.kind in kinds):
                yield record

    return read


def lines_of_excerpt(ledger: Ledger, wanted: Filter) -> Iterator[bytes]:
    """Lines of a recording; the ledger's own lines where nothing is left out.

    A recording is replayed in the order of its lines. So records are numbered again where some
    are left out, and where imports overlap in time.

    Raises:
        KubeledgerError: as :func:`excerpt`.
    """
    if wanted != Filter(node=wanted.node):
        yield from encode_recording(renumbered(excerpt(ledger, wanted)))
        return
    for node in ledger.nodes() if wanted.node is None else [wanted.node]:
        info = ledger.info(node)
        latest_ts_ns = max((run.max_ts_ns for run in info.runs), default=0)
        if replays_in_seq_order(info.runs, info.last_seq, latest_ts_ns):
            for raw in ledger.raw_lines(node):
                yield raw.line
        else:
            yield from encode_recording(renumbered(ledger.replay(node)))


def records_of_excerpt(ledger: Ledger, wanted: Filter) -> Iterator[Record]:
    """The records whose lines :func:`lines_of_excerpt` gives.

    Raises:
        KubeledgerError: as :func:`excerpt`.
    """
    for line in lines_of_excerpt(ledger, wanted):
        yield decode_line(line)
