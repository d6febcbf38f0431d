"""What all kinds of cases share: names of fields, what their values may be, the verdict.

A field is named by its path from ``input``, as in ``input.steps[3].devices[0].numaNodes``; a
key that is no plain word stands in brackets: ``input.capacity["example.com/gpu"]``. What a value
may not be is a ``BadInputError`` that names its field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from kubeledger.kubelet.cgroups.pod_config import Path
from kubeledger.kubelet.kube.containermanager import AllocationError, CPUSet, parse
from kubeledger.kubelet.kube.gotexts import instant_ns
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import Amount, ResourceList
from kubeledger.kubelet.prober.objects import Pod as ProbedPod
from kubeledger.kubelet.prober.objects import PodStatus
from kubeledger.kubelet.topologymanager.policy import BITS_MAX
from kubeledger.model.errors import BadInputError

Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Strict(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A part of a case or an outcome: keys in camel case, and none that is not known."""


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
    """NUMA nodes in their order, each within what a mask can hold and there once."""
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
    """A set of CPUs."""
    try:
        return parse(text)
    except ValueError as error:
        raise BadInputError(f"{path}: {error}") from None


def container_named(path: str, pod: Pod, name: str) -> Container:
    """The container of a pod."""
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
    """Make sure that the amounts of a node or a setting are quantities, none of them negative."""
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


# Times in pods and statuses that nothing may depend on, but that must be times.


def check_pod_times(pod: ProbedPod) -> None:
    """Times of a pod, also of the status that came with it."""
    _check(pod.metadata.creation_timestamp)
    _check(pod.metadata.deletion_timestamp)
    check_status_times(pod.status)


def check_status_times(status: PodStatus | None) -> None:
    """Times of all containers in a status."""
    if status is None:
        return
    for listed in (status.container_statuses, status.init_container_statuses):
        for container in listed or ():
            state = container.state
            if state.running is not None:
                _check(state.running.started_at)
            if state.terminated is not None:
                _check(state.terminated.started_at)
                _check(state.terminated.finished_at)


def _check(text: str | None) -> None:
    if text is not None:
        instant_ns(text)


# The verdict over a claimed outcome.

Verdict = Literal["match", "admissible", "impossible"]


class Judgement(msgspec.Struct, frozen=True):
    """Whether the real kubelet could have produced an outcome.

    Attributes:
        verdict: ``match`` is what ``decide`` gives, ``admissible`` is another outcome that the
            kubelet can produce, ``impossible`` is one that it cannot.
        why: one sentence; empty for a match.
    """

    verdict: Verdict
    why: str = ""


MATCH = Judgement("match")
ADMISSIBLE = Judgement(
    "admissible", "the kubelet's order is not fixed here, and another one gives this"
)


def impossible(why: str) -> Judgement:
    """A verdict that says what could not have been."""
    return Judgement("impossible", why)


def compared(decided: object, claimed: object, explain: Callable[[Path], str]) -> Judgement:
    """Whether a claim of any shape is the only possible outcome.

    Args:
        explain: the rule for the value at a path, or for its absence; empty where none is known.

    Returns:
        a match, or why not, of the first difference:
        ``pod.cpuShares is 2, not 3: a BestEffort pod has the least shares, 2``.
    """
    found = _difference(decided, claimed, ())
    if found is None:
        return MATCH
    path, difference = found
    reason = explain(path)
    where = ".".join(path) or "the outcome"
    return impossible(f"{where} {difference}: {reason}" if reason else f"{where} {difference}")


def _difference(decided: object, claimed: object, path: Path) -> tuple[Path, str] | None:
    """The path of the first difference, and what it is."""
    if isinstance(decided, dict):
        if not isinstance(claimed, dict):
            return path, "is not an object"
        for key in sorted({*decided, *map(str, claimed)}):
            below = (*path, key)
            if key not in claimed:
                return below, "is missing"
            if key not in decided:
                return below, "is not written"
            if found := _difference(decided[key], claimed[key], below):
                return found
        return None
    if type(decided) is not type(claimed) or decided != claimed:
        return path, f"is {_shown(decided)}, not {_shown(claimed)}"
    return None


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
