"""The graceful shutdown of the node: whom the kubelet owes an end, when, and with how much time.

The manager stops the pods of one priority together, and goes on to the next when all have ended,
or their time is over. Meanwhile it lets no pod in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeledger.kubelet.lifecycle.termination import (
    ShutdownGroup,
    shutdown_grace_s,
    shutdown_group,
    shutdown_groups,
)
from kubeledger.kubelet.preemption.preemption import kill_wait_s
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    PodAdmitted,
    PodTerminated,
    PodTerminating,
)
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted, ShutdownProgressed
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import RuleVerifier
from kubeledger.verify.context import See, VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.rules.containers import subject_of
from kubeledger.verify.variant import UNKNOWN

_SHUTDOWN: Final = "shutdown"
_STOP: Final = (_SHUTDOWN, "stop")
_SETTINGS: Final = (
    "shutdownGracePeriodByPodPriority",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
)
_LATE_NS: Final = 15 * NS_PER_S
"""A turn of the manager may come so late, and an end may be told so late."""
_AT_ONCE_NS: Final = 2 * NS_PER_S


class ShutdownVerifier(RuleVerifier):
    """Holds what is stopped and let in against the order of the shutdown; it judges no decision."""

    rule = "pkg/kubelet/nodeshutdown managerImpl.processShutdownEvent"

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._began: Record | None = None
        # Pod -> its group, until when it is waited for, the record and its subject
        self._stopped: dict[str, tuple[int, int, Record, str]] = {}

    def sees(self) -> Mapping[type[Body], See]:
        return {
            KubeletStarted: lambda record, body, state: self._restart(),
            ClockStepped: lambda record, body, state: self._restart(),
            ShutdownProgressed: self._progressed,
            PodTerminating: self._terminating,
            ContainerDied: self._died,
            PodTerminated: self._terminated,
            PodAdmitted: self._admitted,
        }

    def _restart(self) -> None:
        self._began = None
        self._stopped.clear()
        self.context.debts.void(_SHUTDOWN)

    def _progressed(self, record: Record, body: ShutdownProgressed, state: NodeState) -> None:
        if body.step == "completed":
            self.context.debts.fall_due(*_STOP, now_ns=record.ts_ns)
        if body.step in ("cancelled", "completed"):
            self._restart()
        elif self._began is None:
            self._begin(record)
        elif body.step == "detected" and isinstance(stop := self._began.body, PodTerminating):
            began, why = self._began, "no pod is stopped for a shutdown that is still to come"
            sides = (began.seq, "it is stopped"), (record.seq, "the shutdown is detected")
            if record.ts_ns > began.ts_ns + _AT_ONCE_NS:
                self.context.contradict(
                    began.ts_ns, subject_of(stop), why, *sides, by_absence=True, by_lines=True
                )

    def _groups(self) -> tuple[ShutdownGroup, ...]:
        """Those of this kubelet; none where its settings are not known."""
        settings, profile = self.context.settings, self.context.profile
        given = {name: settings.get(name) for name in _SETTINGS}
        if profile is None or settings.variant.settings or given["shutdownGracePeriod"] is UNKNOWN:
            return ()
        known = {name: value for name, value in given.items() if value is not UNKNOWN}
        try:
            return shutdown_groups(known, profile.lifecycle)
        except (ValueError, TypeError):
            return ()

    def _group(self, listed: ListedPod | None) -> tuple[int, int] | None:
        """A pod's group and its seconds; None where that is not known."""
        spec, groups = None if listed is None else listed.pod, self._groups()
        if spec is None or not groups or self.context.profile is None:
            return None
        index = shutdown_group(groups, spec, self.context.profile.lifecycle)
        return index, shutdown_grace_s(groups[index], spec)

    def _begin(self, record: Record) -> None:
        """Every active pod that does not end yet is owed its end, when its turn comes."""
        self._began = record
        groups, ts_ns = self._groups(), record.ts_ns
        for pod in self.context.timeline.active(ts_ns, ts_ns).must.values():
            ends_ns = pod.deleted_ns or pod.end_decided_ns
            found = self._group(self.context.pods.at(ts_ns, pod.uid, pod.namespace, pod.name))
            is_odd = self.context.times.stepped(pod.since_ns, ts_ns)  # its end may stand before it
            if found is None or is_odd or (ends_ns is not None and ends_ns <= ts_ns):
                continue
            wait_s = sum(group.seconds for group in groups[: found[0]])
            debt = Debt(
                since=record,
                due_ns=ts_ns + wait_s * NS_PER_S + _LATE_NS,
                shown_by=PodTerminating,
                kind=PodTerminating.kind,
                subject=f"pod/{pod.full_name}",
                expected={"reason": "shutdown", "grace_period_s": found[1]},
                why=f"the node shuts down since {format_ts(ts_ns)}, and pod {pod.full_name} had to "
                f"be stopped within {wait_s} s",
                rule=self.rule,
                inputs=(record.seq, pod.seq),
                by_lines=True,
            )
            self.context.debts.owe((*_STOP, pod.key), debt)

    def _terminating(self, record: Record, body: PodTerminating, state: NodeState) -> None:
        key = body.pod_uid or ""
        if body.reason == _SHUTDOWN and self._began is None:
            self._begin(record)
        self.context.debts.pay((*_STOP, key))
        found = self._group(self.context.pods.of(record))
        if body.reason != _SHUTDOWN or found is None or self._began is None:
            return
        index, grace_s = found
        seq = self.context.settings.seq or 0
        if body.grace_period_s is not None and body.grace_period_s > grace_s:
            why = f"the shutdown gives pod {body.namespace}/{body.pod} no more than {grace_s} s"
            given = record.seq, f"its worker gives it {body.grace_period_s} s"
            sides = given, (seq, f"its priority and the settings give it {grace_s} s")
            self.context.contradict(record.ts_ns, subject_of(body), why, *sides, by_lines=True)
        waits_ns = min(self._groups()[index].seconds, kill_wait_s(grace_s)) * NS_PER_S
        self._stopped[key] = index, record.ts_ns + waits_ns, record, subject_of(body)

    def _died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        """A turn comes when the pods of lower priorities have ended, or are waited for no more."""
        if (stopped := self._stopped.get(body.pod_uid or "")) is None:
            return
        index, ran_ns, since, _ = stopped
        # Before 1.23 critical pods wait until the period of the others is over.
        if self.context.known_profile.lifecycle.shutdown_groups_in_turn:
            ran_ns = min(ran_ns, self.context.times.told(record.ts_ns).from_ns)
        for other, _until_ns, stop, about in self._stopped.values():
            if other > index and stop.ts_ns + _AT_ONCE_NS < ran_ns:
                why = "pods of a higher priority are stopped when all others have ended"
                first = since.seq, "a pod of a lower priority is stopped"
                sides = first, (stop.seq, "this pod is"), (record.seq, "the other ran on")
                self.context.contradict(stop.ts_ns, about, why, *sides, by_lines=True)

    def _terminated(self, record: Record, body: PodTerminated, state: NodeState) -> None:
        self._stopped.pop(body.pod_uid or "", None)
        self.context.debts.pay((*_STOP, body.pod_uid or ""))

    def _admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        began, interval = self._began, self.context.timeline.interval_of(record)
        came_ns = None if interval is None else interval.added_ns
        if began is None or came_ns is None or came_ns < began.ts_ns + _AT_ONCE_NS:
            return
        name = f"{body.namespace}/{body.pod}"
        why = f"no pod is let in while the node shuts down, and pod {name} came meanwhile"
        since = began.seq, f"the node shuts down since {format_ts(began.ts_ns)}"
        sides = since, (record.seq, f"pod {name} is admitted")
        self.context.contradict(record.ts_ns, f"pod/{name}", why, *sides, by_lines=True)
