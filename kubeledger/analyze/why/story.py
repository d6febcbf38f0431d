"""What happened to a pod or container: its records as a few dated steps, weighed.

Records that say the same of the same container are one step with a count. The step that weighs
most is the headline: what ended the pod or a container first, then probes and crashes, then
what kept a container from starting; what every pod goes through weighs least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kubeledger.analyze.summaries import cut_chain, cut_clause
from kubeledger.analyze.why.concern import is_about_pod
from kubeledger.analyze.why.explanation import StoryStep, Target
from kubeledger.analyze.why.facts import Facts, facts_of, is_besides
from kubeledger.analyze.why.happenings import (
    BACK_OFF,
    DELAY,
    DELETED,
    NEVER_STARTED,
    POD_END,
    REFUSED,
    RULES,
    STOPPED,
    STUCK,
    TROUBLE,
    WORTH_TELLING,
    Group,
    Words,
    start_measured,
)
from kubeledger.analyze.why.pieces import (
    HEADLINE_MAX,
    HEADLINE_ROOM,
    seconds,
    time,
    times,
    words_of,
)
from kubeledger.analyze.wording import cause_in, ended, stage_wording
from kubeledger.model.bodies.lifecycle import ContainerStarted
from kubeledger.model.patterns import regex
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_go_duration
from kubeledger.replay.episodes.pod_stages import StageEpisode
from kubeledger.verify import Finding

_ENDING: Mapping[str, tuple[str, str, int]] = {
    "run": ("has been waiting for its next start", "had to wait for its next start", BACK_OFF),
    "ready": ("has not been ready", "was not ready", TROUBLE),
    "stop": ("has not ended", "did not end in time", TROUBLE),
    "teardown": ("has not been cleaned up", "was not cleaned up at once", WORTH_TELLING),
}
"""Stage after the start -> what is said of who is in it, who was, and its weight."""
_TOLD_BY: Mapping[str, frozenset[str]] = {
    "admission": frozenset({"lifecycle.PodRejected"}),
    "ready": frozenset(
        {"prober.ProbeExecuted", "prober.ProbeTicksFolded", "prober.ProbeTransitioned"}
    ),
    "run": frozenset({"lifecycle.ContainerDied", "lifecycle.RestartBackedOff"}),
}
"""Stage -> kinds whose records have steps of their own."""
_WAITS = {"image": ", next try within 5m0s"}
"""Stage -> for how long its back-off lasts at most."""

_PASSED = 34
_SHORT_MAX = 40


def stage_groups(
    episodes: Iterable[StageEpisode], records: Sequence[Record], facts: Facts
) -> list[Group]:
    """The stages that a pod or container was held up in, each as what makes one step.

    What other records tell better is left out: a refusal, deaths and back-offs, probes; and what
    the pod lacked when it had been refused.
    """
    by_seq = {record.seq: record for record in records}
    told = {(record.kind, getattr(record.body, "container", None)) for record in records}
    told |= {(kind, None) for kind, _ in told}
    refused = [record.ts_ns for record in records if record.kind == "lifecycle.PodRejected"]
    refused_ns = min(refused, default=None)
    alike: dict[tuple[object, ...], list[StageEpisode]] = {}
    for each in episodes:
        if any((kind, each.container) in told for kind in _TOLD_BY.get(each.stage, ())):
            continue
        if each.stage not in _ENDING and refused_ns is not None and refused_ns <= each.ts_ns:
            continue
        key = (each.stage, each.container, each.about, each.is_open, each.passed_ts_ns is None)
        alike.setdefault(key, []).append(each)
    groups = []
    for same in alike.values():
        found = [by_seq[seq] for each in same for seq in (each.seq, *each.seqs) if seq in by_seq]
        if found:
            groups.append(_stage_group(same, sorted(found, key=lambda record: record.seq), facts))
    return groups


def _stage_group(same: list[StageEpisode], records: list[Record], facts: Facts) -> Group:
    """Episodes that are alike; of those that are open there is one."""
    last = same[-1]
    is_silent = _is_silent(last, facts)
    goes_on = last.is_open and not is_silent
    weight, words = _of_end(last) if last.stage in _ENDING else _of_way(same, facts)
    return Group(
        weight,
        words,
        sum(each.attempts for each in same),
        records,
        span=(same[0].ts_ns, last.last_ts_ns),
        goes_on=last.is_open,
        is_silent=is_silent,
        next_try=_WAITS.get(last.stage, "") if goes_on and last.is_waiting else "",
    )


def _of_end(episode: StageEpisode) -> tuple[int, Words]:
    now, then, weight = _ENDING[episode.stage]
    is_open = episode.is_open
    why = cause_in(episode.message, episode.about)
    who = episode.container or ""
    return weight if is_open else _PASSED, Words(now if is_open else then, why, who)


def _of_way(same: list[StageEpisode], facts: Facts) -> tuple[int, Words]:
    """A stage up to the start: it keeps the pod from running, did so, or did to the end."""
    last = _named(same[-1], facts)
    who = last.container or ""
    begun_ns = facts.first_started_ns(who)
    again = " again" if begun_ns is not None and begun_ns < same[0].ts_ns else ""
    if last.is_open:
        why = _clause(last, is_past=False)
        if last.stage == "hook":
            return STUCK, Words("has not stayed up", why, who)
        if last.reason == "FailedSync" or facts.runs_now(who):
            return TROUBLE, Words("has not been synchronized", why, who)
        if _is_silent(last, facts):
            return STUCK, Words(f"had not started{again}", _clause(last, is_past=True), who)
        return STUCK, Words(f"has not started{again}", why, who)
    if last.passed_ts_ns is None:
        what = f"did not start{again} before it was stopped"
        return DELAY if again else NEVER_STARTED, Words(what, _clause(last, is_past=True), who)
    waited_ns = sum((each.passed_ts_ns or each.last_ts_ns) - each.ts_ns for each in same)
    span = format_go_duration(waited_ns // NS_PER_S * NS_PER_S) if waited_ns >= NS_PER_S else ""
    words = stage_wording(last.stage, last.reason, last.about, last.message)
    what = f"waited {f'{span} ' if span else ''}for {words.what}"
    return DELAY, Words(what, cause_in(last.message, last.about), who)


def _is_silent(episode: StageEpisode, facts: Facts) -> bool:
    """Whether it may have started since: some kubelets log failures, and no start."""
    is_before = episode.stage not in _ENDING and episode.stage != "hook"
    if not is_before or episode.reason == "FailedSync":
        return False
    return episode.is_silent and not facts.runs_now(episode.container or "")


def _named(episode: StageEpisode, facts: Facts) -> StageEpisode:
    """With the pod's claims, where the message names none."""
    if episode.stage != "resources" or episode.about is not None or not facts.claims:
        return episode
    return msgspec.structs.replace(episode, about=", ".join(facts.claims))


