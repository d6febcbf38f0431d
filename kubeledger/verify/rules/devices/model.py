"""What the parts of this rule share: the device manager as it was, piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kubeledger.kubelet.lifecycle.state import key_of
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.topologymanager.policy import BITS_MAX, bits_of
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, lacks, recorded, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_objects import Spec, specs_in
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.rules.activity import misnamed
from kubeledger.verify.rules.devices.evidence import Evidence, Holdings
from kubeledger.verify.rules.devices.first_pass import FirstPass, Holder, when_of
from kubeledger.verify.rules.devices.lists import When

_LISTED_MAX = 16
_SHOWN_MAX = 8


def listing(ids: Collection[str]) -> str:
    """IDs in order; a long list is cut."""
    ordered = sorted(ids)
    more = f" and {len(ordered) - _LISTED_MAX} more" if len(ordered) > _LISTED_MAX else ""
    return f"{', '.join(ordered[:_LISTED_MAX])}{more}" if ordered else "none"


def joined(parts: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = [*parts] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def times(count: int, noun: str) -> str:
    """``1 device``, ``2 devices``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nodes_text(mask: int | None) -> str:
    """``NUMA node 0``, ``NUMA nodes 0 and 1``, ``any NUMA node``."""
    if mask is None:
        return "any NUMA node"
    nodes = [str(node) for node in bits_of(mask)]
    return f"NUMA node{'s' if len(nodes) != 1 else ''} {joined(nodes) or 'none'}"


def surroundings(evidence: Evidence) -> str:
    """Which devices were there, which were free, and who held the others."""
    listed, in_use = evidence.listed, evidence.in_use
    free = evidence.free if evidence.is_exact() else evidence.perhaps_free
    perhaps = "" if evidence.is_exact() else "perhaps "
    parts = [f"{times(len(free), f'{perhaps}free healthy device')}: {listing(free)}"]
    by_holder: dict[str, list[str]] = {}
    for device in sorted(in_use.certain | in_use.maybe):
        holders = in_use.holders[device]
        names = joined(f"{evidence.name_of(pod)}/{container}" for pod, container, _ in holders)
        held = "held" if device in in_use.certain else "perhaps held"
        by_holder.setdefault(f"{held} by {names}", []).append(device)
    for held_by, ids in list(by_holder.items())[:_SHOWN_MAX]:
        parts.append(f"{listing(ids)} {held_by}")
    if listed.complete and (sick := listed.known - listed.maybe):
        parts.append(f"{listing(sick)} not healthy")
    return "; ".join(parts)


def taken(evidence: Evidence, devices: frozenset[str]) -> str:
    """``gpu-1 was taken out of the 3 free healthy devices gpu-1, gpu-2, gpu-3; ...``."""
    reused, free = devices & evidence.reuse, evidence.perhaps_free
    fresh = devices - reused
    out_of = f"the {times(len(free), 'free healthy device')} {listing(free)}"
    clauses = [f"{_were(reused)} taken over from an init container of the pod"] if reused else []
    clauses += [f"{_were(fresh)} taken out of {out_of}"] if fresh else []
    _, container, resource = evidence.holder
    asks = f"container {container} asks for {evidence.required} {resource}"
    parts = [f"{asks}: {' and '.join(clauses)}", *surroundings(evidence).split("; ")[1:]]
    if fresh and len(set(evidence.affinities)) == 1 and (mask := evidence.affinities[0]):
        wanted = set(bits_of(mask))
        on_it = [d for d in free if wanted.intersection(evidence.nodes_of(d)[1] or ())]
        are = "is" if len(on_it) == 1 else "are"
        aligned = f"the container is aligned to {nodes_text(mask)}"
        parts.append(f"{aligned}, where {listing(on_it)} {are}")
    return "; ".join(parts)


def _were(devices: Collection[str]) -> str:
    return f"{joined(sorted(devices))} {'was' if len(devices) == 1 else 'were'}"


class Asked(NamedTuple):
    """A logged request for devices that nothing has answered yet."""

    seq: int
    holder: Holder
    needed: int


