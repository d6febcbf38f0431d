"""The page of a ledger's nodes, from the ledger to the last byte."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from kubeledger.errors import BadQuestionError
from kubeledger.ledger.ledger import Ledger
from kubeledger.query.api import connect
from kubeledger.timeline.ask import NodeView, Scope
from kubeledger.timeline.blocks import blocks
from kubeledger.timeline.build import build_drawing
from kubeledger.timeline.page import write_page

__all__ = ["write_ledger_page"]


def write_ledger_page(
    ledger: Path, stream: TextIO, *, node: str | None = None, scope: Scope | None = None
) -> None:
    """Write the page of a ledger's nodes.

    Args:
        ledger: its directory.
        stream: where to, as UTF-8.
        node: only this one; None: all.
        scope: what part of their histories.

    Raises:
        BadQuestionError: no such node, no record, or a pod that no record is about.
    """
    nodes = Ledger.open(ledger).nodes()
    if not nodes:
        raise BadQuestionError("the ledger holds no record", advice="import a node's files first")
    if node is not None and node not in nodes:
        raise BadQuestionError(f"no node {node!r}", advice=f"there are: {', '.join(nodes)}")
    with connect(ledger) as queryable:
        views = [NodeView(queryable, each, scope) for each in nodes if node in (None, each)]
        write_page([build_drawing(view) for view in views], [blocks(v) for v in views], stream)
