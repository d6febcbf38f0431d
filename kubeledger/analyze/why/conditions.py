"""What a node went through, as clauses and steps: not ready, troubles, pressure, shutdowns.

What keeps pods from running now comes before what did; what each start of a kubelet brings with
it comes last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubeledger.analyze.problems.rows import HARMLESS_S, NOT_ASKED_YET
from kubeledger.analyze.why.explanation import StoryStep
from kubeledger.analyze.why.pieces import time
from kubeledger.analyze.wording import cause_in, trouble_wording
from kubeledger.model.bodies.eviction import PodSpared, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.bodies.node import (
    KubeletStarted,
    NodeTrouble,
    NodeTroubled,
    ShutdownProgressed,
)
from kubeledger.model.record import Record
from kubeledger.model.units import (
    GO_DURATION_MAX_NS,
    NS_PER_S,
    format_go_duration,
    parse_go_duration,
)
from kubeledger.replay.episodes.node_conditions import (
    PRESSURES,
    ConditionEpisode,
    NodeConditions,
    TroubleEpisode,
)

_NOT_READY, _WAS_NOT_READY = 95, 75
_SHUTDOWN = 88
_TROUBLED, _WAS_TROUBLED = 85, 60
_PRESSED, _WAS_PRESSED = 82, 58
_RECLAIMED = 57
BRIEF = 45
"""Of a trouble that passed at once, and did nobody harm."""
_AT_START = 30
_IN_OTHERS = 0
_BRIEF_NS = HARMLESS_S * NS_PER_S
_START_NS = 60 * NS_PER_S
"""So long after its start a kubelet's runtime, network and PLEG need not be there yet."""


class NodeClause(NamedTuple):
    """Something that the node went through.

    Attributes:
        weight: how much it explains; 0: another clause holds it.
        short: the same in few words; empty where ``text`` has no more than it needs.
        lasted_ns: how long, of what lasts: of clauses that weigh the same the longest comes first.
    """

    weight: int
    text: str
    steps: Sequence[StoryStep] = ()
    short: str = ""
    lasted_ns: int = 0


class _Words(NamedTuple):
    now: str
    then: str


def _words_of(trouble: NodeTrouble, message: str = "") -> _Words:
    words = trouble_wording(trouble, message)
    return _Words(f"{words.what} {words.now}", f"{words.what} {words.then}")


class _Interval(NamedTuple):
    """What was so for a while; ``until_ts_ns`` is None where it still is.

    Attributes:
        last_ts_ns: when that was last said; None: it is said once.
    """

    seq: int
    kind: str
    ts_ns: int
    until_ts_ns: int | None
    why: str
    said: int = 1
    last_ts_ns: int | None = None

    @property
    def lasted_ns(self) -> int:
        """As far as is known."""
        return (self.until_ts_ns or self.last_ts_ns or self.ts_ns) - self.ts_ns


_READY = _Words("not ready", "not ready")
_OF_READY: frozenset[NodeTrouble] = frozenset(
    ("network_not_ready", "pleg_unhealthy", "runtime_down", "storage_not_ready")
)
"""Troubles for which a kubelet reports its node as not ready (``nodestatus.ReadyCondition``)."""
_OVER_API: frozenset[NodeTrouble] = frozenset(
    ("api_unreachable", "lease_update_failed", "registration_failed", "status_update_failed")
)
"""Troubles of which each is over as soon as the API server answers to one."""
_OF_REGISTERED: frozenset[NodeTrouble] = frozenset(
    ("lease_update_failed", "status_update_failed", "storage_not_ready")
)
"""Troubles that a node has which is not registered: its lease and CSINode belong to its object."""
_PLEG = re.compile(
    r"PLEG is not healthy: pleg was last seen active (?P<ago>[\w.]+) ago; "
    r"threshold is (?P<most>\w+)"
)