def _clause(episode: StageEpisode, *, is_past: bool) -> str:
    """What is wrong, and why."""
    words = stage_wording(episode.stage, episode.reason, episode.about, episode.message)
    cause = cause_in(episode.message, episode.about)
    clause = f"{words.what} {words.then if is_past else words.now}"
    if not cause:
        return clause
    is_short = len(cause) <= _SHORT_MAX and "(" not in cause
    return f"{clause} ({cause})" if is_short else f"{clause}: {cause}"


STEPS_MAX = 8
_TOLD = frozenset({"lifecycle.ContainerRestarted", "node.ErrorsLogged"})

_WHY_MIN = 15
_REASON_LONG = 40
_SENTENCE_MIN = 135
_ERROR_MAX = 120
_CLAUSE_END = regex(r"[;,] | \(\w+ \d")


class Story(NamedTuple):
    """The headline, and the steps in the order of time."""

    headline: str
    steps: list[StoryStep]


def story_of(
    target: Target,
    records: Sequence[Record],
    main: Record | None,
    findings: Mapping[int, Finding],
    episodes: Iterable[StageEpisode],
    others: Sequence[tuple[Record, str]] = (),
) -> Story:
    """The story of a pod or container.

    Args:
        main: the decision that explains it; None where nothing was decided about it.
        findings: by seq, at least of the decisions that weigh most.
        episodes: stages of its way that it did not get past at once.
        others: (m,) records about others that led to ``main``, and what they say.
    """
    facts = facts_of(records, Facts(main=main, findings=findings))
    is_container = target.kind == "container"
    groups = [
        _group(same, facts, is_container=is_container) for same in _grouped(records, facts).values()
    ]
    groups += stage_groups(episodes, records, facts)
    steps = [_step(group) for group in _without_repeats(groups)]
    used = {record.seq for group in groups for record in group.records}
    for record, text in others:
        if record.seq not in used:
            steps.append(_step(Group(REFUSED, Words(text), 1, [record]), pod=""))
    steps.sort(key=lambda step: (step.ts_ns, step.seq))
    return Story(_headline(target, groups, records, facts), steps)


