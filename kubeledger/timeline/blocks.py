"""All records of a node in blocks of gzip: the page opens a block when one of its records is asked."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.query.summaries import subject_of, summary_of
from kubeledger.timeline.ask import NodeView
from kubeledger.units import format_ts

__all__ = ["BLOCK_RECORDS", "Block", "blocks", "records_between"]

BLOCK_RECORDS = 1000
_TEXT_MAX = 4000
"""Characters of one piece of evidence; `kubeledger show` has the rest."""
_EFFECTS_MAX = 20


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one node that are opened together.

    Attributes:
        first_seq, last_seq: their numbers.
        data: base64 of gzip of a JSON list.
    """

    first_seq: int
    last_seq: int
    data: str


def blocks(view: NodeView) -> Iterator[Block]:
    """All records of the node, a block after the other."""
    (row,) = view("SELECT max(seq) AS last_seq FROM events WHERE node = $node")
    for first_seq in range(1, (row["last_seq"] or 0) + 1, BLOCK_RECORDS):
        last_seq = first_seq + BLOCK_RECORDS - 1
        text = json.dumps(records_between(view, first_seq, last_seq), ensure_ascii=False)
        packed = gzip.compress(text.encode("utf-8", "backslashreplace"), 6, mtime=0)
        yield Block(first_seq=first_seq, last_seq=last_seq, data=b64encode(packed).decode())


def records_between(view: NodeView, first_seq: int, last_seq: int) -> list[dict[str, Any]]:
    """Records with these numbers as the side pane shows them."""
    span = {"first_seq": first_seq, "last_seq": last_seq}
    between = "node = $node AND {} BETWEEN $first_seq AND $last_seq"
    verdicts = {
        row["decision_seq"]: row
        for row in view(
            "SELECT decision_seq, verdict, why, rule, missing FROM verdicts WHERE "
            + between.format("decision_seq"),
            span,
        )
    }
    evidence: dict[int, list[dict[str, Any]]] = {}
    for row in view(
        "SELECT seq, source_file, source_line, text FROM evidence WHERE "
        + between.format("seq")
        + " ORDER BY seq",
        span,
    ):
        text = (row["text"] or "")[:_TEXT_MAX]
        piece = {"file": row["source_file"], "line": row["source_line"], "text": text}
        evidence.setdefault(row["seq"], []).append(piece)
    effects: dict[int, list[dict[str, Any]]] = {}
    for row in view(
        "SELECT seq, ts_ns, kind, cause_seq FROM events WHERE "
        + between.format("cause_seq")
        + " ORDER BY seq",
        span,
    ):
        effects.setdefault(row["cause_seq"], []).append(_link(row))
    rows = view(
        "SELECT e.seq, e.ts_ns, e.kind, e.role, e.body, e.namespace, e.pod, e.container,"
        " c.seq AS cause_seq, c.ts_ns AS cause_ns, c.kind AS cause_kind"
        " FROM events e LEFT JOIN events c ON c.node = e.node AND c.seq = e.cause_seq"
        " WHERE e.node = $node AND e.seq BETWEEN $first_seq AND $last_seq ORDER BY e.seq",
        span,
    )
    return [_record(row, verdicts.get(row["seq"]), evidence, effects) for row in rows]


def _record(
    row: dict[str, Any],
    verdict: dict[str, Any] | None,
    evidence: dict[int, list[dict[str, Any]]],
    effects: dict[int, list[dict[str, Any]]],
) -> dict[str, Any]:
    body = json.loads(row["body"])
    cause = None
    if row["cause_seq"] is not None:
        cause = {"seq": row["cause_seq"], "ts_ns": row["cause_ns"], "kind": row["cause_kind"]}
    judged = {} if verdict is None else {"verdict": verdict["verdict"], "why": verdict["why"], "rule": verdict["rule"]}
    if verdict is not None and verdict["missing"]:
        judged["why"] = f"{judged['why']} Missing: {', '.join(verdict['missing'])}."
    return {
        "seq": row["seq"],
        "time": format_ts(row["ts_ns"]),
        "kind": row["kind"],
        "role": row["role"],
        "about": subject_of(body),
        "summary": summary_of(row["kind"], body),
        **judged,
        "cause": [_link(cause)] if cause else [],
        "effects": effects.get(row["seq"], [])[:_EFFECTS_MAX],
        "evidence": evidence.get(row["seq"], []),
    }


def _link(row: dict[str, Any]) -> dict[str, Any]:
    return {"seq": row["seq"], "text": f"{row['kind']} at {format_ts(row['ts_ns'])[11:23]}"}
