"""Settings that may be shown: those that the kubelet knows, with values that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.analyze.redaction.forms import (
    API_FIELDS,
    BODY_FIELDS,
    WELL_KNOWN_KEYS,
    is_amount,
    is_resource,
    matches,
    words,
)
from kubeledger.kubelet.kube.configuration import FIELDS
from kubeledger.kubelet.profile.gates import GATES

Name = Callable[[str], str]
"""A string's pseudonym."""

_Show = Callable[[Any, Name], Any]
_Limit = Callable[[str, Any], bool]
"""May an entry of this key and value be shown?"""

_BOOLEANS = frozenset({"true", "false", ""})
_INT32_MAX = 2**31 - 1


def shown_setting(name: str, value: Any, pseudonym: Name) -> Any:  # noqa: ANN401 # any JSON
    """The value of a setting, with pseudonyms for what its field does not limit."""
    if show := _SHOWN.get(name):
        return show(value, pseudonym)
    field = FIELDS.get(name)
    is_limited = field is not None and name not in _FREE_TEXTS and not field.check(value)
    return value if is_limited else _hidden(value, pseudonym)


def _hidden(value: Any, pseudonym: Name) -> Any:  # noqa: ANN401 # any JSON
    """Everything replaced but what is true, false, nothing, or the root of a tree."""
    if isinstance(value, Mapping):
        return {pseudonym(key): _hidden(inner, pseudonym) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, pseudonym) for inner in value]
    if isinstance(value, str):
        return value if value in _BOOLEANS or value == "/" else pseudonym(value)
    return value if value is None or isinstance(value, bool) else 0


def _entries(may: _Limit) -> _Show:
    """A table of which the entries that may be shown are."""

    def show(value: Any, pseudonym: Name) -> Any:  # noqa: ANN401 # any JSON
        if not isinstance(value, Mapping):
            return _hidden(value, pseudonym)
        hidden = {key: inner for key, inner in value.items() if not may(key, inner)}
        shown = {key: inner for key, inner in value.items() if key not in hidden}
        return {**shown, **_hidden(hidden, pseudonym)}

    return show


def _each(show: _Show) -> _Show:
    def of_all(value: Any, pseudonym: Name) -> Any:  # noqa: ANN401 # any JSON
        if not isinstance(value, list):
            return _hidden(value, pseudonym)
        return [show(inner, pseudonym) for inner in value]

    return of_all


def _only(may: Callable[[str], object]) -> _Show:
    """A text of a form."""

    def show(value: Any, pseudonym: Name) -> Any:  # noqa: ANN401 # any JSON
        return value if isinstance(value, str) and may(value) else _hidden(value, pseudonym)

    return show


def _one_of(choices: str) -> Callable[[Any], bool]:
    return words(choices).__contains__


def _number(_: str, value: Any) -> bool:  # noqa: ANN401 # any JSON
    return isinstance(value, int) and abs(value) <= _INT32_MAX


def _amount(resource: str, value: Any) -> bool:  # noqa: ANN401 # any JSON
    return is_resource(resource) and is_amount(resource, str(value))


def _as_in(field: str) -> _Show:
    """A table whose entries the kubelet checks one by one."""
    return _entries(lambda key, value: not FIELDS[field].check({key: value}))


def _option(known: Callable[[Any], bool]) -> _Limit:
    """Of a policy: on, off, or a small number."""
    small = matches(r"\d{1,3}")
    return lambda key, value: known(key) and (value in _BOOLEANS or small(str(value)))


def _table_of(**limits: Callable[[Any], bool]) -> _Show:
    """A table of which a few entries are known, each with its values."""
    return _entries(lambda key, value: key in limits and limits[key](value))


def _duration(value: Any) -> bool:  # noqa: ANN401 # any JSON
    return not FIELDS["syncFrequency"].check(value)


def _taint(value: Any, pseudonym: Name) -> Any:  # noqa: ANN401 # any JSON
    """Its keys are the API's own; a taint's key is a name unless every cluster has it."""
    if not isinstance(value, Mapping):
        return _hidden(value, pseudonym)
    may = {"key": WELL_KNOWN_KEYS.__contains__, "effect": API_FIELDS["effect"]}
    return {
        name: inner if name in may and may[name](inner) else _hidden(inner, pseudonym)
        for name, inner in value.items()
        if name in {"key", "value", "effect"}
    }


