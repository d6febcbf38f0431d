"""Puts the question of an admission together from what the records tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.kube.keys import name_key
from kubeledger.kube.pod import Node, Pod
from kubeledger.kube.podqos import pod_qos
from kubeledger.lifecycle.presence import known
from kubeledger.lifecycle.records import PodTerminating
from kubeledger.lifecycle.state import PodState
from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.preemption.decider import may_preempt
from kubeledger.profile.admission import AdmissionFacts
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.units import NS_PER_S
from kubeledger.verify.admission.devices import Restored, lagging
from kubeledger.verify.admission.devices import devices as listed_devices
from kubeledger.verify.admission.foresight import Foresight
from kubeledger.verify.admission.marks import Marks, hostname, marks_at
from kubeledger.verify.admission.nodes import Allocatable, Nodes, node_of
from kubeledger.verify.admission.offers import Offer, Offers, activity
from kubeledger.verify.admission.podspecs import (
    as_admitted,
    asks_for_anything,
    extended_of,
    unlisted,
)
from kubeledger.verify.admission.pressure import CONDITIONS, Pressure
from kubeledger.verify.admission.question import UNCOUNTED, UNSIZED, Other, Question, capacities
from kubeledger.verify.admission.ran_out import SETTLING_NS, ends_by_itself, running
from kubeledger.verify.bench import Bench
from kubeledger.verify.pods import ListedPod

__all__ = ["Asker", "pressure_on"]

_REMEMBERED_MAX: Final = 4096
_HOLE_NS: Final = 25 * NS_PER_S
"""So long without eviction signals, and the log has a hole."""
_Counting = tuple[str, str | None, str, str, ListedPod | None, bool]
"""Key, source, namespace and name of a pod, its object, and whether it is doubtful."""

_KILLED_NS: Final = 60 * NS_PER_S
"""So long after it was chosen a victim is hardly alive."""
_ENDING_NS: Final = 2 * NS_PER_S
"""A pod that was there a moment ago has not come to its end yet."""
_MEMORY_TAINT: Final = "node.kubernetes.io/memory-pressure"


class Asker:
    """Asks one question an admission.

    Attributes:
        offers, nodes, pressure, foresight, restored: what the verifier fills.
        shutdown: seq of the record that shows that the node shuts down; None for none.
        whole: the log shows the present kubelet from its start, without a hole.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.foresight = Foresight()
        self.offers = Offers(self.foresight)
        self.nodes = Nodes(bench.capacities)
        self.pressure = Pressure(bench.settings)
        self.whole = False
        self.restored = Restored()
        self.shutdown: int | None = None
        self._before: Allocatable | None = None
        self._alive_ns: int | None = None
        self._typed: dict[tuple[ListedPod, str | None], tuple[Pod, tuple[str, ...]]] = {}
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
        self.whole = body.from_start
        self._alive_ns = None
        self.restored.kubelet_started(record.ts_ns)
        self.offers.clear()
        self.pressure.begin(record.ts_ns if body.from_start else None)

    def alive_at(self, ts_ns: int) -> None:
        """The eviction manager read a signal, as it does every ten seconds."""
        if self._alive_ns is not None and ts_ns - self._alive_ns > _HOLE_NS:
            self.whole = False
        self._alive_ns = ts_ns

    def ask(self, offer: Offer, until_ns: int, state: NodeState) -> Question | tuple[str, ...]:
        """The question about an offer, with the state at ``until_ns``; or what is missing."""
        bench = self.bench
        if bench.profile is None:
            return (bench.missing_profile,)
        listed = self._listed(offer, offer.ts_ns)
        if listed is None:
            return ("the pod's spec",)
        typed = self._pod(listed, offer.source)
        if typed is None:
            return ("a readable spec of the pod",)
        pod, extended = typed
        if offer.turn_ns is not None:
            until_ns = max(offer.ts_ns, min(until_ns, offer.turn_ns))
        allocatable = self._allocatable(until_ns, bench.profile, state)
        if allocatable.missing and ("pods" not in allocatable.amounts or asks_for_anything(pod)):
            return allocatable.missing
        since_ns = offer.ts_ns
        for other, _ in self.offers.before(offer):
            if other.batch == offer.batch and other.preempted:
                since_ns = max(since_ns, other.preempted[-1][1])
        others, unread = self._others(offer, since_ns, max(since_ns, until_ns), state)
        unsized = () if allocatable.whole else unlisted(pod, allocatable.amounts)
        if unsized and may_preempt(pod):
            return capacities(unsized)
        marks = marks_at(self.nodes, bench.settings, offer.ts_ns, self._node_name)
        nodes = self._nodes(
            offer.ts_ns, pod, (extended, unsized), allocatable, others, marks, state
        )
        return Question(
            offer=offer,
            pod=pod,
            spec_seq=listed.seq,
            facts=bench.profile.admission,
            version=str(bench.profile.version),
            nodes=nodes,
            node_inputs=(*allocatable.inputs, *marks.seqs),
            others=others,
            unread=unread,
            whole=self.whole and not self._in_a_hole(until_ns),
            labels_known=marks.labels_known,
            taints_known=marks.taints_known,
            unsized=unsized,
            named=self._told_name is not None,
            inferred=allocatable.inferred,
            pressure=pressure_on(self.pressure, pod, bench.profile.admission, since_ns, until_ns),
        )

    def _in_a_hole(self, ts_ns: int) -> bool:
        return self._alive_ns is not None and ts_ns - self._alive_ns > _HOLE_NS

    # -- pods -----------------------------------------------------------------------------

    def _listed(self, offer: Offer, ts_ns: int) -> ListedPod | None:
        pods = self.bench.pods
        listed = pods.at(ts_ns, offer.uid, offer.namespace, offer.name)
        if listed is None and offer.uid is not None:
            listed = pods.at(ts_ns, None, offer.namespace, offer.name)
            if listed is not None and listed.uid not in (None, offer.uid):
                listed = None
        if listed is None and offer.is_static:
            # A static pod's name is that of its manifest and the node.
            stem, dash, _ = offer.name.partition(f"-{self._node_name}")
            listed = pods.at(ts_ns, None, offer.namespace, stem) if dash else None
        return listed

    def _pod(self, listed: ListedPod, source: str | None) -> tuple[Pod, tuple[str, ...]] | None:
        """The object as admission gets it, and extended resources; None when it is no pod."""
        key = (listed, source)
        typed = self._typed.get(key)
        if typed is None:
            try:
                pod = as_admitted(listed.as_(Pod), source)
            except msgspec.ValidationError:
                return None
            if len(self._typed) >= _REMEMBERED_MAX:
                self._typed.clear()
            typed = self._typed[key] = (pod, tuple(extended_of(pod)))
        return typed

    def _others(
        self, offer: Offer, since_ns: int, until_ns: int, state: NodeState
    ) -> tuple[tuple[Other, ...], tuple[str, ...]]:
        """Pods that counted, and those of them whose specs are not known."""
        others: list[Other] = []
        unread: list[str] = []
        for key, source, namespace, name, listed, doubtful in self._counting(
            offer, since_ns, until_ns, state
        ):
            typed = self._pod(listed, source) if listed is not None else None
            if typed is None or listed is None:
                unread.append(name_key(namespace, name))
            else:
                pod, extended = typed
                full_name = name_key(namespace, name)
                pod = _told_apart(pod, key)
                shown_ns = self.foresight.shown_alive(listed.uid, namespace, name)
                lives = shown_ns > until_ns + _KILLED_NS
                others.append(Other(full_name, pod, listed.seq, doubtful, extended, lives))
        return tuple(others), tuple(unread)

    def _counting(
        self, offer: Offer, since_ns: int, until_ns: int, state: NodeState
    ) -> Iterator[_Counting]:
        assert self.bench.profile is not None
        workers = self.bench.profile.admission.terminating_pods_count
        met = {offer.key}
        for other, certain in self.offers.before(offer):
            met.add(other.key)
            if other.decided is None and other.had_ended:
                continue
            if other.decided is not None and not other.decided.admitted:
                continue
            pod = known(state.lifecycle, other.uid, other.namespace, other.name)
            listed = self._listed(other, since_ns)
            word = activity(other, pod, listed, since_ns, until_ns, workers=workers)
            if word == "gone":
                continue
            # The lines of its end may be lost.
            shown_ns = self.foresight.shown_alive(other.uid, other.namespace, other.name)
            doubtful = word == "doubtful" or not certain or other.decided is None
            shown_ns = max(shown_ns, other.decided.at[0] if other.decided else 0)
            doubtful = doubtful or shown_ns + _ENDING_NS < until_ns
            doubtful = doubtful or self._may_be_done(other, pod, listed, until_ns)
            yield other.key, other.source, other.namespace, other.name, listed, doubtful
        met.update(other.key for other in self.offers)
        yield from self._strangers(met, offer, since_ns, state)

    def _may_be_done(
        self, other: Offer, pod: PodState | None, listed: ListedPod | None, until_ns: int
    ) -> bool:
        """Whether a pod may have ended of which the records tell no end yet.

        It may have under another process: a static pod is let in again. And its containers may
        be down before the sync loop gets to tell so, which waits while an admission does.
        """
        if pod is None or not ends_by_itself(pod, listed):
            return False
        if not pod.containers:
            at = (other.ts_ns, other.seq)
            return self.foresight.had_before(at, other.namespace, other.name, other.uid)
        last = running(pod, listed)
        dead_ns = self.foresight.life.dead_by(other.uid, other.namespace, other.name, last)
        return dead_ns is not None and dead_ns <= until_ns + SETTLING_NS

    def _strangers(
        self, met: set[str], offer: Offer, since_ns: int, state: NodeState
    ) -> Iterator[_Counting]:
        """Pods on the node of whose ADD nothing is known."""
        lifecycle = state.lifecycle
        for key, pod in lifecycle.pods.items():
            if key in met or not self._may_run(pod, lifecycle.kubelet_run):
                continue
            if self.offers.find(pod.uid, pod.namespace, pod.name) is not None:
                continue
            met.add(key)
            listed = self.bench.pods.at(since_ns, pod.uid, pod.namespace, pod.name)
            yield key, pod.source, pod.namespace, pod.name, listed, True
        at = (offer.ts_ns, offer.seq)
        node = self.foresight.listed[offer.key].node if offer.key in self.foresight.listed else None
        # What was listed before is known to the state, or gone.
        for key, facts in self.foresight.listed_next(since_ns):
            if key in met or facts.node != node or key in lifecycle.gone:
                continue
            made_ns = facts.created_ns if facts.created_ns is not None else facts.since_ns
            ended = facts.ended_ns is not None and facts.ended_ns <= since_ns
            if made_ns > since_ns or ended:
                continue
            listed = self.bench.pods.at(since_ns, key)
            if listed is None:
                continue
            # Of a log that begins with the kubelet only the line of its ADD can be lost.
            who = (listed.namespace, listed.name, listed.uid)
            if not (self.whole and self.foresight.handed_over(at, *who)):
                yield key, None, listed.namespace, listed.name, listed, True

    def _may_run(self, pod: PodState, run: int) -> bool:
        if pod.ended or pod.removed or not pod.name:
            return False
        return pod.kubelet_run == run or not self.whole

    # -- the node ---------------------------------------------------------------------------

    @property
    def _told_name(self) -> str | None:
        """The node's name, where settings or pods tell it."""
        return hostname(self.bench.settings) or self.foresight.node

    @property
    def _node_name(self) -> str:
        return hostname(self.bench.settings) or self.bench_node

    bench_node: str = ""
    """The ledger's name of the node."""

    def _allocatable(self, ts_ns: int, profile: KubeletProfile, state: NodeState) -> Allocatable:
        return self.nodes.allocatable(ts_ns, self.bench.settings, profile, state)

    def _nodes(
        self,
        ts_ns: int,
        pod: Pod,
        asked: tuple[Sequence[str], Sequence[str]],
        allocatable: Allocatable,
        others: Sequence[Other],
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


def _told_apart(pod: Pod, key: str) -> Pod:
    """A manifest holds no UID, by which preemption tells pods apart."""
    if pod.metadata.uid:
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=key))


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
