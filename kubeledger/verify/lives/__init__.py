"""Probes, kills and restarts: what a container's probes said, and what became of it."""

from __future__ import annotations

from kubeledger.verify.lives.verifier import LivesVerifier

__all__ = ["LivesVerifier"]
