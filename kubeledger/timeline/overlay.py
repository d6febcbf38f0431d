"""What-if over the recorded history: what would not have been, what else would, what is open."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.whatif import Change, answer, becomes
from kubeledger.verify import Finding, Variant
from kubeledger.verify.finding import Fields

CHANGES_MAX = 10_000
"""More marks are counted, and not drawn."""

_COUNTS = ("variant", "decisions", "same", "changed", "untrusted", "unknown")


def overlay(history: History, variant: Variant) -> dict[str, Any]:
    """Summary and marks, for the page; docs/internals/timeline.md describes them."""
    found = answer(history, variant, CHANGES_MAX)
    return {
        **{name: getattr(found.result, name) for name in _COUNTS},
        "summary": found.summary,
        "marks": [
            *map(_mark, found.changes),
            *map(_open_mark, found.undecided[:CHANGES_MAX]),
            *(
                {
                    "seq": record.seq,
                    "ts_ns": str(record.ts_ns),
                    "kind": record.kind,
                    "change": "follows",
                    "why": "it only followed from what would not have happened",
                }
                for record in found.followed
            ),
        ],
    }


def _mark(change: Change) -> dict[str, Any]:
    return {
        "seq": change.seq,
        "ts_ns": str(change.ts_ns),
        "kind": change.kind,
        "subject": change.subject,
        "change": becomes(change),
        "untrusted_since": change.untrusted_since,
        "why": change.why,
        "recorded": _text(change.recorded),
        "instead": _text(change.instead),
    }


def _open_mark(finding: Finding) -> dict[str, Any]:
    return {
        "seq": finding.seq,
        "ts_ns": str(finding.ts_ns),
        "kind": finding.kind,
        "subject": finding.subject,
        "change": "undecided",
        "why": f"not known: {', '.join(finding.missing)}" if finding.missing else finding.why,
    }


def _text(fields: Fields | None) -> str | None:
    """As JSON: numbers may exceed what JavaScript holds exactly."""
    return None if fields is None else msgspec.json.encode(fields, order="sorted").decode()
