"""Granted devices, and those given back, in small scenes."""

import msgspec
import pytest

from kubeledger.model.bodies.devicemanager import DevicesReported, EndpointStopped
from kubeledger.model.bodies.lifecycle import ContainerStarted
from kubeledger.model.bodies.node import NodeTroubled
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Contradiction
from tests.verify.device_world import GPU, Node, device_outcomes, hint

HOLDERS = f"all holders of {GPU} at that time"


def one_pod(version: str | None = "1.36.2", limit: int = 1, **kwargs: str | None) -> Node:
    node = Node(version, **kwargs)  # type: ignore[arg-type] # only texts are given here
    node.plugin()
    node.pod("a", ("c", limit, "app"))
    return node


@pytest.mark.parametrize(
    ("device", "verdict"), [("gpu-0", "match"), ("gpu-2", "admissible"), ("gpu-9", "impossible")]
)
def test_a_free_device(device: str, verdict: str) -> None:
    """Any free device may be taken; decide takes the first one; one that is not there none."""
    node = one_pod()
    finding = node.finding(node.grant("a", device))
    assert finding.verdict == verdict
    assert "4 free healthy devices" in finding.why
    assert finding.expected == {"device_ids": ["gpu-0"]}
    assert finding.recorded == {"device_ids": [device]}
    assert finding.subject == "container/ns/a/c"


def test_only_pods_that_ended_are_let_go() -> None:
    node = one_pod()
    node.grant("a", "gpu-0")
    node.add(
        ContainerStarted(namespace="ns", pod="a", pod_uid="uid-a", container="c", container_id="x")
    )
    released = node.release("a")
    node.pod("b", ("c", 1, "app"))
    later = node.grant("b", "gpu-0")
    assert node.finding(released).missing == ("the end of the pod",)
    node.live_on("a")
    assert node.finding(released).verdict == "impossible"
    assert "container c of it ran" in node.finding(released).why
    assert node.finding(released).expected is None
    assert node.finding(later).verdict == "impossible"


def test_an_end_that_a_late_relist_tells_shows_no_life_until_then() -> None:
    """What a pod held may be given back while no relist tells that its containers are down."""
    node = one_pod()
    node.grant("a", "gpu-0")
    node.add(
        ContainerStarted(namespace="ns", pod="a", pod_uid="uid-a", container="c", container_id="x")
    )
    released, down_ns = node.release("a"), (1_000 + round(node.now)) * NS_PER_S
    node.live_on("a")
    node.add(
        NodeTroubled(
            trouble="runtime_down",
            message="connection refused",
            first_ts_ns=down_ns - 5 * NS_PER_S,
            last_ts_ns=down_ns + 9 * NS_PER_S,
            passed_ts_ns=down_ns + 10 * NS_PER_S,
        )
    )
    assert node.finding(released).missing == ("the end of the pod",)


def test_nobody_is_let_go_who_holds_nothing() -> None:
    node = one_pod()
    node.grant("a", "gpu-0")
    assert node.finding(node.release("z")).verdict == "impossible"


@pytest.mark.parametrize(("count", "limit"), [(2, 1), (1, 2)])
def test_as_many_as_the_limit(count: int, limit: int) -> None:
    node = one_pod(limit=limit)
    node.ask("a", needed=limit)
    finding = node.finding(node.grant("a", *("gpu-0", "gpu-1")[:count], ask=False))
    assert finding.verdict == "impossible"
    node = one_pod(limit=limit)
    finding = node.finding(node.grant("a", *("gpu-0", "gpu-1")[:count]))
    assert f"its spec has a limit of {limit}" in finding.why


def test_a_container_without_a_limit() -> None:
    """It gets nothing; neither does one that the pod does not have."""
    node = one_pod(limit=0)
    assert "has no limit" in node.finding(node.grant("a", "gpu-0", ask=False)).why
    node = one_pod()
    finding = node.finding(node.grant("a", "gpu-0", container="z", ask=False))
    assert (finding.verdict, "the pod has no container z" in finding.why) == ("impossible", True)


