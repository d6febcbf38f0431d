"""A pod's way from its admission to its end, and which stage the kubelet's words are about.

The order is that of ``Kubelet.SyncPod`` and ``kubeGenericRuntimeManager.SyncPod``, 1.19 to 1.36.
"""

from __future__ import annotations

import re
from typing import NamedTuple, get_args

from kubeledger.model.bodies.stages import Stage

__all__ = [
    "OF_CONTAINER",
    "STAGES",
    "StageFailure",
    "about_of",
    "failure_of_event",
    "failure_of_waiting",
    "order_of",
]

STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the order of a pod's way."""

OF_CONTAINER: frozenset[Stage] = frozenset(("image", "create", "start", "hook", "run", "ready"))
"""Stages that each container passes by itself; the others are the pod's."""

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
    "CreateContainerConfigError": "create",
    "CreateContainerError": "create",
    "CrashLoopBackOff": "run",
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
    "SignatureValidationFailed": "image",
    "StartError": "start",
}
"""Reason of a container that waits (``state.waiting``) -> stage; others are no failure."""

_BACKED_OFF = frozenset({"CrashLoopBackOff", "ImagePullBackOff"})


def failure_of_waiting(
    reason: str, message: str, container: str | None = None
) -> StageFailure | None:
    """What ``state.waiting`` of a container says; None where it only has not begun.

    The reasons are the errors of ``pkg/kubelet/container/sync_result.go`` and
    ``pkg/kubelet/images/types.go``.
    """
    stage = _WAITING.get(reason)
    if stage is None:
        return None
    return StageFailure(stage, reason, message, None, reason in _BACKED_OFF, container)


_EVENTS: dict[str, tuple[Stage, str]] = {
    "ErrImageNeverPull": ("image", "ErrImageNeverPull"),
    "ExceededGracePeriod": ("stop", "ExceededGracePeriod"),
    "FailedAttachVolume": ("volumes", "FailedAttachVolume"),
    "FailedCreatePodContainer": ("cgroup", "FailedCreatePodContainer"),
    "FailedCreatePodSandBox": ("sandbox", "CreatePodSandboxError"),
    "FailedKillPod": ("stop", "FailedKillPod"),
    "FailedMapVolume": ("volumes", "FailedMapVolume"),
    "FailedMount": ("volumes", "FailedMount"),
    "FailedPostStartHook": ("hook", "PostStartHookError"),
    "FailedPrepareDynamicResources": ("resources", "FailedPrepareDynamicResources"),
    "InspectFailed": ("image", "InvalidImageName"),
    "NetworkNotReady": ("network", "NetworkNotReady"),
}
"""Reason of an event about a pod -> stage, and the reason that a status gives for it."""

_PULL = re.compile(
    r"(?:Failed to pull|Back-off pulling) image \"(?P<image>[^\"]+)\"(?::\s*(?P<why>.*))?",
    re.DOTALL,
)
_VOLUME = re.compile(
    r"for volume \"(?P<volume>[^\"]+)\"|volume \"(?P<other>[^\"]+)\""
    r"|unmounted volumes=\[(?P<list>[^\]]+)\]"
)
_MISSING = re.compile(
    r"(?P<kind>secret|configmap) \"(?P<name>[^\"]+)\" not found"
    r"|in (?P<of>Secret|ConfigMap) (?P<key>\S+)",
    re.IGNORECASE,
)
_STARTS = re.compile(
    r"failed to (?:start container|create (?:containerd|shim) task|start containerd task)"
    r"|OCI runtime start failed"
)


def failure_of_event(
    reason: str, message: str, container: str | None = None
) -> StageFailure | None:
    """What a Warning about a pod says of a stage; None where it is about none.

    ``Failed`` stands for images, and for creating and starting containers: its message tells which
    (``kubeGenericRuntimeManager.startContainer``, ``imageManager.EnsureImageExists``).
    """
    if (known := _EVENTS.get(reason)) is not None:
        stage, word = known
        return StageFailure(
            stage,
            word,
            message,
            about_of(message),
            container=container if stage in OF_CONTAINER else None,
        )
    if reason == "BackOff":
        if message.startswith("Back-off pulling"):
            return StageFailure(
                "image", "ImagePullBackOff", message, about_of(message), True, container
            )
        return StageFailure("run", "CrashLoopBackOff", message, None, True, container)
    if reason != "Failed":
        return None
    if message.startswith("Failed to pull"):
        return StageFailure(
            "image", "ErrImagePull", message, about_of(message), container=container
        )
    words = message.removeprefix("Error: ")
    if (waiting := failure_of_waiting(words.strip(), "", container)) is not None:
        return waiting
    if _STARTS.search(words):
        return StageFailure("start", "RunContainerError", words, container=container)
    word = "CreateContainerConfigError" if _MISSING.search(words) else "CreateContainerError"
    return StageFailure("create", word, words, about_of(words), container=container)


def about_of(message: str) -> str | None:
    """The image, volume, secret or config map that a message names; None where it names none."""
    for pattern in (_PULL, _MISSING, _VOLUME):
        found = pattern.search(message)
        if found is not None:
            return next(
                (
                    each
                    for each in found.groups()[::-1]
                    if each and each.lower() not in ("secret", "configmap")
                ),
                None,
            )
    return None
