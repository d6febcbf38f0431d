"""All messages that are known, by subsystem, and who hears them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from kubeledger.ingest.klog.router import LineHandler, Router
from kubeledger.ingest.klog.rows import Row
from kubeledger.ingest.messages import (
    container_manager,
    containers,
    devices,
    evictions,
    images,
    node,
    node_state,
    pods,
)
from kubeledger.ingest.messages.keys import NEEDED
from kubeledger.ingest.messages.noise import NOISE

MESSAGES: dict[str, tuple[Row, ...]] = {
    "cgroups": container_manager.CGROUPS,
    "containers": containers.CONTAINERS,
    "cpus": container_manager.CPUS,
    "devices": devices.MESSAGES,
    "events": pods.EVENTS,
    "evictions": evictions.MESSAGES,
    "images": images.MESSAGES,
    "memory": container_manager.MEMORY,
    "node": node.MESSAGES,
    "node_state": node_state.NODE_STATE,
    "pods": pods.PODS,
    "probes": containers.PROBES,
    "stages": node_state.STAGES,
    "resizes": pods.RESIZES,
    "topology": container_manager.TOPOLOGY,
}
"""Subsystem -> its messages."""


def router(listeners: Mapping[str, Sequence[LineHandler]]) -> Router:
    """Routes of all messages to those who listen, by message, in their order."""
    return Router(chain.from_iterable(MESSAGES.values()), NOISE, listeners, NEEDED)
