"""What fields of all kinds of cases share: how they are named, and what their numbers may be.

A field is named by its path from ``input``, as in ``input.steps[3].devices[0].numaNodes``; a
key that is no plain word stands in brackets: ``input.capacity["example.com/gpu"]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from kubeledger.kubelet.kube.admission import AllocationError
from kubeledger.kubelet.kube.cpuset import CPUSet, parse
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.requests import Amount, ResourceList
from kubeledger.kubelet.topologymanager.bitmask import BITS_MAX
from kubeledger.model.errors import BadInputError

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

_SHOWN_MAX: Final = 80
_REMEMBERED_MAX: Final = 1 << 12
_sound: Final[set[Amount]] = set()
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def keyed(path: str, key: str) -> str:
    """Path of what an object at ``path`` has under ``key``."""
    if _WORD.fullmatch(key):
        return f"{path}.{key}"
    return f"{path}[{msgspec.json.encode(key).decode()}]"


def shortened(value: object) -> str:
    """A value as it is shown in a message; of a long one, the beginning."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def node_set(path: str, nodes: Iterable[int]) -> tuple[int, ...]:
    """NUMA nodes in their order, each within what a mask can hold and there once.

    Raises:
        BadInputError: naming the entry.
    """
    checked = tuple(nodes)
    if _are_nodes(checked):
        return checked
    if len(set(checked)) != len(checked):
        index, node = next((i, n) for i, n in enumerate(checked) if n in checked[:i])
        raise BadInputError(f"{path}[{index}]: NUMA node {node} is there twice")
    for index, node in enumerate(checked):
        if not 0 <= node < BITS_MAX:
            raise BadInputError(
                f"{path}[{index}]: NUMA node {node} is not within 0 to {BITS_MAX - 1}"
            )
    return checked


def cpu_set(path: str, text: str) -> CPUSet:
    """A set of CPUs.

    Raises:
        BadInputError: the text is none.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise BadInputError(f"{path}: {error}") from None


def container_named(path: str, pod: Pod, name: str) -> Container:
    """The container of a pod.

    Raises:
        BadInputError: it has none of that name.
    """
    for container in containers_of(pod):
        if container.name == name:
            return container
    raise BadInputError(f"{path}: the pod has no {shortened(name)}")


def error_of(allocate: Callable[..., None], *arguments: object) -> str:
    """Why an allocation failed; empty where it did not."""
    try:
        allocate(*arguments)
    except AllocationError as error:
        return str(error)
    return ""


@lru_cache(maxsize=1 << 10)
def _are_nodes(nodes: tuple[int, ...]) -> bool:
    return len(set(nodes)) == len(nodes) and all(0 <= node < BITS_MAX for node in nodes)


def are_sound(amounts: ResourceList | None) -> bool:
    """Whether all of the amounts were checked before; False says nothing."""
    return not amounts or _sound.issuperset(amounts.values())


def check_amounts(path: str, amounts: ResourceList | None) -> None:
    """Make sure that the amounts of a node or a setting are quantities, none of them negative.

    Raises:
        BadInputError: naming the resource.
    """
    if amounts is None or are_sound(amounts):
        return
    for name, amount in amounts.items():
        try:
            negative = Quantity.from_api(amount).sign < 0
        except QuantityError as error:
            raise BadInputError(f"{keyed(path, name)}: {shortened(amount)}: {error}") from None
        if negative:
            raise BadInputError(f"{keyed(path, name)}: {shortened(amount)} is negative")
        if len(_sound) >= _REMEMBERED_MAX:
            _sound.clear()
        _sound.add(amount)
