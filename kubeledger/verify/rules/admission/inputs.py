"""Puts the case of an admission together from what the records say."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import product
from math import prod
from typing import Final

from msgspec.structs import replace

from kubeledger.kubelet.eviction.signals import CONDITION_OF
from kubeledger.kubelet.kube.pod import Node, NodeSpec, NodeStatus, ObjectMeta, Pod
from kubeledger.kubelet.kube.podclass import is_critical_pod, pod_qos
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.pod_objects import PodObject, PodObjects
from kubeledger.verify.evidence.timeline import Active
from kubeledger.verify.rules.admission.case import (
    UNCOUNTED,
    UNSIZED,
    AdmissionCase,
    CountedPod,
    capacities,
)
from kubeledger.verify.rules.admission.nodes import (
    Allocatable,
    Nodes,
    allocatable_at,
    device_counts,
    hostname,
)
from kubeledger.verify.rules.admission.refused import Refusals, node_name
from kubeledger.verify.variant import UNKNOWN

_MEMORY_TAINT: Final = "node.kubernetes.io/memory-pressure"
_SAID_NS: Final = NS_PER_S
"""A resize is told within so long of its decision."""
_KILLED_NS: Final = 60 * NS_PER_S
"""So long after it was chosen a victim is hardly alive."""
_TABLES_MAX: Final = 128
"""Of so many the counts of several resources are varied together."""
_SETTLED_NS: Final = 60 * NS_PER_S
"""So long after its start the kubelet has written the node's status."""


