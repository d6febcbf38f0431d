"""A pod's way from its admission to its end, and which stage the kubelet's words are about.

The order is that of ``Kubelet.SyncPod`` and ``kubeGenericRuntimeManager.SyncPod``, 1.19 to 1.36.
What errors of the pod's worker and of volumes say is read here, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple, get_args

from kubeledger.kubelet.profile.lifecycle import StageFacts
from kubeledger.model.bodies.node import Stage
from kubeledger.model.patterns import cached_if_short, regex

# What a kubelet says of what it waits for, in the words of its version.
#
# Source: v1.20.2 and v1.36.2 pkg/kubelet/kubelet.go,
#     volumemanager/volume_manager.go; versions between them as the facts say

NETWORK = "network is not ready"
"""Begins the error of a sync that waits for the network (``NetworkNotReadyErrorMsg``)."""

_GRPC = regex(r"rpc error: code = \w+ desc = ")


def status_message(error: str, *, everywhere: bool = False) -> str:
    """The message of a runtime's error, without its code (``grpcstatus.FromError``).

    ``everywhere``: nor the codes of what it wraps.
    """
    return _GRPC.sub("", error, count=0 if everywhere else 1)


def network_error(facts: StageFacts, message: str) -> str:
    """Why the network is not ready, by the message of the runtime's condition."""
    whose = "container runtime" if facts.network_error_names_container else "runtime"
    condition = f"NetworkReady=false reason:NetworkPluginNotReady message:{message}"
    return f"{whose} network not ready: {condition}"


def volume_not_mounted(volume: str, error: str) -> str:
    """The event of a volume that could not be mounted (``VolumeToMount.GenerateError``)."""
    return f'MountVolume.SetUp failed for volume "{volume}" : {error}'


def volumes_not_mounted(
    facts: StageFacts, unmounted: Collection[str], expected: Collection[str]
) -> str:
    """The error of a sync that waited for volumes in vain; none of them is attachable."""
    names = " ".join(unmounted)
    why = "timed out waiting for the condition"
    if facts.volume_wait_takes_context:
        why = "context deadline exceeded"
    if facts.volumes_not_processed_named:
        rest = "unattached volumes=[], failed to process volumes=[]"
    else:
        rest = f"unattached volumes=[{' '.join(expected)}]"
    return f"unmounted volumes=[{names}], {rest}: {why}"


STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the order of a pod's way."""

OF_CONTAINER: frozenset[Stage] = frozenset(("image", "create", "start", "hook", "run", "ready"))
"""Stages that each container passes by itself; the others are the pod's."""

TO_END: frozenset[Stage] = frozenset(("stop", "teardown"))
"""Stages of ending: a pod may come to them from any other, and has not passed that."""

SIDE_BY_SIDE: frozenset[Stage] = frozenset(("volumes", "stop", "teardown"))
"""Stages in which several things are tried at once, each for itself: volumes, containers."""

_ORDER = {stage: place for place, stage in enumerate(STAGES)}


def order_of(stage: Stage) -> int:
    """The place of a stage on the way, from 0."""
    return _ORDER[stage]


class StageFailure(NamedTuple):
    """What some words of the kubelet say about a stage.

    Attributes:
        about: the image, volume, claim or the like that the stage waits for; None if not named.
        is_waiting: nothing was tried, because the back-off has not passed.
    """

    stage: Stage
    reason: str
    message: str
    about: str | None = None
    is_waiting: bool = False
    container: str | None = None

    @property
    def names_cause(self) -> bool:
        """Something was tried and failed: a sync that only waited for its volumes does not say why.

        Source: pkg/kubelet/volumemanager/volume_manager.go, WaitForAttachAndMount.
        """
        return not self.is_waiting and _WAITED.search(self.message) is None


