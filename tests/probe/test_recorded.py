"""HTTP probes of recorded pods: requests and texts as real kubelets logged them."""

import json
import re
from pathlib import Path

import pytest

from kubeledger.kubelet.prober.httpget import HTTPRequest, http_request
from kubeledger.kubelet.prober.prober import http_execution, resolve_container_port
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.probe.target import pod_target, probe_plans
from tests.kubelet.prober.worlds import facts_of
from tests.recordings import extract

LOGGED = re.compile(r"Probe failed for (\S+) with request headers (map\[.*?\]\]), response body")


def as_go_shows(request: HTTPRequest) -> tuple[str, str]:
    """URL and headers, as the kubelet's line has them."""
    headers = " ".join(f"{name}:[{value}]" for name, value in sorted(request.headers))
    return str(request.url), f"map[{headers}]"


@pytest.mark.parametrize(
    ("recording", "version", "agent"),
    [
        # This kubelet was built without a version, so its user agent has none.
        ("node-a", "1.20.2", "kube-probe/."),
        ("node-b", "1.36.2", "kube-probe/1.36"),
    ],
)
def test_requests_of_recorded_probes(
    recording: str, version: str, agent: str, tmp_path: Path
) -> None:
    """Every request that a kubelet logged is one that is made here, byte by byte."""
    node = extract(recording, tmp_path)
    log = (node / "kubelet.log").read_text()
    logged = set(LOGGED.findall(log))
    facts, made = facts_of(version), set()
    for raw in json.loads((node / "pods.json").read_text())["items"]:
        target = pod_target(raw)
        for container in target.pod.spec.containers:
            if not any(
                (container.liveness_probe, container.readiness_probe, container.startup_probe)
            ):
                continue
            for plan in probe_plans(target, resolve(version), container=container.name):
                get = plan.handlers.http_get
                if get is not None:
                    port = resolve_container_port(get.port, plan.ports)
                    assert isinstance(port, int)
                    made.add(
                        as_go_shows(http_request(get, get.host or target.ip, port, facts, agent))
                    )
    assert logged
    assert logged <= made
    assert http_execution(facts, status=404).text in log
