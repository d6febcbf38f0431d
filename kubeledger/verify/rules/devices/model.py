"""The device manager as it was, piece by piece: its memory, what it granted and refused.

A grant that only a later checkpoint shows is judged when its container was aligned, asked or
its pod admitted, with what was held then; the finding waits for the record.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubeledger.kubelet.lifecycle.state import key_of
from kubeledger.kubelet.topologymanager.policy import BITS_MAX
from kubeledger.model.bodies.devicemanager import NO_HINTS, AllocationFailed, DevicesAllocated
from kubeledger.model.record import Body, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, lacks, open_to, recorded, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_objects import Spec, specs_in
from kubeledger.verify.rules.activity import misnamed
from kubeledger.verify.rules.devices.evidence import Evidence, Held, Holdings
from kubeledger.verify.rules.devices.first_pass import Entry, FirstPass, Holder, when_of
from kubeledger.verify.rules.devices.lists import SNAPSHOT_NS, When
from kubeledger.verify.rules.devices.worlds import granted, listing, refused

RULE: Final = "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate"
_UNREPORTED = {
    "checkpoint": "the log of the pod's admission",
    "restore": "the log of the kubelet process that allocated the devices",
}
_HINTS_RULE: Final = "pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints"


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
        self._early: dict[tuple[Holder, int], Judgement] = {}

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

    def specs(self, record: Record) -> list[Spec]:
        """The pod's containers, init containers first; empty where no list shows them."""
        listed = self.context.pods.of(record)
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
        nodes = state.machine.numa_nodes or self.first_pass.numa_nodes or self.first_pass.voted(own)
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
        reuse = self._reuse(holder, specs)
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
            nodes_of=lambda device: self._nodes_of(resource, device),
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

    def _nodes_of(self, resource: str, device: str) -> tuple[bool, tuple[int, ...] | None]:
        facts = self.context.known_profile.devices
        nodes = self.first_pass.nodes_of(resource, device)
        if nodes is None or (facts.no_topology_is_minus_one and nodes == (-1,)):
            return nodes is not None, None
        return True, nodes

    def _reuse(self, holder: Holder, specs: list[Spec]) -> frozenset[str] | None:
        """Devices that init containers of the pod are done with; None when that is not known."""
        (pod, container, resource), facts = holder, self.context.known_profile.devices
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
        if (wrong := misnamed(record, self.context.pods.of(record))) is not None:
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

    # -- grants and refusals ---------------------------------------------------------------------

    def allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> None:
        """Judge a grant, then let the container hold what it got."""
        devices = frozenset(body.device_ids)
        holder = (self.key(record, state), body.container, body.resource)
        early = self._early.pop((holder, record.seq), None)
        held = self.holdings.get(holder)
        not_restored = held is not None and held.run != self.holdings.run
        if not_restored and early is None and body.told_by == "call":
            self.holdings.release(*holder)
        self.holdings.restored |= body.told_by == "restore"
        entry, disputed = self._checkpointed(record, body, holder)
        found = self.wrong_asker(record, holder)
        if found is None and disputed is not None:
            found = self._judge_disputed(record, body, disputed)
        elif found is None and entry is not None and body.numa not in (None, entry.numa):
            why = f"its NUMA record holds {body.numa}, and the checkpoint {entry.numa}"
            numa = {node: list(ids) for node, ids in entry.numa.items()}
            found = None if "" in numa else same(False, why, expected={"numa": numa})
        if found is None and early is None and body.told_by != "call":
            found = lacks([_UNREPORTED[body.told_by]])
        found = found or early or self._by_rule(record, devices, holder, state)
        subject = self.subject(record, holder[0], body.container)
        right, is_early = found.verdict != "impossible", early is not None
        self._hold(record, body, holder, right=right, is_early=is_early)
        found = found_with(found, () if entry is None else (entry.when[1],))
        self.give(record, subject, found, found.expected or ("device_ids",))

    def _judge_disputed(self, record: Record, body: DevicesAllocated, entry: Entry) -> Judgement:
        """Log and checkpoint name different devices for one allocation."""
        subject = self.subject(record, body.pod_uid or "", body.container)
        why = f"log and checkpoint name different devices of {body.resource} for one allocation"
        texts = [piece.text or "" for piece in record.evidence]
        is_coarse = self.context.coverage.is_coarse
        if texts and is_coarse and not any(body.container in text for text in texts):
            return open_to("the order of the lines of that second", denied=why)
        got, held = listing(body.device_ids), listing(entry.ids)
        granted = record.seq, f"container {body.container} got {got}"
        sides, at_ns = (granted, (entry.when[1], f"it holds {held}")), entry.when[0]
        self.context.contradict(max(record.ts_ns, at_ns), subject, why, *sides)
        whose = f"the checkpoint written after it holds {held} for container {body.container}"
        return same(False, f"{whose}, not {got}", expected={"device_ids": sorted(entry.ids)})

    def _by_rule(
        self, record: Record, devices: frozenset[str], holder: Holder, state: NodeState
    ) -> Judgement:
        evidence = self.evidence(record, state, holder)
        if not isinstance(evidence, Evidence):
            return evidence
        return found_with(granted(evidence, devices), evidence.seqs)

    def _hold(
        self, record: Record, body: DevicesAllocated, holder: Holder, *, right: bool, is_early: bool
    ) -> None:
        """What the container holds from now on; a lie is not built upon."""
        holdings = self.holdings
        asking = self.answered(record, holder)
        if asking != holder:  # who asked got them
            holder, right = asking, True
        entry, disputed = self._checkpointed(record, body, holder)
        if disputed is not None:
            # Log or checkpoint lies: nobody else is blamed for what either says.
            holdings.take(holder, Held(disputed.ids, record.seq, disputed=True))
        elif right or entry is not None:
            holdings.take(holder, Held(frozenset(body.device_ids), record.seq))
        elif holdings.get(holder) is None or is_early:
            holdings.take(holder, Held(None, record.seq))

    def _checkpointed(
        self, record: Record, body: DevicesAllocated, holder: Holder
    ) -> tuple[Entry | None, Entry | None]:
        """The checkpoint entry that agrees with a grant, or the one that does not."""
        first_pass, when = self.first_pass, when_of(record)
        if body.told_by == "checkpoint":
            return None, None
        entries = first_pass.entries.get(holder, ())
        later = [entry for entry in entries if entry.last[0] + SNAPSHOT_NS >= when[0]]
        agreeing = next((e for e in later if e.ids == frozenset(body.device_ids)), None)
        disputing = next((entry for entry in later if entry.when > when), None)
        if agreeing is not None or disputing is None:
            return agreeing, None
        changed = first_pass.may_change(holder[0], when, disputing.when)
        return None, None if changed else disputing

    def shown_later(self, record: Record, body: Body, state: NodeState) -> None:
        """A pod's containers (None: all) get devices about now; a checkpoint showed later which."""
        when, container = when_of(record), getattr(body, "container", None)
        due = self.first_pass.late.get(self.key(record, state))
        if not due:
            return
        order = {spec.name: index for index, spec in enumerate(self.specs(record))}
        for holder in sorted(due, key=lambda one: (order.get(one[1], 0), one)):
            grant = next(((w, b) for w, b in due[holder] if w > when), None)
            current = self.holdings.get(holder)
            if container not in (None, holder[1]) or grant is None:
                continue
            (_, seq), granted_body = grant
            asked = self.first_pass.asked.get(holder, ())
            if container is None and any(when < at < grant[0] for at in asked):
                continue  # a pod that is aligned as a whole: the container itself asks later
            if (holder, seq) in self._early or (current is not None and current.certain):
                continue
            devices = frozenset(granted_body.device_ids)
            self._early[holder, seq] = self._by_rule(record, devices, holder, state)
            self.holdings.take(holder, Held(devices, seq))

    def failed(self, record: Record, body: AllocationFailed, state: NodeState) -> None:
        pod, container = self.key(record, state), body.container
        specs = self.specs(record) if container is None and body.resource is not None else []
        asking = [spec.name for spec in specs if spec.limit(body.resource or "")]
        container = asking[0] if len(asking) == 1 else container
        if specs and not asking:
            found = same(False, f"no container of the pod asks for {body.resource}")
        elif body.resource is None or container is None:
            what = "resource" if body.resource is None else "container"
            found = lacks([f"the {what} that was refused"])
        elif body.told_by == "status":
            found = lacks(["the time of the refusal"])
        else:
            holder = (pod, container, body.resource)
            found = self._refused(record, body, holder, state)
            self.answered(record, holder)
            if body.told_by == "event" and found.verdict == "impossible":
                found = lacks(["the instant of the refusal within its second"])
            found = found_with(found, rule=_HINTS_RULE if body.error == NO_HINTS else RULE)
        names = ("error",) if found.expected is None else found.expected
        self.give(record, self.subject(record, pod, container), found, names)

    def _refused(
        self, record: Record, body: AllocationFailed, holder: Holder, state: NodeState
    ) -> Judgement:
        if (wrong := self.wrong_asker(record, holder)) is not None:
            return wrong
        evidence = self.evidence(record, state, holder)
        if not isinstance(evidence, Evidence):
            return evidence
        if body.available is not None and body.hints_available is not None:
            # The line about hints counts all that is needed, and what is to be used again as there.
            there = body.available + len(evidence.reuse)
            if (body.hints_requested, body.hints_available) != (evidence.required, there):
                why = f"the line about hints counts {body.hints_available} devices, not {there}"
                return same(False, why, expected={"hints_requested": None, "hints_available": None})
        found = refused(body, evidence)
        opened = found.verdict == "impossible" and refused(body, evidence.opened())
        if opened and opened.verdict != "impossible":
            # What it could not refuse by the known devices, it may by what a lost line showed.
            found = open_to(evidence.lost(), denied=found.why)
        return found_with(found, evidence.seqs)


def found_with(found: Judgement, inputs: tuple[int, ...] = (), **fields: Any) -> Judgement:  # noqa: ANN401
    """A judgement that rests on these records as well."""
    return replace(found, inputs=(*found.inputs, *inputs), **fields)
