"""Decide recorded decisions again and say whether the kubelet could have taken them.

Comes in: records of one node. Goes out: a finding for each decision, and contradictions. Imports
``model``, ``kubelet`` and ``replay.node``. Pure.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubeledger.verify.finding import (
        BasedReader,
        Contradiction,
        Finding,
        Outcome,
        Reader,
        Side,
        Verdict,
        Violation,
    )
    from kubeledger.verify.run import verify
    from kubeledger.verify.variant import (
        RECORDED,
        PodFieldChange,
        ProbeChange,
        ResourceChange,
        Variant,
    )

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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as of a module
    """A name of ``__all__``: an import reads logs with one rule's machine, and loads no other."""
    for home in ("finding", "variant", "run") if name in __all__ else ():
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            found = globals()[name] = getattr(module, name)
            return found
    raise AttributeError(name)
