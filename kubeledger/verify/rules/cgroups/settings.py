"""The version and the settings that decide about cgroup values, read once a kubelet process."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.node_config import (
    Quantities,
    ReservationSettings,
    kubepods_resources,
    reservation_of,
)
from kubeledger.kubelet.cgroups.unified import TIERED_RESERVATION
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.units import parse_go_duration, whole_number
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.settings import Settings, profile_of
from kubeledger.verify.variant import Variant

NO_RESERVE: Final = -1
"""In the place of a percentage: nothing is reserved by QoS class."""

_NS_PER_US: Final = 1000
_SOURCE: Final = "kubernetes.io/config.source"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Under which a value was written; None where no source says, or it cannot be read.

    Attributes:
        profile: of the kubelet, with its gates.
        seq: record that holds the recorded settings.
        enforce_cpu_limits, cpu_period_us: cpuCFSQuota and cpuCFSQuotaPeriod.
        reserve_percent: the share of memory in qosReserved, ``NO_RESERVE`` without one or
            without its gate.
        reservation: systemReserved and kubeReserved; thresholds are not taken off a cgroup.
        enforce_pods: ``pods`` is among enforceNodeAllocatable.
        per_qos: cgroupsPerQOS; taken as on when no source shows, for there are cgroups.
        by_systemd: cgroupDriver may be systemd.
        memory_qos: gate MemoryQoS.
        throttling_factor: memoryThrottlingFactor.
        tiered: memoryReservationPolicy is TieredReservation.
        pod_pids: podPidsLimit; 0 where there is none.
        static_cpus: cpuManagerPolicy is static, so that a container may have CPUs of its own.
    """

    profile: KubeletProfile
    seq: int | None
    enforce_cpu_limits: bool | None
    cpu_period_us: int | None
    reserve_percent: int | None
    reservation: ReservationSettings | None
    enforce_pods: bool | None
    per_qos: bool
    by_systemd: bool
    memory_qos: bool
    throttling_factor: float | None
    tiered: bool
    pod_pids: int | None
    static_cpus: bool

    @property
    def missing(self) -> list[str]:
        """Settings that pods and containers need and no source shows."""
        values = {"cpuCFSQuota": self.enforce_cpu_limits, "cpuCFSQuotaPeriod": self.cpu_period_us}
        return [f"the setting {name}" for name, value in values.items() if value is None]

    @property
    def missing_for_node(self) -> list[str]:
        """Settings that the cgroup of all pods needs and no source shows."""
        values = {
            "the settings systemReserved and kubeReserved": self.reservation,
            "the setting enforceNodeAllocatable": self.enforce_pods,
        }
        return [name for name, value in values.items() if value is None]

    def kubepods(self, capacity: Quantities) -> Quantities | None:
        """What all pods together may use; None where settings are not reported, or do not fit.

        Source: v1.36.2 pkg/kubelet/cm/node_container_manager_linux.go
            enforceNodeAllocatableCgroups
        """
        if self.missing_for_node or self.reservation is None:
            return None
        with suppress(QuantityError):  # a difference that no quantity can hold
            return kubepods_resources(capacity, self.reservation) if self.enforce_pods else capacity
        return None

    def resizes(self, listed: ListedPod) -> bool:
        """Whether the resources of this pod can change while it runs; a static pod's cannot.

        Raises:
            msgspec.ValidationError: the object cannot be read.
        """
        annotations = listed.as_(Pod).metadata.annotations or {}
        possible = self.profile.admission.resized_requests_count
        return possible and annotations.get(_SOURCE, "api") == "api"


def rules_of(process: Process | None, variant: Variant) -> Rules | None:
    """Those of a kubelet process, under a variant; None where its version's are not known."""
    settings = Settings(variant, process)
    version = variant.kubelet_version or (None if process is None else process.version)
    get = settings.get
    profile = profile_of(version, get("featureGates"))
    if profile is None:
        return None
    enforce, keys, pids = get("cpuCFSQuota"), get("enforceNodeAllocatable"), get("podPidsLimit")
    factor = get("memoryThrottlingFactor")
    protects = _alpha_gate(settings, "MemoryQoS")
    return Rules(
        profile=profile,
        seq=settings.seq,
        enforce_cpu_limits=enforce if isinstance(enforce, bool) else None,
        cpu_period_us=_period_us(get("cpuCFSQuotaPeriod")),
        reserve_percent=_reserve(settings),
        reservation=_reservation(settings),
        enforce_pods="pods" in (keys or ()) if isinstance(keys, list | None) else None,
        per_qos=get("cgroupsPerQOS") is not False,
        by_systemd=get("cgroupDriver") != "cgroupfs",
        memory_qos=profile.cgroups.memory_qos_gate_on if protects is None else protects,
        throttling_factor=float(factor) if isinstance(factor, int | float) else None,
        tiered=get("memoryReservationPolicy") == TIERED_RESERVATION,
        pod_pids=max(pids, 0) if isinstance(pids, int) else None,
        static_cpus=get("cpuManagerPolicy") == "static",
    )


def _alpha_gate(settings: Settings, name: str) -> bool | None:
    """Whether an alpha feature is on; None where no source says so either way."""
    gates = settings.get("featureGates")
    if not isinstance(gates, dict | None):
        return None
    values = gates or {}
    value = values.get(name)
    value = values.get("AllAlpha", False) if value is None else value
    return value if isinstance(value, bool) else None


def _period_us(value: object) -> int | None:
    with suppress(ValueError):
        if isinstance(value, str) and (period := parse_go_duration(value) // _NS_PER_US) > 0:
            return period
    return None


def _reserve(settings: Settings) -> int | None:
    """Source: v1.20.2 pkg/kubelet/cm/helpers.go ParseQOSReserved."""
    gate, reserved = _alpha_gate(settings, "QOSReserved"), settings.get("qosReserved")
    if gate is False:
        return NO_RESERVE
    if gate is None or not isinstance(reserved, dict | None):
        return None
    text = (reserved or {}).get("memory")
    if text is None:
        return NO_RESERVE
    percent = whole_number(text[:-1]) if isinstance(text, str) and text.endswith("%") else None
    return percent if percent is not None and percent >= 0 else None


def _reservation(settings: Settings) -> ReservationSettings | None:
    names = "systemReserved", "kubeReserved", "reservedSystemCPUs"
    values = {name: settings.get(name) for name in names}
    with suppress(QuantityError, ValueError, TypeError, AttributeError):
        return reservation_of(values.get)
    return None
