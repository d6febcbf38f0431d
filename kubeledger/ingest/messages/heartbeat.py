"""Lines that a kubelet writes every two seconds."""

from __future__ import annotations

__all__ = ["HEARTBEAT", "HEARTBEAT_FREE"]

HEARTBEAT = ("SyncLoop (housekeeping)", "SyncLoop (housekeeping) end")
"""Structured messages every two seconds, listed so that no fact waits much longer."""

HEARTBEAT_FREE = r"SyncLoop \(housekeeping(?:\)|,)"
"""The same in free text, of kubelet.go."""
