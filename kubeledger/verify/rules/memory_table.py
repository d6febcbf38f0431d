"""What containers have of the memory of NUMA nodes, as far as lines and state files show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import ClassVar, Final

from msgspec.structs import replace

from kubeledger.kubelet.kube.containermanager import AllocationError
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import HUGE_PAGES
from kubeledger.kubelet.memorymanager.checkpoint import machine_of, recorded_state
from kubeledger.kubelet.memorymanager.hints import RequestedMemory
from kubeledger.kubelet.memorymanager.machine import MEMORY, KubeletPanicError, State
from kubeledger.kubelet.memorymanager.memory_manager import Manager
from kubeledger.kubelet.topologymanager.policy import TopologyHint, mask_of
from kubeledger.kubelet.topologymanager.scope import NO_AFFINITY
from kubeledger.model.bodies.resourcemanagers import (
    HintsGenerated,
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
    NUMANodeMemory,
)
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Decision, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.machine import masks_of
from kubeledger.verify.evidence.pod_objects import Spec, specs_in
from kubeledger.verify.rules.assignments import AssignmentVerifier, Holder, OwnHints
from kubeledger.verify.rules.devices.worlds import nodes_text
from kubeledger.verify.variant import RECORDED

Blocks = tuple[MemoryBlock, ...]
Nodes = Mapping[str, NUMANodeMemory]

_RESERVED: Final = "reservedMemory"


# What ``reservedMemory`` keeps of each NUMA node, and tables of a machine with another reserve.

Reserves = Mapping[tuple[int, str], int]
"""(NUMA node, type) -> bytes."""


def reserves_of(setting: object) -> Reserves | None:
    """The setting as it is recorded or asked for; None where it cannot be read."""
    found: dict[tuple[int, str], int] = {}
    try:
        for entry in setting if isinstance(setting, list) else ():
            for name, amount in (entry.get("limits") or {}).items():
                found[int(entry["numaNode"]), name] = Quantity.from_api(amount).value()
    except (QuantityError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return found if isinstance(setting, list) else None


def with_reserves(machine: Nodes, reserves: Reserves) -> dict[str, NUMANodeMemory]:
    """The NUMA nodes if the kubelet kept as much of each as this; what containers have stays."""
    found = dict(machine)
    for node, state in machine.items():
        tables = dict(state.memory)
        for name, table in state.memory.items():
            reserved_bytes = reserves.get((int(node), name), 0)
            more = table.system_reserved_bytes - reserved_bytes
            tables[name] = replace(
                table,
                system_reserved_bytes=reserved_bytes,
                allocatable_bytes=table.allocatable_bytes + more,
                free_bytes=table.free_bytes + more,
            )
        found[node] = replace(state, memory=tables)
    return found


Given = tuple[int, ...] | str
"""NUMA nodes of which a container gets memory, or why it gets none."""


def _given(manager: Manager, spec: Spec, affinity: TopologyHint) -> Given:
    try:
        manager.policy.allocate(manager.state, spec.pod, spec.container, affinity)
    except AllocationError as error:
        return str(error)
    except KubeletPanicError as error:
        return f"the kubelet crashes: {error}"
    return tuple(manager.get_memory_numa_nodes(spec.pod.metadata.uid or "", spec.name) or ())


class MemoryTableVerifier(AssignmentVerifier[Blocks]):
    """The memory manager's table; no blocks where no file shows what a container has.

    Totals, reserves and what is allocatable do not change while a process runs, so a file that is
    read after a decision shows them as well. The manager is followed from record to record, as long
    as each fits it.

    Attributes:
        nodes: the process's machine, under the variant; ``seqs``: the record that shows it.
    """

    decides: ClassVar[tuple[type[Decision], ...]] = (
        MemoryAllocated,
        MemoryReleased,
        MemoryAllocationFailed,
        MemoryStateRefused,
    )
    manager, file = "memory manager", "memory_manager_state"
    denied = "memory_manager_state lacks a container that got memory in the log"
    grants, releases, shortages, refusals = decides
    starts, files = MemoryManagerStarted, MemoryManagerStateRead
    turned_off = ("memoryManagerPolicy", "None")
    settings = (_RESERVED,)
    none: Blocks = ()

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self.nodes: Nodes = {}
        self.seqs: tuple[int, ...] = ()
        self._manager: Manager | None = None
        self.last_file: MemoryManagerStateRead | None = None
        self._files: list[tuple[int, int, Nodes]] = []
        self._followed_ns = self._followed_seq = 0

    def foresee_file(self, record: Record, body: MemoryManagerStateRead) -> None:
        """First reading of a state file, which shows the machine as well."""
        super().foresee_file(record, body)
        if body.checksum_ok is not False and body.machine:
            self._files.append((record.ts_ns, record.seq, body.machine))

    def text(self, value: Blocks) -> str:
        return sizes(value)

    def contents_of(self, body: MemoryManagerStateRead) -> dict[Holder, Blocks]:
        entries = body.assignments.items()
        return {(uid, name): blocks for uid, sets in entries for name, blocks in sets.items()}

    def compared(self, given: Blocks, reading: Blocks | None) -> Blocks:
        """Blocks shrink while later containers use them again: other nodes, or more, deny."""
        if reading is None:
            return ()
        left = {(block.numa_nodes, block.type): block.size_bytes for block in given}
        shrunk = all(block.size_bytes <= left.pop((block.numa_nodes, block.type), -1)
                     for block in reading)  # fmt: skip
        return given if not given or (shrunk and not left) else reading

    def find_machine(self, ts_ns: int) -> None:
        """The first file of the process that runs shows its machine."""
        process = self.context.timeline.process
        now = process(ts_ns)
        files = (file for file in self._files if process(file[0]) == now)
        _, seq, nodes = min(files, key=lambda file: file[:2], default=(0, 0, {}))
        reserves = self._reserves()
        self.nodes = nodes if reserves is None else with_reserves(nodes, reserves)
        self.seqs = (seq,) if seq else ()

    def _reserves(self) -> Reserves | None:
        """What a variant keeps of the NUMA nodes; None where it is as recorded."""
        return reserves_of(self.context.settings.get(_RESERVED)) if self.is_varied else None

    def started(self, record: Record, body: MemoryManagerStarted, state: NodeState) -> None:
        self.begin(body.restored)
        if not self.complete or body.restored is False:
            self._manager = None
        if self._manager is not None:  # what init containers left is in no file
            self._manager.policy.reusable.clear()
        if self.complete and body.restored is False:
            self.find_machine(record.ts_ns)
            if self.context.profile is not None and self.nodes:
                self._follow(State(machine=machine_of(self.nodes, empty=True)))
                self._followed_ns, self._followed_seq = record.ts_ns, self.seqs[0]

    def _follow(self, state: State) -> Manager:
        self._manager = Manager(self.context.known_profile)
        self._manager.state = state
        return self._manager

    def reset(self) -> None:
        super().reset()
        self._manager = None

    def note_file(self, record: Record, body: MemoryManagerStateRead) -> None:
        """A file that no change is near shows the whole manager."""
        self.last_file, before = body, self._manager
        if self.context.profile is None or not body.machine or any(self.meanwhile(record)):
            return
        if (reserves := self._reserves()) is not None:
            body = replace(body, machine=with_reserves(body.machine, reserves))
        policy = self._follow(recorded_state(body)).policy
        policy.reusable = {} if before is None else before.policy.reusable
        self._followed_ns, self._followed_seq = record.ts_ns, record.seq

    def take(self, record: Record, holder: Holder, value: Blocks) -> None:
        super().take(record, holder, value)
        nodes = {node for block in value for node in block.numa_nodes}
        spec, manager = next(iter(self.specs(record)), None), self._manager
        if manager is not None:
            affinity = TopologyHint(mask_of(nodes), preferred=False)
            given = _given(manager, spec, affinity) if spec is not None and nodes else ""
            self._manager = manager if given == tuple(sorted(nodes)) else None

    def lose(self, record: Record, holder: Holder) -> None:
        super().lose(record, holder)
        if self._manager is not None:
            try:
                self._manager.policy.remove_container(self._manager.state, *holder)
            except KubeletPanicError:
                self._manager = None

    def given(self, body: MemoryAllocated) -> Blocks:
        """The blocks of a grant, where a file shows them."""
        return body.blocks or ()

    def lasts(self, holder: Holder) -> bool:
        """Not an init container that ends, nor one of a pod whose spec is not known."""
        listed = self.context.pods.at(0, holder[0])
        specs = () if listed is None else specs_in(listed)
        return any(s.name == holder[1] and (s.is_sidecar or not s.is_init) for s in specs)

    def again(self, holder: Holder, specs: Iterable[Spec]) -> dict[Given, None]:
        """What a container gets by each version of its spec.

        Empty where it is not known what the manager holds, or which affinity was stored.
        """
        if self._manager is None or not self.complete:
            return {}
        copy, affinities = self._manager.copy, self._affinities(holder)
        return {_given(copy(), spec, each): None for spec in specs for each in affinities}

    def _affinities(self, holder: Holder) -> tuple[TopologyHint, ...]:
        """What the topology manager may have stored for a container; none: that is not known."""
        stored = self.context.alignment.stored(*holder)
        if stored is not None:
            return stored.hints
        none = self.context.settings.get("topologyManagerPolicy") == "none"
        return (NO_AFFINITY,) if none else ()

    def is_own(self, resource: str) -> bool:
        return resource == MEMORY or resource.startswith(HUGE_PAGES)

    def hints(self, pod: Pod, container: Container | None) -> OwnHints | None:
        if self._manager is None or not self.complete:
            return None
        policy, state = self._manager.policy, self._manager.state
        with suppress(KubeletPanicError):
            if container is None:
                return policy.get_pod_topology_hints(state, pod) or {}
            return policy.get_topology_hints(state, pod, container) or {}
        return None

    def _hinted(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        """As the base, and compare what lines offer with what the policy does."""
        super()._hinted(record, body, state)
        told = {name: of for name, of in masks_of(body.hints).items() if self.is_own(name)}
        # A list without any hint may be a line that was lost.
        if self.context.variant != RECORDED or not told or not all(told.values()):
            return
        sure = self.is_sure(("", ""), record.ts_ns) and not self._passes_over(record, body)
        own = self.own_hints(record, body) if sure else None
        if own is not None and _as_sets(own) != _as_sets(told):
            pod = f"{body.namespace}/{body.pod}" if body.pod else str(body.pod_uid)
            subject = f"container/{pod}/{body.container}" if body.container else f"pod/{pod}"
            what = "lines offer other NUMA nodes for memory than the static policy does"
            sides = (self._followed_seq, f"it offers {_places(own)}"), (record.seq, _places(told))
            at_ns, kind = record.ts_ns, body.kind
            self.context.contradict(at_ns, subject, what, *sides, by_absence=True, kind=kind)
        if body.container is None and self.is_of_a_whole(record):
            self._manager = None

    def _passes_over(self, record: Record, body: HintsGenerated) -> bool:
        """Whether a container that comes before has not got its memory: that line is lost."""
        orders = [list(specs_in(version)) for version in self.versions(record) if body.container]
        return any(
            self.gets(spec) is not False
            and (body.pod_uid or "", spec.container.name) not in self.held
            for specs in orders
            for spec in takewhile(lambda each: each.container.name != body.container, specs)
        )

    def is_sure(self, holder: Holder, ts_ns: int) -> bool:
        """Whether nothing that is lost can have changed what the manager holds."""
        lost = self.context.coverage.missing(min(self._followed_ns, ts_ns), ts_ns)
        others = (other for other in self.held if other != holder)
        return lost is None and all(self.surely_has(other, ts_ns) for other in others)

    def gets(self, spec: Spec) -> bool | None:
        """Whether the pod's containers get memory; None where its spec does not say."""
        try:
            found = self.asked.gets(spec.pod)
            self.asked.of_container(spec.pod, spec.container)
        except (BadInputError, AllocationError):
            return None
        return found if found or spec.defaulted else None

    @property
    def asked(self) -> RequestedMemory:
        """What pods request, by the rules of this kubelet."""
        return RequestedMemory(self.context.known_profile)


def sizes(value: Blocks) -> str:
    """What a container has, in words."""
    given = ", ".join(f"{block.size_bytes} bytes of {block.type}" for block in value)
    return given or "its memory"


def _as_sets(hints: OwnHints) -> dict[str, frozenset[TopologyHint]]:
    return {name: frozenset(of or ()) for name, of in hints.items()}


def _places(hints: OwnHints) -> str:
    texts = (
        f"{nodes_text(hint.affinity)}{'' if hint.preferred else ' (not preferred)'}"
        for _, of in sorted(hints.items())
        for hint in of or ()
    )
    return ", ".join(dict.fromkeys(texts)) or "none"
