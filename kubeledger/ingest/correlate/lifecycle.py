"""Pods as config sources and pod lists show them, and how pods and kubelets end.

``SyncLoop ADD`` and its kin give one fact a pod; pod lists give one a pod whose spec or
status changed since the last list of that kind. This assembler also keeps what the pods'
configuration is, and where a new kubelet process begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from kubeledger.ingest.correlate.assembler import (
    PodAssembler,
    about_pod,
    reads,
    reads_events,
    takes,
)
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.registers import Pod, Registers
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.klog.log_signs import FATAL, first_line, is_of_systemd, reason_of
from kubeledger.ingest.messages.podref import structured_pod
from kubeledger.ingest.sources.items import Fact, Facts, LogLine, PodList
from kubeledger.ingest.sources.times import api_time
from kubeledger.model.bodies.lifecycle import (
    PodConfigChanged,
    PodListed,
    PodTerminated,
    PodTerminating,
)
from kubeledger.model.bodies.node import KubeletExited
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, whole_number

# Ends: pods that the kubelet stops as a whole, and kubelets that end by themselves.
#
# Since 1.22 a pod worker logs (at ``-v=4``) why it stops a pod, and how much time it gives. The
# shutdown manager logs so at ``-v=1``, before the worker does.

Reason = Literal["deleted", "removed", "orphaned", "ended", "killed", "shutdown"]


class EndingsAssembler(PodAssembler):
    """Pods that are stopped as a whole; kubelets that give up."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._exit: Waiting[KubeletExited] | None = None
        self._open: dict[Pod, tuple[int, Waiting[PodTerminating]]] = {}

    @about_pod("Pod is stopped")
    def _begins(self, entry: Entry, pod: Pod) -> None:
        reason = cast(Reason, entry.text("because"))
        waiting = self._of_process(pod) or self._record(pod, entry, reason)
        waiting.join(entry.evidence)
        if reason == "shutdown":
            _give(waiting, entry)

    @about_pod("Stopping PodSandbox for pod, will start new one")
    def _replaces(self, entry: Entry, pod: Pod) -> None:
        """The sandbox is gone or changed: what runs in the pod goes with it."""
        pod.lacks_sandbox = True

    @about_pod("Created PodSandbox for pod")
    def _replaced(self, entry: Entry, pod: Pod) -> None:
        pod.lacks_sandbox = False

    @about_pod("Pod terminating with grace period")
    def _grace(self, entry: Entry, pod: Pod) -> None:
        """On a slow node the worker comes to it seconds later: that is told, too."""
        waiting = self._of_process(pod)
        if waiting is not None:
            news = waiting.body.grace_period_s is None and _grace_in(entry) is not None
            if news and not waiting.is_open:
                fact = shown(entry, waiting.body, cause=waiting.fact)
                waiting = self.queue.hold(fact)
                self._open[pod] = self._sync_loop.process, waiting
            waiting.join(entry.evidence)
            _give(waiting, entry)
            waiting.settle()

    @reads_events("DeadlineExceeded")
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is not None:
            self._pods.named(event.pod, entry).past_deadline = True

    @about_pod("Pod is being synced for the first time")
    def _first_synced(self, entry: Entry, pod: Pod) -> None:
        """A worker that is new knows of no end: a static pod comes back with its UID."""
        pod.ending, pod.past_deadline = None, False

    def _of_process(self, pod: Pod) -> Waiting[PodTerminating] | None:
        """The end that the present kubelet process has begun for a pod."""
        process, waiting = self._open.get(pod, (-1, None))
        return waiting if process == self._sync_loop.process and pod.ending else None

    def _record(self, pod: Pod, entry: Entry, reason: Reason) -> Waiting[PodTerminating]:
        body = PodTerminating(**pod.names, reason=reason, grace_period_s=None)
        cause = pod.deleted
        if reason == "killed":
            cause = pod.evicted or pod.preempted
        waiting = self.queue.hold(shown(entry, body, cause=cause))
        self._open[pod] = self._sync_loop.process, waiting
        pod.ending = waiting.fact
        return waiting

    @reads("The kubelet gives up", FATAL)
    def _gave_up(self, entry: Entry) -> None:
        """A process ends once: what is written after the first such line only follows from it."""
        line, last = entry.line, self._sync_loop.exited
        reason = reason_of(line)
        if reason is None:
            return
        line.is_told = True
        error = entry.told("err")
        message = f"{line.message}: {error}" if error else first_line(line.message)
        if last is not None and _is_same(line, last):
            self._tell_whole(message, line.evidence)
            return
        body = KubeletExited(pid=line.pid, reason=reason, message=message)
        refused = self.registers.refused_state
        is_why = refused is not None and line.ts_ns - refused.ts_ns <= NS_PER_S
        self._exit = self.queue.hold(shown(line, body, cause=refused if is_why else None))
        self._sync_loop.exited = self._exit.fact
        if _shortened(message) is None:
            self._exit.settle()

    def _tell_whole(self, message: str, evidence: Evidence) -> None:
        """What ``systemctl status`` has shortened in its midst may stand there whole, too."""
        begin, _, end = (self._exit and _shortened(self._exit.body.message)) or (None, "", "")
        if self._exit is None or begin is None or len(message) <= len(begin + end):
            return
        if message.startswith(begin) and message.endswith(end):
            self._exit.learn(message=message)
            self._exit.lead(evidence)
            self._exit.settle()


