"""Observations about the node and its kubelet, and about what it or a pod waits for."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from kubeledger.model.record import Observation, OfSomePod


class KubeletStarted(Observation, frozen=True, kw_only=True):
    """A kubelet process began (the first line of a new process ID counts when nothing else does).

    Attributes:
        pid: process ID in the log; None when the form of the log has none.
        kubelet_version: ``1.36.2``; None when nothing in the bundle says.
        version_source: ``option``, ``log``, ``metrics``, ``node``, ``caller`` (file and line
            numbers of log lines that only that version has) or ``name`` (the bundle's name, or a
            file in it that holds nothing else).
        restart: another kubelet process ran before it in the same log.
        from_start: False when the log does not hold its first lines: it began before.
    """

    kind: ClassVar[str] = "node.KubeletStarted"
    pid: int | None
    kubelet_version: str | None
    version_source: Literal["option", "log", "metrics", "node", "caller", "name"] | None
    version_text: str | None = None
    restart: bool = False
    from_start: bool = True


class KubeletExited(Observation, frozen=True, kw_only=True):
    """A kubelet process ended. Of one that a signal ends, only systemd's lines show it.

    Attributes:
        pid: as in ``KubeletStarted``; None for a process that only wrote a usage error.
        reason: ``error`` (it gave up, e.g. because a manager's state did not fit the machine),
            ``fatal`` (klog's Fatal), ``panic`` (of a goroutine, or the runtime's fatal error),
            ``signal`` (systemd saw it killed), ``stopped`` (systemd was asked to stop it).
        message: what it said last, with the error; or systemd's line.
    """

    kind: ClassVar[str] = "node.KubeletExited"
    pid: int | None
    reason: Literal["error", "fatal", "panic", "signal", "stopped"]
    message: str


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One effective setting.

    Attributes:
        value: the value as JSON text of the KubeletConfiguration field
            (``5``, ``"10s"``, ``{"cpu":"200m"}``).
        source: ``config`` (the configuration as the kubelet itself shows it), ``file`` (a
            configuration file alone, which may be of another time), ``flag`` (a flag that
            differs from its default or has no config field), ``default`` (flag's default) or
            ``log`` (a line that states it).
    """

    value: str
    source: Literal["config", "file", "flag", "default", "log"]

    def __post_init__(self) -> None:
        """Make sure that every reader can read the value: a recording may come from anyone.

        Raises:
            ValueError: it is not JSON.
        """
        try:
            msgspec.json.decode(self.value)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"a setting's value is not JSON: {error}") from None

    def decoded(self) -> Any:  # noqa: ANN401 - any JSON value
        """The value. A whole number beyond 64 bits, which no setting can have, stays a text."""
        value = msgspec.json.decode(self.value)
        return value if not isinstance(value, int) or abs(value) < 1 << 63 else self.value


class SettingsObserved(Observation, frozen=True, kw_only=True):
    """The kubelet's effective settings, by KubeletConfiguration field name.

    Attributes:
        settings: field name (``imageGCHighThresholdPercent``) or ``--flag`` for a flag
            without such a field -> setting.
        conflicts: (n,) sentences, where two sources of the bundle disagree.
        outdated: (n,) sentences, where a file says otherwise than the process itself: it was
            changed since, or is another's.
    """

    kind: ClassVar[str] = "node.SettingsObserved"
    v: ClassVar[int] = 2
    settings: dict[str, Setting]
    conflicts: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()


class NodeObserved(Observation, frozen=True, kw_only=True):
    """The node object, or the part of it that a source shows; recorded when it changed.

    Attributes:
        capacity, allocatable: resource -> quantity as written; None when not known.
        memory_capacity_bytes, cpus: the machine, as cadvisor logged it.
        numa_nodes: sorted NUMA nodes of the machine; None when not known.
    """

    kind: ClassVar[str] = "node.NodeObserved"
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    cpus: int | None = None
    memory_capacity_bytes: int | None = None
    numa_nodes: tuple[int, ...] | None = None


class ClockStepped(Observation, frozen=True, kw_only=True):
    """The node's clock went back between two lines of one log.

    Attributes:
        from_ts_ns, to_ts_ns: the readings before and after.
    """

    kind: ClassVar[str] = "node.ClockStepped"
    from_ts_ns: int
    to_ts_ns: int


class LogThinned(Observation, frozen=True, kw_only=True):
    """Single lines of a kubelet's log are missing, or their ends are, while the log continues.

    Shown by lines that a kubelet repeats at a fixed period, where more of them are
    missing than work that takes long explains. A time without any line is no such case.

    Attributes:
        from_ts_ns, to_ts_ns: from the first missing or cut line to the last.
        beats_expected: periodic lines due in the whole process, as its log goes.
        beats_missing: those of them that are missing.
        beats: name of a periodic line -> how many of it are missing.
        lines_cut: lines that would have been read, and were cut.
        cut_at: length at which the log's lines were cut; None where they differ.
    """

    kind: ClassVar[str] = "node.LogThinned"
    from_ts_ns: int
    to_ts_ns: int
    beats_expected: int
    beats_missing: int
    beats: dict[str, int] = {}
    lines_cut: int = 0
    cut_at: int | None = None


# Observations of what a pod or the node waits for, and of errors that no other record tells.
#
# A kubelet tries again and says so each time. A record here stands for what it said since the last
# one: ``count`` times, from ``first_ts_ns`` to ``last_ts_ns``. The first is written at once,
# further
# ones when what is said changes, every few minutes while it goes on, and when it is over. What they
# add up to is an episode (``replay/episodes``).

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


class PodStageFailed(OfSomePod, Observation, frozen=True, kw_only=True):
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


class NodeConditionChanged(Observation, frozen=True, kw_only=True):
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


class NodeTroubled(Observation, frozen=True, kw_only=True):
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


class ShutdownProgressed(Observation, frozen=True, kw_only=True):
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


class ErrorsLogged(Observation, frozen=True, kw_only=True):
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
