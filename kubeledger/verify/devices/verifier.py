"""The verifier of devices and topology: which record goes where."""

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
    EndpointStopped,
)
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodRejected,
)
from kubeledger.machine import Body, Decision, Record
from kubeledger.node.records import KubeletStarted, NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.topologymanager.records import AffinityDecided, HintsGenerated
from kubeledger.verify.bench import Bench
from kubeledger.verify.devices.affinity import Affinities
from kubeledger.verify.devices.desk import Desk, when_of
from kubeledger.verify.devices.entries import Entries
from kubeledger.verify.devices.foresight import When, all_ids
from kubeledger.verify.devices.grants import Grants
from kubeledger.verify.devices.holdings import Held
from kubeledger.verify.devices.refusals import Refusals
from kubeledger.verify.devices.releases import Releases
from kubeledger.verify.devices.words import listing
from kubeledger.verify.rules.activity import is_active
from kubeledger.verify.verifier import Foresee, See, Verifier

__all__ = ["DeviceVerifier"]


class DeviceVerifier(Verifier):
    """Device manager and topology manager, decided again."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        DevicesAllocated,
        AllocationFailed,
        DevicesReleased,
        AffinityDecided,
    )

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._desk = Desk(bench)
        self._entries = Entries(self._desk)
        self._grants = Grants(self._desk)
        self._refusals = Refusals(self._desk)
        self._releases = Releases(self._desk)
        self._affinities = Affinities(self._desk)
        self._checkpoint: tuple[int, CheckpointRead] | None = None
        self._ready = False
        self._holes: list[tuple[int, int]] = []

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Lists, checkpoints, and what is known late."""
        kinds: tuple[type[Body], ...] = (
            AffinityDecided,
            AllocationRequested,
            CheckpointRead,
            ContainerDied,
            ContainerStarted,
            DevicesAllocated,
            DevicesReleased,
            DevicesReported,
            EndpointStopped,
            EvictionSignalObserved,
            HintsGenerated,
            KubeletStarted,
            NodeObserved,
            PodConfigChanged,
            PodRejected,
        )
        return dict.fromkeys(kinds, self._desk.foresight.note)

    def sees(self) -> Mapping[type[Body], See]:
        """Decisions, and what they rest on."""
        return {
            AffinityDecided: self._decided,
            AllocationFailed: self._failed,
            AllocationRequested: self._asked,
            CheckpointRead: self._checkpoint_read,
            ContainerStarted: self._container_started,
            DevicesAllocated: self._allocated,
            DevicesReleased: self._released,
            DevicesReported: self._reported,
            HintsGenerated: self._offered,
            KubeletStarted: self._kubelet_started,
            PodAdmitted: self._admitted,
            PodConfigChanged: self._config_changed,
            PodRejected: self._rejected,
        }

    def _begin(self, record: Record) -> None:
        """Before each record: see to holes in the log, and to what is before the first one."""
        if self._ready:
            if self._holes and record.ts_ns >= self._holes[0][1]:
                del self._holes[0]
                self._hole_ends(record)
            return
        self._ready = True
        self._desk.log_began_ns = record.ts_ns
        foresight = self._desk.foresight
        foresight.settle()
        self._holes = list(foresight.lists.holes)
        for pod, late in sorted(foresight.late.items()):
            if pod in foresight.added:
                continue
            for holder, grants in late.items():
                (_, seq), body = grants[0]
                self._desk.holdings.take(
                    holder, Held(frozenset(body.device_ids), seq, certain=False)
                )

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._begin(record)
        desk = self._desk
        desk.requests.clear()
        desk.affinities.clear()
        self._affinities.restarted()
        when = when_of(record)
        desk.holdings.clear_all()
        desk.holdings.run += 1
        desk.log_began_ns = 0 if body.from_start else record.ts_ns
        if body.from_start:
            # What it restores from its checkpoint is told at the verbosity of device lists.
            desk.holdings.complete = desk.foresight.lists.tells_lists(when)
        else:
            self._log_begins(when)

    def _hole_ends(self, record: Record) -> None:
        """Lines are missing before this one: grants and releases may be among them."""
        desk = self._desk
        when = when_of(record)
        for holder, held in desk.holdings:
            shown = desk.foresight.still_holds(holder, held.devices, when)
            held.certain = held.certain and shown
        desk.log_began_ns = record.ts_ns
        self._log_begins(when)

    def _log_begins(self, when: When) -> None:
        """The log begins within a process: what was held then shows in the next checkpoint."""
        desk = self._desk
        read = desk.foresight.shows_all(when)
        desk.holdings.complete = read is not None
        if read is None:
            return
        for pod, late in sorted(desk.foresight.late.items()):
            added = desk.foresight.added.get(pod)
            if added is None or added < when:
                for holder, grants in late.items():
                    (ts_ns, seq), body = grants[0]
                    shown = ts_ns <= read[0]  # else it was granted later, nobody knows when
                    if shown or desk.holdings.get(holder) is None:
                        held = Held(frozenset(body.device_ids), seq, certain=shown)
                        desk.holdings.take(holder, held)

    def _decided(self, record: Record, body: AffinityDecided, state: NodeState) -> None:
        self._begin(record)
        self._affinities.decided(record, body, state)
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        if body.admit is not False:
            self._grants.shown_later(record, pod, body.container, state)

    def _offered(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        self._begin(record)
        self._affinities.offered(record, body, state)

    def _asked(self, record: Record, body: AllocationRequested, state: NodeState) -> None:
        self._begin(record)
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        self._desk.ask(record, (pod, body.container, body.resource), body.needed)
        self._grants.shown_later(record, pod, body.container, state)

    def _allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> None:
        self._begin(record)
        self._grants.allocated(record, body, state)

    def _failed(self, record: Record, body: AllocationFailed, state: NodeState) -> None:
        self._begin(record)
        self._refusals.failed(record, body, state)

    def _released(self, record: Record, body: DevicesReleased, state: NodeState) -> None:
        self._begin(record)
        self._releases.released(record, body, state)

    def _admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        self._begin(record)
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        self._grants.shown_later(record, pod, None, state)

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        """A pod is added: where requests are not logged, it may get devices unseen."""
        self._begin(record)
        desk, when = self._desk, when_of(record)
        if body.operation != "ADD" or desk.foresight.lists.tells_requests(when):
            return
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        late = desk.foresight.late_of(pod)
        for holder, grants in late.items():
            if desk.holdings.get(holder) is None:
                (_, seq), grant = grants[0]
                held = Held(frozenset(grant.device_ids), seq, certain=False)
                desk.holdings.take(holder, held)
        listed = desk.pod(when, body.pod_uid, body.namespace, body.pod)
        asks = desk.asks(listed, pod)
        for resource in desk.foresight.lists.resources:
            asking = asks.asking(resource) if asks is not None else [""]
            if any((pod, name, resource) not in late for name in asking):
                desk.holdings.suspect(pod, resource)

    def _rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        self._begin(record)
        pod = self._desk.key(state, body.pod_uid, body.namespace, body.pod)
        self._desk.holdings.clear(pod)

    def _container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        """A container runs: what was asked for it was granted, if also in a line that was lost."""
        desk = self._desk
        if not desk.requests or body.container is None:
            return
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        for request in list(desk.requests.values()):
            if request.holder[:2] != (pod, body.container):
                continue
            del desk.requests[request.seq]
            if desk.holdings.get(request.holder) is None:
                desk.holdings.suspect(pod, request.holder[2])

    def _reported(self, record: Record, body: DevicesReported, state: NodeState) -> None:
        """A list that a checkpoint tells holds what the checkpoint holds."""
        self._begin(record)
        self._clash(record)
        if self._checkpoint is None or body.device_ids is None:
            return
        seq, checkpoint = self._checkpoint
        registered = checkpoint.registered.get(body.resource)
        if record.cause != seq or registered is None or registered == body.device_ids:
            return
        self.bench.contradict(
            record.ts_ns,
            f"device/{body.resource}",
            f"the list of {body.resource} is not that of the checkpoint it was read from",
            (seq, f"registered: {listing(registered)}"),
            (record.seq, f"devices: {listing(body.device_ids)}"),
        )

    def _checkpoint_read(self, record: Record, body: CheckpointRead, state: NodeState) -> None:
        self._begin(record)
        self._clash(record)
        if body.checksum_ok is False:
            self._unsound(record, body.checksum, "kubelet_internal_checkpoint", *self._odd(body))
            return
        self._checkpoint = (record.seq, body)
        self._entries.read(record, body)
        self._adopt(record, body, state)
        self._desk.holdings.complete = True
        if not self._desk.foresight.lists.tells_requests(when_of(record)):
            self._desk.holdings.clear_all()

    def _adopt(self, record: Record, body: CheckpointRead, state: NodeState) -> None:
        """What a checkpoint holds and no grant tells was granted before the records begin."""
        desk = self._desk
        for entry in body.entries:
            holder = (entry.pod_uid, entry.container, entry.resource)
            if desk.holdings.get(holder) is not None or desk.holdings.was_let_go(entry.pod_uid):
                continue
            if desk.foresight.is_told(holder, when_of(record)):
                continue
            certain = is_active(state, self.bench.pods, entry.pod_uid, desk.log_began_ns)[0] is True
            held = Held(all_ids(entry.numa), record.seq, certain=certain)
            desk.holdings.take(holder, held)

    def _odd(self, body: CheckpointRead) -> list[tuple[int, str]]:
        """Grants that a checkpoint which does not count tells otherwise."""
        sides = []
        for entry in body.entries:
            holder = (entry.pod_uid, entry.container, entry.resource)
            held = self._desk.holdings.get(holder)
            if held is None or held.devices is None or held.devices == all_ids(entry.numa):
                continue
            name = f"container {entry.container} of {self._desk.name_of(entry.pod_uid)}"
            got, other = listing(held.devices), listing(all_ids(entry.numa))
            sides.append((held.seq, f"{name} got {got}, and that content says {other}"))
        return sides

    def _unsound(self, record: Record, checksum: int, file: str, *odd: tuple[int, str]) -> None:
        self.bench.contradict(
            record.ts_ns,
            "node",
            f"the checksum of {file} is not that of its content, which is not relied on",
            (record.seq, f"checksum {checksum} is stored"),
            (record.seq, "its content has another checksum"),
            *odd,
        )

    def _clash(self, record: Record) -> None:
        clash = self._desk.foresight.lists.clashes.get(record.seq)
        if clash is not None:
            self.bench.contradict(
                record.ts_ns,
                f"device/{clash.resource}",
                f"the healthy devices of {clash.resource} are told in two ways",
                clash.one,
                clash.other,
                by_absence=True,
            )