def test_the_request_is_that_container_s() -> None:
    """A grant that follows on the request of another is about that other."""
    node = one_pod()
    asked = node.ask("a")
    node.pod("b", ("c", 1, "app"))
    seq = node.grant("b", "gpu-0", ask=False)
    node.causes[seq] = asked
    finding = node.finding(seq)
    assert finding.expected == {"pod_uid": "uid-a", "container": "c", "resource": GPU}


@pytest.mark.parametrize(
    ("version", "missing"),
    [(None, "the kubelet's version"), ("1.99.0", "the rules of kubelet 1.99.0")],
)
def test_an_unknown_version(version: str | None, missing: str) -> None:
    node = one_pod(version)
    assert node.finding(node.grant("a", "gpu-0")).missing == (missing,)


def test_counts_without_ids() -> None:
    """3 of 4 healthy: any of the known devices may be the one that is not."""
    node = Node()
    node.add(DevicesReported(resource=GPU, total=4, healthy=4))
    node.pod("a", ("c", 1, "app"))
    node.pod("b", ("c", 1, "app"))
    first = node.grant("a", "gpu-0")
    node.checkpoint({("a", "c"): {"-1": ("gpu-0",)}})
    node.add(DevicesReported(resource=GPU, total=4, healthy=3))
    second = node.grant("b", "gpu-1")
    assert node.finding(first).verdict == "match"
    assert node.finding(second).missing == (f"the healthy devices of {GPU} at that time",)


def test_a_plugin_that_went_away() -> None:
    """Its devices are not healthy until it sends a list again, perhaps in a line that is lost."""
    node = one_pod()
    node.add(EndpointStopped(resource=GPU))
    gone = node.grant("a", "gpu-0")
    open_inputs = f"the healthy devices of {GPU} at that time and {HOLDERS}"
    assert node.finding(gone).missing == (open_inputs,)


def test_a_container_gets_its_devices_once() -> None:
    """In one kubelet process, nothing more is allocated to a container that holds devices."""
    node = one_pod()
    node.grant("a", "gpu-0")
    finding = node.finding(node.grant("a", "gpu-1"))
    assert finding.verdict == "impossible"
    assert "holds all it requests" in finding.why


def test_a_log_that_begins_within_a_process() -> None:
    """What was held before is not known, and no checkpoint shows it."""
    node = Node()
    node.steps.clear()
    node.start(from_start=False)
    node.plugin()
    node.pod("a", ("c", 1, "app"))
    finding = node.finding(node.grant("a", "gpu-0"))
    assert finding.missing == (f"all holders of {GPU} at that time",)


def aligned(version: str = "1.36.2", policy: str = "best-effort") -> tuple[Node, int]:
    """Two NUMA nodes; gpu-0 and gpu-1 are on node 0, gpu-2 and gpu-3 on node 1."""
    node = Node(version, policy=policy, numa=(0, 1))
    node.plugin()
    node.pod("a", ("c", 1, "app"))
    offered = node.hints("a", "c", gpu=(hint(0), hint(1), hint(0, 1, preferred=False)))
    return node, node.affinity("a", "c", hint(0), offered)


ON_NODES = {
    ("w", "c"): {"0": ("gpu-0",)},
    ("x", "c"): {"0": ("gpu-1",)},
    ("y", "c"): {"1": ("gpu-2",)},
    ("z", "c"): {"1": ("gpu-3",)},
}


def test_unknown_numa_nodes_are_named() -> None:
    """Without a checkpoint it is not known which devices are aligned."""
    node, _ = aligned()
    finding = node.finding(node.grant("a", "gpu-2"))
    assert finding.missing == (f"the NUMA nodes of gpu-0, gpu-1, gpu-2, gpu-3 of {GPU}",)


@pytest.mark.parametrize(
    ("policy", "missing"), [("best-effort", ("the affinity of container c",)), ("none", ())]
)
def test_an_affinity_that_is_not_recorded(policy: str, missing: tuple[str, ...]) -> None:
    """The policy aligns, but no decision tells to what; with none any device will do."""
    node = Node(policy=policy, numa=(0, 1))
    node.plugin()
    node.pod("a", ("c", 1, "app"))
    seq = node.grant("a", "gpu-2")
    node.checkpoint(ON_NODES)
    assert node.finding(seq).missing == missing