class DeviceTable(RuleVerifier):
    """The device manager's memory as evidence shows it.

    Attributes:
        requests: seq -> request, the newest ones.
        log_began_ns: when the log began within a kubelet process; 0 when it holds its start.
    """

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self.first_pass = FirstPass(context)
        self.holdings = Holdings()
        self.log_began_ns = 0
        self.requests: dict[int, Asked] = {}

    def key(self, record: Record, state: NodeState) -> str:
        """The pod a record is about: its UID where any source says."""
        fields = ("pod_uid", "namespace", "pod")
        uid, namespace, name = (getattr(record.body, field, None) for field in fields)
        return key_of(state.lifecycle, uid, namespace, name) or f"{namespace}/{name}"

    def subject(self, record: Record, key: str, container: str | None) -> str:
        namespace, pod = (getattr(record.body, name, None) for name in ("namespace", "pod"))
        name = f"{namespace}/{pod}" if pod else self.name_of(key)
        return f"container/{name}/{container}" if container else f"pod/{name}"

    def give(self, record: Record, of: str, found: Judgement, names: Collection[str]) -> None:
        """Give the finding, which is about these fields unless nothing is decided."""
        reported = None if found.verdict == "unverifiable" else recorded(record, names)
        self.conclude(record, of, found, recorded=reported)

    def pod(self, record: Record) -> ListedPod | None:
        """The pod of a record, as a list shows it."""
        names = (getattr(record.body, name, None) for name in ("pod_uid", "namespace", "pod"))
        return self.context.pods.at(record.ts_ns, *names)

    def specs(self, record: Record) -> list[Spec]:
        """The pod's containers, init containers first; empty where no list shows them."""
        listed = self.pod(record)
        return [] if listed is None else list(specs_in(listed))

    def name_of(self, key: str) -> str:
        """``namespace/name`` of a pod, or its UID when no source names it."""
        pod = self.context.timeline.pods.get(key)
        return f"{pod.namespace}/{pod.name}" if pod is not None and pod.name else key

    def answered(self, record: Record, holder: Holder) -> Holder:
        """A request was granted or refused; gives who asked, where the record shows another."""
        caused = self.requests.pop(record.cause or 0, None)
        asked = self._request_of(holder)
        if caused is None and asked is not None:
            del self.requests[asked.seq]
        return caused.holder if caused is not None else holder

    def _request_of(self, holder: Holder) -> Asked | None:
        """The newest request of a container that is not answered."""
        asked = reversed(self.requests.values())
        return next((request for request in asked if request.holder == holder), None)

    def numa_nodes(
        self, state: NodeState, own: tuple[int, ...] | None = None
    ) -> tuple[int, ...] | None:
        """NUMA nodes of the machine, None if unknown; a recording may hold any number.

        ``own``: the result of a merge that must not count for itself.
        """
        reported = state.machine.numa_nodes or self.first_pass.numa_nodes
        nodes = reported or self.first_pass.voted(own)
        return nodes if nodes and all(0 <= node < BITS_MAX for node in nodes) else None

    def evidence(self, record: Record, state: NodeState, holder: Holder) -> Evidence | Judgement:
        """All that is known just before a container gets, or is refused, devices.

        Or, where an input is missing without which no world is known, the judgement that it is.
        """
        context, when, resource = self.context, when_of(record), holder[2]
        specs, asked = self.specs(record), self._request_of(holder)
        spec = next((each for each in specs if each.name == holder[1]), None)
        required = asked.needed if asked is not None else None
        required = required if spec is None else spec.limit(resource)
        if context.profile is None:
            return lacks([context.missing_profile])
        if required is None:
            return lacks(["the pod's spec"])
        facts = context.profile.devices
        reuse = self._reuse(holder, specs, facts)
        if reuse is None:
            return lacks(["the devices of its init containers" if specs else "the pod's spec"])
        masks, affinity_seqs = self._affinity(holder)
        held, listed = self.holdings.get(holder), self.first_pass.lists.at(resource, when)
        in_use = self.holdings.in_use(holder, lambda pod: self._keeps(state, when, pod))
        seqs = (each.seq for each in (spec, asked) if each is not None)
        return Evidence(
            holder=holder,
            required=required,
            held=held.devices if held is not None and held.certain else None,
            reuse=reuse,
            listed=listed,
            in_use=in_use,
            nodes_of=lambda device: self._nodes_of(resource, device, facts),
            name_of=self.name_of,
            affinities=masks,
            numa_nodes=self.numa_nodes(state) or (),
            facts=facts,
            surely=lambda other: self._surely_holds(other, holder[0], when),
            seqs=(*seqs, *affinity_seqs, *listed.seqs, *in_use.seqs),
        )

    def _keeps(self, state: NodeState, when: When, pod: str) -> bool:
        """Whether a pod certainly still holds what it was granted, by what is reported."""
        if self.first_pass.lists.logs_requests(when):
            return True  # its release would be logged
        known = state.lifecycle.pods.get(pod)
        return known is not None and not known.ended and not known.removed and not known.deleting

    def _affinity(self, holder: Holder) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
        """Masks that may be stored for a container (none: not known), and records that show it."""
        settings = self.context.settings
        if settings.get("topologyManagerPolicy") == "none":
            return (None,), () if settings.seq is None else (settings.seq,)
        stored = self.context.alignment.stored(holder[0], holder[1])
        if stored is None:
            return (), ()
        masks = tuple(dict.fromkeys(hint.affinity for hint in stored.hints))
        return (None,) if holder[2] in stored.without_topology else masks, (stored.seq,)

    def _nodes_of(
        self, resource: str, device: str, facts: DeviceFacts
    ) -> tuple[bool, tuple[int, ...] | None]:
        nodes = self.first_pass.nodes_of(resource, device)
        if nodes is None or (facts.no_topology_is_minus_one and nodes == (-1,)):
            return nodes is not None, None
        return True, nodes

    def _reuse(
        self, holder: Holder, specs: list[Spec], facts: DeviceFacts
    ) -> frozenset[str] | None:
        """Devices that init containers of the pod are done with; None when that is not known."""
        pod, container, resource = holder
        if all(spec.name != container for spec in specs):
            others = (o for o in self.holdings.of_pod(pod) if o[2] == resource and o != holder)
            return None if any(others) else frozenset()
        reuse: frozenset[str] = frozenset()
        for spec in specs:
            if spec.name == container:
                break
            held = self.holdings.get((pod, spec.name, resource))
            if held is None and spec.is_init and spec.limit(resource) > 0:
                return None  # it got its devices before, and the line is not there
            if held is None:
                continue
            if held.devices is None or not held.certain:
                return None
            keeps = spec.is_sidecar and facts.restartable_init_keeps_devices
            reuse = reuse | held.devices if spec.is_init and not keeps else reuse - held.devices
        return reuse

    def _surely_holds(self, holder: Holder, asking: str, when: When) -> bool:
        """Whether a container holds its devices, whatever lines were lost."""
        held = self.holdings.get(holder)
        if held is None or held.disputed or not held.certain:
            return False
        return holder[0] == asking or self.first_pass.surely_holds(holder, held.devices, when)

    def wrong_asker(self, record: Record, holder: Holder) -> Judgement | None:
        """The judgement of a record that cannot be about this container; None if it can.

        Another one asked; the pod has another name; the container has no limit; the log says
        of another number than the spec.
        """
        caused, (_, container, resource) = self.requests.get(record.cause or 0), holder
        specs = self.specs(record)
        limits = [spec.limit(resource) for spec in specs if spec.name == container]
        # A call that names nobody may follow the call of the request before, and its own request.
        by_next = caused is not None and any(limits) and caused.holder[:2] == holder[:2]
        if caused is not None and caused.holder != holder and not by_next:
            expected = dict(zip(("pod_uid", "container", "resource"), caused.holder, strict=True))
            why = f"the request was of container {caused.holder[1]} of pod {caused.holder[0]}"
            return same(False, why, expected=expected, inputs=[caused.seq])
        listed = self.pod(record)
        if (wrong := misnamed(record, listed)) is not None:
            return wrong
        asked = self._request_of(holder)
        limit = limits[0] if limits else 0
        if not specs or (limit and (asked is None or asked.needed == limit)):
            return None
        why = f"the pod has no container {container}"
        if limits:
            why = f"its spec has {f'a limit of {limit}' if limit else 'no limit'} on {resource}"
        if asked is not None:
            why = f"the log says that it needs {asked.needed}, and {why}"
        seqs = [specs[0].seq, *([asked.seq] if asked is not None else [])]
        return same(False, why, inputs=seqs)
