"""Decide recorded decisions again and say whether the kubelet could have taken them.

Comes in: records of one node. Goes out: a finding for each decision, and contradictions. Imports
``model``, ``kubelet`` and ``replay.node``. Pure.
"""

from __future__ import annotations

from kubeledger.verify.finding import Contradiction, Finding, Outcome, Side, Verdict, Violation
from kubeledger.verify.run import BasedReader, Reader, verify
from kubeledger.verify.variant import RECORDED, PodFieldChange, ProbeChange, ResourceChange, Variant

__all__ = [
    "RECORDED",
    "BasedReader",
    "Contradiction",
    "Finding",
    "Outcome",
    "PodFieldChange",
    "ProbeChange",
    "Reader",
    "ResourceChange",
    "Side",
    "Variant",
    "Verdict",
    "Violation",
    "verify",
]
