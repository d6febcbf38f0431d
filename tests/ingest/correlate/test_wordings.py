"""One decision in the words of each kubelet version: the record is the same.

The lines are made after the klog calls of the versions named, with values as their klog
prints them: up to 1.26 Go's ``%+v`` of lists and structs, JSON since.
"""

from __future__ import annotations

import pytest

from kubeledger.model.bodies.eviction import ReclaimAttempted
from kubeledger.model.bodies.lifecycle import ContainerKilled
from tests.ingest.pod_world import container, ingest_lines, klog, know_pod, of, values, world

UID = "aaaaaaaa-0000-4000-8000-00000000000a"
POD = f'pod="shop/a" podUID="{UID}" containerName="c"'
ID = "1" * 64
GRACE = f'{POD} containerID="containerd://{ID}" gracePeriod=7'
MESSAGE = "Container c failed liveness probe, will be restarted"
KILLING = '"Killing container with a grace period'


def _said(status_id: str) -> str:
    return (
        f'"Message for Container of pod" containerName="c" containerStatusID={status_id} '
        f'pod="shop/a" containerMessage="{MESSAGE}"'
    )


@pytest.mark.parametrize(
    ("version", "log"),
    [
        (
            "1.20.2",
            [
                f'Container "c" ({{"containerd" "{ID}"}}) of pod a_shop({UID}): {MESSAGE}',
                f'Killing container "containerd://{ID}" with a 7 second grace period',
            ],
        ),
        ("1.21.3", [_said(f"{{Type:containerd ID:{ID}}}"), f'{KILLING} override" {GRACE}']),
        (
            "1.21.3",
            [_said(f"{{Type:containerd ID:{ID}}}"), *(f'{KILLING} override" {GRACE}',) * 2],
        ),
        ("1.23.0", [_said(f"{{Type:containerd ID:{ID}}}"), f'{KILLING}" {GRACE}']),
        (
            "1.30.1",
            [
                _said(f'{{"Type":"containerd","ID":"{ID}"}}'),
                f'{KILLING} override" {GRACE}',
                f'{KILLING}" {GRACE}',
            ],
        ),
    ],
)
def test_a_killed_container(version: str, log: list[str]) -> None:
    """Why, and with which grace period; one kill, however often it is told."""
    context = world(version)
    know_pod(context, "a", UID, namespace="shop", spec=container("c"))
    said, *killing = log
    found = ingest_lines(
        context,
        [
            klog("10:00:00.1", "kuberuntime_manager.go", said),
            *(klog("10:00:00.1", "kuberuntime_container.go", text) for text in killing),
        ],
    )
    (body,) = of(found, ContainerKilled)
    reported = values(body, "container_id", "reason", "message", "grace_period_s")
    assert reported == (ID, "liveness_probe", MESSAGE, 7)


_THRESHOLD = {
    "1.20.2": "eviction manager: {0}: threshold [signal=memory.available, quantity=100Mi] "
    "observed 80Mi",
    "1.24.0": '"Eviction manager: threshold observed resource" log="{0}" '
    'signal=memory.available quantity="100Mi" resource="80Mi"',
    "1.26.7": '"Eviction manager: threshold observed resource" log="{0}" '
    'signal=memory.available resourceName=memory quantity="100Mi" available="80Mi"',
    "1.36.2": '"Eviction manager: threshold observed resource" log="{0}" '
    'signal="memory.available" resourceName="memory" quantity="100Mi" available="80Mi"',
}


@pytest.mark.parametrize("version", _THRESHOLD)
def test_the_threshold_behind_a_reclaim(version: str) -> None:
    """Its signal, its amount and what was observed."""
    met = (
        "thresholds - ignoring grace period",
        "thresholds - reclaim not satisfied",
        "thresholds - grace periods satisfied",
        "thresholds - updated stats",
    )
    attempt = {
        "1.20.2": "eviction manager: attempting to reclaim memory",
        "1.24.0": '"Eviction manager: attempting to reclaim" resourceName=memory',
        "1.26.7": '"Eviction manager: attempting to reclaim" resourceName=memory',
    }.get(version, '"Eviction manager: attempting to reclaim" resourceName="memory"')
    log = [klog("10:00:00.1", "helpers.go", _THRESHOLD[version].format(name)) for name in met]
    log.append(klog("10:00:00.2", "eviction_manager.go", attempt))
    (body,) = of(ingest_lines(world(version), log), ReclaimAttempted)
    reported = values(body, "resource", "signal", "threshold", "observed")
    assert reported == ("memory", "memory.available", 100 << 20, 80 << 20)


def test_two_thresholds_of_one_signal() -> None:
    """Hard and soft are both met: up to 1.25 no message tells which of them it was."""
    hard = _THRESHOLD["1.24.0"].format("thresholds - updated stats")
    log = [
        klog("10:00:00.1", "helpers.go", text) for text in (hard, hard.replace("100Mi", "200Mi"))
    ]
    attempt = '"Eviction manager: attempting to reclaim" resourceName=memory'
    log.append(klog("10:00:00.2", "eviction_manager.go", attempt))
    (body,) = of(ingest_lines(world("1.24.0"), log), ReclaimAttempted)
    reported = values(body, "signal", "threshold", "threshold_kind", "observed")
    assert reported == ("memory.available", None, None, 80 << 20)
