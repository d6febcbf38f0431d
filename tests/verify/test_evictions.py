"""Evictions: what can be told without the pods' usage."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.lifecycle.records import PodEvicted, PodListed
from kubeledger.machine import Body
from kubeledger.verify import Verdict
from tests.verify.histories import findings
from tests.verify.image_scenes import CAPACITY, alone, history, kubelet, settings, signal

__all__ = ["alone"]

USAGE = "what each pod used of ephemeral-storage at this time"


def listed(**spec: Any) -> PodListed:  # noqa: ANN401 # any JSON value
    """A pod of the API server."""
    return PodListed(
        namespace="default",
        pod="web",
        pod_uid="u1",
        listed_by="kubelet",
        annotations={"kubernetes.io/config.source": "api"},
        spec={"containers": [{"name": "c"}], **spec},
        status=None,
    )


def evicted(resource: str | None = "ephemeral-storage", done: bool | None = True) -> PodEvicted:
    """It is evicted."""
    return PodEvicted(
        namespace="default",
        pod="web",
        pod_uid="u1",
        resource=resource,
        message=None,
        evicted=done,
    )


@pytest.mark.parametrize(
    ("steps", "verdict", "told"),
    [
        ([(1, signal(4)), (2, evicted())], "unverifiable", USAGE),
        ([(1, signal(40)), (2, evicted())], "impossible", "imagefs.available was"),
        (
            [(1, signal(40)), (100, evicted())],
            "unverifiable",
            "the eviction signal imagefs.available",
        ),
        ([(2, evicted())], "unverifiable", "the eviction signal imagefs.available"),
        ([(1, signal(4)), (2, evicted(None))], "unverifiable", "local storage"),
    ],
)
def test_an_eviction(steps: list[tuple[float, Body]], verdict: Verdict, told: str) -> None:
    """Only that no threshold was passed can be told."""
    records = history((0, kubelet()), (0.1, settings()), (0.2, listed()), *steps)
    (found,) = findings(records)
    assert found.verdict == verdict
    assert told in found.why


@pytest.mark.parametrize(
    ("spec", "done", "verdict"),
    [
        ({"priority": 2_000_000_000}, True, "impossible"),
        ({"priority": 2_000_000_000}, False, "unverifiable"),
        ({"priority": 1_999_999_999}, True, "unverifiable"),
        ({"priority": "high"}, True, "unverifiable"),
    ],
)
def test_critical_pods_stay(spec: dict[str, Any], done: bool, verdict: Verdict) -> None:
    """They are ranked, but not killed."""
    steps = [(0.2, listed(**spec)), (1, signal(4)), (2, evicted(done=done))]
    (found,) = findings(history((0, kubelet()), (0.1, settings()), *steps))
    assert found.verdict == verdict


def test_what_is_missing_is_named() -> None:
    """The pod, the version, thresholds that cannot be read."""
    (found,) = findings(history((0, kubelet()), (0.1, settings()), (1, signal(4)), (2, evicted())))
    assert found.missing == ("the pod's spec", USAGE)
    (found,) = findings(history((0, kubelet(None)), (0.2, listed()), (2, evicted())))
    assert found.missing == ("the kubelet's version",)
    odd = settings(evictionHard={"imagefs.available": "much"}, evictionSoft=None)
    steps = [(0.1, odd), (0.2, listed()), (1, signal(4)), (2, evicted())]
    (found,) = findings(history((0, kubelet()), *steps))
    assert "a readable threshold of imagefs.available" in found.missing
    assert "the setting evictionSoft" in found.missing


def test_every_signal_with_a_threshold_counts() -> None:
    """One that is clear does not speak for another that is not known."""
    both = settings(evictionHard={"imagefs.available": "5%", "nodefs.available": "5%"})
    steps = [(0.1, both), (0.2, listed()), (1, signal(40)), (2, evicted())]
    (found,) = findings(history((0, kubelet()), *steps))
    assert "the eviction signal nodefs.available at this time" in found.why
    none = [(0.1, settings(evictionHard={})), (0.2, listed()), (2, evicted())]
    (found,) = findings(history((0, kubelet()), *none))
    assert found.verdict == "impossible"
    assert "no threshold is set" in found.why


def test_the_least_reclaim_counts() -> None:
    """A threshold is met until so much more is there."""
    reclaim = settings(evictionMinimumReclaim={"imagefs.available": str(CAPACITY // 10)})
    steps = [(0.1, reclaim), (0.2, listed()), (1, signal(14)), (2, evicted())]
    (found,) = findings(history((0, kubelet()), *steps))
    assert found.verdict == "unverifiable"
    assert found.missing == (USAGE,)
