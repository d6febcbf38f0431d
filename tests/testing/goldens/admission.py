"""Admission: every predicate's refusal, and who is let in nevertheless."""

from typing import Any

from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodListed, PodRejected
from tests.testing.goldens.registry import Lie, maker_of
from tests.testing.goldens.world import CRITICAL, GIB, MIB, World, container, requests

__all__: list[str] = []

golden = maker_of(World)
FIT = ("1.20.2", "1.36.2")
"""The words of a refusal changed in between."""
OLD = "1.20.2"


def asking(cpu: str | None = None, memory: str | None = None) -> dict[str, Any]:
    """A container with requests."""
    return container(resources=requests(cpu, memory))


def refused(
    node: World,
    name: str,
    reason: str,
    message: str,
    *containers: dict[str, Any],
    **spec: Any,  # noqa: ANN401 # any field of a spec
) -> int:
    """A pod is handed over and refused; the seq of the refusal."""
    node.handed(name)
    seq = node.add(PodRejected(**node.of(name), reason=reason, message=message))
    node.listed(name, *containers, **spec)
    return seq


def short(resource: str, requested: int, used: int, capacity: int) -> str:
    """The kubelet's words for a resource that does not suffice."""
    return (
        f"Node didn't have enough resource: {resource}, requested: {requested}, "
        f"used: {used}, capacity: {capacity}"
    )


@golden("admission-out-of-cpu", "1.20.2", "1.28.0", "1.36.2")
def out_of_cpu(node: World) -> Lie:
    """Two pods fit, the third asks for more millicores than are left."""
    node.pod("first", asking("2500m"))
    node.pod("second", asking("1"))
    seq = refused(node, "third", "OutOfcpu", short("cpu", 600, 3500, 4000), asking("600m"))
    return Lie(seq, {"message": short("cpu", 600, 3400, 4000)})


@golden("admission-fits")
def fits(node: World) -> Lie:
    """What fits to the last millicore is let in."""
    node.pod("first", asking("2500m"))
    node.handed("second")
    admitted = node.add(PodAdmitted(**node.of("second")))
    listed = node.listed("second", asking("1500m"))
    body = node.records[-1].body
    assert isinstance(body, PodListed)
    spec = {**(body.spec or {}), "containers": [asking("1501m")]}
    return Lie(listed, {"spec": spec}, blames=admitted)


@golden("admission-out-of-memory", *FIT)
def out_of_memory(node: World) -> Lie:
    """The hard eviction threshold of memory comes off what pods can have."""
    capacity = 8 * GIB - 100 * MIB
    node.pod("first", asking(memory="6Gi"))
    words = short("memory", 2 * GIB, 6 * GIB, capacity)
    seq = refused(node, "second", "OutOfmemory", words, asking(memory="2Gi"))
    return Lie(seq, {"reason": "OutOfcpu"})


@golden("admission-out-of-pods", *FIT, maxPods=2)
def out_of_pods(node: World) -> Lie:
    """As many pods as maxPods says, and no more."""
    node.pod("first")
    node.pod("second")
    seq = refused(node, "third", "OutOfpods", short("pods", 1, 2, 2))
    return Lie(seq, {"message": short("pods", 1, 3, 3)})


@golden("admission-init-containers")
def init_containers(node: World) -> Lie:
    """The greatest init container counts where it asks for more than the app containers."""
    init = ({**asking("3"), "name": "init"},)
    node.pod("first", asking("2"))
    words = short("cpu", 3000, 2000, 4000)
    seq = refused(node, "second", "OutOfcpu", words, asking("1"), init=init)
    return Lie(seq, {"message": short("cpu", 1000, 2000, 4000)})


@golden("admission-overhead")
def overhead(node: World) -> Lie:
    """The overhead of the runtime class is part of the request."""
    words = short("cpu", 4100, 0, 4000)
    seq = refused(node, "first", "OutOfcpu", words, asking("4"), overhead={"cpu": "100m"})
    return Lie(seq, {"message": short("cpu", 4001, 0, 4000)})


