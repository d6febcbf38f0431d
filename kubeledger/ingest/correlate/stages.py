"""Where pods get stuck, and lines of severity W, E and F that only their shape tells.

A failed try stands in several lines, from where it failed up to the worker that syncs the pod. Each
kind of line is a teller of one run (``holdback``), which a success, a later stage or another
process of the kubelet ends. Back-offs of restarts are records of their own
(``containers``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

from kubeledger.ingest.correlate.assembler import Assembler, Entry, ends, reads, reads_events
from kubeledger.ingest.correlate.context import BundleContext, Subject
from kubeledger.ingest.correlate.holdback import WAIT_NS, Holdback, Repeated
from kubeledger.ingest.correlate.registers import PodAssembler, Registers
from kubeledger.ingest.messages.containers import pleg_event
from kubeledger.ingest.messages.podref import formatted_pod, structured_pod, structured_pods
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
    status_message,
)
from kubeledger.model.bodies.node import ErrorsLogged, PodStageFailed, Stage
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S

_EVERY_NS = 3600 * NS_PER_S
_SHAPES_MAX = 1000
"""Lines of more shapes than this are counted together: memory must stay flat."""
_OTHER_SHAPES = "(more shapes)"

_POD_AND_UID = regex(r'\bpod \\*"([^"\\]+)\\*" \(UID: \\*"([^"\\]+)\\*"\)')
_POD_DIRECTORY = regex(f"/pods/({UID})/")
_NODE = Subject()

_WRAPPED_MAX = 32
"""Of so many lines before it is asked whether a line wraps them."""
_MET_NS = 10 * NS_PER_S
"""A runtime that is down is asked by many; a sync or a check says so every few seconds."""
_TOLD_MAX = 8
_ERROR_MIN = 16
_ANYBODYS = frozenset({"context deadline exceeded", "timed out waiting for the condition"})
_QUOTES = ("\\", '"', "'", "`")


class _Heard(NamedTuple):
    """A line, and what it says.

    Attributes:
        error: what went wrong, without quotes; empty where many lines say the same.
    """

    line: LogLine
    shape: str
    pod: Subject
    error: str


class ErrorsAssembler(Assembler):
    """Counts them by shape, the pod that they name, and the kubelet process.

    An error is logged where it came up, and again by each who wraps it, or meets it: what a line
    says that is told, with the same error in it, is told, too. So each is counted a second later.
    """

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._said = Repeated[Hashable](self.queue, _EVERY_NS, wait_ns=0)
        self._shapes: set[tuple[str, str]] = set()
        self.hears: deque[_Heard] = deque()
        self._told: deque[tuple[_Heard, str]] = deque(maxlen=_TOLD_MAX)

    def tell(self, line: LogLine, shape: str) -> Facts:
        """Take in a line that all others have read."""
        facts = self.due(line.ts_ns)
        heard = _Heard(line, shape, self._pod(line), _error_of(line))
        if not line.is_told and heard.error:
            since_ns = line.ts_ns - _MET_NS
            line.is_told = any(
                told.line.ts_ns >= since_ns and _may_tell(told, heard) and heard.error in text
                for told, text in self._told
            )
        if line.is_told:
            self._wraps(heard)
        self.hears.append(heard)
        return facts

    def due(self, now_ns: int) -> Facts:
        """What was heard a second before; all when the clock was set back."""
        heard = self.hears
        while heard and abs(now_ns - heard[0].line.ts_ns) > WAIT_NS:
            self._count(heard.popleft())
        return self.queue.release(now_ns)

    def waiting_since(self) -> int | None:
        """As of all; what was heard waits, too."""
        since_ns = self.queue.waiting_since()
        if not self.hears:
            return since_ns
        heard_ns = self.hears[0].line.ts_ns
        return heard_ns if since_ns is None else min(since_ns, heard_ns)

    def _wraps(self, told: _Heard) -> None:
        """A line is told: so is what came up before, up to it."""
        whole = [_whole(told.line)]
        self._told.append((told, whole[0]))
        for each in islice(reversed(self.hears), _WRAPPED_MAX):
            if not _may_tell(told, each):
                continue
            if each.line.is_told or (each.error and any(each.error in text for text in whole)):
                each.line.is_told = True
                whole.append(_whole(each.line))

    def _count(self, heard: _Heard) -> None:
        line, shape, pod, _ = heard
        self.before(line.ts_ns)
        if (line.file, shape) not in self._shapes:
            if len(self._shapes) < _SHAPES_MAX:
                self._shapes.add((line.file, shape))
            else:
                shape = _OTHER_SHAPES
        key = (
            line.severity,
            line.file,
            shape,
            pod.namespace,
            pod.pod,
            pod.uid,
            line.pid,
            line.is_told,
        )
        if self._said.say_again(key, None, "log", line):
            return
        body = ErrorsLogged(
            severity=cast(Literal["W", "E", "F"], line.severity),
            source=line.file,
            shape=shape,
            namespace=pod.namespace,
            pod=pod.pod,
            pod_uid=pod.uid,
            pid=line.pid,
            recorded=line.is_told,
            first_ts_ns=line.ts_ns,
            last_ts_ns=line.ts_ns,
        )
        self._said.say(key, None, body, "log", line)

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What goes on for long is recorded again."""
        self._said.pass_time(ts_ns)

    def end(self, ts_ns: int) -> None:
        """What was counted since."""
        while self.hears:
            self._count(self.hears.popleft())
        self._said.end(ts_ns)

    def _pod(self, line: LogLine) -> Subject:
        """The pod that the line names, with what the bundle knows of it."""
        values = line.values or {}
        subject = _in_values(values) or _in_text(line.message) or _in_paths(line.message, values)
        return _NODE if subject is None else self.context.completed(subject, line.ts_ns)


