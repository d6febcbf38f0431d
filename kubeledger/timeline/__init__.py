"""The timeline page: a node's history on one screen, as one self-contained HTML file.

Comes in: a ledger. Goes out: a page, or a trace for Perfetto. Imports the rooms before it but
``simulate``.
"""

from __future__ import annotations

from kubeledger.timeline.build import build_drawing
from kubeledger.timeline.drawing import Drawing, NodeView, Scope
from kubeledger.timeline.page import blocks, write_ledger_page, write_page
from kubeledger.timeline.perfetto import write_trace

__all__ = [
    "Drawing",
    "NodeView",
    "Scope",
    "blocks",
    "build_drawing",
    "write_ledger_page",
    "write_page",
    "write_trace",
]
