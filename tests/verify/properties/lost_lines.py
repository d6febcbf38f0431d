"""What an importer would say of the lines that a simulated log lost: its own code says it.

A simulation writes records, and no log. The log of which they would be read holds the beats of
the sync loop, too: two lines every two seconds (one before 1.22). Of these the same share is
lost, and the assembler that watches the beats of a real log is fed with the rest. So a loss is
told exactly where it would be told of a real node, and where it cannot be seen it is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.derive.tick_grid import LostLinesAssembler
from kubeledger.ingest.sources.items import Fact, LogLine
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from tests.ingest.feeding import listening
from tests.verify.properties.truths import source_of

_BEGIN, _END = "SyncLoop (housekeeping)", "SyncLoop (housekeeping) end"
_FIRST_NS, _PERIOD_NS, _TAKES_NS = 900_000_000, 2 * NS_PER_S, 3_000_000


def thinned(
    whole: Sequence[Record], left: Sequence[Record], keeps: Callable[[int], bool]
) -> list[Record]:
    """The records that are left of a history, and what the beats of the log tell of the loss.

    Args:
        whole: all records.
        left: those that are left, with their seqs of before.
        keeps: whether a line of that time is left; asked once for each beat.
    """
    beats = [(ts_ns, text, pid) for ts_ns, text, pid in _beats(whole) if keeps(ts_ns)]
    lines = [record.ts_ns for record in left if source_of(record) == "log"]
    assembler = LostLinesAssembler(Registers(BundleContext(node=whole[0].node)))
    facts: list[Fact] = []
    handlers = listening(assembler)
    done = 0
    for number, (ts_ns, text, pid) in enumerate(beats):
        while done < len(lines) and lines[done] <= ts_ns:
            done += 1
        line = LogLine(ts_ns, "I", pid, "kubelet.go", 0, text, {}, "kubelet.log",
                       number + done + 1, 0, text)  # fmt: skip
        facts += handlers[text][0](line) or ()
    facts += assembler.finish(whole[-1].ts_ns)
    reported = [_record(whole[0], fact) for fact in facts]
    return sorted((*left, *reported), key=lambda record: record.ts_ns) if reported else list(left)


def _beats(whole: Sequence[Record]) -> Iterator[tuple[int, str, int | None]]:
    """Time, text, and process ID of every beat."""
    starts = [(r.ts_ns, r.body) for r in whole if isinstance(r.body, KubeletStarted)]
    ends = [ts_ns for ts_ns, _ in starts[1:]] + [whole[-1].ts_ns]
    for (start_ns, body), end_ns in zip(starts, ends, strict=True):
        old = (body.kubelet_version or "").startswith(("1.20", "1.21"))
        for ts_ns in range(start_ns + _FIRST_NS, end_ns, _PERIOD_NS):
            yield ts_ns, _BEGIN, body.pid
            if not old:
                yield ts_ns + _TAKES_NS, _END, body.pid


def _record(like: Record, fact: Fact) -> Record:
    return msgspec.structs.replace(
        like, seq=0, ts_ns=fact.ts_ns, role=fact.body.role, kind=fact.body.kind, v=fact.body.v,
        cause=None, evidence=(), body=fact.body,
    )  # fmt: skip
