"""A pod's active interval in one kubelet process: when it counted, certainly or perhaps.

A pod is active from the moment its config source adds it, before it is admitted, until all of
it is down (since 1.22; before, until its phase is final). No line shows either moment exactly, so
each interval has two spans in which the pod may or may not have counted::

    since .. sure        added, but perhaps the kubelet had not handled it yet
    sure  .. ending      active
    ending .. ended      its end has begun, and may have been reached already

Source: v1.20.2 pkg/kubelet/kubelet_pods.go filterOutTerminatedPods; v1.36.2 filterOutInactivePods
"""

from __future__ import annotations

import msgspec

from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.history_entries import HistoryEntry

_WHOLE_SECONDS_NS = 2 * NS_PER_S


class ContainerRun(msgspec.Struct):
    """One run of a container.

    Attributes:
        name: None when no record says which container the ID is.
        container_id: bare; None where only a kill shows it, by name.
        sandbox: it is the pod's sandbox; None when not known.
        started_ns, killed_ns, died_ns: as records show; None where none does.
        started_seq, killed_seq, died_seq: their records; 0 for none.
        exit_code: None when not known.
        shown: (time, record) of the last relist that showed it to run.
    """

    name: str | None
    container_id: str | None
    sandbox: bool | None = None
    started_ns: int | None = None
    killed_ns: int | None = None
    died_ns: int | None = None
    started_seq: int = 0
    killed_seq: int = 0
    died_seq: int = 0
    exit_code: int | None = None
    shown: tuple[int, int] = (0, 0)

    def is_started(self, by: Record) -> bool:
        """Whether what comes before that record in the order of replay shows its start."""
        return _is_known(self.started_ns, self.started_seq, by)

    def is_dead(self, by: Record) -> bool:
        """Whether that says that it died."""
        return _is_known(self.died_ns, self.died_seq, by)

    def has_ended(self, by: Record) -> bool:
        """Whether that says that it was killed, or died."""
        return self.is_dead(by) or _is_known(self.killed_ns, self.killed_seq, by)

    def is_observed(self, by: Record) -> bool:
        """Whether that, and not only a kill, shows it."""
        return self.is_started(by) or self.is_dead(by)

    def is_known_by(self, by: Record) -> bool:
        """Whether that shows it."""
        return self.is_started(by) or self.has_ended(by)


def _is_known(ts_ns: int | None, seq: int, by: Record) -> bool:
    return ts_ns is not None and seq > 0 and (ts_ns, seq) < (by.ts_ns, by.seq)


class PodActiveInterval(msgspec.Struct, kw_only=True):
    """An active interval of a pod in one process; times in nanoseconds, None while unknown.

    Attributes:
        key: UID, or ``namespace/name`` where no record shows a UID.
        source: ``api``, ``file``, ``http``; None when not known.
        process: number of the kubelet process.
        seq: the first record that shows it.
        add_seq, added_ns: the line that added it; None where no line shows that. ``add_line`` is
            its place in the log: what one line adds is admitted in one iteration, older pods first.
        aligned_seq: the topology manager's first record about its admission; None without one.
        since_ns, sure_ns, ending_ns, ended_ns: see the module. ``sure_ns`` None: never sure;
            ``ending_ns`` None: no sign of an end; ``ended_ns`` None: it may count until the end
            of its process.
        seen_ns: the last sign that it had not ended.
        decided_ns: when it was admitted or rejected; None when not known. ``admitted`` says which.
        deleted_ns, removed_ns, terminated_ns: when that was logged first.
        end_decided_ns: when the kubelet decided to end it (eviction, preemption, kill for an end).
        returned: it had ended in a former process, and perhaps counts no more.
        start_time_unknown: no line says when it came, though lines show other pods that come: it
            may have been found running, and never handed to the process.
    """

    key: str
    uid: str | None
    namespace: str
    name: str
    source: str | None
    process: int
    seq: int
    since_ns: int
    add_seq: int | None = None
    added_ns: int | None = None
    add_line: int | None = None
    aligned_seq: int | None = None
    sure_ns: int | None = None
    ending_ns: int | None = None
    ended_ns: int | None = None
    seen_ns: int = 0
    decided_ns: int | None = None
    admitted: bool | None = None
    deleted_ns: int | None = None
    removed_ns: int | None = None
    terminated_ns: int | None = None
    end_decided_ns: int | None = None
    returned: bool = False
    start_time_unknown: bool = False

    @property
    def is_static(self) -> bool:
        """Whether it came from a file or a URL."""
        return self.source in ("file", "http")

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def may_count(self, start_ns: int, end_ns: int) -> bool:
        """Whether it can have been active at some instant of a span."""
        return self.since_ns <= end_ns and (self.ended_ns is None or self.ended_ns >= start_ns)

    def must_count(self, start_ns: int, end_ns: int) -> bool:
        """Whether it was active through the whole of a span, if no line of its end is lost."""
        return (
            self.sure_ns is not None
            and not self.start_time_unknown
            and self.sure_ns <= start_ns
            and (self.ending_ns is None or self.ending_ns > end_ns)
        )


class PodHistory(msgspec.Struct, kw_only=True):
    """All that is known of one pod.

    Attributes:
        intervals: its intervals, one or more a process, in order.
        runs: its containers' runs, in order; of a pod with very many the last ones.
        calls: config lines (of updates the first after another line), and what decides that it
            ends, in the order of replay.
        created_ns: when the API server made it; None when not known, and for static pods.
        listed_alive_ns: first and last time that a list of the kubelet or of the API shows it
            alive; None where none does.
        failures: (n,) what lists show of its failure, in the order of time.
    """

    key: str
    uid: str | None
    namespace: str
    name: str
    intervals: list[PodActiveInterval] = []
    runs: list[ContainerRun] = []
    calls: list[HistoryEntry] = []
    created_ns: int | None = None
    listed_alive_ns: tuple[int, int] | None = None
    failures: list[HistoryEntry] = []

    def failure(self, interval: PodActiveInterval, from_ns: int) -> tuple[int, str, str] | None:
        """Record, reason and message of the list that first shows that it failed.

        A static pod may be refused once a process: only what its own interval shows counts.

        Args:
            from_ns: a list's time may be one of whole seconds, so it may be a little before this.
        """
        come = [each.since_ns for each in self.intervals if each.since_ns > interval.since_ns]
        gone = [] if interval.removed_ns is None else [interval.removed_ns]
        until_ns = min((*come, *gone), default=None)
        for entry in self.failures:
            within = until_ns is None or entry.ts_ns < until_ns
            if entry.ts_ns >= from_ns - _WHOLE_SECONDS_NS and within and entry.listing is not None:
                return (entry.seq, *(entry.listing.failed or ("", "")))
        return None

    def runs_of(self, container: str | None) -> list[ContainerRun]:
        return [run for run in self.runs if run.name == container and not run.sandbox]

    def run(self, container_id: str | None) -> ContainerRun | None:
        if container_id is None:
            return None
        return next((run for run in self.runs if run.container_id == container_id), None)

    def ran(self, ts_ns: int) -> list[ContainerRun]:
        """Runs that had started and not ended by a time: they died, or another took their place."""
        found: list[ContainerRun] = []
        newer: set[str | None] = set()
        for run in reversed(self.runs):
            if run.started_ns is not None and run.started_ns > ts_ns:
                continue
            if (run.died_ns is None or run.died_ns > ts_ns) and run.name not in newer:
                found.append(run)
            if run.started_ns is not None and run.name is not None:
                newer.add(run.name)
        return found[::-1]
