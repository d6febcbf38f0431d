"""Whether the kubelet counted a pod as active, so that it kept what its containers hold."""

from __future__ import annotations

from typing import Any

from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_intervals import Restarting
from kubeledger.verify.evidence.pods import ListedPod, PodRegister

_TOLD_LATE_NS = 2 * NS_PER_S
"""The end of a container is logged so long after it, and its pod forgotten meanwhile."""


def lived(context: VerifyContext, uid: str, ts_ns: int) -> bool:
    """Whether the pod was alive at some later time, and had not come again meanwhile."""
    interval = context.timeline.interval(ts_ns, uid)
    return interval is not None and interval.seen_ns > ts_ns + _TOLD_LATE_NS


def came_back(context: VerifyContext, uid: str) -> bool:
    """Whether the pod came more than once, as static pods do, under one UID."""
    processes = [interval.process for interval in context.timeline.history(uid).intervals]
    return len(set(processes)) < len(processes)


def relied_on(context: VerifyContext, record: Record, file: str) -> bool:
    """Whether the content of a manager's file counts; a wrong checksum is reported elsewhere."""
    is_wrong: bool = getattr(record.body, "checksum_ok", None) is False
    if is_wrong:
        why = f"the checksum of {file} is not that of its content, which is not relied on"
        stored = record.seq, f"checksum {getattr(record.body, 'checksum', '')} is stored"
        other = record.seq, "its content has another checksum"
        context.contradict(record.ts_ns, "node", why, stored, other)
    return not is_wrong


def let_go(
    context: VerifyContext, state: NodeState, pod: str, *, keeps: bool, since_ns: int = 0
) -> Judgement:
    """Whether what a pod holds may be taken from it: it may once the pod is not active any more.

    ``keeps``: something later shows that it kept it; ``since_ns``: as for :func:`is_active`.
    """
    active, said = is_active(state, context.pods, pod, since_ns)
    number = -1 if context.process is None else context.process.number
    here = (i for i in context.timeline.history(pod).intervals if i.process == number)
    if active and any(interval.start_time_unknown for interval in here):
        # This process may know the pod only by its containers, as an orphan's.
        return lacks(["whether the kubelet that found it running was handed the pod"])
    if active and keeps:
        return same(False, f"only pods no longer active give back, and {said}")
    return lacks(["the end of the pod"]) if active is not False else same(True, said)


def misnamed(record: Record, listed: ListedPod | None) -> Judgement | None:
    """The judgement of a record that gives a pod another name than lists do; else None."""
    body: Any = record.body
    if listed is None or body.pod is None or listed.uid != body.pod_uid:
        return None
    named = {"namespace": listed.namespace, "pod": listed.name}
    if named == {"namespace": body.namespace, "pod": body.pod}:
        return None
    why = f"pod {listed.uid} is {listed.namespace}/{listed.name} in the pod list"
    return same(False, why, expected=named, inputs=[listed.seq], certain=True)


def is_active(
    state: NodeState, pods: PodRegister, key: str, since_ns: int = 0
) -> tuple[bool | None, str]:
    """Whether the kubelet counted a pod as active (None: not certain), and why so.

    What was seen to run before ``since_ns`` does not count: its end may not be reported.
    """
    pod = state.lifecycle.pods.get(key)
    if pod is None:
        return False, "the pod was gone from the node"
    if pod.ended:
        ended = pod.phase if pod.phase in ("Failed", "Succeeded") else "terminated"
        return False, f"the pod had ended ({ended})"
    if pod.removed:
        return False, "no config source had the pod any more"
    if pod.kubelet_run < state.lifecycle.kubelet_run:
        return False, "the kubelet had not seen the pod since it started"
    if pod.deleting:
        if pod.runs():
            return None, "its containers may still have run"
        return False, "the pod was deleted and none of its containers ran"
    times = [pod.decided_ts_ns, *(c.started_ts_ns for c in pod.containers.values())]
    if since_ns and not any(ts_ns is not None and ts_ns >= since_ns for ts_ns in times):
        return None, "nothing is logged of it since the log begins"
    if pod.runs():
        running = next((name for name, c in sorted(pod.containers.items()) if c.running), "?")
        return True, f"container {running} of it ran"
    listed = pods.at(pod.since_ts_ns, pod.uid, pod.namespace, pod.name)
    if pod.admitted and Restarting(listed, pod.restart_policy).always:
        return True, "it was admitted, and its containers are always started again"
    return None, "its phase is not known"
