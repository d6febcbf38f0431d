"""Signals of the eviction manager: what each measures, and which node condition it raises."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from kubeledger.kubelet.kube.quantity import Format
from kubeledger.kubelet.profile.eviction import EvictionFacts

DiskLayout = Literal["shared", "dedicated", "split", "containers"]
"""Where images and containers are: on the kubelet's own disk (shared); both on one of their own
(dedicated); images on one of their own (split); containers on one of their own, which is treated
as shared but for the thresholds of containerfs (containers)."""

MEMORY: Final = "memory.available"
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"
PIDS: Final = "pid.available"

RESOURCE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        MEMORY: "memory",
        ALLOCATABLE_MEMORY: "memory",
        "imagefs.available": "ephemeral-storage",
        "imagefs.inodesFree": "inodes",
        "containerfs.available": "ephemeral-storage",
        "containerfs.inodesFree": "inodes",
        "nodefs.available": "ephemeral-storage",
        "nodefs.inodesFree": "inodes",
        PIDS: "pids",
    }
)
"""Signal -> what is short.

Source: v1.36.2 pkg/kubelet/eviction/helpers.go signalToResource
"""

CONDITION_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        signal: {"memory": "MemoryPressure", "pids": "PIDPressure"}.get(resource, "DiskPressure")
        for signal, resource in RESOURCE_OF.items()
    }
)
"""Signal -> condition of the node."""


def is_known(signal: str, facts: EvictionFacts) -> bool:
    """Whether a threshold may be set for a signal."""
    return signal in RESOURCE_OF and (
        facts.split_disk_known or not signal.startswith("containerfs.")
    )


def format_of(resource: str) -> Format:
    """Notation of amounts of a resource in messages."""
    return Format.BINARY_SI if resource in ("memory", "ephemeral-storage") else Format.DECIMAL_SI
