"""The probe workers of the present kubelet process: which there are, what they probe, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kubeledger.kubelet.kube.statuses import instances_in
from kubeledger.kubelet.prober.machine import ABSENT, Span
from kubeledger.kubelet.prober.objects import INITIAL, SUCCESS
from kubeledger.kubelet.prober.prober import COUNTS_AS
from kubeledger.kubelet.prober.worker import RESTART_GRACE_NS
from kubeledger.model.bodies.lifecycle import ContainerStarted, PodListed
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeTicksFolded,
    ProbeTransitioned,
    ProbeType,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts, whole_number
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.container_specs import specs_of
from kubeledger.verify.evidence.pods import key_of_pod
from kubeledger.verify.evidence.times import FOUND_NS, When
from kubeledger.verify.rules.containers import key_for
from kubeledger.verify.rules.probe_worker import Worker

Name = tuple[str, str]
"""Key of a pod, and the name of a container in it."""
About = ProbeExecuted | ProbeTransitioned | ProbeCountersRead | ProbeTicksFolded

_MAKES_PROBER_NS: Final = 3 * NS_PER_S
"""So long after its first line, at most, a kubelet has its prober, whose start counts."""
_AT_ONCE_NS: Final = NS_PER_S // 2
_SHOWN_NS: Final = 2 * NS_PER_S
"""Until so long after its start a pod's status may show the container before it."""
_SUCCESS_LEVEL: Final = 3
"""Verbosity at which a probe's success has its line."""
_OUT_OF_TURN: Final = 3
_ALL: Final = 1 << 20


def _missing(worker: Worker, ts_ns: int) -> str:
    return f"{worker.probe_type} ticks that may be missing before {format_ts(ts_ns)}"


class Instance(msgspec.Struct):
    """The newest run of a container.

    Attributes:
        started_ns: as records show, which is up to a relist late; None: not seen.
        ended_ns: when it was killed or died; ``died_ns``: when it surely ran no more.
        before_id: the ID of the one before it that was seen; ``before_ns``: its end.
    """

    container_id: str | None
    seq: int
    started_ns: int | None = None
    ended_ns: int | None = None
    died_ns: int | None = None
    before_id: str | None = None
    before_ns: int | None = None

    def next(self, container_id: str | None, seq: int, started_ns: int | None = None) -> Instance:
        """The one that ran after it; what it was itself, where its own line comes late."""
        known = self.container_id is not None
        before_id = self.container_id if known else self.before_id
        before_ns = self.ended_ns or (None if known else self.before_ns)
        return Instance(container_id, seq, started_ns, None, None, before_id, before_ns)


