"""What the parts of this verifier share: the device manager as it was, piece by piece."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from kubeledger.lifecycle.presence import key_of
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.profile.devices import DeviceFacts
from kubeledger.topologymanager.bitmask import BITS_MAX
from kubeledger.verify.bench import Bench
from kubeledger.verify.devices.foresight import Foresight, Holder, When
from kubeledger.verify.devices.holdings import Holdings
from kubeledger.verify.devices.specs import PodAsks, asks_of
from kubeledger.verify.devices.worlds import Evidence, Nodes
from kubeledger.verify.pods import ListedPod

__all__ = ["Affinity", "Desk", "Request", "SetUp", "when_of"]

_KEPT_MAX = 256


class Request(NamedTuple):
    """A logged request for devices that nothing has answered yet."""

    seq: int
    holder: Holder
    needed: int


class Affinity(NamedTuple):
    """What the topology manager stored for a container.

    Attributes:
        seq: of the decision.
        masks: (n,) masks that it may have stored, None for any; more than one if disputed.
        without_topology: resources that had no hints: their devices have no NUMA nodes.
    """

    seq: int
    masks: tuple[int | None, ...]
    without_topology: frozenset[str]


class SetUp(NamedTuple):
    """The inputs of a request, or what is missing of them.

    Attributes:
        evidence: None when an input is missing.
        missing: (n,) noun phrases.
        asks: the pod's containers; None when no list shows the pod.
        limit: devices by the spec; None when it does not tell.
        request: the logged request.
        seqs: (n,) records it rests on.
    """

    evidence: Evidence | None
    missing: tuple[str, ...]
    asks: PodAsks | None
    limit: int | None
    request: Request | None
    seqs: tuple[int, ...]


def when_of(record: Record) -> When:
    """Place of a record in the order of replay."""
    return (record.ts_ns, record.seq)


class Desk:
    """The device manager's memory as evidence shows it.

    Attributes:
        requests: seq -> request, the newest ones.
        log_began_ns: when the log began within a kubelet process; 0 when it holds its start.
        affinities: pod -> container (``""`` for the pod as a whole) -> stored affinity.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.foresight = Foresight()
        self.holdings = Holdings()
        self.log_began_ns = 0
        self.requests: OrderedDict[int, Request] = OrderedDict()
        self.affinities: OrderedDict[str, dict[str, Affinity]] = OrderedDict()
        self._asks: OrderedDict[str, tuple[ListedPod, PodAsks | None]] = OrderedDict()

    def key(
        self, state: NodeState, uid: str | None, namespace: str | None, name: str | None
    ) -> str:
        """The pod a record is about: its UID where any source tells."""
        if uid:
            return uid
        return key_of(state.lifecycle, None, namespace, name) or f"{namespace}/{name}"

    def pod(
        self, when: When, uid: str | None, namespace: str | None, name: str | None
    ) -> ListedPod | None:
        """The pod object, as a list shows it."""
        return self.bench.pods.at(when[0], uid, namespace, name)

    def misnamed(
        self, listed: ListedPod | None, uid: str | None, namespace: str | None, name: str | None
    ) -> dict[str, str] | None:
        """The name that the pod of this UID has in the pod list, where a record has another."""
        if listed is None or uid is None or listed.uid != uid or name is None:
            return None
        if (namespace, name) == (listed.namespace, listed.name):
            return None
        return {"namespace": listed.namespace, "pod": listed.name}

    def asks(self, listed: ListedPod | None, key: str) -> PodAsks | None:
        """What a listed pod asks for; None if it cannot be read, or is not listed."""
        if listed is None:
            return None
        kept = self._asks.get(key)
        if kept is None or kept[0] is not listed:
            kept = self._asks[key] = (listed, asks_of(listed))
            if len(self._asks) > _KEPT_MAX:
                self._asks.popitem(last=False)
        return kept[1]

    def name(self, state: NodeState, key: str) -> str:
        """``namespace/name`` of a pod, or its UID when no source names it."""
        pod = state.lifecycle.pods.get(key)
        if pod is not None and pod.name:
            return f"{pod.namespace}/{pod.name}"
        return self.name_of(key)

    def name_of(self, key: str) -> str:
        """The same, of pods that lists show."""
        listed = self.bench.pods.at(0, key)
        return f"{listed.namespace}/{listed.name}" if listed is not None else key

    def lives(self, state: NodeState, when: When, pod: str) -> bool:
        """Whether a pod certainly still holds what it was granted."""
        if self.foresight.lists.tells_requests(when):
            return True  # that it was let go of would be told
        known = state.lifecycle.pods.get(pod)
        return known is not None and not known.ended and not known.removed and not known.deleting

    def ask(self, record: Record, holder: Holder, needed: int) -> None:
        """A request was logged."""
        self.requests[record.seq] = Request(record.seq, holder, needed)
        if len(self.requests) > _KEPT_MAX:
            self.requests.popitem(last=False)

    def request_of(self, holder: Holder) -> Request | None:
        """The newest request of a container that is not answered."""
        for request in reversed(self.requests.values()):
            if request.holder == holder:
                return request
        return None

    def store(self, pod: str, container: str, affinity: Affinity) -> None:
        """The topology manager stored an affinity."""
        self.affinities.setdefault(pod, {})[container] = affinity
        self.affinities.move_to_end(pod)
        if len(self.affinities) > _KEPT_MAX:
            self.affinities.popitem(last=False)

    def affinity(self, holder: Holder) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
        """Masks that may be stored for a container (none: not known), and records that tell."""
        bench = self.bench
        policy = bench.settings.get("topologyManagerPolicy")
        settings = () if bench.settings.seq is None else (bench.settings.seq,)
        if policy == "none":
            return (None,), settings
        of_pod = self.affinities.get(holder[0], {})
        stored = of_pod.get(holder[1]) or of_pod.get("")
        if stored is None:
            return (), ()
        if holder[2] in stored.without_topology:
            return (None,), (stored.seq,)
        return stored.masks, (stored.seq,)

    def numa_nodes(self, state: NodeState) -> tuple[int, ...] | None:
        """NUMA nodes of the machine; None when no source tells, nor do decisions."""
        return self.told_nodes(state) or _bits(self.foresight.voted())

    def told_nodes(self, state: NodeState) -> tuple[int, ...] | None:
        """NUMA nodes of the machine as an observation tells them."""
        return _bits(state.machine.numa_nodes or self.foresight.numa_nodes)

    def nodes_of(self, resource: str, device: str, facts: DeviceFacts) -> tuple[bool, Nodes]:
        """Whether a device's NUMA nodes are known, and which; see ``worlds.NodesOf``."""
        nodes = self.foresight.nodes_of(resource, device)
        if nodes is None:
            return False, None
        if facts.no_topology_is_minus_one and nodes == (-1,):
            return True, None
        return True, nodes

    def reuse(
        self, pod: str, container: str, resource: str, asks: PodAsks | None, facts: DeviceFacts
    ) -> frozenset[str] | None:
        """Devices that init containers of the pod are done with; None when that is not known."""
        others = [
            holder
            for holder in self.holdings.of_pod(pod)
            if holder[2] == resource and holder[1] != container
        ]
        if asks is None or asks.of(container) is None:
            return None if others else frozenset()
        reuse: set[str] = set()
        for asker in asks.askers:
            if asker.name == container:
                return frozenset(reuse)
            held = self.holdings.get((pod, asker.name, resource))
            if held is None and asker.is_init and asker.limits.get(resource, 0) > 0:
                return None  # it got its devices before, and the line is not there
            if held is None:
                continue
            if held.devices is None or not held.certain:
                return None
            keeps = asker.is_restartable and facts.restartable_init_keeps_devices
            if asker.is_init and not keeps:
                reuse |= held.devices
            else:
                reuse -= held.devices
        return None

    def set_up(
        self,
        state: NodeState,
        when: When,
        holder: Holder,
        listed_pod: ListedPod | None,
        request: Request | None,
    ) -> SetUp:
        """All that is known just before a container gets, or is refused, devices."""
        bench, resource = self.bench, holder[2]
        asks = self.asks(listed_pod, holder[0])
        asker = asks.of(holder[1]) if asks is not None else None
        limit = asker.limits.get(resource, 0) if asker is not None else None
        required = limit if limit is not None else (request.needed if request else None)
        missing: list[str] = []
        if bench.profile is None:
            missing.append(bench.missing_profile)
        if required is None:
            missing.append("a readable spec of the pod" if listed_pod else "the pod's spec")
        facts = bench.profile.devices if bench.profile is not None else None
        reuse = None
        if facts is not None and required is not None:
            reuse = self.reuse(holder[0], holder[1], resource, asks, facts)
            if reuse is None:
                missing.append(
                    "the pod's spec" if asks is None else "the devices of its init containers"
                )
        seqs = [asks.seq] if asks is not None else []
        if request is not None:
            seqs.append(request.seq)
        if missing or facts is None or required is None or reuse is None:
            return SetUp(None, tuple(missing), asks, limit, request, tuple(seqs))
        masks, affinity_seqs = self.affinity(holder)
        held = self.holdings.get(holder)
        known = self.foresight.lists.at(resource, when)
        in_use = self.holdings.in_use(holder, lambda pod: self.lives(state, when, pod))
        evidence = Evidence(
            pod=holder[0],
            container=holder[1],
            resource=resource,
            required=required,
            held=held.devices if held is not None and held.certain else None,
            reuse=reuse,
            listed=known,
            in_use=in_use,
            nodes_of=lambda device: self.nodes_of(resource, device, facts),
            name_of=self.name_of,
            affinities=masks,
            numa_nodes=self.numa_nodes(state) or (),
            facts=facts,
            surely=lambda other: self._surely_holds(other, holder[0], when),
        )
        return SetUp(
            evidence,
            (),
            asks,
            limit,
            request,
            (*seqs, *affinity_seqs, *known.seqs, *in_use.seqs),
        )

    def _surely_holds(self, holder: Holder, asking: str, when: When) -> bool:
        """Whether a container holds its devices, whatever lines were lost."""
        held = self.holdings.get(holder)
        if held is None or held.disputed:
            return False
        return holder[0] == asking or self.foresight.surely_holds(holder, held.devices, when)


def _bits(nodes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """NUMA nodes, if each can be one: a recording may hold any number."""
    return nodes if nodes and all(0 <= node < BITS_MAX for node in nodes) else None
