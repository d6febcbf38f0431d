"""What a pod's syncs owe, and in which order they start containers.

After each start and end of a container the kubelet's own ``computePodActions`` says what the next
sync has to start. That is owed. What says that it failed or has to wait defers it; what ends
the pod makes it void. The same function forbids what no sync would have started: a container while
an init container that has to come first is still to run, or after one that failed for good.

Starts and ends of one pod come out of the PLEG in the order of its relists, late as they may be:
who is shown to start ran when the others of that relist did, and a sync that starts a container
follows on a relist that had told of those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product, takewhile
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.kubelet.kube.statuses import ALWAYS, NEVER, bare_id, statuses_in
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import compute_pod_actions
from kubeledger.kubelet.kuberuntime.objects import (
    EXITED,
    RUNNING,
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodActions,
    PodStatus,
    SandboxStatus,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodListed,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeTroubled, PodStageFailed
from kubeledger.model.patterns import regex
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import RuleVerifier
from kubeledger.verify.context import See, VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.evidence.container_specs import image_of, versions_of
from kubeledger.verify.evidence.pod_intervals import ContainerRun
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.rules.back_off import policy_of
from kubeledger.verify.rules.containers import Told, key_for, subject_of

_SYNC, _CHANGED = "sync", "changed"
_KILLED_NS: Final = 180 * NS_PER_S
"""A sync comes at once with a change, and kills before it does anything else."""
_TERM_NS: Final = 600 * NS_PER_S
"""So long after its back-off a start is not delayed without a line that says why."""
_SOON_NS: Final = 6 * NS_PER_S
"""What ran when a container ended, or started, is asked of those that run so long after."""
_KEPT: Final = ("IfNotPresent", "Never")
"""Policies by which an image that is there is not pulled."""
_PULLED: Final = regex(r'(?:Container|Successfully pulled) image "([^"]+)" (?:already|in) ')
_STAMPS_NS: Final = NS_PER_S
"""The API server's stamps are whole seconds."""


class _Shown(msgspec.Struct, frozen=True):
    """The newest instance of a container that is shown."""

    record: Record
    container_id: str
    exit_code: int | None = None
    runs: bool = True


class _SyncedPod(msgspec.Struct):
    """A pod in its present sandbox.

    Attributes:
        is_whole: all that ever started in the sandbox is in ``shown``.
        shown: container -> its newest instance.
    """

    is_whole: bool
    shown: dict[str, _Shown] = {}


class _Sync(msgspec.Struct):
    """A start or an end that a pod's next sync follows on; ``listed``, ``specs``: what it sees."""

    record: Record
    body: Told
    key: str
    pod: _SyncedPod
    listed: ListedPod
    specs: list[Pod]

    @property
    def inits(self) -> dict[str, Container]:
        return {c.name: c for spec in self.specs for c in spec.spec.init_containers or ()}

    @property
    def own(self) -> list[str]:
        return [c.name for spec in self.specs for c in spec.spec.containers or ()]


