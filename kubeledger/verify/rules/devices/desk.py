"""What the parts of this rule share: the device manager as it was, piece by piece."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from kubeledger.lifecycle.presence import key_of
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.profile.devices import DeviceFacts
from kubeledger.topologymanager.bitmask import BITS_MAX
from kubeledger.verify.bench import Bench
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.devices.foresight import Foresight, Holder, when_of
from kubeledger.verify.rules.devices.holdings import Holdings
from kubeledger.verify.rules.devices.lists import When
from kubeledger.verify.rules.devices.specs import PodAsks, asks_of
from kubeledger.verify.rules.devices.worlds import Evidence

__all__ = ["Affinity", "Asked", "Desk", "SetUp"]

_KEPT_MAX = 256


class Asked(NamedTuple):
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
        asked: the logged request.
        seqs: (n,) records it rests on.
    """

    evidence: Evidence | None = None
    missing: tuple[str, ...] = ()
    asks: PodAsks | None = None
    limit: int | None = None
    asked: Asked | None = None
    seqs: tuple[int, ...] = ()


class Desk:
    """The device manager's memory as evidence shows it.

    Attributes:
        requests: seq -> request, the newest ones.
        log_began_ns: when the log began within a kubelet process; 0 when it holds its start.
        affinities: pod -> container (``""`` for the pod as a whole) -> stored affinity.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.foresight = Foresight(bench)
        self.holdings = Holdings()
        self.log_began_ns = 0
        self.requests: OrderedDict[int, Asked] = OrderedDict()
        self.affinities: OrderedDict[str, dict[str, Affinity]] = OrderedDict()
        self._asks: OrderedDict[str, tuple[ListedPod, PodAsks | None]] = OrderedDict()

    def key(
        self, state: NodeState, uid: str | None, namespace: str | None, name: str | None
    ) -> str:
        """The pod a record is about: its UID where any source tells."""
        found = uid or key_of(state.lifecycle, None, namespace, name)
        return found or f"{namespace}/{name}"

    def pod(self, record: Record) -> ListedPod | None:
        """The pod of a record, as a list shows it."""
        body = record.body
        names = (getattr(body, name, None) for name in ("pod_uid", "namespace", "pod"))
        return self.bench.pods.at(record.ts_ns, *names)

    def misnamed(self, record: Record) -> dict[str, str] | None:
        """The name that the pod of this UID has in the pod list, where a record has another."""
        listed, body = self.pod(record), record.body
        uid, name = getattr(body, "pod_uid", None), getattr(body, "pod", None)
        if listed is None or None in (uid, name) or listed.uid != uid:
            return None
        if (getattr(body, "namespace", None), name) == (listed.namespace, listed.name):
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
        return f"{pod.namespace}/{pod.name}" if pod is not None and pod.name else self.name_of(key)

    def name_of(self, key: str) -> str:
        """The same, of pods that lists show."""
        listed = self.bench.pods.at(0, key)
        return f"{listed.namespace}/{listed.name}" if listed is not None else key

    def ask(self, record: Record, holder: Holder, needed: int) -> None:
        """A request was logged."""
        self.requests[record.seq] = Asked(record.seq, holder, needed)
        if len(self.requests) > _KEPT_MAX:
            self.requests.popitem(last=False)

    def request_of(self, holder: Holder) -> Asked | None:
        """The newest request of a container that is not answered."""
        asked = reversed(self.requests.values())
        return next((request for request in asked if request.holder == holder), None)

    def store(self, pod: str, container: str, affinity: Affinity) -> None:
        """The topology manager stored an affinity."""
        self.affinities.setdefault(pod, {})[container] = affinity
        self.affinities.move_to_end(pod)
        if len(self.affinities) > _KEPT_MAX:
            self.affinities.popitem(last=False)

    def numa_nodes(self, state: NodeState) -> tuple[int, ...] | None:
        """NUMA nodes of the machine as an observation tells them; None when none does."""
        return _possible(state.machine.numa_nodes or self.foresight.numa_nodes)

    def set_up(
        self,
        state: NodeState,
        when: When,
        holder: Holder,
        listed_pod: ListedPod | None,
        asked: Asked | None,
    ) -> SetUp:
        """All that is known just before a container gets, or is refused, devices."""
        bench = self.bench
        asks = self.asks(listed_pod, holder[0])
        asker = asks.of(holder[1]) if asks is not None else None
        limit = asker.limits.get(holder[2], 0) if asker is not None else None
        required = limit if limit is not None else (asked.needed if asked else None)
        missing = [bench.missing_profile] if bench.profile is None else []
        if required is None:
            missing.append("a readable spec of the pod" if listed_pod else "the pod's spec")
        seqs = tuple(each.seq for each in (asks, asked) if each is not None)
        known = SetUp(None, (), asks, limit, asked, seqs)
        if bench.profile is None or required is None:
            return known._replace(missing=tuple(missing))
        facts = bench.profile.devices
        reuse = self._reuse(holder, asks, facts)
        if reuse is None:
            of_init = "the pod's spec" if asks is None else "the devices of its init containers"
            return known._replace(missing=(of_init,))
        masks, affinity_seqs = self._affinity(holder)
        held, listed = self.holdings.get(holder), self.foresight.lists.at(holder[2], when)
        in_use = self.holdings.in_use(holder, lambda pod: self._lives(state, when, pod))
        nodes = self.numa_nodes(state) or _possible(self.foresight.voted())
        evidence = Evidence(
            holder=holder,
            required=required,
            held=held.devices if held is not None and held.certain else None,
            reuse=reuse,
            listed=listed,
            in_use=in_use,
            nodes_of=lambda device: self._nodes_of(holder[2], device, facts),
            name_of=self.name_of,
            affinities=masks,
            numa_nodes=nodes or (),
            facts=facts,
            surely=lambda other: self._surely_holds(other, holder[0], when),
            seqs=(*seqs, *affinity_seqs, *listed.seqs, *in_use.seqs),
        )
        return known._replace(evidence=evidence, seqs=evidence.seqs)

    def _lives(self, state: NodeState, when: When, pod: str) -> bool:
        """Whether a pod certainly still holds what it was granted, by what is told."""
        if self.foresight.lists.tells_requests(when):
            return True  # that it was let go of would be told
        known = state.lifecycle.pods.get(pod)
        return known is not None and not known.ended and not known.removed and not known.deleting

    def _affinity(self, holder: Holder) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
        """Masks that may be stored for a container (none: not known), and records that tell."""
        settings = self.bench.settings
        if settings.get("topologyManagerPolicy") == "none":
            return (None,), () if settings.seq is None else (settings.seq,)
        of_pod = self.affinities.get(holder[0], {})
        stored = of_pod.get(holder[1]) or of_pod.get("")
        if stored is None:
            return (), ()
        masks = (None,) if holder[2] in stored.without_topology else stored.masks
        return masks, (stored.seq,)

    def _nodes_of(
        self, resource: str, device: str, facts: DeviceFacts
    ) -> tuple[bool, tuple[int, ...] | None]:
        nodes = self.foresight.nodes_of(resource, device)
        if nodes is None or (facts.no_topology_is_minus_one and nodes == (-1,)):
            return nodes is not None, None
        return True, nodes

    def _reuse(
        self, holder: Holder, asks: PodAsks | None, facts: DeviceFacts
    ) -> frozenset[str] | None:
        """Devices that init containers of the pod are done with; None when that is not known."""
        pod, container, resource = holder
        if asks is None or asks.of(container) is None:
            others = (o for o in self.holdings.of_pod(pod) if o[2] == resource and o != holder)
            return None if any(others) else frozenset()
        reuse: frozenset[str] = frozenset()
        for asker in asks.askers:
            if asker.name == container:
                break
            held = self.holdings.get((pod, asker.name, resource))
            if held is None and asker.is_init and asker.limits.get(resource, 0) > 0:
                return None  # it got its devices before, and the line is not there
            if held is None:
                continue
            if held.devices is None or not held.certain:
                return None
            keeps = asker.is_restartable and facts.restartable_init_keeps_devices
            reuse = reuse | held.devices if asker.is_init and not keeps else reuse - held.devices
        return reuse

    def _surely_holds(self, holder: Holder, asking: str, when: When) -> bool:
        """Whether a container holds its devices, whatever lines were lost."""
        held = self.holdings.get(holder)
        if held is None or held.disputed or not held.certain:
            return False
        return holder[0] == asking or self.foresight.surely_holds(holder, held.devices, when)

    def of_record(self, record: Record, holder: Holder, state: NodeState) -> SetUp:
        """The same for a grant or a refusal; its request is what caused it, or the newest."""
        caused = self.requests.get(record.cause or 0)
        is_its = caused is not None and caused.holder == holder
        asked = caused if is_its else self.request_of(holder)
        return self.set_up(state, when_of(record), holder, self.pod(record), asked)

    def wrong_asker(
        self, record: Record, holder: Holder, set_up: SetUp
    ) -> tuple[str, dict[str, str | None] | None] | None:
        """Why the record cannot be about this container, and the fields that had to stand there.

        Another one asked; the pod has another name; the container has no limit; the log tells
        of another number than the spec. None: it can.
        """
        caused, (_, container, resource) = self.requests.get(record.cause or 0), holder
        if caused is not None and caused.holder != holder:
            pod, asking, asked = caused.holder
            why = f"container {asking} of pod {pod} asked for {asked}, and nobody else just then"
            return why, {"pod_uid": pod, "container": asking, "resource": asked}
        if (named := self.misnamed(record)) is not None:
            why = f"pod {holder[0]} is {named['namespace']}/{named['pod']} in the pod list"
            return why, dict(named)
        if set_up.asks is not None and not set_up.limit:
            none = f"container {container} has no limit on {resource}"
            if set_up.asks.of(container) is None:
                none = f"the pod has no container {container}"
            return f"{none}, so nothing is allocated to it, or refused", None
        asked_for, limit = set_up.asked, set_up.limit
        if asked_for is not None and limit is not None and asked_for.needed != limit:
            log = f"the log says that container {container} needs {asked_for.needed} {resource}"
            return f"{log}, its spec has a limit of {limit}", None
        return None


def _possible(nodes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """NUMA nodes, if each can be one: a recording may hold any number."""
    return nodes if nodes and all(0 <= node < BITS_MAX for node in nodes) else None
