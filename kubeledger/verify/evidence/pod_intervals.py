"""A pod's active interval in one kubelet process: when it counted, and how it ended.

A pod is active from the moment its config source adds it, before it is admitted, until all of
it is down (since 1.22; before, until its phase is final). No line shows either moment exactly, so
each interval has two spans in which the pod may or may not have counted::

    since .. sure        added, but perhaps the kubelet had not handled it yet
    sure  .. ending      active
    ending .. ended      its end has begun, and may have been reached already

Source: v1.20.2 pkg/kubelet/kubelet_pods.go filterOutTerminatedPods; v1.36.2 filterOutInactivePods
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.statuses import ALWAYS, NEVER, ON_FAILURE, policy_restarts
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.history_entries import HistoryEntry
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Processes
from kubeledger.verify.evidence.times import ROUND_NS

_WHOLE_SECONDS_NS = 2 * NS_PER_S


class ContainerRun(msgspec.Struct):
    """One run of a container.

    Attributes:
        name: None when no record says which container the ID is.
        container_id: bare; None where only a kill shows it, by name.
        sandbox: it is the pod's sandbox; None when not known.
        started_ns, killed_ns, died_ns: as records show; None where none does.
        started_seq, killed_seq, died_seq: their records; 0 for none.
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
        return _is_known(self.died_ns, self.died_seq, by)

    def has_ended(self, by: Record) -> bool:
        return self.is_dead(by) or _is_known(self.killed_ns, self.killed_seq, by)


def _is_known(ts_ns: int | None, seq: int, by: Record) -> bool:
    return ts_ns is not None and seq > 0 and (ts_ns, seq) < (by.ts_ns, by.seq)


