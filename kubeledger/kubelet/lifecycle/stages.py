"""A pod's way from its admission to its end, and which stage the kubelet's words are about.

The order is that of ``Kubelet.SyncPod`` and ``kubeGenericRuntimeManager.SyncPod``, 1.19 to 1.36.
What errors of the pod's worker and of volumes say is read in ``sync_errors``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, get_args

from kubeledger.model.bodies.stages import Stage

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
        container: where the words name it.
    """

    stage: Stage
    reason: str
    message: str
    about: str | None = None
    is_waiting: bool = False
    container: str | None = None


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


@lru_cache(maxsize=64)
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
        about or _about_of(message),
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
    "BackOff": (
        ("Back-off pulling", "image", "ImagePullBackOff"),
        ("", "run", "CrashLoopBackOff"),
    ),
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

_STARTS = re.compile(
    r"failed to (?:start container|create (?:containerd|shim) task|start containerd task)"
    r"|OCI runtime start failed|container create failed"
)
_CONFIGURES = re.compile(
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
_LAYERS = re.compile(
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
_WITHIN = re.compile(
    r" \((?:UniqueName|spec\.Name): \"[^\"]*\"\)| pod \"[^\"]*\" \(UID: \"[^\"]*\"\)"
    r"|; skipping pod$|, message: \"\"$"
)


def _peeled(message: str) -> str:
    """A message without the layers that say again which pod and what for."""
    layers = _LAYERS.match(message)
    return _WITHIN.sub("", message[layers.end() :] if layers else message).strip()


_ABOUT = (
    re.compile(r"image \"(?P<one>[^\"]+)\"|image tag \"(?P<tag>[^\"]+)\""),
    # A search that ignores case, or begins with either of two letters, is ten times as slow.
    re.compile(
        r"(?:[Ss]ecret|[Cc]onfig[Mm]ap)s? \"(?P<one>[^\"]+)\""
        r"|(?:in|find) (?:[Ss]ecret|[Cc]onfig[Mm]ap) (?P<key>[^\s\",:]+)"
    ),
    re.compile(r"unmounted volumes=\[(?P<list>[^\]]+)\]|volumes?(?:Mount)? \"(?P<one>[^\"]+)\""),
    re.compile(
        r"laim(?:(?<=esourceClaim)|(?<=esource claim)|(?<=volumeclaim)|(?<=for claim)"
        r"|(?<=^claim)) (?:with same name )?(?!not created)\"?(?P<one>[^\s(:,\"]+)"
    ),
)


def _about_of(message: str) -> str | None:
    """The image, secret, config map, volume or claim that a message names; None: it names none."""
    for pattern in _ABOUT:
        found = pattern.search(message)
        if found is not None:
            named = next(each for each in found.groups() if each)
            # The kubelet lists volumes in the order of a map.
            return " ".join(sorted(named.split())) if found.lastgroup == "list" else named
    return None