def _without_repeats(groups: list[Group]) -> list[Group]:
    """The groups in the order of time, each reason said once: with what it first led to."""
    explained: set[tuple[str, str]] = set()
    found = []
    for group in sorted(groups, key=lambda group: group.first_ts_ns):
        what, why, who = group.words
        key = (who if len(why) < _REASON_LONG else "", why)
        words = Words(what, "" if key in explained else why, who)
        found.append(msgspec.structs.replace(group, words=words))
        explained.add(key)
    return found


def most_important(steps: Sequence[StoryStep], steps_max: int = STEPS_MAX) -> list[StoryStep]:
    """(n,) n <= ``steps_max``: those that weigh most, in the order of time."""
    ranked = sorted(steps, key=lambda step: (-step.weight, step.ts_ns, step.seq))
    return sorted(ranked[:steps_max], key=lambda step: (step.ts_ns, step.seq))


def _grouped(records: Sequence[Record], facts: Facts) -> dict[tuple[str, ...], list[Record]]:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        rule = RULES.get(record.kind)
        weight = rule.weigh(record, facts) if rule else 0
        if rule is None or weight == 0:
            continue
        container = getattr(record.body, "container", None) or ""
        key = (
            record.kind,
            container,
            str(weight),
            *(str(getattr(record.body, f)) for f in rule.same),
        )
        if record.kind in {"lifecycle.PodEvicted", "preemption.PodPreempted"}:
            key = (*key, str(is_besides(record, facts)))
        groups.setdefault(key, []).append(record)
    return groups


def _group(records: list[Record], facts: Facts, *, is_container: bool) -> Group:
    rule = RULES[records[-1].kind]
    weight = max(rule.weigh(record, facts) for record in records)
    ended_before = is_container and facts.main is not None and not is_about_pod(facts.main)
    if weight == POD_END and is_besides(records[-1], facts):
        weight = WORTH_TELLING - 1
    elif weight == POD_END and ended_before:
        weight = WORTH_TELLING
    count, span = sum(getattr(record.body, "count", 1) for record in records), None
    if isinstance(records[0].body, ContainerStarted):
        begun = facts.begun_ns(records)
        count, span = len(begun), (min(begun), max(begun))
    return Group(weight, rule.tell(records, facts), count, records, span)


def _step(group: Group, *, pod: str = "pod") -> StoryStep:
    what, why, who = group.words
    text = " ".join(filter(None, (who or pod, what)))
    last = group.records[-1]
    return StoryStep(
        ts_ns=group.first_ts_ns,
        last_ts_ns=group.last_ts_ns,
        count=group.count,
        text=seconds(" ".join(f"{text}: {why}".split()) if why else text),
        weight=group.weight,
        kind=last.kind,
        seq=last.seq,
    )


def _headline(target: Target, groups: list[Group], records: Sequence[Record], facts: Facts) -> str:
    def rank(group: Group) -> tuple[int, int, int]:
        return group.weight, group.count, group.last_ts_ns

    ranked = sorted(groups, key=rank, reverse=True)
    trouble = [group for group in ranked if group.weight >= WORTH_TELLING]
    if not trouble:
        return _without_trouble(target, ranked, records, facts)
    also = _ready_again(trouble[0], ranked)
    least = len(_with_first_clause(target, trouble[0]))
    left = HEADLINE_ROOM - 1 - max(_SENTENCE_MIN, least)
    for group in [each for each in trouble[1:] if not _is_covered_by(each, trouble[0])][:2]:
        counts = group.count > 1 and group.weight != BACK_OFF
        often = f" ({group.count} times)" if counts else ""
        more = f"; {group.words.who or 'the pod'} {group.words.what}{often}"
        if len(also) + len(more) <= left:
            also += more
    room = HEADLINE_MAX if trouble[0].span else HEADLINE_ROOM
    return ended(_sentence(target, trouble[0], room - 1 - len(also)) + also)


