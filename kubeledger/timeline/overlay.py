"""What-if over the recorded history: what would not have been, what else would, what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.whatif import (
    Change,
    Counts,
    Outlook,
    becomes,
    following,
    outlook,
    sentences,
)
from kubeledger.verify import Finding, Variant
from kubeledger.verify.finding import Fields

CHANGES_MAX = 10_000
"""More marks are counted, and not drawn."""


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """A variant's differences from what was recorded.

    Attributes:
        changes: decisions that would have differed, the first ``CHANGES_MAX``.
        counts: (what became of it, whether that is trusted, kind) -> decisions.
        undecided: decisions for which an input is missing.
        following: (seq, nanoseconds, kind) of what only followed from decisions that would not
            have been taken.
    """

    result: Outlook
    changes: Sequence[Change]
    counts: Counts
    undecided: Sequence[Finding]
    following: Sequence[tuple[int, int, str]]

    @classmethod
    def of(cls, history: History, variant: Variant) -> Overlay:
        """Decide everything under the variant.

        Args:
            variant: settings, or a version.
        """
        result = Outlook(variant=variant.name)
        changes: list[Change] = []
        counts: Counts = Counter()
        undecided: list[Finding] = []
        for change in outlook(history.read, variant, result, undecided.append):
            counts[becomes(change), change.untrusted_since is None, change.kind] += 1
            if len(changes) < CHANGES_MAX:
                changes.append(change)
        gone = [change.seq for change in changes if becomes(change) == "gone"]
        return cls(
            result=result,
            changes=changes,
            counts=counts,
            undecided=undecided,
            following=[(r.seq, r.ts_ns, r.kind) for r in following(history.read, gone)],
        )

    def payload(self) -> dict[str, Any]:
        """Summary and marks, for the page; docs/internals/timeline.md describes them."""
        return {
            **{name: getattr(self.result, name) for name in _COUNTS},
            "summary": list(
                sentences(
                    self.result,
                    self.counts,
                    [kind for *_, kind in self.following],
                    len(self.undecided),
                )
            ),
            "marks": [
                *map(_mark, self.changes),
                *map(_open_mark, self.undecided[:CHANGES_MAX]),
                *(
                    {
                        "seq": seq,
                        "ts_ns": str(ts_ns),
                        "kind": kind,
                        "change": "follows",
                        "why": "it only followed from what would not have been",
                    }
                    for seq, ts_ns, kind in self.following
                ),
            ],
        }


_COUNTS = ("variant", "decisions", "same", "changed", "untrusted", "unknown")


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