def _error_of(line: LogLine) -> str:
    """What went wrong, as those say it, too, who wrap it: ``err``, a path, or the end of a text."""
    values = line.values or {}
    text = dict.get(values, "err") or dict.get(values, "path")
    if not isinstance(text, str):
        _, code, text = line.message.partition(" desc = ")
        _, _, text = ("", "", text) if code else line.message.partition(": ")
    error = _plain(text)
    return "" if len(error) < _ERROR_MIN or error in _ANYBODYS else error


def _whole(line: LogLine) -> str:
    texts = (text for text in dict.values(line.values or {}) if isinstance(text, str))
    return _plain(" ".join((line.message, *texts)))


@lru_cache(64)
def _plain(text: str) -> str:
    """A text as it is in whatever quotes, and without a runtime's codes."""
    for quote in _QUOTES:
        text = text.replace(quote, "")
    return status_message(text, everywhere=True).strip()


def _may_tell(told: _Heard, other: _Heard) -> bool:
    """Whether both are of one process, and may be of one pod: a line that names none is of any."""
    pod, its = told.pod, other.pod
    if told.line.pid != other.line.pid or _NODE in (pod, its):
        return told.line.pid == other.line.pid
    if pod.uid is not None and its.uid is not None:
        return pod.uid == its.uid
    return pod.pod == its.pod


def _in_values(values: dict[str, Any]) -> Subject | None:
    # A cut line refuses to say what is missing; here nothing has to be there.
    if dict.get(values, "kind", "Pod") != "Pod":  # an event about the node
        return None
    pod, uid, pods = (dict.get(values, key) for key in ("pod", "podUID", "pods"))
    named = [ref] if (ref := structured_pod(pod, uid)) is not None else structured_pods(pods)
    if len(named) == 1:
        return Subject(*named[0])
    return Subject(uid=uid) if isinstance(uid, str) and uid and not named else None


@lru_cache(1024)
def _in_text(message: str) -> Subject | None:
    if (ref := formatted_pod(message)) is not None:
        return Subject(*ref)
    named = _POD_AND_UID.search(message)
    return None if named is None else Subject(pod=named[1], uid=named[2])


def _in_paths(message: str, values: dict[str, Any]) -> Subject | None:
    """The pod whose directory, ``pods/UID`` under the kubelet's root, the line names alone."""
    texts = (message, *(text for text in dict.values(values) if isinstance(text, str)))
    uids = {uid for text in texts if "/pods/" in text for uid in _POD_DIRECTORY.findall(text)}
    return Subject(uid=uids.pop()) if len(uids) == 1 else None


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

    def __init__(self, context: BundleContext, registers: Registers) -> None:
        super().__init__(context, registers)
        # Of its own: a failure that waits for its other lines keeps nothing else waiting.
        self.queue = Holdback()
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
