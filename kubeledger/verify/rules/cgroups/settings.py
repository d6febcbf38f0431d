"""The settings that decide about cgroup values, read once a kubelet process."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from kubeledger.kubelet.cgroups.node_config import ReservationSettings, reservation_of
from kubeledger.kubelet.cgroups.unified import TIERED_RESERVATION
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.profile.gates import with_gates
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import parse_go_duration, whole_number
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.settings import Settings
from kubeledger.verify.variant import Variant

__all__ = ["NO_RESERVE", "CgroupSettings", "Rules", "read_settings", "rules_of"]

NO_RESERVE: Final = -1
"""In the place of a percentage: nothing is reserved by QoS class."""

_NS_PER_US: Final = 1000
_RESIZE_SINCE_MINOR: Final = 33
_PIDS_SINCE_MINOR: Final = 20
"""The gates SupportPodPidsLimit and SupportNodePidsLimit say nothing any more."""
_SOURCE: Final = "kubernetes.io/config.source"


class CgroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of them; None where no source tells, or the value cannot be read.

    Attributes:
        seq: record that holds the recorded ones.
        enforce_cpu_limits: cpuCFSQuota.
        cpu_period_us: cpuCFSQuotaPeriod.
        reserve_percent: the share of memory in qosReserved, ``NO_RESERVE`` without one or
            without its gate.
        reservation: systemReserved and kubeReserved; thresholds are not taken off a cgroup.
        enforce_pods: ``pods`` is among enforceNodeAllocatable.
        per_qos: cgroupsPerQOS; taken as on when no source tells, for there are cgroups.
        by_systemd: cgroupDriver may be systemd.
        memory_qos: gate MemoryQoS.
        throttling_factor: memoryThrottlingFactor.
        tiered: memoryReservationPolicy is TieredReservation.
        pod_pids: podPidsLimit; 0 where there is none.
        pod_pids_gate, node_pids_gate: gates SupportPodPidsLimit and SupportNodePidsLimit.
        static_cpus: cpuManagerPolicy is static, so that a container may have CPUs of its own,
            and a quota beside them is not asked for (gate DisableCPUQuotaWithExclusiveCPUs).
        resize: a running pod's resources can be changed (gate InPlacePodVerticalScaling);
            None where only the version tells.
    """

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
    pod_pids_gate: bool | None
    node_pids_gate: bool | None
    static_cpus: bool
    resize: bool | None


def read_settings(settings: Settings) -> CgroupSettings:
    """Read them as they are now."""
    get = settings.get
    enforce, keys, pids = get("cpuCFSQuota"), get("enforceNodeAllocatable"), get("podPidsLimit")
    factor = get("memoryThrottlingFactor")
    own_cpus = _gate(settings, "DisableCPUQuotaWithExclusiveCPUs") is not False
    return CgroupSettings(
        seq=settings.seq,
        enforce_cpu_limits=enforce if isinstance(enforce, bool) else None,
        cpu_period_us=_period_us(get("cpuCFSQuotaPeriod")),
        reserve_percent=_reserve(settings),
        reservation=_reservation(settings),
        enforce_pods="pods" in (keys or ()) if isinstance(keys, list | None) else None,
        per_qos=get("cgroupsPerQOS") is not False,
        by_systemd=get("cgroupDriver") != "cgroupfs",
        memory_qos=_gate(settings, "MemoryQoS", alpha=True) is True,
        throttling_factor=float(factor) if isinstance(factor, int | float) else None,
        tiered=get("memoryReservationPolicy") == TIERED_RESERVATION,
        pod_pids=max(pids, 0) if isinstance(pids, int) else None,
        pod_pids_gate=_gate(settings, "SupportPodPidsLimit"),
        node_pids_gate=_gate(settings, "SupportNodePidsLimit"),
        static_cpus=get("cpuManagerPolicy") == "static" and own_cpus,
        resize=_gate(settings, "InPlacePodVerticalScaling"),
    )


def _gate(settings: Settings, name: str, *, alpha: bool = False) -> bool | None:
    """Whether a feature gate is set; None where no source says so either way."""
    gates = settings.get("featureGates")
    if not isinstance(gates, dict | None):
        return None
    value = (gates or {}).get(name)
    if value is None and alpha:
        value = (gates or {}).get("AllAlpha", False)
    return value if isinstance(value, bool) else None


def _period_us(value: object) -> int | None:
    with suppress(ValueError):
        if isinstance(value, str) and (period := parse_go_duration(value) // _NS_PER_US) > 0:
            return period
    return None


def _reserve(settings: Settings) -> int | None:
    """Source: v1.20.2 pkg/kubelet/cm/helpers.go ParseQOSReserved."""
    gate, reserved = _gate(settings, "QOSReserved", alpha=True), settings.get("qosReserved")
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
    told = {name: settings.get(name) for name in names}
    with suppress(QuantityError, ValueError, TypeError, AttributeError):
        return reservation_of(told.get)
    return None


class Rules(msgspec.Struct, frozen=True):
    """Under which a value was written."""

    profile: KubeletProfile
    settings: CgroupSettings

    @property
    def missing(self) -> list[str]:
        """Settings that pods and containers need and no source tells."""
        quota, period = self.settings.enforce_cpu_limits, self.settings.cpu_period_us
        told = {"cpuCFSQuota": quota, "cpuCFSQuotaPeriod": period}
        return [f"the setting {name}" for name, value in told.items() if value is None]

    @property
    def missing_for_node(self) -> list[str]:
        """Settings that the cgroup of all pods needs and no source tells."""
        told = {
            "the settings systemReserved and kubeReserved": self.settings.reservation,
            "the setting enforceNodeAllocatable": self.settings.enforce_pods,
        }
        return [name for name, value in told.items() if value is None]

    @property
    def node_pids_written(self) -> bool:
        """Whether process IDs of all pods together are limited.

        Source: v1.19.0 pkg/kubelet/cm/cgroup_manager_linux.go toResources
        """
        return self.pod_pids_written or self.settings.node_pids_gate is not False

    @property
    def pod_pids_written(self) -> bool:
        """Whether podPidsLimit counts.

        Source: v1.19.0 pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists
        """
        always = self.profile.version.minor >= _PIDS_SINCE_MINOR
        return always or self.settings.pod_pids_gate is not False

    def resizes(self, listed: ListedPod) -> bool:
        """Whether the resources of this pod can change while it runs; a static pod's cannot.

        Raises:
            msgspec.ValidationError: the object cannot be read.
        """
        possible = self.settings.resize
        if possible is None:
            possible = self.profile.version.minor >= _RESIZE_SINCE_MINOR
        annotations = listed.as_(Pod).metadata.annotations or {}
        return possible and annotations.get(_SOURCE, "api") == "api"


def rules_of(process: Process | None, variant: Variant) -> Rules | None:
    """Those of a kubelet process, under a variant; None where its version's are not known."""
    settings = Settings(variant, process)
    version = variant.kubelet_version or (None if process is None else process.version)
    gates = settings.get("featureGates")
    with suppress(BadQuestionError):
        if version is not None:
            profile = with_gates(resolve(version), gates if isinstance(gates, dict) else None)
            return Rules(profile, read_settings(settings))
    return None