@golden("admission-sidecar-request")
def sidecar_request(node: World) -> Lie:
    """A restartable init container asks for its share beside the app containers."""
    proxy = ({**asking("2"), "name": "proxy", "restartPolicy": "Always"},)
    words = short("cpu", 5000, 0, 4000)
    seq = refused(node, "first", "OutOfcpu", words, asking("3"), init=proxy)
    return Lie(seq, {"message": short("cpu", 3000, 0, 4000)})


@golden("admission-sidecar-forbidden", "1.28.0")
def sidecar_forbidden(node: World) -> Lie:
    """In 1.28 restartable init containers are known, and off: pods with one are refused."""
    proxy = ({**container("proxy"), "restartPolicy": "Always"},)
    words = 'Init container "proxy" may not have a non-default restartPolicy'
    seq = refused(node, "first", "InitContainerRestartPolicyForbidden", words, init=proxy)
    return Lie(seq, {"message": words.replace("proxy", "app")})


def _predicate(version: str, name: str, description: str) -> str:
    return f"Predicate {name} failed" + ("" if version == OLD else f": {description}")


@golden("admission-node-affinity", *FIT, labels={"kubernetes.io/os": "linux", "zone": "a"})
def node_affinity(node: World) -> Lie:
    """The node selector asks for another zone."""
    words = _predicate(
        node.version, "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"
    )
    seq = refused(node, "first", "NodeAffinity", words, nodeSelector={"zone": "b"})
    return Lie(seq, {"reason": "NodeName"})


@golden("admission-node-ports", *FIT, labels={"kubernetes.io/os": "linux"})
def node_ports(node: World) -> Lie:
    """A host port is taken."""
    web = container(ports=[{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}])
    node.pod("first", web)
    words = _predicate(
        node.version, "NodePorts", "node(s) didn't have free ports for the requested pod ports"
    )
    seq = refused(node, "second", "NodePorts", words, web)
    return Lie(seq, {"message": words + "."})


@golden(
    "admission-taints",
    labels={"kubernetes.io/os": "linux"},
    taints=({"key": "maintenance", "effect": "NoExecute", "value": "true"},),
)
def taints(node: World) -> Lie:
    """A NoExecute taint keeps out who does not tolerate it; who does is judged by the rest."""
    words = _predicate(
        node.version, "TaintToleration", "node(s) had taints that the pod didn't tolerate"
    )
    refused(node, "first", "TaintToleration", words)
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    words = short("cpu", 5000, 0, 4000)
    seq = refused(node, "second", "OutOfcpu", words, asking("5"), **tolerant)
    return Lie(seq, {"reason": "OutOfmemory"})


@golden("admission-os", "1.28.0", "1.36.2", labels={"kubernetes.io/os": "linux"})
def other_os(node: World) -> Lie:
    """The pod is for another operating system."""
    words = "Failed to admit pod as the OS field doesn't match node OS"
    seq = refused(node, "first", "PodOSNotSupported", words, os={"name": "windows"})
    return Lie(seq, {"reason": "PodOSSelectorNodeLabelDoesNotMatch"})


@golden("admission-pressure", *FIT)
def pressure(node: World) -> Lie:
    """Under memory pressure BestEffort pods are refused, and critical ones are let in."""
    for turn in range(3):
        node.wait(10)
        _signal(node, "memory.available", 50 * MIB)
        _signal(node, "imagefs.available", 4 * GIB)
        if turn == 0:
            node.add(_SHORT)
    node.wait(2)
    node.pod("critical", priority=CRITICAL)
    words = "The node had condition: [MemoryPressure]. "
    seq = refused(node, "batch", "Evicted", words)
    node.wait(5)
    _signal(node, "memory.available", 50 * MIB)
    return Lie(seq, {"message": "The node had condition: [DiskPressure]. "})


_SHORT = NodeConditionsChanged(conditions=("MemoryPressure",), observed=("MemoryPressure",))


def _signal(node: World, name: str, available: int) -> None:
    node.add(EvictionSignalObserved(signal=name, available=available, capacity=8 * GIB))


@golden("admission-critical")
def critical(node: World) -> Lie:
    """A critical pod that fits is let in without anyone making room."""
    node.pod("first", asking("3"))
    seq = node.pod("critical", asking("1"), priority=CRITICAL)
    return Lie(seq, {"pod_uid": "uid-first"})
