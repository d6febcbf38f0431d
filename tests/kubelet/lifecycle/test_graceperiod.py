"""Grace periods of whole pods, by version."""

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.eviction.decisions import eviction_override_s
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.lifecycle.termination import (
    ShutdownGroup,
    overridden_grace_s,
    shutdown_grace_s,
    shutdown_group,
    shutdown_groups,
)
from kubeledger.kubelet.profile.lifecycle import LifecycleFacts
from kubeledger.kubelet.profile.resolve import resolve, with_gates


@pytest.mark.parametrize(
    ("version", "pod_grace_s", "given_s"),
    [
        ("1.21.3", 25, 0),  # what the eviction manager asks for is given
        ("1.22.3", 25, 25),  # the pod worker has no use for 0 s, and takes the pod's own
        ("1.22.3", None, 1),
        ("1.30.14", 25, 25),  # node-e: container default/hog-over/app
        ("1.30.14", 1, 2),  # the least of killContainer, also for an override since 1.28
        ("1.30.14", 0, 2),
        ("1.31.0", 25, 2),
        ("1.36.2", 25, 2),
    ],
)
def test_hard_eviction(version: str, pod_grace_s: int | None, given_s: int) -> None:
    """Only since 1.31 is a pod that is evicted hard really stopped at once."""
    profile = resolve(version)
    asked_s = eviction_override_s(
        profile.eviction, hard=True, maximum_s=12, pod_grace_s=pod_grace_s
    )
    assert overridden_grace_s(profile.lifecycle, asked_s, pod_grace_s) == given_s


@pytest.mark.parametrize(
    ("version", "maximum_s", "given_s"), [("1.21.3", 0, 0), ("1.30.14", 0, 25), ("1.30.14", 12, 12)]
)
def test_soft_eviction(version: str, maximum_s: int, given_s: int) -> None:
    """A maximum of 0, the default, is no period either."""
    profile = resolve(version)
    asked_s = eviction_override_s(profile.eviction, hard=False, maximum_s=maximum_s, pod_grace_s=25)
    assert overridden_grace_s(profile.lifecycle, asked_s, 25) == given_s


# -- Groups and times of pods when the node shuts down ---------------------------------------------

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
