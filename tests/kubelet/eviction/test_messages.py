"""What is said of a pod that is evicted."""

import pytest

from kubeledger.kubelet.eviction.messages import pressure_message
from kubeledger.kubelet.eviction.signals import (
    ContainerStats,
    MemoryStats,
    PodReference,
    PodStats,
    SignalObservation,
)
from kubeledger.kubelet.eviction.thresholds import ThresholdSettings, parse_threshold_config
from kubeledger.kubelet.kube.pod import (
    Container,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.profile.resolve import resolve, with_gates

APP = Container(name="app", resources=ResourceRequirements(requests={"memory": "100Mi"}))
STATS = PodStats(
    PodReference("p", "d", "u"), (ContainerStats("app", MemoryStats(working_set_bytes=150 << 20)),)
)


@pytest.mark.parametrize(
    ("version", "gate", "allocated", "requested"),
    [
        ("1.26.15", True, {"memory": "200Mi"}, "100Mi"),
        ("1.30.1", False, {"memory": "200Mi"}, "100Mi"),
        ("1.30.1", True, {"memory": "50Mi"}, "50Mi"),
        ("1.30.1", True, None, "0"),
        ("1.30.1", True, {"memory": "200Mi"}, None),
        ("1.32.13", True, {"memory": "200Mi"}, "100Mi"),
    ],
)
def test_the_request_of_a_container_that_was_resized(
    version: str, gate: bool, allocated: ResourceList | None, requested: str | None
) -> None:
    """From 1.27 to 1.31 with the gate what its status says it has; it may then exceed nothing."""
    status = PodStatus(
        container_statuses=(ContainerStatus(name="app", allocated_resources=allocated),)
    )
    of = Pod(metadata=ObjectMeta(uid="u"), spec=PodSpec(containers=(APP,)), status=status)
    profile = with_gates(resolve(version), {"InPlacePodVerticalScaling": gate})
    settings = ThresholdSettings(eviction_hard={"memory.available": "1Gi"})
    threshold = parse_threshold_config(settings, profile)[0]
    seen = SignalObservation(512 << 20, 4 << 30, 0)
    text = pressure_message(of, STATS, threshold, seen, profile.eviction).text
    assert (f"request is {requested}, " in text) == (requested is not None)
    assert ("Container app" in text) == (requested is not None)
