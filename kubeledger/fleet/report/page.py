"""The fleet's page, and a node's own: rows as columns of numbers in one HTML file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from kubeledger.fleet.report.collect import FleetFacts, NodeFacts
from kubeledger.fleet.report.columns import COLUMNS, EXCESS_MIN, POOL_MIN, SCORE_MIN
from kubeledger.fleet.types import Failure, NodeSpec
from kubeledger.fleet.whatif import on_ledger
from kubeledger.ledger.storage import node_directory
from kubeledger.timeline import write_ledger_page
from kubeledger.timeline.page import embedded, html_page, script_of, static_text

_FORMAT = 1
_SHARED = ("text.js",)
_SCRIPTS = ("fleet.js", "rows.js", "report.js")
"""In the order in which they use one another."""

_SAID = ("id", "title", "doc", "per")
"""With what a column begins."""
_COUNTED = ("peers", "decisions", "match", "admissible", "inferred", "lines")
_PLACE = {column.id: at for at, column in enumerate(COLUMNS)}


def fleet_page(facts: FleetFacts, links: Mapping[str, str]) -> str:
    """The page.

    Args:
        links: node -> URL of its own page, relative to this one.
    """
    own = partial(static_text, package=__package__ or "")
    return html_page(
        own("report.html"),
        style=static_text("base.css") + own("report.css"),
        script=script_of([*map(static_text, _SHARED), *map(own, _SCRIPTS)]),
        fleet=embedded(payload_of(facts, links)),
    )


def payload_of(facts: FleetFacts, links: Mapping[str, str]) -> dict[str, Any]:
    """What the page draws; ``docs/fleet.md`` describes it."""
    nodes = facts.nodes
    return {
        "format": _FORMAT,
        "rule": {"pool": POOL_MIN, "score": SCORE_MIN, "excess": EXCESS_MIN},
        "columns": [
            {**dict(zip(_SAID, column, strict=False)), "problem": column.is_problem}
            for column in COLUMNS
        ],
        "pools": (pools := _distinct(nodes, lambda node: [node.pool])),
        "versions": (versions := _distinct(nodes, lambda node: node.versions)),
        "nodes": {
            "node": [node.node for node in nodes],
            "pool": [pools.index(node.pool) for node in nodes],
            "versions": [[versions.index(each) for each in node.versions] for node in nodes],
            "first_s": [_seconds(node.first_ns) for node in nodes],
            "last_s": [_seconds(node.last_ns) for node in nodes],
            **{name: [getattr(node, name) for node in nodes] for name in _COUNTED},
            "hours": [_hours(node) for node in nodes],
            "outstanding": [_outstanding(node) for node in nodes],
            "link": [links.get(node.node) for node in nodes],
        },
        "counts": {column.id: [node.counts[column.id] for node in nodes] for column in COLUMNS},
        "failures": [msgspec.to_builtins(failure) for failure in facts.failures],
    }


def _distinct(
    nodes: Sequence[NodeFacts], values: Callable[[NodeFacts], Sequence[str | None]]
) -> list[str | None]:
    found = {value for node in nodes for value in values(node)}
    return sorted(found, key=lambda value: (value is None, _natural(value or "")))


def _natural(text: str) -> list[tuple[int, str]]:
    """1.9 before 1.10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in text.split(".")]


def _seconds(ns: int | None) -> int | None:
    return None if ns is None else ns // 1_000_000_000


def _hours(node: NodeFacts) -> list[int]:
    """Hours since the first one, problems, impossible decisions: three numbers an hour."""
    if not node.hours:
        return []
    first = min(node.hours)
    flat = [first]
    for hour, (problems, impossible) in sorted(node.hours.items()):
        flat += [hour - first, problems, impossible]
    return flat


def _outstanding(node: NodeFacts) -> list[list[float]]:
    """Place of the column, what is expected, score; the highest score first."""
    ranked = sorted(node.outstanding.items(), key=lambda item: (-item[1].score, item[0]))
    return [[_PLACE[id_], round(each.expected, 2), round(each.score, 1)] for id_, each in ranked]


# A node's own page, made by a worker and written by the process that asked for it.


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