def clauses_of(
    conditions: NodeConditions, records: Sequence[Record], end_ts_ns: int
) -> Iterator[NodeClause]:
    """What a node went through, each kind of it in one clause.

    Args:
        records: (n,) starts of kubelets, reclaims, evictions, steps of shutdowns, in time.
        end_ts_ns: of the last record.
    """
    starts = [
        record.ts_ns
        for record in records
        if isinstance(record.body, KubeletStarted) and record.body.from_start
    ]
    troubles = conditions.troubles()
    unregistered = [each for each in troubles if each.trouble == "registration_failed"]
    bad = [e for e in conditions.conditions() if (e.status == "True") != (e.condition == "Ready")]
    for name in dict.fromkeys(each.condition for each in bad):
        same = [each for each in bad if each.condition == name]
        if name == "Ready":
            intervals = [_not_ready(each, troubles) for each in same]
            skipped = [t for t in troubles if t.trouble == "sync_skipped" and _during(t, same[-1:])]
            no_sync = _words_of("sync_skipped")[same[-1].until_ts_ns is not None]
            effect = f", and {no_sync}" if skipped else ""
            yield from _clauses(_READY, intervals, starts, _NOT_READY, _WAS_NOT_READY, effect)
        elif name in PRESSURES:
            words = _Words(f"it reports {name}", f"it reported {name}")
            intervals = [_interval(each, each.message or "") for each in same]
            yield from _clauses(words, intervals, (), _PRESSED, _WAS_PRESSED)
    for trouble in dict.fromkeys(each.trouble for each in troubles):
        alike = [each for each in troubles if each.trouble == trouble]
        causes: list[ConditionEpisode | TroubleEpisode]
        causes = [*(e for e in bad if e.condition == "Ready"), *_causes(trouble, troubles)]
        is_told = (trouble in _OF_READY or trouble == "sync_skipped") and _during(alike[-1], causes)
        harm = trouble in _OF_READY
        weights = (_TROUBLED + harm, _WAS_TROUBLED + harm)
        is_begin = alike[-1].message.startswith(NOT_ASKED_YET)
        if is_begin or (trouble in _OF_REGISTERED and _during(alike[-1], unregistered)):
            weights = (_AT_START, _AT_START)
        words = _words_of(trouble, alike[-1].message)
        begun = starts[-1] if starts else None
        intervals = [_troubled(each, _goes_on(each, troubles, begun, end_ts_ns)) for each in alike]
        yield from _clauses(words, intervals, starts, *((_IN_OTHERS,) * 2 if is_told else weights))
    yield from _reclaims(records)
    yield from _shutdowns(records)


def _causes(trouble: NodeTrouble, troubles: Iterable[TroubleEpisode]) -> Iterator[TroubleEpisode]:
    """Troubles for which a kubelet synchronizes no pods."""
    return (each for each in troubles if trouble == "sync_skipped" and each.trouble in _OF_READY)


def _clauses(
    words: _Words,
    intervals: Sequence[_Interval],
    starts: Sequence[int],
    weight: int,
    weight_past: int,
    effect: str = "",
) -> Iterator[NodeClause]:
    """One clause on all intervals, those that a start of a kubelet brings with it by themselves."""
    at_start = [each for each in intervals if _is_of_start(each, starts)]
    for same in ([each for each in intervals if each not in at_start], at_start):
        if not same:
            continue
        last = same[-1]
        is_past = last.until_ts_ns is not None
        often = f"{len(same)} times, last " if len(same) > 1 else ""
        said = "reported " if last.kind == NodeTroubled.kind else ""
        tries = f", {said}{last.said} times" if last.said > 1 else ""
        when = f"{often}{_between(last.ts_ns, last.until_ts_ns)}{tries}"
        why = f": {last.why}" if last.why else ""
        text = f"{words[is_past]} {when if is_past else f'({when})'}{why}{effect}"
        heavy = weight_past if is_past else weight
        lasted_ns = max(each.lasted_ns for each in same)
        if same is at_start:
            heavy = min(_AT_START, heavy)
        elif is_past and last.kind == NodeTroubled.kind and lasted_ns < _BRIEF_NS:
            heavy = min(BRIEF, heavy)
        steps = [_step(words, each) for each in same]
        yield NodeClause(heavy, text, steps, lasted_ns=lasted_ns)


def _is_of_start(interval: _Interval, starts: Sequence[int]) -> bool:
    until = interval.until_ts_ns
    return until is not None and any(s <= interval.ts_ns and until <= s + _START_NS for s in starts)


