"""Puts the question of an admission together from what the records tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.devicemanager.state import DeviceManagerState
from kubeledger.kube.critical import CONFIG_SOURCE
from kubeledger.kube.names import is_extended_resource
from kubeledger.kube.pod import Container, Node, Pod, Taint
from kubeledger.kube.podqos import pod_qos
from kubeledger.lifecycle.presence import known
from kubeledger.lifecycle.state import PodState
from kubeledger.machine import Record
from kubeledger.node.records import KubeletStarted, NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.profile.admission import AdmissionFacts
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.units import NS_PER_S
from kubeledger.verify.admission.foresight import Foresight
from kubeledger.verify.admission.nodes import Allocatable, Nodes, node_of
from kubeledger.verify.admission.offers import Offer, Offers, activity
from kubeledger.verify.admission.pressure import CONDITIONS, Pressure
from kubeledger.verify.admission.question import UNCOUNTED, Other, Question
from kubeledger.verify.bench import Bench
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.settings import UNKNOWN

__all__ = ["Asker", "pressure_on"]

_REMEMBERED_MAX: Final = 4096
_HOLE_NS: Final = 25 * NS_PER_S
"""So long without eviction signals, and the log has a hole."""
_MEMORY_TAINT: Final = "node.kubernetes.io/memory-pressure"


class Asker:
    """Asks one question an admission.

    Attributes:
        offers, nodes, pressure, foresight: what the verifier fills.
        whole: the log shows the present kubelet from its start, without a hole.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.foresight = Foresight()
        self.offers = Offers(self.foresight)
        self.nodes = Nodes()
        self.pressure = Pressure(bench.settings)
        self.whole = False
        self._before: Allocatable | None = None
        self._alive_ns: int | None = None
        self._typed: dict[tuple[int, str, str | None], Pod] = {}

    def kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        """Another process: what the one before had goes on to count as the API's node object."""
        self._before = None
        if body.restart and self.bench.settings.seq is not None and self.bench.profile is not None:
            self._before = self._allocatable(record.ts_ns, self.bench.profile, state)
        self.whole = body.from_start
        self._alive_ns = None
        self.offers.clear()
        self.pressure.clear()

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
        pod = self._pod(listed, offer.source)
        if pod is None:
            return ("a readable spec of the pod",)
        if offer.turn_ns is not None:
            until_ns = max(offer.ts_ns, min(until_ns, offer.turn_ns))
        allocatable = self._allocatable(until_ns, bench.profile, state)
        if allocatable.missing and ("pods" not in allocatable.amounts or _asks(pod)):
            return allocatable.missing
        since_ns = offer.ts_ns
        for other, _ in self.offers.before(offer):
            if other.batch == offer.batch and other.preempted:
                since_ns = max(since_ns, other.preempted[-1][1])
        others, unread = self._others(offer, since_ns, max(since_ns, until_ns), state)
        nodes, node_seqs, labels_known = self._nodes(offer, pod, allocatable, others, state)
        return Question(
            offer=offer,
            pod=pod,
            spec_seq=listed.seq,
            facts=bench.profile.admission,
            version=str(bench.profile.version),
            nodes=nodes,
            node_inputs=(*allocatable.inputs, *node_seqs),
            others=others,
            unread=unread,
            whole=self.whole and not self._in_a_hole(until_ns),
            labels_known=labels_known,
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

    def _pod(self, listed: ListedPod, source: str | None) -> Pod | None:
        """The object as admission gets it; None when it is not one."""
        key = (listed.seq, f"{listed.namespace}/{listed.name}", source)
        pod = self._typed.get(key)
        if pod is None:
            try:
                pod = _as_admitted(listed.as_(Pod), source)
            except msgspec.ValidationError:
                return None
            if len(self._typed) >= _REMEMBERED_MAX:
                self._typed.clear()
            self._typed[key] = pod
        return pod

    def _others(
        self, offer: Offer, since_ns: int, until_ns: int, state: NodeState
    ) -> tuple[tuple[Other, ...], tuple[str, ...]]:
        """Pods that counted, and those of them whose specs are not known."""
        others: list[Other] = []
        unread: list[str] = []
        for source, namespace, name, listed, doubtful in self._counting(
            offer, since_ns, until_ns, state
        ):
            pod = self._pod(listed, source) if listed is not None else None
            if pod is None or listed is None:
                unread.append(f"{namespace}/{name}")
            else:
                others.append(Other(f"{namespace}/{name}", pod, listed.seq, doubtful))
        return tuple(others), tuple(unread)

    def _counting(
        self, offer: Offer, since_ns: int, until_ns: int, state: NodeState
    ) -> Iterator[tuple[str | None, str, str, ListedPod | None, bool]]:
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
            word = activity(other, pod, since_ns, until_ns, workers=workers)
            if word == "gone":
                continue
            doubtful = word == "doubtful" or not certain or other.decided is None
            listed = self._listed(other, since_ns)
            yield other.source, other.namespace, other.name, listed, doubtful
        met.update(other.key for other in self.offers)
        yield from self._strangers(met, offer, since_ns, state)

    def _strangers(
        self, met: set[str], offer: Offer, since_ns: int, state: NodeState
    ) -> Iterator[tuple[str | None, str, str, ListedPod | None, bool]]:
        """Pods on the node of whose ADD nothing is known."""
        lifecycle = state.lifecycle
        for key, pod in lifecycle.pods.items():
            if key in met or not self._may_run(pod, lifecycle.kubelet_run):
                continue
            if self.offers.find(pod.uid, pod.namespace, pod.name) is not None:
                continue
            met.add(key)
            listed = self.bench.pods.at(since_ns, pod.uid, pod.namespace, pod.name)
            yield pod.source, pod.namespace, pod.name, listed, True
        if self.whole:
            return
        node = self.foresight.listed[offer.key].node if offer.key in self.foresight.listed else None
        for key, facts in self.foresight.listed.items():
            if key in met or facts.node != node or key in lifecycle.gone:
                continue
            made_ns = facts.created_ns if facts.created_ns is not None else facts.since_ns
            ended = facts.ended_ns is not None and facts.ended_ns <= since_ns
            if made_ns > since_ns or ended:
                continue
            listed = self.bench.pods.at(since_ns, key)
            if listed is not None:
                yield None, listed.namespace, listed.name, listed, True

    def _may_run(self, pod: PodState, run: int) -> bool:
        if pod.ended or pod.removed or not pod.name:
            return False
        return pod.kubelet_run == run or not self.whole

    # -- the node ---------------------------------------------------------------------------

    @property
    def _node_name(self) -> str:
        name = self.bench.settings.get("--hostname-override")
        return name if isinstance(name, str) and name else self.bench_node

    bench_node: str = ""
    """The ledger's name of the node."""

    def _allocatable(self, ts_ns: int, profile: KubeletProfile, state: NodeState) -> Allocatable:
        return self.nodes.allocatable(ts_ns, self.bench.settings, profile, state)

    def _nodes(
        self,
        offer: Offer,
        pod: Pod,
        allocatable: Allocatable,
        others: Sequence[Other],
        state: NodeState,
    ) -> tuple[tuple[Node, ...], tuple[int, ...], bool]:
        """The node, likeliest first; records of its labels; whether they are known."""
        labels, taints, seqs, labels_known = self._marks(offer.ts_ns)
        # A pod is only given to the kubelet of its own node, whatever that is called.
        name = pod.spec.node_name or self._node_name
        wanted = [r for p in (pod, *(o.pod for o in others)) for r in _extended(p)]
        shown = self.nodes.last(offer.ts_ns, "allocatable")
        written = (shown.body.allocatable or {}) if shown is not None else {}
        devices = _devices(dict.fromkeys(wanted), state.devicemanager, written)
        amounts = {n: q.canonical() for n, q in allocatable.amounts.items()}
        tables = [{**amounts, **devices}]
        if any(resource in devices for resource in _extended(pod)):
            # The node object lags behind the device manager.
            tables.append(amounts)
            tables.append({**amounts, **{r: str(UNCOUNTED) for r in devices}})
            tables.append({**amounts, **_lagging(wanted, state.devicemanager, written)})
        if self._before is not None and self._before.amounts != allocatable.amounts:
            before = {n: q.canonical() for n, q in self._before.amounts.items()}
            tables.append({**before, **devices})
        return tuple(node_of(name, t, labels, taints) for t in tables), seqs, labels_known

    def _marks(
        self, ts_ns: int
    ) -> tuple[Mapping[str, str], tuple[Taint, ...], tuple[int, ...], bool]:
        """Labels and taints."""
        shown = self.nodes.last(ts_ns, "labels")
        if shown is None:
            labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": self._node_name}
            return labels, self._registered_taints(), (), False
        return shown.body.labels, _taints(shown.body), (), True

    def _registered_taints(self) -> tuple[Taint, ...]:
        taints = self.bench.settings.get("registerWithTaints")
        if taints is UNKNOWN or not isinstance(taints, list):
            return ()
        try:
            return msgspec.convert(taints, tuple[Taint, ...])
        except msgspec.ValidationError:
            return ()


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


def _as_admitted(pod: Pod, source: str | None) -> Pod:
    """Requests that only limits are given for are those, and a static pod is marked as one.

    The API server and the kubelet do so before admission; a manifest does not hold it yet.
    """
    spec = pod.spec
    containers = tuple(map(_defaulted, spec.containers or ()))
    inits = tuple(map(_defaulted, spec.init_containers or ()))
    spec = msgspec.structs.replace(
        spec,
        containers=containers,
        init_containers=inits if spec.init_containers is not None else None,
    )
    metadata = pod.metadata
    if source in ("file", "http") and CONFIG_SOURCE not in (metadata.annotations or {}):
        annotations = {**(metadata.annotations or {}), CONFIG_SOURCE: source}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return msgspec.structs.replace(pod, spec=spec, metadata=metadata)


def _defaulted(container: Container) -> Container:
    resources = container.resources
    if resources is None or not resources.limits:
        return container
    requests = {**resources.limits, **(resources.requests or {})}
    if requests == resources.requests:
        return container
    resources = msgspec.structs.replace(resources, requests=requests)
    return msgspec.structs.replace(container, resources=resources)


def _asks(pod: Pod) -> bool:
    """Whether the pod asks for anything; one that does not fits wherever a pod may be added."""
    spec = pod.spec
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    asked = [c.resources.requests for c in containers if c.resources is not None]
    return any(asked) or bool(spec.overhead) or spec.resources is not None


def _extended(pod: Pod) -> Iterator[str]:
    """Extended resources that a pod asks for."""
    spec = pod.spec
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        if container.resources is not None:
            yield from filter(is_extended_resource, container.resources.requests or {})


def _devices(
    resources: Mapping[str, None], manager: DeviceManagerState, written: Mapping[str, str]
) -> dict[str, str]:
    """Extended resource -> how many the node lists; one that it does not list is left out."""
    amounts: dict[str, str] = {}
    for resource in resources:
        plugin = manager.resources.get(resource)
        held = _held(resource, manager)
        if plugin is not None or held:
            healthy = plugin.healthy if plugin is not None else 0
            amounts[resource] = str(UNCOUNTED if healthy is None else max(healthy, len(held)))
        elif resource in written:
            amounts[resource] = written[resource]
    return amounts


def _lagging(
    resources: Iterable[str], manager: DeviceManagerState, written: Mapping[str, str]
) -> dict[str, str]:
    """The same by the node object, which is written every ten seconds; at least what is in use.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go sanitizeNodeAllocatable
    """
    amounts: dict[str, str] = {}
    for resource in resources:
        held, shown = len(_held(resource, manager)), written.get(resource)
        if held or shown is not None:
            listed = int(shown) if shown is not None and shown.isdecimal() else 0
            amounts[resource] = str(max(listed, held))
    return amounts


def _held(resource: str, manager: DeviceManagerState) -> set[str]:
    """Devices of a resource that containers hold."""
    return {
        device
        for containers in manager.pods.values()
        for by_resource in containers.values()
        if resource in by_resource
        for device in by_resource[resource].device_ids
    }


def _taints(body: NodeObserved) -> tuple[Taint, ...]:
    return tuple(
        Taint(key=t.get("key", ""), value=t.get("value", ""), effect=t.get("effect", ""))
        for t in body.taints
    )