_WAITED = regex(
    r"\bunmounted volumes=\[.*: "
    r"(?:timed out waiting for the condition|context deadline exceeded)\Z",
    re.DOTALL,
)
_WAITING: dict[str, Stage] = {
    "CrashLoopBackOff": "run",
    "CreateContainerConfigError": "create",
    "CreateContainerError": "create",
    "ErrImageNeverPull": "image",
    "ErrImagePull": "image",
    "ImageInspectError": "image",
    "ImagePullBackOff": "image",
    "InvalidImageName": "image",
    "PostStartHookError": "hook",
    "PreCreateHookError": "create",
    "PreStartHookError": "start",
    "RegistryUnavailable": "image",
    "RunContainerError": "start",
    "RunInitContainerError": "run",
    "SignatureValidationFailed": "image",
    "VerifyNonRootError": "create",
}
"""Reason of a container that waits (``state.waiting``) -> stage; others are no failure.

They are the errors of ``container/sync_result.go``, ``images/types.go``, ``cri-api``'s
``errors.go`` and ``kuberuntime_container.go``; two are those of kubelets before 1.12.
"""

_BACKED_OFF = frozenset({"CrashLoopBackOff", "ImagePullBackOff"})


@cached_if_short(64)
def failure_of(
    stage: Stage, reason: str, message: str, container: str | None = None, about: str | None = None
) -> StageFailure:
    """A failure whose stage is known, its message without what repeats the names of its pod.

    Several lines tell one failure with one message: it is read once.
    """
    return StageFailure(
        stage,
        reason,
        _peeled(message),
        about or _about_of(message, stage),
        reason in _BACKED_OFF,
        container if stage in OF_CONTAINER else None,
    )


def failure_of_waiting(
    reason: str, message: str, container: str | None = None
) -> StageFailure | None:
    """What ``state.waiting`` of a container says; None where it only has not begun."""
    stage = _WAITING.get(reason)
    return None if stage is None else failure_of(stage, reason, message, container)


_EVENTS: dict[str, tuple[Stage, str]] = {
    "ErrImageNeverPull": ("image", "ErrImageNeverPull"),
    "ExceededGracePeriod": ("stop", "ExceededGracePeriod"),
    "FailedAttachVolume": ("volumes", "FailedAttachVolume"),
    "FailedCreatePodContainer": ("cgroup", "FailedCreatePodContainer"),
    "FailedCreatePodSandBox": ("sandbox", "CreatePodSandboxError"),
    "FailedKillPod": ("stop", "FailedKillPod"),
    "FailedMapVolume": ("volumes", "FailedMapVolume"),
    "FailedMount": ("volumes", "FailedMount"),
    "FailedPodSandBoxStatus": ("sandbox", "FailedPodSandBoxStatus"),
    "FailedPostStartHook": ("hook", "PostStartHookError"),
    "FailedPrepareDynamicResources": ("resources", "FailedPrepareDynamicResources"),
    "FailedValidation": ("config", "FailedValidation"),
    "NetworkNotReady": ("network", "NetworkNotReady"),
}
"""Reason of an event about a pod -> stage, and the reason that a status gives for it."""

_BY_WORDS: dict[str, tuple[tuple[str, Stage, str], ...]] = {
    "BackOff": (("Back-off pulling", "image", "ImagePullBackOff"), ("", "run", "CrashLoopBackOff")),
    "FailedSync": (("error determining status", "config", "FailedSync"),),
    "InspectFailed": (
        ("Failed to inspect", "image", "ImageInspectError"),
        ("", "image", "InvalidImageName"),
    ),
    "Failed": (
        ("Failed to pull", "image", "ErrImagePull"),
        ("error making pod data directories", "volumes", "FailedToMakePodDataDirectories"),
        ("Internal PreCreateContainer", "create", "PreCreateHookError"),
        ("Internal PreStartContainer", "start", "PreStartHookError"),
    ),
}
"""The same of reasons that stand for several things, which the message's first words tell."""

_STARTS = regex(
    r"failed to (?:start container|create (?:containerd|shim) task|start containerd task)"
    r"|OCI runtime start failed|container create failed"
)
_CONFIGURES = regex(
    r"(?:secret|configmap)s? \"[^\"]+\" (?:not found|is forbidden)|couldn't find key|non-existent"
    r"|failed to sync (?:secret|configmap) cache|services have not yet been read|runAsNonRoot"
    r"|run as root|failed to prepare subPath|subPath|host IP|has runAsUser|unset env",
    re.IGNORECASE,
)


