"""Where pods and their containers got stuck on their way, since when, why, and how it ended.

Sources that tell the same are tellers of one episode: the log's errors, Kubernetes events, pod
lists, decisions. What it failed for happened as often as the one says that says it most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kubeledger.kubelet.kube.statuses import statuses_in, time_in
from kubeledger.kubelet.lifecycle.stages import (
    OF_CONTAINER,
    SIDE_BY_SIDE,
    TO_END,
    StageFailure,
    failure_of_event,
    failure_of_waiting,
    order_of,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodRejected,
    PodStarted,
    PodTerminated,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import PodStageFailed, Stage
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTicksFolded, ProbeTransitioned
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.subjects import PodNames

SETTLED_NS = 600 * NS_PER_S
"""A container that ran for so long has its back-off reset (``MaxContainerBackOff`` doubled): it is
past its trouble. Before, its next end belongs to the same episode."""

_SEQS_MAX = 20


class StageEpisode(msgspec.Struct, kw_only=True):
    """A pod or container in a stage that it does not get past.

    Attributes:
        seq: of the record that begins it.
        container: None where the stage is the pod's, or nobody names the container.
        reason: as the newest teller says it.
        message: the newest that names a cause; of those that only wait, where none does.
        about: the image, volume, claim or the like; None if not named.
        attempts: how often it was tried in vain, as far as the sources show it; at least 1.
        is_waiting: when last heard of, the kubelet waited until it tries again.
        ts_ns, last_ts_ns: the first and the last failure.
        passed_ts_ns, passed_seq: when it got past the stage, and the record that shows it; None: it
            did not, as far as is known.
        ended_ts_ns: when the pod began to be stopped, or was gone, before that.
        seqs: newest records that tell of it, at most twenty.
        is_silent: the node's records go on, and tell no more of it; only readers find that out.
    """

    seq: int
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    stage: Stage
    reason: str
    message: str
    about: str | None
    attempts: int = 1
    is_waiting: bool
    ts_ns: int
    last_ts_ns: int
    passed_ts_ns: int | None = None
    passed_seq: int | None = None
    ended_ts_ns: int | None = None
    seqs: tuple[int, ...] = ()
    is_silent: bool = False

    @property
    def is_open(self) -> bool:
        """The pod is still in it."""
        return self.passed_ts_ns is None and self.ended_ts_ns is None


class _Open(msgspec.Struct):
    """An episode under way: who told it how often, and the start that may have ended it.

    ``anew``: the pod was admitted again since; if it starts now, its end is no longer awaited.
    """

    episode: StageEpisode
    told: dict[str, int] = {}
    started: tuple[int, int] | None = None
    anew: bool = False

    def take(
        self, seq: int, failure: StageFailure, teller: str, count: int, first_ns: int, last_ns: int
    ) -> None:
        """Take in a record of a failure; arguments as of :meth:`PodStages.fail`."""
        self.anew, episode, is_known = False, self.episode, bool(self.told)
        if not failure.is_waiting:
            if failure.stage in SIDE_BY_SIDE:
                teller = f"{teller} {failure.about}"
            self.told[teller] = max(self.told.get(teller, 0) + count, 1)
            episode.attempts = max(self.told.values())
        if last_ns >= episode.last_ts_ns:
            says_more = failure.message and not episode.message.startswith(failure.message)
            if says_more and (failure.names_cause or not is_known):
                episode.message = failure.message
            episode.reason, episode.is_waiting = failure.reason, failure.is_waiting
            episode.about = failure.about or episode.about
        episode.ts_ns = min(episode.ts_ns, first_ns)
        episode.last_ts_ns = max(episode.last_ts_ns, last_ns)
        episode.seqs = (*episode.seqs, seq)[-_SEQS_MAX:]


class PodStages:
    """The fold over the records of one node.

    Attributes:
        told: episodes of which the record that was taken last tells a failure.
    """

    def __init__(self, *, only_told: bool = False) -> None:
        """Nothing is taken yet.

        Args:
            only_told: nobody asks for the episodes, so that those that are over are let go.
        """
        self.told: list[StageEpisode] = []
        self._lets_go = only_told
        self._names = PodNames()
        self._done: list[StageEpisode] = []
        self._open: dict[str, dict[tuple[str | None, Stage], _Open]] = {}
        self._closed: dict[tuple[str, str | None, Stage], _Open] = {}
        self._stopped: set[str] = set()
        self._latest_ns = 0

    def take(self, record: Record) -> None:
        """One more record, in the order of the ledger; kinds that tell nothing change nothing."""
        step = _STEPS.get(type(record.body))
        self._latest_ns = max(self._latest_ns, record.ts_ns)
        if self.told:
            self.told = []
        if step is None:
            return
        body: Any = record.body
        key = self._names.key(body.namespace, body.pod, body.pod_uid)
        if key.renamed is not None and key.renamed in self._open:
            self._open.setdefault(key.current, {}).update(self._open.pop(key.renamed))
        step(self, key.current, record, body)

    def wait_until(self, ts_ns: int | None) -> None:
        """Records that were not taken are as late as that; None: there are none."""
        self._latest_ns = max(self._latest_ns, ts_ns or 0)

    def episodes(self) -> list[StageEpisode]:
        """All so far, in the order of their begin."""
        running = [
            self._settled(each) for opened in self._open.values() for each in opened.values()
        ]
        found = [*self._done, *running]
        for each in found:
            self._names.complete(each)
        return sorted(found, key=lambda each: (each.ts_ns, each.seq, each.container or ""))

    def _settled(self, open_: _Open) -> StageEpisode:
        """As it stands now: a container that started and ran on has passed."""
        episode = open_.episode
        if open_.started is None or self._latest_ns - open_.started[0] < SETTLED_NS:
            return episode
        passed_ts_ns, passed_seq = open_.started
        return msgspec.structs.replace(episode, passed_ts_ns=passed_ts_ns, passed_seq=passed_seq)

    # What records do ----------------------------------------------------------------------

    def fail(
        self,
        pod: str,
        record: Record,
        failure: StageFailure,
        teller: str,
        *,
        count: int = 1,
        first_ts_ns: int | None = None,
        last_ts_ns: int | None = None,
    ) -> None:
        """The pod, or the container that the failure names, did not get past a stage."""
        stage = failure.stage
        first = record.ts_ns if first_ts_ns is None else first_ts_ns
        last = record.ts_ns if last_ts_ns is None else last_ts_ns
        opened = self._open.setdefault(pod, {})
        container = _whose(opened, stage, failure.container)
        if container is None and stage in OF_CONTAINER:
            several = [other for (whose, each), other in opened.items() if whose and each == stage]
            for other in several:  # which of them is not said: it is counted where one is named
                other.episode.seqs = (*other.episode.seqs, record.seq)[-_SEQS_MAX:]
                self.told.append(other.episode)
            if several:
                return
        known = opened.get((container, stage))
        known = known or self._resumed(pod, (container, stage), first, last)
        if known is None or known.episode.is_open:
            # A container whose start failed has an end and is backed off, too.
            reached = "start" if stage == "run" else stage
            self._pass_before(pod, container, reached, first, record.seq)
        if known is not None and known.started is not None and stage in _BY_START:
            if first - known.started[0] >= SETTLED_NS:
                self._close(pod, (container, stage), *known.started)
                known = None
            else:
                known.started = None
        if known is None:
            begun = _begun(record, failure._replace(container=container), first, last)
            known = opened[container, stage] = _Open(begun)
        known.take(record.seq, failure, teller, count, first, last)
        self.told.append(known.episode)
        if pod in self._stopped and stage not in TO_END and known.episode.is_open:
            self.stopped(pod, last, stages=lambda each: each == stage)

    def _resumed(
        self, pod: str, key: tuple[str | None, Stage], first_ts_ns: int, last_ts_ns: int
    ) -> _Open | None:
        """The episode in which these failures began, should it be over.

        How often something failed is told when that is over, after what shows it. What failed
        after it was passed has not been.
        """
        known = self._closed.get((pod, *key))
        if known is None:
            return None
        passed_ns, ended_ns = known.episode.passed_ts_ns, known.episode.ended_ts_ns
        is_over = first_ts_ns > (ended_ns or 0 if passed_ns is None else passed_ns)
        if is_over and (passed_ns is not None or pod not in self._stopped):
            return None
        if passed_ns is not None and last_ts_ns > passed_ns:
            if not self._lets_go:
                self._done.remove(known.episode)
            known.episode.passed_ts_ns = known.episode.passed_seq = None
            self._open[pod][key] = known
        return known

    def _pass_before(
        self, pod: str, container: str | None, stage: Stage, ts_ns: int, seq: int
    ) -> None:
        """Whoever fails in a stage has passed those before it; a run ends by a start alone."""
        for key in list(self._open[pod]):
            whose, before = key
            is_earlier = order_of(before) < order_of(stage) and before not in _BY_START
            is_earlier = is_earlier and stage not in TO_END
            if is_earlier and (before not in OF_CONTAINER or whose in (container, None)):
                self._close(pod, key, ts_ns, seq)

    def passed(self, pod: str, container: str | None, stage: Stage, ts_ns: int, seq: int) -> None:
        """The container (None: the pod) has got past a stage, and all before it."""
        opened = self._open.get(pod, {})
        for key in list(opened):
            whose, before = key
            if order_of(before) > order_of(stage) or opened[key].episode.ts_ns > ts_ns:
                continue
            if before in OF_CONTAINER and whose not in (container, None):
                continue
            if before in _BY_START and stage != "ready":
                opened[key].started = opened[key].started or (ts_ns, seq)
            else:
                self._close(pod, key, ts_ns, seq)

    def stopped(self, pod: str, ts_ns: int, *, stages: Callable[[Stage], bool]) -> None:
        """The pod is on its way out, or gone: it will not get past these stages any more."""
        self._stopped.add(pod)
        opened = self._open.get(pod, {})
        for key in list(opened):
            if not stages(key[1]):
                continue
            if (started := opened[key].started) is not None:
                self._close(pod, key, *started)
            else:
                known = self._closed[pod, *key] = opened.pop(key)
                known.episode.ended_ts_ns = max(ts_ns, known.episode.last_ts_ns)
                self._over(known.episode)

    def begins(self, pod: str) -> None:
        """The kubelet has taken it in: a static pod comes back with the UID that it had.

        So does every pod that outlives a kubelet, or a reboot that ended its containers.
        """
        self._stopped.discard(pod)
        for (_, stage), known in self._open.get(pod, {}).items():
            known.anew = stage == "stop"

    def runs_anew(self, pod: str, ts_ns: int, seq: int) -> None:
        """A container started: what did not end before the pod was admitted again is over."""
        for key in [key for key, known in self._open.get(pod, {}).items() if known.anew]:
            self._close(pod, key, ts_ns, seq)

    def all_run(self, pod: str, ts_ns: int, seq: int) -> None:
        """Each of its containers has started."""
        for container in {whose for whose, _ in self._open.get(pod, {})}:
            self.passed(pod, container, "start", ts_ns, seq)
        self.runs_anew(pod, ts_ns, seq)

    def _close(self, pod: str, key: tuple[str | None, Stage], ts_ns: int, seq: int) -> None:
        known = self._closed[pod, *key] = self._open[pod].pop(key)
        episode = known.episode
        episode.passed_ts_ns, episode.passed_seq = max(ts_ns, episode.ts_ns), seq
        self._over(episode)

    def _over(self, episode: StageEpisode) -> None:
        if not self._lets_go:
            self._done.append(episode)


def _begun(record: Record, failure: StageFailure, first_ns: int, last_ns: int) -> StageEpisode:
    body: Any = record.body
    return StageEpisode(
        seq=record.seq,
        namespace=body.namespace,
        pod=body.pod,
        pod_uid=body.pod_uid,
        **failure._asdict(),
        ts_ns=first_ns,
        last_ts_ns=last_ns,
    )


def _whose(
    opened: dict[tuple[str | None, Stage], _Open], stage: Stage, container: str | None
) -> str | None:
    """The container that failed: of one that is not named the only one in the stage, if it is."""
    names = [whose for whose, known in opened if known == stage]
    if container is None:
        return names[0] if len(names) == 1 else None
    if names == [None] and stage in OF_CONTAINER:
        known = opened[container, stage] = opened.pop((None, stage))
        known.episode.container = container
    return container


_BY_START: frozenset[Stage] = frozenset(("hook", "run"))
"""Only a start after which the container stays shows that these are passed."""

_EVENT_PASSES: dict[str, Stage] = {
    "Pulling": "sandbox",
    "Pulled": "image",
    "Created": "create",
    "Started": "start",
}
"""Reason of an event -> the stage that it shows to be passed."""


def _stage_failed(stages: PodStages, pod: str, record: Record, body: PodStageFailed) -> None:
    failure = StageFailure(
        body.stage, body.reason, body.message, body.about, body.is_waiting, body.container
    )
    span = {"first_ts_ns": body.first_ts_ns, "last_ts_ns": body.last_ts_ns}
    stages.fail(pod, record, failure, "log", count=body.count, **span)


def _event(stages: PodStages, pod: str, record: Record, body: KubernetesEvent) -> None:
    if body.object_kind != "Pod":
        return
    failure = failure_of_event(body.reason, body.message, body.container)
    if failure is not None:
        # Of one try there are two: of a pull and of the start that it was for, of a mount and of
        # the sync that waited for it. Their first words differ.
        teller = f"events {body.reason} {body.message.partition(' ')[0]}"
        stages.fail(pod, record, failure, teller, count=body.count)
    elif (stage := _EVENT_PASSES.get(body.reason)) is not None:
        stages.passed(pod, body.container, stage, record.ts_ns, record.seq)


def _listed(stages: PodStages, pod: str, record: Record, body: PodListed) -> None:
    if body.gone:
        stages.stopped(pod, record.ts_ns, stages=lambda stage: True)
        return
    for each in statuses_in(body.status):
        _container_listed(stages, pod, record, each)


def _container_listed(stages: PodStages, pod: str, record: Record, status: dict[str, Any]) -> None:
    name, state = status.get("name"), status.get("state")
    if not isinstance(name, str) or not isinstance(state, dict):
        return
    waiting, running = state.get("waiting"), state.get("running")
    if isinstance(waiting, dict):
        reason, message = (str(waiting.get(part) or "") for part in ("reason", "message"))
        failure = failure_of_waiting(reason, message, name)
        if failure is not None:
            stages.fail(pod, record, failure, "lists", count=0)  # each shows the state, no try
    elif isinstance(running, dict):
        started_ns = time_in(running, "startedAt")
        stages.passed(pod, name, "start", started_ns or record.ts_ns, record.seq)
        if status.get("ready"):
            stages.passed(pod, name, "ready", record.ts_ns, record.seq)


def _started(
    stages: PodStages, pod: str, record: Record, body: ContainerStarted | ContainerRestarted
) -> None:
    if getattr(body, "sandbox", False):
        stages.passed(pod, None, "sandbox", record.ts_ns, record.seq)
    elif body.container is not None:
        stages.passed(pod, body.container, "start", record.ts_ns, record.seq)
    stages.runs_anew(pod, record.ts_ns, record.seq)


def _all_run(stages: PodStages, pod: str, record: Record, body: PodStarted) -> None:
    ts_ns = body.running_ts_ns or record.ts_ns
    stages.all_run(pod, min(ts_ns, record.ts_ns), record.seq)


def _died(stages: PodStages, pod: str, record: Record, body: ContainerDied) -> None:
    if body.sandbox or body.container is None:
        return
    if record.cause is not None:
        return  # it did not end by itself
    if body.exit_code == 0:
        stages.passed(pod, body.container, "ready", record.ts_ns, record.seq)
    elif body.exit_code is not None:
        failure = StageFailure(
            "run", "Error", f"exit code {body.exit_code}", container=body.container
        )
        stages.fail(pod, record, failure, "deaths")


def _backed_off(stages: PodStages, pod: str, record: Record, body: RestartBackedOff) -> None:
    message = f"back-off {body.back_off_s} s before its next start"
    failure = StageFailure("run", "CrashLoopBackOff", message, None, True, body.container)
    stages.fail(pod, record, failure, "log")


def _tick(
    stages: PodStages, pod: str, record: Record, body: ProbeExecuted | ProbeTicksFolded
) -> None:
    if body.probe_type == "liveness" or body.result in ("success", "warning"):
        return
    failure = StageFailure(
        "ready", f"{body.probe_type} probe failed", body.output or "", container=body.container
    )
    count = body.count if isinstance(body, ProbeTicksFolded) else 1
    stages.fail(pod, record, failure, "probes", count=count)


def _turned(stages: PodStages, pod: str, record: Record, body: ProbeTransitioned) -> None:
    if body.probe_type == "liveness":
        return
    if body.to_result == "success" and body.probe_type == "readiness":
        stages.passed(pod, body.container, "ready", record.ts_ns, record.seq)
    elif body.to_result == "failure" and body.from_result == "success":
        failure = StageFailure(
            "ready", f"{body.probe_type} probe failed", "", container=body.container
        )
        stages.fail(pod, record, failure, "turns")


def _rejected(stages: PodStages, pod: str, record: Record, body: PodRejected) -> None:
    failure = StageFailure("admission", body.reason, body.message)
    stages.fail(pod, record, failure, "decisions")


def _admitted(stages: PodStages, pod: str, record: Record, body: PodAdmitted) -> None:
    stages.begins(pod)
    stages.passed(pod, None, "config", record.ts_ns, record.seq)


def _configured(stages: PodStages, pod: str, record: Record, body: PodConfigChanged) -> None:
    if body.operation == "ADD":
        stages.begins(pod)
    elif body.operation in ("DELETE", "REMOVE"):
        _terminating(stages, pod, record, body)


def _terminating(stages: PodStages, pod: str, record: Record, body: object) -> None:
    stages.stopped(pod, record.ts_ns, stages=lambda stage: stage not in TO_END)


def _terminated(stages: PodStages, pod: str, record: Record, body: PodTerminated) -> None:
    _terminating(stages, pod, record, body)
    stages.passed(pod, None, "stop", record.ts_ns, record.seq)


_STEPS: dict[type[Body], Callable[[PodStages, str, Record, Any], None]] = {
    ContainerDied: _died,
    ContainerRestarted: _started,
    ContainerStarted: _started,
    KubernetesEvent: _event,
    PodAdmitted: _admitted,
    PodConfigChanged: _configured,
    PodListed: _listed,
    PodRejected: _rejected,
    PodStarted: _all_run,
    PodStageFailed: _stage_failed,
    PodTerminated: _terminated,
    PodTerminating: _terminating,
    ProbeExecuted: _tick,
    ProbeTicksFolded: _tick,
    ProbeTransitioned: _turned,
    RestartBackedOff: _backed_off,
}

KINDS: frozenset[str] = frozenset(body.kind for body in _STEPS)
"""Kinds of records that tell of stages."""
