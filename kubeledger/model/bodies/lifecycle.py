"""Observations and decisions about the life of pods and containers.

Kubelet packages: pkg/kubelet (sync loop, pod workers), pkg/kubelet/lifecycle
(admission) and pkg/kubelet/kuberuntime (containers). ``pod_uid`` is the UID as the
kubelet uses it (for a static pod the hash, not the mirror pod's UID); it is None
where the source does not hold it and nothing else in the bundle has it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from kubeledger.model.record import Decision, Observation, OfPod


class PodListed(OfPod, Observation, frozen=True, kw_only=True):
    """A pod as a pod list or manifest showed it; recorded when it changed since the last list.

    Attributes:
        spec: the API's own JSON of the pod's spec.
        status: the API's own JSON of its status; None for a manifest.
        deletion_ts_ns: its ``deletionTimestamp`` (whole seconds): when its grace period is over;
            None as long as nobody deletes it.
        listed_by: ``kubelet`` (its /pods), ``api`` (an API server's list) or ``manifest``.
        gone: the pod was in the previous list of the same kind and is not in this one;
            then ``spec`` and ``status`` are None.
    """

    kind: ClassVar[str] = "lifecycle.PodListed"
    v: ClassVar[int] = 2
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    created_ts_ns: int | None = None
    deletion_ts_ns: int | None = None
    spec: dict[str, Any] | None
    status: dict[str, Any] | None
    listed_by: Literal["kubelet", "api", "manifest"]
    gone: bool = False


class PodConfigChanged(OfPod, Observation, frozen=True, kw_only=True):
    """The sync loop got a pod from a config source (``SyncLoop ADD`` and its kin).

    Attributes:
        operation: the kubelet's word, upper case; SYNC and PLEG are not recorded here.
        source: ``api``, ``file`` or ``http``; None when the line does not say.
    """

    kind: ClassVar[str] = "lifecycle.PodConfigChanged"
    operation: Literal["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"]
    source: str | None


class ContainerStarted(OfPod, Observation, frozen=True, kw_only=True):
    """A container runs, as the PLEG or a start event reported.

    Attributes:
        container: its name; None when no source names the ID.
        container_id: bare ID, without ``containerd://``.
        sandbox: True when the ID is the pod's sandbox, None when that is not known.
    """

    kind: ClassVar[str] = "lifecycle.ContainerStarted"
    container: str | None
    container_id: str
    sandbox: bool | None = None


class ContainerDied(OfPod, Observation, frozen=True, kw_only=True):
    """A container no longer runs, as the PLEG reported.

    Attributes:
        exit_code: None when the source does not hold it.
    """

    kind: ClassVar[str] = "lifecycle.ContainerDied"
    container: str | None
    container_id: str
    sandbox: bool | None = None
    exit_code: int | None = None


class KubernetesEvent(Observation, frozen=True, kw_only=True):
    """A Kubernetes API event that the kubelet sent (pkg/kubelet/events calls it a reason).

    Attributes:
        object_kind: ``Pod`` or ``Node``.
        pod: name of the object, a node's name included.
        container: from the event's field path, if any.
        type: ``Normal`` or ``Warning``.
        reason: the event's reason, e.g. ``Unhealthy``.
        count: how many the source says this one stands for; 1 for a log line.
        api_count: the count that the API server had reached, None when it never got there
            or the bundle holds no event list.
    """

    kind: ClassVar[str] = "lifecycle.ReasonReported"
    object_kind: str
    namespace: str
    pod: str
    pod_uid: str | None
    container: str | None = None
    type: str
    reason: str
    message: str
    count: int = 1
    api_count: int | None = None


class PodAdmitted(OfPod, Decision, frozen=True, kw_only=True):
    """The kubelet admitted the pod; once per admission (a kubelet restart admits again).

    Attributes:
        inferred: no line says so; it follows from the pod being synced and not rejected.
    """

    kind: ClassVar[str] = "lifecycle.PodAdmitted"
    inferred: bool = True


class PodRejected(OfPod, Decision, frozen=True, kw_only=True):
    """The kubelet refused the pod.

    Attributes:
        reason: as in the pod's status, e.g. ``OutOfcpu``, ``UnexpectedAdmissionError``.
        message: the kubelet's message without the ``Pod `` that some versions put before it
            in the status.
    """

    kind: ClassVar[str] = "lifecycle.PodRejected"
    reason: str
    message: str


class PodStarted(OfPod, Observation, frozen=True, kw_only=True):
    """All containers of a pod run, as the kubelet says that measures how long that took.

    It is recorded where no line names a container of the pod that starts.

    Attributes:
        created_ts_ns: when the pod was created (whole seconds), and running_ts_ns: when its status
            first showed all of them to run; None when the line does not hold it.
        pull_started_ts_ns, pull_ended_ts_ns: of the first pull of an image, and of the last; None
            when nothing was pulled, and since 1.34, which tells ``pulling_ns`` in their place.
        pulling_ns: how long images were pulled; 0: not at all.
        own_ns: how long it took without pulls, and since 1.34 without init containers.
    """

    kind: ClassVar[str] = "lifecycle.PodStarted"
    created_ts_ns: int | None = None
    running_ts_ns: int | None = None
    pull_started_ts_ns: int | None = None
    pull_ended_ts_ns: int | None = None
    pulling_ns: int | None = None
    own_ns: int | None = None


class PodTerminating(OfPod, Observation, frozen=True, kw_only=True):
    """The kubelet began to stop a pod as a whole (pod workers, since 1.22).

    Attributes:
        reason: ``deleted`` (the API server wants it gone), ``removed`` (no config source has
            it any more), ``orphaned`` (found running, and no config source ever named it),
            ``ended`` (its containers ended for good, or its deadline passed), ``killed`` (the
            kubelet evicts it or makes room), ``shutdown`` (the node shuts down).
        grace_period_s: seconds that its containers get; None when no line says.
    """

    kind: ClassVar[str] = "lifecycle.PodTerminating"
    reason: Literal["deleted", "removed", "orphaned", "ended", "killed", "shutdown"]
    grace_period_s: int | None


class PodTerminated(OfPod, Observation, frozen=True, kw_only=True):
    """All containers of the pod are down for good and the kubelet let it go."""

    kind: ClassVar[str] = "lifecycle.PodTerminated"


class PodResized(OfPod, Decision, frozen=True, kw_only=True):
    """What became of a resize of a running pod; recorded when it changed.

    Attributes:
        outcome: ``allocated`` (admitted and checkpointed), ``deferred`` (it may fit later),
            ``infeasible`` (it never will), ``actuated`` (the containers have what was asked for).
        reason: the condition's reason, or the predicate's that did not fit; None if not said.
        resources: container -> ``requests`` and ``limits`` as far as the source shows them.
    """

    kind: ClassVar[str] = "lifecycle.PodResized"
    outcome: Literal["allocated", "deferred", "infeasible", "actuated"]
    reason: str | None = None
    message: str | None = None
    resources: dict[str, Any] | None = None


class PodEvicted(OfPod, Decision, frozen=True, kw_only=True):
    """The eviction manager chose the pod to be killed; see also ``eviction.ReclaimAttempted``.

    Attributes:
        resource: what was short, e.g. ``memory``; None when no source says, as with a pod
            that exceeded its own limit of local storage.
        signal: whose threshold was met; for local storage the kubelet's names of what was
            exceeded: ``emptydirfs.limit``, ``ephemeralpodfs.limit``,
            ``ephemeralcontainerfs.limit``.
        threshold, observed: of the signal, in bytes, inodes or processes.
        threshold_kind: ``hard``, ``soft`` (after its grace period), ``allocatable``, or
            ``local_storage`` for the pod's own limit.
        since_ts_ns: when the threshold was first seen to be met.
        rank: the pod's place in the ranking, 1 for the first.
        grace_period_s: that its containers were given.
        message: as in the pod's status, if a source holds it.
        evicted: the manager saw the pod end; False when it gave up waiting (the pod has failed
            all the same), None when not known.
    """

    kind: ClassVar[str] = "lifecycle.PodEvicted"
    v: ClassVar[int] = 2
    resource: str | None
    signal: str | None = None
    threshold: int | None = None
    threshold_kind: Literal["hard", "soft", "allocatable", "local_storage"] | None = None
    since_ts_ns: int | None = None
    observed: int | None = None
    rank: int | None = None
    grace_period_s: int | None = None
    message: str | None
    evicted: bool | None


class ContainerKilled(OfPod, Decision, frozen=True, kw_only=True):
    """The kubelet killed a container.

    Attributes:
        reason: why, in one of these words: ``liveness_probe``, ``startup_probe``,
            ``preempted``, ``pod_deleted``, ``spec_changed``, ``evicted``,
            ``post_start_hook`` (which failed), ``pod_ended`` (a sidecar outlived the others),
            ``deadline_exceeded`` (activeDeadlineSeconds), ``orphaned`` (no config source has
            the pod), ``node_shutdown``, ``sandbox_changed``, ``resized`` (in place, which its
            ``resizePolicy`` answers with a restart); None when no source says.
        message: the kubelet's own message, if any.
        grace_period_s: seconds given to the container; None when not known.
    """

    kind: ClassVar[str] = "lifecycle.ContainerKilled"
    container: str | None
    container_id: str | None
    reason: str | None
    message: str | None
    grace_period_s: int | None


class ContainerRestarted(OfPod, Decision, frozen=True, kw_only=True):
    """The kubelet started a container again in a pod where it had run before.

    Starts that fail are none: they are told by ``PodStageFailed``.

    Attributes:
        container_id: the new ID.
        previous_container_id: the ID before it; None when not known.
        reason: the reason of the kill that led here (see ``ContainerKilled``),
            ``exited`` when the container ended by itself, None when not known.
        restart_count: as the runtime or pod status counts, with starts that failed; None when not
            known.
    """

    kind: ClassVar[str] = "lifecycle.ContainerRestarted"
    container: str
    container_id: str | None
    previous_container_id: str | None = None
    reason: str | None = None
    restart_count: int | None = None


class RestartBackedOff(OfPod, Decision, frozen=True, kw_only=True):
    """The kubelet would start the container, but its back-off has not passed.

    Attributes:
        back_off_s: the current back-off in seconds.
    """

    kind: ClassVar[str] = "lifecycle.RestartBackedOff"
    container: str
    back_off_s: int
