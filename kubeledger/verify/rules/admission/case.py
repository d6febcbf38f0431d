"""One admission as the deciders get it: pod, node, the pods that counted, and what is not known.

What the records leave open makes *worlds*: a pod whose containers were just going down counted or
did not. Each world says what it assumes; the first is the likeliest. Of pods, fewer leave more
room, so the two ends (all that may have counted, and only those that must) say whether a pod fits
in every world. Within a world the kubelet is free: resources run out in the order of a Go map, and
the node object that it reads may lag behind what it wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations, islice, product
from math import prod
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.pod import Node, Pod
from kubeledger.kubelet.kube.podtotals import allocated
from kubeledger.kubelet.lifecycle import predicate as lifecycle
from kubeledger.kubelet.lifecycle.nodeinfo import InsufficientResourceError, NodeInfo
from kubeledger.kubelet.lifecycle.predicate import (
    PodAdmitResult,
    PredicateFailureReason,
    general_filter,
)
from kubeledger.kubelet.preemption import preemption
from kubeledger.kubelet.preemption.preemption import Requirements
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.pod_objects import requests_of

UNCOUNTED: Final = 1 << 30
"""Stands on a node for devices whose number is not known: there are as many as it takes."""

UNSIZED: Final = 1 << 60
"""The same for resources of the machine whose capacity is not known."""

LABELS: Final = "the node's labels"
TAINTS: Final = "the node's taints at this time"
OTHER_PODS: Final = "the pods that ran before the log begins"

_DOUBTS_MAX: Final = 8
"""Of so many doubtful pods all combinations are tried; of more, none, all, and all but one."""

_READINGS_MAX: Final = 32
"""So many readings of the pods that were resized are tried."""


class CountedPod(msgspec.Struct, frozen=True):
    """A pod that counted.

    Attributes:
        doubtful: it may also not have counted.
        extended: extended resources that it requests.
        readings: (n,) the same pod, with what else of a resize its status may have said.
        assumes: which of them it is, as a missing input; empty for the likeliest.
    """

    name: str
    pod: Pod
    seq: int
    doubtful: bool
    extended: tuple[str, ...] = ()
    alive_later: bool = False
    readings: tuple[Pod, ...] = ()
    assumes: str = ""

    def read(self) -> Iterator[CountedPod]:
        """By each reading of it, the likeliest first."""
        yield self
        assumes = f"what the status of pod {self.name} said of its resize"
        for pod in self.readings:
            yield replace(self, pod=pod, assumes=assumes)


class AdmissionOutcome(msgspec.Struct, frozen=True):
    """What the kubelet does in one world.

    Attributes:
        insufficient: what is missing, in the order of the fit check.
        info: the node of that world with the pods that count in it; ``pods`` are these.
        assumes: what the world assumes and no record shows, as noun phrases.
    """

    result: PodAdmitResult
    insufficient: tuple[InsufficientResourceError, ...]
    info: NodeInfo
    pods: tuple[CountedPod, ...]
    assumes: tuple[str, ...] = ()

    @property
    def requirements(self) -> Requirements:
        """What is missing, as preemption gets it."""
        return tuple(reason.requirement for reason in self.insufficient)

    @property
    def specs(self) -> tuple[int, ...]:
        """Records that show the pods which take of what is missing; of all where nothing is."""
        missing = {i.resource_name for i in self.insufficient}
        if not missing or "pods" in missing:
            return tuple(other.seq for other in self.pods)
        asking = ((other.seq, dict(requests_of(other.pod)).keys()) for other in self.pods)
        return tuple(seq for seq, asked in asking if missing & asked)


Refusal = tuple[int, str, str]
"""A record, and the reason and the message of the refusal that it says."""

Choices = tuple[AdmissionOutcome, ...]
"""(n,) what the kubelet is free to do in one world, the decider's own choice first."""


