"""Replay the observations of a node under a variant: which decisions change, and why."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.whatif.pods import SpareMemory, pods_of
from kubeledger.analyze.whatif.probes import Probes
from kubeledger.analyze.whatif.taint import Taint
from kubeledger.analyze.whatif.variants import effective
from kubeledger.analyze.whatif.world import World
from kubeledger.model.record import Record
from kubeledger.verify import Finding, Outcome, Reader, Variant, verify
from kubeledger.verify.finding import Fields

Becomes = Literal["gone", "added", "other"]
"""It would not have been, would have been besides, or would have been decided otherwise."""


_OCCASIONS = frozenset({"oom.ProcessKilled"})
"""Decisions that a variant may show would not be taken at all, though it cannot be
verified whom they hit: a limit shows that, and the kernel's table of processes is not needed."""
_NEVER = ("unverifiable", "impossible")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that would have differed.

    Attributes:
        seq, ts_ns, kind, subject: as in :class:`kubeledger.verify.Finding`.
        recorded: the decision taken; None where none was.
        instead: what would have been decided; None: nothing.
        why: one sentence.
        untrusted_since: seq of an earlier change after which this decision's inputs are
            no longer those that would have been observed; None: they are.
    """

    seq: int
    ts_ns: int
    kind: str
    subject: str
    recorded: Fields | None
    instead: Fields | None
    why: str
    untrusted_since: int | None


class Outlook(msgspec.Struct, kw_only=True):
    """A variant, seen to its end.

    Attributes:
        same: decided as recorded (or the recorded one is admissible), on inputs that hold.
        changed: would have differed, on inputs that hold.
        untrusted: whatever is decided: the world would have gone another way before.
        unknown: an input is missing under the variant that is not missing now.
        missing: such inputs -> how many decisions lack them.
    """

    variant: str
    decisions: int = 0
    same: int = 0
    changed: int = 0
    untrusted: int = 0
    unknown: int = 0
    missing: dict[str, int] = {}


def outlook(
    read: Reader,
    variant: Variant,
    result: Outlook,
    on_undecided: Callable[[Finding], None] = lambda _: None,
    recorded: Iterator[Outcome] | None = None,
) -> Iterator[Change]:
    """Decide everything again under a variant.

    A decision that cannot be verified, or is impossible, under the recorded settings says
    nothing about the variant and is left out of ``changed``, but for a kill that would not
    have come at all.

    Args:
        result: is counted up while changes are taken.
        on_undecided: called with decisions for which an input is missing under the variant.
        recorded: what :func:`verify` says without the variant, where that may be kept.

    Yields:
        changes in the order of replay, the untrusted ones marked.
    """
    variant = effective(read, variant)
    high = variant.settings.get("imageGCHighThresholdPercent")
    pods, probes = pods_of(read, variant), Probes(read, variant)
    taint = Taint(World(pods, SpareMemory(read, variant)), pods, high)
    before, own = _unsound(recorded or verify(read)), probes.own
    outcomes = verify(read, variant, on_question=taint.note_question)
    findings = (outcome for outcome in outcomes if isinstance(outcome, Finding))
    for finding, doubt in _with_probes(findings, probes, taint):
        unsound = before.get((finding.seq, finding.recorded is None))
        is_open = unsound is None and finding.verdict == "unverifiable"
        taint.pass_by(finding, doubt, is_open=is_open)
        if finding.recorded is not None:
            result.decisions += 1
        if finding.kind in _OCCASIONS and (unsound, finding.verdict) == _NEVER:
            unsound = None
        if unsound is not None:
            result.unknown += finding.recorded is not None
            continue
        if finding.verdict == "unverifiable":
            result.unknown += 1
            for what in finding.missing:
                result.missing[what] = result.missing.get(what, 0) + 1
            on_undecided(finding)
        elif finding.verdict != "impossible":
            result.untrusted += doubt is not None
            result.same += doubt is None
        else:
            result.untrusted += doubt is not None
            result.changed += doubt is None
            if finding.seq in own:
                taint.end(finding)
            else:
                taint.change(finding, doubt)
            yield _change(finding, doubt)


def _with_probes(
    findings: Iterator[Finding], probes: Probes, taint: Taint
) -> Iterator[tuple[Finding, int | None]]:
    """Findings, and seq of the change that each follows."""
    added = deque(probes.added)
    for found in findings:
        while added and added[0].ts_ns <= found.ts_ns:
            yield _doubted(added.popleft(), probes, taint)
        ruled = probes.rulings.get(found.seq) if found.recorded is not None else None
        yield _doubted(ruled or found, probes, taint)
    for extra in added:
        yield _doubted(extra, probes, taint)


def _doubted(finding: Finding, probes: Probes, taint: Taint) -> tuple[Finding, int | None]:
    doubts = (taint.of(finding), probes.since.get(finding.seq))
    return finding, min((doubt for doubt in doubts if doubt is not None), default=None)


def _unsound(recorded: Iterator[Outcome]) -> dict[tuple[int, bool], str]:
    """(seq, whether the decision is missing) of what is not verified as recorded -> verdict."""
    return {
        (outcome.seq, outcome.recorded is None): outcome.verdict
        for outcome in recorded
        if isinstance(outcome, Finding) and not outcome.is_sound
    }


def _change(finding: Finding, doubt: int | None) -> Change:
    why = finding.why
    for past, would in _MOODS:
        why = why.replace(past, would)
    return Change(
        seq=finding.seq,
        ts_ns=finding.ts_ns,
        kind=finding.kind,
        subject=finding.subject,
        recorded=finding.recorded,
        instead=finding.expected,
        why=why,
        untrusted_since=doubt,
    )


_MOODS = (
    ("cannot have ", "would not have "),
    ("had to be ", "would be "),
    ("had to become ", "would become "),
    ("had to begin", "would begin"),
)
"""What ``verify`` says of a decision that was taken -> what is said of one under a variant."""


def becomes(change: Change) -> Becomes:
    """What becomes of the decision under the variant."""
    if change.recorded is None:
        return "added"
    return "gone" if _is_nothing(change.recorded, change.instead) else "other"


def _is_nothing(recorded: Fields, instead: Fields | None) -> bool:
    """Whether what would be decided instead is that nothing happens, or that all is well."""
    if instead is None or (instead.get("admit") is True and "admit" not in recorded):
        return True
    different = [value for name, value in instead.items() if value != recorded.get(name)]
    return bool(different) and all(value in (None, "", []) for value in different)


# What a variant comes to, in a few sentences.


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant makes of a node.

    Attributes:
        changes: in the order of replay.
        undecided: decisions for which an input is missing under the variant.
        followed: what only came because of decisions that would not have been.
        summary: (n,) sentences.
    """

    node: str
    result: Outlook
    changes: Sequence[Change]
    undecided: Sequence[Finding]
    followed: Sequence[Record]
    summary: Sequence[str]


