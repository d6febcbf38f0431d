"""Admission: every ADD of a pod is decided once, yes or no.

A refusal is in the log: the predicate's line, ``Pod admission denied``, the event. That
a pod was admitted no line says; it follows from the first sign that its worker synced it
or runs its containers, in the log or in a later pod list. Without any sign nothing is
decided. Pods that had ended before a kubelet restart, and mirror pods, are not put through
admission (HandlePodAdditions). Where the log holds no line of a refusal, the pod's own
status does: failed with a reason, and no container ever.
"""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import PodAssembler, about_pod, reads, reads_if, takes
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.registers import Pod, Registers
from kubeledger.ingest.correlate.rejections import (
    PREEMPTING,
    RECOVERY,
    failed_status,
    is_refusal,
    reason_of_message,
    rejection_in_status,
    was_synced,
    without_prefix,
)
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.items import Fact, PodList
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_CONDITIONS = "node has conditions: "
_WORKER_REASONS = frozenset(
    {"BackOff", "Created", "FailedCreatePodSandBox", "FailedMount", "Pulled", "Pulling"}
    | {"SandboxChanged", "Started", "Unhealthy"}
)
"""Events that the pod's worker sends, or what it started."""
_TERMINAL = "Failed", "Succeeded"
_EVENT_WAIT_NS = NS_PER_S
_STATUS_WAIT_NS = 2 * NS_PER_S
_PLEG_PROVES_AFTER_NS = NS_PER_S // 5
"""1.20 refuses for devices by an event only, which another goroutine logs a little later."""


