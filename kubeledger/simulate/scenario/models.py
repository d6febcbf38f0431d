"""A scenario: a node, its kubelet, and what happens to them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kubeledger.simulate.scenario.models_base import Model
from kubeledger.simulate.scenario.models_claims import Claim
from kubeledger.simulate.scenario.models_failures import Failure
from kubeledger.simulate.scenario.models_node import (
    DiskChanges,
    Image,
    Node,
    Plugin,
    Restart,
    RuntimeFailure,
)
from kubeledger.simulate.scenario.models_pods import Pods
from kubeledger.simulate.scenario.values import Instant, Moment, Span, Version


class Scenario(Model):
    """What is to be simulated.

    Times are durations since the start (`90s`, `1h30m`), sizes are quantities (`512Mi`).
    """

    description: str = ""
    """For readers."""
    kubelet_version: Annotated[Version, Field(examples=["1.36.2"])]
    """Version of the kubelet, 1.19 to 1.37 (1.37 by its source alone)."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of all that is drawn: UIDs, container IDs, jitter. The same seed gives the same bytes."""
    start: Instant = 1_767_225_600_000_000_000
    """The first instant, RFC 3339."""
    duration: Span
    """How long the simulation runs."""
    node: Node = Node()
    """What the node is and has."""
    config: dict[str, Any] | None = None
    """A KubeletConfiguration as it is; fields that it leaves out have the defaults of the
    version."""
    config_file: str | None = None
    """A file with one, relative to the scenario; in place of `config`."""
    plugins: list[Plugin] = []
    """Device plugins."""
    claims: list[Claim] = []
    """Resource claims."""
    images: list[Image] | None = None
    """The runtime's images; left out altogether: each image that a pod runs is there, of
    100Mi."""
    pods: list[Pods] = []
    """Pods."""
    disk_changes: list[DiskChanges] = []
    """Changes of what is used on disks, in the order of time."""
    runtime_failures: list[RuntimeFailure] = []
    """Times in which the container runtime starts no sandboxes."""
    failures: list[Failure] = []
    """What else fails for a while, so that pods do not start or the node is not ready."""
    kubelet_restarts: list[Restart] = []
    """Restarts of the kubelet, in the order of time."""
    node_shutdown: Moment | None = None
    """When the node begins to shut down: pods get the time that `shutdownGracePeriod` and its
    kin in `config` give them, and new ones are refused; the node stays up. Left out: never."""
    snapshot_every: Span = 15_000_000_000
    """How often the agent on the node reads lists, counters, cgroups and files."""
    every_tick: bool = False
    """Write each probe tick instead of folding equal ones."""
    shuffle: bool = False
    """Draw where the kubelet is free to choose (the order of its maps); else it sorts."""
