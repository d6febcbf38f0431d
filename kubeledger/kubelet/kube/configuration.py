"""Fields of KubeletConfiguration: what a kubelet would accept as the value of each.

A value of another type, or outside of the field's range, keeps the kubelet from starting, so
nothing can be said of its decisions. Rules that concern several fields are in
:mod:`kubeledger.analyze.whatif.settings`.

Source: v1.20.2 and v1.36.2 pkg/kubelet/apis/config/types.go KubeletConfiguration;
    pkg/kubelet/apis/config/validation/validation.go ValidateKubeletConfiguration;
    pkg/kubelet/eviction/helpers.go ParseThresholdConfig
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.kube.gotexts import parse_float32
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError, parse
from kubeledger.model.units import parse_go_duration

# Eviction thresholds as they are written: ``100Mi`` or ``10%``.
#
# The eviction manager acts on them, and a node reserves what the hard ones keep free.


class EvictionThresholdError(ValueError):
    """A setting of the eviction manager that the kubelet refuses; its words."""


@lru_cache(maxsize=1 << 10)
def parse_threshold(signal: str, text: str, percentage_max: float) -> Quantity | float | None:
    """A quantity, or a fraction of the capacity; None for the two that mean no threshold.

    Args:
        percentage_max: largest fraction that this version takes.

    Raises:
        EvictionThresholdError: it is refused.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go parseThresholdStatement; v1.20.2
    """
    if text in ("0%", "100%"):
        return None
    if text.endswith("%"):
        fraction = _threshold_fraction(text)
        if fraction < 0:
            raise EvictionThresholdError(
                f"eviction percentage threshold {signal} must be >= 0%: {text}"
            )
        if fraction > percentage_max:
            raise EvictionThresholdError(
                f"eviction percentage threshold {signal} must be <= 100%: {text}"
            )
        return fraction
    quantity = _threshold_quantity(text)
    if quantity.sign <= 0:
        raise EvictionThresholdError(f"eviction threshold {signal} must be positive: {quantity}")
    return quantity


@lru_cache(maxsize=1 << 10)
def parse_minimum_reclaim(signal: str, text: str) -> Quantity | float:
    """A quantity, or a fraction of the capacity.

    Raises:
        EvictionThresholdError: it is refused.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go parseMinimumReclaims
    """
    if text.endswith("%"):
        fraction = _threshold_fraction(text)
        if fraction <= 0:
            raise EvictionThresholdError(
                f"eviction percentage minimum reclaim {signal} must be positive: {text}"
            )
        return fraction
    quantity = _threshold_quantity(text)
    if quantity.sign < 0:
        raise EvictionThresholdError(f"negative eviction minimum reclaim specified for {signal}")
    return quantity


def _threshold_fraction(text: str) -> float:
    """A percentage in single precision, as the kubelet keeps it."""
    try:
        return parse_float32(repr(parse_float32(text.rstrip("%")) / 100))
    except ValueError as error:
        raise EvictionThresholdError(str(error)) from None


def _threshold_quantity(text: str) -> Quantity:
    try:
        return parse(text)
    except QuantityError as error:
        raise EvictionThresholdError(error.args[0]) from None


Check = Callable[[Any], str]
"""What is wrong with a value, to be read after it ("must be ..."); empty: nothing."""


class Field(msgspec.Struct, frozen=True):
    """A field of KubeletConfiguration.

    Attributes:
        shape: ``text``, ``table`` (entries by name), ``texts`` (a table whose entries are
            text) or ``other``.
    """

    shape: Literal["text", "table", "texts", "other"]
    check: Check


Fields = dict[str, Field]

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_PERCENT = re.compile(r"\d{1,9}(\.\d{1,9})?%")
_SIGNALS = frozenset(
    {"allocatableMemory.available", "memory.available", "pid.available"}
    | {f"{fs}.{what}" for fs in ("nodefs", "imagefs", "containerfs")
       for what in ("available", "inodesFree")}
)  # fmt: skip


def _boolean(value: object) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _integer(low: int = -_INT32_MAX - 1, high: int = _INT32_MAX) -> Check:
    def check(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int):
            return "must be a whole number"
        if low <= value <= high:
            return ""
        if low == 0 and high >= _INT32_MAX and value < 0:
            return "must not be a negative number"
        return f"must be between {low} and {high}, inclusive"

    return check


def _fraction(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return ""
    return "must be greater than 0 and at most 1.0"


def _text(value: object) -> str:
    return "" if isinstance(value, str) else "must be a text"


def _one_of(*choices: str) -> Check:
    def check(value: object) -> str:
        return "" if value in choices else f"must be one of {', '.join(choices)}"

    return check


def _duration(low_ns: int | None = None, high_ns: int | None = None, span: str = "") -> Check:
    def check(value: object) -> str:
        try:
            ns = parse_go_duration(value) if isinstance(value, str) else None
        except ValueError:
            ns = None
        if ns is None or not -_INT64_MAX <= ns <= _INT64_MAX:
            return "must be a duration such as 2m0s"
        if (low_ns is not None and ns < low_ns) or (high_ns is not None and ns > high_ns):
            return f"must {span}"
        return ""

    return check


def _quantity(value: object) -> str:
    try:
        amount = Quantity.from_api(value) if isinstance(value, str) else None
    except QuantityError:
        amount = None
    if amount is None:
        return "must be a quantity such as 200m or 512Mi"
    return "must not be negative" if amount.sign < 0 else ""


def _limit(value: object) -> str:
    if isinstance(value, str) and value.endswith("%"):
        good = _PERCENT.fullmatch(value) and float(value[:-1]) <= 100
        return "" if good else "must be between 0% and 100%"
    return _quantity(value) and "must be a quantity such as 100Mi, or a percentage such as 5%"


def _percentage(value: object) -> str:
    good = isinstance(value, str) and re.fullmatch(r"\d{1,3}%", value) and int(value[:-1]) <= 100
    return "" if good else "must be a percentage such as 50%"


def _table(check: Check, keys: frozenset[str] | None = None) -> Check:
    def of_all(value: object) -> str:
        if not isinstance(value, Mapping):
            return "must be a table, one entry set with FIELD.ENTRY=VALUE"
        for key, entry in value.items():
            if keys is not None and key not in keys:
                return f"has no entry {key!r}: there are {', '.join(sorted(keys))}"
            if reason := check(entry):
                return f"entry {key!r} {reason}"
        return ""

    return of_all


def _texts(value: object) -> str:
    good = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return "" if good else 'must be a list such as ["pods"]'


def _list(value: object) -> str:
    return "" if isinstance(value, list) else "must be a list"


def _anything(_: object) -> str:
    return ""


_TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_AGE = _duration(0, None, "not be negative")
_period = _duration(1_000, 1_000_000_000, "be between 1us and 1s, inclusive")


def _all(shape: Literal["text", "table", "texts", "other"], check: Check, names: str) -> Fields:
    return dict.fromkeys(names.split(), Field(shape, check))


FIELDS: Fields = {
    **_all(
        "other",
        _boolean,
        """
        cgroupsPerQOS cpuCFSQuota enableContentionProfiling enableControllerAttachDetach
        enableDebugFlagsHandler enableDebuggingHandlers enableProfilingHandler enableServer
        enableSystemLogHandler enableSystemLogQuery failCgroupV1 failSwapOn
        kernelMemcgNotification localStorageCapacityIsolation makeIPTablesUtilChains
        mergeDefaultEvictionSettings protectKernelDefaults registerNode rotateCertificates
        runOnce seccompDefault serializeImagePulls serverTLSBootstrap singleProcessOOMKill
        """,
    ),
    **_all(
        "text",
        _text,
        """
        address cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy
        containerLogMaxSize containerRuntimeEndpoint contentType healthzBindAddress
        imagePullCredentialsVerificationPolicy imageServiceEndpoint kubeReservedCgroup
        kubeletCgroups podCIDR podLogsDir providerID reservedSystemCPUs resolvConf
        showHiddenMetricsForVersion staticPodPath staticPodURL systemCgroups
        systemReservedCgroup tlsCertFile tlsMinVersion tlsPrivateKeyFile volumePluginDir
        """,
    ),
    **_all(
        "text",
        _duration(),
        """
        containerLogMonitorInterval cpuManagerReconcilePeriod evictionPressureTransitionPeriod
        fileCheckFrequency httpCheckFrequency nodeStatusReportFrequency
        nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod
        shutdownGracePeriodCriticalPods streamingConnectionIdleTimeout syncFrequency
        volumeStatsAggPeriod
        """,
    ),
    **_all("text", _AGE, "imageMaximumGCAge imageMinimumGCAge"),
    **_all("text", _period, "cpuCFSQuotaPeriod"),
    **_all("text", _one_of("cgroupfs", "systemd"), "cgroupDriver"),
    **_all("text", _one_of("none", "static"), "cpuManagerPolicy"),
    **_all("text", _one_of("hairpin-veth", "none", "promiscuous-bridge"), "hairpinMode"),
    **_all("text", _one_of("None", "Static"), "memoryManagerPolicy"),
    **_all("text", _one_of("None", "TieredReservation"), "memoryReservationPolicy"),
    **_all("text", _one_of(*_TOPOLOGY_POLICIES), "topologyManagerPolicy"),
    **_all("text", _one_of("container", "pod"), "topologyManagerScope"),
    **_all(
        "other",
        _integer(0),
        """
        eventBurst eventRecordQPS kubeAPIBurst kubeAPIQPS maxPods podsPerCore registryBurst
        registryPullQPS
        """,
    ),
    **_all("other", _integer(0, 100), "imageGCHighThresholdPercent imageGCLowThresholdPercent"),
    **_all("other", _integer(0, 31), "iptablesDropBit iptablesMasqueradeBit"),
    **_all("other", _integer(0, 65535), "healthzPort readOnlyPort"),
    **_all("other", _integer(1, 65535), "port"),
    **_all("other", _integer(1), "containerLogMaxWorkers maxParallelImagePulls"),
    **_all("other", _integer(1), "nodeLeaseDurationSeconds"),
    **_all("other", _integer(2), "containerLogMaxFiles"),
    **_all("other", _integer(), "evictionMaxPodGracePeriod"),
    **_all("other", _integer(0, _INT64_MAX), "maxOpenFiles"),
    **_all("other", _integer(-_INT64_MAX - 1, _INT64_MAX), "podPidsLimit"),
    **_all("other", _integer(-1), "nodeStatusMaxImages"),
    **_all("other", _integer(-1000, 1000), "oomScoreAdj"),
    **_all("other", _fraction, "memoryThrottlingFactor"),
    **_all(
        "other",
        _texts,
        """
        allowedUnsafeSysctls clusterDNS enforceNodeAllocatable
        preloadedImagesVerificationAllowlist tlsCipherSuites
        """,
    ),
    **_all(
        "other",
        _list,
        "registerWithTaints reservedMemory shutdownGracePeriodByPodPriority tlsCurvePreferences",
    ),
    **_all(
        "table",
        _table(_anything),
        """
        authentication authorization crashLoopBackOff logging memorySwap staticPodURLHeader
        tracing userNamespaces
        """,
    ),
    **_all("table", _table(_boolean), "featureGates"),
    **_all("texts", _table(_text), "cpuManagerPolicyOptions topologyManagerPolicyOptions"),
    **_all("texts", _table(_limit, _SIGNALS), "evictionHard evictionMinimumReclaim evictionSoft"),
    **_all("texts", _table(_AGE, _SIGNALS), "evictionSoftGracePeriod"),
    **_all("texts", _table(_quantity), "kubeReserved systemReserved"),
    **_all("texts", _table(_percentage, frozenset({"memory"})), "qosReserved"),
}
"""Fields by name, of all versions."""

_TABLES = frozenset({"table", "texts"})
_NULLABLE = frozenset(
    {"allowedUnsafeSysctls", "clusterDNS", "enforceNodeAllocatable", "maxParallelImagePulls"}
    | {"memoryThrottlingFactor", "preloadedImagesVerificationAllowlist", "registerWithTaints"}
    | {"reservedMemory", "shutdownGracePeriodByPodPriority", "singleProcessOOMKill"}
    | {"tlsCipherSuites", "tlsCurvePreferences"}
)
"""Fields that are pointers or slices in Go, so that null is no value at all."""


def problem(field: str, value: object) -> str:
    """Why no kubelet takes the value, to be read after it; empty when it does.

    A field that is not known here is taken as it is.
    """
    known = FIELDS.get(field)
    if known is None or (value is None and (known.shape in _TABLES or field in _NULLABLE)):
        return ""
    return known.check(value)
