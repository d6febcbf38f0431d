"""Whether what leads to a kill of some reason was there, of a container or of a pod as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.bodies.prober import PROBE_OF_KILL
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.container_specs import PodSpec, image_of
from kubeledger.verify.evidence.history_entries import HistoryEntry
from kubeledger.verify.evidence.pod_intervals import PodHistory
from kubeledger.verify.rules.containers import key_for

_STATIC: Final = ("file", "http")
"""Sources of static pods' manifests."""
TAKING_OVER_NS: Final = 20 * NS_PER_S
"""So long after its start a process is given the pods that were there before, and acts on them."""


class Stops:
    """What may stop the containers of a pod, as known before a record.

    Attributes:
        added: a config source gave the pod to this process.
        victim, evicted, deleted, updated: seq of the first record of that since the pod came;
            None for none; ``updated_ns``: when the last update came.
        evictions: (n,) records of all evictions of the pod, those before first.
        preempting: the event of a preemption, wherever it stands.
        ending: why its worker stops it.
        found: it may have been there before this process, which acts on what it finds.
        manifest: what became of a static pod's manifest: ``removed``, ``changed`` (a pod of the
            name came in its place), or nothing.
    """

    def __init__(self, context: VerifyContext, pod: PodHistory | None, record: Record) -> None:
        """``pod``: whose containers; None where nothing is shown of it."""
        process = context.timeline.process(record.ts_ns)
        began_ns = 0 if process is None else process.started_ns
        calls = [] if pod is None else pod.calls
        earlier = [entry for entry in calls if entry.is_before(record)]
        came = next((n for n in reversed(range(len(earlier))) if earlier[n].what == "add"), None)
        if came and earlier[came - 1].what == "remove" and earlier[came - 1].word in _STATIC:
            # A manifest that changed goes and comes at once, and what ran of it is killed then.
            came -= earlier[came].ts_ns - earlier[came - 1].ts_ns < NS_PER_S
        stay = earlier[came or 0 :]
        self.added = came is not None and stay[0].ts_ns >= began_ns
        self.victim = _first(stay, "preempted")
        self.evicted = _first(stay, "evicted")
        self.deleted = _first(stay, "delete", "remove")
        self.updated = _first(stay, "update")
        self.updated_ns = max((each.ts_ns for each in stay if each.what == "update"), default=0)
        evicted = [entry for entry in calls if entry.what == "evicted"]
        before = [entry for entry in evicted if entry.is_before(record)]
        self.evictions = [entry.seq for entry in before or evicted]
        self.preempting = next((entry.seq for entry in calls if entry.word == "Preempting"), None)
        endings = [s for s in earlier if s.what == "terminating" and s.ts_ns >= began_ns]
        self.ending = endings[-1] if endings else None
        self.found = False
        if self.added and pod is not None:
            was_there = stay[0].ts_ns - began_ns < TAKING_OVER_NS or any(
                run.started_ns is not None and run.started_ns < stay[0].ts_ns for run in pod.runs
            )
            self.found = was_there and record.ts_ns < stay[0].ts_ns + TAKING_OVER_NS
        self.manifest = _manifest(context, pod, earlier)

    def other(self) -> str | None:
        """What does lead to kills of the pod's containers."""
        reasons = {"preempted": self.victim, "evicted": self.evicted, "pod_deleted": self.deleted}
        return next((reason for reason, seq in reasons.items() if seq is not None), None)


def _first(entries: list[HistoryEntry], *what: str) -> int | None:
    return next((entry.seq for entry in entries if entry.what in what), None)


def _manifest(
    context: VerifyContext, pod: PodHistory | None, earlier: list[HistoryEntry]
) -> Literal["", "removed", "changed"]:
    removed = [entry for entry in earlier if entry.what == "remove" and entry.word in _STATIC]
    if pod is None or not removed:
        return ""
    alike = context.timeline.named(pod.namespace, pod.name)
    adds = (entry for each in alike for entry in each.calls if entry.what == "add")
    replaced = any(removed[-1].is_before(entry) and entry.word in _STATIC for entry in adds)
    return "changed" if replaced else "removed"


_ENDINGS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "pod_deleted": (("deleted", "removed"), "the pod was deleted"),
    "orphaned": (("orphaned",), "no config source had the pod"),
    "pod_ended": (("ended",), "the pod had ended but for this container"),
    "deadline_exceeded": (("ended",), "the pod had been active for activeDeadlineSeconds"),
    "node_shutdown": (("shutdown",), "the node shuts down"),
}
"""Reason of a kill -> reasons for which a pod's worker stops it, and what that means."""
_UPDATES: Final = {
    "spec_changed": "the definition of container {} changed",
    "resized": "container {} was resized",
}
_SANDBOX: Final = "sandbox_changed"
_LISTED_NS: Final = 10 * NS_PER_S
"""A change is shown in a list so long after it."""
_REMOVED_NS: Final = 60 * NS_PER_S
"""So long after its containers have ended a pod that was deleted is removed."""
REASONS: Final = frozenset(
    {
        *PROBE_OF_KILL,
        *_ENDINGS,
        "preempted",
        "evicted",
        "spec_changed",
        "resized",
        "post_start_hook",
    }
)
"""Reasons of which the kubelet's words are known."""