def answer(history: History, variant: Variant, changes_max: int | None = None) -> Answer:
    """Decide everything of a node under a variant.

    Args:
        changes_max: later ones are counted, and not kept.

    Raises:
        KubeledgerError: its records cannot be read.
    """
    result, counts = Outlook(variant=variant.name), _Counts()
    changes, undecided = list[Change](), list[Finding]()
    found = outlook(history.read, variant, result, undecided.append, history.verify())
    for change in found:
        counts[becomes(change), change.untrusted_since is None, change.kind] += 1
        if changes_max is None or len(changes) < changes_max:
            changes.append(change)
    gone = [change.seq for change in changes if becomes(change) == "gone"]
    followed = _following(history.read, gone)
    return Answer(
        node=history.node,
        result=result,
        changes=changes,
        undecided=undecided,
        followed=followed,
        summary=list(_sentences(result, counts, [r.kind for r in followed], len(undecided))),
    )


_Counts = Counter[tuple[Becomes, bool, str]]
"""What became of a decision, whether that is trusted, and its kind."""

WORDS: Mapping[Becomes, str] = {
    "gone": "would not have happened",
    "added": "would have been added",
    "other": "would have been decided otherwise",
}

_FOLLOWING = frozenset(
    {
        *("lifecycle.ContainerDied", "lifecycle.ContainerKilled", "lifecycle.ContainerRestarted"),
        *("lifecycle.PodTerminated", "lifecycle.PodTerminating", "lifecycle.RestartBackedOff"),
    }
)


def _following(read: Reader, gone: Collection[int]) -> list[Record]:
    """Ends, and what comes after them, that only came because of what would not have been.

    Args:
        gone: seqs of decisions that would not have been.
    """
    followed, found = set(gone), []
    for record in sorted(read(_FOLLOWING), key=lambda each: each.seq) if gone else ():
        if record.cause in followed and record.seq not in followed:
            followed.add(record.seq)
            found.append(record)
    return found


def _sentences(
    result: Outlook, counts: _Counts, followed: Collection[str], undecided: int
) -> Iterator[str]:
    """The answer in words.

    Args:
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
