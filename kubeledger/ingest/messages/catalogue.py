"""All messages that are known, by subsystem, and who hears them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Protocol

from kubeledger.ingest.klog.router import LineHandler, Router
from kubeledger.ingest.klog.rows import Row
from kubeledger.ingest.messages import (
    cgroups,
    containers,
    cpus,
    devices,
    events,
    evictions,
    images,
    memory,
    node,
    node_state,
    pods,
    probes,
    resizes,
    stages,
    topology,
)
from kubeledger.ingest.messages.keys import NEEDED
from kubeledger.ingest.messages.noise import NOISE

MESSAGES: dict[str, tuple[Row, ...]] = {
    "cgroups": cgroups.MESSAGES,
    "containers": containers.MESSAGES,
    "cpus": cpus.MESSAGES,
    "devices": devices.MESSAGES,
    "events": events.MESSAGES,
    "evictions": evictions.MESSAGES,
    "images": images.MESSAGES,
    "memory": memory.MESSAGES,
    "node": node.MESSAGES,
    "node_state": node_state.MESSAGES,
    "pods": pods.MESSAGES,
    "probes": probes.MESSAGES,
    "stages": stages.MESSAGES,
    "resizes": resizes.MESSAGES,
    "topology": topology.MESSAGES,
}
"""Subsystem -> its messages."""


class Listener(Protocol):
    """Who asks for log lines: an assembler."""

    def structured(self) -> Mapping[str, LineHandler]:
        """Message -> method."""


def router(listeners: Iterable[Listener]) -> Router:
    """Routes of all messages to those who listen, in their order."""
    return Router(
        chain.from_iterable(MESSAGES.values()),
        NOISE,
        [listener.structured() for listener in listeners],
        NEEDED,
    )
