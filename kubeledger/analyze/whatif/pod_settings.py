"""Settings of pods as users write them: ``container/NS/POD/C.livenessProbe.periodSeconds=5``.

Source: v1.36.2 pkg/apis/core/validation/validation.go validateProbe, validateLivenessProbe
"""

from __future__ import annotations

import re

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.errors import BadQuestionError
from kubeledger.verify import PodFieldChange, ProbeChange, ResourceChange

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
    *namespace, pod = _names(key, match["place"], 1)
    value = _integer(key, text, _POD_LEAST[match["field"]])
    return PodFieldChange(
        namespace=namespace[0] if namespace else "*", pod=pod, field=match["field"], value=value
    )


def _resource(match: re.Match[str], text: str) -> ResourceChange:
    *namespace, pod, container = _names(match.string, match["place"], 2)
    if text != "null":
        try:
            good = Quantity.from_api(text).sign >= 0
        except QuantityError:
            good = False
        if not good:
            raise BadQuestionError(f"{text!r} is not an amount", advice=_FORMS)
    return ResourceChange(
        namespace=namespace[0] if namespace else "*",
        pod=pod,
        container=container,
        part="limits" if match["part"] == "limits" else "requests",
        resource=match["resource"],
        amount=None if text == "null" else text,
    )


def _probe(match: re.Match[str], text: str) -> ProbeChange:
    *namespace, pod, container = _names(match.string, match["place"], 2)
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
        namespace=namespace[0] if namespace else "*",
        pod=pod,
        container=container,
        probe_type=probe_type,
        field=field,
        value=value,
    )


def _names(key: str, place: str, least: int) -> list[str]:
    names = place.split("/")[1:]
    if not least <= len(names) <= least + 1 or not all(names):
        raise BadQuestionError(f"{key!r} names no {'pod' if least == 1 else 'container'}",
                               advice=_FORMS)  # fmt: skip
    return names


def _integer(key: str, text: str, least: int) -> int:
    good = re.fullmatch(r"-?\d{1,10}", text)
    if not good or not least <= int(text) <= _MOST:
        what = f"{least} or more" if least >= 0 else "32 bits wide"
        raise BadQuestionError(f"{key}={text}: must be a whole number, {what}")
    return int(text)
