"""Verification of image GC, and of what the eviction manager reclaims and evicts."""

from __future__ import annotations
