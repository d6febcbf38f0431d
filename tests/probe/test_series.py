"""From a pod to its probes, and what a worker makes of them."""

import socket
import threading
from typing import Any

import pytest

from kubeledger.kubelet.prober.objects import FAILURE, SUCCESS, Result
from kubeledger.kubelet.prober.worker import do_probe
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.prober import TickResult
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.probe.run import forecast, worker_of
from kubeledger.probe.series import Difference, ProbeSeries, run_series
from kubeledger.probe.target import pod_target, probe_plans
from tests.kubelet.prober.worlds import facts_of
from tests.probe.pods import pod
from tests.probe.servers import answers, closed_port, hangs, says, serve

VERSIONS = ("1.20.2", "1.28.0", "1.36.2")


def run(
    raw: dict[str, Any],
    version: str = "1.36.2",
    *,
    repeat: int = 1,
    address: str | None = None,
    environ: dict[str, str] | None = None,
) -> list[ProbeSeries]:
    """All probes of a pod, without a pause."""
    target = pod_target(raw, address)
    plans = probe_plans(target, resolve(version))
    return run_series(target, plans, version, environ or {}, repeat=repeat, period_ns=0)


def one(raw: dict[str, Any], version: str = "1.36.2", *, repeat: int = 1) -> ProbeSeries:
    (series,) = run(raw, version, repeat=repeat)
    return series


def app(port: int | str, kind: str = "readinessProbe", **probe: object) -> dict[str, Any]:
    """A container with an HTTP probe."""
    return {"name": "app", kind: {"httpGet": {"port": port, "path": "/"}, **probe}}


def differences_of(series: ProbeSeries) -> dict[str, Difference]:
    return {each.what: each for each in series.differences}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_named_port_and_defaults(version: str) -> None:
    """A named port, and times that the API server would have set."""
    with serve(answers("200 OK", b"fine")) as server:
        container = app("http") | {"ports": [{"name": "http", "containerPort": server.port}]}
        series = one(pod(container), version)
    (tick,) = series.ticks
    assert (tick.outcome, tick.text, tick.event) == ("success", "fine", None)
    spec = series.plan.spec
    assert (spec.timeout_seconds, spec.period_seconds) == (1, 10)
    assert (tick.cached, tick.forecast.ticks) == ("Success", 1)


@pytest.mark.parametrize(
    ("port", "text"),
    [("metrics", 'strconv.Atoi: parsing "metrics": invalid syntax'), (0, "invalid port number: 0")],
)
def test_a_port_that_is_none_errs_three_times(port: int | str, text: str) -> None:
    """An error is tried twice more, and never changes what is cached."""
    (tick,) = one(pod(app(port))).ticks
    assert [each.execution.text for each in tick.attempts] == [text] * 3
    assert tick.event == (
        f"Warning Unhealthy Readiness probe errored and resulted in unknown state: {text}"
    )
    assert tick.forecast.result is None