class AdmissionCase(msgspec.Struct, frozen=True, kw_only=True):
    """One admission; outcomes raise BadInputError where a quantity of a pod is none.

    Attributes:
        interval: the pod's interval, which a config line began.
        pod: its object; ``spec_seq`` the record that shows it.
        nodes: the node, the most likely first.
        node_inputs: records that show the node and the settings; ``asked``: those of which a file
            alone tells.
        others: (n,) pods that counted, in the order of their admission.
        unread: names of pods that counted but whose specs are not known.
        complete: no pod can have counted that no record names.
        refusal: what refused it before the predicates.
        blame: whose hints the topology manager refused it for; empty where nothing says.
        unsized: (n,) resources it requests of which the node's capacity is not known.
        inferred: the machine's size is in no record, but follows from what is.
        pressure: record and words that show that the eviction manager admitted critical pods
            only; None when nothing does.
    """

    interval: PodActiveInterval
    pod: Pod
    spec_seq: int
    facts: AdmissionFacts
    nodes: tuple[Node, ...]
    node_inputs: tuple[int, ...]
    asked: frozenset[str]
    others: tuple[CountedPod, ...]
    unread: tuple[str, ...]
    complete: bool
    refusal: Refusal | None
    labels_known: bool
    taints_known: bool
    unsized: tuple[str, ...] = ()
    blame: str = ""
    named: bool = True
    inferred: bool = False
    pressure: tuple[int, str] | None = None

    def unknown_capacity(self, resource: str) -> tuple[str, ...]:
        """What is missing where it is not known how much of a resource the node has."""
        size = (self.nodes[0].status.allocatable or {}).get(resource)
        known = resource not in self.unsized and size != str(UNCOUNTED)
        return () if known else capacities([resource])

    def unknown_of_node(self, reasons: Collection[str]) -> Iterator[str]:
        """What is missing of the node object where a refusal for one of these rests on it."""
        if not self.labels_known and "NodeAffinity" in reasons:
            yield LABELS
        if not self.taints_known and "TaintToleration" in reasons:
            yield TAINTS

    @property
    def inputs(self) -> tuple[int, ...]:
        """Records it rests on, without those of other pods."""
        return (self.interval.add_seq or 0, self.spec_seq, *self.node_inputs)

    @property
    def is_cut(self) -> bool:
        """Whether so much is doubtful that :meth:`outcomes` does not try all worlds."""
        readings = prod(1 + len(other.readings) for other in self.others)
        return self._doubtful > _DOUBTS_MAX or readings > _READINGS_MAX

    @property
    def _doubtful(self) -> int:
        return sum(other.doubtful for other in self.others)

    def worlds(self) -> Iterator[tuple[Node, tuple[CountedPod, ...]]]:
        return ((node, pods) for pods in self._subsets() for node in self.nodes)

    def outcomes(self) -> Iterator[Choices]:
        """What the kubelet may do, world by world; never empty."""
        return map(self._choices, self._subsets())

    def extremes(self) -> Iterator[Choices]:
        """The same with all pods that may have counted, and with only those that must have."""
        for others in self._readings():
            yield self._choices(others)
            if any(other.doubtful for other in others):
                yield self._choices(tuple(other for other in others if not other.doubtful))

    def outcome_in(self, node: Node, others: tuple[CountedPod, ...]) -> AdmissionOutcome:
        """What the kubelet does on that node, with these pods; first order of what is short."""
        return next(self._in_world(node, others, ()))

    def _subsets(self) -> Iterator[tuple[CountedPod, ...]]:
        for others in self._readings():
            yield others
            doubtful = [index for index, other in enumerate(others) if other.doubtful]
            some = self._doubtful > _DOUBTS_MAX
            sizes = (1, len(doubtful)) if some else range(1, len(doubtful) + 1)
            for size in sizes:
                for absent in combinations(doubtful, size):
                    yield tuple(o for index, o in enumerate(others) if index not in absent)

    def _readings(self) -> Iterator[tuple[CountedPod, ...]]:
        """The others, by each reading of those that were resized."""
        return islice(product(*(other.read() for other in self.others)), _READINGS_MAX)

    def _choices(self, pods: tuple[CountedPod, ...]) -> Choices:
        present = {other.name for other in pods}
        absent = [other.name for other in self.others if other.name not in present]
        assumes = tuple(f"until when pod {name} counted" for name in absent)
        assumes += tuple(other.assumes for other in pods if other.assumes)
        found = (self._in_world(node, pods, assumes) for node in self.nodes)
        return tuple(chain.from_iterable(found))

    @property
    def unknown_inputs(self) -> tuple[str, ...]:
        """Other pods that may have counted and of which too little is known, as missing inputs."""
        unread = tuple(f"the spec of pod {name}" for name in self.unread)
        return unread if self.complete else (*unread, OTHER_PODS)

    def _in_world(
        self, node: Node, others: tuple[CountedPod, ...], assumes: tuple[str, ...]
    ) -> Iterator[AdmissionOutcome]:
        """All that the random order of scalar resources can give in one world."""
        pods = tuple(other.pod for other in others)
        counts = self.facts.resized_requests_count
        info = NodeInfo(node, tuple(map(allocated, pods)) if counts else pods, self.facts)
        reasons = general_filter(self.pod, info)
        recovery = preemption.recovery(self.pod, pods, self.facts)
        for ordered in _orders(reasons):
            insufficient = tuple(r for r in ordered if isinstance(r, InsufficientResourceError))
            result = lifecycle.decide(self.pod, info, recovery, ordered)
            yield AdmissionOutcome(result, insufficient, info, others, assumes)


def capacities(resources: Sequence[str]) -> tuple[str, ...]:
    """The node's capacity of each resource, as inputs that are missing."""
    return tuple(f"the node's capacity of {resource}" for resource in resources)


def _orders(reasons: list[PredicateFailureReason]) -> Iterator[list[PredicateFailureReason]]:
    """Each scalar resource may come first: their order is that of a Go map."""
    random = lifecycle.insufficient_scalars(reasons)
    yield reasons
    for index in random[1:]:
        first = [reasons[index], *(reasons[i] for i in random if i != index)]
        yield [*reasons[: random.start], *first, *reasons[random.stop :]]
