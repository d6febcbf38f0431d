"""Messages of the device manager."""

from __future__ import annotations

import re

import msgspec

from kubeledger.model.patterns import regex

_ADMISSION = regex(
    r"(?:Allocate|Update plugin resources) failed due to (?P<error>.*), which is unexpected",
    re.DOTALL,
)
_TOPOLOGY = "Resources cannot be allocated with Topology locality"

_RESOURCE = r"(?P<resource>[^\s,]+)"
_BEFORE_CALL = (
    rf"requested number of devices unavailable for {_RESOURCE}\. "
    r"Requested: (?P<requested>-?\d+), Available: (?P<available>-?\d+)",
    r'pod "[^"]*" container "(?P<container>[^"]*)" changed request for resource '
    r'"(?P<resource>[^"]+)" from \d+ to (?P<requested>-?\d+)',
    rf"can(?:'t|not) allocate unregistered device {_RESOURCE}",
    rf"no healthy devices present; cannot allocate unhealthy devices {_RESOURCE}",
    r"previously allocated devices are no longer healthy; "
    rf"cannot allocate unhealthy devices {_RESOURCE}",
    r"unexpectedly allocated less resources than required\. Requested: (?P<requested>\d+), Got:",
    rf"[Uu]nknown Device Plugin {_RESOURCE}",
    rf"endpoint not found in cache for a registered resource: {_RESOURCE}",
    r"device plugin GetPreferredAllocation rpc failed with err: ",
)
_IN_CALL = (
    r"rpc error: ",
    r"endpoint .+ has been stopped",
    r"no containers return in allocation response",
)
_AFTER_CALL = (r'failed to write checkpoint file "kubelet_internal_checkpoint"',)


class DeviceError(msgspec.Struct, frozen=True):
    """An error of the device manager, taken apart.

    Attributes:
        error: its text, without what the kubelet put around it.
        container, resource, requested, available: None when the text does not hold them.
        undoes_call: the Allocate call that had been logged gave no devices.
    """

    error: str
    container: str | None = None
    resource: str | None = None
    requested: int | None = None
    available: int | None = None
    undoes_call: bool = False


_KINDS = (
    *((regex(pattern), False) for pattern in _BEFORE_CALL),
    *((regex(pattern, re.DOTALL), True) for pattern in _IN_CALL),
    *((regex(pattern), False) for pattern in _AFTER_CALL),
)


def device_error(message: str) -> DeviceError | None:
    """The device manager's error in an admission message; None when it holds no such error.

    Other managers fail with the same words around their errors, so the error itself decides.
    """
    admission = _ADMISSION.search(message)
    if admission is None:
        return None
    error = admission["error"]
    for pattern, undoes_call in _KINDS:
        if match := pattern.match(error):
            found = match.groupdict()
            return DeviceError(
                error=error,
                container=found.get("container"),
                resource=found.get("resource"),
                requested=_number(found.get("requested")),
                available=_number(found.get("available")),
                undoes_call=undoes_call,
            )
    return None


def is_topology_refusal(message: str) -> bool:
    """The topology manager's policy refused the pod."""
    return _TOPOLOGY in message


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
