"""What errors that the kubelet logs of a pod say of the stages of its way.

A sync error holds one failure for each container, or another cause; an error of a volume names
its pod; both repeat names in layers, and quote what they wrap.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from kubeledger.kubelet.lifecycle.stages import StageFailure, failure_of, failure_of_waiting
from kubeledger.model.bodies.stages import Stage


class PodFailure(NamedTuple):
    """A failure in a text that names its pod, too.

    Attributes:
        pod: ``name_namespace(uid)``, or the name alone; None where only the UID is there.
    """

    pod: str | None
    uid: str | None
    failure: StageFailure


_QUOTED = r"[^\"\\]*(?:\\.[^\"\\]*)*"
_RESULT = re.compile(
    rf"failed to \"(?P<action>\w+)\" for \"(?P<target>{_QUOTED})\" with (?P<reason>\w+)"
    rf"(?:[^\"]*?: \"(?P<message>{_QUOTED}))?",
    re.DOTALL,
)
"""``PodSyncResult.Error``; before 1.22 the error of a hook follows its reason."""

_ACTIONS: dict[str, Stage] = {
    "ConfigPodSandbox": "sandbox",
    "CreatePodSandbox": "sandbox",
    "KillContainer": "stop",
    "KillPodSandbox": "stop",
    "RemoveContainer": "create",
    "SetupNetwork": "sandbox",
    "TeardownNetwork": "stop",
}
"""What a sync result is of -> stage; starts of containers tell it by their reason.

A resize in place (``ResizePodInPlace``) is no stage of the way.
"""

_CAUSES: tuple[tuple[str, Stage, str], ...] = (
    (r"network is not ready", "network", "NetworkNotReady"),
    (
        r"failed to ensure that the pod: \S+ cgroups exist|failed to update the state of pod-level",
        "cgroup",
        "FailedCreatePodContainer",
    ),
    (r".*\bunmounted volumes=|.*unattached/unmounted volumes=", "volumes", "FailedMount"),
    (r"Unable to (?:attach or )?mount volumes", "volumes", "FailedMount"),
    (r"mkdir .*/pods/", "volumes", "FailedToMakePodDataDirectories"),
    (r"mounted volumes=", "teardown", "FailedUnmount"),
    (r".*cgroup paths|.*processes attached to the", "teardown", "FailedRemoveCgroup"),
    (
        r"unprepare |.*NodeUnprepareResource|get gRPC client for DRA driver",
        "stop",
        "FailedKillPod",
    ),
    (
        r".*(?:[Rr]esource ?[Cc]laim|dynamic resources|PrepareResources|registered DRA plugins)"
        r"|claim \S+: ",
        "resources",
        "FailedPrepareDynamicResources",
    ),
    (r"error killing|.*CRI violation|.*pod termination", "stop", "FailedKillPod"),
    (r"(?i:pod .*cannot be run)|Cannot enforce AppArmor", "admission", "CannotRun"),
)
"""Other errors of ``Kubelet.SyncPod``, ``SyncTerminatingPod`` and ``SyncTerminatedPod``."""


@lru_cache(maxsize=256)
def failures_of_sync(error: str) -> tuple[StageFailure, ...]:
    """What ``Error syncing pod, skipping`` says.

    Of no known cause the worker has not come to the first stage: it could not read the pod's
    status from the runtime (``podWorkerLoop``, event ``FailedSync``).
    """
    results = list(_RESULT.finditer(error))
    if not results:
        for words, stage, reason in _CAUSES:
            if re.match(words, error):
                return (failure_of(stage, reason, error),)
        return (failure_of("config", "FailedSync", error),) if error else ()
    found = (_of_result(**{k: _unquoted(v) for k, v in r.groupdict("").items()}) for r in results)
    return tuple(failure for failure in found if failure is not None)


def _of_result(action: str, target: str, reason: str, message: str) -> StageFailure | None:
    if action == "ResizePodInPlace":
        return None
    if target == "POD":  # the sandbox, of kubelets that made it themselves
        return failure_of("sandbox", reason, message)
    if (stage := _ACTIONS.get(action)) is not None:
        about = target if action == "KillContainer" else None
        return failure_of(stage, reason, message, target, about)
    known = failure_of_waiting(reason, message, target)
    return known or failure_of("start", reason, message, target)


_START = re.compile(
    r"(?:init |ephemeral )?container (?:&Container\{Name:(?P<name>[^,]*),.*|(?P<bare>\S+))"
    r" start failed in pod (?P<pod>\S+?\([^)]*\)): (?P<reason>\w+): (?P<message>.*)",
    re.DOTALL,
)


@lru_cache(maxsize=256)
def failure_of_start(error: str) -> PodFailure | None:
    """What ``container ... start failed in pod ...`` says; None for other errors."""
    found = _START.match(error)
    if found is None:
        return None
    name = found["name"] or found["bare"]
    failure = failure_of_waiting(found["reason"], found["message"], name)
    failure = failure or failure_of("start", found["reason"], found["message"], name)
    return PodFailure(found["pod"], None, failure)


_OPERATION = re.compile(
    r"(?:Operation for .*? failed\. No retries permitted until .*? \(durationBeforeRetry [^)]*\)\."
    r" Error: )?(?P<quote>\"?)(?P<error>.*)",
    re.DOTALL,
)
_OF_VOLUME = re.compile(
    r"(?:operationExecutor\.)?(?P<operation>[\w.]+|error cleaning subPath mounts).*?"
    r" for volume \"(?P<volume>[^\"]*)\" \((?:UniqueName|spec\.Name): \"[^\"]*\"\)"
    r" pod \"(?P<pod>[^\"]*)\" \(UID: \"(?P<uid>[^\"]*)\"\)",
    re.DOTALL,
)
_UNDONE = re.compile(r"Unm|Detach|error cleaning")
_OF_OPERATION = {"MapVolume": "FailedMapVolume", "AttachVolume": "FailedAttachVolume"}


@lru_cache(maxsize=256)
def failure_of_volume(error: str) -> PodFailure | None:
    """What an operation on a pod's volume says that is tried again (``nestedpendingoperations``).

    None where it is about a device of the node. What is mounted has the reason of its event.
    """
    found = _OPERATION.match(error)
    error = "" if found is None else _unquoted(found["error"]) if found["quote"] else found["error"]
    named = _OF_VOLUME.match(error)
    if named is None:
        return None
    operation, volume, pod, uid = named.group("operation", "volume", "pod", "uid")
    error = error.removesuffix('"')
    if _UNDONE.match(operation):
        failure = failure_of("teardown", operation, error, about=volume)
    else:
        reason = _OF_OPERATION.get(operation.split(".")[0], "FailedMount")
        failure = failure_of("volumes", reason, error, about=volume)
    return PodFailure(pod if pod != uid else None, uid or None, failure)


_LIST = re.compile(r"volumes=\[[^\]]*\]")
_VALUE = re.compile(r"(?<![\w.:/@-])[a-zA-Z_.:/@-]*\d[\w.:/@-]*")


@lru_cache(maxsize=64)
def shape_of(failure: StageFailure) -> tuple[object, ...]:
    """What is the same of a failure each time that it is tried: no ID, time, duration, address."""
    if failure.stage == "hook":
        return failure.reason, failure.is_waiting
    words = _VALUE.sub("#", _LIST.sub("", failure.message))
    return failure.reason, failure.is_waiting, failure.about, words


def _unquoted(text: str) -> str:
    """A Go string literal without its quotes, as it is printed."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
