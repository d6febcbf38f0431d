"""One kill of a container, and whether what leads to kills of its reason was there."""

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
from kubeledger.verify.rules.containers import key_for

_STATIC: Final = ("file", "http")
"""Sources of static pods' manifests."""
TAKING_OVER_NS: Final = 20 * NS_PER_S
"""So long after its start a process is given the pods that were there before, and acts on them."""


class Kill:
    """A kill, and what may stop the containers of its pod, as known before its record.

    Attributes:
        name, reason: the container, and why it is killed; empty where that is not known.
        pod, run: what is shown of its pod and of the instance; ``run`` None where nothing is.
        is_leaving: the pod was being deleted, or no source had it.
        added: a config source gave the pod to this process.
        victim, evicted, deleted, updated: seq of the first record of that since the pod came;
            None for none; ``updated_ns``: when the last update came.
        evictions: (n,) records of all evictions of the pod, those before first.
        preempting: the event of a preemption, wherever it stands.
        ending: why its worker stops it; ``is_deleted``: that, or a config source, says so.
        found: it may have been there before this process, which acts on what it finds.
        manifest: what became of a static pod's manifest: ``removed``, ``changed`` (a pod of the
            name came in its place), or nothing.
    """

    def __init__(
        self, context: VerifyContext, record: Record, body: ContainerKilled, state: NodeState
    ) -> None:
        self.context, self.record, self.body = context, record, body
        self.name, self.reason = body.container or "", body.reason or ""
        self.key = key_for(state, body)
        self.pod = pod = context.timeline.of(record)
        self.run = pod.run(body.container_id)
        known = state.lifecycle.pods.get(self.key)
        self.is_leaving = known is not None and (known.deleting or known.removed)
        process = context.timeline.process(record.ts_ns)
        began_ns = 0 if process is None else process.started_ns
        earlier = [entry for entry in pod.calls if entry.is_before(record)]
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
        evicted = [entry for entry in pod.calls if entry.what == "evicted"]
        before = [entry for entry in evicted if entry.is_before(record)]
        self.evictions = [entry.seq for entry in before or evicted]
        preempting = (entry.seq for entry in pod.calls if entry.word == "Preempting")
        self.preempting = next(preempting, None)
        endings = [s for s in earlier if s.what == "terminating" and s.ts_ns >= began_ns]
        self.ending = endings[-1] if endings else None
        stopped = self.ending is not None and self.ending.word in ("deleted", "removed")
        self.is_deleted = stopped or self.deleted is not None
        self.found = False
        if self.added:
            was_there = stay[0].ts_ns - began_ns < TAKING_OVER_NS or any(
                run.started_ns is not None and run.started_ns < stay[0].ts_ns for run in pod.runs
            )
            self.found = was_there and record.ts_ns < stay[0].ts_ns + TAKING_OVER_NS
        self.manifest = self._manifest_by(earlier)

    def other(self) -> str | None:
        """What does lead to kills of the pod's containers."""
        reasons = {"preempted": self.victim, "evicted": self.evicted, "pod_deleted": self.deleted}
        return next((reason for reason, seq in reasons.items() if seq is not None), None)

    def _manifest_by(self, earlier: list[HistoryEntry]) -> Literal["", "removed", "changed"]:
        removed = [entry for entry in earlier if entry.what == "remove" and entry.word in _STATIC]
        if not removed:
            return ""
        alike = self.context.timeline.named(self.pod.namespace, self.pod.name)
        adds = (entry for each in alike for entry in each.calls if entry.what == "add")
        replaced = any(removed[-1].is_before(entry) and entry.word in _STATIC for entry in adds)
        return "changed" if replaced else "removed"

    def is_inherited(self) -> bool:
        """Whether the container may have been started by the process before."""
        run, process = self.run, self.context.process
        if process is None or not process.number:
            return False
        return run is None or (run.started_ns or 0) < process.started_ns + TAKING_OVER_NS

    def unchanged(self) -> tuple[int, int] | None:
        """The first list that shows the image with which it was started, and until when.

        None where lists show another one, or none before the kill.
        """
        pod, run, process = self.pod, self.run, self.context.process
        pods, ts_ns = self.context.pods, self.record.ts_ns
        listed = pods.of(self.record)
        if run is None or listed is None or pod.listed_alive_ns is None:
            return None
        (first_ns, last_ns), began_ns = pod.listed_alive_ns, run.started_ns or 0
        inherited = process is None or began_ns < process.started_ns
        # The process before may not have come to act on what it was sent.
        if first_ns >= (began_ns if inherited else ts_ns - _LISTED_NS):
            return None
        versions = pods.versions(listed)
        images = {image_of(version, self.name) for version in versions}
        return (versions[0].seq, last_ns) if len(images) == 1 and None not in images else None

    def others_ended(self, spec: PodSpec) -> bool:
        """Whether it is a sidecar, and every container proper was seen to have ended."""
        if self.name not in spec.sidecars:
            return False
        runs_of = (self.pod.runs_of(container.name) for container in spec.spec.containers)
        known = (
            [run for run in runs if run.is_started(self.record) or run.has_ended(self.record)]
            for runs in runs_of
        )
        return all(runs and runs[-1].has_ended(self.record) for runs in known)