def _with_first_clause(target: Target, group: Group) -> str:
    """The sentence with as much of its reason as says something."""
    what, why, who = group.words
    first = _CLAUSE_END.split(why, maxsplit=1)[0]
    least = msgspec.structs.replace(group, words=Words(what, first, who))
    return _sentence(target, least, HEADLINE_ROOM - 1)


def _ready_again(unready: Group, groups: list[Group]) -> str:
    """That a container which went unready became ready after that."""
    last = unready.records[-1]
    if last.kind != "prober.ProbeTransitioned":
        return ""
    for group in groups:
        turn = group.records[-1]
        body: Any = turn.body
        is_later = turn.kind == last.kind and turn.seq > last.seq
        if is_later and body.to_result == "success" and group.words.who == unready.words.who:
            return f"; ready since {time(turn.ts_ns)[11:]}"
    return ""


def _is_covered_by(group: Group, first: Group) -> bool:
    """Whether it is a probe that failed, or devices that were missing, which led to the first."""
    body: Any = group.records[-1].body
    kind = group.records[-1].kind
    if kind.endswith("AllocationFailed"):
        return first.records[-1].kind == "lifecycle.PodRejected"
    is_turn = hasattr(body, "to_result")
    return kind.startswith("prober.") and (body.probe_type != "readiness" or not is_turn)


def _called(target: Target, group: Group) -> str:
    """The pod's name; of one that is asked for by its UID what its records call it."""
    if len(target.parts) > 1:
        return "/".join(target.parts[:2])
    bodies: list[Any] = [record.body for record in group.records]
    names = (each.pod for each in bodies if getattr(each, "pod", None))
    return next(names, target.parts[0])


def _sentence(target: Target, group: Group, length: int) -> str:
    pod = _called(target, group)
    what, why, who = group.words
    subject = f"container {pod}/{who}" if who else f"pod {pod}"
    end = group.next_try
    if group.goes_on:
        when = f"since {time(group.first_ts_ns)}"
        if group.is_silent:
            when = f"at {time(group.last_ts_ns)}, when last heard of"
        end = (f", tried {group.count} times" if group.count > 1 else "") + end
    else:
        when = times(group.first_ts_ns, group.last_ts_ns, group.count)
    comma = "," if group.count > 1 and what[-1:].isdigit() else ""
    text = f"{subject} {what}{comma} {when}"
    why = seconds(" ".join(why.split()))
    if len(text) + len(why) + len(end) + 2 > length:  # rather the cause than how it goes on
        end = ""
    left = length - len(text) - len(end) - 2
    if not why or left < _WHY_MIN:
        return cut_clause(text, length)
    shorten = cut_chain if group.span else cut_clause
    return f"{text}: {shorten(why, left)}{end}"


def _quiet(groups: list[Group]) -> str:
    """A clause on that nothing went wrong, as far as that is so, and what is not recorded."""
    kinds = {group.records[-1].kind for group in groups if group.weight != DELAY}
    if errors := _errors_of(groups):
        return errors
    if "lifecycle.ContainerKilled" in kinds:
        return ""
    if {"prober.ProbeExecuted", "prober.ProbeTicksFolded"} & kinds:
        return "; no kill, eviction or refusal is recorded"
    nothing = "nothing that went wrong with it is recorded"
    return f"; {nothing}: no kill, eviction, refusal or failing probe"


def _errors_of(groups: list[Group]) -> str:
    """A clause on the errors that name the pod, and that nothing else tells."""
    found = [each for each in groups if each.records[-1].kind == "node.ErrorsLogged"]
    if not found:
        return ""
    also = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"; it {found[0].words.what}: {cut_chain(found[0].words.why, _ERROR_MAX)}{also}"