def failure_of_event(
    reason: str, message: str, container: str | None = None
) -> StageFailure | None:
    """What a Warning about a pod says of a stage; None where it is about none.

    ``Failed`` stands for images, and for creating and starting containers: its message tells which
    (``kubeGenericRuntimeManager.startContainer``, ``imageManager.EnsureImageExists``).
    """
    for words, stage, word in _BY_WORDS.get(reason, ()):
        if message.startswith(words):
            return failure_of(stage, word, message, container)
    if reason != "Failed":
        known = _EVENTS.get(reason)
        return None if known is None else failure_of(*known, message, container)
    if not message.startswith("Error: "):
        return None
    words = message.removeprefix("Error: ")
    if (waiting := failure_of_waiting(words.strip(), "", container)) is not None:
        return waiting
    if _STARTS.search(words):
        return failure_of("start", "RunContainerError", words, container)
    word = "CreateContainerConfigError" if _CONFIGURES.search(words) else "CreateContainerError"
    return failure_of("create", word, words, container)


_POD = r"\"?[^\s\",()]+(?:_[^\s\",()]+\([^\s\")]*\)|/[^\s\",():]+)?\"?"
_LAYERS = regex(
    rf"(?:Failed to (?:create|generate) sandbox(?: config)? for pod {_POD}: "
    rf"|Failed to create log directory for pod {_POD}: |Failed to create pod sandbox: "
    rf"|(?:[Cc]reatePodSandbox|Create pod log directory) for pod {_POD} failed: "
    rf"|Unable to (?:attach or )?mount volumes(?: for pod {_POD})?: |network is not ready: "
    r"|(?i:failed to )?prepare dynamic resources: |failed to SyncPod: "
    r"|error killing (?:terminating )?pod: |unable to ensure pod container exists: "
    r"|failed to ensure that the pod: \S+ cgroups exist and are correctly applied: "
    r"|error determining status: |error making pod data directories: "
    rf"|Exec lifecycle hook \(.*?\) for Container {_POD} in Pod {_POD} failed - error: )+",
    re.DOTALL,
)
_WITHIN = regex(
    r" \((?:UniqueName|spec\.Name): \"[^\"]*\"\)| pod \"[^\"]*\" \(UID: \"[^\"]*\"\)"
    r"|; skipping pod$|, message: \"\"$"
)


def _peeled(message: str) -> str:
    """A message without the layers that say again which pod and what for."""
    layers = _LAYERS.match(message)
    return _WITHIN.sub("", message[layers.end() :] if layers else message).strip()


_ABOUT_VOLUME = regex(
    r"unmounted volumes=\[(?P<list>[^\]]+)\]|volumes?(?:Mount)? \"(?P<one>[^\"]+)\""
)
_ABOUT = (
    regex(r"image \"(?P<one>[^\"]+)\"|image tag \"(?P<tag>[^\"]+)\""),
    # A search that ignores case, or begins with either of two letters, is ten times as slow.
    regex(
        r"(?:[Ss]ecret|[Cc]onfig[Mm]ap)s? \"(?P<one>[^\"]+)\""
        r"|(?:in|find) (?:[Ss]ecret|[Cc]onfig[Mm]ap) (?P<key>[^\s\",:]+)"
    ),
    _ABOUT_VOLUME,
    regex(
        r"laim(?:(?<=esourceClaim)|(?<=esource claim)|(?<=volumeclaim)|(?<=for claim)"
        r"|(?<=^claim)) (?:with same name )?(?!not created)\"?(?P<one>[^\s(:,\"]+)"
    ),
)