def _between(first_ts_ns: int, last_ts_ns: int | None) -> str:
    begin = time(first_ts_ns)
    if last_ts_ns is None:
        return f"since {begin}"
    end = time(last_ts_ns)
    if begin == end:
        return f"at {end}"
    return f"{begin} to {end[11:] if begin[:10] == end[:10] else end}"


def _step(words: _Words, interval: _Interval) -> StoryStep:
    until, count = interval.until_ts_ns, interval.said
    lasted_ns = interval.lasted_ns if until is not None and count == 1 else 0
    lasted = f" for {_rounded(lasted_ns)}" if lasted_ns >= NS_PER_S else ""
    why = f": {interval.why}" if interval.why else ""
    return StoryStep(
        ts_ns=interval.ts_ns,
        last_ts_ns=interval.last_ts_ns or interval.ts_ns,
        count=count,
        text=f"{words[until is not None]}{lasted}{why}",
        weight=3,
        kind=interval.kind,
        seq=interval.seq,
    )


def _interval(condition: ConditionEpisode, why: str) -> _Interval:
    kind, until = "node.ConditionChanged", condition.until_ts_ns
    return _Interval(condition.seq, kind, condition.ts_ns, until, why)


def _not_ready(condition: ConditionEpisode, troubles: Iterable[TroubleEpisode]) -> _Interval:
    """With what the condition says; where it says nothing, with the troubles of that time."""
    if condition.message:
        return _interval(
            condition, _errors(condition.message, is_past=condition.until_ts_ns is not None)
        )
    found = [t for t in troubles if t.trouble in _OF_READY and _during(t, [condition])]
    words = (": ".join(filter(None, (_words_of(t.trouble).then, t.message))) for t in found)
    return _interval(condition, ", ".join(words) or condition.reason or "")


def _goes_on(
    trouble: TroubleEpisode,
    troubles: Iterable[TroubleEpisode],
    begun_ts_ns: int | None,
    end_ts_ns: int,
) -> bool:
    """Whether it still is so at the end, as far as is known: the last kubelet says it, too."""
    if begun_ts_ns is not None and trouble.last_ts_ns < begun_ts_ns:
        return False
    is_answered = trouble.trouble in _OVER_API and any(
        each.trouble in _OVER_API and (each.passed_ts_ns or 0) >= trouble.last_ts_ns
        for each in troubles
    )
    return trouble.goes_on_at(end_ts_ns) and not is_answered


def _troubled(trouble: TroubleEpisode, goes_on: bool) -> _Interval:
    last_ns = trouble.last_ts_ns
    until = None if goes_on else trouble.passed_ts_ns or last_ns
    why = cause_in(_errors(trouble.message, is_past=True))
    if trouble.trouble == "pleg_unhealthy":
        why = why.removeprefix(_words_of("pleg_unhealthy").then).strip(" ()")
    kind, count = NodeTroubled.kind, trouble.attempts
    return _Interval(trouble.seq, kind, trouble.ts_ns, until, why, count, last_ns)


def _errors(message: str, *, is_past: bool) -> str:
    """Errors of the runtime's state, as the kubelet joins them."""
    words = _words_of("pleg_unhealthy")[is_past]

    def told(found: re.Match[str]) -> str:
        try:
            ago_ns, most_ns = (parse_go_duration(found[name]) for name in ("ago", "most"))
        except ValueError:
            return found[0]
        if ago_ns == GO_DURATION_MAX_NS:  # Since the zero time, with which each PLEG begins.
            return f"{words} (never active so far)"
        return (
            f"{words} (last active {_rounded(ago_ns)} before, at most {_rounded(most_ns)} allowed)"
        )

    return _PLEG.sub(told, " ".join(message.split()).strip("[]"))


