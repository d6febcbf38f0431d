"""Scenes as a kubelet's start tells them."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.cgroups import CgroupUpdated, QOSCgroupsUpdated
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodConfigChanged, PodListed
from kubeledger.model.bodies.node import NodeObserved, SettingsObserved
from kubeledger.testing.scene import Scene
from kubeledger.verify import Verdict

POD: dict[str, Any] = {"namespace": "default", "pod": "web", "pod_uid": "u-web"}
SETTINGS = {
    "cgroupDriver": "cgroupfs",
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "enforceNodeAllocatable": ["pods"],
    "featureGates": {},
    "kubeReserved": {},
    "podPidsLimit": -1,
    "qosReserved": {},
    "systemReserved": {},
}


def test_settings_are_those_of_a_start_that_is_seen() -> None:
    """Fields are the file's, which a flag names; what is given as a flag is one."""
    (record,) = Scene(settings={"maxPods": 5, "--hostname-override": "n"}).records
    assert isinstance(record.body, SettingsObserved)
    sources = {name: setting.source for name, setting in record.body.settings.items()}
    assert sources == {"--config": "flag", "--hostname-override": "flag", "maxPods": "config"}
    assert msgspec.json.decode(record.body.settings["maxPods"].value) == 5


@pytest.mark.parametrize(("shares", "verdict"), [(256, "match"), (257, "impossible")])
def test_a_qos_class_can_be_judged(shares: int, verdict: Verdict) -> None:  # parameters
    """The start of the kubelet is seen, so the first write of the QoS level is known."""
    scene = Scene("1.20.2", settings=SETTINGS)
    first = scene.at(0.5, QOSCgroupsUpdated())
    scene.at(0.6, NodeObserved(cpus=4, memory_capacity_bytes=8 << 30))
    requests = {"cpu": "250m"}
    scene.at(1, PodConfigChanged(**POD, operation="ADD", source="api"))
    scene.at(1.1, PodAdmitted(**POD))
    spec = {"containers": [{"name": "app", "resources": {"requests": requests}}]}
    status = {"phase": "Running"}
    scene.at(2, PodListed(**POD, spec=spec, status=status, listed_by="kubelet"))
    scene.at(60.5, QOSCgroupsUpdated())
    update = CgroupUpdated(
        cgroup="kubepods/burstable",
        level="qos",
        qos_class="Burstable",
        pod_uid=None,
        container_id=None,
        cpu_quota_us=-1,
        cpu_period_us=100_000,
        created=True,
        changed=(),
        cpu_shares=shares,
        memory_limit_bytes=(1 << 63) - 4096,
    )
    seq = scene.at(70, update)
    scene.at(75, EvictionSignalObserved(signal="memory.available", available=1, capacity=2))
    findings = {finding.seq: finding for finding in scene.findings()}
    assert (findings[seq].verdict, findings[seq].missing) == (verdict, ())
    assert (findings[first].verdict, findings[first].missing) == ("match", ())
