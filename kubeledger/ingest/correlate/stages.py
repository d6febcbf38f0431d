"""Where pods get stuck.

A failed try stands in several lines, from where it failed up to the worker that syncs the pod. Each
kind of line is a teller of one run (``holdback``), which a success, a later stage or another
process of the kubelet ends. Back-offs of restarts are records of their own
(``containers``).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.ingest.correlate.assembler import PodAssembler, ends, reads, reads_events
from kubeledger.ingest.correlate.context import Subject
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import WAIT_NS, Repeated
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.messages.containers import pleg_event
from kubeledger.ingest.messages.podref import formatted_pod, structured_pod
from kubeledger.ingest.sources.items import Facts, LogLine
from kubeledger.kubelet.kube.resources import UID
from kubeledger.kubelet.lifecycle.stages import (
    OF_CONTAINER,
    SIDE_BY_SIDE,
    TO_END,
    PodFailure,
    StageFailure,
    failure_of,
    failure_of_start,
    failure_of_volume,
    failures_of_sync,
    order_of,
    shape_of,
)
from kubeledger.model.bodies.node import PodStageFailed, Stage
from kubeledger.model.patterns import regex

_SAYS: dict[str, tuple[Stage, str]] = {
    "CreatePodSandbox for pod failed": ("sandbox", "CreatePodSandboxError"),
    "Error processing volume": ("volumes", "FailedMount"),
    "Failed to add volume to desiredStateOfWorld": ("volumes", "FailedMount"),
    "Failed to create log directory for pod": ("sandbox", "CreatePodSandboxError"),
    "Failed to create sandbox for pod": ("sandbox", "CreatePodSandboxError"),
    "Failed to delete cgroup paths": ("teardown", "FailedRemoveCgroup"),
    "Failed to execute PostStartHook": ("hook", "PostStartHookError"),
    "Failed to generate sandbox config for pod": ("sandbox", "CreatePodSandboxError"),
    "Failed to kill all the processes attached to cgroup": ("teardown", "FailedRemoveCgroup"),
    "Failed to prepare dynamic resources": ("resources", "FailedPrepareDynamicResources"),
    "Failed to remove orphaned pod dir": ("teardown", "OrphanedPod"),
    "Kill container failed": ("stop", "KillContainerError"),
    "Orphan pod": ("teardown", "OrphanedPod"),
    "Pod cannot start yet": ("config", "Pod cannot start yet"),
    "Unable to attach or mount volumes for pod; skipping pod": ("volumes", "FailedMount"),
    "Unable to make pod data directories for pod": ("volumes", "FailedToMakePodDataDirectories"),
}
"""Message -> the stage that it is about, and the reason that the sync error or an event gives."""

_EARLIER_POD = "an earlier static pod of this name has not ended"
"""Why the worker waits that cannot start a pod yet (``allowStaticPodStart``)."""

_REFUSED = "Predicate failed on Pod"
"""Whole lines of it say why, and are refusals."""

_SUBPATHS = (
    "Failed to create subPath directory for volumeMount of the container",
    "Failed to prepare subPath for volumeMount of the container",
)
_OF_SUBPATH = regex(
    r'failed to (?:prepare subPath|create subPath directory) for volumeMount "([^"]+)" of '
    r'container "([^"]+)"'
)

_EVENTS: dict[str, Stage] = {"Pulled": "image", "Created": "create", "Started": "start"}
"""Event -> the stage that it shows to be passed."""

_UID = regex(rf"(?:\bpod[_\"]?|orphaned pod \"|\"KillPodSandbox\\*\" for \\*\")({UID})")
"""Where a text names a pod by its UID alone: a cgroup, a sandbox, a directory."""

_DOCKERS_NAME = regex(r"/k8s_(?!POD_)([^_\s\"]+)_([^_\s\"]+)_([^_\s\"]+)_[0-9a-f]")
"""Container, pod and namespace in the name that dockershim gave to a container."""

_Run = tuple[str, str | None, Stage, str | None]
"""Pod, container, stage; of stages in which several things are tried side by side, which."""


class StagesAssembler(PodAssembler):
    """Stages that pods do not get past."""

    shares_queue = False
    """A failure that waits for its other lines keeps nothing else waiting."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._runs = Repeated[_Run](self.queue)
        self._of_pods: dict[str, dict[_Run, None]] = {}
        self._uids: dict[tuple[str | None, str], str] = {}
        self._subpaths: dict[tuple[str, str], LogLine] = {}
        self._process = 0

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What another process of the kubelet says is new."""
        if self._sync_loop.process != self._process:
            self._process = self._sync_loop.process
            self._runs.end(ts_ns)
            self._of_pods.clear()
        self._runs.pass_time(ts_ns)

    def is_quiet(self) -> bool:
        """Whether no pod is known to be stuck."""
        return not self._runs and self.queue.is_empty

    def end(self, ts_ns: int) -> None:
        """What was said up to the last line."""
        self._runs.end(ts_ns)

    # -- what fails -----------------------------------------------------------------------

    @reads("Error syncing pod, skipping", "KillPod failed", "killPodWithSyncResult failed")
    def _synced(self, entry: Entry) -> None:
        error = entry.text("err")
        self._fail(entry, _subject(entry, error), failures_of_sync(error))

    @reads("Unhandled Error")
    def _unhandled(self, entry: Entry) -> None:
        """Errors that a function cannot return: of starting a container, of killing a pod."""
        error = entry.text("err")
        if (of_start := failure_of_start(error)) is not None:
            self._fail_named(entry, of_start)
        elif '"KillPodSandbox" for ' in error:
            self._fail(entry, _named_in(error), failures_of_sync(error))

    @reads("CreateContainer in sandbox from runtime service failed")
    def _not_created(self, entry: Entry) -> None:
        """The runtime's own error: it names the sandbox, and dockerd in its words the container."""
        error, container = entry.text("err"), None
        subject, sandbox = Subject(), self._containers.get(entry.get("podSandboxID"))
        if (named := _DOCKERS_NAME.search(error)) is not None:
            container, name, namespace = named.groups()
            subject = Subject(namespace, name)
        elif sandbox is not None:
            subject = Subject(sandbox.pod.namespace, sandbox.pod.name, sandbox.pod.uid)
        failure = failure_of("create", "CreateContainerError", error, container)
        self._fail(entry, subject, [failure])

    @reads(*_SUBPATHS)
    def _no_subpath(self, entry: Entry) -> None:
        """Why: the error of the container that follows names the volume alone."""
        self._subpaths[entry.text("volumeMountName"), entry.text("containerName")] = entry.line

    def _with_cause(self, failure: StageFailure, ts_ns: int) -> StageFailure:
        """A failure with what a line before it says of the same."""
        named = _OF_SUBPATH.fullmatch(failure.message) if self._subpaths else None
        line = None if named is None else self._subpaths.pop((named[1], named[2]), None)
        if line is None or ts_ns - line.ts_ns > WAIT_NS:
            return failure
        line.is_told = True
        error = (line.values or {}).get("err")
        return failure._replace(message=f"{failure.message}: {error}") if error else failure

    @reads("No retries permitted")
    def _operation(self, entry: Entry) -> None:
        of_volume = failure_of_volume(entry.text("err"))
        if of_volume is not None:
            self._fail_named(entry, of_volume)

    @reads(*_SAYS)
    def _says(self, entry: Entry) -> None:
        stage, reason = _SAYS[entry.message]
        message = entry.text("err") or (_EARLIER_POD if stage == "config" else "")
        container = entry.get("containerName")
        about = entry.get("volumeName") or (container if stage == "stop" else None)
        subject = _subject(entry, f"{message} {entry.text('cgroupName')}")
        self._fail(entry, subject, [failure_of(stage, reason, message, container, about)])

    def read_cut(self, line: LogLine) -> Facts | None:
        """What a line still shows that was cut inside a text; None where that is nothing.

        A sync error names its pod itself; ``name_namespace`` shows the name as soon as it ends.
        """
        key, begun = getattr(line.values, "begun", None) or ("", "")
        subject, failures = Subject(), failures_of_sync("")
        whole = dict(line.values or {})
        if line.message.startswith("Error syncing pod"):
            error = whole.get("err") or (begun if key == "err" else "")
            named = structured_pod(whole.get("pod")) or formatted_pod(error.replace(" pod=", " "))
            ref = named or formatted_pod(line.message)
            subject = _named_in(error) if ref is None else Subject(*ref)
            failures = failures_of_sync(error)
        elif key == "err" and (of_volume := failure_of_volume(begun)) is not None:
            subject, failures = _of_volume(of_volume), (of_volume.failure,)
        elif line.message == _REFUSED and key == "pod" and "_" in begun:
            subject = Subject(pod=begun.partition("_")[0])
            failures = (StageFailure("admission", _REFUSED, ""),)
        if subject == Subject() or not failures:
            return None
        line.is_told = True
        self.before(line.ts_ns, line.pid)
        # Where the pod's key is whole, the back-off of a restart has its record.
        with_runs = "pod" not in whole
        self._fail(Entry(line, line.message), subject, failures, with_runs=with_runs)
        return self.queue.release(line.ts_ns)

    def _fail_named(self, entry: Entry, told: PodFailure) -> None:
        self._fail(entry, _of_volume(told), [told.failure])

    def _fail(
        self,
        entry: Entry,
        subject: Subject,
        failures: Iterable[StageFailure],
        *,
        with_runs: bool = False,
    ) -> None:
        if subject.uid is None and subject.pod is None:
            return  # of the node: only its line is counted
        subject = self._known(subject, entry.ts_ns)
        pod = _key(subject)
        for failure in failures:
            if failure.stage == "run" and not with_runs:
                continue  # a record of its own
            if failure.stage == "create":
                failure = self._with_cause(failure, entry.ts_ns)
            if failure.stage not in TO_END:
                self._pass(pod, failure.container, failure.stage, entry.ts_ns, before=True)
            body = PodStageFailed(
                namespace=subject.namespace,
                pod=subject.pod,
                pod_uid=subject.uid,
                container=failure.container,
                stage=failure.stage,
                reason=failure.reason,
                message=failure.message,
                about=failure.about,
                is_waiting=failure.is_waiting,
                first_ts_ns=entry.ts_ns,
                last_ts_ns=entry.ts_ns,
            )
            is_one_of_several = failure.stage in SIDE_BY_SIDE
            what = f"{failure.reason} {failure.about}" if is_one_of_several else None
            key: _Run = pod, failure.container, failure.stage, what
            self._of_pods.setdefault(pod, {})[key] = None
            self._runs.say(key, shape_of(failure), body, entry.message, entry)

    def _known(self, subject: Subject, ts_ns: int) -> Subject:
        """The subject with the name or the UID that other lines and files show; none is learned.

        What these lines name must not change what others are known by.
        """
        found = self._pods.known(subject)
        if found is not None:
            return Subject(found.namespace, found.name, subject.uid or found.uid)
        subject = self.context.completed(subject, ts_ns)
        if subject.pod is None:
            return subject
        named = (subject.namespace, subject.pod)
        known = self._uids.get(named)
        if subject.uid is None:
            return Subject(*named, known)
        if known not in (None, subject.uid):  # another pod of the same name
            self._pass(_key(subject), None, "teardown", ts_ns)
        self._uids[named] = subject.uid
        return subject

    # -- what passes ----------------------------------------------------------------------

    @ends("No sandbox for pod can be found. Need to start a new one", "Created PodSandbox for pod")
    def _sandbox(self, entry: Entry) -> None:
        stage: Stage = "sandbox" if entry.message.startswith("Created") else "volumes"
        self._pass(_key(self._known(entry.subject, entry.ts_ns)), None, stage, entry.ts_ns)

    @reads_events(*_EVENTS)
    def _event(self, entry: Entry) -> None:
        event = entry.event() if self._runs else None
        if event is not None:
            subject = self._known(
                Subject(event.pod.namespace, event.pod.name, event.pod.uid), entry.ts_ns
            )
            self._pass(_key(subject), event.container, _EVENTS[event.reason], entry.ts_ns)

    @ends("SyncLoop (PLEG): event for pod")
    def _started(self, entry: Entry) -> None:
        _, kind, data = pleg_event(entry.values.get("event"))
        container = self._containers.get(data)
        if kind != "ContainerStarted" or container is None:
            return
        pod = container.pod
        key = _key(self._known(Subject(pod.namespace, pod.name, pod.uid), entry.ts_ns))
        if container.is_sandbox:
            self._pass(key, None, "sandbox", entry.ts_ns)
        elif container.name is not None:
            self._pass(key, container.name, "start", entry.ts_ns)

    def _pass(
        self, pod: str, container: str | None, stage: Stage, ts_ns: int, *, before: bool = False
    ) -> None:
        """What was said of stages up to this one is over; ``before``: not of this one itself."""
        said_of = self._of_pods.get(pod, {})
        for key in list(said_of):
            _, name, said, _ = key
            is_passed = order_of(said) <= order_of(stage) - before
            if is_passed and (said not in OF_CONTAINER or name == container):
                del said_of[key]
                self._runs.over(key, ts_ns)


def _key(subject: Subject) -> str:
    """Lines name some pods by name, some by UID, most by both."""
    return f"{subject.namespace}/{subject.pod}" if subject.pod else subject.uid or ""


def _subject(entry: Entry, text: str) -> Subject:
    """The pod of a line; where no key names it, the text may."""
    subject = entry.subject
    return subject if subject.uid or subject.pod else _named_in(text)


def _of_volume(told: PodFailure) -> Subject:
    ref = formatted_pod(told.pod or "")
    return Subject(None, told.pod, told.uid) if ref is None else Subject(*ref)


def _named_in(text: str) -> Subject:
    found = _UID.search(text)
    return Subject(uid=found[1].replace("_", "-") if found else None)
