"""Lines that a log lost among others, told by the beats that are missing; and lines it cut."""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.derive.beat_grid import EvictionBeat, HousekeepingBeat
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import CutLine, Item, LogLine
from kubeledger.model.bodies.node import LogThinned

__all__ = ["BeatAssembler"]

_BEGIN, _END = "SyncLoop (housekeeping)", "SyncLoop (housekeeping) end"
_SKIPPED = "SyncLoop (housekeeping, skipped): sources aren't ready yet"
_STARTING = "Starting kubelet main sync loop"
_ROUND = "viction manager: synchronize housekeeping"
_CALM = "viction manager: no resources are starved"


class BeatAssembler(Assembler):
    """Watches the beats of each kubelet process, and tells at its end what is missing."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._pid: int | None = None
        self._begin_process()

    def items(self) -> Mapping[type, ItemHandler]:
        """Lines that were cut."""
        return {CutLine: self._cut}

    def _begin_process(self) -> None:
        self._cuts: list[CutLine] = []
        self._lines_cut = 0
        self._housekeeping = HousekeepingBeat()
        self._eviction = EvictionBeat()

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21."""
        return {
            _BEGIN: self._begin,
            _END: self._end,
            _SKIPPED: self._skipped,
            _STARTING: self._starting,
            f"E{_ROUND}": self._round,
            f"E{_CALM}": self._calm,
        }

    def finish(self, ts_ns: int) -> Facts:
        """The last process."""
        return self._tell(ts_ns)

    def _starting(self, line: LogLine) -> Facts:
        """The sync loop of a process begins."""
        facts = self._tell(line.ts_ns)
        self._pid = line.pid
        self._begin_process()
        return facts

    def _same_process(self, line: LogLine) -> Facts:
        """Nothing; of another process than before: what its log lost."""
        if line.pid == self._pid:
            return ()
        return self._starting(line)

    def _cut(self, cut: Item) -> Facts:
        assert isinstance(cut, CutLine)
        facts = self._same_process(cut.line) if cut.line.pid is not None else ()
        self._lines_cut += 1
        self._cuts[1:] = [cut] if self._cuts else []
        self._cuts = self._cuts or [cut]
        return facts

    def _begin(self, line: LogLine) -> Facts:
        facts = self._same_process(line)
        self._housekeeping.begin(line)
        return facts

    def _skipped(self, line: LogLine) -> Facts:
        facts = self._same_process(line)
        self._housekeeping.begin(line, skipped=True)
        return facts

    def _end(self, line: LogLine) -> Facts:
        facts = self._same_process(line)
        self._housekeeping.end(line)
        return facts

    def _round(self, line: LogLine) -> Facts:
        facts = self._same_process(line)
        self._eviction.begin(line, self._housekeeping.begins.holes)
        return facts

    def _calm(self, line: LogLine) -> Facts:
        facts = self._same_process(line)
        self._eviction.end(line, self._housekeeping.begins.holes)
        return facts

    def _tell(self, ts_ns: int) -> Facts:
        found = {
            "housekeeping": self._housekeeping.begins,
            "end of housekeeping": self._housekeeping.ends,
            "eviction manager": self._eviction.rounds,
        }
        shown = [missing for missing in found.values() if missing.is_shown and missing.count]
        if not shown and not self._cuts:
            return ()
        told = {name: missing for name, missing in found.items() if missing.count and shown}
        times = [(missing.from_ts_ns, missing.to_ts_ns) for missing in told.values()]
        times += [(cut.ts_ns, cut.ts_ns) for cut in self._cuts]
        body = LogThinned(
            from_ts_ns=min(first_ns for first_ns, _ in times),
            to_ts_ns=max(last_ns for _, last_ns in times),
            beats_expected=sum(missing.expected for missing in found.values()),
            beats_missing=sum(missing.count for missing in told.values()),
            beats={name: missing.count for name, missing in told.items()},
            lines_cut=self._lines_cut,
            cut_at=self._cuts[0].cut_at if self._cuts else None,
        )
        evidence = [piece for missing in shown for piece in missing.evidence]
        evidence += [cut.evidence for cut in self._cuts]
        return (Fact(ts_ns, body, tuple(dict.fromkeys(evidence))),)
