"""The page of a ledger's nodes, from the ledger to the last byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.timeline.ask import NodeView, Scope
from kubeledger.timeline.blocks import blocks
from kubeledger.timeline.build import build_drawing
from kubeledger.timeline.page import write_page

__all__ = ["write_ledger_page"]


def write_ledger_page(
    ledger: Path,
    stream: TextIO,
    *,
    node: str | None = None,
    scope: Scope | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Write the page of a ledger's nodes.

    Args:
        ledger: its directory.
        stream: where to, as UTF-8.
        node: only this one; None: all.
        scope: what part of their histories.
        report: called with what is done next; of a long ledger each step takes long.

    Raises:
        BadQuestionError: no such node, no record, pods that no record is about, or a span that
            ends before it begins.
    """
    scope = scope or Scope()
    if scope.from_ns is not None and scope.to_ns is not None and scope.from_ns > scope.to_ns:
        raise BadQuestionError("the span ends before it begins", advice="exchange its two times")
    histories = histories_of_ledger(Ledger.open(ledger), node)
    with connect(ledger) as queryable:
        report("reading and verifying the records")
        views = [NodeView(queryable, each.node, scope, each) for each in histories]
        report("drawing")
        drawings = [build_drawing(view) for view in views]
        drawn = {section.id for drawing in drawings for section in drawing.sections}
        if scope.pods and not drawn & {"problems", "pods"}:
            raise BadQuestionError(
                f"nothing to draw of {', '.join(scope.pods)}",
                advice="`kubeledger get pods` lists the names; a pod may lie outside the span",
            )
        report("writing the records")
        write_page(drawings, [blocks(view) for view in views], stream)
