"""What verification says of degraded truths and of lies, counted by kind of decision."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding, Outcome
from tests.verify.histories import outcomes
from tests.verify.properties.bundles import BUNDLES, degraded_bundle
from tests.verify.properties.lies import Lie, lies_about, lying, unreported
from tests.verify.properties.losses import LOSSES
from tests.verify.properties.truths import Truth, named

CONTRADICTION = "contradiction"
"""Stands for a kind where two sources disagree."""


CRASH = "crash"
"""Stands for the subject where verification did not come to its end."""


class Case(msgspec.Struct, frozen=True):
    """A truth and a way to lose evidence of it.

    Attributes:
        truth: name; ``files/NODE`` is a recording whose files are degraded and imported.
        how: name of the way, of ``LOSSES`` or ``BUNDLES``.
        seed: of what is drawn.
    """

    truth: str
    how: str
    seed: int

    def __str__(self) -> str:
        return f"{self.truth}:{self.how}:{self.seed}"

    @staticmethod
    def parse(text: str) -> Case:
        """What ``str`` gives."""
        truth, how, seed = text.rsplit(":", 2)
        return Case(truth, how, int(seed))

    def records(self) -> list[Record]:
        """The degraded history."""
        random = Random(str(self))
        if self.truth.startswith("files/"):
            return degraded_bundle(self.truth.partition("/")[2], self.how, random)
        return LOSSES[self.how](named(self.truth), random)

    @property
    def ways(self) -> Sequence[str]:
        """All ways of such a truth."""
        return tuple(BUNDLES if self.truth.startswith("files/") else LOSSES)


class Judged(msgspec.Struct, frozen=True):
    """What was said of a degraded truth.

    Attributes:
        decisions: kind -> decisions; ``decided``: of these sound ones, inferred ones among them.
        wrong: impossible decisions and contradictions: none is right.
    """

    decisions: Counter[str]
    decided: Counter[str]
    wrong: tuple[Outcome, ...]


def kind_of(outcome: Outcome) -> str:
    """The kind of a decision, or what stands for one."""
    if isinstance(outcome, Contradiction):
        return CRASH if outcome.subject == CRASH else CONTRADICTION
    return outcome.kind


def judged(records: Sequence[Record]) -> Judged:
    """Verify a degraded truth."""
    decisions: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    wrong: list[Outcome] = []
    try:
        found = outcomes(records)
    except Exception:
        crash = traceback.format_exc(limit=-3)
        return Judged(
            decisions, decided, (Contradiction(ts_ns=0, subject=CRASH, why=crash, sides=()),)
        )
    for outcome in found:
        if isinstance(outcome, Contradiction):
            wrong.append(outcome)
            continue
        decisions[outcome.kind] += outcome.recorded is not None
        decided[outcome.kind] += outcome.is_sound
        if outcome.verdict == "impossible":
            wrong.append(outcome)
    return Judged(decisions, decided, tuple(wrong))


class Answer(msgspec.Struct, frozen=True):
    """What was said of a lie.

    Attributes:
        kind, seq, field: of the decision; ``field`` is ``(not there)`` for one that was taken out.
        lie: what it said, and says.
        verdict: ``caught``; ``elsewhere``: something else is impossible now; ``open``:
            unverifiable; else the verdict on the lie.
        truth: the history.
    """

    truth: str
    kind: str
    seq: int
    field: str
    lie: str
    verdict: str


def answers(truth: Truth, random: Random, most: int, kinds: tuple[str, ...]) -> Iterator[Answer]:
    """Tell lies about decisions of a history, ``most`` at most, and see what is said."""
    before = outcomes(truth.records)
    reported = {outcome.seq: outcome for outcome in before if isinstance(outcome, Finding)}
    lies = [
        (record, lie)
        for record in truth.records
        if record.role == "decision" and record.kind.startswith(kinds)
        if record.seq in reported and reported[record.seq].verdict in ("match", "admissible")
        for lie in lies_about(record, truth.records, random)
    ]
    for record, lie in _spread(lies, most, random):
        yield answer_to(truth, record, lie, before)


def _spread(
    lies: list[tuple[Record, Lie]], most: int, random: Random
) -> Iterator[tuple[Record, Lie]]:
    """As many of each kind and field as there are, in turn: the rare ones come first."""
    by_field: dict[tuple[str, str], list[tuple[Record, Lie]]] = {}
    for record, lie in lies:
        by_field.setdefault((record.kind, lie.field), []).append((record, lie))
    for each in by_field.values():
        random.shuffle(each)
    queues = [by_field[key] for key in sorted(by_field)]
    random.shuffle(queues)
    left = most
    while left and any(queues):
        for queue in queues:
            if queue and left:
                left -= 1
                yield queue.pop()


def answer_to(truth: Truth, record: Record, lie: Lie, before: Sequence[Outcome]) -> Answer:
    """Tell one lie."""
    after = outcomes(lying(truth.records, lie))
    old = {name: getattr(record.body, name) for name in lie.fields}
    return Answer(
        truth.name, record.kind, record.seq, lie.field, f"{old} -> {lie.fields}",
        _verdict(lie.seq, before, after),
    )  # fmt: skip


def _verdict(seq: int, before: Sequence[Outcome], after: Sequence[Outcome]) -> str:
    own = next((o for o in after if isinstance(o, Finding) and o.seq == seq and o.recorded), None)
    if own is not None and own.verdict == "impossible":
        return "caught"
    if any(isinstance(o, Contradiction) and _concerns(o, seq, own) for o in after):
        return "caught"
    if _wrong(after) > _wrong(before):
        return "elsewhere"
    if own is None:
        return "lost"
    return "open" if own.verdict == "unverifiable" else own.verdict


def _concerns(dispute: Contradiction, seq: int, own: Finding | None) -> bool:
    return any(side.seq == seq for side in dispute.sides) or (
        own is not None and dispute.subject == own.subject
    )


def is_wrong(outcome: Outcome) -> bool:
    """Whether it says that something cannot be."""
    return isinstance(outcome, Contradiction) or outcome.verdict == "impossible"


def _wrong(found: Sequence[Outcome]) -> int:
    return sum(map(is_wrong, found))


def owed(truth: Truth, random: Random, most: int, kinds: tuple[str, ...]) -> Iterator[Answer]:
    """Take out decisions, one at a time, of which something else shows that they were taken."""
    before = _wrong(outcomes(truth.records))
    taken = [r for r in truth.records if r.role == "decision" and r.kind.startswith(kinds)]
    random.shuffle(taken)
    by_kind: dict[str, list[Record]] = {}
    for record in taken:
        by_kind.setdefault(record.kind, []).append(record)
    for kind in sorted(by_kind):
        for record in by_kind[kind][: max(1, most // 20)]:
            after = outcomes(unreported(truth.records, record.seq))
            verdict = "caught" if _wrong(after) > before else "missed"
            yield Answer(truth.name, kind, record.seq, "(not there)", "", verdict)
