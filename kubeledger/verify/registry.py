"""All verifiers, in the order in which they see a record."""

from __future__ import annotations

from kubeledger.verify.verifier import Verifier

__all__ = ["VERIFIERS"]

VERIFIERS: tuple[type[Verifier], ...] = ()
