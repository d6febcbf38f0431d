"""What containers have of the CPUs, and the shared pool, as far as records show them.

Lines and the state file show the pool, so one world is enough: the pool as logged. What it denies
may still be right if a line was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from kubeledger.kubelet.cpumanager.policy_options import (
    GuaranteedCPUs,
    PolicyOptionError,
    StaticPolicyOptions,
    new_static_policy_options,
)
from kubeledger.kubelet.cpumanager.policy_static import PolicyError, StaticPolicy, new_static_policy
from kubeledger.kubelet.cpumanager.state_checkpoint import Assignments, State
from kubeledger.kubelet.cpumanager.topology import CPUTopology, machine_of
from kubeledger.kubelet.kube.containermanager import CPUSet, parse, text_of
from kubeledger.kubelet.kube.maporder import FIRST_ORDER
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.resource_manager import leaves_to_later
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
)
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Decision, Record
from kubeledger.model.units import NS_PER_S, parse_go_duration
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_objects import Spec, specs_in
from kubeledger.verify.rules.assignments import AssignmentVerifier, Holder, OwnHints
from kubeledger.verify.variant import UNKNOWN

_SLACK_NS: Final = 5 * NS_PER_S
_OPTIONS: Final = "cpuManagerPolicyOptions"
_RESERVED: Final = "reservedSystemCPUs"
_RESERVES: Final = ("kubeReserved", "systemReserved")
_VARIED: Final = (_OPTIONS, _RESERVED, *_RESERVES)


class CpuTable(AssignmentVerifier[CPUSet]):
    """The CPU manager's table and its pool.

    Attributes:
        pool: the shared pool; None where it is not known.
        start: what the process that runs logged when it began; ``start_seq`` its record.
    """

    decides: ClassVar[tuple[type[Decision], ...]] = (
        CpusAllocated,
        CpusReleased,
        CpuAllocationFailed,
        CpuStateRefused,
    )
    manager, file = "CPU manager", "cpu_manager_state"
    turned_off = ("cpuManagerPolicy", "none")
    settings = _VARIED
    denied = "cpu_manager_state shows other CPUs of containers than the lines"
    grants, releases, shortages, refusals = decides
    starts, files = CpuManagerStarted, CpuManagerStateRead
    none: CPUSet = 0

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self.pool: CPUSet | None = None
        self.start: CpuManagerStarted | None = None
        self.start_seq = 0
        self._known: tuple[object, tuple[StaticPolicy | None, list[str]]] = (None, (None, []))
        self.last_file: CpuManagerStateRead | None = None

    def is_own(self, resource: str) -> bool:
        return resource == "cpu"

    def hints(self, pod: Pod, container: Container | None) -> OwnHints | None:
        policy, _ = self.policy
        if policy is None or self.pool is None or not self.complete:
            return None
        holder = pod.metadata.uid or "", "" if container is None else container.name or ""
        policy.cpus_to_reuse = {holder[0]: self.reusable(pod, holder)}
        state = State(self.pool, self.contents())
        if container is None:
            return policy.get_pod_topology_hints(state, pod) or {}
        return policy.get_topology_hints(state, pod, container) or {}

    def text(self, value: CPUSet) -> str:
        return text_of(value)

    def contents_of(self, body: CpuManagerStateRead) -> dict[Holder, CPUSet]:
        entries = ((uid, sets) for uid, sets in body.assignments.items() if uid)
        return {(uid, name): parse(text) for uid, sets in entries for name, text in sets.items()}

    def reset(self) -> None:
        super().reset()
        self.pool, self.start = None, None

    def started(self, record: Record, body: CpuManagerStarted, state: NodeState) -> None:
        pool, before = set_or_none(body.default_cpu_set), self.pool
        self.begin(body.restored, same=pool == before)
        self.start, self.start_seq, self.pool = body, record.seq, pool
        self.complete = self.complete and pool is not None

    def adopt(self, record: Record, reading: Mapping[Holder, CPUSet]) -> None:
        """A file shows the pool as well, as it was before what lines show then."""
        assert isinstance(record.body, CpuManagerStateRead)
        super().adopt(record, reading)
        self.pool, self.complete = parse(record.body.default_cpu_set), True
        granted: set[Holder] = set()
        for holder, change in self.meanwhile(record):
            if isinstance(change.body, CpusAllocated):
                granted.add(holder)
                self.pool |= reading.get(holder, 0) & ~self.siblings(holder)
            elif holder not in granted.union(reading):
                cpus = set_or_none(getattr(change.body, "cpu_set", None)) or 0
                if cpus:
                    super().take(record, holder, cpus)
                self.pool &= ~cpus

    def _file_read(self, record: Record, body: CpuManagerStateRead, state: NodeState) -> None:
        super()._file_read(record, body, state)
        self.last_file = body
        period = self.context.settings.get("cpuManagerReconcilePeriod")
        if body.checksum_ok is not False and isinstance(period, str):
            with suppress(ValueError):
                wait_ns = 2 * parse_go_duration(period) + _SLACK_NS
                self.not_given_back(record, parse(body.default_cpu_set), record.ts_ns - wait_ns)

    def not_given_back(self, record: Record, pool: CPUSet, noticed_ns: int) -> None:
        """Who should have given back CPUs that the pool does not show is said to owe them."""
        lacking = [holder for holder, held in self.held.items() if not held.value & pool]
        self.overdue(record, lacking, noticed_ns)

    def given(self, body: CpusAllocated) -> CPUSet:
        return parse(body.cpu_set)

    def take(self, record: Record, holder: Holder, value: CPUSet) -> None:
        """The pool is what the line says, or what is left of it."""
        super().take(record, holder, value)
        pool_after = set_or_none(getattr(record.body, "default_cpu_set", None))
        is_told = pool_after is not None or self.pool is None
        self.pool = pool_after if is_told else (self.pool or 0) & ~value

    def lose(self, record: Record, holder: Holder) -> None:
        """What no other container of the pod has goes back."""
        held, pool_after = self.held.get(holder), None
        if isinstance(record.body, CpusReleased):
            pool_after = set_or_none(record.body.default_cpu_set)
        if pool_after is not None:
            self.pool = pool_after
        elif self.pool is not None and held is not None:
            self.pool |= held.value & ~self.siblings(holder)
        super().lose(record, holder)

    @property
    def policy(self) -> tuple[StaticPolicy | None, list[str]]:
        """The policy of the process that runs, or what is missing to know it."""
        key = self.start_seq, self.start, self.context.profile
        if self._known[0] != key:
            self._known = key, cpu_policy_of(self.start, self.context)
        return self._known[1]

    @property
    def reserved(self) -> CPUSet | None:
        """CPUs that no container gets; None where no line says."""
        policy, _ = self.policy
        if policy is not None:
            return policy.reserved
        return None if self.start is None else set_or_none(self.start.reserved_cpu_set)

    def by_lost_lines(
        self,
        record: Record,
        holder: Holder,
        back: CPUSet,
        gone: CPUSet,
        denied: str,
        state: NodeState,
    ) -> Judgement | None:
        """The judgement where CPUs came into the pool, or left it, by no line; else None.

        They came by a release of somebody who is not seen to keep them, and left by a grant to a
        container that asks for CPUs and has got none by any record.
        """
        if not back and not gone:
            return None
        having = [h for h, held in sorted(self.held.items()) if held.value & back]
        seqs = [self.held[h].seq for h in having]
        sure = [h for h in having if self.surely_has(h, record.ts_ns)]
        if sure and sure[0] != holder:
            cpus = text_of(self.held[sure[0]].value & back)
            denied = f"CPU {cpus} was {self.named(sure[0])}'s, and not given back"
        nobodys = back & ~union(self.held[h].value for h in having)
        counts = self.unlogged(state) if gone else None
        left = counts is None or any(count <= gone.bit_count() for count in counts)
        if sure or (self.complete and nobodys) or not left:
            return same(False, denied, inputs=seqs)
        self.complete = self.complete and not gone  # somebody has what left the pool
        assumes = [f"the release of the CPUs of {self.named(h)}" for h in having]
        assumes += ["all holders of CPUs"] if nobodys else []
        assumes += [f"who got CPU {text_of(gone)}"] if gone else []
        return open_to(" and ".join(assumes), denied=denied, inputs=seqs)

    def unlogged(self, state: NodeState, but: Holder | None = None) -> list[int] | None:
        """How many CPUs other containers ask for that have none by any record; None: not known."""
        counts: list[int] = []
        if any(self.context.pods.at(0, key) is None for key in state.lifecycle.pods):
            return None
        for listed in self.context.pods.newest():
            for spec in specs_in(listed):
                if self._guaranteed.is_managed_as_a_whole(spec.pod):
                    return None
                holder = (listed.uid or "", spec.container.name or "")
                if holder not in self.held and holder != but and self.may_have_got(holder):
                    counts += filter(None, self.counts([spec]))
        return counts

    def reusable(self, pod: Pod | None, holder: Holder) -> CPUSet:
        """CPUs of init containers; without a spec those of all other containers of the pod."""
        if pod is None:
            return self.siblings(holder)
        free = 0
        for container in containers_of(pod):
            name = container.name or ""
            if name == holder[1]:
                break
            held = self.held.get((holder[0], name))
            cpus = 0 if held is None else held.value
            free = free | cpus if leaves_to_later(pod, container, self.facts) else free & ~cpus
        return free

    def unlogged_before(self, pod: Pod, holder: Holder) -> str | None:
        """The name of a container of the pod that comes first, and got its CPUs by no record."""
        names = [container.name or "" for container in containers_of(pod)]
        for container in containers_of(pod)[: names.index(holder[1])]:
            own = holder[0], container.name or ""
            asks = self._guaranteed.of_container(pod, container)
            if asks and own not in self.held and self.may_have_got(own):
                return own[1]
        return None

    def siblings(self, holder: Holder) -> CPUSet:
        others = self.held.items()
        return union(h.value for key, h in others if key[0] == holder[0] and key != holder)

    @property
    def _guaranteed(self) -> GuaranteedCPUs:
        return GuaranteedCPUs(self.context.known_profile)

    def counts(self, specs: list[Spec]) -> list[int]:
        """How many CPUs the container gets alone by each version of its spec that says.

        What a status shows as allocated may not have been there yet.
        """
        counts, guaranteed = [], self._guaranteed
        for spec in specs:
            for pod in (spec.pod, _as_created(spec.pod)):
                with suppress(BadInputError):
                    skipped = guaranteed.is_skipped(pod)
                    count = 0 if skipped else guaranteed.of_container(pod, spec.container)
                    counts += [count] if count or spec.defaulted else []
        return list(dict.fromkeys(counts))

    def contents(self) -> Assignments:
        held: Assignments = {}
        for (pod, container), has in self.held.items():
            held.setdefault(pod, {})[container] = has.value
        return held


def _as_created(pod: Pod) -> Pod:
    """A pod before a status says what its containers were given."""
    if pod.status is None:
        return pod
    bare = {"container_statuses": None, "init_container_statuses": None}
    return replace(pod, status=replace(pod.status, **bare))


def union(sets: Iterable[CPUSet]) -> CPUSet:
    """All CPUs of several sets."""
    return reduce(or_, sets, 0)


def set_or_none(text: str | None) -> CPUSet | None:
    """A set as written; None where nothing is."""
    return None if text is None else parse(text)


# The static policy of the kubelet that runs.
#
# Machine, reserved CPUs and options are those that the process logged when it started; under a
# variant, those that its settings would have led to.


def cpu_policy_of(
    start: CpuManagerStarted | None, context: VerifyContext
) -> tuple[StaticPolicy | None, list[str]]:
    """The policy of the process that runs, or what is missing to know it."""
    profile = context.profile
    known: dict[str, Any] = {
        context.missing_profile: profile,
        "the cores of the machine": start and start.cpus,
        "the reserved CPUs": None if start is None else start.reserved_cpu_set,
    }
    if missing := [name for name, value in known.items() if value is None]:
        return None, missing
    assert profile is not None
    assert start is not None
    assert start.cpus is not None
    topology = CPUTopology(machine_of(start.cpus), profile.resourcemanagers)
    reserved = parse(start.reserved_cpu_set or "")
    is_varied = context.settings.is_varied
    if any(map(is_varied, _VARIED)):
        try:
            return _of_settings(topology, reserved, context, profile), []
        except PolicyError as error:
            return None, [f"a kubelet that starts with these settings ({error})"]
    options = _options(start, context, profile)
    if options is None:
        return None, ["the options of the static policy"]
    return StaticPolicy(topology, reserved, options, profile), []


def _options(
    start: CpuManagerStarted, context: VerifyContext, profile: KubeletProfile
) -> StaticPolicyOptions | None:
    """Those logged, or those of the settings; None where neither says."""
    facts = profile.resourcemanagers
    if not facts.cpu_policy_options:
        return StaticPolicyOptions()
    if start.options is not None:
        return StaticPolicyOptions.of_logged(start.options)
    configured = context.settings.get(_OPTIONS)
    if configured is UNKNOWN:
        return None
    with suppress(PolicyOptionError):
        return new_static_policy_options(_texts(configured), facts, FIRST_ORDER)
    return None


def _of_settings(
    topology: CPUTopology, reserved: CPUSet, context: VerifyContext, profile: KubeletProfile
) -> StaticPolicy:
    """The policy that a variant's settings lead to; PolicyError if no kubelet starts with them."""
    get, count = context.settings.get, reserved.bit_count()
    is_varied = context.settings.is_varied
    if is_varied(_RESERVED):
        reserved = parse(str(get(_RESERVED) or ""))
        count = reserved.bit_count() or count
    elif any(map(is_varied, _RESERVES)) and not get(_RESERVED):
        amounts = [each for name in _RESERVES if isinstance(each := get(name), dict)]
        with suppress(QuantityError):
            milli = sum(Quantity.from_api(each.get("cpu", "0")).milli_value() for each in amounts)
            reserved, count = 0, -(-milli // 1000)
    options, policy = _texts(get(_OPTIONS)), str(get("topologyManagerPolicy") or "none")
    return new_static_policy(topology, count, reserved, options, policy, profile, FIRST_ORDER)


def _texts(options: object) -> dict[str, str]:
    """Options as they are configured; none where they are no map."""
    pairs = options.items() if isinstance(options, dict) else ()
    return {str(name): str(value) for name, value in pairs}
