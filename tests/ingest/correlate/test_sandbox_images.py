"""Why the eviction manager removes images, and what the removal of the sandbox's leads to."""

from __future__ import annotations

import pytest

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.images import ImageAssembler
from kubeledger.ingest.correlate.reasons import ReasonAssembler
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.record import Evidence
from tests.ingest.feeding import bodies, feed, lines

PAUSE = "registry.k8s.io/pause:3.9"
FILE = Evidence(file="kubelet.log")
REMOVAL = (
    'image_gc_manager.go "Removing image to free bytes" imageID="sha256:aa" size=10 '
    'runtimeHandler=""'
)


def threshold(log: str, signal: str) -> str:
    """A line about a threshold that was met."""
    return (
        f'helpers.go "Eviction manager: threshold observed resource" log="thresholds - {log}" '
        f'signal="{signal}" resourceName="ephemeral-storage" quantity="9" available="1"'
    )


@pytest.mark.parametrize(
    ("texts", "reclaimed", "signals"),
    [
        (
            [
                'helpers.go "Eviction manager:" log="observations" signal="memory.available" '
                'available="1" capacity="2"',
                threshold("ignoring grace period", "nodefs.available"),
                threshold("updated stats", "imagefs.available"),
                threshold("updated stats", "memory.available"),
                'eviction_manager.go "Eviction manager: attempting to reclaim" '
                'resourceName="ephemeral-storage"',
                'image_gc_manager.go "Attempting to delete unused images"',
                REMOVAL,
            ],
            "ephemeral-storage",
            ("imagefs.available",),
        ),
        (
            [
                "helpers.go eviction manager: thresholds - updated stats: threshold "
                "[signal=nodefs.inodesFree, quantity=9] observed 1",
                "eviction_manager.go eviction manager: attempting to reclaim inodes",
                "image_gc_manager.go attempting to delete unused images",
                REMOVAL,
            ],
            "inodes",
            ("nodefs.inodesFree",),
        ),
        (['image_gc_manager.go "Attempting to delete unused images"', REMOVAL], None, ()),
    ],
)
def test_what_is_reclaimed(
    texts: list[str], reclaimed: str | None, signals: tuple[str, ...]
) -> None:
    """The resource, and the signals that a round acted on; structured lines and free text."""
    facts = feed(ImageAssembler(BundleContext(node="n")), lines(*texts))
    (body,) = bodies(facts, ImageDeleted)
    assert (body.pass_, body.reclaimed, body.signals) == ("all", reclaimed, signals)


@pytest.mark.parametrize(
    ("message", "sizes", "found"),
    [
        (f'rpc error: failed to get sandbox image "{PAUSE}": failed to pull', {PAUSE: 10}, True),
        (f'rpc error: failed pulling image "{PAUSE}": no such host', {PAUSE: 10}, True),
        (f"creating pod sandbox: initializing source docker://{PAUSE}: x", {PAUSE: 10}, True),
        (f'failed to get sandbox image "{PAUSE}"', {PAUSE: 11}, False),
        (f'failed to get sandbox image "{PAUSE}"', {PAUSE: 10, "other": 10}, False),
        (f'failed to get sandbox image "{PAUSE}"', {}, False),
        ("failed to set up the network", {PAUSE: 10}, False),
    ],
)
def test_a_failed_sandbox(message: str, sizes: dict[str, int], found: bool) -> None:
    """The newest removal of an image of the size that the named one alone has."""
    context = BundleContext(node="n", image_sizes=sizes)
    removals = [
        Fact(ts_ns, ImageDeleted(image_id=name, size_bytes=size), (FILE,))
        for ts_ns, name, size in ((1, "a", 10), (2, "b", 10), (3, "c", 12), (9, "d", 10))
    ]
    removed = ReasonAssembler(context, removals)._removed_sandbox_image
    cause = removed("FailedCreatePodSandBox", message, 5)
    assert cause is (removals[1] if found else None)
    assert removed("Failed", message, 5) is None
