"""What containers have of the memory of NUMA nodes, as far as lines and state files show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import Hints, TopologyHint, mask_of
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
    MemoryTable,
    NUMANodeMemory,
)
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Decision, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.machine import masks_of
from kubeledger.verify.evidence.pod_objects import Spec, specs_in
from kubeledger.verify.rules.assignments import AssignmentVerifier, Holder, OwnHints
from kubeledger.verify.rules.devices.model import nodes_text
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


def with_reserves(
    machine: Mapping[str, NUMANodeMemory], reserves: Reserves
) -> dict[str, NUMANodeMemory]:
    """The NUMA nodes if the kubelet kept as much of each as this; what containers have stays."""
    return {
        node: replace(
            state,
            memory={
                name: _with_reserve(table, reserves.get((int(node), name), 0))
                for name, table in state.memory.items()
            },
        )
        for node, state in machine.items()
    }


def _with_reserve(table: MemoryTable, reserved_bytes: int) -> MemoryTable:
    more = table.system_reserved_bytes - reserved_bytes
    return replace(
        table,
        system_reserved_bytes=reserved_bytes,
        allocatable_bytes=table.allocatable_bytes + more,
        free_bytes=table.free_bytes + more,
    )


# The static memory manager of a kubelet process, followed from record to record.
#
# Its machine is that of a state file, or, where there was none, of the first one that is read: what
# is there, reserved and allocatable stays as long as the process runs.


class FollowedMemory:
    """What the manager holds, as long as every record fits it; nothing is known otherwise."""

    def __init__(self) -> None:
        self._manager: Manager | None = None

    @property
    def is_known(self) -> bool:
        return self._manager is not None

    def forget(self) -> None:
        self._manager = None

    def restart(self) -> None:
        """A new process has what the file keeps, and not what init containers left to reuse."""
        if self._manager is not None:
            self._manager.policy.reusable.clear()

    def begin(self, profile: KubeletProfile, nodes: Mapping[str, NUMANodeMemory]) -> None:
        """Nobody has anything of these nodes."""
        self._manager = Manager(profile)
        self._manager.state = State(machine=machine_of(nodes, empty=True))

    def adopt(self, profile: KubeletProfile, body: MemoryManagerStateRead) -> None:
        """The manager holds what a state file shows."""
        reusable = {} if self._manager is None else self._manager.policy.reusable
        self._manager = Manager(profile)
        self._manager.state = recorded_state(body)
        self._manager.policy.reusable = reusable

    def would_give(
        self, pod: Pod, container: Container, affinity: TopologyHint
    ) -> tuple[int, ...] | str:
        """NUMA nodes of which a container would get memory, or why it would get none."""
        assert self._manager is not None  # is_known
        return _given(self._manager.copy(), pod, container, affinity)

    def hints(self, pod: Pod, container: Container | None) -> Mapping[str, Hints] | None:
        """Hints for a container, or for a pod as a whole; None where the kubelet crashes."""
        assert self._manager is not None  # is_known
        policy, state = self._manager.policy, self._manager.state
        try:
            if container is None:
                return policy.get_pod_topology_hints(state, pod) or {}
            return policy.get_topology_hints(state, pod, container) or {}
        except KubeletPanicError:
            return None

    def give(self, pod: Pod, container: Container, nodes: frozenset[int]) -> None:
        if self._manager is not None:
            affinity = TopologyHint(mask_of(nodes), preferred=False)
            if _given(self._manager, pod, container, affinity) != tuple(sorted(nodes)):
                self.forget()

    def take_back(self, pod: str, container: str) -> None:
        if self._manager is not None:
            try:
                self._manager.policy.remove_container(self._manager.state, pod, container)
            except KubeletPanicError:
                self.forget()


def _given(
    manager: Manager, pod: Pod, container: Container, affinity: TopologyHint
) -> tuple[int, ...] | str:
    try:
        manager.policy.allocate(manager.state, pod, container, affinity)
    except AllocationError as error:
        return str(error)
    except KubeletPanicError as error:
        return f"the kubelet crashes: {error}"
    uid, name = pod.metadata.uid or "", container.name or ""
    return tuple(manager.get_memory_numa_nodes(uid, name) or ())


class MemoryTableVerifier(AssignmentVerifier[Blocks]):
    """The memory manager's table; no blocks where no file shows what a container has.

    Totals, reserves and what is allocatable do not change while a process runs, so a file that is
    read after a decision shows them as well.

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
    none: Blocks = ()

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self.nodes: Nodes = {}
        self.seqs: tuple[int, ...] = ()
        self.followed = FollowedMemory()
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
        context = self.context
        return reserves_of(context.settings.get(_RESERVED)) if self.is_varied else None

    @property
    def is_varied(self) -> bool:
        return self.context.settings.is_varied(_RESERVED)

    def started(self, record: Record, body: MemoryManagerStarted, state: NodeState) -> None:
        self.begin(body.restored)
        self.followed.restart()
        if not self.complete:
            self.followed.forget()
        elif body.restored is False:
            self.followed.forget()
            self.find_machine(record.ts_ns)
            if self.context.profile is not None and self.nodes:
                self.followed.begin(self.context.profile, self.nodes)
                self._followed_ns, self._followed_seq = record.ts_ns, self.seqs[0]

    def reset(self) -> None:
        super().reset()
        self.followed.forget()

    def note_file(self, record: Record, body: MemoryManagerStateRead) -> None:
        """A file that no change is near shows the whole manager."""
        profile, self.last_file = self.context.profile, body
        if profile is None or not body.machine or any(self.meanwhile(record)):
            return
        if (reserves := self._reserves()) is not None:
            machine = with_reserves(body.machine, reserves)
            body = replace(body, machine=machine)
        self.followed.adopt(profile, body)
        self._followed_ns, self._followed_seq = record.ts_ns, record.seq

    def take(self, record: Record, holder: Holder, value: Blocks) -> None:
        super().take(record, holder, value)
        nodes = frozenset(node for block in value for node in block.numa_nodes)
        specs = self.specs(record)
        if specs and nodes:
            self.followed.give(specs[0].pod, specs[0].container, nodes)
        else:
            self.followed.forget()

    def lose(self, record: Record, holder: Holder) -> None:
        super().lose(record, holder)
        self.followed.take_back(*holder)

    def given(self, body: MemoryAllocated) -> Blocks:
        """The blocks of a grant, where a file shows them."""
        return body.blocks or ()

    def lasts(self, holder: Holder) -> bool:
        """Not an init container that ends, nor one of a pod whose spec is not known."""
        listed = self.context.pods.at(0, holder[0])
        specs = () if listed is None else specs_in(listed)
        return any(s.name == holder[1] and (s.is_sidecar or not s.is_init) for s in specs)

    def again(self, holder: Holder, specs: Iterable[Spec]) -> dict[tuple[int, ...] | str, None]:
        """NUMA nodes that a container gets by each version of its spec, or why it gets none.

        Empty where it is not known what the manager holds, or which affinity was stored.
        """
        if not (self.complete and self.followed.is_known):
            return {}
        give, affinities = self.followed.would_give, self._affinities(holder)
        return {give(spec.pod, spec.container, a): None for spec in specs for a in affinities}

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
        is_known = self.complete and self.followed.is_known
        return self.followed.hints(pod, container) if is_known else None

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
            self.followed.forget()

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
        return lost is None and all(
            self.surely_has(other, ts_ns) for other in self.held if other != holder
        )

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
        assert self.context.profile is not None
        return RequestedMemory(self.context.profile)


def sizes(value: Blocks) -> str:
    """What a container has, in words."""
    given = ", ".join(f"{block.size_bytes} bytes of {block.type}" for block in value)
    return given or "its memory"


def _as_sets(hints: OwnHints) -> dict[str, frozenset[TopologyHint]]:
    return {name: frozenset(of or ()) for name, of in hints.items()}


def _places(hints: OwnHints) -> str:
    """Hints in words."""
    texts = (
        f"{nodes_text(hint.affinity)}{'' if hint.preferred else ' (not preferred)'}"
        for _, of in sorted(hints.items())
        for hint in of or ()
    )
    return ", ".join(dict.fromkeys(texts)) or "none"
