"""Which rules gave an answer that is kept: another version of them may give another."""

from __future__ import annotations

from kubeledger.ledger.snapshots import modules_version

_ROOMS = ("model", "kubelet", "ledger", "replay", "verify", "analyze")


def rules_version() -> str:
    """Digest of the modules that answers rest on."""
    return modules_version(_ROOMS)
