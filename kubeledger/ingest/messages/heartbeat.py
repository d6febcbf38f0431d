"""Lines that a kubelet writes every two seconds."""

from __future__ import annotations

HEARTBEAT = ("SyncLoop (housekeeping)", "SyncLoop (housekeeping) end")
"""Structured messages every two seconds, listed so that no fact waits much longer."""
