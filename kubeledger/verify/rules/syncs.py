"""What a pod's syncs owe, and in which order they start containers.

After each start and end of a container the kubelet's own ``computePodActions`` says what the next
sync has to start. That is owed. What says that it failed or has to wait defers it; what ends
the pod makes it void. The same function forbids what no sync would have started: a container while
an init container that has to come first is still to run, or after one that failed for good.

Starts and ends of one pod come out of the PLEG in the order of its relists, late as they may be:
who is shown to start ran when the others of that relist did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.kubelet.kube.statuses import ALWAYS
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
    PodConfigChanged,
    PodListed,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeTroubled, PodStageFailed
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import RuleVerifier
from kubeledger.verify.context import See, VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.evidence.container_specs import image_of, versions_of
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.times import FOUND_NS
from kubeledger.verify.rules.back_off import policy_of
from kubeledger.verify.rules.containers import key_for, subject_of

_SYNC, _ORDER, _CHANGED = "sync", "order", "changed"
_KILLED_NS: Final = 180 * NS_PER_S
"""A sync comes at once with a change, and kills before it does anything else."""
_TERM_NS: Final = 600 * NS_PER_S
"""So long after its back-off a start is not delayed without a line that says why."""
_RELIST_NS: Final = NS_PER_S
_SOON_NS: Final = 6 * NS_PER_S
_BATCH_NS: Final = 20 * NS_PER_S
"""The lines of one relist stand so near to each other; the latter even on an overloaded node."""
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
    body: ContainerStarted | ContainerDied
    key: str
    pod: _SyncedPod
    listed: ListedPod
    specs: list[Pod]


class SyncVerifier(RuleVerifier):
    """Says which starts did not come, and which came out of order; it judges no decision."""

    rule = "pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions"

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._pods: dict[str, _SyncedPod] = {}
        self._updated: dict[str, int] = {}
        # ID of a container that runs -> its image, and the list that shows that
        self._images: dict[str, tuple[str, int]] = {}

    def derive(self, state: NodeState) -> None:
        for key in self.context.gone:
            self._pods.pop(key, None)
            self._updated.pop(key, None)

    def sees(self) -> Mapping[type[Body], See]:
        says = (RestartBackedOff, PodStageFailed, KubernetesEvent)
        return {
            **dict.fromkeys(says, self._deferred),
            ContainerDied: self._died,
            ContainerKilled: self._killed,
            ContainerStarted: self._started,
            KubeletStarted: lambda record, body, state: self._pods.clear(),
            PodListed: self._listed,
            NodeTroubled: lambda record, body, state: self.context.debts.defer(
                _SYNC, due_ns=self._due_ns(record.ts_ns)
            ),
            PodConfigChanged: self._config_changed,
        }

    # -- pods --------------------------------------------------------------------------------

    def _forget(self, key: str) -> None:
        self._pods.pop(key, None)
        for whole in (_SYNC, _ORDER, _CHANGED):
            self.context.debts.void(whole, key)

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        if body.operation == "UPDATE":
            self._updated[key_for(state, body)] = record.ts_ns

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        key = key_for(state, body)
        if body.listed_by == "kubelet" and self.context.timeline.goes_on(record, record.ts_ns):
            self._owe_changes(record, body, self._pods.get(key, _SyncedPod(is_whole=False)), key)

    def _owe_changes(self, record: Record, body: PodListed, pod: _SyncedPod, key: str) -> None:
        """A container that a list shows with another image than one before it is killed."""
        listed = self.context.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        spec = next(iter(versions_of(() if listed is None else (listed,))), None)
        for name, shown in pod.shown.items() if spec is not None else ():
            entry = None if spec is None else spec.container(name)
            if spec is None or entry is None or entry.image is None or not shown.runs:
                continue
            now = entry.image
            before, seq = self._images.setdefault(shown.container_id, (now, record.seq))
            if before == now or not spec.is_app(name):
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

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        key = key_for(state, body)
        if body.container is not None:
            self.context.debts.pay((_CHANGED, key, body.container))
            self._images.pop(body.container_id or "", None)

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
        key = key_for(state, body)
        if body.sandbox or (body.sandbox is None and body.container is None):
            before = self._pods.get(key, _SyncedPod(is_whole=False)).shown
            self._forget(key)
            # One relist shows a sandbox and what runs in it in any order.
            own = {n: e for n, e in before.items() if e.record.ts_ns > record.ts_ns - _RELIST_NS}
            self._pods[key] = _SyncedPod(self._is_new(record, body), own)
        elif body.container is not None:
            self._show(record, body, key, _Shown(record, body.container_id))

    def _is_new(self, record: Record, body: ContainerStarted) -> bool:
        """Whether the pod is not older than the kubelet, which so has started all of it."""
        who, process = (body.pod_uid, body.namespace, body.pod), self.context.process
        interval = self.context.timeline.interval(record.ts_ns, *who)
        if process is None or interval is None or interval.added_ns is None:
            return False
        made_ns = self.context.timeline.pods[interval.key].created_ns
        if made_ns is None:
            return interval.added_ns > process.started_ns + FOUND_NS
        return made_ns >= process.started_ns - _STAMPS_NS

    def _died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        key = key_for(state, body)
        if body.sandbox is not False and (body.sandbox or body.container is None):
            self._forget(key)
        elif body.container is not None:
            shown = _Shown(record, body.container_id, body.exit_code, runs=False)
            self._show(record, body, key, shown)

    def _show(
        self, record: Record, body: ContainerStarted | ContainerDied, key: str, shown: _Shown
    ) -> None:
        """An instance starts or ends: what was owed is paid, and something else is owed."""
        assert body.container is not None
        pod = self._pods.setdefault(key, _SyncedPod(is_whole=False))
        before, pod.shown[body.container] = pod.shown.get(body.container), shown
        if before is None or before.container_id != shown.container_id or shown.runs:
            self.context.debts.pay((_SYNC, key, body.container))
        self.context.debts.pay((_ORDER, key, body.container))
        self.context.debts.pay((_CHANGED, key, body.container))
        listed = self.context.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        specs = [] if listed is None else _specs(self.context.pods.versions(listed))
        if shown.runs and pod.is_whole and listed is not None:
            image, seen_ns = image_of(listed, body.container), listed.ts_ns
            if image is not None and self._updated.get(key, 0) <= seen_ns <= record.ts_ns:
                self._images.setdefault(shown.container_id, (image, listed.seq))
        if not shown.runs:
            self._images.pop(shown.container_id, None)
        if self.context.profile is None or not specs or listed is None:
            return
        if not self.context.timeline.goes_on(record, record.ts_ns):
            return
        sync = _Sync(record, body, key, pod, listed, specs)
        self._judge_order(sync, is_first=before is None)
        if any(each.spec.active_deadline_seconds is not None for each in specs):
            return
        starts = [self._starts(spec, pod) for spec in specs]
        for name in sorted(set.intersection(*starts)):
            self._owe(sync, name)

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
        assert self.context.profile is not None
        sandbox = SandboxStatus("sandbox", "ready", 0, "192.0.2.1", bool(spec.spec.host_network))
        status = PodStatus((sandbox,), tuple(statuses))
        return compute_pod_actions(spec, status, {}, {}, self.context.profile.kuberuntime)

    def _owe(self, sync: _Sync, name: str) -> None:
        """A start is owed; not where a list shows one that no line does."""
        record, body, before = sync.record, sync.body, sync.pod.shown.get(name)
        due_ns = self._due_ns(record.ts_ns)
        for container_id, each in self.context.instances.of_pod(sync.key).items():
            other = before is None or before.container_id != container_id
            if each.name == name and other and each.seen_ns > record.ts_ns:
                return
        shown_by: type[Body] = KubernetesEvent
        why = f"container {name} is the next to start"
        if before is not None:
            shown_by = ContainerStarted
            why = f"container {name} ended by {format_ts(before.record.ts_ns)}"
            why += " and is to be started again"
        debt = Debt(
            since=record,
            of_pod=True,
            due_ns=due_ns,
            shown_by=shown_by,
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

    def _judge_order(self, sync: _Sync, *, is_first: bool) -> None:
        """Init containers come first, and one that fails for good lets nothing follow.

        A sidecar may start again while the others run, but not (``is_first``) for the first time.
        What came after one in their order shows that this had ended well.
        """
        record, body, pod, profile = sync.record, sync.body, sync.pod, self.context.profile
        assert profile is not None
        own = {c.name for spec in sync.specs for c in spec.spec.containers or ()}
        inits = {c.name: c for spec in sync.specs for c in spec.spec.init_containers or ()}
        ran = [each for name, each in pod.shown.items() if name in own]
        names, init = list(inits), inits.get(body.container or "")
        at = len(names) if init is None else names.index(init.name)
        later = [pod.shown[n] for n in names[at + 1 :] if n in pod.shown and not ran and is_first]
        # Old kubelets run an init container again whose remains were removed.
        strict = pod.is_whole or profile.kuberuntime.running_app_initialized
        if not (ran or later) or not inits or not strict:
            return
        if ran and (failed := self._failed_for_good(pod, sync.specs)) is not None:
            one, other = (getattr(each.record.body, "container", "") for each in (ran[0], failed))
            why = f"container {one} is not started after init container {other} failed for good"
            started = ran[0].record.seq, f"container {one} started"
            sides = started, (failed.record.seq, f"container {other} failed for good")
            self.context.contradict(record.ts_ns, subject_of(body), why, *sides)
            return
        running = next((each for each in (*ran, *later) if each.runs or not ran), None)
        if init is None or running is None or not isinstance(body, ContainerStarted):
            return
        is_new = is_first and pod.is_whole
        told_ns = self.context.times.told(record.ts_ns).from_ns
        if init.restart_policy == ALWAYS and not (is_new and running.record.ts_ns < told_ns):
            return
        name = getattr(running.record.body, "container", "")
        ran_first = running.record.seq, f"container {name} had started"
        near_ns = _BATCH_NS if self.context.times.late(record.ts_ns) else _SOON_NS
        debt = Debt(
            since=record,
            of_pod=True,
            due_ns=record.ts_ns + near_ns,
            shown_by=ContainerStarted,
            subject=subject_of(body),
            why=f"init container {body.container} runs only before container {name}",
            disputed=(ran_first, (record.seq, f"init container {body.container} starts")),
        )
        self.context.debts.owe((_ORDER, sync.key, name), debt)

    def _failed_for_good(self, pod: _SyncedPod, specs: list[Pod]) -> _Shown | None:
        """The init container after whose end no sync starts anything."""
        for spec in specs:
            inits = [c.name for c in spec.spec.init_containers or ()]
            ended = [n for n, e in pod.shown.items() if n in inits and not e.runs]
            if not ended or not pod.shown[ended[-1]].exit_code:
                return None
            until = inits[: inits.index(ended[-1]) + 1]
            first = _SyncedPod(True, {n: e for n, e in pod.shown.items() if n in until})
            actions = self._actions(spec, _statuses(spec, first, 0))
            if actions.init_containers_to_start or actions.containers_to_start:
                return None
            if not actions.kill_pod:
                return None
        return pod.shown[ended[-1]]


def _statuses(spec: Pod, pod: _SyncedPod, code: int) -> list[ContainerStatus]:
    """What the runtime lists, with one exit code where none is known.

    Of a pod that was not seen from its beginning, what had to come before was there.
    """
    found = []
    sidecars = {c.name for c in spec.spec.init_containers or () if c.restart_policy == ALWAYS}
    for container in (*(spec.spec.init_containers or ()), *(spec.spec.containers or ())):
        name, shown = container.name, pod.shown.get(container.name)
        if shown is not None:
            exit_code = code if shown.exit_code is None else shown.exit_code
            state: ContainerState = RUNNING if shown.runs else EXITED
            found.append(ContainerStatus(shown.container_id, name, state, exit_code))
        elif not pod.is_whole:
            state = EXITED if container in (spec.spec.init_containers or ()) else RUNNING
            state = RUNNING if name in sidecars else state
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
        spec = pod.spec
        every = (*(spec.containers or ()), *(spec.init_containers or ()))
        if any(c.restart_policy_rules for c in every):
            return []
        own, inits = _bare(spec.containers), _bare(spec.init_containers)
        policy = spec.restart_policy or ALWAYS
        bare = replace(
            spec, containers=own, init_containers=inits, resources=None, restart_policy=policy
        )
        if bare not in found:
            found.append(bare)
    return [Pod(pod.metadata, each) for each in found]


def _bare(containers: tuple[Container, ...] | None) -> tuple[Container, ...] | None:
    if containers is None:
        return None
    return tuple(replace(c, resources=None, resize_policy=None) for c in containers)