def _reserved_memory(value: Any, pseudonym: Name) -> Any:  # noqa: ANN401 # any JSON
    if not isinstance(value, Mapping):
        return _hidden(value, pseudonym)
    nodes = {key: inner for key, inner in value.items() if key == "numaNode"}
    limits = _entries(_amount)(value.get("limits"), pseudonym)
    return {**_entries(_number)(nodes, pseudonym), "limits": limits}


_FREE_TEXTS = words(
    """
    address allowedUnsafeSysctls authentication authorization cgroupRoot clusterDNS clusterDomain
    containerRuntimeEndpoint contentType healthzBindAddress imageServiceEndpoint
    kubeReservedCgroup kubeletCgroups podCIDR podLogsDir preloadedImagesVerificationAllowlist
    providerID resolvConf showHiddenMetricsForVersion staticPodPath staticPodURL
    staticPodURLHeader systemCgroups systemReservedCgroup tlsCertFile tlsCipherSuites
    tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile tracing volumePluginDir
    """
)
"""Fields of the configuration in which the kubelet takes any text."""

_CPU_OPTIONS = BODY_FIELDS["options"]
_FLAG_OF_A_NUMBER = _only(matches(r"-?\d{1,3}"))
_GATES = GATES.keys() | words(
    """
    AllAlpha AllBeta CPUManager DevicePlugins KubeletCrashLoopBackOffMax KubeletPodResources
    MemoryQoS NodeSwap ProbeTerminationGracePeriod QOSReserved ReduceDefaultCrashLoopBackOffDecay
    TopologyManager
    """
)
"""Feature gates that decisions rest on, and their kin."""
_FLAGS = words(
    """
    --config --container-runtime --container-runtime-endpoint --hostname-override
    --image-service-endpoint --kubeconfig --log-dir --log-file --logtostderr
    --maximum-dead-containers --maximum-dead-containers-per-container
    --minimum-container-ttl-duration --network-plugin --node-ip --node-labels
    --pod-infra-container-image --register-node --register-schedulable --register-with-taints
    --root-dir --runtime-cgroups --v --version --vmodule
    --experimental-allocatable-ignore-eviction --experimental-kernel-memcg-notification
    """
)
"""Of the flags without a field those that are most often asked for."""


def is_setting(name: str) -> bool:
    """Whether the kubelet has a setting of this name; any other may be a secret by itself."""
    return name in FIELDS or name in _FLAGS


_SHOWN: dict[str, _Show] = {
    **{
        name: _as_in(name)
        for name in words(
            "evictionHard evictionSoft evictionMinimumReclaim evictionSoftGracePeriod qosReserved"
        )
    },
    **dict.fromkeys(("kubeReserved", "systemReserved"), _entries(_amount)),
    **dict.fromkeys(
        ("--v", "--maximum-dead-containers", "--maximum-dead-containers-per-container"),
        _FLAG_OF_A_NUMBER,
    ),
    "configMapAndSecretChangeDetectionStrategy": _only(_one_of("Get Cache Watch")),
    "containerLogMaxSize": _only(lambda text: is_amount("memory", text)),
    "cpuManagerPolicyOptions": _entries(_option(_CPU_OPTIONS)),
    "crashLoopBackOff": _table_of(maxContainerRestartPeriod=_duration),
    "enforceNodeAllocatable": _each(
        _only(
            _one_of(
                "none pods system-reserved kube-reserved system-reserved-compressible"
                " kube-reserved-compressible"
            )
        )
    ),
    "featureGates": _entries(lambda key, value: isinstance(value, bool) and key in _GATES),
    "imagePullCredentialsVerificationPolicy": _only(
        _one_of("NeverVerify NeverVerifyPreloadedImages NeverVerifyAllowlistedImages AlwaysVerify")
    ),
    "logging": _table_of(
        format=_one_of("text json"),
        verbosity=lambda value: _number("", value),
        flushFrequency=_duration,
    ),
    "memorySwap": _table_of(swapBehavior=_one_of("NoSwap LimitedSwap UnlimitedSwap")),
    "registerWithTaints": _each(_taint),
    "reservedMemory": _each(_reserved_memory),
    "reservedSystemCPUs": _only(BODY_FIELDS["cpu_set"]),
    "shutdownGracePeriodByPodPriority": _each(_entries(_number)),
    "topologyManagerPolicyOptions": _entries(
        _option(_one_of("prefer-closest-numa-nodes max-allowable-numa-nodes"))
    ),
    "userNamespaces": _table_of(idsPerPod=lambda value: _number("", value)),
}
"""Fields of which a part may be shown."""
