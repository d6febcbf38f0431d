"""Stages that a pod did not get past, or had to wait in, as steps of its story."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubeledger.analyze.why.facts import Facts
from kubeledger.analyze.why.happenings import (
    BACK_OFF,
    DELAY,
    NEVER_STARTED,
    STUCK,
    TROUBLE,
    WORTH_TELLING,
    Group,
    Words,
)
from kubeledger.analyze.wording import cause_in, stage_wording
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_go_duration
from kubeledger.replay.episodes.pod_stages import StageEpisode

_ENDING: Mapping[str, tuple[str, str, int]] = {
    "run": ("waits for its next start", "had to wait for its next start", BACK_OFF),
    "ready": ("is not ready", "was not ready", TROUBLE),
    "stop": ("does not end", "did not end when it was to", TROUBLE),
    "teardown": ("is not cleaned up", "was not cleaned up at once", WORTH_TELLING),
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

    Args:
        episodes: of the pod or container.
        records: (n,) about it.
        facts: of these records.
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
            groups.append(_group(same, sorted(found, key=lambda record: record.seq), facts))
    return groups


def _group(same: list[StageEpisode], records: list[Record], facts: Facts) -> Group:
    """Episodes that are alike; of those that are open there is one."""
    last = same[-1]
    weight, words = _of_end(last) if last.stage in _ENDING else _of_way(same, facts)
    return Group(
        weight,
        words,
        sum(each.attempts for each in same),
        records,
        span=(same[0].ts_ns, last.last_ts_ns),
        goes_on=last.is_open,
        next_try=_WAITS.get(last.stage, "") if last.is_open and last.is_waiting else "",
    )


def _of_end(episode: StageEpisode) -> tuple[int, Words]:
    now, then, weight = _ENDING[episode.stage]
    is_open = episode.is_open
    why = cause_in(episode.message, episode.about)
    who = episode.container or ""
    return weight if is_open else _PASSED, Words(who, now if is_open else then, why)


def _of_way(same: list[StageEpisode], facts: Facts) -> tuple[int, Words]:
    """A stage up to the start: it keeps the pod from running, did so, or did to the end."""
    last = _named(same[-1], facts)
    who = last.container or ""
    begun_ns = facts.first_started_ns(who)
    again = " again" if begun_ns is not None and begun_ns < same[0].ts_ns else ""
    if last.is_open:
        why = _clause(last, is_past=False)
        if last.stage == "hook":
            return STUCK, Words(who, "does not stay up", why)
        if last.reason == "FailedSync" or facts.runs_now(who):
            return TROUBLE, Words(who, "is not synchronized", why)
        return STUCK, Words(who, f"has not started{again}", why)
    if last.passed_ts_ns is None:
        what = f"did not start{again} before it was stopped"
        return DELAY if again else NEVER_STARTED, Words(who, what, _clause(last, is_past=True))
    waited_ns = sum((each.passed_ts_ns or each.last_ts_ns) - each.ts_ns for each in same)
    span = format_go_duration(waited_ns // NS_PER_S * NS_PER_S) if waited_ns >= NS_PER_S else ""
    words = stage_wording(last.stage, last.reason, last.about, last.message)
    what = f"waited {f'{span} ' if span else ''}for {words.what}"
    return DELAY, Words(who, what, cause_in(last.message, last.about))


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
