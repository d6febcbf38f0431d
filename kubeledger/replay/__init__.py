"""Replay: from records to the state of a node at any instant.

Comes in: records, from a snapshot on. Goes out: ``NodeState``. Imports ``model``, ``kubelet`` and
``ledger``.
"""

from __future__ import annotations

from kubeledger.replay.instants import choose_node, fold, state_at
from kubeledger.replay.snapshotting import SnapshottingFolder, refresh_snapshots

__all__ = ["SnapshottingFolder", "choose_node", "fold", "refresh_snapshots", "state_at"]
