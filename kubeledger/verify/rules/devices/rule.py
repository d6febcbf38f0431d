"""The rule of devices and topology: which record goes where.

The device manager gives a container free healthy devices, those of the pod's init containers
and of its NUMA affinity first; refuses in words that count; gives back all that pods hold that are
not active any more. Memory and checkpoint restore it at a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import ClassVar, Final

from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    AllocationRequested,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodConfigChanged
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, HintsGenerated
from kubeledger.model.record import Body, Decision, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.rules.activity import came_back, is_active, let_go, lived, relied_on
from kubeledger.verify.rules.devices.evidence import Held
from kubeledger.verify.rules.devices.first_pass import Holder, all_ids, when_of
from kubeledger.verify.rules.devices.lists import SNAPSHOT_NS, When
from kubeledger.verify.rules.devices.model import RULE, Asked, found_with
from kubeledger.verify.rules.devices.worlds import joined, listing
from kubeledger.verify.rules.topology import Affinities

_RELEASE: Final = "pkg/kubelet/cm/devicemanager/manager.go UpdateAllocatedDevices"


class DeviceVerifier(Affinities):
    """Device manager and topology manager, decided again."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        DevicesAllocated,
        AllocationFailed,
        DevicesReleased,
        AffinityDecided,
    )
    rule = RULE

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._read_ns: int | None = None
        self._disputed: set[tuple[Holder, frozenset[str]]] = set()

    def prescans(self) -> Mapping[type[Body], Prescan]:
        first_pass = self.first_pass
        return dict.fromkeys(first_pass.kinds, first_pass.note)

    def derive(self, state: NodeState) -> None:
        self.first_pass.settle()

    def sees(self) -> Mapping[type[Body], See]:
        sees: dict[type[Body], See] = {
            AffinityDecided: self.decided,
            AllocationFailed: self.failed,
            AllocationRequested: self._asked,
            CheckpointRead: self._checkpoint_read,
            DevicesAllocated: self.allocated,
            DevicesReleased: self._released,
            DevicesReported: self._reported,
            HintsGenerated: self.offered,
            KubeletStarted: self._kubelet_started,
            PodAdmitted: self.shown_later,
            PodConfigChanged: self._config_changed,
        }
        return {kind: self._prepared(see) for kind, see in sees.items()}

    def _prepared(self, see: See) -> See:
        def prepared(record: Record, body: Body, state: NodeState) -> None:
            self._begin(record)
            see(record, body, state)

        return prepared

    def _begin(self, record: Record) -> None:
        """Before each record: in a hole of the log before it may be grants and releases."""
        when = when_of(record)
        if self._read_ns is None:
            self.log_began_ns = self._read_ns = record.ts_ns
        hole = self.context.coverage.hole(self._read_ns, record.ts_ns)
        if hole is not None and hole[1] <= record.ts_ns:
            self._read_ns = hole[1]
            for holder, held in self.holdings:
                held.certain &= self.first_pass.still_holds(holder, held.devices, when)
            self._log_begins(when)

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        when = when_of(record)
        self.requests.clear()
        self.restarted()
        self.holdings.run += 1
        self.log_began_ns = 0
        if body.from_start:
            # What it restores from its checkpoint is logged at the verbosity of device lists.
            self.holdings.complete = self.first_pass.lists.logs_lists(when)
        else:
            self._log_begins(when)

    def _log_begins(self, when: When) -> None:
        """The log begins within a process: what was held then shows in the next checkpoint."""
        self.log_began_ns = when[0]
        read = self.first_pass.shows_all(when)
        self.holdings.complete = read is not None
        late = sorted(self.first_pass.late.items()) if read is not None else ()
        for holder, grants in chain.from_iterable(of.items() for _, of in late):
            (ts_ns, seq), body = grants[0]
            if self.first_pass.added.get(holder[0], (-1, 0)) < when:
                is_read = read is not None and ts_ns <= read[0]  # else granted nobody knows when
                if is_read or self.holdings.get(holder) is None:
                    held = Held(frozenset(body.device_ids), seq, certain=is_read)
                    self.holdings.take(holder, held)

    def _asked(self, record: Record, body: AllocationRequested, state: NodeState) -> None:
        holder = (self.key(record, state), body.container, body.resource)
        self.requests[record.seq] = Asked(record.seq, holder, body.needed)
        self.shown_later(record, body, state)

    def _released(self, record: Record, body: DevicesReleased, state: NodeState) -> None:
        found = self._judge_release(record, body, state)
        if found.verdict != "impossible":
            self.holdings.release(body.pod_uid, body.container, body.resource)
        elif found.expected is not None:  # a part is logged where all goes
            self.holdings.release(body.pod_uid)
        reported = {"pod_uid": body.pod_uid, "container": body.container, "resource": body.resource}
        subject = self.subject(record, body.pod_uid, None)
        self.conclude(record, subject, found, recorded=reported, rule=_RELEASE)

    def _judge_release(self, record: Record, body: DevicesReleased, state: NodeState) -> Judgement:
        """What a living pod holds, it keeps; what any other one holds goes back all at once."""
        pod, when = body.pod_uid, when_of(record)
        held = {holder: held for holder, held in self.holdings if holder[0] == pod}
        seqs = tuple(sorted(each.seq for each in held.values()))
        is_part = body.container is not None or body.resource is not None
        active = self.context.timeline.active(record.ts_ns, record.ts_ns + SNAPSHOT_NS)
        if body.inferred and pod in active.must and not came_back(self.context, pod):
            gone = (
                h for h in held if body.container in (None, h[1]) and body.resource in (None, h[2])
            )
            for holder in sorted(gone):  # the checkpoint that shows it lacks them
                self._compare(record, frozenset(), holder)
        keeps = any(self.first_pass.surely_holds(h, has.devices, when) for h, has in held.items())
        keeps = keeps if held else lived(self.context, pod, record.ts_ns)
        found = let_go(self.context, state, pod, keeps=keeps, since_ns=self.log_began_ns)
        if found.verdict == "impossible":
            return found_with(found, seqs)
        expected = {"pod_uid": pod, "container": None, "resource": None}
        if is_part and held and not body.inferred:
            why = "the device manager releases all that a pod holds at once, never a part"
            return same(False, why, expected=expected, inputs=seqs)
        if not held and self._asks_for_none(record, pod, state):
            why = "the device manager releases pods that hold devices, and this one holds none"
            return same(False, why)
        if not held or is_part:  # a static pod that came back has the UID of the one before
            return lacks(["the log between the two checkpoints" if held else "what the pod held"])
        judged = joined(
            f"{listing(has.devices or ())} of {resource} (container {container})"
            for (_, container, resource), has in sorted(held.items())
        )
        return found_with(found, seqs, why=f"{found.why}; it held {judged}", expected=expected)

    def _asks_for_none(self, record: Record, pod: str, state: NodeState) -> bool:
        """Whether no source knows the pod, or it asks for no devices: no grant was lost."""
        first_pass, holdings = self.first_pass, self.holdings
        if not (holdings.complete and first_pass.lists.logs_requests(when_of(record))):
            return False
        listed = self.context.pods.of(record)
        if specs := self.specs(record):
            return not any(spec.limit(r) for spec in specs for r in first_pass.lists.resources)
        known = pod in state.lifecycle.pods or pod in first_pass.added
        return listed is None and not known and not holdings.restored

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        """A pod is added: where requests are not logged, it may get its devices from now on."""
        if body.operation != "ADD" or self.first_pass.lists.logs_requests(when_of(record)):
            return
        for holder, grants in self.first_pass.late.get(self.key(record, state), {}).items():
            (_, seq), grant = grants[0]
            if self.holdings.get(holder) is None:
                self.holdings.take(holder, Held(frozenset(grant.device_ids), seq, certain=False))

    def _reported(self, record: Record, body: Body, state: NodeState) -> None:
        """A plugin's message counts as many healthy devices as checkpoints name."""
        clash = self.first_pass.lists.clashes.get(record.seq)
        if clash is not None:
            resource, *sides = clash
            why = f"sources differ on the healthy devices of {resource}"
            of = f"device/{resource}"
            self.context.contradict(record.ts_ns, of, why, *sides, by_absence=True)

    def _checkpoint_read(self, record: Record, body: CheckpointRead, state: NodeState) -> None:
        """What a checkpoint holds and no grant shows was granted before the records begin."""
        self._reported(record, body, state)
        if not relied_on(self.context, record, "kubelet_internal_checkpoint"):
            return
        holdings = self.holdings
        for entry in body.entries:
            holder = (entry.pod_uid, entry.container, entry.resource)
            self._compare(record, all_ids(entry.numa), holder)
            reported = self.first_pass.is_reported(holder, when_of(record))
            if holdings.get(holder) is None and not reported:
                active = is_active(state, self.context.pods, entry.pod_uid, self.log_began_ns)[0]
                holdings.take(holder, Held(all_ids(entry.numa), record.seq, certain=active is True))
        holdings.complete = True

    def _compare(self, record: Record, devices: frozenset[str], holder: Holder) -> None:
        """What a container was granted stays its own while its pod does."""
        when, held, (pod, container, resource) = when_of(record), self.holdings.get(holder), holder
        if held is None or held.devices in (None, devices) or not held.certain:
            return
        own = "-" in pod and held.run == self.holdings.run
        if not own and not self.first_pass.lists.logs_requests(when):
            return  # it may have been granted again, and no line would say
        changed = self.first_pass.may_change(pod, when, (when[0] + SNAPSHOT_NS, 0))
        if changed or (holder, devices) in self._disputed:
            return
        self._disputed.add((holder, devices))
        subject = f"container/{self.name_of(pod)}/{container}"
        why = f"a checkpoint holds other devices of {resource} than the container was granted"
        got = held.seq, f"container {container} got {listing(held.devices or ())}"
        sides = got, (record.seq, f"it holds {listing(devices)}")
        self.context.contradict(record.ts_ns, subject, why, *sides)
