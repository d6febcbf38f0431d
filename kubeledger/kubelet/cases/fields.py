"""What all kinds of cases share: names of fields, what their values may be, the verdict.

A field is named by its path from ``input``, as in ``input.steps[3].devices[0].numaNodes``; a
key that is no plain word stands in brackets: ``input.capacity["example.com/gpu"]``. What a value
may not be is a ``BadInputError`` that names its field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import starmap, zip_longest
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET

from kubeledger.kubelet.kube.containermanager import AllocationError, CPUSet, parse
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS, instant_ns
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import Amount, ResourceList
from kubeledger.kubelet.prober.objects import Pod as ProbedPod
from kubeledger.kubelet.prober.objects import PodStatus
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import BITS_MAX
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import parse_api_ts, parse_ts


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


def check_uint64(path: str, number: int | None) -> None:
    """Make sure that a number that is not negative fits 64 bits."""
    if number is not None and number >= 2**64:
        raise BadInputError(f"{path}: it does not fit 64 bits")


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


LAST_NS: Final = parse_ts("9999-12-31T23:59:59.999999999Z")
"""The last instant that can be written."""


def time_of(text: str, field: str) -> int:
    """An instant in nanoseconds since the epoch; a zone can move one out of what can be written."""
    try:
        ts_ns = parse_api_ts(text)
    except ValueError:
        ts_ns = LAST_NS + 1
    if not ZERO_TIME_NS <= ts_ns <= LAST_NS:
        raise BadInputError(f"{field}: no time from year 1 to 9999: {shortened(text)}")
    return ts_ns


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


class Subsystem(NamedTuple):
    """How cases of one subsystem are decided.

    Attributes:
        nearest: where the kubelet has a choice: of all that it can come to, what is most like a
            claim that is not the decided outcome.
    """

    input: type[msgspec.Struct]
    outcome: type
    decide: Callable[[Any, KubeletProfile], Any]
    nearest: Callable[[Any, KubeletProfile, Any, Any], Any] | None = None


class Walk(Protocol):
    """A case in one order of the kubelet's maps."""

    def steps(self) -> Iterator[Any]:
        """What comes of each step, until the kubelet stops."""

    def outcome(self, steps: list[Any]) -> Any:  # noqa: ANN401  # of the subsystem
        """What came of all of it."""


def walked(
    case_type: type[msgspec.Struct],
    outcome_type: type[msgspec.Struct],
    walk: Callable[[Any, KubeletProfile, MapOrder], Walk],
    runs_max: int = 1 << 12,
    sort: Callable[[Any], None] | None = None,
) -> Subsystem:
    """A subsystem whose claims are admissible if they come out in some order of maps.

    Args:
        sort: sorts the sets in a claim, as they are in what comes out.
    """

    def decide(case_input: object, profile: KubeletProfile) -> object:
        run = walk(case_input, profile, FIRST_ORDER)
        return run.outcome(list(run.steps()))

    def nearest(case_input: object, profile: KubeletProfile, decided: Any, claimed: Any) -> Any:  # noqa: ANN401
        """The claim if it comes out, else what follows it longest, and then is most like it."""

        def follow(order: MapOrder) -> Any:  # noqa: ANN401
            run, steps, claims = walk(case_input, profile, order), [], iter(claimed.steps)
            for step in run.steps():
                steps.append(step)
                if step != next(claims, None):
                    break
            return run.outcome(steps)

        if sort is not None:
            sort(claimed)
        best, likeness = decided, (-1, 0)
        for outcome in explore(follow, runs_max):
            if outcome == claimed:
                return claimed
            at = len(outcome.steps)
            claims = zip(outcome.steps[at - 1 : at], claimed.steps[at - 1 : at], strict=False)
            found = at, -sum(starmap(_differences, claims))
            if found > likeness:
                best, likeness = outcome, found
        return best

    return Subsystem(case_type, outcome_type, decide, nearest)


OutcomeT = TypeVar("OutcomeT", bound=msgspec.Struct)


def first_difference(possible: object, claimed: object, path: str = "") -> str:
    """Where a claim first differs from an outcome, and what either has there; empty: nowhere.

    As in ``pod.cpuShares: the claim has 3, the kubelet gives 2``. Of lists of plain values the
    whole is shown.

    Args:
        possible, claimed: JSON values; ``path`` is theirs.
    """
    if isinstance(possible, dict) and isinstance(claimed, dict):
        below = [
            (keyed(path, key), possible.get(key, UNSET), claimed.get(key, UNSET))
            for key in dict.fromkeys((*possible, *claimed))
        ]
    elif (
        isinstance(possible, list) and isinstance(claimed, list) and _is_nested(possible + claimed)
    ):
        pairs = enumerate(zip_longest(possible, claimed, fillvalue=UNSET))
        below = [(f"{path}[{index}]", *pair) for index, pair in pairs]
    elif type(possible) is type(claimed) and possible == claimed:
        return ""
    else:
        where = path.removeprefix(".") or "the outcome"
        return f"{where}: the claim has {_shown(claimed)}, the kubelet gives {_shown(possible)}"
    found = (first_difference(one, other, place) for place, one, other in below)
    return next(filter(None, found), "")


def most_alike(outcomes: Iterable[OutcomeT], claim: OutcomeT | None) -> OutcomeT:
    """The first of those that differ from a claim in the fewest fields; of no claim the first."""
    if claim is None:
        return next(iter(outcomes))
    return min(outcomes, key=lambda each: _differences(each, claim))


def _differences(one: msgspec.Struct, other: msgspec.Struct) -> int:
    """In how many fields two structs of one type differ."""
    return sum(getattr(one, name) != getattr(other, name) for name in one.__struct_fields__)


def _is_nested(values: list[object]) -> bool:
    return any(isinstance(value, dict | list) for value in values)


def _shown(value: object) -> str:
    if value is UNSET:
        return "nothing"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 10 * _SHOWN_MAX else f"{text[: 10 * _SHOWN_MAX]}..."
