"""The HTML file: style, script, drawings and records in one page that makes no request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from kubeledger.timeline.blocks import Block
from kubeledger.timeline.drawing import Drawing
from kubeledger.timeline.payload import node_payload
from kubeledger.timeline.shell import embedded, html_page, script_of, static_text

__all__ = ["page_text", "payload_of", "script_text", "write_page"]

_SCRIPTS = ("text.js", "model.js", "surface.js", "draw.js", "view.js", "pane.js")
"""In the order in which they use one another."""
_LIVE = "live.js"
_LAST = "main.js"
_FORMAT = 1


def write_page(
    drawings: Sequence[Drawing], blocks: Sequence[Iterable[Block]], stream: TextIO
) -> None:
    """Write the page of one or several nodes.

    Args:
        drawings: (n,) one a node.
        blocks: (n,) of each, its records; taken one after the other.
        stream: where to, as UTF-8.
    """
    before, after = page_text(payload_of(drawings)).split(_BLOCKS)
    stream.write(before)
    for node, each in enumerate(blocks):
        for block in each:
            stream.write(
                f'<script type="application/gzip" class="records" data-node="{node}"'
                f' data-first="{block.first_seq}" data-last="{block.last_seq}">'
                f"{block.data}</script>\n"
            )
    stream.write(after)


_BLOCKS = "<!-- records -->"


def payload_of(drawings: Sequence[Drawing]) -> dict[str, Any]:
    """What the page draws."""
    return {"format": _FORMAT, "nodes": [node_payload(drawing) for drawing in drawings]}


def script_text(*, live: bool = False) -> str:
    """The page's script, whole; with what it asks a server where it has one."""
    return script_of([static_text(name) for name in (*_SCRIPTS, *([_LIVE] if live else []), _LAST)])


def page_text(payload: dict[str, Any] | None, live: dict[str, Any] | None = None) -> str:
    """The page without its records.

    Args:
        payload: what it draws; None: it asks its server.
        live: what it needs to ask its server; None: it has none.
    """
    styles = ("base.css", "page.css", *([] if live is None else ["live.css"]))
    return html_page(
        static_text("page.html"),
        style="".join(map(static_text, styles)),
        script=script_text(live=live is not None),
        connects=live is not None,
        drawing=embedded(payload),
        live=embedded(live),
        blocks=_BLOCKS,
    )
