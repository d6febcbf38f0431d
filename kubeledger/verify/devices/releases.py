"""Devices given back: only those of pods that are not active any more."""

from __future__ import annotations

from kubeledger.devicemanager.records import DevicesReleased
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.devices.desk import Desk, when_of
from kubeledger.verify.devices.foresight import Holder, When
from kubeledger.verify.devices.words import joined, listing
from kubeledger.verify.rules.activity import is_active

__all__ = ["Releases"]

RULE = "pkg/kubelet/cm/devicemanager/manager.go UpdateAllocatedDevices"


class Releases:
    """Findings for ``DevicesReleased``."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def released(self, record: Record, body: DevicesReleased, state: NodeState) -> None:
        """Judge a release; what a living pod holds, it keeps."""
        desk, pod = self._desk, body.pod_uid
        holders = desk.holdings.of_pod(pod)
        alive, said = is_active(state, desk.bench.pods, pod, desk.log_began_ns)
        subject = f"pod/{desk.name(state, pod)}"
        seqs = [held.seq for holder in holders if (held := desk.holdings.get(holder)) is not None]
        of_one = body.container is not None
        if alive and not self._surely_alive(holders, pod, when_of(record)):
            alive = None
        if alive:
            what = "gives back a container's devices" if of_one else "lets go of a pod"
            why = f"the device manager {what} only when the pod has ended, and {said}"
            self._find(record, body, subject, why, seqs, possible=False)
            self._doubt(state)
            return
        if (body.container or body.resource) is not None and holders:
            self._part(record, body, subject, seqs)
            return
        if not holders:
            self._nothing_held(record, body, subject, state)
            return
        if alive is None:
            missing = ("the end of the pod's containers",)
            desk.bench.unverifiable(record, subject=subject, missing=missing, rule=RULE)
        else:
            why = f"{said}, and it held {self._held(pod)}, which no active pod needs any more"
            self._find(record, body, subject, why, seqs, possible=True)
        self._release(body)

    def _surely_alive(self, holders: list[Holder], pod: str, when: When) -> bool:
        """Whether something later shows that the pod kept what it held, or lived.

        What it last did is no proof: that it ended may stand in a line that was lost.
        """
        foresight, holdings = self._desk.foresight, self._desk.holdings
        if not holders:
            return foresight.lived(pod, when)
        return any(
            foresight.surely_holds(holder, held.devices, when)
            for holder in holders
            if (held := holdings.get(holder)) is not None
        )

    def _part(self, record: Record, body: DevicesReleased, subject: str, seqs: list[int]) -> None:
        """Part of a pod's devices: all go at once."""
        if not body.inferred:
            why = "the device manager lets go of all that a pod holds at once, never of a part"
            whole = {"pod_uid": body.pod_uid, "container": None, "resource": None}
            self._find(record, body, subject, why, seqs, possible=False, expected=whole)
            self._desk.holdings.release_pod(body.pod_uid)
            return
        # A static pod that came back has the UID of the one before.
        missing = ("the log between the two checkpoints",)
        self._desk.bench.unverifiable(record, subject=subject, missing=missing, rule=RULE)
        self._release(body)

    def _held(self, pod: str) -> str:
        parts = []
        for holder in self._desk.holdings.of_pod(pod):
            held = self._desk.holdings.get(holder)
            if held is not None:
                devices = "devices" if held.devices is None else listing(held.devices)
                parts.append(f"{devices} of {holder[2]} (container {holder[1]})")
        return joined(parts)

    def _nothing_held(
        self, record: Record, body: DevicesReleased, subject: str, state: NodeState
    ) -> None:
        """Nothing is known to be held: something must be, or it was held before the records."""
        desk = self._desk
        complete = desk.holdings.complete and desk.foresight.lists.tells_requests(when_of(record))
        if complete and self._can_hold_nothing(record, body, state):
            why = (
                "the device manager lets go only of pods that hold devices, and this one holds none"
            )
            self._find(record, body, subject, why, [], possible=False)
            self._doubt(state)
            return
        missing = ("what the pod held",)
        desk.bench.unverifiable(record, subject=subject, missing=missing, rule=RULE)
        self._release(body)

    def _can_hold_nothing(self, record: Record, body: DevicesReleased, state: NodeState) -> bool:
        """Whether no source knows the pod, or it asks for no devices: no grant was lost."""
        desk, pod = self._desk, body.pod_uid
        listed = desk.pod(when_of(record), pod, None, None)
        asks = desk.asks(listed, pod)
        if asks is not None:
            resources = desk.foresight.lists.resources
            return not any(asks.asking(resource) for resource in resources)
        known = pod in state.lifecycle.pods or pod in desk.foresight.added
        return listed is None and not known

    def _doubt(self, state: NodeState) -> None:
        """Some other pod may have been let go of instead."""
        for holder, held in self._desk.holdings:
            if not is_active(state, self._desk.bench.pods, holder[0])[0]:
                held.certain = False

    def _release(self, body: DevicesReleased) -> None:
        holdings = self._desk.holdings
        if body.container is None:
            holdings.release_pod(body.pod_uid)
            return
        for holder in holdings.of_pod(body.pod_uid):
            if holder[1] == body.container and body.resource in (None, holder[2]):
                holdings.release(holder)

    def _find(
        self,
        record: Record,
        body: DevicesReleased,
        subject: str,
        why: str,
        seqs: list[int],
        *,
        possible: bool,
        expected: dict[str, str | None] | None = None,
    ) -> None:
        recorded = {"pod_uid": body.pod_uid, "container": body.container, "resource": body.resource}
        self._desk.bench.find(
            record,
            "match" if possible else "impossible",
            subject=subject,
            why=why,
            expected=recorded if possible else expected,
            recorded=recorded,
            rule=RULE,
            inputs=sorted(seqs),
        )
