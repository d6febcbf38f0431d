"""What hint providers offer and what the topology manager stores, as the variant would have it.

The rules of the providers and that of the topology manager tell each other so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from kubeledger.kubelet.topologymanager.hint import Hints, TopologyHint
from kubeledger.model.bodies.topologymanager import HintsGenerated
from kubeledger.model.record import Record
from kubeledger.verify.evidence.hints import masks_of

_KEPT_MAX: Final = 64


class Offer(NamedTuple):
    """Hints that were generated for a pod or container.

    Attributes:
        record: that shows them.
        pod: its key.
        body: of the record.
        hints: what is merged, resource -> hints.
        missing: providers whose hints are not known, as noun phrases.
    """

    record: Record
    pod: str
    body: HintsGenerated
    hints: Mapping[str, Hints | None]
    missing: tuple[str, ...] = ()


class Affinity(NamedTuple):
    """What the topology manager stored for a container.

    Attributes:
        seq: of the decision.
        hints: (n,) that it may have stored; more than one where sources differ.
        without_topology: resources that had no hints: their devices have no NUMA nodes.
    """

    seq: int
    hints: tuple[TopologyHint, ...]
    without_topology: frozenset[str]


class Alignment:
    """Newest offers, and affinities, of the kubelet process that runs."""

    def __init__(self) -> None:
        self._offers: OrderedDict[int, Offer] = OrderedDict()
        self._stored: dict[str, dict[str, Affinity]] = {}

    def restarted(self) -> None:
        """A new process knows none."""
        self._offers.clear()
        self._stored.clear()

    def offer(self, record: Record, pod: str, body: HintsGenerated) -> Offer:
        """Hints of a record, which several rules see: as recorded, until one replaces them."""
        found = self._offers.get(record.seq)
        if found is None:
            found = self._offers[record.seq] = Offer(record, pod, body, masks_of(body.hints))
            if len(self._offers) > _KEPT_MAX:
                self._offers.popitem(last=False)
        return found

    def replace(self, offer: Offer) -> None:
        """A provider would have offered something else."""
        self._offers[offer.record.seq] = offer

    def offered(self, seq: int | None) -> Offer | None:
        """The offer of a record."""
        return None if seq is None else self._offers.get(seq)

    def store(self, pod: str, container: str | None, affinity: Affinity) -> None:
        """The topology manager stored an affinity; without a container that of the pod."""
        self._stored.setdefault(pod, {})[container or ""] = affinity

    def stored(self, pod: str, container: str) -> Affinity | None:
        of_pod = self._stored.get(pod, {})
        return of_pod.get(container) or of_pod.get("")