def _about_of(message: str, stage: Stage) -> str | None:
    """The image, secret, config map, volume or claim that a message names; None: it names none.

    A volume that cannot be mounted may name the secret that it is made of.
    """
    for pattern in (_ABOUT_VOLUME, *_ABOUT) if stage == "volumes" else _ABOUT:
        found = pattern.search(message)
        if found is not None:
            named = next(each for each in found.groups() if each)
            # The kubelet lists volumes in the order of a map.
            return " ".join(sorted(named.split())) if found.lastgroup == "list" else named
    return None


# What errors that the kubelet logs of a pod say of the stages of its way.
#
# A sync error holds one failure for each container, or another cause; an error of a volume names
# its pod; both repeat names in layers, and quote what they wrap.


class PodFailure(NamedTuple):
    """A failure in a text that names its pod, too.

    Attributes:
        pod: ``name_namespace(uid)``, or the name alone; None where only the UID is there.
    """

    pod: str | None
    uid: str | None
    failure: StageFailure


_QUOTED = r"[^\"\\]*(?:\\.[^\"\\]*)*"
_RESULT = regex(
    rf"failed to \"(?P<action>\w+)\" ?for ?\"(?P<target>{_QUOTED})\" ?with (?P<reason>\w+)"
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

A resize in place is no stage of the way.
"""
_RESIZE = "ResizePodInPlace"

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
    (r"unprepare |.*NodeUnprepareResource|get gRPC client for DRA driver", "stop", "FailedKillPod"),
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


@cached_if_short(256)
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


def failure_of_resize(error: str) -> str | None:
    """Why a sync could not give a pod what its resize was allocated; None: it says nothing of it.

    Source: v1.33.13 and v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction
    """
    results = _RESULT.finditer(error) if _RESIZE in error else ()
    found = (_unquoted(each["message"] or "") for each in results if each["action"] == _RESIZE)
    return next(found, None)


def _of_result(action: str, target: str, reason: str, message: str) -> StageFailure | None:
    if action == _RESIZE:
        return None
    if target == "POD":  # the sandbox, of kubelets that made it themselves
        return failure_of("sandbox", reason, message)
    if (stage := _ACTIONS.get(action)) is not None:
        about = target if action == "KillContainer" else None
        return failure_of(stage, reason, message, target, about)
    known = failure_of_waiting(reason, message, target)
    return known or failure_of("start", reason, message, target)


_START = regex(
    r"(?:init |ephemeral )?container (?:&Container\{Name:(?P<name>[^,]*),.*|(?P<bare>\S+))"
    r" start failed in pod (?P<pod>\S+?\([^)]*\)): (?P<reason>\w+): (?P<message>.*)",
    re.DOTALL,
)


@cached_if_short(256)
def failure_of_start(error: str) -> PodFailure | None:
    """What ``container ... start failed in pod ...`` says; None for other errors."""
    found = _START.match(error)
    if found is None:
        return None
    name = found["name"] or found["bare"]
    failure = failure_of_waiting(found["reason"], found["message"], name)
    failure = failure or failure_of("start", found["reason"], found["message"], name)
    return PodFailure(found["pod"], None, failure)


_OPERATION = regex(
    r"(?:Operation for .*? failed\. No retries permitted until .*? \(durationBeforeRetry [^)]*\)\."
    r" Error: )?(?P<quote>\"?)(?P<error>.*)",
    re.DOTALL,
)
_OF_VOLUME = regex(
    r"(?:operationExecutor\.)?(?P<operation>[\w.]+|error cleaning subPath mounts).*?"
    r" for volume \"(?P<volume>[^\"]*)\" \((?:UniqueName|spec\.Name): \"[^\"]*\"\)"
    r" pod \"(?P<pod>[^\"]*)\" \(UID: \"(?P<uid>[^\"]*)\"\)",
    re.DOTALL,
)
_UNDONE = regex(r"Unm|Detach|error cleaning")
_OF_OPERATION = {"MapVolume": "FailedMapVolume", "AttachVolume": "FailedAttachVolume"}


@cached_if_short(256)
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


_LIST = regex(r"volumes=\[[^\]]*\]")
_VALUE = regex(r"(?<![\w.:/@-])[a-zA-Z_.:/@-]*\d[\w.:/@-]*")


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