class PodActiveInterval(msgspec.Struct, kw_only=True):
    """An active interval of a pod in one process; times in nanoseconds, None while unknown.

    Attributes:
        key: UID, or ``namespace/name`` where no record shows a UID.
        source: ``api``, ``file``, ``http``; None when not known.
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

    def note_add(self, entry: HistoryEntry) -> None:
        self.add_seq, self.added_ns, self.add_line = entry.seq, entry.ts_ns, entry.number
        self.source = entry.word or None

    @property
    def is_static(self) -> bool:
        return self.source in ("file", "http")

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

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

    def at(self, ts_ns: int, process: int) -> PodActiveInterval | None:
        """Its interval at a time, or the last before it, in a process."""
        own = (each for each in reversed(self.intervals) if each.process == process)
        return next((each for each in own if each.since_ns <= ts_ns), None)

    def failure(self, interval: PodActiveInterval, from_ns: int) -> tuple[int, str, str] | None:
        """Record, reason and message of the list that first shows that it failed.

        A static pod may be refused once a process: only what its own interval shows counts.

        Args:
            from_ns: a list's time may be one of whole seconds, so it may be a little before this;
                not before a later interval begins, for the pod may have been refused before.
        """
        first_ns = from_ns - _WHOLE_SECONDS_NS
        if interval is not self.intervals[0]:
            first_ns = max(first_ns, interval.since_ns)
        come = [each.since_ns for each in self.intervals if each.since_ns > interval.since_ns]
        gone = [] if interval.removed_ns is None else [interval.removed_ns]
        until_ns = min((*come, *gone), default=None)
        for entry in self.failures:
            within = until_ns is None or entry.ts_ns < until_ns
            if entry.ts_ns >= first_ns and within and entry.listing is not None:
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


# Ends that no line shows: pods that end by themselves, and those that a process leaves out.
#
# Whether the containers of a pod are started again, as far as its lists show.
#
# Since 1.34 (gate ContainerRestartRules) a container may have a restart policy of its own. Whether
# the gate is on is not asked: where policies differ, each may count.


class Restarting:
    """What is known of the restarts of one pod's containers.

    Attributes:
        names: of its containers; None when no list shows them.
    """

    def __init__(self, listed: ListedPod | None, policy: str | None = None) -> None:
        """``policy``: of the pod, where no list shows it and something else says."""
        spec = next(iter(versions_of(() if listed is None else (listed,))), None)
        self._policy = policy if spec is None else spec.restart_policy
        inits, own = ((), ()) if spec is None else (spec.spec.init_containers, spec.spec.containers)
        self._inits = {each.name: each for each in inits or ()}
        self._own = {each.name: each for each in own or ()}
        self.names = None if spec is None else tuple(self._own)

    @property
    def always(self) -> bool:
        """Whether all are started again always, so that the pod does not end by itself."""
        each = (*self._inits.values(), *self._own.values())
        return self._policy == ALWAYS and all(c.restart_policy in (None, ALWAYS) for c in each)

    def is_init(self, name: str) -> bool:
        return name in self._inits

    @property
    def has_sidecars(self) -> bool:
        """Whether containers of it end after all others."""
        return any(each.restart_policy == ALWAYS for each in self._inits.values())

    def again(self, name: str, exit_code: int | None) -> bool | None:
        """Whether a container that ended is started again; None when it is not known."""
        policies, has_rules = self._policies(name)
        known = [p for p in policies if p and (p != ON_FAILURE or exit_code is not None)]
        answers = {policy_restarts(policy, exit_code or 0) for policy in known}
        if (has_rules and answers != {True}) or len(known) < len(policies):
            return None
        return answers.pop() if len(answers) == 1 else None

    def fails(self, name: str) -> bool | None:
        """Whether the pod is over when this container of the initialization failed."""
        policies, has_rules = self._policies(name)
        if NEVER not in policies:
            return False
        return True if len(policies) == 1 and not has_rules else None

    def _policies(self, name: str) -> tuple[set[str | None], bool]:
        own = self._own.get(name) or self._inits.get(name)
        if own is None or own.restart_policy is None:
            return {self._policy}, False
        return {self._policy, own.restart_policy}, bool(own.restart_policy_rules)


def ran_out(ends: Mapping[str, HistoryEntry], policy: Restarting) -> bool:
    """Whether a pod has ended, by the last deaths (``ends``) of all its containers that started."""
    failed = [n for n, entry in ends.items() if policy.is_init(n) and entry.number not in (0, None)]
    own = {name: entry for name, entry in ends.items() if not policy.is_init(name)}
    all_ended = policy.names is not None and own.keys() == set(policy.names)
    none_again = all(policy.again(n, entry.number) is False for n, entry in own.items())
    is_over = any(policy.fails(name) is True for name in failed) or (all_ended and none_again)
    return is_over and not policy.has_sidecars


def inherited(
    intervals: Sequence[PodActiveInterval], entries: Sequence[HistoryEntry], processes: Processes
) -> Iterator[PodActiveInterval]:
    """A pod's intervals in processes that show nothing of it, though nothing showed its end before.

    Each process is handed all pods again: that line may be lost, or the pod went meanwhile.
    """
    lasts = {interval.process: interval for interval in intervals}
    unlisted = [entry.ts_ns for entry in entries if entry.listing and not entry.listing.alive]
    last: PodActiveInterval | None = None
    for process in processes.all[min(lasts, default=len(processes.all)) :]:
        if process.number in lasts:
            last = lasts[process.number]
        elif last is not None and last.ending_ns is None and last.admitted is not False:
            later = (ts_ns for ts_ns in unlisted if ts_ns >= process.started_ns)
            gone_ns = next(later, None)
            last = replace(
                last,
                process=process.number,
                since_ns=process.started_ns,
                add_seq=None,
                sure_ns=None,
                ending_ns=None if gone_ns is None else process.started_ns,
                ended_ns=None if gone_ns is None else gone_ns + ROUND_NS,
                decided_ns=None,
                admitted=None,
                start_time_unknown=True,
            )
            yield last
