"""Settings of a variant: those of pods, as users write them, and those refused together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeledger.kubelet.cpumanager.policy_options import (
    PolicyOptionError,
    new_static_policy_options,
)
from kubeledger.kubelet.kube.configuration import problem
from kubeledger.kubelet.kube.maporder import FIRST_ORDER
from kubeledger.kubelet.kube.quantity import ZERO, Quantity, QuantityError
from kubeledger.kubelet.kube.resources import HUGE_PAGES, ResourceList
from kubeledger.kubelet.memorymanager.machine import (
    MEMORY,
    MemoryManagerError,
    MemoryReservation,
    get_system_reserved_memory,
)
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.scope import ConfigurationError, policy_options
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import parse_go_duration
from kubeledger.verify import PodFieldChange, ProbeChange, ResourceChange
from kubeledger.verify.variant import UNKNOWN, profile_of

# Settings of pods as users write them: ``container/NS/POD/C.livenessProbe.periodSeconds=5``.
#
# Source: v1.36.2 pkg/apis/core/validation/validation.go validateProbe, validateLivenessProbe

PodChange = PodFieldChange | ProbeChange | ResourceChange

_PREFIXES = ("container/", "pod/")
_RESOURCE = re.compile(
    r"(?P<place>[^.]+(?:\.[^.]+)*?)\.resources\.(?P<part>limits|requests)\.(?P<resource>.+)",
    re.DOTALL,
)
_PROBE = re.compile(
    r"(?P<place>.+)\.(?P<type>liveness|readiness|startup)Probe\.(?P<field>[^.]*)", re.DOTALL
)
_FIELD = re.compile(r"(?P<place>.+)\.(?P<field>[^.]+)", re.DOTALL)
_LEAST = {
    "failureThreshold": 1,
    "successThreshold": 1,
    "periodSeconds": 1,
    "timeoutSeconds": 1,
    "initialDelaySeconds": 0,
    "terminationGracePeriodSeconds": 1,
}
"""Fields of a probe, and the least that an API server takes."""
_POD_LEAST = {"priority": -(2**31), "terminationGracePeriodSeconds": 0}
_DEADLINE = "activeDeadlineSeconds"
_MOST = 2**31 - 1
_FORMS = (
    "write container/NAMESPACE/POD/CONTAINER.resources.limits.memory=256Mi, "
    "pod/POD/CONTAINER.livenessProbe.failureThreshold=5 or pod/NAMESPACE/POD.priority=1000"
)


def is_of_pod(key: str) -> bool:
    """Whether a key is about a pod, and no field of KubeletConfiguration."""
    return key.startswith(_PREFIXES)


def parse_pod_setting(key: str, text: str) -> PodChange:
    """Read one value of a pod's setting.

    Args:
        key: ``container/NAMESPACE/POD/CONTAINER`` (or ``pod/``, also without the namespace) and
            a resource or a field of a probe; ``pod/NAMESPACE/POD`` (also without the namespace)
            and a field of the pod. ``*`` stands for any characters of a name.
        text: its value; ``null`` for no limit or request.

    Raises:
        BadQuestionError: there is no such setting, or no API server takes that value.
    """
    if match := _RESOURCE.fullmatch(key):
        return _resource(match, text)
    if match := _PROBE.fullmatch(key):
        return _probe(match, text)
    match = _FIELD.fullmatch(key)
    if key.startswith("container/") or match is None:
        raise BadQuestionError(f"{key!r} names no resource and no probe", advice=_FORMS)
    if match["field"] not in _POD_LEAST:
        known = " and ".join(_POD_LEAST)
        if match["field"] == _DEADLINE:
            raise BadQuestionError(
                f"{_DEADLINE} cannot be changed: kills for a deadline are not decided again, and "
                "what a pod that had run longer would have done is not recorded",
                advice=f"of a pod there are {known}",
            )
        raise BadQuestionError(
            f"{match['field']!r} is not a field of a pod that can be changed",
            advice=f"those are {known}; {_FORMS}",
        )
    namespace, pod = _names(key, match["place"], 1)
    value = _integer(key, text, _POD_LEAST[match["field"]])
    return PodFieldChange(namespace=namespace, pod=pod, field=match["field"], value=value)


def _resource(match: re.Match[str], text: str) -> ResourceChange:
    namespace, pod, container = _names(match.string, match["place"], 2)
    if text != "null":
        try:
            good = Quantity.from_api(text).sign >= 0
        except QuantityError:
            good = False
        if not good:
            raise BadQuestionError(f"{text!r} is not an amount", advice=_FORMS)
    return ResourceChange(
        namespace=namespace,
        pod=pod,
        container=container,
        part="limits" if match["part"] == "limits" else "requests",
        resource=match["resource"],
        amount=None if text == "null" else text,
    )


def _probe(match: re.Match[str], text: str) -> ProbeChange:
    namespace, pod, container = _names(match.string, match["place"], 2)
    field = match["field"]
    if field not in _LEAST:
        raise BadQuestionError(
            f"{field!r} is not a field of a probe", advice=f"those are {', '.join(_LEAST)}"
        )
    value = _integer(match.string, text, _LEAST[field])
    probe_type: ProbeType = match["type"]  # type: ignore[assignment] # by the expression
    if field == "successThreshold" and probe_type != "readiness" and value != 1:
        raise BadQuestionError(f"{field} of a {probe_type} probe must be 1")
    if field == "terminationGracePeriodSeconds" and probe_type == "readiness":
        raise BadQuestionError(f"a readiness probe has no {field}: its failure kills nothing")
    return ProbeChange(
        namespace=namespace,
        pod=pod,
        container=container,
        probe_type=probe_type,
        field=field,
        value=value,
    )


def _names(key: str, place: str, least: int) -> list[str]:
    names = place.split("/")[1:]
    if not least <= len(names) <= least + 1 or not all(names):
        raise BadQuestionError(
            f"{key!r} names no {'pod' if least == 1 else 'container'}", advice=_FORMS
        )
    return names if len(names) > least else ["*", *names]


def _integer(key: str, text: str, least: int) -> int:
    good = re.fullmatch(r"-?\d{1,10}", text)
    if not good or not least <= int(text) <= _MOST:
        what = f"{least} or more" if least >= 0 else "32 bits wide"
        raise BadQuestionError(f"{key}={text}: must be a whole number, {what}")
    return int(text)


# Settings that a kubelet refuses together, though each alone is good.

_ENFORCEABLE = frozenset(
    {"pods", "system-reserved", "kube-reserved", "none"}
    | {"system-reserved-compressible", "kube-reserved-compressible"}
)

Settings = Mapping[str, Any]


def _thresholds(settings: Settings) -> str:
    high = settings.get("imageGCHighThresholdPercent")
    low = settings.get("imageGCLowThresholdPercent")
    if not isinstance(high, int) or not isinstance(low, int) or low < high:
        return ""
    return f"imageGCLowThresholdPercent {low} must be less than imageGCHighThresholdPercent {high}"


def _ages(settings: Settings) -> str:
    most, least = settings.get("imageMaximumGCAge"), settings.get("imageMinimumGCAge")
    try:
        if not 0 < parse_go_duration(most or "0") <= parse_go_duration(least or "0"):
            return ""
    except (TypeError, AttributeError, ValueError):  # a recorded value that is odd
        return ""
    return f"imageMaximumGCAge {most} must be greater than imageMinimumGCAge {least}"


def _soft(settings: Settings) -> str:
    soft, grace = settings.get("evictionSoft"), settings.get("evictionSoftGracePeriod")
    if not isinstance(soft, Mapping) or not isinstance(grace, Mapping | None):
        return ""
    for signal in sorted(soft.keys() - (grace or {}).keys()):
        if soft[signal] not in {"0%", "100%"}:  # means that there is none
            return f"evictionSoft {signal} needs a grace period in evictionSoftGracePeriod"
    return ""


def _enforced(settings: Settings) -> str:
    keys = settings.get("enforceNodeAllocatable")
    if not isinstance(keys, list):
        return ""
    for key in keys:
        if key not in _ENFORCEABLE:
            return f"enforceNodeAllocatable {key!r} is not one of {', '.join(sorted(_ENFORCEABLE))}"
        parent = {"system": "systemReservedCgroup", "kube": "kubeReservedCgroup"}.get(
            key.partition("-")[0]
        )
        if parent and settings.get(parent) == "":
            return f"enforceNodeAllocatable {key!r} needs {parent}"
    if "none" in keys and len(keys) > 1:
        return "enforceNodeAllocatable 'none' cannot be combined with others"
    if settings.get("cgroupsPerQOS") is False and keys not in ([], ["none"]):
        return "enforceNodeAllocatable needs cgroupsPerQOS"
    return ""


def _reserved_cpus(settings: Settings) -> str:
    if not settings.get("reservedSystemCPUs"):
        return ""
    for name in ("systemReservedCgroup", "kubeReservedCgroup"):
        if settings.get(name):
            return f"reservedSystemCPUs and {name} exclude each other"
    return ""


def _reserved_memory(settings: Settings) -> str:
    """By type, ``reservedMemory`` keeps of all NUMA nodes together what the node keeps."""
    kept = settings.get("reservedMemory")
    reserves = [settings.get(name) or {} for name in ("systemReserved", "kubeReserved")]
    hard = settings.get("evictionHard")
    if settings.get("memoryManagerPolicy") != "Static" or not isinstance(hard, Mapping):
        return ""
    threshold = str(hard.get("memory.available", "0"))
    if threshold.endswith("%"):
        return ""  # of a capacity that no setting tells
    try:
        entries = [MemoryReservation(each["numaNode"], each["limits"]) for each in kept or ()]
        amounts = {MEMORY: Quantity.from_api(threshold)}
        for name, amount in (item for reserve in reserves for item in reserve.items()):
            if name == MEMORY or name.startswith(HUGE_PAGES):
                amounts[name] = Quantity.from_api(amount).add(amounts.get(name, ZERO))
        reservation: ResourceList = {name: str(amount) for name, amount in amounts.items()}
        get_system_reserved_memory({each.numa_node for each in entries}, reservation, entries)
    except MemoryManagerError as error:
        return f"reservedMemory: {error}"
    except (QuantityError, KeyError, TypeError, AttributeError):  # a value that is odd
        return ""
    return ""


def _topology_options(settings: Settings, profile: KubeletProfile) -> str:
    options = settings.get("topologyManagerPolicyOptions")
    no_policy = settings.get("topologyManagerPolicy") == "none"
    if not isinstance(options, Mapping) or (no_policy and profile.topology.none_needs_nothing):
        return ""
    try:
        policy_options({str(n): str(value) for n, value in options.items()}, profile.topology)
    except ConfigurationError as error:
        return f"topologyManagerPolicyOptions of kubelet {profile.version}: {error}"
    return ""


def _cpu_options(settings: Settings, profile: KubeletProfile) -> str:
    options, facts = settings.get("cpuManagerPolicyOptions"), profile.resourcemanagers
    static = settings.get("cpuManagerPolicy") == "static" and facts.cpu_policy_options
    if not static or not isinstance(options, Mapping):
        return ""
    try:
        texts = {str(name): str(value) for name, value in options.items()}
        new_static_policy_options(texts, facts, FIRST_ORDER)
    except PolicyOptionError as error:
        return f"cpuManagerPolicyOptions of kubelet {profile.version}: {error}"
    return ""


_RULES: tuple[tuple[str, Callable[[Settings], str]], ...] = (
    ("imageGCHighThresholdPercent imageGCLowThresholdPercent", _thresholds),
    ("imageMaximumGCAge imageMinimumGCAge", _ages),
    ("evictionSoft evictionSoftGracePeriod", _soft),
    ("cgroupsPerQOS enforceNodeAllocatable kubeReservedCgroup systemReservedCgroup", _enforced),
    ("kubeReservedCgroup reservedSystemCPUs systemReservedCgroup", _reserved_cpus),
    (
        "evictionHard kubeReserved memoryManagerPolicy reservedMemory systemReserved",
        _reserved_memory,
    ),
)
"""Fields, and a rule that concerns them."""

_BY_VERSION: tuple[tuple[str, Callable[[Settings, KubeletProfile], str]], ...] = (
    ("featureGates topologyManagerPolicy topologyManagerPolicyOptions", _topology_options),
    ("cpuManagerPolicy cpuManagerPolicyOptions featureGates", _cpu_options),
)
"""The same of rules that differ by version and its feature gates."""


def refusal(changed: Settings, recorded: Settings, version: str | None = None) -> str:
    """Why no kubelet starts with these settings, as a sentence; empty when one does.

    Args:
        recorded: those of the node, which hold where nothing is changed. They are not judged:
            a kubelet ran with them.
    """
    for field, value in changed.items():
        if value is not UNKNOWN and (reason := problem(field, value)):
            return f"{field} {reason}, not {msgspec.json.encode(value).decode()}"
    both = {**recorded, **changed}
    effective = {name: value for name, value in both.items() if value is not UNKNOWN}
    for fields, rule in _RULES:
        if changed.keys() & fields.split() and (reason := rule(effective)):
            return reason
    profile = profile_of(version, effective.get("featureGates"))
    if profile is None:
        return ""
    for fields, by_version in _BY_VERSION:
        if changed.keys() & fields.split() and (reason := by_version(effective, profile)):
            return reason
    return ""