class Workers:
    """Finds and makes workers, and gives them their ticks.

    Attributes:
        successes_logged: the process logs successful ticks; until one is seen, it may not.
        thresholds_known: pods for which the importer knew thresholds.
    """

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._workers: dict[tuple[str, str, ProbeType], Worker] = {}
        self._instances: dict[Name, Instance] = {}
        self._added: set[str] = set()
        self._kubelet_ns = 0
        self._first_reported_ns: int | None = None
        self.successes_logged = False
        self.thresholds_known: set[str] = set()
        self._told: list[int] = []

    # -- the first reading -------------------------------------------------------------------

    def foresee_change(self, record: Record, body: ProbeTransitioned) -> None:
        """A change of which the importer knew the threshold, or that the sync loop told."""
        if body.threshold is not None:
            self.thresholds_known.add(key_of_pod(body))
        if not body.inferred:
            self._told.append(record.ts_ns)

    def derive(self) -> None:
        """Of each process one change that was told will do."""
        processes = [self._context.timeline.process(told_ns) for told_ns in self._told]
        numbers = [-1 if process is None else process.number for process in processes]
        self._told = [*dict(zip(numbers, self._told, strict=True)).values()]

    def tells_changes(self) -> bool:
        """Whether lines of this process tell of changes."""
        process = self._context.process
        if process is None:
            return False
        end_ns = 1 << 63 if process.ended_ns is None else process.ended_ns
        return any(process.started_ns <= told_ns < end_ns for told_ns in self._told)

    # -- who is there ------------------------------------------------------------------------

    def kubelet_started(self, ts_ns: int) -> None:
        self._kubelet_ns = ts_ns
        self._first_reported_ns = None
        self._workers.clear()
        self._added.clear()
        self.successes_logged = False

    def pod_added(self, key: str) -> None:
        """The kubelet makes the pod's workers again."""
        self.pod_gone(key, instances=False)
        self._added.add(key)

    def pod_gone(self, key: str, *, instances: bool = True) -> None:
        self._added.discard(key)
        for worker in [each for each in self._workers if each[0] == key]:
            del self._workers[worker]
        for instance in [each for each in self._instances if instances and each[0] == key]:
            del self._instances[instance]

    def started(self, record: Record, body: ContainerStarted, key: str) -> None:
        """A container runs; reported again, nothing changes."""
        if body.sandbox or body.container is None:
            return
        if self._first_reported_ns is None:
            self._first_reported_ns = record.ts_ns
        name = key, body.container
        before = self._instances.get(name)
        if before is None:
            self._instances[name] = Instance(body.container_id, record.seq, record.ts_ns)
        elif before.container_id != body.container_id:
            self._instances[name] = before.next(body.container_id, record.seq, record.ts_ns)

    def end(
        self, record: Record, name: Name, container_id: str | None = None, *, died: bool = True
    ) -> None:
        """An instance has ended, the newest where none is named."""
        instance = self._instances.setdefault(name, Instance(container_id, record.seq))
        if instance.ended_ns is not None and container_id not in (
            None, instance.container_id, instance.before_id
        ):  # fmt: skip
            instance = self._instances[name] = instance.next(container_id, record.seq)
        if container_id in (instance.container_id, None):
            instance.ended_ns = instance.ended_ns or record.ts_ns
            instance.died_ns = instance.died_ns or (record.ts_ns if died else None)

    def listed(self, record: Record, body: PodListed, key: str) -> None:
        """A list shows containers that have ended, of which no line may tell."""
        for shown in instances_in(body.status):
            instance = self._instances.get((key, shown.name))
            is_it = instance is not None and instance.container_id == shown.container_id
            if instance is not None and is_it and shown.state == "terminated":
                self.end(record, (key, shown.name), shown.container_id)

    def instance(self, worker: Worker) -> Instance | None:
        return self._instances.get((worker.key, worker.container))

    def has_ended(self, worker: Worker, record: Record) -> bool | None:
        """Whether its container had ended by a change; None: it did, and no line says when."""
        instance, body = self.instance(worker), record.body
        assert isinstance(body, ProbeTransitioned)
        if instance is None or instance.ended_ns or (instance.before_id or "") == body.container_id:
            return instance is not None
        context, container_id = self._context, instance.container_id
        runs = context.timeline.of(record).runs_of(body.container)
        listed = context.instances.instance(container_id)
        alive_ns = 0 if listed is None else listed.lived[0]
        shown = [run.died_ns for run in runs if run.container_id == container_id]
        lost = runs and shown == [None] and (
            runs[-1].container_id != container_id or context.instances.over(worker.key) is not None
        )  # fmt: skip
        return None if lost and alive_ns <= record.ts_ns else False

    def began(self, worker: Worker, ts_ns: int) -> When | None:
        """When its container did, by lists, or by the line where this process started it."""
        times, instance = self._context.times, self.instance(worker)
        listed = times.listed_start(worker.container_id, ts_ns)
        same = instance is not None and instance.container_id == worker.container_id
        told_ns = instance.started_ns if instance is not None and same else None
        if listed or told_ns is None or told_ns < self._kubelet_ns + FOUND_NS:
            return listed
        return times.told(told_ns)

    def is_starting(self, key: str, container: str, container_id: str | None, ts_ns: int) -> bool:
        """Whether the startup probe of a container surely had not succeeded by then.

        It had just run, so that no later tick of it can be missing.
        """
        startup = self.known(key, container, "startup")
        instance = self._instances.get((key, container))
        if startup is None or startup.spec is None or instance is None or container_id is None:
            return False
        is_new = (instance.started_ns or 0) > self._kubelet_ns
        same = startup.container_id == container_id
        just_ran = 0 <= ts_ns - startup.newest_ns < startup.spec.period_ns * 2 // 5
        return is_new and same and just_ran and all(s.cached != SUCCESS for s in startup.states)

    def known(self, key: str, container: str, probe_type: ProbeType) -> Worker | None:
        """A worker that a record showed."""
        return self._workers.get((key, container, probe_type))

    def is_there(self, worker: Worker) -> bool:
        return self.known(worker.key, worker.container, worker.probe_type) is worker

    def of_pod(self, key: str) -> Iterator[Worker]:
        return (worker for name, worker in self._workers.items() if name[0] == key)

    def containers(self) -> set[str | None]:
        return {worker.container_id for worker in self._workers.values()}

    def find(self, body: About, state: NodeState, ts_ns: int) -> Worker:
        """The worker that a record is about, made when it is the first to report it."""
        key = key_for(state, body)
        name = key, body.container, body.probe_type
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = Worker(*name)
            self._begin(worker, body, ts_ns)
        return worker

    def _begin(self, worker: Worker, body: About, ts_ns: int) -> None:
        context, probe_type = self._context, worker.probe_type
        who = body.pod_uid, body.namespace, body.pod
        specs = specs_of(context.pods, context.pods.at(ts_ns, *who))
        if isinstance(specs, str) or context.profile is None:
            worker.missing = specs if isinstance(specs, str) else worker.missing
            return
        containers = [each.container(worker.container) for each in specs]
        probes = [
            (one.probe(probe_type), one.startup_probe is not None) if one else (None, False)
            for one in containers
        ]
        spec, has_startup = probes[0]
        worker.after_startup = has_startup and probe_type != "startup"
        worker.spec_seq, worker.disputed = specs[0].seq, len(set(probes)) > 1
        is_sidecar = any(worker.container in each.sidecars for each in specs)
        seeds = is_sidecar and context.profile.prober.started_sidecar_seeds_success
        worker.seeds_success = seeds and probe_type == "startup"
        worker.has_no_probe = spec is None
        if spec is not None:
            fresh = worker.key in self._added and not self._lost_runs(worker)
            unknown = None if fresh else f"the {probe_type} ticks before the log begins"
            worker.begin(spec, context.profile.prober, unknown)

    def _lost_runs(self, worker: Worker) -> bool:
        """Whether a list counts more restarts of its container than records show runs.

        So it is of a pod that came with this process: others were restarted before.
        """
        pod, count = self._context.timeline.history(worker.key), self._context.instances.count
        if (pod.created_ns or 0) < self._kubelet_ns:
            return False
        runs = pod.runs_of(worker.container)
        return any((count(run.container_id) or 0) > n for n, run in enumerate(runs))

    # -- ticks -------------------------------------------------------------------------------

    def tick(self, worker: Worker, record: Record, body: ProbeExecuted) -> bool:
        """Give a worker its tick; False when it cannot have probed."""
        result = COUNTS_AS.get(body.result)
        if result == SUCCESS:
            self.successes_logged = True
        if worker.spec is not None:
            self._take_up(worker, self._probed(worker, record, body), record.ts_ns)
        return worker.tick(record, result)

    def _probed(self, worker: Worker, record: Record, body: ProbeExecuted) -> str | None:
        """The container of a tick; none is probed that had died: the next one's start is lost.

        While the pod's status waits for a kill the dead one is probed, which is an error.
        """
        instance, spec = self.instance(worker), worker.spec
        if instance is None or spec is None:
            return body.container_id
        if body.container_id is not None and body.container_id == instance.before_id:
            shows_new = record.ts_ns > (instance.started_ns or 0) + _SHOWN_NS
            return instance.container_id if shows_new else body.container_id
        known = worker.states if worker.probe_type == "startup" and not worker.loose else ()
        rests = bool(known) and all(state.cached == SUCCESS for state in known)
        over_ns = 0 if rests else spec.timeout_s * NS_PER_S + NS_PER_S
        if (
            instance.died_ns is None
            or record.ts_ns <= instance.died_ns + over_ns
            or body.result == "error"
            or body.container_id not in (None, instance.container_id)
        ):
            return body.container_id
        self._instances[worker.key, worker.container] = instance.next(None, record.seq)
        return None

    def _take_up(self, worker: Worker, listed_id: str | None, ts_ns: int) -> None:
        """Let a worker take up the container that runs now, over ticks that may be missing."""
        assert worker.spec is not None
        instance = self.instance(worker)
        container_id = listed_id or (None if instance is None else instance.container_id)
        replaced = instance is not None and (instance.before_ns or 0) > worker.newest_ns
        unnamed = None in (container_id, worker.container_id) and not replaced
        same = worker.newest is not None and (
            container_id == worker.container_id or (unnamed and not worker.is_on_hold)
        )
        late = ts_ns - worker.newest_ns > worker.spec.break_ns
        ended_ns = None if instance is None else instance.ended_ns
        if worker.is_on_hold and (late or (ended_ns or -1) >= worker.newest_ns):
            same = False  # it may have got a new container unseen
        if same:
            worker.container_id = worker.container_id or container_id
            self._doubt(worker, 0, ts_ns)
            self.miss(worker, worker.missing_ticks(worker.newest_ns, ts_ns), ts_ns, late=late)
            return
        if worker.newest is not None and not worker.is_on_hold:
            ended_ns = None if instance is None else instance.before_ns or instance.ended_ns
            self.miss(worker, worker.missing_ticks(worker.newest_ns, ended_ns or ts_ns), ts_ns)
        self.follow(worker, container_id)
        since_ns = self._probed_from_ns(worker, instance)
        if since_ns is None and worker.newest is None:
            self.miss(worker, _ALL, ts_ns, restarts=False)
        elif since_ns is not None:
            missing_ticks = worker.missing_ticks(since_ns, ts_ns, is_first=True)
            assert instance is not None
            told_ns = instance.started_ns or instance.before_ns or 0
            late_ns = told_ns - self._context.times.told(told_ns).from_ns
            early_ns = min(worker.spec.delay_ns, late_ns)
            least_ns = since_ns - worker.spec.break_ns + worker.spec.period_ns - early_ns
            strict = worker.missing_ticks(least_ns, ts_ns, is_first=True)
            self._doubt(worker, strict, ts_ns)
            missing_ticks = missing_ticks if self.logs_all else strict
            self.miss(worker, missing_ticks, ts_ns, restarts=False)

    def name(self, worker: Worker, container_id: str | None) -> None:
        """A change names the container: another one, or that which the ticks did not name."""
        instance = self.instance(worker)
        began_ns = 0 if instance is None else instance.started_ns or instance.before_ns or 0
        ran = worker.newest is not None and began_ns <= worker.newest_ns
        if worker.container_id is None and ran:
            worker.container_id = container_id
        else:
            self.follow(worker, container_id)

    def follow(self, worker: Worker, container_id: str | None) -> None:
        instance = self.instance(worker)
        is_it = instance is not None and instance.container_id == container_id
        began_ns = instance.started_ns if instance is not None and is_it else None
        worker.seen = began_ns is not None
        first, absent = INITIAL[worker.probe_type], ABSENT[worker.probe_type]
        older = self._is_older(worker, container_id)
        is_new = (began_ns or 0) > self._kubelet_ns
        is_known = worker.newest is not None or worker.key in self._added or is_new
        if not is_known or worker.machine is None:
            worker.may_follow(container_id, first)
            return
        if older and worker.machine.keeps_results:
            first = absent
        firsts = [(first, "")]
        if older is None and worker.machine.keeps_results and absent != first:
            firsts.append((absent, "when the container began, to the second"))
        worker.follow(container_id, firsts)

    def _is_older(self, worker: Worker, container_id: str | None) -> bool | None:
        """Whether a container counts as older than the kubelet; None where that is open.

        Source: v1.36.2 pkg/kubelet/prober/prober_manager.go kubeletRestartGracePeriod
        Differs: the kubelet knows the instants of both starts.
        """
        listed = self._context.times.listed_start(container_id)
        instance = self.instance(worker)
        own_id = None if instance is None else instance.container_id
        if listed is not None:
            earliest_ns, latest_ns = listed
        elif instance is None or own_id != container_id or instance.started_ns is None:
            return False
        else:
            earliest_ns, latest_ns = self._context.times.told(instance.started_ns)
            if latest_ns <= (self._first_reported_ns or 0) + _AT_ONCE_NS:
                # This process lists it first: it may have run before, unless its pod is younger.
                pod = self._context.pods.at(instance.started_ns, worker.key)
                earliest_ns = (pod.created_ns if pod is not None else None) or 0
        border_ns = self._kubelet_ns - RESTART_GRACE_NS
        if latest_ns < border_ns:
            return True
        return None if earliest_ns < border_ns + _MAKES_PROBER_NS else False

    def _probed_from_ns(self, worker: Worker, instance: Instance | None) -> int | None:
        """When the last tick would come that has none before it; None: not known."""
        spec = worker.spec
        assert spec is not None
        began_ns = None if instance is None else instance.started_ns or instance.before_ns
        if began_ns is None:
            return None
        since_ns = max(began_ns, self._kubelet_ns) + spec.delay_ns
        startup = self.known(worker.key, worker.container, "startup")
        if worker.after_startup and startup is not None:
            since_ns = max(since_ns, startup.newest_ns)
        return since_ns + spec.break_ns - spec.period_ns

    def miss(
        self, worker: Worker, ticks: int, ts_ns: int, *, restarts: bool = True, late: bool = False
    ) -> None:
        """Up to so many ticks may be missing before a time; ``late``: no tick takes so long."""
        if not ticks or worker.spec is None:
            return
        coverage, since_ns = self._context.coverage, worker.newest_ns or ts_ns
        is_complete = coverage.at(ts_ns) is None and coverage.hole(since_ns, ts_ns) is None
        lost = restarts and not is_complete
        span = Span(ticks, restarts=lost, counted=worker.is_next_counted, quiet=is_complete)
        surely = False
        if not self.logs_all:
            self._doubt(worker, ticks, ts_ns)
            span = span._replace(results=(SUCCESS,))
            surely = is_complete and late
        worker.miss(span, _missing(worker, ts_ns), ts_ns, surely=surely)

    def _doubt(self, worker: Worker, missing_ticks: int, ts_ns: int) -> None:
        """Lines may be lost without a sign: of a first tick, or of a few out of turn."""
        profile = self._context.profile
        is_unready = any(state.cached != SUCCESS for state in worker.states)
        triggers = profile is not None and profile.prober.unready_triggers_probe
        if worker.probe_type == "readiness" and is_unready and triggers:
            missing_ticks += _OUT_OF_TURN
        span = Span(missing_ticks, restarts=False, counted=worker.is_next_counted)
        worker.doubt(span, _missing(worker, ts_ns), ts_ns)

    @property
    def logs_all(self) -> bool:
        """Whether successful ticks are logged: one was seen, or the verbosity says so."""
        if self.successes_logged:
            return True
        level = whole_number(self._context.settings.get("--v"))
        return level is not None and level >= _SUCCESS_LEVEL

    def are_overdue(self, start_ns: int, end_ns: int) -> bool:
        """Whether any worker had to tick in a span and did not, as far as the records go."""
        for worker in self._workers.values() if self.successes_logged else ():
            spec, instance = worker.spec, self.instance(worker)
            if spec is None or worker.newest is None or worker.is_on_hold:
                continue
            rests = worker.probe_type == "startup" and worker.result == SUCCESS
            ended = instance is not None and instance.ended_ns is not None
            replaced = instance is not None and instance.container_id != worker.container_id
            if rests or ended or replaced or worker.newest_ns > start_ns:
                continue
            if end_ns > worker.newest_ns + spec.break_ns + NS_PER_S:
                return True
        return False

    def lose(self) -> None:
        """Records are missing, or their times mean nothing."""
        for worker in self._workers.values():
            worker.forget(f"the {worker.probe_type} ticks that are missing in the log")
            worker.newest_ns = 0