def _unnamed_starts(records: Sequence[Record]) -> str:
    """What is known of the containers of a pod of which none is known by name."""
    started = {
        record.body.container_id: record.ts_ns
        for record in records
        if isinstance(record.body, ContainerStarted) and record.body.sandbox is not True
    }
    if len(started) < 2:
        return "no start of a container is recorded"
    return (
        f"{len(started)} containers, its sandbox among them, started by "
        f"{time(max(started.values()))[11:]}, and no record names them"
    )


def _is_told(group: Group) -> bool:
    """Whether something happened that does not happen to every pod."""
    return group.weight == DELAY or group.records[-1].kind in _TOLD


_AFTER_EFFECTS = frozenset({"orphaned", "removed"})
"""Why a pod was stopped that may have been stopped for another reason before."""


def _reason(group: Group) -> str | None:
    return getattr(group.records[-1].body, "reason", None)


def _leading(stops: list[Group]) -> Group:
    """The stop that leads."""
    first = stops[0]
    if _reason(first) not in _AFTER_EFFECTS:
        return first
    before = (group for group in stops[1:] if group.first_ts_ns < first.first_ts_ns)
    return next(before, first)


def _without_trouble(
    target: Target, ranked: list[Group], records: Sequence[Record], facts: Facts
) -> str:
    """How it fared where nothing went wrong: it was stopped, ended, or runs."""
    name = f"{target.kind} {'/'.join(target.parts)}"
    quiet = _quiet(ranked)
    stops = [group for group in ranked if group.weight in {STOPPED, DELETED}]
    if stops:
        lead = _leading(stops)
        first = msgspec.structs.replace(lead, count=1, records=lead.records[:1])
        is_said = _reason(lead) == "shutdown" or any(map(_is_told, ranked))
        else_ = "" if is_said else "; nothing that went wrong with it is recorded"
        return f"{_sentence(target, first, 150)}{else_}."
    own = target.parts[2] if target.kind == "container" else None
    runs = [run for run in facts.runs.values() if own in (None, run.container)]
    last = max(runs, key=lambda run: run.ended_ts_ns or run.since_ts_ns, default=None)
    if last is not None and last.ended_ts_ns is not None:
        code = "" if last.exit_code is None else f" with exit code {last.exit_code}"
        what = name if own else f"container {last.container} of {name}"
        return f"{what} ended{code} at {time(last.ended_ts_ns)}{quiet}."
    delays = (group for group in ranked if group.weight == DELAY)
    late = max(delays, key=lambda group: group.last_ts_ns - group.first_ts_ns, default=None)
    if runs and late:
        tries = f" ({late.count} tries)" if late.count > 1 else ""
        began = f"{name} started at {time(runs[0].since_ts_ns)}; it {late.words.what}{tries}"
        left = HEADLINE_MAX - len(began) - 3
        return ended(f"{began}: {cut_chain(late.words.why, left)}" if late.words.why else began)
    if runs:
        return f"{name} has been running since {time(runs[0].since_ts_ns)}{quiet}."
    if facts.started is not None:
        since_ns, took = start_measured(facts.started, facts)
        since = "run, first seen at" if facts.is_static else "have been running since"
        return f"all containers of {name} {since} {time(since_ns)}{took}{quiet}."
    admitted = next((r for r in records if r.kind == "lifecycle.PodAdmitted"), None)
    if admitted is not None:
        begun = f"{name} was admitted at {time(admitted.ts_ns)}"
        return f"{begun}; {_unnamed_starts(records)}{_errors_of(ranked)}."
    match records[-1:]:
        case [Record(ts_ns=ts_ns, body=ContainerStarted(container=None, sandbox=None))]:
            either = f"its sandbox or a container of it started at {time(ts_ns)}"
            return f"{name}: {either}; no record says which."
    said = f"; at last, at {time(records[-1].ts_ns)}: {words_of(records[-1])[1]}" if records else ""
    return ended(cut_clause(f"no start of {name} is recorded{said}", HEADLINE_ROOM - 1))
