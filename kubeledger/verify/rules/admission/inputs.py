"""Puts the case of an admission together from what the records tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubeledger.kube.pod import Node, Pod
from kubeledger.kube.podqos import pod_qos
from kubeledger.lifecycle.records import PodTerminating
from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.preemption.decider import may_preempt
from kubeledger.profile.admission import AdmissionFacts
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.admission.adds import PodAdd, PodAdds
from kubeledger.verify.rules.admission.case import (
    UNCOUNTED,
    UNSIZED,
    AdmissionCase,
    CountedPod,
    capacities,
)
from kubeledger.verify.rules.admission.counted import CountedPods
from kubeledger.verify.rules.admission.devices import Restored, lagging
from kubeledger.verify.rules.admission.devices import devices as listed_devices
from kubeledger.verify.rules.admission.lists import Lists
from kubeledger.verify.rules.admission.marks import Marks, hostname, marks_at
from kubeledger.verify.rules.admission.nodes import Allocatable, Nodes, node_of
from kubeledger.verify.rules.admission.podspecs import (
    asks_for_anything,
    unlisted,
)
from kubeledger.verify.rules.admission.pressure import CONDITIONS, Pressure

__all__ = ["AdmissionInputs", "pressure_on"]

_MEMORY_TAINT: Final = "node.kubernetes.io/memory-pressure"


class AdmissionInputs:
    """Makes one case an admission.

    Attributes:
        adds, nodes, pressure, lists, restored: what the rule fills.
        shutdown: seq of the record that shows that the node shuts down; None for none.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.lists = Lists()
        self.adds = PodAdds(bench.timeline)
        self.counted = CountedPods(bench, self.adds)
        self.nodes = Nodes(bench.capacities)
        self.pressure = Pressure(bench.settings)
        self.restored = Restored()
        self.shutdown: int | None = None
        self._before: Allocatable | None = None
        self._nodes_for: tuple[object, tuple[Node, ...]] = (None, ())

    def terminating(self, record: Record, body: PodTerminating, state: NodeState) -> None:
        """A pod is stopped, perhaps because the node shuts down."""
        if body.reason == "shutdown":
            self.shutdown = record.seq

    def kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        """Another process: what the one before had goes on to count as the API's node object."""
        self._before = self.shutdown = None
        former, profile = self.bench.former_settings, self.bench.profile
        if body.restart and former.seq is not None and profile is not None:
            self._before = self.nodes.allocatable(record.ts_ns, former, profile, state)
        self.restored.kubelet_started(record.ts_ns)
        self.adds.clear()
        self.pressure.begin(record.ts_ns if body.from_start else None)

    def case_of(
        self, add: PodAdd, until_ns: int, state: NodeState
    ) -> AdmissionCase | tuple[str, ...]:
        """The case of an ADD, with the state at ``until_ns``; or what is missing."""
        bench = self.bench
        if bench.profile is None:
            return (bench.missing_profile,)
        found = self.counted.object_of(add.ts_ns, add.life, self._node_name)
        if found is None:
            return ("the pod's spec",)
        pod = found.pod
        if add.turn_ns is not None:
            until_ns = max(add.ts_ns, min(until_ns, add.turn_ns))
        allocatable = self._allocatable(until_ns, bench.profile, state)
        if allocatable.missing and ("pods" not in allocatable.amounts or asks_for_anything(pod)):
            return allocatable.missing
        since_ns = max(
            (ns for other in self.adds.turn_of(add) for ns in other.preempted), default=add.ts_ns
        )
        until_ns = max(since_ns, until_ns)
        counted = self.counted.of(add, since_ns, until_ns, self._node_name)
        unsized = () if allocatable.whole else unlisted(pod, allocatable.amounts)
        if unsized and may_preempt(pod):
            return capacities(unsized)
        marks = marks_at(self.nodes, bench.settings, add.ts_ns, self._node_name)
        nodes = self._nodes(
            add.ts_ns, pod, (found.extended, unsized), allocatable, counted.pods, marks, state
        )
        return AdmissionCase(
            add=add,
            pod=pod,
            spec_seq=found.seq,
            facts=bench.profile.admission,
            version=str(bench.profile.version),
            nodes=nodes,
            node_inputs=(*allocatable.inputs, *marks.seqs),
            others=counted.pods,
            unread=counted.unread,
            complete=counted.complete,
            labels_known=marks.labels_known,
            taints_known=marks.taints_known,
            unsized=unsized,
            named=self._told_name is not None,
            inferred=allocatable.inferred,
            pressure=pressure_on(self.pressure, pod, bench.profile.admission, since_ns, until_ns),
        )

    # -- the node ---------------------------------------------------------------------------

    @property
    def _told_name(self) -> str | None:
        """The node's name, where settings or pods tell it."""
        return hostname(self.bench.settings) or self.lists.node(self.bench.timeline)

    @property
    def _node_name(self) -> str:
        return hostname(self.bench.settings) or self.ledger_node

    ledger_node: str = ""
    """The ledger's name of the node."""

    def _allocatable(self, ts_ns: int, profile: KubeletProfile, state: NodeState) -> Allocatable:
        return self.nodes.allocatable(ts_ns, self.bench.settings, profile, state)

    def _nodes(
        self,
        ts_ns: int,
        pod: Pod,
        asked: tuple[Sequence[str], Sequence[str]],
        allocatable: Allocatable,
        others: Sequence[CountedPod],
        marks: Marks,
        state: NodeState,
    ) -> tuple[Node, ...]:
        """The node, likeliest first; ``asked`` are extended resources, and those without size."""
        own, unsized = asked
        wanted = dict.fromkeys([*own, *(r for other in others for r in other.extended)])
        devices = dict.fromkeys(unsized, str(UNSIZED))
        written: Mapping[str, str] = {}
        if wanted:
            shown = self.nodes.last(ts_ns, "allocatable")
            written = (shown.body.allocatable or {}) if shown is not None else {}
            devices |= listed_devices(wanted, state.devicemanager, written)
        late_devices: dict[str, str] | None = None
        if any(resource in devices for resource in own):
            back = self.restored.at(ts_ns)
            late_devices = lagging(wanted, state.devicemanager, written, back)
        names = self._names(pod)
        labels, taints = marks.labels, marks.taints
        late = None if late_devices is None else tuple(late_devices.items())
        key = (allocatable, self._before, names, tuple(devices.items()), late, labels, taints)
        if self._nodes_for[0] != key:
            tables = self._tables(allocatable, devices, late_devices)
            nodes = tuple(node_of(n, table, labels, taints) for n in names for table in tables)
            self._nodes_for = (key, nodes)
        return self._nodes_for[1]

    def _names(self, pod: Pod) -> tuple[str, ...]:
        """What the node may be called, likeliest first."""
        bound, told = pod.spec.node_name, self._told_name
        if not bound:
            return (self._node_name,)
        # A pod is mostly given to the kubelet of its own node, whatever that is called.
        return (bound,) if told in (None, bound) else (told, bound)

    def _tables(
        self, allocatable: Allocatable, devices: dict[str, str], late: dict[str, str] | None
    ) -> list[dict[str, str]]:
        """What the node may list, the likeliest first."""
        amounts = {n: q.canonical() for n, q in allocatable.amounts.items()}
        tables = [{**amounts, **devices}]
        if late is not None:
            # The node object lags behind the device manager.
            tables.append(amounts)
            tables.append({**amounts, **{r: str(UNCOUNTED) for r in devices}})
            tables.append({**amounts, **late})
        if self._before is not None and self._before.amounts != allocatable.amounts:
            before = {n: q.canonical() for n, q in self._before.amounts.items()}
            tables.append({**before, **devices})
        return tables


def pressure_on(
    pressure: Pressure, pod: Pod, facts: AdmissionFacts, since_ns: int, until_ns: int
) -> tuple[int, str] | None:
    """What shows that the node was too short all the time to let in this pod; None if nothing.

    Shortage of memory keeps out BestEffort pods only, and not those that tolerate its taint.

    Source: v1.20.2 pkg/kubelet/eviction/eviction_manager.go managerImpl.Admit
    """
    for condition in CONDITIONS:
        found = pressure.surely(condition, since_ns, until_ns)
        if found is None:
            continue
        if condition != "MemoryPressure":
            return found
        qos = pod_qos(
            pod,
            status_wins=facts.qos_class_from_status,
            pod_level=facts.pod_level_resources,
        )
        keys = {toleration.key or _MEMORY_TAINT for toleration in pod.spec.tolerations or ()}
        if qos == "BestEffort" and _MEMORY_TAINT not in keys:
            return found
    return None
