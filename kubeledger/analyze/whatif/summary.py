"""What a variant comes to, in a few sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from kubeledger.analyze.whatif.changes import Becomes, Outlook
from kubeledger.model.record import Record
from kubeledger.verify import Reader

Counts = Counter[tuple[Becomes, bool, str]]
"""What became of a decision, whether that is trusted, and its kind."""

WORDS: Mapping[Becomes, str] = {
    "gone": "would not have been",
    "added": "would have been added",
    "other": "would have been decided otherwise",
}

_FOLLOWING = frozenset(
    {
        *("lifecycle.ContainerDied", "lifecycle.ContainerKilled", "lifecycle.ContainerRestarted"),
        *("lifecycle.PodTerminated", "lifecycle.PodTerminating", "lifecycle.RestartBackedOff"),
    }
)


def following(read: Reader, gone: Collection[int]) -> list[Record]:
    """Ends, and what comes after them, that only came because of what would not have been.

    Args:
        read: opens the records of a node.
        gone: seqs of decisions that would not have been.
    """
    followed, found = set(gone), []
    for record in sorted(read(_FOLLOWING), key=lambda each: each.seq) if gone else ():
        if record.cause in followed and record.seq not in followed:
            followed.add(record.seq)
            found.append(record)
    return found


def sentences(
    result: Outlook, counts: Counts, followed: Collection[str], undecided: int
) -> Iterator[str]:
    """The answer in words.

    Args:
        result: counts of decisions.
        counts: of the changes.
        followed: (n,) kinds of what only followed from decisions that would not have been.
        undecided: decisions for which an input is missing under the variant.
    """
    for outcome, words in WORDS.items():
        for trusted, doubt in ((True, ""), (False, ", if all had gone on as recorded")):
            of_kinds = {
                kind: count
                for (what, sure, kind), count in counts.items()
                if (what, sure) == (outcome, trusted)
            }
            if of_kinds:
                yield f"{words.capitalize()}{doubt}: {_listed(of_kinds)}."
    if followed:
        yield f"So would not have followed: {_listed(Counter(followed))}."
    if not counts:
        yield "No decision would have differed."
    if result.untrusted:
        yield (
            f"{result.untrusted:,} of {result.decisions:,} decisions follow the first"
            " change: later inputs would have differed."
        )
    for what, count in sorted(result.missing.items()):
        yield f"Not decided, because it is not known: {what} ({count:,}×)."
    if result.unknown > undecided:
        unverified = result.unknown - undecided
        yield f"Not decided, as they are not verified as recorded either: {unverified:,}."


def _listed(counts: Mapping[str, int]) -> str:
    """``17× pod evicted, 2× container killed``, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,}× {_words(kind)}" for kind, count in ordered)


def _words(kind: str) -> str:
    """``lifecycle.PodEvicted`` as ``pod evicted``."""
    name = kind.partition(".")[2]
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
