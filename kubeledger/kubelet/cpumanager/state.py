"""What the CPU manager holds: the shared pool and the CPUs that containers have alone."""

from __future__ import annotations

import msgspec


class HeldCpus(msgspec.Struct, kw_only=True):
    """CPUs of one container.

    Attributes:
        namespace, pod: the pod's name, which may be gone from the node; None when not known.
        cpu_set: in the kubelet's notation.
        since_ts_ns: when they were given.
    """

    namespace: str | None
    pod: str | None
    cpu_set: str
    since_ts_ns: int


class CpuManagerState(msgspec.Struct, kw_only=True):
    """The CPU manager's memory, which its state file keeps across restarts.

    Attributes:
        policy: None when not known, as for the sets.
        file_read_ts_ns: when ``cpu_manager_state`` was last read; ``file_checksum_ok`` as there.
        pods: pod key -> container -> CPUs.
    """

    policy: str | None = None
    reserved_cpu_set: str | None = None
    default_cpu_set: str | None = None
    file_read_ts_ns: int | None = None
    file_checksum_ok: bool | None = None
    pods: dict[str, dict[str, HeldCpus]] = {}
