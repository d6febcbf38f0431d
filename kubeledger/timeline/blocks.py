"""Records of a node in blocks of gzip: the page opens a block when one of its records is asked."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import chain, islice, starmap
from typing import Any

import msgspec

from kubeledger.analyze.sql.summaries import subject_of, summary_of
from kubeledger.model.units import format_ts
from kubeledger.timeline.ask import NodeView, ViewRow

BLOCK_RECORDS = 1000
_TEXT_MAX = 4000
"""Characters of one piece of evidence; `kubeledger show` has the rest."""
_LINKS_MAX = 20

_RECORDS = f"""
WITH pieces AS (
    SELECT seq,
        list({{file: source_file, line: source_line, text: left(text, {_TEXT_MAX})}}) AS told
    FROM evidence WHERE node = $node AND seq BETWEEN $first_seq AND $last_seq GROUP BY seq
), led_to AS (
    SELECT cause_seq AS seq, list({{seq: seq, ts_ns: ts_ns, kind: kind}} ORDER BY seq) AS effects
    FROM events WHERE node = $node AND cause_seq BETWEEN $first_seq AND $last_seq GROUP BY ALL
)
SELECT record.seq, record.ts_ns, record.role, record.kind, record.body,
    verdict, inferred, why, rule, missing, effects, told,
    if(cause.seq IS NULL, NULL, [{{seq: cause.seq, ts_ns: cause.ts_ns, kind: cause.kind}}]) AS cause
FROM events AS record
LEFT JOIN events AS cause ON cause.node = record.node AND cause.seq = record.cause_seq
LEFT JOIN verdicts ON verdicts.node = record.node AND decision_seq = record.seq
LEFT JOIN pieces ON pieces.seq = record.seq
LEFT JOIN led_to ON led_to.seq = record.seq
WHERE record.node = $node AND record.seq BETWEEN $first_seq AND $last_seq
    AND record.ts_ns BETWEEN $from_ns AND $to_ns
ORDER BY record.seq"""

_body_of = msgspec.json.Decoder(dict[str, Any]).decode
_ASKED_RECORDS = 1 << 16
"""So many are in memory at once."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one node that are opened together.

    Attributes:
        first_seq, last_seq: numbers of its first and its last record.
        data: base64 of gzip of a JSON list.
    """

    first_seq: int
    last_seq: int
    data: str


def blocks(view: NodeView) -> Iterator[Block]:
    """All records of the node in the scope's span, a block after the other."""
    (end,) = view("SELECT max(seq) AS seq FROM events WHERE node = $node")
    begins = range(1, (end["seq"] or 0) + 1, _ASKED_RECORDS)
    records = chain.from_iterable(
        _records(view, begin, begin + _ASKED_RECORDS - 1) for begin in begins
    )
    while batch := list(islice(records, BLOCK_RECORDS)):
        packed = gzip.compress(msgspec.json.encode(batch), mtime=0)
        yield Block(
            first_seq=batch[0]["seq"], last_seq=batch[-1]["seq"], data=b64encode(packed).decode()
        )


def records_between(view: NodeView, first_seq: int, last_seq: int) -> list[dict[str, Any]]:
    """Records with these numbers as the side pane shows them."""
    return list(_records(view, first_seq, last_seq))


def _records(view: NodeView, first_seq: int, last_seq: int) -> Iterator[dict[str, Any]]:
    from_ns, to_ns = view.scope.between
    rows = view.tuples(
        _RECORDS,
        {
            "first_seq": first_seq,
            "last_seq": last_seq,
            "from_ns": from_ns,
            "to_ns": to_ns,
        },
    )
    return starmap(_record, rows)


def _record(
    seq: int,
    ts_ns: int,
    role: str,
    kind: str,
    body_json: str,
    verdict: str | None,
    inferred: bool | None,
    why: str | None,
    rule: str | None,
    missing: Sequence[str] | None,
    effects: Sequence[ViewRow] | None,
    told: Sequence[ViewRow] | None,
    cause: Sequence[ViewRow] | None,
) -> dict[str, Any]:
    body = _body_of(body_json)
    if missing:
        why = f"{why}. Missing: {', '.join(missing)}."
    return {
        "seq": seq,
        "time": format_ts(ts_ns),
        "kind": kind,
        "role": role,
        "about": subject_of(body),
        "summary": summary_of(kind, body),
        "verdict": verdict,
        "inferred": inferred or False,
        "why": why,
        "rule": rule,
        "cause": _links(cause) if cause else [],
        "effects": _links(effects) if effects else [],
        "evidence": told or [],
    }


def _links(others: Sequence[ViewRow]) -> list[dict[str, Any]]:
    return [
        {"seq": each["seq"], "text": f"{each['kind']} at {format_ts(each['ts_ns'])[11:23]}"}
        for each in others[:_LINKS_MAX]
    ]
