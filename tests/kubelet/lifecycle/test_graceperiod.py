"""Grace periods of whole pods, by version."""

import pytest

from kubeledger.kubelet.eviction.decisions import eviction_override_s
from kubeledger.kubelet.lifecycle.termination import overridden_grace_s
from kubeledger.kubelet.profile.resolve import resolve


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
