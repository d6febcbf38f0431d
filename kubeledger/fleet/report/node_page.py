"""A node's own page, made by a worker and written by the process that asked for it."""

from __future__ import annotations

import io
from pathlib import Path

import zstandard

from kubeledger.fleet.ask import on_ledger
from kubeledger.fleet.types import Failure, NodeSpec
from kubeledger.ledger.names import node_directory
from kubeledger.timeline import write_ledger_page


def page_name(node: str) -> str:
    """File of a node's page, by its key in the lake."""
    return f"{node_directory(node)}.html"


def node_page(task: NodeSpec) -> bytes | Failure:
    """What a worker does: the timeline page of a node.

    Returns:
        the page in UTF-8, packed by Zstandard: workers may be on other machines. Or why there
        is none.
    """
    return on_ledger(task, _page)


def _page(directory: Path, name: str) -> bytes:
    packed = io.BytesIO()
    packer = zstandard.ZstdCompressor()
    with (
        packer.stream_writer(packed, closefd=False) as writer,
        io.TextIOWrapper(writer, encoding="utf-8", newline="\n") as text,
    ):
        write_ledger_page(directory, text, node=name)
    return packed.getvalue()