def test_half_a_body_errs_three_times_and_holds_a_failure() -> None:
    """Each of three executions makes a connection of its own."""
    with serve(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")) as server:
        series = one(pod(app(server.port)))
    assert len(server.heads) == 3
    assert series.ticks[0].event == (
        "Warning Unhealthy Readiness probe errored and resulted in failure state: unexpected EOF"
    )
    assert differences_of(series)["body"].matters


def test_failures_count_up_to_the_threshold() -> None:
    """Three failures in a row kill; the worker is the kubelet's."""
    series = one(
        pod(app(closed_port(), "livenessProbe"), terminationGracePeriodSeconds=7), repeat=3
    )
    assert [tick.run for tick in series.ticks] == [1, 2, 0]
    assert [tick.cached for tick in series.ticks] == ["Success", "Success", "Failure"]
    ahead = series.ticks[0].forecast
    assert (ahead.ticks, ahead.kills, series.plan.grace_s) == (3, True, 7)
    assert 20_000_000_000 <= ahead.within_ns < 21_000_000_000


@pytest.mark.parametrize(
    ("outcome", "before", "after"),
    [("failure", SUCCESS, FAILURE), ("warning", FAILURE, SUCCESS), ("success", FAILURE, SUCCESS)],
)
def test_the_forecast_is_what_the_worker_does(
    outcome: TickResult, before: Result, after: Result
) -> None:
    """As many ticks as foretold change what is cached, and no fewer."""
    target = pod_target(pod(app(1, failureThreshold=4, successThreshold=2)))
    (plan,) = probe_plans(target, resolve("1.36.2"))
    worker = worker_of(target, plan, facts_of("1.36.2"))
    cache = worker.results.cache
    cache[worker.container_id] = worker.last_result = before
    ticks = forecast(worker, outcome, 5).ticks
    for _ in range(ticks - 1):
        do_probe(worker, target.pod.status, 2**61, [outcome])
        assert cache[worker.container_id] == before
    do_probe(worker, target.pod.status, 2**61, [outcome])
    assert cache[worker.container_id] == after


@pytest.mark.parametrize(
    ("state", "kind", "why"),
    [
        ({"started": False}, "readinessProbe", "has not started"),
        ({"started": True}, "startupProbe", "has started"),
        ({"running": False}, "livenessProbe", "does not run"),
    ],
)
def test_when_the_kubelet_would_not_probe(state: dict[str, Any], kind: str, why: str) -> None:
    with serve(answers("200 OK")) as server:
        (tick,) = one(pod(app(server.port, kind), **state)).ticks
    assert tick.outcome == "success"
    assert why in tick.held_back


def test_exec_probes_are_not_run() -> None:
    series = one(pod({"name": "app", "livenessProbe": {"exec": {"command": ["cat", "/a b"]}}}))
    assert series.ticks == []
    assert "kubectl exec -n default web -c app -- cat '/a b'" in series.not_run
    assert "crictl exec --sync --timeout 1 abc cat '/a b'" in series.not_run


def test_grpc_before_1_24_has_no_handler() -> None:
    (tick,) = one(pod({"name": "app", "livenessProbe": {"grpc": {"port": 1}}}), "1.20.2").ticks
    assert tick.text == "missing probe handler for web_default(36aa):app"


def test_order_and_sidecars() -> None:
    """App containers before sidecars, which have probes since 1.28."""
    probes = {
        "livenessProbe": {"tcpSocket": {"port": 1}},
        "startupProbe": {"tcpSocket": {"port": 1}},
    }
    raw = pod({"name": "app", **probes}, initContainers=[
        {"name": "side", "restartPolicy": "Always", **probes}, {"name": "init", **probes}
    ])  # fmt: skip
    names = [
        [(p.container.name, p.probe_type) for p in probe_plans(pod_target(raw), resolve(version))]
        for version in ("1.27.0", "1.28.0")
    ]
    own = [("app", "startup"), ("app", "liveness")]
    assert names == [own, [*own, ("side", "startup"), ("side", "liveness")]]


def test_tcp() -> None:
    """A connection is enough; a server that hangs succeeds."""
    with serve(hangs) as server:
        series = one(pod({"name": "app", "livenessProbe": {"tcpSocket": {"port": server.port}}}))
    assert (series.ticks[0].outcome, series.ticks[0].text) == ("success", "")
    assert differences_of(series)["what is asked"].matters


def test_tcp_refused() -> None:
    port = closed_port()
    series = one(pod({"name": "app", "livenessProbe": {"tcpSocket": {"port": port}}}))
    assert series.ticks[0].text == f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert "127.0.0.1 answers curl inside" in differences_of(series)["address"].says


def test_another_address_and_a_host() -> None:
    """--address is in the place of the pod's IP; a host in the spec is asked all the same."""
    with serve(answers("200 OK")) as server:
        (series,) = run(pod(app(server.port), ip="192.0.2.1"), address="127.0.0.1")
        assert series.ticks[0].outcome == "success"
        hosted = app(server.port)
        hosted["readinessProbe"]["httpGet"]["host"] = "localhost"
        series = one(pod(hosted, ip="192.0.2.1"))
    assert series.ticks[0].outcome == "success"
    assert "the node's loopback" in differences_of(series)["address"].says


def test_no_ip() -> None:
    with pytest.raises(BadInputError, match="has no IP yet"):
        run(pod(app(80), ip=""))


@pytest.mark.parametrize(
    ("raw", "error", "says"),
    [
        (pod({"name": "app"}), BadQuestionError, "has no probe"),
        (pod({"name": "app", "livenessProbe": {"httpGet": {"port": []}}}), BadInputError,
         "app: liv"),
        (pod({"name": "app", "livenessProbe": {"periodSeconds": "x"}}), BadInputError,
         "default/web"),
    ],
)  # fmt: skip
def test_pods_that_cannot_be_probed(raw: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        run(raw)


def test_what_curl_would_have_done_otherwise() -> None:
    """Redirects, status, headers and proxies matter where they may explain the result."""

    def habit(connection: socket.socket, head: bytes, over: threading.Event) -> None:
        moved = answers("302 X", b"", "Location: http://shop.example/")
        (moved if b"GET / " in head else answers("401 X"))(connection, head, over)

    with serve(habit) as server:
        (moved,) = run(pod(app(server.port)), environ={"http_proxy": "http://127.0.0.1:1"})
        denied = app(server.port)
        denied["readinessProbe"]["httpGet"] |= {
            "path": "/x", "httpHeaders": [{"name": "Host", "value": "shop.example"}]
        }  # fmt: skip
        (refused,) = run(pod(denied))
    found = differences_of(moved)
    assert "http://shop.example/ is another host" in found["redirects"].says
    assert found["proxy"].matters
    assert moved.differences[0].matters
    assert not moved.differences[-1].matters
    found = differences_of(refused)
    assert "proxy" not in found
    assert found["status"].says.startswith("401 fails the probe")
    assert found["Host"].says == f"the kubelet sends shop.example, curl 127.0.0.1:{server.port}"


def test_several_ips_and_the_node_s_network() -> None:
    raw = pod(app(closed_port()), hostNetwork=True)
    raw["status"]["podIPs"] = [{"ip": "127.0.0.1"}, {"ip": "fd00::7"}]
    found = differences_of(one(raw))
    assert found["IPv6"].matters
    assert found["address"].says.startswith("the pod is on the node's network")


@pytest.mark.parametrize(("version", "grace_s"), [("1.20.2", 7), ("1.28.0", 3)])
def test_a_probe_s_own_grace_period(version: str, grace_s: int) -> None:
    """Taken since 1.22."""
    probe = {"tcpSocket": {"port": closed_port()}, "terminationGracePeriodSeconds": 3}
    raw = pod({"name": "app", "livenessProbe": probe}, terminationGracePeriodSeconds=7)
    assert one(raw, version).plan.grace_s == grace_s


@pytest.mark.parametrize(
    "probe",
    [
        {"grpc": {"port": "x"}},
        {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": "x"},
        {"httpGet": {"port": 1, "httpHeaders": [{"value": "x"}]}},
    ],
)
def test_probes_that_cannot_be_read(probe: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="default/web: app: livenessProbe: "):
        run(pod({"name": "app", "livenessProbe": probe}))