def _give(waiting: Waiting[PodTerminating], entry: Entry) -> None:
    """Note the grace period, if the line shows it."""
    grace_s = _grace_in(entry)
    if grace_s is not None:
        waiting.learn(grace_period_s=grace_s)


def _grace_in(entry: Entry) -> int | None:
    return whole_number(entry.text("gracePeriod"))


def _shortened(message: str) -> tuple[str, str, str] | None:
    """What stands before and after an ellipsis."""
    mark = next((each for each in ("…", "...") if each in message), None)
    return None if mark is None else message.partition(mark)


def _is_same(line: LogLine, last: Fact) -> bool:
    """Whether a line reports an end that was reported before; no other start came between."""
    assert isinstance(last.body, KubeletExited)
    same = line.pid == last.body.pid
    soon = line.ts_ns - last.ts_ns < NS_PER_S
    return is_of_systemd(line) or (same and (soon or line.pid is not None))


Operation = Literal["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"]
_CONFIGURED = "SyncLoop "


class _Body(NamedTuple):
    """What a list says of a pod; as long as that is held it is the same object."""

    pod: dict[str, Any]
    body: PodListed
    digest: bytes


class LifecycleAssembler(PodAssembler):
    """Config changes, pod lists and terminated pods."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._listed: dict[str, dict[tuple[str, str, str], bytes]] = {}
        self._bodies: dict[str, dict[int, _Body]] = {}
        self._terminated: set[tuple[str, str, str | None]] = set()

    @reads("SyncLoop (SYNC) pods", "SyncLoop (housekeeping)")
    def _turn(self, entry: Entry) -> None:
        self._sync_loop.iterated()

    @reads("Starting kubelet main sync loop")
    def _starting(self, entry: Entry) -> Facts:
        self._sync_loop.start(entry.ts_ns)
        self._admissions.abandon()
        return self.queue.drain()

    @reads(*(_CONFIGURED + operation for operation in get_args(Operation)))
    def _configured(self, entry: Entry) -> None:
        self._sync_loop.iterated()
        source, operation = entry.text("source"), entry.message.removeprefix(_CONFIGURED)
        if operation == "ADD":
            self._admissions.begin_add(entry.line)
        find = self._pods.added if operation == "ADD" else self._pods.named
        for ref in entry.pods:
            pod = find(ref, entry)
            body = PodConfigChanged(
                **pod.names, operation=cast(Operation, operation), source=source or None
            )
            _note(pod, operation, source, self.queue.add(shown(entry, body)))

    @reads("Generated pod name", "Topology Admit Handler")
    def _named(self, entry: Entry) -> None:
        """The UID, which the ADD does not show: of a manifest's pod a moment before it.

        From 1.28 to 1.30 the first admit handler shows it, right after the ADD.
        """
        values = entry.values
        name = {"namespace": values.get("podNamespace"), "name": values.get("podName")}
        ref = structured_pod(values.get("pod") or name, values.get("podUID"))
        if ref is not None and ref.uid is not None:
            self._pods.named(ref, entry)

    @about_pod(
        "Pod has completed, ignoring remaining sync work",
        "Pod is terminated and will need no more status updates",
        "Pod fully terminated and removed from etcd",
    )
    def _gone(self, entry: Entry, pod: Pod) -> None:
        """One that is to be created had ended before, and one that was refused never ran."""
        if entry.text("syncType").startswith("create") or pod.rejected:
            return
        key = (pod.namespace, pod.name, pod.uid)
        if key not in self._terminated:
            self._terminated.add(key)
            self.queue.add(shown(entry, PodTerminated(**pod.names), cause=pod.deleted))

    @takes(PodList)
    def _pod_list(self, item: PodList) -> None:
        for body in self._changes(item):
            self.queue.add(shown(item, body))

    def _changes(self, item: PodList) -> Iterator[PodListed]:
        before = self._listed.setdefault(item.listed_by, {})
        last = self._bodies.get(item.listed_by, {})
        bodies: dict[int, _Body] = {}
        now: dict[tuple[str, str, str], bytes] = {}
        for pod in item.pods:
            known = last.get(id(pod)) or _body_of(pod, item)
            bodies[id(pod)] = known
            body = known.body
            key = (body.namespace, body.pod, body.pod_uid or "")
            now[key] = known.digest
            self._note_phase(body)
            if before.get(key) != now[key]:
                yield body
        self._bodies[item.listed_by] = bodies
        if item.complete:
            for key in sorted(before.keys() - now.keys()):
                if item.namespaces is None or key[0] in item.namespaces:
                    del before[key]
                    yield _gone_body(*key, item)
        before.update(now)

    def _note_phase(self, body: PodListed) -> None:
        pod = self._pods.with_uid(body.pod_uid)
        if pod is not None and body.status is not None:
            pod.phase = body.status.get("phase")


def _note(pod: Pod, operation: str, source: str, fact: Fact) -> None:
    if pod.is_static and not pod.removed and source == "api":
        return  # its mirror
    if operation == "ADD":
        pod.source, pod.added = source, fact
    elif operation in ("DELETE", "REMOVE"):
        pod.deleted = pod.deleted or fact
        pod.removed = pod.removed or operation == "REMOVE"


def _body_of(pod: dict[str, Any], item: PodList) -> _Body:
    body = _listed(pod, item)
    return _Body(pod, body, _digest(body))


def _listed(pod: dict[str, Any], item: PodList) -> PodListed:
    metadata = pod.get("metadata") or {}
    return PodListed(
        namespace=metadata.get("namespace") or "default",
        pod=metadata.get("name") or "",
        pod_uid=kubelet_uid(pod),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        created_ts_ns=api_time(metadata.get("creationTimestamp")),
        deletion_ts_ns=api_time(metadata.get("deletionTimestamp")),
        spec=pod.get("spec") or {},
        status=None if item.listed_by == "manifest" else pod.get("status") or {},
        listed_by=item.listed_by,
    )


def _gone_body(namespace: str, name: str, uid: str, item: PodList) -> PodListed:
    return PodListed(
        namespace=namespace,
        pod=name,
        pod_uid=uid or None,
        spec=None,
        status=None,
        listed_by=item.listed_by,
        gone=True,
    )


def _digest(body: PodListed) -> bytes:
    """Short stand-in of everything the record holds, so that lists need not be kept."""
    return hashlib.blake2b(msgspec.json.encode(body, order="sorted"), digest_size=16).digest()