def test_a_static_pod_that_comes_back() -> None:
    """Its UID is that of the one before: a later checkpoint says nothing about that one."""
    node = one_pod()
    first = node.grant("a", "gpu-1")
    node.end("a")
    node.release("a")
    node.pod("a", ("c", 1, "app"))
    second = node.grant("a", "gpu-0")
    node.checkpoint({("a", "c"): {"-1": ("gpu-0",)}})
    assert node.finding(first).verdict == "admissible"
    assert node.finding(second).verdict == "match"
    assert not node.contradictions()


@pytest.mark.parametrize("runs", [True, False])
def test_a_checkpoint_lacks_what_a_pod_was_granted(runs: bool) -> None:
    """From which the import works out that it was given back; a pod that runs on keeps it."""
    node = one_pod()
    grant = node.grant("a", "gpu-1")
    node.add(
        ContainerStarted(namespace="ns", pod="a", pod_uid="uid-a", container="c", container_id="x")
    )
    if not runs:
        node.end("a")
    given_back = node.release("a", inferred=True)
    node.checkpoint({})
    if runs:
        node.live_on("a")
    sides = [[side.seq for side in each.sides] for each in node.contradictions()]
    assert sides == ([[grant, given_back]] if runs else [])


@pytest.mark.parametrize(
    ("line", "is_fine", "is_disputed"),
    [("to c", False, True), ("to it", True, True), ("to it", False, False)],
)
def test_lines_of_one_second(line: str, is_fine: bool, is_disputed: bool) -> None:
    """Which container asked is known by their order, which stamps of whole seconds do not keep."""
    node = one_pod()
    grant = node.grant("a", "gpu-1")
    started = node.add(
        ContainerStarted(namespace="ns", pod="a", pod_uid="uid-a", container="c", container_id="x")
    )
    node.checkpoint({("a", "c"): {"-1": ("gpu-0",)}})
    told = (Evidence(file="kubelet.log", line=1, text=line),)
    records = [
        msgspec.structs.replace(
            each, ts_ns=each.ts_ns // NS_PER_S * NS_PER_S + is_fine,
            evidence=told if each.seq in (grant, started) else each.evidence,
        )
        for each in node.records()
    ]  # fmt: skip
    found = [each for each in device_outcomes(records) if isinstance(each, Contradiction)]
    assert bool(found) == is_disputed


def test_a_checkpoint_with_a_wrong_checksum_counts_for_nothing() -> None:
    node = one_pod()
    grant = node.grant("a", "gpu-0")
    read = node.checkpoint({("a", "c"): {"-1": ("gpu-1",)}}, sound=False)
    assert node.finding(grant).verdict == "match"
    (contradiction,) = node.contradictions()
    assert [side.seq for side in contradiction.sides] == [read, read]


def test_what_only_a_checkpoint_shows_is_judged_at_the_admission() -> None:
    """Requests are not logged; the grant of b would be judged against a's if it were later."""
    node = Node(policy="best-effort")
    node.plugin()
    node.pod("a", ("i", 1, "init"), ("c", 2, "app"))
    for container in ("i", "c"):
        offered = node.hints("a", container, gpu=None)
        node.affinity("a", container, hint(0), offered)
    node.checkpoint({("a", "c"): {"-1": ("gpu-0", "gpu-1")}, ("a", "i"): {"-1": ("gpu-0",)}})
    node.now -= 0.1
    app = node.grant("a", "gpu-0", "gpu-1", ask=False, told_by="checkpoint")
    node.now -= 0.1
    init = node.grant("a", "gpu-0", container="i", ask=False, told_by="checkpoint")
    assert node.finding(app).verdict == "match"
    assert "gpu-0 was taken over from an init container" in node.finding(app).why
    assert node.finding(init).verdict == "match"
