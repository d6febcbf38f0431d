"""Naming the field of a pod whose quantity cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubeledger.cases.fields import keyed
from kubeledger.cgroups.pod import Pod, ResourceRequirements
from kubeledger.errors import BadInputError
from kubeledger.kube.quantity import QuantityError
from kubeledger.kube.requests import Amount, ResourceList, nanos_of

__all__ = ["bad_amount", "read_amount"]


def bad_amount(pods: Iterable[tuple[str, Pod]], error: QuantityError) -> BadInputError:
    """The error for a user, with the path of the first amount that is no quantity.

    Args:
        pods: (n,) path and pod.
        error: that reading one of their amounts gave.
    """
    for path, amount in _amounts(pods):
        try:
            nanos_of(amount)
        except QuantityError as found:
            return BadInputError(f"{path}: {amount!r}: {found}")
    return BadInputError(f"a quantity: {error}")


def read_amount(amount: Amount, path: str) -> int:
    """Nanos of an amount outside of pods.

    Raises:
        BadInputError: it is no quantity.
    """
    try:
        return nanos_of(amount)
    except QuantityError as error:
        raise BadInputError(f"{path}: {amount!r}: {error}") from None


def _amounts(pods: Iterable[tuple[str, Pod]]) -> Iterator[tuple[str, Amount]]:
    for path, pod in pods:
        spec = pod.spec
        yield from _listed(spec.overhead, f"{path}.spec.overhead")
        yield from _required(spec.resources, f"{path}.spec.resources")
        for kind, containers in (
            ("containers", spec.containers),
            ("initContainers", spec.init_containers or []),
        ):
            for index, container in enumerate(containers):
                where = f"{path}.spec.{kind}[{index}].resources"
                yield from _required(container.resources, where)


def _required(resources: ResourceRequirements | None, path: str) -> Iterator[tuple[str, Amount]]:
    if resources is not None:
        yield from _listed(resources.requests, f"{path}.requests")
        yield from _listed(resources.limits, f"{path}.limits")


def _listed(amounts: ResourceList | None, path: str) -> Iterator[tuple[str, Amount]]:
    for name, amount in (amounts or {}).items():
        yield keyed(path, name), amount
