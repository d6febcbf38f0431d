"""Lines that a log lost, shown by periodic lines that are missing; and lines that it cut."""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.derive.tick_grid import EvictionTicks, HousekeepingTicks
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import CutLine, LogLine
from kubeledger.model.bodies.node import LogThinned

_SKIPPED = "SyncLoop (housekeeping, skipped): sources aren't ready yet"


class LostLinesAssembler(Assembler):
    """Watches the periodic lines of each kubelet process; reports at its end what is missing."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._pid: int | None = None
        self._begin_process()

    def end(self, ts_ns: int) -> None:
        """The last process."""
        self._report(ts_ns)

    def _begin_process(self) -> None:
        self._cuts: list[CutLine] = []
        self._lines_cut = 0
        self._housekeeping = HousekeepingTicks()
        self._eviction = EvictionTicks()

    @reads("Starting kubelet main sync loop")
    def _starting(self, entry: Entry) -> None:
        self._start(entry.line)

    def _start(self, line: LogLine) -> None:
        """The sync loop of a process begins: what the log of the one before lost."""
        self._report(line.ts_ns)
        self._pid = line.pid
        self._begin_process()

    @takes(CutLine)
    def _cut(self, cut: CutLine) -> None:
        if cut.line.pid not in (None, self._pid):
            self._start(cut.line)
        self._lines_cut += 1
        self._cuts[1:] = [cut] if self._cuts else []
        self._cuts = self._cuts or [cut]

    @reads("SyncLoop (housekeeping)", _SKIPPED)
    def _begin(self, entry: Entry) -> None:
        self._housekeeping_of(entry).begin(entry.line, skipped=entry.message == _SKIPPED)

    @reads("SyncLoop (housekeeping) end")
    def _end(self, entry: Entry) -> None:
        self._housekeeping_of(entry).end(entry.line)

    @reads("Eviction manager: synchronize housekeeping")
    def _round(self, entry: Entry) -> None:
        self._eviction.begin(entry.line, self._housekeeping_of(entry).begins.holes)

    @reads("Eviction manager: no resources are starved")
    def _calm(self, entry: Entry) -> None:
        self._eviction.end(entry.line, self._housekeeping_of(entry).begins.holes)

    def _housekeeping_of(self, entry: Entry) -> HousekeepingTicks:
        if entry.line.pid != self._pid:
            self._start(entry.line)
        return self._housekeeping

    def _report(self, ts_ns: int) -> None:
        found = {
            "housekeeping": self._housekeeping.begins,
            "end of housekeeping": self._housekeeping.ends,
            "eviction manager": self._eviction.rounds,
        }
        certain = [missing for missing in found.values() if missing.is_proven and missing.count]
        if not certain and not self._cuts:
            return
        counted = {name: missing for name, missing in found.items() if missing.count and certain}
        times = [(missing.from_ts_ns, missing.to_ts_ns) for missing in counted.values()]
        times += [(cut.ts_ns, cut.ts_ns) for cut in self._cuts]
        body = LogThinned(
            from_ts_ns=min(first_ns for first_ns, _ in times),
            to_ts_ns=max(last_ns for _, last_ns in times),
            beats_expected=sum(missing.expected for missing in found.values()),
            beats_missing=sum(missing.count for missing in counted.values()),
            beats={name: missing.count for name, missing in counted.items()},
            lines_cut=self._lines_cut,
            cut_at=self._cuts[0].cut_at if self._cuts else None,
        )
        evidence = [piece for missing in certain for piece in missing.evidence]
        evidence += [cut.evidence for cut in self._cuts]
        self.queue.add(Fact(ts_ns, body, tuple(dict.fromkeys(evidence))))
