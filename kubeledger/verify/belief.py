"""What the kubelet may have known, and the one judgement of a decision against it.

A rule judges one kind of decision. It keeps a :class:`Belief`: the states (*worlds*) in which
the kubelet may have been, as far as the records show. Two kinds of not knowing are never mixed:

* *freedom* is the kubelet's own (map order, ties). It lives inside a :class:`Ruling`: what was
  recorded is ``allowed`` though the decider would have ``chosen`` something else.
* *ignorance* is ours. It is more than one world; each names what it assumes and no record
  says, as noun phrases ("what pod default/a used of memory at that time").

:func:`judge` then says the verdict, the same way for every rule:

=====================  =========================================================================
every world allows it  ``match`` if it is what each would choose, else ``admissible``
no world allows it     ``impossible``
some do                ``unverifiable``; missing is what is assumed in only one of the two groups
none, some left out    ``unverifiable``: worlds that were left out may allow it
=====================  =========================================================================

To write a rule, subclass :class:`RuleVerifier`, name the kubelet's function in ``rule`` and its
decisions in ``decides``, which ``sees`` has to have, too, and

1. keep in ``self`` what the decision depends on, from ``sees`` (before a record changes the
   state) and ``prescans`` (first reading). A value that no record shows exactly is more than
   one world, or one state with an interval in it where the decision depends on it monotonically:
   then two worlds, with the two ends, are enough.
2. call the subsystem's decider once in each world, and make a :class:`Ruling` of what it says:
   its choice, whether the record's is within its freedom, and one sentence. :func:`same` and
   :func:`open_to` judge the two simple cases: all worlds agree, or one unknown thing decides.
3. hand what :func:`judge` makes of them to ``conclude``: at once, or later where the decision is
   judged as a whole. :func:`all_of` joins what is judged apart (whether a threshold was met, who
   comes first, what was said).

Widen where evidence may be missing, never where it is inconvenient: a line that may be lost is
a world in which it was there; no world ends for want of a line that may be lost. Settings,
profile, specs and losses of lines come from the context, which makes ``unverifiable`` of
``impossible`` where the log is known to have lost lines, unless the ruling is ``certain``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec

from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.model.record import Evidence, Record
from kubeledger.verify.context import Verifier
from kubeledger.verify.finding import Fields, Finding, Verdict, place_of

S = TypeVar("S")

_ORDER = "when containers started and ended, of which lines were late"


class World(msgspec.Struct, Generic[S], frozen=True):
    """One state in which the kubelet may have been.

    Attributes:
        state: hashable.
        assumes: what must have been so for this state, and is in no record.
    """

    state: S
    assumes: tuple[str, ...] = ()


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet decides in one world.

    Attributes:
        allowed: it may take the recorded decision.
        chosen: and it is the decider's own choice, not another of equals.
        expected: what is decided, as fields of the decision's body.
        why: one sentence that a kubelet developer accepts.
        assumes: of this world, see :class:`World`.
        inputs: seqs of the records that it rests on.
        certain: rests on values of this very record against settings or a spec, so that lines
            lost elsewhere change nothing.
        rule: the kubelet's function that decides so, where it is not the one that the rule names.
        clause: the same as ``why``, of whom the decision was taken for.
    """

    allowed: bool
    chosen: bool = True
    expected: Fields | None = None
    why: str
    clause: str = ""
    assumes: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    certain: bool = False
    rule: str = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict over all worlds; fields as in :class:`~kubeledger.verify.finding.Finding`."""

    verdict: Verdict
    why: str
    clause: str = ""
    expected: Fields | None = None
    missing: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    certain: bool = False
    rule: str = ""


def judge(
    rulings: Sequence[Ruling], *, unknown: Iterable[str] = (), cut: str | None = None
) -> Judgement:
    """Judge a decision by what is decided in each world, the most likely first.

    Args:
        rulings: (n,) one a world, n >= 1.
        unknown: (m,) phrases: in a world with one of these the decision is allowed, too.
        cut: what is not known of worlds that were left out; None when these are all.
    """
    rulings = [*rulings, *(Ruling(allowed=True, why="", assumes=(each,)) for each in unknown)]
    allowing = [ruling for ruling in rulings if ruling.allowed]
    denying = [ruling for ruling in rulings if not ruling.allowed]
    first = (denying or allowing)[0]
    verdict: Verdict = "match" if all(ruling.chosen for ruling in allowing) else "admissible"
    why, missing = first.why, tuple[str, ...]()
    if denying and (allowing or cut is not None):
        verdict = "unverifiable"
        missing = (*_difference(allowing, denying), *(() if cut is None else (cut,)))
        why = f"{why}; it may be right by {' and '.join(missing)}"
    elif denying:
        verdict = "impossible"
    return Judgement(
        verdict=verdict,
        why=why,
        clause="" if denying else first.clause,
        expected=None if verdict == "unverifiable" else first.expected,
        missing=missing,
        inputs=tuple(dict.fromkeys(seq for ruling in rulings for seq in ruling.inputs)),
        certain=verdict == "impossible" and all(ruling.certain for ruling in denying),
        rule=first.rule,
    )


def same(
    allowed: bool,
    why: str,
    *,
    expected: Fields | None = None,
    inputs: Sequence[int] = (),
    certain: bool = False,
    rule: str = "",
) -> Judgement:
    """Judge a decision on which all worlds agree; arguments as in :class:`Ruling`."""
    return Judgement(
        verdict="match" if allowed else "impossible",
        why=why,
        expected=expected,
        inputs=tuple(dict.fromkeys(inputs)),
        certain=certain and not allowed,
        rule=rule,
    )


def open_to(assumes: str, *, denied: str, inputs: Sequence[int] = ()) -> Judgement:
    """Judge a decision that is ``denied`` but in worlds in which something unknown holds."""
    return judge([Ruling(allowed=False, why=denied, inputs=tuple(inputs))], unknown=[assumes])


def lacks(missing: Sequence[str]) -> Judgement:
    """The judgement where inputs are missing, each named, without which no world is known."""
    why = f"cannot be decided again without {' and '.join(missing)}"
    return Judgement(verdict="unverifiable", why=why, missing=tuple(missing))


WORST_FIRST: tuple[Verdict, ...] = ("impossible", "unverifiable", "admissible", "match")


def all_of(judgements: Sequence[Judgement]) -> Judgement:
    """The judgement where all of several things must hold, the one that explains most first."""
    verdict = min((each.verdict for each in judgements), key=WORST_FIRST.index)
    worst = [each for each in judgements if each.verdict == verdict]
    reported = worst[:1] if verdict == "impossible" else worst
    if verdict == "admissible":
        reported = [each for each in judgements if each.why]
    return Judgement(
        verdict=verdict,
        why="; ".join(dict.fromkeys(each.why for each in reported if each.why)),
        expected=next((each.expected for each in worst if each.expected is not None), None),
        missing=tuple(dict.fromkeys(phrase for each in worst for phrase in each.missing)),
        inputs=tuple(dict.fromkeys(seq for each in judgements for seq in each.inputs)),
        certain=worst[0].certain,
        rule=worst[0].rule,
    )


def _difference(allowing: Sequence[Ruling], denying: Sequence[Ruling]) -> tuple[str, ...]:
    """What worlds that allow a decision and those that do not differ in.

    That is what is assumed on one side only; or else what is not assumed in all alike.
    """
    sides = [{phrase for r in side for phrase in r.assumes} for side in (allowing, denying)]
    one_side = sides[0] ^ sides[1]
    every = [set(ruling.assumes) for ruling in (*allowing, *denying)]
    shared = set.intersection(*every)
    named = dict.fromkeys(phrase for ruling in (*allowing, *denying) for phrase in ruling.assumes)
    differ = one_side or set(named) - shared
    return tuple(phrase for phrase in named if phrase in differ)


class Belief(Generic[S]):
    """The worlds in which a kubelet may be; never empty.

    Attributes:
        worlds: (n,) likeliest first, 1 <= n <= ``most``.
        cut: worlds had to be left out, so nothing is impossible any more. The rule has to say
            :func:`judge` so.
    """

    def __init__(self, worlds: Iterable[World[S]], *, most: int = 64) -> None:
        self.cut = False
        self._most = most
        self.worlds: tuple[World[S], ...] = ()
        self._set(worlds)

    @property
    def states(self) -> list[S]:
        return [world.state for world in self.worlds]

    def step(self, step: Callable[[S], Iterable[S]]) -> bool:
        """Step every world by a record.

        A world without a next state could not have led to this record and ends here.

        Returns:
            False when no world could: then the worlds stay as they were, and what the record
            shows contradicts the records before it.
        """
        if len(self.worlds) > 1:
            after = [World(s, world.assumes) for world in self.worlds for s in step(world.state)]
        else:
            (world,) = self.worlds
            states = tuple(step(world.state))
            if len(states) == 1:  # what is certain costs no more than its state
                if states[0] is not world.state:
                    self.worlds = (World(states[0], world.assumes),)
                return True
            after = [World(s, world.assumes) for s in states]
        if after:
            self._set(after)
        return bool(after)

    def widen(self, others: Callable[[S], Iterable[S]], assumes: str) -> None:
        """Add the worlds in which something happened that no record shows."""
        more = (
            World(state, tuple(dict.fromkeys((*world.assumes, assumes))))
            for world in self.worlds
            for state in others(world.state)
        )
        self._set((*self.worlds, *more))

    def keep(self, may: Callable[[S], bool]) -> None:
        """A recorded decision is evidence, too: drop the worlds that do not allow it."""
        if left := [world for world in self.worlds if may(world.state)]:
            self._set(left)

    def _set(self, worlds: Iterable[World[S]]) -> None:
        cheapest: dict[S, World[S]] = {}
        for world in worlds:
            known = cheapest.get(world.state)
            if known is None or len(world.assumes) < len(known.assumes):
                cheapest[world.state] = world
        ordered = list(cheapest.values())
        if len(ordered) > 1:
            ordered.sort(key=lambda world: len(world.assumes))
        if len(ordered) > self._most:
            self.cut = True
        self.worlds = tuple(ordered[: self._most])


def recorded(record: Record, names: Iterable[str]) -> Fields:
    """Fields of a record's body, as plain values of JSON."""
    reported = msgspec.json.decode(msgspec.json.encode(record.body))
    return {name: reported[name] for name in names}


