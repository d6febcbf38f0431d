"""Decide recorded decisions again and say whether the kubelet could have taken them.

Comes in: records of one node. Goes out: a finding for each decision, and contradictions. Imports
``model``, ``kubelet`` and ``replay.node``. Pure.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubeledger.verify.finding import BasedReader as BasedReader
    from kubeledger.verify.finding import Contradiction as Contradiction
    from kubeledger.verify.finding import Finding as Finding
    from kubeledger.verify.finding import Outcome as Outcome
    from kubeledger.verify.finding import Reader as Reader
    from kubeledger.verify.finding import Side as Side
    from kubeledger.verify.finding import Verdict as Verdict
    from kubeledger.verify.finding import Violation as Violation
    from kubeledger.verify.run import verify as verify
    from kubeledger.verify.variant import RECORDED as RECORDED
    from kubeledger.verify.variant import PodFieldChange as PodFieldChange
    from kubeledger.verify.variant import ProbeChange as ProbeChange
    from kubeledger.verify.variant import ResourceChange as ResourceChange
    from kubeledger.verify.variant import Variant as Variant


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as of a module
    """Any name above: an import reads logs with one rule's machine, and loads no other."""
    for home in () if name.startswith("_") else ("finding", "variant", "run"):
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            found = globals()[name] = getattr(module, name)
            return found
    raise AttributeError(name)
