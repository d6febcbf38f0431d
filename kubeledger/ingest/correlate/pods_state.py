"""What is allocated to pods, and actuated, as the kubelet's state files show it."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath

from kubeledger.ingest.correlate.assembler import takes
from kubeledger.ingest.correlate.state_files import StateFileAssembler
from kubeledger.ingest.sources.items import PodsState
from kubeledger.kubelet.allocation.checkpoint import read_pods_state


class PodsStateAssembler(StateFileAssembler):
    """``allocated_pods_state`` and ``actuated_pods_state``, which their names alone tell apart."""

    @takes(PodsState)
    def _state_file(self, item: PodsState) -> None:
        name = PurePosixPath(item.evidence.file).name
        if name.startswith("actuated"):
            self.read_file(item, partial(read_pods_state, which="actuated"), "actuated")
        else:
            self.read_file(item, partial(read_pods_state, which="allocated"), "allocated")