def _rounded(nanoseconds: int) -> str:
    return format_go_duration(nanoseconds // NS_PER_S * NS_PER_S)


def _during(trouble: TroubleEpisode, episodes: Iterable[ConditionEpisode | TroubleEpisode]) -> bool:
    """Whether one of them was so, or began, while the node had the trouble."""
    for each in episodes:
        if isinstance(each, ConditionEpisode):
            until = each.until_ts_ns
        else:
            until = each.passed_ts_ns or each.last_ts_ns
        if each.ts_ns <= trouble.last_ts_ns and (until is None or trouble.ts_ns <= until):
            return True
    return False


def _reclaims(records: Iterable[Record]) -> Iterator[NodeClause]:
    """What the eviction manager did, in all; attempts that came to the same are one step."""
    attempts: list[list[Record]] = []
    for record in records:
        if isinstance(record.body, ReclaimAttempted | PodEvicted | PodSpared):
            attempts += [[]] if isinstance(record.body, ReclaimAttempted) or not attempts else []
            attempts[-1].append(record)
    if not attempts:
        return
    alike: dict[str, list[list[Record]]] = {}
    for attempt in attempts:
        alike.setdefault(_step_of_reclaims([attempt]), []).append(attempt)
    steps = [
        StoryStep.of(same[-1][0], text, 3, same[0][0].ts_ns, len(same))
        for text, same in alike.items()
    ]
    whole = [record for attempt in attempts for record in attempt]
    span = _between(whole[0].ts_ns, whole[-1].ts_ns)
    what, _, came_to = _step_of_reclaims(attempts).partition(": ")
    tries = f", {len(attempts)} times" if len(attempts) > 1 else ""
    yield NodeClause(_RECLAIMED, f"{what} {span}{tries}{came_to and f': {came_to}'}", steps)


def _step_of_reclaims(attempts: Sequence[Sequence[Record]]) -> str:
    """What was short, and what became of it."""
    bodies = [record.body for attempt in attempts for record in attempt]
    reclaims = [body for body in bodies if isinstance(body, ReclaimAttempted)]
    names = dict.fromkeys(body.resource for body in reclaims if body.resource)
    spared = dict.fromkeys(body.pod for body in bodies if isinstance(body, PodSpared))
    evicted = sum(isinstance(body, PodEvicted) for body in bodies)
    in_vain = sum(body.outcome == "nothing" for body in reclaims)
    parts = []
    if evicted:
        parts.append(f"{evicted} pod{'s were' if evicted > 1 else ' was'} evicted")
    if in_vain:
        often = f" {in_vain} times" if 1 < in_vain < len(attempts) else ""
        once = " once" if in_vain == 1 < len(attempts) else ""
        parts.append(f"no pod could be evicted{often}{once}")
    if spared:
        parts.append(
            f"{', '.join(spared)} {'were' if len(spared) > 1 else 'was'} spared as critical"
        )
    cut = reclaims[-1] if reclaims and not isinstance(bodies[-1], PodEvicted) else None
    if cut is not None and cut.outcome is None and cut.ranked:
        left = [f"{each.namespace}/{each.pod}" for each in cut.ranked if each.pod not in spared]
        if left:
            place = "next" if spared else "first"
            parts.append(f"{place} in rank is {left[0]}, no more is recorded")
    return f"{', '.join(names) or 'resources'} had to be reclaimed: {', '.join(parts)}".strip(" :")


def _shutdowns(records: Iterable[Record]) -> Iterator[NodeClause]:
    """Each shutdown that was announced: the pods of one priority after the other, and its end."""
    runs: list[list[tuple[Record, ShutdownProgressed]]] = []
    for record in records:
        if isinstance(body := record.body, ShutdownProgressed):
            runs += [[]] if body.step == "detected" or not runs else []
            runs[-1].append((record, body))
    for run in runs:
        phases = [_phase(body) for _, body in run[1:]]
        last = time(run[-1][0].ts_ns)[11:]
        text = f"{_phase(run[0][1])} at {time(run[0][0].ts_ns)}"
        if phases:
            text += f", {', '.join(phases)} at {last}"
        steps = [
            StoryStep.of(record, _phase(body), 4 if body.step == "detected" else 3)
            for record, body in run
        ]
        yield NodeClause(_SHUTDOWN, text, steps, text.partition(", ")[0])


def _phase(body: ShutdownProgressed) -> str:
    pods = "pods" if body.pods is None else f"{body.pods} pod{'' if body.pods == 1 else 's'}"
    pods += "" if body.priority is None else f" of priority {body.priority}"
    grace = "" if body.grace_period_s is None else f" with {body.grace_period_s} s"
    return {
        "detected": "the node was told to shut down",
        "killing": f"{pods} told to end{grace}",
        "timed_out": f"{pods} had not ended in time",
        "completed": "the kubelet let the shutdown go on",
        "cancelled": "shutdown was cancelled",
    }[body.step]
