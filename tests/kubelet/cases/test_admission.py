"""Admission: every predicate; version boundaries; why a claim is impossible."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines

LINES = Lines("admission")
CRITICAL = 2_000_000_000


def pod(uid: str = "p", requests: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": requests or {}}}]
    return {"metadata": {"name": uid, "uid": uid}, "spec": {"containers": containers, **spec}}


def static(a_pod: dict[str, Any]) -> dict[str, Any]:
    annotations = {"kubernetes.io/config.source": "file"}
    return {**a_pod, "metadata": {**a_pod["metadata"], "annotations": annotations}}


def sidecar(**requests: str) -> dict[str, Any]:
    """An init container that runs on."""
    return {"name": "side", "restartPolicy": "Always", "resources": {"requests": requests}}


def node(
    labels: dict[str, str] | None = None, gpu: str | None = None, **allocatable: str
) -> dict[str, Any]:
    """A node named n1 with 4 cores and 8 GiB, unless said otherwise."""
    has = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"} | allocatable
    if gpu is not None:
        has["example.com/gpu"] = gpu
    metadata = {"name": "n1", "labels": labels or {"zone": "a"}}
    return {"metadata": metadata, "status": {"allocatable": has}}


def case(
    a_pod: dict[str, Any], *active: dict[str, Any], on: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"node": on or node(), "pod": a_pod, "activePods": list(active)}


def reason(kubelet: str, an_input: object) -> str:
    return str(LINES.decided(kubelet, an_input)["reason"])


def admitted(*victims: str) -> dict[str, Any]:
    return {"admit": True, "reason": "", "message": "", "victims": list(victims)}


@pytest.mark.parametrize(
    ("a_pod", "expected"),
    [
        pytest.param(pod(requests={"cpu": "4"}), "", id="just fits"),
        pytest.param(pod(requests={"cpu": "4001m"}), "OutOfcpu", id="cpu"),
        pytest.param(pod(requests={"memory": "9Gi"}), "OutOfmemory", id="memory"),
        pytest.param(pod(requests={"ephemeral-storage": "11Gi"}), "OutOfephemeral-storage",
                     id="ephemeral storage"),
        pytest.param(pod(requests={"hugepages-2Mi": "2Mi"}), "OutOfhugepages-2Mi",
                     id="hugepages unlisted"),
        pytest.param(pod(requests={"example.com/gpu": "1"}), "", id="cluster-level resource"),
        pytest.param(pod(requests={"cpu": "1"}, overhead={"cpu": "4"}), "OutOfcpu", id="overhead"),
        pytest.param(pod(overhead={"cpu": "5"}), "OutOfcpu",
                     id="overhead of a pod without request"),
        pytest.param(pod(nodeSelector={"zone": "b"}), "NodeAffinity", id="nodeSelector"),
        pytest.param(pod(nodeName="n2"), "NodeName", id="node name"),
        pytest.param(pod(nodeName="n2", nodeSelector={"zone": "b"}), "NodeAffinity", id="order"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", ["1.19.0", "1.23.17", "1.27.3", "1.31.0", "1.36.2"])
def test_predicates(version: str, a_pod: dict[str, Any], expected: str) -> None:
    outcome = LINES.decided(version, case(a_pod))
    assert (outcome["admit"], outcome["reason"]) == (not expected, expected)


def test_message_of_a_resource() -> None:
    """Amounts in millicores, with what the other pods take."""
    an_input = case(pod(requests={"cpu": "500m"}), pod("a", {"cpu": "3900m"}))
    expected = "Node didn't have enough resource: cpu, requested: 500, used: 3900, capacity: 4000"
    assert LINES.decided("1.20.2", an_input)["message"] == expected


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        pytest.param({"hostPort": 80}, "NodePorts", id="same port, no protocol is TCP"),
        pytest.param({"hostPort": 80, "hostIP": "10.0.0.1"}, "NodePorts", id="IP against all"),
        pytest.param({"hostPort": 80, "protocol": "UDP"}, "", id="other protocol"),
        pytest.param({"hostPort": 81, "hostIP": "10.0.0.2"}, "", id="other IP"),
        pytest.param({"hostPort": 81, "hostIP": "10.0.0.1"}, "NodePorts", id="same IP"),
        pytest.param({"hostPort": 0}, "", id="no host port"),
    ],
)
def test_host_ports(port: dict[str, Any], expected: str) -> None:
    """Conflicts of host ports by IP, protocol and number."""
    taken = pod("a")
    taken["spec"]["containers"][0]["ports"] = [
        {"hostPort": 80, "protocol": "TCP"},
        {"hostPort": 81, "hostIP": "10.0.0.1", "protocol": "TCP"},
    ]
    wants = pod()
    wants["spec"]["containers"][0]["ports"] = [port]
    assert reason("1.36.2", case(wants, taken)) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.33.5", ""), ("1.33.6", "NodePorts"), ("1.34.0", "NodePorts"), ("1.32.9", "")],
)
def test_host_ports_of_sidecars(version: str, expected: str) -> None:
    """They count since 1.34, and 1.33.6."""
    ports = [{"hostPort": 80}]
    taken = pod("a", initContainers=[{**sidecar(), "ports": ports}])
    wants = pod(initContainers=[{**sidecar(), "ports": ports}])
    assert reason(version, case(wants, taken)) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([{"key": "zone", "operator": "In", "values": ["a", "b"]}], True, id="In"),
        pytest.param([{"key": "zone", "operator": "NotIn", "values": ["a"]}], False, id="NotIn"),
        pytest.param([{"key": "x", "operator": "NotIn", "values": ["a"]}], True, id="NotIn absent"),
        pytest.param([{"key": "zone", "operator": "Exists"}], True, id="Exists"),
        pytest.param([{"key": "zone", "operator": "DoesNotExist"}], False, id="DoesNotExist"),
        pytest.param([{"key": "gen", "operator": "Gt", "values": ["2"]}], True, id="Gt"),
        pytest.param([{"key": "gen", "operator": "Lt", "values": ["3"]}], False, id="Lt"),
        pytest.param([{"key": "gen", "operator": "Gt", "values": ["x"]}], False, id="no number"),
        pytest.param([{"key": "zone", "operator": "In"}], False, id="In without values"),
        pytest.param([{"key": "zone", "operator": "Is", "values": ["a"]}], False, id="unknown"),
        pytest.param([], False, id="an empty term matches nothing"),
    ],
)
def test_node_affinity(terms: list[dict[str, Any]], expected: bool) -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    an_input = case(pod(affinity=affinity), on=node({"zone": "a", "gen": "3"}))
    assert LINES.decided("1.28.0", an_input)["admit"] is expected


def test_node_affinity_by_name() -> None:
    """By one of the two operators that fields have."""
    for operator, name, admits in (("In", "n1", True), ("In", "n2", False), ("Gt", "n2", False)):
        field = {"key": "metadata.name", "operator": operator, "values": [name]}
        required = {"nodeSelectorTerms": [{}, {"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        assert LINES.decided("1.28.0", case(pod(affinity=affinity)))["admit"] is admits


@pytest.mark.parametrize(
    ("version", "tolerations", "expected"),
    [
        ("1.23.0", [], ""),
        ("1.24.0", [], "TaintToleration"),
        ("1.24.0", [{"key": "k", "operator": "Exists"}], ""),
        ("1.24.0", [{"operator": "Exists"}], ""),
        ("1.24.0", [{"key": "k", "value": "v"}], ""),
        ("1.24.0", [{"key": "k", "value": "w"}], "TaintToleration"),
        ("1.24.0", [{"key": "k", "value": "v", "effect": "NoSchedule"}], "TaintToleration"),
        ("1.36.2", [{"key": "k", "operator": "Gt", "value": "0"}], "TaintToleration"),
    ],
)
def test_taints(version: str, tolerations: list[dict[str, str]], expected: str) -> None:
    """NoExecute counts, NoSchedule does not; static pods stand all."""
    taints = [
        {"key": "s", "effect": "NoSchedule"},
        {"key": "k", "value": "v", "effect": "NoExecute"},
    ]
    on = node() | {"spec": {"taints": taints}}
    assert reason(version, case(pod(tolerations=tolerations), on=on)) == expected
    assert reason(version, case(static(pod(tolerations=tolerations)), on=on)) == ""


@pytest.mark.parametrize(
    ("version", "victims", "expected"),
    [
        pytest.param("1.22.0", ["v"], "", id="not looked at"),
        pytest.param("1.23.0", ["v"], "PodOSNotSupported", id="after the victims were killed"),
        pytest.param("1.29.0", [], "PodOSNotSupported", id="before all else"),
    ],
)
def test_other_system(version: str, victims: list[str], expected: str) -> None:
    """When the system is checked decides whether pods die for nothing."""
    wants = pod(requests={"cpu": "4"}, priority=CRITICAL, os={"name": "windows"})
    outcome = LINES.decided(version, case(wants, pod("v", {"cpu": "1"})))
    assert (outcome["reason"], outcome["victims"]) == (expected, victims)


def test_label_of_the_system() -> None:
    """It is the pod's label that counts; the node gets the kubelet's own."""
    wants = pod(nodeSelector={"kubernetes.io/os": "linux"})
    assert reason("1.28.0", case(wants)) == "NodeAffinity"
    assert reason("1.29.0", case(wants)) == ""
    wants["metadata"]["labels"] = {"kubernetes.io/os": "windows"}
    assert reason("1.29.0", case(wants)) == "PodOSSelectorNodeLabelDoesNotMatch"


def test_supplemental_groups() -> None:
    """Strict needs a node that says it can."""
    wants = pod(securityContext={"supplementalGroupsPolicy": "Strict"})
    assert reason("1.32.0", case(wants)) == ""
    refused = LINES.decided("1.33.0", case(wants))
    assert refused["reason"] == "SupplementalGroupsPolicyNotSupported"
    assert refused["message"] == "SupplementalGroupsPolicy=Strict is not supported in this node"
    able = node()
    able["status"]["features"] = {"supplementalGroupsPolicy": True}
    assert reason("1.33.0", case(wants, on=able)) == ""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("1.27.0", "", id="a sidecar is an init container like any"),
        pytest.param("1.28.5", "InitContainerRestartPolicyForbidden", id="the gate is off"),
        pytest.param("1.29.0", "OutOfcpu", id="it runs beside the containers"),
    ],
)
def test_sidecars(version: str, expected: str) -> None:
    """How much a pod with a sidecar asks for."""
    wants = pod(requests={"cpu": "2"}, initContainers=[sidecar(cpu="2500m")])
    assert reason(version, case(wants)) == expected


@pytest.mark.parametrize(("version", "expected"), [("1.33.0", "OutOfcpu"), ("1.34.0", "")])
def test_requests_of_the_whole_pod(version: str, expected: str) -> None:
    wants = pod(requests={"cpu": "5"}, resources={"requests": {"cpu": "1"}})
    assert reason(version, case(wants)) == expected
    assert reason(version, case(pod("q", {"cpu": "1"}), wants)) == expected


@pytest.mark.parametrize(
    ("version", "expected"), [("1.27.0", "OutOfcpu"), ("1.28.0", ""), ("1.36.2", "")]
)
def test_nothing_asked_of_what_is_overcommitted(version: str, expected: str) -> None:
    """A pod without cpu request was kept out by cpu, if it asked for anything else."""
    overcommitted = pod("a", {"cpu": "5"})
    assert reason(version, case(pod(requests={"memory": "1"}), overcommitted)) == expected
    assert reason(version, case(pod(), overcommitted)) == ""


def test_zero_of_a_scalar_resource() -> None:
    """It fits since 1.26; that it is named matters up to 1.27."""
    taken = pod("a", {"example.com/gpu": "2", "cpu": "5"})
    wants = pod(requests={"example.com/gpu": "0"})
    on = node(gpu="1", cpu="6")
    assert reason("1.25.0", case(wants, taken, on=on)) == "OutOfexample.com/gpu"
    assert reason("1.26.0", case(wants, taken, on=on)) == ""
    assert reason("1.26.0", case(wants, taken, on=node(gpu="1"))) == "OutOfcpu"
    in_init = pod(initContainers=[{"name": "i", "resources": {"requests": {"hugepages-2Mi": "0"}}}])
    assert reason("1.21.0", case(in_init, taken)) == ""
    assert reason("1.22.0", case(in_init, taken)) == "OutOfcpu"


def test_unlisted_resource_of_an_init_container() -> None:
    """Dropped since 1.31; before, it could never be had."""
    init = {"name": "i", "resources": {"requests": {"example.com/gpu": "1"}}}
    wants = pod(initContainers=[init])
    assert reason("1.30.0", case(wants)) == "OutOfexample.com/gpu"
    assert reason("1.31.0", case(wants)) == ""


@pytest.mark.parametrize("name", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_resource_that_a_claim_stands_for(name: str) -> None:
    """Dropped since 1.36, in the container that the claim is for."""
    wants = pod(requests={name: "1"})
    on = node()
    on["status"]["allocatable"][name] = "0"
    mapping = {"containerName": "c", "resourceName": name, "requestName": "r"}
    wants["status"] = {"extendedResourceClaimStatus": {"requestMappings": [mapping]}}
    assert reason("1.35.0", case(wants, on=on)) == f"OutOf{name}"
    assert reason("1.36.0", case(wants, on=on)) == ""
    mapping["containerName"] = "d"
    assert reason("1.36.0", case(wants, on=on)) == f"OutOf{name}"


def test_rounding() -> None:
    """Three times a third of a millicore: each rounded up, or the sum."""
    containers = [{"name": f"c{i}", "resources": {"requests": {"cpu": "300u"}}} for i in range(3)]
    tiny = {"metadata": {"uid": "p"}, "spec": {"containers": containers}}
    assert reason("1.26.7", case(tiny, on=node(cpu="1m"))) == "OutOfcpu"
    assert reason("1.27.0", case(tiny, on=node(cpu="1m"))) == ""
    assert reason("1.28.0", case(tiny, on=node(cpu="1m"))) == ""
    one = case(pod(requests={"cpu": "1m"}), tiny, on=node(cpu="2m"))
    assert reason("1.26.7", one) == "OutOfcpu"
    assert reason("1.27.0", one) == ""


def test_rounding_does_not_bring_sidecars() -> None:
    """1.27 adds exactly, but a sidecar is still an init container like any."""
    wants = pod(requests={"cpu": "300u"}, initContainers=[sidecar(cpu="900u")])
    assert reason("1.27.0", case(wants, on=node(cpu="1m"))) == ""
    assert reason("1.27.0", case(pod(requests={"cpu": "1m"}), wants, on=node(cpu="2m"))) == ""
    assert reason("1.29.0", case(wants, on=node(cpu="1m"))) == "OutOfcpu"


def test_rounded_sum_of_a_pod_on_the_node() -> None:
    """A pod of three thirds of a millicore takes one."""
    containers = [{"name": f"c{i}", "resources": {"requests": {"cpu": "300u"}}} for i in range(3)]
    tiny = {"metadata": {"uid": "p"}, "spec": {"containers": containers}}
    assert (
        reason("1.28.0", case(pod(requests={"cpu": "1m"}), tiny, on=node(cpu="1m"))) == "OutOfcpu"
    )


def test_pod_that_is_resized() -> None:
    """Since 1.33 it counts with the most of what is known of it."""
    resized = pod("a", {"cpu": "1"})
    held = {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {}}
    resized["status"] = {"containerStatuses": [held]}
    assert reason("1.32.0", case(pod(requests={"cpu": "2"}), resized)) == ""
    assert reason("1.33.0", case(pod(requests={"cpu": "2"}), resized)) == "OutOfcpu"
    want = pod("a", {"cpu": "3"})
    held = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pending = {"type": "PodResizePending", "reason": "Infeasible"}
    want["status"] = {"containerStatuses": [held], "conditions": [pending]}
    assert reason("1.33.0", case(pod(requests={"cpu": "2"}), want)) == ""


@pytest.mark.parametrize("first", ["cpu", "memory", "ephemeral-storage"])
def test_what_is_no_scalar_resource_comes_first(first: str) -> None:
    pages = {"hugepages-2Mi": "2Mi"}
    other = LINES.decided("1.36.2", case(pod(requests=pages)))
    wants = case(pod(requests={first: "9000Gi", **pages}))
    assert LINES.decided("1.36.2", wants)["reason"] == f"OutOf{first}"
    assert LINES.judged("1.36.2", wants, other)[0] == "impossible"


def test_any_of_many_scalar_resources_may_come_first() -> None:
    """More orders than are tried, but only the first of an order shows."""
    names = [f"example.com/r{number}" for number in range(9)]
    wants = pod(requests=dict.fromkeys(names, "3"))
    on = node()
    on["status"]["allocatable"] |= dict.fromkeys(names, "2")
    outcome = LINES.decided("1.36.2", case(wants, on=on))
    for name in names[1:]:
        other = outcome | {
            "reason": f"OutOf{name}",
            "message": outcome["message"].replace(names[0], name),
        }
        assert LINES.judged("1.36.2", case(wants, on=on), other)[0] == "admissible"


def test_victims_free_what_their_amounts_round_up_to() -> None:
    """Also where an amount is finer than a millicore, before and after sums were exact."""
    wants = pod(requests={"cpu": "3"}, priority=CRITICAL)
    near, far = pod("near", {"cpu": "2999500u"}), pod("far", {"cpu": "1"})
    for version in ("1.20.2", "1.36.2"):
        assert LINES.decided(version, case(wants, far, near)) == admitted("near")
    beside = pod("near", {"cpu": "1"}, initContainers=[sidecar(cpu="1999500u")])
    assert LINES.decided("1.36.2", case(wants, far, beside)) == admitted("near")


def test_nulls_numbers_and_unknown_keys() -> None:
    """Objects of the API may hold them anywhere."""
    odd = pod("a", {"cpu": 3})
    odd["spec"] |= {"initContainers": None, "overhead": None, "hostNetwork": True}
    odd["metadata"]["annotations"] = None
    assert reason("1.36.2", case(pod(requests={"cpu": 1}), odd)) == ""
    assert reason("1.36.2", case(pod(requests={"cpu": 1.5}), odd)) == "OutOfcpu"