def judge_stop(
    context: VerifyContext,
    record: Record,
    body: ContainerKilled,
    state: NodeState,
    pod: PodHistory | None,
    stops: Stops,
    spec: PodSpec,
) -> Judgement:
    """Whether what leads to a kill was there, where no probe does."""
    name, reason = body.container or "", body.reason or ""
    seq: int | None = None
    if reason == "preempted":
        seq, why = stops.victim, "the pod was chosen to make room for a critical pod"
        if seq is None and stops.preempting is not None:
            why = "the pod was preempted for a critical pod, as its event says"
            seq = stops.preempting
    elif reason == "evicted":
        seq = stops.evicted or next(iter(stops.evictions), None)
        why = "the eviction manager chose the pod"
    elif reason == "post_start_hook":
        entry = spec.container(name)
        if entry is None or not entry.has_post_start:
            return same(False, f"container {name} has no post-start hook")
        seq, why = spec.seq, f"the post-start hook of container {name} failed"
    elif reason in _UPDATES:
        seq, why = stops.updated, _UPDATES[reason].format(name)
        if reason == "spec_changed" and (alike := _unchanged(context, record, body, pod)):
            list_seq, until_ns = alike
            if until_ns > record.ts_ns:
                said = f"lists before and after show container {name} with one image"
                return same(False, said, inputs=[list_seq])
            if until_ns > stops.updated_ns + _LISTED_NS:
                return lacks(["an update that changed the definition"])
        if seq is None and _is_inherited(context, body, pod):
            seq = spec.seq  # it may have changed while no kubelet ran
    elif reason in _ENDINGS:
        meant, why = _ENDINGS[reason]
        seq = None if stops.ending is None or stops.ending.word not in meant else stops.ending.seq
        if reason == "pod_deleted":
            known = state.lifecycle.pods.get(key_for(state, body))
            leaving = known is not None and (known.deleting or known.removed)
            seq = stops.deleted or seq or (spec.seq if leaving else None)
            why = f"the static pod's manifest was {stops.manifest}" if stops.manifest else why
        elif seq is None and stops.ending is None:
            if reason != "pod_ended" or not _others_ended(pod, spec, name, record):
                return lacks([f"the records that show that {why}"])
            seq = spec.seq
    elif reason == _SANDBOX:
        return lacks([f"a rule for the reason {reason}"])
    else:
        return same(False, f"{reason} is not a reason for a kill")
    if seq is not None:
        return same(True, why, inputs=[seq])
    if not stops.added or reason in _UPDATES:
        return lacks([f"the records that show that {why}"])
    if reason == "pod_deleted" and stops.found:
        return lacks(["whether the pod was being deleted when this process found it"])
    if reason == "pod_deleted" and pod is not None and stops.other() is None:
        until_ns = record.ts_ns + (body.grace_period_s or 0) * NS_PER_S + _REMOVED_NS
        later = (call for call in pod.calls if record.ts_ns < call.ts_ns <= until_ns)
        if any(call.what == "remove" for call in later):
            return open_to("the line with which the pod was deleted", denied=f"{why}, by no record")
    return same(False, f"no record shows that {why}")


def _is_inherited(context: VerifyContext, body: ContainerKilled, pod: PodHistory | None) -> bool:
    """Whether a container may have been started by the process before."""
    run, process = None if pod is None else pod.run(body.container_id), context.process
    if process is None or not process.number:
        return False
    return run is None or (run.started_ns or 0) < process.started_ns + TAKING_OVER_NS


def _unchanged(
    context: VerifyContext, record: Record, body: ContainerKilled, pod: PodHistory | None
) -> tuple[int, int] | None:
    """The first list that shows the image with which a container was started, and until when.

    None where lists show another one, or none before the kill.
    """
    run = None if pod is None else pod.run(body.container_id)
    listed = context.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
    if pod is None or run is None or listed is None or pod.listed_alive_ns is None:
        return None
    (first_ns, last_ns), process, began_ns = pod.listed_alive_ns, context.process, run.started_ns
    inherited = process is None or (began_ns or 0) < process.started_ns
    # The process before may not have come to act on what it was sent.
    if first_ns >= ((began_ns or 0) if inherited else record.ts_ns - _LISTED_NS):
        return None
    versions = context.pods.versions(listed)
    images = {image_of(version, body.container or "") for version in versions}
    return (versions[0].seq, last_ns) if len(images) == 1 and None not in images else None


def _others_ended(pod: PodHistory | None, spec: PodSpec, sidecar: str, record: Record) -> bool:
    """Whether every container of a pod that is not a sidecar was seen to have ended."""
    if pod is None or sidecar not in spec.sidecars:
        return False
    for container in spec.spec.containers:
        runs = pod.runs_of(container.name)
        known = [run for run in runs if run.is_started(record) or run.has_ended(record)]
        if not known or not known[-1].has_ended(record):
            return False
    return True


def judge_probe(
    context: VerifyContext,
    record: Record,
    body: ContainerKilled,
    state: NodeState,
    failure: Record | None,
    spec: PodSpec,
) -> Judgement:
    """Whether the probe that a kill names had failed.

    ``failure``: the change of its cached result, where one is shown of this container.
    """
    name, probe_type = body.container or "", PROBE_OF_KILL[body.reason]
    probe = f"the {probe_type} probe of container {name}"
    if failure is not None:
        return same(True, f"{probe} failed at {format_ts(failure.ts_ns)}", inputs=[failure.seq])
    entry = spec.container(name)
    if entry is None or entry.probe(probe_type) is None:
        return same(False, f"container {name} has no {probe_type} probe")
    key = key_for(state, body)
    cached = context.cached_results.cached(key, name, probe_type, record.ts_ns)
    if cached is None:
        return lacks([f"the results of the {probe_type} probe before the kill"])
    if cached.may_be == {"failure"}:
        return same(True, f"{probe} had failed", inputs=cached.seqs)
    states = " or ".join(sorted(cached.may_be - {"failure"}))
    why = f"the cached result of the {probe_type} probe was {states}, and only a failure kills"
    if "failure" not in cached.may_be:
        return same(False, why, inputs=cached.seqs)
    missing = " and ".join(cached.missing) or f"the {probe_type} ticks before the kill"
    return open_to(missing, denied=why, inputs=cached.seqs)