class AdmissionInputs:
    """Makes one case an admission.

    Attributes:
        nodes, objects, refusals: what the rule fills.
        shutdown: seq of the record that shows that the node shuts down; None for none.
    """

    def __init__(self, context: VerifyContext) -> None:
        self.context = context
        self.refusals = Refusals(context.timeline)
        self.nodes = Nodes(context.timeline)
        self.shutdown: int | None = None
        self.objects = PodObjects(context.pods)
        self._before: Allocatable | None = None
        self._settled_ns: int | None = None

    @cached_property
    def _name(self) -> str | None:
        return node_name(self.context.timeline)

    def terminating(self, record: Record, body: PodTerminating, state: NodeState) -> None:
        if body.reason == "shutdown":
            self.shutdown = record.seq

    def kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        """Another process: what the one before had goes on to count as the API's node object."""
        self._before = self.shutdown = None
        former, profile = self.context.former_settings, self.context.profile
        if body.restart and former.seq is not None and profile is not None:
            self._before = allocatable_at(self.nodes, record.ts_ns, former, profile, state)
        self._settled_ns = record.ts_ns + _SETTLED_NS

    def node_observed(self, record: Record, body: NodeObserved, state: NodeState) -> None:
        """What the node object shows is what machine and settings give."""
        context, settings, profile = self.context, self.context.settings, self.context.profile
        settled = self._settled_ns is not None and record.ts_ns >= self._settled_ns
        if body.allocatable is None or profile is None or context.variant.settings or not settled:
            return
        reckoned = allocatable_at(self.nodes, record.ts_ns, settings, profile, state)
        if reckoned.missing or reckoned.inferred or settings.seq not in reckoned.inputs:
            return
        assert settings.seq is not None
        for name in ("cpu", "memory", "ephemeral-storage", "pods"):
            written, amount = body.allocatable.get(name), reckoned.amounts.get(name)
            if written is None or amount is None or _reads_as(written, amount):
                continue
            why = f"the node object and the settings give different amounts of {name} for pods"
            given = settings.seq, f"the settings leave {amount.canonical()}"
            sides = (record.seq, f"allocatable is {written}"), given
            context.contradict(record.ts_ns, "node", why, *sides)

    def case_of(
        self, interval: PodActiveInterval, node: str, by_ns: int, state: NodeState
    ) -> AdmissionCase | tuple[str, ...]:
        """The case of an ADD that began an interval, judged by ``by_ns``; or what is missing."""
        context = self.context
        if context.profile is None:
            return (context.missing_profile,)
        added_ns, node = interval.added_ns or 0, hostname(context.settings) or node
        found = self.objects.at(added_ns, interval, node)
        if found is None:
            return ("the pod's spec",)
        span = context.timeline.admission_span(interval, by_ns)
        active = context.timeline.admission(interval, by_ns)
        return self._case(interval, found, active, added_ns, span, node, state)

    def case_of_resize(
        self, interval: PodActiveInterval, found: PodObject, ts_ns: int, node: str, state: NodeState
    ) -> AdmissionCase | tuple[str, ...]:
        """The case of a resize: the pod as it asks to be, beside all others; or what is missing."""
        span = ts_ns - _SAID_NS, ts_ns
        others = self.context.timeline.active(*span)
        for pods in (others.must, others.may):
            pods.pop(interval.key, None)
        return self._case(interval, found, others, ts_ns, span, node, state)

    def _case(
        self,
        interval: PodActiveInterval,
        found: PodObject,
        active: Active,
        added_ns: int,
        span: tuple[int, int],
        node: str,
        state: NodeState,
    ) -> AdmissionCase | tuple[str, ...]:
        """A case, by who counted; asked for at a time, and decided in a ``span``."""
        context, (since_ns, until_ns) = self.context, span
        profile = context.known_profile
        own_name = hostname(context.settings) or self._name
        node = hostname(context.settings) or node
        gates = context.settings.get("featureGates")
        sidecars = any(each.restart_policy for each in found.pod.spec.init_containers or ())
        if sidecars and profile.admission.sidecars_forbidden and gates is UNKNOWN:
            return ("the setting featureGates",)
        allocatable = allocatable_at(self.nodes, until_ns, context.settings, profile, state)
        if allocatable.missing and ("pods" not in allocatable.amounts or found.asked):
            return allocatable.missing
        others, unread = self._counted(active, since_ns, until_ns, node)
        most = allocatable.amounts["pods"].value()
        if sum(not other.doubtful for other in others) > most and not context.variant.settings:
            # No kubelet has admitted so many: what showed their ends, or of the settings, is lost.
            others = tuple(replace(other, doubtful=True) for other in others)
        unsized: tuple[str, ...] = ()
        if not allocatable.is_complete:
            unsized = tuple(sorted(found.asked - allocatable.amounts.keys() - {*found.extended}))
        labels_and_taints = self.nodes.labels_and_taints(added_ns, context.settings, node)
        extended = dict.fromkeys([*found.extended, *(r for o in others for r in o.extended)])
        counts = device_counts(extended, state.devicemanager, self.nodes, added_ns)
        uncounted = [each for each in found.extended if counts.get(each, [None])[:1] == [None]]
        if (unsized or uncounted) and is_critical_pod(found.pod):
            return capacities(unsized or uncounted)
        tables = self._tables(allocatable, unsized, counts, found)
        bound = found.pod.spec.node_name
        # A pod is mostly given to the kubelet of its own node, whatever that is called.
        names = [node] if not bound else dict.fromkeys([own_name or bound, bound])
        refusal = self.refusals.by_manager(interval)
        return AdmissionCase(
            interval=interval,
            pod=found.pod,
            spec_seq=found.seq,
            facts=profile.admission,
            nodes=tuple(
                Node(
                    metadata=ObjectMeta(name=name, labels=dict(labels_and_taints.labels)),
                    status=NodeStatus(allocatable=dict(table)),
                    spec=NodeSpec(taints=labels_and_taints.taints),
                )
                for name in names
                for table in tables
            ),
            node_inputs=(*allocatable.inputs, *labels_and_taints.seqs),
            asked=frozenset(context.settings.asked),
            others=others,
            unread=unread,
            complete=active.loss is None,
            refusal=refusal,
            blame=self.refusals.blame(refusal[0], profile.topology) if refusal else "",
            labels_known=labels_and_taints.labels_known,
            taints_known=labels_and_taints.taints_known,
            unsized=unsized,
            named=own_name is not None,
            inferred=allocatable.inferred,
            pressure=self._pressure_on(found.pod, profile.admission, span, state),
        )

    def _counted(
        self, active: Active, since_ns: int, until_ns: int, node: str
    ) -> tuple[tuple[CountedPod, ...], tuple[str, ...]]:
        """The pods that counted; names of those without specs."""
        pods: list[CountedPod] = []
        unread: list[str] = []
        for key, other in active.may.items():
            found = self.objects.at(since_ns, other, node)
            if found is None:
                unread.append(other.full_name)
                continue
            readings = self.objects.readings(since_ns, other, node)
            later = self.objects.at(until_ns, other, node)
            if later is not None and later.pod.spec != found.pod.spec:
                readings = (*readings, later.pod)  # it was resized meanwhile
            counted = CountedPod(
                name=other.full_name,
                pod=found.pod,
                seq=found.seq,
                doubtful=key not in active.must,
                extended=found.extended,
                alive_later=other.seen_ns > until_ns + _KILLED_NS,
                readings=readings,
            )
            pods.append(counted)
        return tuple(pods), tuple(unread)

    def _pressure_on(
        self, pod: Pod, facts: AdmissionFacts, span: tuple[int, int], state: NodeState
    ) -> tuple[int, str] | None:
        """What shows that the node was too short all the time to admit this pod; None if nothing.

        Shortage of memory keeps out BestEffort pods only, and not those that tolerate its taint.

        Source: v1.20.2 pkg/kubelet/eviction/eviction_manager.go managerImpl.Admit
        """
        if any(signal.read_ts_ns > span[0] for signal in state.images.signals.values()):
            return None  # it was admitted before, and what was read since shows nothing of that
        given, levels = facts.qos_class_from_status, facts.pod_level_resources
        keys = {toleration.key or _MEMORY_TAINT for toleration in pod.spec.tolerations or ()}
        is_best_effort = pod_qos(pod, status_wins=given, pod_level=levels) == "BestEffort"
        for condition in dict.fromkeys(CONDITION_OF.values()):
            if condition != "MemoryPressure" or (is_best_effort and _MEMORY_TAINT not in keys):
                found = self.context.node_pressure.pressure(condition, *span)
                if found.present:
                    return found.seq, found.why
        return None

    def _tables(
        self,
        allocatable: Allocatable,
        unsized: tuple[str, ...],
        counts: dict[str, list[int | None]],
        found: PodObject,
    ) -> list[dict[str, str]]:
        """What the node may list, the most likely first; of too many, one count is not likely."""
        amounts = {n: q.canonical() for n, q in allocatable.amounts.items()}
        amounts |= dict.fromkeys(unsized, str(UNSIZED))
        likely = {resource: _count(numbers[0]) for resource, numbers in counts.items()}
        asked = [resource for resource in found.extended if resource in counts]
        numbers = [counts[resource] for resource in asked]
        together: Iterable[tuple[int | None, ...]] = product(*numbers)
        if prod(map(len, numbers)) > _TABLES_MAX:
            first = tuple(each[0] for each in numbers)
            together = [first]
            for index, each in enumerate(numbers):
                together += [(*first[:index], n, *first[index + 1 :]) for n in each[1:]]
        tables = [
            {**amounts, **likely, **dict(zip(asked, map(_count, those), strict=True))}
            for those in together
        ]
        if asked:
            tables.append(amounts)
        if self._before is not None and self._before.amounts != allocatable.amounts:
            before = {n: q.canonical() for n, q in self._before.amounts.items()}
            tables.append({**before, **likely})
        return tables


def _count(number: int | None) -> str:
    return str(UNCOUNTED if number is None else number)


def _reads_as(written: str, amount: Quantity) -> bool:
    try:
        return Quantity.from_api(written) == amount
    except QuantityError:
        return True  # what cannot be read shows nothing
