"""Groups and times of pods when the node shuts down."""

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.lifecycle.termination import (
    ShutdownGroup,
    shutdown_grace_s,
    shutdown_group,
    shutdown_groups,
)
from kubeledger.kubelet.profile.lifecycle import LifecycleFacts
from kubeledger.kubelet.profile.resolve import resolve, with_gates

CRITICAL = 2_000_000_000
PERIODS = {"shutdownGracePeriod": "40s", "shutdownGracePeriodCriticalPods": "15s"}
BY_PRIORITY = {
    "shutdownGracePeriodByPodPriority": [
        {"priority": 1000, "shutdownGracePeriodSeconds": 20},
        {"priority": 10, "shutdownGracePeriodSeconds": 60},
    ]
}


def facts(version: str, **gates: bool) -> LifecycleFacts:
    return with_gates(resolve(version), gates).lifecycle


def pod(priority: int | None, grace_s: int | None = 30, *, static: bool = False) -> Pod:
    source = "file" if static else "api"
    document = {
        "metadata": {"annotations": {"kubernetes.io/config.source": source}},
        "spec": {"priority": priority, "terminationGracePeriodSeconds": grace_s},
    }
    return msgspec.convert(document, Pod)


@pytest.mark.parametrize(
    ("version", "gates", "settings", "expected"),
    [
        ("1.36.2", {}, PERIODS, [(0, 25), (CRITICAL, 15)]),
        ("1.36.2", {"GracefulNodeShutdown": False}, PERIODS, []),
        ("1.20.2", {}, PERIODS, []),
        ("1.20.2", {"GracefulNodeShutdown": True}, PERIODS, [(0, 25), (CRITICAL, 15)]),
        ("1.36.2", {}, {"shutdownGracePeriod": "0s"}, []),
        ("1.36.2", {}, {**PERIODS, "shutdownGracePeriodCriticalPods": "50s"}, []),
        ("1.36.2", {}, {**PERIODS, **BY_PRIORITY}, [(10, 60), (1000, 20)]),
        ("1.23.0", {}, {**PERIODS, **BY_PRIORITY}, [(0, 25), (CRITICAL, 15)]),
        ("1.23.0", {"GracefulNodeShutdownBasedOnPodPriority": True}, BY_PRIORITY,
         [(10, 60), (1000, 20)]),
    ],
)  # fmt: skip
def test_groups(
    version: str, gates: dict[str, bool], settings: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    """From low to high priority; none where the feature is off or the periods are no pair."""
    groups = [ShutdownGroup(*each) for each in expected]
    assert list(shutdown_groups(settings, facts(version, **gates))) == groups


@pytest.mark.parametrize(
    ("version", "of", "index", "grace_s"),
    [
        ("1.36.2", pod(5), 0, 30),
        ("1.36.2", pod(10), 0, 30),
        ("1.36.2", pod(999, 90), 0, 60),
        ("1.36.2", pod(1000), 1, 20),
        ("1.36.2", pod(CRITICAL, 7), 1, 7),
        ("1.36.2", pod(None, None), 0, 60),
        ("1.36.2", pod(None, static=True), 0, 30),
        ("1.22.3", pod(None, static=True), 1, 20),
        ("1.22.3", pod(1000), 0, 30),
    ],
)
def test_a_pods_group_and_time(version: str, of: Pod, index: int, grace_s: int) -> None:
    """The lower group up to the next's priority; before 1.23 by whether the pod is critical."""
    groups = shutdown_groups(BY_PRIORITY, facts("1.36.2"))
    assert shutdown_group(groups, of, facts(version)) == index
    assert shutdown_grace_s(groups[index], of) == grace_s
