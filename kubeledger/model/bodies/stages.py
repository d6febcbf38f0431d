"""Observations of what a pod or the node waits for, and of errors that no other record tells.

A kubelet tries again and says so each time. A record here stands for what it said since the last
one: ``count`` times, from ``first_ts_ns`` to ``last_ts_ns``. The first is written at once, further
ones when what is said changes, every few minutes while it goes on, and when it is over. What they
add up to is an episode (``replay/episodes``).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from kubeledger.model.record import Observation

__all__ = [
    "ErrorsLogged",
    "NodeCondition",
    "NodeConditionChanged",
    "NodeTrouble",
    "NodeTroubled",
    "PodStageFailed",
    "ShutdownProgressed",
    "Stage",
]

Stage = Literal[
    "admission",
    "config",
    "network",
    "cgroup",
    "volumes",
    "resources",
    "sandbox",
    "image",
    "create",
    "start",
    "hook",
    "run",
    "ready",
    "stop",
    "teardown",
]
"""A pod's way, in the order in which the kubelet goes it (``Kubelet.SyncPod``)."""


class PodStageFailed(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod, or one of its containers, did not get past a stage of its way.

    Attributes:
        container: of the stages from ``image`` to ``ready``; None where the line names none.
        reason: the kubelet's word, e.g. ``ErrImagePull``, ``FailedMount``.
        message: what went wrong, without the layers that repeat names of pod and container.
        about: what the stage waits for: an image, a volume, a claim, a secret; None if not named.
        is_waiting: the kubelet did not try, because it waits until it tries again (back-off).
        count: how often it was said since the last such record.
        first_ts_ns, last_ts_ns: the first and the last of these times.
    """

    kind: ClassVar[str] = "lifecycle.PodStageFailed"
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None = None
    stage: Stage
    reason: str
    message: str
    about: str | None = None
    is_waiting: bool = False
    count: int = 1
    first_ts_ns: int
    last_ts_ns: int


NodeCondition = Literal["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]


class NodeConditionChanged(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition of the node is another than before, as its kubelet or the node object says.

    Attributes:
        reason, message: of the condition; None where only the change is told.
        transition_ts_ns: since when, as the condition says; None where it does not.
    """

    kind: ClassVar[str] = "node.ConditionChanged"
    condition: NodeCondition
    status: Literal["True", "False", "Unknown"]
    reason: str | None = None
    message: str | None = None
    transition_ts_ns: int | None = None


NodeTrouble = Literal[
    "runtime_down",
    "network_not_ready",
    "pleg_unhealthy",
    "sync_skipped",
    "registration_failed",
    "status_update_failed",
    "lease_update_failed",
    "api_unreachable",
    "certificate",
    "container_manager_failed",
    "storage_not_ready",
]
"""What keeps a node from being ready, or from telling that it is."""


class NodeTroubled(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something of the node does not work, as its kubelet says again and again.

    Attributes:
        message: the words that name the cause.
        count: how often it was said since the last such record; 0: it is only over.
        first_ts_ns, last_ts_ns: the first and the last of these times.
        passed_ts_ns: when a line showed that it works again; None: none did so far.
    """

    kind: ClassVar[str] = "node.Troubled"
    trouble: NodeTrouble
    message: str
    count: int = 1
    first_ts_ns: int
    last_ts_ns: int
    passed_ts_ns: int | None = None


class ShutdownProgressed(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step of the graceful shutdown of the node (``nodeshutdown``).

    Attributes:
        step: ``detected`` (logind announced it), ``killing`` (the pods of one priority get their
            grace period), ``timed_out`` (some had not ended by then), ``completed`` (the kubelet
            let the shutdown go on), ``cancelled``.
        priority: of the pods of ``killing`` and ``timed_out``.
        grace_period_s: that they get.
        pods: how many; None where no line says.
        message: the kubelet's words.
    """

    kind: ClassVar[str] = "node.ShutdownProgressed"
    step: Literal["detected", "killing", "timed_out", "completed", "cancelled"]
    priority: int | None = None
    grace_period_s: int | None = None
    pods: int | None = None
    message: str | None = None


class ErrorsLogged(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lines of severity W, E or F of one shape about one subject.

    Attributes:
        source: the caller's file, ``kubelet.go``; empty where the form of the log has none.
        shape: the message without its values.
        namespace, pod, pod_uid: the pod that the line names; None: it is about the node.
        pid: of the kubelet process; None where the form of the log has none.
        recorded: other records tell what these lines say.
        count: how many lines since the last such record.
        first_ts_ns, last_ts_ns: the times of the first and the last of these lines.
    """

    kind: ClassVar[str] = "node.ErrorsLogged"
    severity: Literal["W", "E", "F"]
    source: str
    shape: str
    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    pid: int | None = None
    recorded: bool = False
    count: int = 1
    first_ts_ns: int
    last_ts_ns: int
