"""Follows what starts containers and ends them, and what that does to their back-off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodConfigChanged,
    PodListed,
    PodTerminated,
    PodTerminating,
)
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted, PodStageFailed, Stage
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import RuleVerifier
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.evidence.pod_intervals import ContainerRun
from kubeledger.verify.evidence.pods import OfPod
from kubeledger.verify.evidence.processes import Process, is_one
from kubeledger.verify.evidence.times import FOUND_NS, RELIST_NS
from kubeledger.verify.rules.back_off import BackOff, policy_of
from kubeledger.verify.rules.containers import (
    Causes,
    Container,
    Instance,
    corrected,
    key_for,
    ran_until,
    reason_meant,
    subject_of,
)

_PAUSE_NS: Final = 5 * NS_PER_S
"""After a pause so long it is asked whether probes that had to be made are missing."""
_SILENCE_NS: Final = 300 * NS_PER_S
"""No log with containers that are restarted is silent for so long."""
_SYNC_KILLS: Final = frozenset({"liveness_probe", "startup_probe", "spec_changed", "resized"})
"""A sync that kills for these starts the container again itself."""
_HOOK: Final = "post_start_hook"
"""The start has failed with it: the next sync tries again."""
_LATE_NS: Final = 2 * NS_PER_S
"""An event may be logged so long after what it shows."""
_CLEARED: Final = frozenset({"orphaned", "removed"})
_TURNED: Final = ("Started", "Started", "Created", "Created")
_STARTING: Final[frozenset[Stage]] = frozenset({"image", "create", "start", "hook"})
"""Stages that a start comes to once its back-off is over."""
_OF_CREATED: Final[frozenset[Stage]] = frozenset({"start", "hook"})
"""What fails in these was created, and counted then."""


class Starts(RuleVerifier):
    """What a rule of restarts knows of instances and back-off entries; it judges nothing."""

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._pods: dict[str, dict[str, Container]] = {}
        self._were: dict[str, dict[str, Container]] = {}
        self._added: set[str] = set()
        self._over: dict[str, Record] = {}
        self._process: Process | None = None
        self._causes = Causes(context)
        self._seen_ns = 0
        self._restarts: set[str | None] = set()
        self._folded: dict[tuple[str | None, str | None], list[tuple[int, int, bool]]] = {}

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """A restart is recorded after the start that shows it, and failures behind the last."""
        restarts, folded = self._restarts, self._folded

        def failed(record: Record, body: PodStageFailed) -> None:
            if body.stage in _STARTING and not body.is_waiting and body.first_ts_ns < record.ts_ns:
                of = folded.setdefault((body.pod_uid, body.container), [])
                of.append((body.first_ts_ns, record.ts_ns, body.stage in _OF_CREATED))

        return {
            ContainerRestarted: lambda _, body: restarts.add(body.container_id),
            PodStageFailed: failed,
        }

    def derive(self, state: NodeState) -> None:
        known = self.context.timeline.pods
        self._were = {key: each for key, each in self._were.items() if key in known}
        self._over = {key: each for key, each in self._over.items() if key in known}
        for of in [of for of in self._folded if of[0] not in known]:
            del self._folded[of]

    def sees(self) -> Mapping[type[Body], See]:
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: lambda record, body, state: self._lose(),
            PodConfigChanged: self._in_time(self._config_changed),
            PodListed: self._in_time(self._pod_listed),
            PodTerminated: self._in_time(self._terminated),
            PodTerminating: self._judge_over,
            ContainerStarted: self._in_time(self._container_started),
            ContainerDied: self._in_time(self._container_died),
            ContainerKilled: self._killed,
            KubernetesEvent: self._reported,
            PodStageFailed: self._in_time(self._failed),
            ProbeTransitioned: self._probe_changed,
        }

    def _in_time(self, see: Callable[[Record, Any, str], None]) -> See:
        """Let time pass before a record is looked at; with the key of its pod."""

        def seen(record: Record, body: OfPod, state: NodeState) -> None:
            self._pass_time(record)
            see(record, body, key_for(state, body))

        return seen

    def _all(self) -> Iterator[Container]:
        return (each for containers in self._pods.values() for each in containers.values())

    def _of_pod(self, key: str) -> Iterable[Container]:
        return self._pods.get(key, {}).values()

    def _find(self, key: str, name: str | None) -> Container | None:
        return self._pods.get(key, {}).get(name or "")

    def _before(self, key: str, container: Container, before_id: str | None) -> Instance | None:
        """The instance before the newest; of a pod that was gone, the one of that ID."""
        was = self._were.get(key, {}).get(container.name)
        return container.at(1) or (None if was is None else was.find(before_id))

    def _get(self, key: str, name: str) -> Container:
        containers = self._pods.setdefault(key, {})
        if name not in containers:
            is_first = key in self._added
            containers[name] = Container(key, name, is_first, BackOff(name, is_new=is_first))
        return containers[name]

    def _pass_time(self, record: Record) -> None:
        now_ns, seen_ns = record.ts_ns, self._seen_ns
        if seen_ns and now_ns > seen_ns:
            pause_ns = now_ns - seen_ns
            may_be_lost = self.context.coverage.hole(seen_ns, now_ns) is not None
            if pause_ns > _PAUSE_NS and not may_be_lost:
                may_be_lost = self.context.cached_results.hole(seen_ns, now_ns)
            if may_be_lost or pause_ns > _SILENCE_NS:
                self._lose()
        self._seen_ns = now_ns

    def _lose(self) -> None:
        """Lines are missing: starts may have been among them."""
        self._added.clear()
        for container in self._all():
            container.is_first = False
            container.back_off.lose()

    # -- the kubelet and its pods ------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        """What runs was started by the process before; entries were in its memory."""
        self._seen_ns = record.ts_ns
        if not is_one(self.context.process, self._process):
            self._process = self.context.process
            self._added.clear()
            self._over.clear()
            for container in self._all():
                container.was_inherited = True
                container.back_off = BackOff(container.name, is_new=container.is_first)

    def _config_changed(self, record: Record, body: PodConfigChanged, key: str) -> None:
        if body.operation == "ADD":
            self._judge_came(record, body, key)
            self._added.add(key)
            self._over.pop(key, None)
            for container in self._of_pod(key):
                container.back_off.reset()
        elif body.operation == "UPDATE":
            for container in self._of_pod(key):
                container.back_off.failed_start = True
                container.back_off.may_be_new()

    def _judge_came(self, record: Record, body: PodConfigChanged, key: str) -> None:
        """Nothing of a pod starts before it came; what a process finds at its start was there."""
        context = self.context
        begun = [(i.started_ns, i.started_seq or 0) for each in self._of_pod(key)
                 for i in each.instances if i.started_ns]  # fmt: skip
        if key in self._over or not begun or self._process is None:
            return
        first_ns, seq = min(begun)
        was = context.timeline.interval(first_ns, body.pod_uid, body.namespace, body.pod)
        is_first = was is None or was.add_seq == record.seq
        is_new = first_ns > self._process.started_ns + FOUND_NS
        lost = context.coverage.missing(first_ns, record.ts_ns)
        if is_first and is_new and record.ts_ns > first_ns + RELIST_NS and lost is None:
            sides = (seq, "its container runs"), (record.seq, "the pod is handed to the kubelet")
            about, why = subject_of(body), "a container runs before its pod came"
            context.contradict(record.ts_ns, about, why, *sides, by_absence=True, by_lines=True)

    def _pod_listed(self, record: Record, body: PodListed, key: str) -> None:
        if body.gone and body.listed_by == "kubelet":
            self._gone(key)

    def _terminated(self, record: Record, body: PodTerminated, key: str) -> None:
        """No pod has ended while a container of it runs, by lists, for its line may be late."""
        for run in self.context.timeline.of(record).runs:
            started_ns = run.started_ns or record.ts_ns
            if run.sandbox or started_ns >= record.ts_ns:
                continue
            until_ns, seq = ran_until(self.context, run, record.ts_ns + _LATE_NS)
            if until_ns:
                why = "a pod has ended, and a container of it runs on"
                ran = seq, f"container {run.name} ran until {format_ts(until_ns)}"
                sides = (record.seq, "the pod is terminated"), ran
                self.context.contradict(record.ts_ns, subject_of(body), why, *sides)
        self._over.setdefault(key, record)
        self._gone(key)

    def _judge_over(
        self, record: Record, body: PodTerminating | ContainerKilled, state: NodeState
    ) -> None:
        """A pod is stopped before it has ended; what is found to run then is cleared away."""
        ended = self._over.get(key_for(state, body), record)
        lost = self.context.coverage.missing(ended.ts_ns, record.ts_ns)
        if body.reason in _CLEARED or record.ts_ns <= ended.ts_ns + RELIST_NS or lost is not None:
            return
        del self._over[key_for(state, body)]
        subject, why = f"pod/{body.namespace}/{body.pod}", "a pod is stopped after it has ended"
        sides = (ended.seq, "the pod is terminated"), (record.seq, "it is stopped")
        self.context.contradict(
            record.ts_ns, subject, why, *sides, by_absence=True, by_lines=True, kind=ended.kind
        )

    def _gone(self, key: str) -> None:
        """What lines tell of its containers later was before, unless it is added again."""
        if key in self._pods:
            self._were[key] = self._pods.pop(key)
        self._added.discard(key)

    # -- containers --------------------------------------------------------------------------

    def _show(self, record: Record, container: Container, container_id: str | None) -> Instance:
        """The instance of that ID, which is new if no record showed it before."""
        found = container.find(container_id)
        if found is not None:
            return found
        unnamed = list(takewhile(lambda each: each.container_id is None, container.instances[::-1]))
        if not unnamed:
            self._start(container, record, is_event=False)
            unnamed = [Instance(None, record.seq)]
            container.push(unnamed[0])
        # Of several that events showed to be created, relists that stalled show the first first.
        began = self.context.times.listed_start(container_id)
        before = (i for i in unnamed if began is not None and (i.created_ns or 0) <= began.to_ns)
        found = next(before, unnamed[-1])
        found.container_id = container_id
        found.count = self.context.instances.count(container_id)
        if found is container.at(0):
            self._came_before(container, found.count)
        return found

    def _came_before(self, container: Container, count: int | None) -> None:
        """A restart count may show instances before the first that was shown."""
        first = container.at(0)
        if not container.is_first or count is None or count < container.shown:
            return
        container.is_first = False
        created_ns = None if first is None or container.shown != 1 else first.created_ns
        if created_ns and not container.back_off.is_unknown:
            # This process has made but the one, and that followed an exited instance.
            raises = True if self._keeps_dead() else None
            container.back_off.start(policy_of(self.context), created_ns, raises=raises)
        else:
            container.back_off.lose()

    def _container_started(self, record: Record, body: ContainerStarted, key: str) -> None:
        """An instance runs; the same one again is nothing new."""
        self._judge_again(record, body)
        if body.container is None or body.sandbox:
            return
        container = self._get(key, body.container)
        self._judge_alone(record, body, container)
        instance = self._show(record, container, body.container_id)
        self._judge_late(record, body, key, instance)
        if instance.started_ns is None:
            instance.started_ns, instance.started_seq = record.ts_ns, record.seq
            instance.is_reported = True
        if instance is container.at(0):
            container.was_inherited = False

    def _judge_late(self, record: Record, body: OfPod, key: str, instance: Instance) -> None:
        """Nothing starts in a pod that has ended, once a relist has told the end of its sandbox.

        And no relist tells a start twice in one process, but where the runtime tells of them, too.
        """
        context, process, told = self.context, self._process, instance.told or record
        runs = [run for run in context.timeline.of(record).runs if run.sandbox is not False]
        gates, words = context.settings.get("featureGates"), "its start is told"
        is_evented = isinstance(gates, dict) and gates.get("EventedPLEG")
        texts = "".join(piece.text or "" for piece in record.evidence)
        is_event = "reason" in texts and "SyncLoop (PLEG)" not in texts
        if is_evented or is_event or (process is not None and told.ts_ns < process.started_ns):
            told = record
        instance.told, ended = instance.told if is_event else told, self._over.get(key)
        ends = [run.died_ns or record.ts_ns for run in runs]
        if ended and ends and context.times.apart(max(ends), record.ts_ns):
            told, words = ended, "the pod is terminated"
        lost = context.coverage.missing(told.ts_ns, record.ts_ns)
        if context.times.apart(told.ts_ns, record.ts_ns) and lost is None:
            sides = (told.seq, words), (record.seq, "a container of it starts")
            why, about = f"a container starts after {words}", subject_of(body)
            context.contradict(record.ts_ns, about, why, *sides, by_absence=True)

    def _judge_again(self, record: Record, body: ContainerStarted) -> None:
        """No relist shows an instance, or a sandbox, to run after one that showed its end."""
        process, run = self._process, self.context.timeline.of(record).run(body.container_id)
        if run is None or run.died_ns is None or process is None or run.died_seq > record.seq:
            return  # or the line of its end stands later, by a clock that was set back
        if process.started_ns <= run.died_ns < record.ts_ns - RELIST_NS:
            why = "a container runs after it was seen to have ended"
            name = f"container {(body.container_id or '')[:12]}"
            sides = (run.died_seq, f"{name} ended"), (record.seq, f"{name} runs")
            self.context.contradict(record.ts_ns, subject_of(body), why, *sides, by_lines=True)

    def _judge_alone(self, record: Record, body: ContainerStarted, container: Container) -> None:
        """No instance of a container runs beside another, of those whose starts were told so.

        One that a restart follows has ended, whatever line of that is lost.
        """
        pod = self.context.timeline.of(record)
        for instance in container.instances:
            run = pod.run(instance.container_id)
            begun_ns = instance.started_ns or record.ts_ns
            if run is None or run.container_id == body.container_id or begun_ns >= record.ts_ns:
                continue
            until_ns, seq = ran_until(self.context, run, record.ts_ns + NS_PER_S)
            is_another = not until_ns and body.container_id not in self._restarts
            untold = is_another and self._is_end_untold(record, run, begun_ns)
            if until_ns or untold:
                why = f"two instances of container {body.container} run at once"
                name = f"container {(run.container_id or '')[:12]}"
                first = (seq, f"{name} ran until {format_ts(until_ns)}")
                if untold:
                    first = instance.started_seq or 0, f"{name} runs, and nothing tells of its end"
                sides = first, (record.seq, f"container {body.container_id[:12]} runs")
                at_ns, about, kind = record.ts_ns, subject_of(body), record.kind
                self.context.contradict(at_ns, about, why, *sides, by_absence=untold, kind=kind)

    def _is_end_untold(self, record: Record, run: ContainerRun, begun_ns: int) -> bool:
        """Whether the relist that saw an instance gone had to tell its end, as of others it did."""
        process, timeline, coverage = self._process, self.context.timeline, self.context.coverage
        if run.shown[0] < record.ts_ns:
            begun_ns = max(begun_ns, run.shown[0])
        if process is None or not process.started_ns <= begun_ns < record.ts_ns - RELIST_NS:
            return False
        second = timeline.interval_of(record)
        first = None if second is None else timeline.of(record).at(begun_ns, second.process)
        shown = self.context.instances.instance(run.container_id)
        is_told = run.died_ns is not None or run.killed_ns is not None
        if first is None or first is not second or is_told or (shown and shown.ended):
            return False
        if coverage.missing(begun_ns, record.ts_ns + _LATE_NS) is not None:
            return False
        others = (each for pod in timeline.pods.values() for each in pod.runs)
        are_told = any((each.died_ns or 0) > process.started_ns for each in others)
        return are_told or not coverage.is_of_log

    def _container_died(self, record: Record, body: ContainerDied, key: str) -> None:
        if body.container is not None and not body.sandbox:
            container = self._get(key, body.container)
            newest, of = container.at(0), container.find(body.container_id)
            began_ns = 0 if newest is None or newest.has_ended else newest.started_ns or 0
            if began_ns and of is None and not self.context.times.apart(began_ns, record.ts_ns):
                container.is_first = False  # the relist that saw one run saw the end of an older
            else:
                self._show(record, container, body.container_id).die(record, body)
        elif body.sandbox is None:
            # It may have been one from before those that were shown, of any container.
            self._added.discard(key)
            for container in self._of_pod(key):
                container.is_first = False
        self._causes.see(record, body)

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        self._pass_time(record)
        self._judge_over(record, body, state)
        known = self._find(key_for(state, body), body.container)
        if known is None or known.find(body.container_id) is None:
            body = corrected(body, self._causes.judge(record, body))
        self._causes.see(record, body)
        if body.container is None:
            return
        container = self._get(key_for(state, body), body.container)
        back_off, newest = container.back_off, container.at(0)
        runs = newest is not None and newest.container_id is not None and not newest.has_ended
        is_shown = self.context.instances.count(body.container_id) is not None
        if runs and not is_shown and container.find(body.container_id) is None:
            return  # an ID that nothing else says, while another one runs
        killed = self._show(record, container, body.container_id)
        if killed.first_killed_ns is None:
            killed.first_killed_ns = record.ts_ns
            back_off.held_back = container.was_inherited = False
        killed.killed_ns, killed.killed_seq = record.ts_ns, record.seq
        reasons = filter(None, (body.reason, reason_meant(body.message)))
        killed.reasons = tuple(dict.fromkeys((*killed.reasons, *reasons)))
        if "spec_changed" in killed.reasons:
            back_off.reset()  # another definition has no entry yet
            back_off.failed_start = False

    def _probe_changed(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        self._causes.see(record, body)
        container = self._find(key_for(state, body), body.container)
        newest = None if container is None else container.at(0)
        kills = body.to_result == "failure" and body.probe_type != "readiness"
        if newest and kills and body.container_id in (None, newest.container_id):
            newest.is_to_be_killed |= not newest.has_ended

    def _reported(self, record: Record, body: KubernetesEvent, state: NodeState) -> None:
        key, name = key_for(state, body), body.container
        if body.object_kind != "Pod":
            return
        # Lists show only the last of several; words of another event are no creation.
        is_line = name is not None and any(piece.line is not None for piece in record.evidence)
        if name is not None and is_line and body.reason in _TURNED:
            self._take_turn(record, body, self._get(key, name))
        if body.reason != "Created" or name is None:
            self._failed(record, body, key)
        elif is_line and "created" in body.message.lower():
            self._created(record, self._get(key, name))

    def _take_turn(self, record: Record, body: KubernetesEvent, container: Container) -> None:
        """What starts twice, and then is created twice, started before it was created."""
        turns = container.turns
        turns.append(record)
        del turns[: -len(_TURNED)]
        if tuple(getattr(each.body, "reason", "") for each in turns) != _TURNED:
            return
        first, started, created, _ = turns
        lost = self.context.coverage.missing(first.ts_ns, record.ts_ns)
        if created.ts_ns > started.ts_ns + RELIST_NS and lost is None:
            why = "a container is started before it is created"
            sides = (started.seq, "it is started"), (created.seq, "it is created")
            at_ns, about, kind = record.ts_ns, subject_of(body), record.kind
            self.context.contradict(at_ns, about, why, *sides, by_absence=True, kind=kind)

    def _failed(self, record: Record, body: OfPod, key: str) -> None:
        """A start that the back-off let through, and counted, did not succeed."""
        for episode in self.context.stages.told:
            for container in self._of_pod(key) if episode.stage in _STARTING else ():
                newest = container.at(0)
                runs = newest and newest.started_ns is not None and not newest.has_ended
                created = newest is not None and (runs or newest.created_ns is not None)
                if episode.container is None or (
                    episode.container == container.name
                    and not (created and episode.stage in _OF_CREATED)
                ):
                    container.back_off.failed_start = True

    def _may_have_failed(self, record: Record, container: Container) -> bool:
        """Whether a start failed since the last that did not, if it is told only later, too."""
        newest, now_ns = container.at(0), record.ts_ns
        is_created = newest is not None and newest.created_ns is not None
        told_later = (
            from_ns <= now_ns < told_ns and not (is_created and counted)
            for from_ns, told_ns, counted in self._folded.get((container.key, container.name), ())
        )
        return container.back_off.failed_start or any(told_later)

    def _created(self, record: Record, container: Container) -> None:
        """The event ``Created``: an instance whose ID is not known yet."""
        newest = container.at(0)
        is_late = newest is not None and record.ts_ns - (newest.started_ns or 0) < _LATE_NS
        if newest is not None and newest.created_ns is None and is_late:
            newest.created_ns = 0
            return
        self._start(container, record, is_event=True)
        container.push(Instance(None, record.seq, created_ns=record.ts_ns, is_reported=True))

    # -- starts ------------------------------------------------------------------------------

    def _start(self, container: Container, record: Record, *, is_event: bool) -> None:
        """Another instance starts: was it too early, and does it raise the entry?"""
        back_off, before = container.back_off, container.at(0)
        if before is not None and not before.is_reported and container.at(1) is not None:
            back_off.lose()  # the line about its start is missing
        if before is None and not back_off.is_none() and not is_event:
            # Told before any instance was seen: this start may have raised it.
            back_off.lose()
        back_off.pass_time(record.ts_ns)
        policy = policy_of(self.context)
        in_sync = self._in_sync(container, back_off)
        container.by_policy = in_sync is False and not back_off.failed_start  # which leaves one
        looked_at = container.at(1) if in_sync else before
        back_off.early = ()
        since_ns = self.context.timeline.iterations.earliest(record.ts_ns)
        if since_ns > (container.held_ns or 0):
            back_off.may_count_unlogged = False
        elif back_off.may_count_unlogged:
            container.held_ns = looked_at = None  # a line that holds the next one back counts it
        if looked_at is not None and (in_sync is False or (in_sync and self._keeps_dead())):
            ended_ns = looked_at.ended_from_ns(self.context.times)
            back_off.early = back_off.too_early(record.ts_ns, ended_ns)
        raises: bool | None = True if in_sync is False or self._keeps_dead() else None
        is_found = not is_event and self.context.timeline.is_found(record.ts_ns)
        if in_sync is None or (container.was_inherited and is_found):
            raises = None
        if before is None:
            raises = False
            if not container.is_first:
                back_off.lose()
        elif in_sync and container.at(1) is None:
            raises = None if self._may_be_older(record, container, before) else False
        if self._may_have_failed(record, container) and isinstance(policy, BackOffPolicy):
            back_off.may_have_risen(policy, back_off.failures)
        back_off.start(policy, record.ts_ns, raises=raises)

    def _may_be_older(self, record: Record, container: Container, first: Instance) -> bool:
        """Whether instances may have been before the first of a container that records show.

        Of one that a process found running, as its pod is older, only a list tells the count.
        """
        timeline, process = self.context.timeline, self._process
        created_ns = timeline.history(container.key).created_ns
        is_older = process is not None and (created_ns or process.started_ns) < process.started_ns
        was_found = is_older and timeline.is_found(first.started_ns or record.ts_ns)
        return not container.is_first or (was_found and first.count is None)

    def _in_sync(self, container: Container, back_off: BackOff) -> bool | None:
        """Whether the sync that killed the newest instance starts the next; None: not known."""
        before = container.at(0)
        if before is None:
            return False
        if before.killed_ns is None:  # the line of its kill may be lost
            return None if before.is_to_be_killed else False
        if self._process is not None and before.killed_ns <= self._process.started_ns:
            return False
        if back_off.held_back or container.was_inherited or set(before.reasons) == {_HOOK}:
            return False
        by_sync = not back_off.failed_start and bool(_SYNC_KILLS.intersection(before.reasons))
        return by_sync or None

    def _keeps_dead(self) -> bool:
        """Whether the newest dead instance of each container is kept."""
        each = self.context.settings.get("--maximum-dead-containers-per-container")
        all_ = self.context.settings.get("--maximum-dead-containers")
        return each != "0" and isinstance(each, str) and all_ == "-1"