def compared(record: Record, judgement: Judgement) -> Fields | None:
    """What is recorded of that which is expected; None where nothing is."""
    return recorded(record, judgement.expected) if judgement.expected else None


class RuleVerifier(Verifier):
    """A rule in the frame of verifiers.

    Attributes:
        rule: the kubelet's function that decides so.
    """

    rule: ClassVar[str]

    def by_order(self, record: Record, judgement: Judgement) -> Judgement:
        """A judgement that rests on the order in which containers started and ended.

        Where lines about them were late, that is not the order of the lines.
        """
        late = self.context.times.late(record.ts_ns)
        if judgement.verdict != "impossible" or judgement.certain or not late:
            return judgement
        return open_to(_ORDER, denied=judgement.why, inputs=judgement.inputs)

    def lacking(self, record: Record, subject: str, missing: Sequence[str]) -> None:
        self.conclude(record, subject, lacks(missing))

    def conclude(
        self,
        record: Record,
        subject: str,
        judgement: Judgement,
        *,
        recorded: Fields | None = None,
        about: Mapping[str, str] | None = None,
        rule: str | None = None,
        place: Evidence | None = None,
    ) -> None:
        """Give a decision its finding; see :class:`Finding` for the arguments.

        Where the log lost lines, ``impossible`` becomes ``unverifiable`` with those lines as
        the missing input, unless it is ``certain``: it rests on values of this very record
        against settings or a pod's spec, and on nothing that was logged before. Which settings
        were there then is not known around a step of the clock, nor of those that a file alone
        shows: what they deny may as well deny that it is of that time.

        Args:
            rule: where another function than the rule's, or the judgement's, decides.
            place: the piece of evidence that it is about, where it is not the first.
        """
        context = self.context
        verdict, why, expected = judgement.verdict, judgement.why, judgement.expected
        missing, inputs, ts_ns = judgement.missing, judgement.inputs, record.ts_ns
        certain = judgement.certain and not context.coverage.is_apart(ts_ns)
        is_open = verdict == "impossible" and not certain
        if is_open and (loss := context.coverage.at(ts_ns, record.kind)) is not None:
            verdict, expected = "unverifiable", None
            inputs = (*inputs, loss.seq) if loss.seq else inputs
            missing = (*missing, loss.phrase)
            why = f"{why} (but this is not known without {loss.phrase})"
        if verdict == "impossible" and (asked := sorted(context.settings.asked)):
            verdict, expected, missing = "unverifiable", None, (*missing, *asked)
            why = f"{why} (but a file alone shows {', '.join(asked)}, and may be of another time)"
        # That a pod was synced shows that it was admitted: only the line is missing. That this
        # agrees proves nothing; that it cannot be does.
        shown = isinstance(record.body, PodAdmitted) and verdict == "impossible"
        is_inferred = getattr(record.body, "inferred", False) and not shown
        context.pending.find(
            Finding(
                seq=record.seq,
                ts_ns=ts_ns,
                kind=record.kind,
                subject=subject,
                verdict=verdict,
                expected=expected,
                recorded=recorded if recorded is not None else msgspec.to_builtins(record.body),
                missing=missing,
                why=why,
                rule=rule or judgement.rule or self.rule,
                inputs=tuple(dict.fromkeys(filter(None, inputs))),
                about=dict(about or {}),
                inferred=is_inferred,
                **place_of(record, place),
            )
        )
