"""Devices given back: only those of pods that are not active any more, and all at once."""

from __future__ import annotations

from typing import Final

from kubeledger.devicemanager.records import DevicesReleased
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.rules.activity import is_active, lived
from kubeledger.verify.rules.devices.desk import Desk
from kubeledger.verify.rules.devices.foresight import Holder, when_of
from kubeledger.verify.rules.devices.words import joined, listing

__all__ = ["RULE", "released"]

RULE: Final = "pkg/kubelet/cm/devicemanager/manager.go UpdateAllocatedDevices"


def released(desk: Desk, record: Record, body: DevicesReleased, state: NodeState) -> Judgement:
    """Judge a release; what a living pod holds, it keeps."""
    pod, holdings = body.pod_uid, desk.holdings
    holders = holdings.of_pod(pod)
    seqs = sorted(held.seq for holder in holders if (held := holdings.get(holder)) is not None)
    recorded = {"pod_uid": pod, "container": body.container, "resource": body.resource}
    active, said = is_active(state, desk.bench.pods, pod, desk.log_began_ns)
    is_part = body.container is not None or body.resource is not None
    if active and _surely_kept(desk, holders, pod, record):
        what = "lets go of a pod" if body.container is None else "gives back a container's devices"
        _doubt(desk, state)
        why = f"the device manager {what} only when the pod has ended, and {said}"
        return same(False, why, inputs=seqs)
    if is_part and holders and not body.inferred:
        expected = dict.fromkeys(recorded) | {"pod_uid": pod}
        why = "the device manager lets go of all that a pod holds at once, never of a part"
        holdings.release(pod)
        return same(False, why, expected=expected, inputs=seqs)
    if not holders and _holds_nothing(desk, record, body, state):
        why = "the device manager lets go only of pods that hold devices, and this one holds none"
        _doubt(desk, state)
        return same(False, why)
    whole = joined(_held(desk, holder) for holder in holders)
    holdings.release(pod, body.container, body.resource)
    if not holders:
        return lacks(["what the pod held"])
    if is_part:  # a static pod that came back has the UID of the one before
        return lacks(["the log between the two checkpoints"])
    if active is not False:
        return lacks(["the end of the pod's containers"])
    why = f"{said}, and it held {whole}, which no active pod needs any more"
    return same(True, why, expected=recorded, inputs=seqs)


def _surely_kept(desk: Desk, holders: list[Holder], pod: str, record: Record) -> bool:
    """Whether something later shows that the pod kept what it held, or lived.

    What it last did is no proof: that it ended may stand in a line that was lost.
    """
    if not holders:
        return lived(desk.bench, pod, record.ts_ns)
    return any(
        desk.foresight.surely_holds(holder, held.devices, when_of(record))
        for holder in holders
        if (held := desk.holdings.get(holder)) is not None
    )


def _held(desk: Desk, holder: Holder) -> str:
    held = desk.holdings.get(holder)
    devices = "devices" if held is None or held.devices is None else listing(held.devices)
    return f"{devices} of {holder[2]} (container {holder[1]})"


def _holds_nothing(desk: Desk, record: Record, body: DevicesReleased, state: NodeState) -> bool:
    """Whether no source knows the pod, or it asks for no devices: no grant was lost."""
    pod, foresight = body.pod_uid, desk.foresight
    if not (desk.holdings.complete and foresight.lists.tells_requests(when_of(record))):
        return False
    listed = desk.pod(record)
    asks = desk.asks(listed, pod)
    if asks is not None:
        return not any(asks.asking(resource) for resource in foresight.lists.resources)
    return listed is None and pod not in state.lifecycle.pods and pod not in foresight.added


def _doubt(desk: Desk, state: NodeState) -> None:
    """Some other pod may have been let go of instead."""
    for holder, held in desk.holdings:
        if not is_active(state, desk.bench.pods, holder[0])[0]:
            held.certain = False