class AdmissionAssembler(PodAssembler):
    """Admitted and refused pods."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._refusals: dict[Pod, Waiting[PodRejected]] = {}
        self._doubtful: dict[Pod, int] = {}
        self._in_list: dict[Pod, Evidence] = {}

    def after(self, ts_ns: int) -> None:
        """Where no line reported the refusal that the status shows, the status is the source."""
        for pod, added_ns in list(self._doubtful.items()):
            if ts_ns < added_ns + _STATUS_WAIT_NS:
                continue
            self._decided(pod)
            rejection = rejection_in_status(self.context.status_of(pod.uid))
            known = self.context.pods.get(pod.uid or "")
            if rejection is not None and known is not None and pod.added is not None:
                body = PodRejected(**pod.names, reason=rejection[0], message=rejection[1])
                evidence = (known.evidence, *pod.added.evidence)
                fact = Fact(added_ns, body, evidence, cause=pod.added)
                pod.rejected = self.queue.add(fact)

    def end(self, ts_ns: int) -> None:
        """A pod without a further sign stays undecided, and one that went before the end."""
        self.after(ts_ns + _STATUS_WAIT_NS)
        for pod, evidence in list(self._in_list.items()):
            if pod in self._admissions.undecided and not pod.removed:
                self._admit(pod, ts_ns, evidence)

    # -- the question: a pod is added ----------------------------------------------------

    @reads("SyncLoop ADD")
    def _added(self, entry: Entry) -> None:
        source = entry.text("source")
        self._admissions.begin_add(entry.line)
        for ref in entry.pods:
            pod = self._pods.added(ref, entry)
            self._in_list.pop(pod, None)  # it answered another process
            if self._is_mirror(pod, source) or self._has_ended(pod, source):
                continue
            self._refusals.pop(pod, None)
            pod.begin_anew()
            self._admissions.begin(pod)
            if rejection_in_status(self.context.status_of(pod.uid)) is not None:
                self._doubtful[pod] = entry.ts_ns

    def _is_mirror(self, pod: Pod, source: str) -> bool:
        """Of a static pod and a pod of the API with the same name, the latter is the mirror."""
        return source == "api" and any(
            other.is_static and not other.removed
            for other in (pod, *self._pods.all_named(pod.namespace, pod.name))
        )

    def _has_ended(self, pod: Pod, source: str) -> bool:
        """A pod from a file comes without a status, so the kubelet does not know its end."""
        if source != "api":
            return False
        if pod.rejected or self._is_preempted(pod) or pod.phase in _TERMINAL:
            return True
        known = self.context.pods.get(pod.uid or "")
        if known is None or pod.phase is not None or not self._is_older(pod.uid):
            return False
        # Of a pod that is listed without a status it is not known: an end is synced, too.
        return not known.statuses or known.statuses[0].get("phase") in _TERMINAL

    def _is_preempted(self, pod: Pod) -> bool:
        """Whether a victim is gone by the time it is added again.

        A process that ended before its victim did takes the choice with it.
        """
        body, statuses = pod.preempted and pod.preempted.body, self.context.status_of(pod.uid)
        if not isinstance(body, PodPreempted):
            return False
        was_told = any(status.get("reason") == PREEMPTING for status in statuses)
        return bool(body.evicted) or was_told or not statuses

    # -- the answer yes: most lines are of pods admitted long ago, and nothing is parsed then --

    @reads(
        "SyncPod enter",
        "computePodActions got for pod",
        "No sandbox for pod can be found. Need to start a new one",
        "Created PodSandbox for pod",
        "Error syncing pod, skipping",
        "Message for Container of pod",
        "Probe errored",
        "Probe failed",
        "Probe succeeded",
        "SyncLoop (probe)",
    )
    def _synced(self, entry: Entry) -> None:
        if self._admissions.undecided:
            self._proved(entry, entry.pod)

    @reads("SyncLoop (PLEG): event for pod")
    def _ran(self, entry: Entry) -> None:
        """Of a pod from before this process the runtime may show what was, though it is refused."""
        after_ns = _PLEG_PROVES_AFTER_NS if entry.values.get("refusals_follow") else 0
        pod = self._pods.of(entry) if self._admissions.undecided else None
        if pod is not None and not self._is_older(pod.uid):
            self._proved(entry, entry.pod, after_ns)

    def _is_older(self, uid: str | None) -> bool:
        """Whether a pod was there before this process."""
        known, started_ns = self.context.pods.get(uid or ""), self._sync_loop.started_ns
        return known is not None and started_ns is not None and known.first_seen_ts_ns < started_ns

    @takes(PodList)
    def _listed(self, item: PodList) -> None:
        """Note statuses that the worker wrote; a line of the log, if one follows, decides.

        Soon after the ADD a status may still be of the time before; that of a pod which had ended
        is, where the pod is older than the process.
        """
        if item.listed_by == "manifest" or not self._admissions.undecided:
            return
        listed = {
            uid
            for pod in item.pods
            if was_synced(status := pod.get("status") or {})
            and (uid := kubelet_uid(pod))
            and not (status.get("phase") in _TERMINAL and self._is_older(uid))
        }
        for pod in self._admissions.undecided:
            asked_ns = pod.added.ts_ns if pod.added else item.ts_ns
            late = item.ts_ns >= asked_ns + _STATUS_WAIT_NS
            if late and pod.uid and pod.uid in listed and pod not in self._doubtful:
                self._in_list.setdefault(pod, item.evidence)

    def _proved(self, entry: Entry, ref: PodRef | None, after_ns: int = 0) -> None:
        if ref is None or not self._admissions.undecided:
            return
        pod = self._pods.named(ref, entry)
        added_ns = pod.added.ts_ns if pod.added else entry.ts_ns
        is_open = pod in self._admissions.undecided and pod not in self._doubtful
        if is_open and entry.ts_ns >= added_ns + after_ns:
            self._admit(pod, entry.ts_ns, entry.evidence)

    def _admit(self, pod: Pod, ts_ns: int, evidence: Evidence) -> None:
        self._decided(pod)
        cause = pod.made_room[-1] if pod.made_room else pod.added
        added = () if pod.added is None else pod.added.evidence
        self.queue.add(Fact(ts_ns, PodAdmitted(**pod.names), (*added, evidence), cause=cause))

    def _decided(self, pod: Pod) -> None:
        self._doubtful.pop(pod, None)
        self._in_list.pop(pod, None)
        self._admissions.decided(pod)

    @about_pod("Pod has completed, ignoring remaining sync work")
    def _completed(self, entry: Entry, pod: Pod) -> None:
        """The worker has nothing to do for an added pod: it had ended, admission was skipped."""
        if entry.text("syncType").startswith("create"):
            self._decided(pod)

    # -- the answer no ------------------------------------------------------------------

    @about_pod("Status Manager: adding pod")
    def _status_added(self, entry: Entry, pod: Pod) -> None:
        """Of a refusal by the topology or device manager, 1.20 has no other line of its own."""
        failed = failed_status(entry.text("status"))
        if failed is not None and pod in self._refusals:
            self._refusals[pod].join(entry.evidence)
        elif failed is not None and pod in self._admissions.undecided and is_refusal(*failed):
            self._reject(pod, entry, failed[0], without_prefix(failed[1]))

    @reads(
        "Failed to admit pod",
        "Failed to admit pod to node",
        "Failed to admit pod, unexpected error while attempting to recover from admission failure",
        "Failed to admit pod: GeneralPredicates failed due to unknown reason, which is unexpected",
        "Predicate failed on Pod",
    )
    def _predicate(self, entry: Entry) -> None:
        message, words = entry.text("message") or entry.text("err"), entry.line.message
        if "recover from admission failure" in words:
            message = RECOVERY + message
        elif "unknown reason" in words:
            message = "GeneralPredicates failed due to unknown reason, which is unexpected."
        elif words.endswith("to node"):
            message = _CONDITIONS + entry.text("nodeCondition")
        message = message.rstrip("\n")
        reason = reason_of_message(message)
        if message.startswith(_CONDITIONS):
            message = f"The node had condition: {message.removeprefix(_CONDITIONS)}. "
        pod = None if reason is None else self._pods.of(entry)
        if pod is not None and reason is not None and not self._is_resize(pod):
            self._reject(pod, entry, reason, message)

    @about_pod("Pod admission denied")
    def _denied(self, entry: Entry, pod: Pod) -> None:
        # A refused resize leaves the pod as it is: that is no refusal of the pod.
        if entry.text("operation") in ("", "add") and not self._is_resize(pod):
            self._reject(pod, entry, entry.text("reason"), entry.text("message"))

    @reads_if(
        lambda values: values.get("type") == "Warning" or values.get("reason") in _WORKER_REASONS,
        "Event occurred",
    )
    def _event(self, entry: Entry) -> None:
        is_asked = self._admissions.undecided or entry.values.get("type") == "Warning"
        event = entry.event() if is_asked else None
        if event is None:
            return
        if event.reason in _WORKER_REASONS:
            self._proved(entry, event.pod)
            return
        if event.type != "Warning" or event.container is not None:
            return
        pod = self._pods.named(event.pod, entry)
        known = rejection_in_status(self.context.status_of(pod.uid))
        expected = known is not None and known[0] == event.reason
        if pod in self._refusals:
            self._supported(pod, event.reason, event.message, entry)
        elif (pod in self._admissions.undecided or self._is_resize(pod)) and (
            expected or is_refusal(event.reason, event.message)
        ):  # a resize that is refused leaves no such event
            self._reject(pod, entry, event.reason, event.message)
            self._refusals[pod].settle()

    def _supported(self, pod: Pod, reason: str, message: str, entry: Entry) -> None:
        """The event of a refusal; the kubelet's own line comes first, also where they differ."""
        waiting = self._refusals[pod]
        same = waiting.body.reason == reason
        if same or is_refusal(reason, message):
            waiting.join(entry.evidence)
        if same and not waiting.body.message:
            waiting.learn(**pod.names, message=message)
        if same:
            waiting.settle()

    @about_pod("Resize cannot be accommodated")
    def _not_resized(self, entry: Entry, pod: Pod) -> None:
        """What was taken for the pod's refusal, before a sign of its admission, was this."""
        refusal = self._refusals.get(pod)
        if refusal is not None and entry.ts_ns - refusal.fact.ts_ns < _EVENT_WAIT_NS:
            refusal.drop()
            del self._refusals[pod]
            self._admissions.begin(pod)

    def _is_resize(self, pod: Pod) -> bool:
        """A pod that was admitted is put through admission again for each resize."""
        profile, undecided = self.context.profile, self._admissions.undecided
        return (
            pod.added is not None
            and not (pod in self._refusals or pod in undecided or pod.rejected)
            and (profile is None or profile.admission.resized_requests_count)
        )

    def _reject(self, pod: Pod, entry: Entry, reason: str, message: str) -> None:
        self._decided(pod)
        waiting = self._refusals.get(pod)
        if waiting is not None:
            # The same refusal, reported again by whom it was handed to.
            waiting.learn(**pod.names, reason=reason, message=message)
            waiting.lead(entry.evidence)
            return
        added = () if pod.added is None else pod.added.evidence
        cause = pod.no_room or pod.added
        body = PodRejected(**pod.names, reason=reason, message=message)
        # Of the same line, the manager's refusal leads to that of the pod.
        fact = Fact(entry.ts_ns, body, (entry.evidence, *added), cause=cause, late=True)
        self._refusals[pod] = self.queue.hold(fact, _EVENT_WAIT_NS)
        pod.rejected = fact
