"""The rule of devices and topology: which record goes where.

The device manager gives a container free healthy devices, those of the pod's init containers
and of its NUMA affinity first; refuses in words that count; gives back what pods hold that are
not active any more. Memory and checkpoint restore it at a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kubeledger.devicemanager.records import (
    AllocationFailed,
    AllocationRequested,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.lifecycle.records import (
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodRejected,
)
from kubeledger.machine import Body, Decision, Record
from kubeledger.node.records import KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.topologymanager.records import AffinityDecided, HintsGenerated
from kubeledger.verify.belief import RuleVerifier
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.activity import is_active
from kubeledger.verify.rules.devices import releases
from kubeledger.verify.rules.devices.checkpoints import Checkpoints
from kubeledger.verify.rules.devices.desk import Desk
from kubeledger.verify.rules.devices.foresight import all_ids, when_of
from kubeledger.verify.rules.devices.grants import RULE, Grants, recorded
from kubeledger.verify.rules.devices.holdings import Held
from kubeledger.verify.rules.devices.lists import When
from kubeledger.verify.rules.devices.refusals import Refusals, rule_of
from kubeledger.verify.rules.topology import Affinities
from kubeledger.verify.verifier import Foresee, See

__all__ = ["DeviceRule"]


class DeviceRule(RuleVerifier):
    """Device manager and topology manager, decided again."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        DevicesAllocated,
        AllocationFailed,
        DevicesReleased,
        AffinityDecided,
    )
    rule = RULE

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._desk = Desk(bench)
        self._checkpoints = Checkpoints(self._desk)
        self._grants = Grants(self._desk)
        self._refusals = Refusals(self._desk)
        self._affinities = Affinities(self._desk)
        self._ready = False
        self._holes: list[tuple[int, int]] = []

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Lists, checkpoints, and what is known late."""
        foresight = self._desk.foresight
        return dict.fromkeys(foresight.kinds, foresight.note)

    def sees(self) -> Mapping[type[Body], See]:
        """Decisions, and what they rest on."""
        sees: dict[type[Body], See] = {
            AffinityDecided: self._decided,
            AllocationFailed: self._failed,
            AllocationRequested: self._asked,
            CheckpointRead: self._checkpoint_read,
            ContainerStarted: self._container_started,
            DevicesAllocated: self._allocated,
            DevicesReleased: self._released,
            DevicesReported: self._checkpoints.reported,
            HintsGenerated: self._affinities.offered,
            KubeletStarted: self._kubelet_started,
            PodAdmitted: self._admitted,
            PodConfigChanged: self._config_changed,
            PodRejected: self._rejected,
        }
        return {kind: self._prepared(see) for kind, see in sees.items()}

    def _prepared(self, see: See) -> See:
        def prepared(record: Record, body: Body, state: NodeState) -> None:
            self._begin(record)
            see(record, body, state)

        return prepared

    def _begin(self, record: Record) -> None:
        """Before each record: see to holes in the log, and to what is before the first one."""
        desk = self._desk
        foresight, holdings = desk.foresight, desk.holdings
        if not self._ready:
            self._ready = True
            desk.log_began_ns = record.ts_ns
            foresight.settle()
            self._holes = list(foresight.lists.holes)
            for holder, (_, seq), body in foresight.late_grants():
                if holder[0] not in foresight.added:
                    holdings.take(holder, Held(frozenset(body.device_ids), seq, certain=False))
        elif self._holes and record.ts_ns >= self._holes[0][1]:
            # Lines are missing before this one: grants and releases may be among them.
            del self._holes[0]
            when = when_of(record)
            for holder, held in holdings:
                shown = foresight.still_holds(holder, held.devices, when)
                held.certain = held.certain and shown
            desk.log_began_ns = record.ts_ns
            self._log_begins(when)

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        desk, when = self._desk, when_of(record)
        desk.requests.clear()
        desk.affinities.clear()
        self._affinities.restarted()
        desk.holdings.clear()
        desk.holdings.run += 1
        desk.log_began_ns = 0 if body.from_start else record.ts_ns
        if body.from_start:
            # What it restores from its checkpoint is told at the verbosity of device lists.
            desk.holdings.complete = desk.foresight.lists.tells_lists(when)
        else:
            self._log_begins(when)

    def _log_begins(self, when: When) -> None:
        """The log begins within a process: what was held then shows in the next checkpoint."""
        desk = self._desk
        foresight, holdings = desk.foresight, desk.holdings
        read = foresight.shows_all(when)
        holdings.complete = read is not None
        for holder, (ts_ns, seq), body in foresight.late_grants() if read is not None else ():
            if foresight.added.get(holder[0], (-1, 0)) < when:
                shown = read is not None and ts_ns <= read[0]  # else granted nobody knows when
                if shown or holdings.get(holder) is None:
                    holdings.take(holder, Held(frozenset(body.device_ids), seq, certain=shown))

    def _decided(self, record: Record, body: AffinityDecided, state: NodeState) -> None:
        self._affinities.decided(self, record, body, state)
        if body.admit is not False:
            pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
            self._grants.shown_later(record, pod, body.container, state)

    def _asked(self, record: Record, body: AllocationRequested, state: NodeState) -> None:
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        self._desk.ask(record, (pod, body.container, body.resource), body.needed)
        self._grants.shown_later(record, pod, body.container, state)

    def _allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> None:
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        name = f"{body.namespace}/{body.pod}" if body.pod else self._desk.name(state, pod)
        found = self._grants.allocated(record, body, state)
        told = recorded(body, found) if found.verdict != "unverifiable" else None
        self.conclude(record, f"container/{name}/{body.container}", found, recorded=told)

    def _failed(self, record: Record, body: AllocationFailed, state: NodeState) -> None:
        found, subject = self._refusals.failed(record, body, state)
        told = None
        if found.verdict != "unverifiable":
            fields = found.expected if found.expected is not None else {"error": None}
            told = {name: getattr(body, name) for name in fields}
        self.conclude(record, subject, found, recorded=told, rule=rule_of(body))

    def _released(self, record: Record, body: DevicesReleased, state: NodeState) -> None:
        subject = f"pod/{self._desk.name(state, body.pod_uid)}"
        found = releases.released(self._desk, record, body, state)
        told = {"pod_uid": body.pod_uid, "container": body.container, "resource": body.resource}
        self.conclude(record, subject, found, recorded=told, rule=releases.RULE)

    def _admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        self._grants.shown_later(record, pod, None, state)

    def _rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        self._desk.holdings.clear(pod)

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        """A pod is added: where requests are not logged, it may get devices unseen."""
        desk = self._desk
        lists, holdings = desk.foresight.lists, desk.holdings
        if body.operation != "ADD" or lists.tells_requests(when_of(record)):
            return
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        late = desk.foresight.late.get(pod, {})
        for holder, grants in late.items():
            (_, seq), grant = grants[0]
            if holdings.get(holder) is None:
                holdings.take(holder, Held(frozenset(grant.device_ids), seq, certain=False))
        asks = desk.asks(desk.pod(record), pod)
        for resource in lists.resources:
            asking = asks.asking(resource) if asks is not None else [""]
            if any((pod, name, resource) not in late for name in asking):
                holdings.suspect(resource, pod)

    def _container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        """A container runs: what was asked for it was granted, if also in a line that was lost."""
        desk = self._desk
        if not desk.requests or body.container is None:
            return
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        for request in list(desk.requests.values()):
            if request.holder[:2] == (pod, body.container):
                del desk.requests[request.seq]
                if desk.holdings.get(request.holder) is None:
                    desk.holdings.suspect(request.holder[2], pod)

    def _checkpoint_read(self, record: Record, body: CheckpointRead, state: NodeState) -> None:
        """What a checkpoint holds and no grant tells was granted before the records begin."""
        desk = self._desk
        if not self._checkpoints.read(record, body):
            return
        holdings = desk.holdings
        for entry in body.entries:
            holder = (entry.pod_uid, entry.container, entry.resource)
            told = desk.foresight.is_told(holder, when_of(record))
            if holdings.get(holder) is None and not told and not holdings.was_let_go(holder[0]):
                active = is_active(state, self.bench.pods, entry.pod_uid, desk.log_began_ns)[0]
                held = Held(all_ids(entry.numa), record.seq, certain=active is True)
                holdings.take(holder, held)
        holdings.complete = True
        if not desk.foresight.lists.tells_requests(when_of(record)):
            holdings.clear()