def _first(entries: list[HistoryEntry], *what: str) -> int | None:
    return next((entry.seq for entry in entries if entry.what in what), None)


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
_CHOSEN: Final = ("preempted", "evicted")  # by somebody else: it may be about to end anyway
REASONS: Final = frozenset({*PROBE_OF_KILL, *_ENDINGS, *_UPDATES, *_CHOSEN, "post_start_hook"})
"""Reasons of which the kubelet's words are known."""


def judge_stop(kill: Kill, spec: PodSpec) -> Judgement:
    """Whether what leads to a kill was there, where no probe does."""
    name, reason, record = kill.name, kill.reason, kill.record
    seq, stop = None, kill.ending
    meant, why = _ENDINGS.get(reason, (("killed", "ended") * (reason in _CHOSEN), ""))
    # What was deleted later, or chosen while it was being deleted, has two reasons.
    has_two = (kill.is_deleted and reason in _CHOSEN) or (stop and (kill.deleted or 0) > stop.seq)
    if stop and meant and stop.word not in meant and not has_two:
        said = f"its worker stops the pod, which is {stop.word}: that kills for another reason"
        return same(False, said, inputs=[stop.seq])
    if reason == "preempted":
        seq, why = kill.victim, "the pod was chosen to make room for a critical pod"
        if seq is None and (seq := kill.preempting) is not None:
            why = "the pod was preempted for a critical pod, as its event says"
    elif reason == "evicted":
        seq = kill.evicted or next(iter(kill.evictions), None)
        why = "the eviction manager chose the pod"
    elif reason == "post_start_hook":
        entry = spec.container(name)
        if entry is None or entry.hook("post_start") is None:
            return same(False, f"container {name} has no post-start hook")
        seq, why = spec.seq, f"the post-start hook of container {name} failed"
    elif reason in _UPDATES:
        seq, why = kill.updated, _UPDATES[reason].format(name)
        if reason == "spec_changed" and (alike := kill.unchanged()):
            list_seq, until_ns = alike
            if until_ns > record.ts_ns:
                said = f"lists before and after show container {name} with one image"
                return same(False, said, inputs=[list_seq])
            if until_ns > kill.updated_ns + _LISTED_NS:
                return lacks(["an update that changed the definition"])
        if seq is None and kill.is_inherited():
            seq = spec.seq  # it may have changed while no kubelet ran
    elif reason in _ENDINGS:
        seq = None if stop is None else stop.seq
        if reason == "pod_deleted":
            seq = kill.deleted or seq or (spec.seq if kill.is_leaving else None)
            why = f"the static pod's manifest was {kill.manifest}" if kill.manifest else why
        elif seq is None:
            if reason != "pod_ended" or not kill.others_ended(spec):
                return lacks([f"the records that show that {why}"])
            seq = spec.seq
    elif reason == _SANDBOX:
        return lacks([f"a rule for the reason {reason}"])
    else:
        return same(False, f"{reason} is not a reason for a kill")
    if seq is not None:
        return same(True, why, inputs=[seq])
    if not kill.added or reason in _UPDATES:
        return lacks([f"the records that show that {why}"])
    if reason == "pod_deleted" and kill.found:
        return lacks(["whether the pod was being deleted when this process found it"])
    if reason == "pod_deleted" and kill.other() is None:
        until_ns = record.ts_ns + (kill.body.grace_period_s or 0) * NS_PER_S + _REMOVED_NS
        later = (call for call in kill.pod.calls if record.ts_ns < call.ts_ns <= until_ns)
        if any(call.what == "remove" for call in later):
            return open_to("the line with which the pod was deleted", denied=f"{why}, by no record")
    return same(False, f"no record shows that {why}")


def judge_probe(kill: Kill, failure: Record | None, spec: PodSpec) -> Judgement:
    """Whether the probe that a kill names had failed.

    ``failure``: the change of its cached result, where one is shown of this container.
    """
    probe_type = PROBE_OF_KILL[kill.reason]
    probe = f"the {probe_type} probe of container {kill.name}"
    if failure is not None:
        return same(True, f"{probe} failed at {format_ts(failure.ts_ns)}", inputs=[failure.seq])
    entry = spec.container(kill.name)
    if entry is None or entry.probe(probe_type) is None:
        return same(False, f"container {kill.name} has no {probe_type} probe")
    results = kill.context.cached_results
    cached = results.cached(kill.key, kill.name, probe_type, kill.record.ts_ns)
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
