"""What-if over the recorded history: what would not have been, what else would, what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.whatif import Change, Outlook, becomes, outlook
from kubeledger.timeline.ask import NodeView
from kubeledger.verify import Finding, Variant
from kubeledger.verify.finding import Fields

__all__ = ["Overlay"]

CHANGES_MAX = 10_000
"""More marks are counted, and not drawn."""

_FOLLOWING = """
WITH RECURSIVE following AS (
    SELECT unnest($gone::BIGINT[]) AS seq
    UNION
    SELECT event.seq FROM events AS event JOIN following ON event.cause_seq = following.seq
    WHERE event.node = $node AND event.kind IN (
        'lifecycle.ContainerDied', 'lifecycle.ContainerKilled', 'lifecycle.ContainerRestarted',
        'lifecycle.PodTerminated', 'lifecycle.PodTerminating', 'lifecycle.RestartBackedOff')
)
SELECT event.seq, event.ts_ns, event.kind FROM events AS event JOIN following USING (seq)
WHERE event.node = $node AND NOT list_contains($gone::BIGINT[], event.seq)
ORDER BY event.seq"""
"""Ends, and what comes after them, that only came because of what would not have been."""


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """A variant's differences from what was recorded.

    Attributes:
        result: counts of decisions.
        changes: decisions that would have differed, the first ``CHANGES_MAX``.
        counts: (what became of it, whether that is trusted, kind) -> decisions.
        undecided: decisions for which an input is missing.
        following: (seq, nanoseconds, kind) of what only followed from decisions that would not
            have been taken.
    """

    result: Outlook
    changes: Sequence[Change]
    counts: Counter[tuple[str, bool, str]]
    undecided: Sequence[Finding]
    following: Sequence[tuple[int, int, str]]

    @classmethod
    def of(cls, history: History, variant: Variant, view: NodeView) -> Overlay:
        """Decide everything under the variant.

        Args:
            history: the node's records.
            variant: settings, or a version.
            view: of the same node.
        """
        result = Outlook(variant=variant.name)
        changes: list[Change] = []
        counts: Counter[tuple[str, bool, str]] = Counter()
        undecided: list[Finding] = []
        for change in outlook(history.read, variant, result, undecided.append):
            counts[becomes(change), change.untrusted_since is None, change.kind] += 1
            if len(changes) < CHANGES_MAX:
                changes.append(change)
        gone = [change.seq for change in changes if becomes(change) == "gone"]
        rows = view(_FOLLOWING, {"gone": gone}) if gone else []
        return cls(
            result=result,
            changes=changes,
            counts=counts,
            undecided=undecided,
            following=[(row["seq"], row["ts_ns"], row["kind"]) for row in rows],
        )

    def payload(self) -> dict[str, Any]:
        """Summary and marks, for the page; docs/timeline.md describes them."""
        return {
            **{name: getattr(self.result, name) for name in _COUNTS},
            "summary": list(self._sentences()),
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

    def _sentences(self) -> Iterator[str]:
        for outcome, words in _WORDS.items():
            for trusted, doubt in ((True, ""), (False, ", if all had gone on as recorded")):
                found = {
                    kind: count
                    for (what, sure, kind), count in self.counts.items()
                    if what == outcome and sure == trusted
                }
                if found:
                    yield f"{words}{doubt}: {_listed(found)}."
        if self.following:
            yield f"So would not have followed: {_listed(Counter(k for *_, k in self.following))}."
        if not self.counts:
            yield "No decision would have differed."
        untrusted = self.result.untrusted
        if untrusted:
            yield (
                f"{untrusted:,} of {self.result.decisions:,} decisions follow the first"
                " change: later inputs would have differed."
            )
        for what, count in sorted(self.result.missing.items()):
            yield f"Not decided, because it is not known: {what} ({count:,}×)."
        unknown = self.result.unknown - len(self.undecided)
        if unknown > 0:
            yield f"Not decided, as they are not verified as recorded either: {unknown:,}."


_COUNTS = ("variant", "decisions", "same", "changed", "untrusted", "unknown")
_WORDS = {
    "gone": "Would not have been",
    "added": "Would have been added",
    "other": "Would have been decided otherwise",
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


def _listed(counts: dict[str, int]) -> str:
    """``17 pod evicted, 2 container killed``, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,}× {_words(kind)}" for kind, count in ordered)


def _words(kind: str) -> str:
    """``lifecycle.PodEvicted`` as ``pod evicted``."""
    name = kind.partition(".")[2]
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