class SyncVerifier(RuleVerifier):
    """Says which starts did not come, and which came out of order; it judges no decision."""

    rule = "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions"

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._pods: dict[str, _SyncedPod] = {}
        # ID of a container that runs -> its image, and the list that shows that
        self._images: dict[str, tuple[str, int]] = {}
        # pod -> container -> the image that was there for its newest instance, and the event
        self._pulled: dict[str, dict[str, tuple[str, int]]] = {}

    def derive(self, state: NodeState) -> None:
        for key in self.context.gone:
            self._pods.pop(key, None)
            self._pulled.pop(key, None)

    def sees(self) -> Mapping[type[Body], See]:
        return {
            **dict.fromkeys((RestartBackedOff, PodStageFailed), self._deferred),
            KubernetesEvent: self._reported,
            ContainerDied: self._died,
            ContainerKilled: self._killed,
            ContainerStarted: self._started,
            KubeletStarted: lambda record, body, state: self._pods.clear(),
            PodListed: self._listed,
            NodeTroubled: lambda record, body, state: self.context.debts.defer(
                _SYNC, due_ns=self._due_ns(record.ts_ns)
            ),
        }

    # -- pods --------------------------------------------------------------------------------

    def _forget(self, key: str) -> None:
        self._pods.pop(key, None)
        for whole in (_SYNC, _CHANGED):
            self.context.debts.void(whole, key)

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        """A container that a list shows with another image than one before it is killed."""
        if body.listed_by != "kubelet" or not self.context.timeline.goes_on(record, record.ts_ns):
            return
        key, listed = key_for(state, body), self.context.pods.of(record)
        pod = self._pods.get(key, _SyncedPod(is_whole=False))
        specs = versions_of(() if listed is None else (listed,))
        for spec, (name, shown) in product(specs, pod.shown.items()):
            entry = spec.container(name)
            if entry is None or (now := entry.image) is None or not shown.runs:
                continue
            first = self._images.setdefault(shown.container_id, (now, record.seq))
            made = self._pulled.get(key, {}).get(name)
            before, seq = made if made and _is_made_with(made, body, shown, now) else first
            if before == now or not spec.is_app(name):
                self.context.debts.pay((_CHANGED, key, name))  # it may have been taken back
                continue
            debt = Debt(
                since=record,
                of_pod=True,
                due_ns=record.ts_ns + _KILLED_NS,
                shown_by=ContainerStarted,
                kind=ContainerKilled.kind,
                subject=f"container/{body.namespace}/{body.pod}/{name}",
                expected={"container": name, "reason": "spec_changed"},
                why=f"the image of container {name} is {now} since this list, and it runs on "
                f"with {before} for {_KILLED_NS // NS_PER_S} s",
                rule=self.rule,
                inputs=(seq, record.seq, shown.record.seq),
            )
            self.context.debts.owe((_CHANGED, key, name), debt)

    def _reported(self, record: Record, body: KubernetesEvent, state: NodeState) -> None:
        self._deferred(record, body, state)
        if told := _PULLED.match(body.message):
            specs = versions_of(filter(None, [self.context.pods.of(record)]))
            names = {body.container or each.name for spec in specs for each in spec.containers}
            if len(names) == 1:
                self._pulled.setdefault(key_for(state, body), {})[names.pop()] = told[1], record.seq

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        key = key_for(state, body)
        if body.container is not None:
            self.context.debts.pay((_CHANGED, key, body.container))
            self._images.pop(body.container_id or "", None)
            self._pulled.get(key, {}).pop(body.container, None)

    def _deferred(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401
        """Something is said of the pod: its syncs go on, and wait or fail."""
        if body.pod is not None and getattr(body, "object_kind", "Pod") == "Pod":
            whole = (_SYNC, key_for(state, body), *filter(None, [body.container]))
            self.context.debts.defer(*whole, due_ns=self._due_ns(record.ts_ns))

    def _due_ns(self, from_ns: int) -> int:
        policy = policy_of(self.context)
        longest_ns = policy.max_ns if isinstance(policy, BackOffPolicy) else 300 * NS_PER_S
        return from_ns + longest_ns + _TERM_NS

    # -- containers --------------------------------------------------------------------------

    def _started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        key, apart = key_for(state, body), self.context.times.apart
        if body.container is not None and not body.sandbox:
            self._show(record, body, key, _Shown(record, body.container_id))
        elif body.sandbox is not False:
            before = self._pods.get(key, _SyncedPod(is_whole=False)).shown
            self._forget(key)
            # One relist shows a sandbox and what runs in it in any order.
            own = {n: e for n, e in before.items() if not apart(e.record.ts_ns, record.ts_ns)}
            self._pods[key] = _SyncedPod(self._is_whole(record.ts_ns, body), own)
            for each in [*own.values()] if self._is_made(record.ts_ns, body) else ():
                assert isinstance(each.record.body, ContainerStarted | ContainerDied)
                self._show(each.record, each.record.body, key, each)

    def _is_whole(self, ts_ns: int, body: Told) -> bool:
        """Whether all is told that was in a pod's sandbox, whose start was told then.

        The process made it, or found it when it had the pod: what relists see before is not told.
        """
        timeline = self.context.timeline
        interval = timeline.interval(ts_ns, body.pod_uid, body.namespace, body.pod)
        if timeline.process(ts_ns) is None or interval is None or interval.added_ns is None:
            return False
        is_told = self._is_made(ts_ns, body) or not timeline.is_found(ts_ns)
        return is_told or self.context.times.apart(interval.added_ns, ts_ns)

    def _is_made(self, ts_ns: int, body: Told) -> bool:
        """Whether a pod was made while the process ran that runs then."""
        timeline, process = self.context.timeline, self.context.timeline.process(ts_ns)
        made_ns = timeline.pod(ts_ns, body.pod_uid, body.namespace, body.pod).created_ns or 0
        return process is not None and made_ns >= process.started_ns - _STAMPS_NS

    def _died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        key = key_for(state, body)
        if body.sandbox is not False and (body.sandbox or body.container is None):
            self._forget(key)
        elif body.container is not None:
            shown = _Shown(record, body.container_id, body.exit_code, runs=False)
            self._show(record, body, key, shown)

    def _show(self, record: Record, body: Told, key: str, shown: _Shown) -> None:
        """An instance starts or ends: what was owed is paid, and something else is owed."""
        assert body.container is not None
        pod = self._pods.setdefault(key, _SyncedPod(is_whole=False))
        before, pod.shown[body.container] = pod.shown.get(body.container), shown
        if before is None or before.container_id != shown.container_id or shown.runs:
            self.context.debts.pay((_SYNC, key, body.container))
        self.context.debts.pay((_CHANGED, key, body.container))
        listed = self.context.pods.of(record)
        specs = [] if listed is None else _specs(self.context.pods.versions(listed))
        if shown.runs and pod.is_whole and listed is not None:
            image, seen_ns = image_of(listed, body.container), listed.ts_ns
            changed = self.context.pods.updates(listed, seen_ns + 1, record.ts_ns)
            if image is not None and seen_ns <= record.ts_ns and not changed:
                self._images.setdefault(shown.container_id, (image, listed.seq))
        if not shown.runs:
            self._images.pop(shown.container_id, None)
        if self.context.profile is None or not specs or listed is None:
            return
        sync = _Sync(record, body, key, pod, listed, specs)
        self._judge_first(sync)
        if not self.context.timeline.goes_on(record, record.ts_ns):
            return
        if any(each.spec.active_deadline_seconds is not None for each in specs):
            return
        starts = [self._starts(spec, pod) for spec in specs]
        for name in {*sync.inits, *sync.own}.difference(*starts):
            self.context.debts.void(_SYNC, key, name)  # as where a sidecar ended at once
        due, order = set.intersection(*starts), [*sync.inits, *sync.own].index
        for name in sorted(due):
            self._owe(sync, name, {each for each in due if order(each) <= order(name)})

    def _starts(self, spec: Pod, pod: _SyncedPod) -> set[str]:
        """What a sync surely starts, whatever exit codes are not known."""
        found = []
        for code in (0, 1):
            actions = self._actions(spec, _statuses(spec, pod, code))
            inits, own = spec.spec.init_containers or (), spec.spec.containers or ()
            due = {inits[n].name for n in actions.init_containers_to_start}
            due |= {own[n].name for n in actions.containers_to_start}
            found.append({name for name in due if pod.is_whole or name in pod.shown})
        return found[0] & found[1]

    def _actions(self, spec: Pod, statuses: Iterable[ContainerStatus]) -> PodActions:
        sandbox = SandboxStatus("sandbox", "ready", 0, "192.0.2.1", bool(spec.spec.host_network))
        status = PodStatus((sandbox,), tuple(statuses))
        return compute_pod_actions(spec, status, {}, {}, self.context.known_profile.kuberuntime)

    def _goes_at_once(self, sync: _Sync, names: set[str]) -> bool:
        """Neither pull nor hook holds up a sync: of these only events tell while they last.

        An image is there while the newest instance of a container, ended or not, has it.
        """
        shown = [entry for pod in self._pods.values() for entry in pod.shown.items()]
        lists = [(name, self.context.pods.of(each.record)) for name, each in shown]
        used = {image_of(listed, name) for name, listed in lists if listed is not None}
        specs, names = versions_of((sync.listed,)), names | {*sync.pod.shown}
        return bool(specs) and all(
            each.image in used and each.image_pull_policy in _KEPT and not each.hook("post_start")
            for each in specs[0].containers
            if each.name in names
        )

    def _owe(self, sync: _Sync, name: str, due: set[str]) -> None:
        """A start is owed, behind those due; not where a list shows one that no line does."""
        record, body, before = sync.record, sync.body, sync.pod.shown.get(name)
        due_ns = self._due_ns(record.ts_ns)
        for container_id, each in self.context.instances.of_pod(sync.key).items():
            other = before is None or before.container_id != container_id
            if each.name == name and other and each.seen_ns > record.ts_ns:
                return
        goes = before is not None or self._goes_at_once(sync, due)
        why = f"container {name} is the next to start"
        if before is not None:
            why = f"container {name} ended by {format_ts(before.record.ts_ns)}"
            why += " and is to be started again"
        debt = Debt(
            since=record,
            of_pod=True,
            due_ns=due_ns,
            shown_by=ContainerStarted if goes else KubernetesEvent,
            kind=(ContainerStarted if before is None else ContainerRestarted).kind,
            subject=f"container/{body.namespace}/{body.pod}/{name}",
            expected={"container": name},
            why=f"{why}, and nothing is recorded of it, nor of what would hold it up, "
            f"for {(due_ns - record.ts_ns) // NS_PER_S} s",
            rule=self.rule,
            inputs=(record.seq, sync.listed.seq),
        )
        self.context.debts.owe((_SYNC, sync.key, name), debt)

    # -- order -------------------------------------------------------------------------------

    def _judge_first(self, sync: _Sync) -> None:
        """An init container ends well, or a sidecar starts, before a later container is started.

        Nor does one that ended well run again beside the pod's own containers.
        """
        record, body, name = sync.record, sync.body, sync.body.container or ""
        timeline, times, init = self.context.timeline, self.context.times, sync.inits.get(name)
        history = timeline.of(record)
        boxes = [r for r in history.runs if r.name is None and r.is_started(record)]
        if not boxes or boxes[-1].is_dead(record):
            return
        apart, since_ns = times.apart, boxes[-1].started_ns or 0
        is_end = isinstance(body, ContainerDied)
        runs = [r for r in history.runs if not apart(r.started_ns or r.died_ns or 0, since_ns)]
        self._judge_failed(sync, runs)
        if init is None or timeline.is_found(record.ts_ns, since_ns):
            return
        is_sidecar, until_ns = init.restart_policy == ALWAYS, 0
        mine = [r for r in runs if r.name == name and (r.is_started(record) or r.is_dead(record))]
        after = (*sync.inits, *sync.own)[[*sync.inits].index(name) + 1 :]
        if any(is_sidecar or (run.is_dead(record) and not run.exit_code) for run in mine):
            until_ns = record.ts_ns + max(times.late(record.ts_ns), _SOON_NS)
            after = () if is_end else tuple(sync.own)
            runs = history.ran(until_ns)
        later = [
            (run.started_ns, run.started_seq, run.name or "")
            for run in runs
            if run.name in after and run.started_ns and apart(run.started_ns, record.ts_ns)
            if not timeline.is_found(run.started_ns, since_ns)
        ]
        # A sidecar runs again at any time; since when one ran whose end alone is told nobody knows.
        if not later or (is_sidecar and (until_ns or is_end)):
            return
        first_ns, seq, other = min(later)
        is_again = not until_ns and self.context.instances.count(body.container_id)
        lost = self.context.coverage.missing(since_ns, max(first_ns, until_ns))
        if lost is None and not is_again and self._is_whole(since_ns, body):
            self._deny(sync, (seq, other), (record.seq, name), "ends" if is_end else "starts")

    def _judge_failed(self, sync: _Sync, runs: Iterable[ContainerRun]) -> None:
        """Nothing follows on an init container that failed for good."""
        record, name = sync.record, sync.body.container or ""
        run = next((run for run in runs if run.container_id == sync.body.container_id), None)
        if run is None or run.is_started(record):
            return  # it was said then
        for init in takewhile(lambda each: each.name != name, sync.inits.values()):
            ended = [run for run in runs if run.name == init.name and run.is_dead(record)]
            policies = {init.restart_policy or spec.spec.restart_policy for spec in sync.specs}
            if ended and ended[-1].exit_code and policies == {NEVER}:
                other = ended[-1].died_seq, init.name
                self._deny(sync, (record.seq, name), other, "failed for good")
                return

    def _deny(
        self, sync: _Sync, started: tuple[int, str], init: tuple[int, str], does: str
    ) -> None:
        one, other = f"container {started[1]}", f"init container {init[1]}"
        sides = (started[0], f"{one} had started"), (init[0], f"{other} {does}")
        why, about = f"{one} waits for {other}", subject_of(sync.body)
        self.context.contradict(sync.record.ts_ns, about, why, *sides, by_absence=True)


def _is_made_with(made: tuple[str, int], body: PodListed, shown: _Shown, now: str) -> bool:
    """Whether an instance has the image that was pulled before it; its status names it, too.

    A status alone may have any name of an image, and a log may leave out digests.
    """
    names = {made[0], f"docker.io/{made[0]}", f"docker.io/library/{made[0]}"}
    told = {bare_id(e.get("containerID")): e.get("image") for e in statuses_in(body.status)}
    is_told = told.get(shown.container_id) in names
    return is_told and made[1] < shown.record.seq and "@" not in now


def _statuses(spec: Pod, pod: _SyncedPod, code: int) -> list[ContainerStatus]:
    """What the runtime lists, with one exit code where none is known.

    Of a pod that was not seen from its beginning, what had to come before was there.
    """
    found = []
    for container in (*(spec.spec.init_containers or ()), *(spec.spec.containers or ())):
        name, shown = container.name, pod.shown.get(container.name)
        if shown is not None:
            exit_code = code if shown.exit_code is None else shown.exit_code
            state: ContainerState = RUNNING if shown.runs else EXITED
            found.append(ContainerStatus(shown.container_id, name, state, exit_code))
        elif not pod.is_whole:
            is_init = container in (spec.spec.init_containers or ())
            state = EXITED if is_init and container.restart_policy != ALWAYS else RUNNING
            found.append(ContainerStatus(name, name, state))
    return found


def _specs(versions: Iterable[ListedPod]) -> list[Pod]:
    """The pod's versions as a sync sees them, without what resizes it.

    None where the rules of a container may change what becomes of the others.
    """
    found = []
    for listed in versions:
        try:
            pod = listed.as_(Pod)
        except msgspec.ValidationError:
            return []
        own, inits = _bare(pod.spec.containers), _bare(pod.spec.init_containers)
        if any(c.restart_policy_rules for c in (*own, *inits)):
            return []
        policy = pod.spec.restart_policy or ALWAYS
        bare = replace(pod.spec, resources=None, restart_policy=policy)
        bare = replace(bare, containers=own, init_containers=inits)
        if bare not in found:
            found.append(bare)
    return [Pod(pod.metadata, each) for each in found]


def _bare(containers: tuple[Container, ...] | None) -> tuple[Container, ...]:
    return tuple(replace(c, resources=None, resize_policy=None) for c in containers or ())
