"""One admission as a question to the deciders: pod, node, the pods that counted, and the doubts.

Where the records leave something open (a pod whose containers were just going down, pods of
one age in one turn), the question has several *worlds*. The first is the likeliest: what is
recorded *matches* when it is what that world gives, and is *admissible* when another gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import msgspec

from kubeledger.kube.pod import Node, Pod
from kubeledger.lifecycle import decider as lifecycle
from kubeledger.lifecycle.decider import PodAdmitResult
from kubeledger.lifecycle.nodeinfo import NodeInfo
from kubeledger.lifecycle.predicates import PredicateFailureReason, general_filter
from kubeledger.lifecycle.resourcefit import InsufficientResourceError
from kubeledger.preemption import decider as preemption
from kubeledger.preemption.records import InsufficientResource
from kubeledger.preemption.requirements import Requirements
from kubeledger.profile.admission import AdmissionFacts
from kubeledger.verify.admission.offers import Offer

__all__ = ["UNCOUNTED", "UNSIZED", "Answer", "Other", "Question", "capacities"]

UNCOUNTED: Final = 1 << 30
"""Stands on a node for devices whose number is not known: there are as many as it takes."""

UNSIZED: Final = 1 << 60
"""The same for resources of the machine whose capacity is not known."""

_DOUBTS_MAX: Final = 8
"""Of so many doubtful pods all combinations are tried; of more, none, all, and all but one."""


class Other(msgspec.Struct, frozen=True):
    """A pod that counted.

    Attributes:
        name: ``namespace/name``.
        seq: record that shows its spec.
        doubtful: it may also not have counted.
        extended: extended resources that it asks for.
        lives: it is shown alive later.
    """

    name: str
    pod: Pod
    seq: int
    doubtful: bool
    extended: tuple[str, ...] = ()
    lives: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What the kubelet does in one world.

    Attributes:
        result: of admission, with victims.
        insufficient: what is missing, in the order of the fit check.
        requirements: the same as preemption gets it.
        first: position 0 of the world among all.
        info: the node of that world with the pods that count in it; ``pods`` are these.
    """

    result: PodAdmitResult
    insufficient: tuple[InsufficientResourceError, ...]
    requirements: Requirements
    first: bool
    info: NodeInfo
    pods: tuple[Other, ...]

    @property
    def specs(self) -> tuple[int, ...]:
        """Records that show the pods which take of what is missing; of all where nothing is."""
        missing = {i.resource_name for i in self.insufficient}
        return tuple(
            other.seq
            for other in self.pods
            if not missing or "pods" in missing or not missing.isdisjoint(_requested(other.pod))
        )


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One admission.

    Attributes:
        offer: the pod as it was handed over.
        pod: its object; ``spec_seq`` the record that shows it.
        facts: rules of the version; ``version`` as people write it.
        nodes: the node, the likeliest first.
        node_inputs: records that tell of the node and the settings.
        others: (n,) pods that counted, in the order of their admission.
        unread: names of pods that counted but whose specs are not known.
        whole: the log shows this kubelet from its start, so no other pods counted.
        labels_known, taints_known: the node's labels and taints are known.
        unsized: (n,) resources it asks for of which the node's capacity is not known.
        named: the node's name is told.
        inferred: the machine's size is not told, but follows from what is.
        pressure: record and words that show that the eviction manager let in critical pods
            only; None when nothing does.
    """

    offer: Offer
    pod: Pod
    spec_seq: int
    facts: AdmissionFacts
    version: str
    nodes: tuple[Node, ...]
    node_inputs: tuple[int, ...]
    others: tuple[Other, ...]
    unread: tuple[str, ...]
    whole: bool
    labels_known: bool
    taints_known: bool
    unsized: tuple[str, ...] = ()
    named: bool = True
    inferred: bool = False
    pressure: tuple[int, str] | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        """Records it rests on, without those of other pods."""
        return (self.offer.seq, self.spec_seq, *self.node_inputs)

    def answers(self) -> Iterator[Answer]:
        """What the kubelet does, world by world; never empty.

        Raises:
            BadInputError: a quantity of a pod is none.
        """
        first = True
        for pods in self._casts():
            for node in self.nodes:
                for answer in self._in_world(node, pods, first=first):
                    yield answer
                    first = False

    def worlds(self) -> Iterator[tuple[Node, tuple[Other, ...]]]:
        """The node and the pods that count, in each world."""
        return ((node, pods) for pods in self._casts() for node in self.nodes)

    def answer_in(self, node: Node, others: tuple[Other, ...]) -> Answer:
        """What the kubelet does on that node, with these pods; first order of what is short.

        Raises:
            BadInputError: a quantity of a pod is none.
        """
        return next(self._in_world(node, others))

    @property
    def open_worlds(self) -> bool:
        """Whether so many pods are doubtful that not all worlds are tried."""
        return sum(other.doubtful for other in self.others) > _DOUBTS_MAX

    def _casts(self) -> Iterator[tuple[Other, ...]]:
        """The pods that count, in each world."""
        yield self.others
        doubtful = [index for index, other in enumerate(self.others) if other.doubtful]
        many = len(doubtful) > _DOUBTS_MAX
        for size in (1, len(doubtful)) if many else range(1, len(doubtful) + 1):
            for absent in combinations(doubtful, size):
                yield tuple(o for index, o in enumerate(self.others) if index not in absent)

    def _in_world(
        self, node: Node, others: tuple[Other, ...], *, first: bool = False
    ) -> Iterator[Answer]:
        """All that the random order of scalar resources can give in one world."""
        pods = tuple(other.pod for other in others)
        info = NodeInfo(node, pods, self.facts)
        reasons = general_filter(self.pod, info, self.facts)
        for ordered in _orders(reasons):
            insufficient = tuple(r for r in ordered if isinstance(r, InsufficientResourceError))
            result = lifecycle.decide(self.pod, info, self.facts, self._recovery(pods), ordered)
            yield Answer(result, insufficient, _missing(insufficient), first, info, others)
            first = False

    def _recovery(self, pods: Sequence[Pod]) -> lifecycle.Recovery | None:
        if not preemption.may_preempt(self.pod):
            return None

        def recover(
            insufficient: Sequence[InsufficientResourceError],
        ) -> tuple[tuple[str, ...], str]:
            outcome = preemption.decide(self.pod, pods, _missing(insufficient), self.facts)
            return outcome.victims, outcome.error

        return recover


def capacities(resources: Sequence[str]) -> tuple[str, ...]:
    """The node's capacity of each resource, as inputs that are missing."""
    return tuple(f"the node's capacity of {resource}" for resource in resources)


def _orders(
    reasons: list[PredicateFailureReason],
) -> Iterator[list[PredicateFailureReason]]:
    """Each scalar resource may come first: their order is that of a Go map."""
    random = lifecycle.insufficient_scalars(reasons)
    yield reasons
    for index in random[1:]:
        first = [reasons[index], *(reasons[i] for i in random if i != index)]
        yield [*reasons[: random.start], *first, *reasons[random.stop :]]


def _requested(pod: Pod) -> Iterator[str]:
    """Resources that a pod takes, in whatever way it asks for them."""
    spec = pod.spec
    yield from spec.overhead or ()
    parts = [c.resources for c in (*(spec.containers or ()), *(spec.init_containers or ()))]
    for part in (spec.resources, *parts):
        if part is not None:
            yield from part.requests or ()


def _missing(insufficient: Sequence[InsufficientResourceError]) -> Requirements:
    return tuple(
        InsufficientResource(resource=i.resource_name, quantity=i.insufficient_amount)
        for i in insufficient
    )
