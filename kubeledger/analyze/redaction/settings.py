"""What may be shown: settings that the kubelet knows, and its sentences with its own numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubeledger.analyze.redaction.forms import (
    API_FIELDS,
    BODY_FIELDS,
    SINCE,
    WELL_KNOWN_KEYS,
    is_amount,
    is_resource,
    matches,
    words,
)
from kubeledger.kubelet.kube.configuration import FIELDS
from kubeledger.kubelet.profile.resolve import GATES

# What the kubelet says with numbers in it, and which of them are its own.
#
# A number in a message may be anything: the kubelet passes on what runtimes, plugins, hooks and
# applications said. It stays only in a sentence that the kubelet itself fills in, of which
# verification compares each word.
#
# Source: v1.20.2 to v1.36.2 pkg/kubelet/eviction/helpers.go evictionMessage;
#     pkg/kubelet/lifecycle/predicate.go; pkg/kubelet/cm/{devicemanager,cpumanager,memorymanager};
#     pkg/kubelet/images; pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff;
#     pkg/kubelet/pleg/generic.go; pkg/kubelet/allocation

_AMOUNT = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:[numkKMGTPE]i?|%)?"
_HOLES = {
    "{n}": rf"({_AMOUNT})",
    "{d}": r"((?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+)",
    "{r}": r"((?:\(res: [\w./-]+, q: [0-9]+\), ?)*)",
    "{b}": r"([KMGTPE]?i?B)",
    "{c}": r"([0-9]{1,4}(?:[-,][0-9]{1,4})*)",
    "{t}": rf"({SINCE}T\d\d:\d\d:\d\d(?:\.\d{{1,9}})?Z)",
    "{w}": r"([^\n]*?)",
}
"""Amounts, durations, amounts of resources, units, CPUs, times: kept, but for resources' names.
``{w}`` is for the words of others."""

_WORDS = "{w}"
_RESOURCES = "{r}"

_SENTENCES = (
    "Pod ",
    "Pod was rejected: ",
    "Error: ",
    "(combined from similar events): ",
    # kills and ends
    "Stopping container {w}",
    "Container {w} failed liveness probe",
    "Container {w} failed startup probe",
    "Container {w} definition changed",
    "Container {w} resize requires restart",
    ", will be restarted",
    "Preempted in order to admit critical pod",
    "Pod was preempted by Kubelet to accommodate a critical pod.",
    "Pod was rejected as the node is shutting down.",
    "Pod was terminated in response to imminent node shutdown.",
    # evictions
    "The node was low on resource: {w}. ",
    "Threshold quantity: {n}, available: {n}. ",
    "Container {w} was using {n}, which exceeds its request of {n}. ",
    "Container {w} was using {n}, request is {n}, has larger consumption of {w}. ",
    "Pod {w} was using {n}, request is {n}, has larger consumption of {w}. ",
    'Container {w} exceeded its local ephemeral storage limit "{n}". ',
    "Pod ephemeral local storage usage exceeds the total limit of containers {n}. ",
    'Usage of EmptyDir volume "{w}" exceeds the limit "{n}". ',
    # admission
    "Predicate {w} failed",
    ": node(s) didn't match Pod's node affinity/selector",
    ": node(s) didn't match the requested node name",
    ": node(s) didn't have free ports for the requested pod ports",
    ": node(s) had taints that the pod didn't tolerate",
    "The node had condition: [{w}]. ",
    "Resources cannot be allocated with Topology locality",
    "Node didn't have enough resource: {w}, requested: {n}, used: {n}, capacity: {n}",
    "Node didn't have enough capacity: {w}, requested: {n}, capacity: {n}",
    "Allocate failed due to ",
    "requested number of devices unavailable for {w}. Requested: {n}, Available: {n}",
    "SMT Alignment Error: requested {n} cpus not multiple cpus per core = {n}",
    "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {n}, "
    "requested CPUs = {n}, CPUs per core = {n}",
    "not enough cpus available to satisfy request: requested={n}, available={n}",
    "not enough cpus available to satisfy request: {n} requested, only {n} available",
    'pod "{w}" container "{w}" changed request for resource "{w}" from {n} to {n}',
    'some of strictly reserved cpus: "{c}" are present in defaultCpuSet: "{c}"',
    'not all reserved cpus: "{c}" are present in defaultCpuSet: "{c}"',
    'pod: {w}, container: {w} cpuset: "{c}" overlaps with default cpuset "{c}"',
    'current set of available CPUs "{c}" doesn\'t match with CPUs in state "{c}"',
    ", which is unexpected",
    ".",
    "Unexpected error while attempting to recover from admission failure: ",
    "preemption: error finding a set of pods to preempt: "
    "no set of running pods found to reclaim resources: [{r}]",
    # containers and images
    "back-off {d} restarting failed container={w} pod={w}",
    'Successfully pulled image "{w}" in {d}',
    " ({d} including waiting)",
    ". Image size: {n} bytes.",
    "wanted to free {n} bytes, but freed {n} bytes space with errors in image deletion: {w}",
    "wanted to free images older than {d}, encountered errors in image deletion: {w}",
    "Failed to garbage collect required amount of images. Wanted to free {n} bytes, "
    "but freed {n} bytes",
    "failed to garbage collect required amount of images. Wanted to free {n} bytes, "
    "but freed {n} bytes",
    "Failed to garbage collect required amount of images. Attempted to free {n} bytes, "
    "but only found {n} bytes eligible to free.",
    "Insufficient free disk space on the node's image filesystem ({n} of {n} {b} used). ",
    "Failed to free sufficient space by deleting unused images (freed {n} bytes). "
    "Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
    # the node
    "PLEG is not healthy: pleg was last seen active {d} ago; threshold is {d}",
    "invalid capacity {n} on image filesystem",
    "System OOM encountered, victim process: {w}, pid: {n}",
    # an import's own
    "node: the stamp of one line does not go with those above and below it, and is not believed: "
    "this says {w}: {t}, others say {t} and {t}",
)


class _Sentence(NamedTuple):
    pattern: re.Pattern[str]
    holes: tuple[str, ...]


def _read(sentence: str) -> _Sentence:
    """A sentence that ends with the words of others goes on to the end of the text."""
    parts = re.split(r"(\{[bcndrtw]\})", sentence)
    pattern = "".join(_HOLES.get(part) or re.escape(part) for part in parts)
    end = "$" if sentence.endswith(_WORDS) else ""
    return _Sentence(re.compile(pattern + end), tuple(part for part in parts if part in _HOLES))


_READ = tuple(map(_read, sorted(_SENTENCES, key=len, reverse=True)))
"""The longest first: several begin with the same word."""


def in_own_words(text: str, others: Callable[[str], str]) -> str | None:
    """A text that consists of such sentences alone; None for any other.

    Args:
        others: what becomes of the words of others in it.
    """
    parts, at = [], 0
    while at < len(text):
        for sentence in _READ:
            if match := sentence.pattern.match(text, at):
                break
        else:
            return None
        for number, hole in enumerate(sentence.holes, 1):
            start, end = match.span(number)
            said = match[number]
            if hole == _WORDS:
                said = others(said)
            elif hole == _RESOURCES:
                said = re.sub(r"(?<=res: )[^,]+", lambda name: others(name[0]), said)
            parts += [text[at:start], said]
            at = end
        parts.append(text[at : match.end()])
        at = match.end()
    return "".join(parts)


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
