"""From a target to its explanation: find the decisions, decide them again, gather the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.histories.noting import SUBJECT_INDEX, seqs_naming
from kubeledger.analyze.problems.rows import SILENT_MIN
from kubeledger.analyze.sql.listing import similar_pods
from kubeledger.analyze.why.concern import (
    concerns,
    containers_in,
    is_about_others,
    is_about_pod,
    is_image,
    main_of,
    mentions,
    tells_of,
)
from kubeledger.analyze.why.explanation import Answer, Explanation, Scope, StoryStep, Target
from kubeledger.analyze.why.facts import (
    attempts_note,
    ended_by_itself,
    ending_attempt,
    failures_about,
    last_end,
    passes_about,
)
from kubeledger.analyze.why.headline import (
    clause,
    counted_steps,
    image_answer,
    short_headline,
    undecided_answer,
)
from kubeledger.analyze.why.names import find_target
from kubeledger.analyze.why.pieces import cited, evidence_of, in_time, step_of, words_of
from kubeledger.analyze.why.story import most_important, story_of
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.replay.episodes.container_runs import container_runs
from kubeledger.replay.episodes.pod_stages import KINDS as STAGE_KINDS
from kubeledger.replay.episodes.pod_stages import PodStages, StageEpisode
from kubeledger.replay.episodes.subjects import name_subject
from kubeledger.verify.finding import Finding

HISTORY_MAX = 200
"""Older decisions about the target are not listed."""

_EVIDENCE_MAX = 60
_LINKS = {
    "lifecycle.PodRejected": "devicemanager.AllocationFailed cpumanager.CpuAllocationFailed"
    " memorymanager.MemoryAllocationFailed topologymanager.AffinityDecided"
    " preemption.PreemptionFailed",
    "lifecycle.PodAdmitted": "preemption.PodPreempted",
    "lifecycle.ContainerKilled": "preemption.PodPreempted lifecycle.PodEvicted",
}
"""Decision -> those among its inputs that say more of it than the others."""
_SAID_BY_EFFECTS = frozenset({"eviction.ReclaimAttempted"})
"""Causes that are named by what they led to."""
_CAUSES_MAX = 20
_ASSIGNED = frozenset({"cpumanager.CpusAllocated", "memorymanager.MemoryAllocated"})
_KILLED = "lifecycle.ContainerKilled"
_AFTER_START = frozenset(
    {"lifecycle.ContainerKilled", "lifecycle.RestartBackedOff", "oom.ProcessKilled"}
)


def answers_to(
    text: str, histories: Sequence[History], *, upto_ts_ns: int | None = None
) -> list[Answer]:
    """Why something is as it is: an answer of each node that knows of it.

    Args:
        text: the target as users write it.
        upto_ts_ns: as of this time; None: as of the last record.

    Raises:
        BadQuestionError: nothing is known of it.
    """
    target = find_target(text, histories)
    ask: Callable[..., Answer | None] = explain
    if target.kind == "node":
        from kubeledger.analyze.why.node import explain_node  # reads logs, too

        ask = explain_node
    answers = (ask(history, target, upto_ts_ns=upto_ts_ns) for history in histories)
    found = [answer for answer in answers if answer is not None]
    if not found:
        raise _no_such_target(target, histories)
    return found


def explain(history: History, target: Target, *, upto_ts_ns: int | None = None) -> Answer | None:
    """Why the target is as it is.

    Args:
        upto_ts_ns: as of this time; None: as of the last record.

    Returns:
        What the records say of a pod, container or image about which nothing was decided; None
        when no record is about the target, or, of any other target, no decision.
    """
    read = history.read
    if _lacks_container(history, target):
        return None
    about, decisions, scope, episodes = _scoped(history, target, upto_ts_ns)
    findings = _findings(history, decisions)
    meant = {record.seq: _meant(target, findings[record.seq]) for record in decisions}
    decisions = [r for r in decisions if meant[r.seq] or not is_about_others(target, r)]
    if not decisions:
        return _undecided(history, target, upto_ts_ns, about, scope, episodes)
    runs = container_runs(about)
    end = last_end(runs, target)
    main = main_of(target, decisions, runs, None if end is None else end.ended_seq)
    main = ending_attempt(main, decisions, about)
    led = [*_rests_on(history, findings[main.seq]), *_causes(history, main)]
    chains = [[main, *led]]
    chains += [[r, *_causes(history, r)] for r in _earlier(decisions, main)]
    chains += [[record] for record in _assigned(target, decisions, main)]
    chains += [[record] for record in _later(target, decisions, main)]
    failed = failures_about(history, target, about, {r.seq for r in decisions}, upto_ts_ns)
    decided = (r for chain in chains for r in chain if r.role == "decision")
    findings |= _findings(history, (r for r in decided if r.seq not in findings))
    kept = _kept(target, findings[main.seq])
    passes = passes_about(target, read({"images.ImagesDetected"}), main) if kept else []
    because = f"it {kept[1]}" if kept else ""
    headline, steps = _story(target, main, [*about, *passes], chains, findings, because, episodes)
    seqs = dict.fromkeys(
        seq
        for chain in reversed(chains)
        for record in reversed(chain)
        for seq in (*_inputs(findings.get(record.seq)), record.seq)
    )
    seqs |= dict.fromkeys(failed.seqs)
    seqs |= dict.fromkeys(step.seq for step in most_important(steps))
    sentence = f"{meant[main.seq]}{_sentence(chains, findings)}"
    if end is not None and end.ended_seq and (alone := ended_by_itself(end, main)):
        seqs[end.ended_seq] = None
        is_later = main.kind == "lifecycle.ContainerRestarted"
        sentence = f"{sentence}; at last, {alone}" if is_later else f"{alone}; {sentence}"
    evidence = evidence_of(history.pick(list(seqs)[-_EVIDENCE_MAX:]), target)
    verdicts = {seq: finding.verdict for seq, finding in findings.items()}
    return Explanation(
        target=str(target),
        node=main.node,
        headline=headline,
        steps=cited(steps, evidence),
        sentence="; ".join(filter(None, (sentence, attempts_note(main, decisions), failed.clause)))
        + ".",
        finding=findings[main.seq],
        ranking=_ranking(findings[main.seq]),
        evidence=evidence,
        history=tuple(
            step_of(record, verdicts.get(record.seq, "unverifiable"))
            for record in decisions[-HISTORY_MAX:]
        ),
        pod_uid=scope.pod_uid,
        namesakes=scope.namesakes,
    )


def _undecided(
    history: History,
    target: Target,
    upto_ts_ns: int | None,
    about: list[Record],
    scope: Scope,
    episodes: list[StageEpisode],
) -> Answer | None:
    """What records say of a target that no decision is about; those that only mention it last."""
    if target.kind == "image":
        answer = image_answer(target, history.read({"lifecycle.PodListed"}), upto_ts_ns)
    else:
        answer = undecided_answer(target, about, scope, episodes)
    return answer or undecided_answer(target, _mentioning(history, target, upto_ts_ns), scope)


def _story(
    target: Target,
    main: Record,
    about: list[Record],
    chains: list[list[Record]],
    findings: dict[int, Finding],
    kept: str,
    episodes: list[StageEpisode],
) -> tuple[str, list[StoryStep]]:
    """The headline and the dated steps."""
    led = chains[0][1:]
    if target.kind in {"pod", "container"}:
        others = [(record, ": ".join(filter(None, words_of(record)))) for record in led]
        story = story_of(target, about, main, findings, episodes, others)
        return story.headline, story.steps
    shown = {record.seq: record for record in (*about, *(r for c in chains for r in c))}
    cause = findings.get(main.cause or 0)
    headline = short_headline(target, main, findings[main.seq], cause, kept)
    return headline, counted_steps(target, shown.values())


def _ranking(finding: Finding) -> tuple[str, ...]:
    if finding.kind != "lifecycle.PodEvicted":
        return ()
    return tuple(
        f"{subject.removeprefix('pod/')} {clause}" for subject, clause in finding.about.items()
    )


def _scoped(
    history: History, target: Target, upto_ts_ns: int | None
) -> tuple[list[Record], list[Record], Scope, list[StageEpisode]]:
    """Records about the target, its decisions, the pod that is meant, stages that held it up.

    The pod is the one whose UID is asked for, else the last one that something was decided about.
    """
    if target.kind not in {"pod", "container"}:
        there = (r for r in history.read(None) if upto_ts_ns is None or r.ts_ns <= upto_ts_ns)
        decisions = [r for r in there if r.role == "decision" and concerns(target, r, frozenset())]
        return [r for r in decisions if not is_about_others(target, r)], decisions, Scope(), []
    lives = history.lives(target.parts[:2], upto_ts_ns)
    if target.pod_uid is not None or not lives:
        return _of_pod(history, target, upto_ts_ns, Scope(target.pod_uid, lives))
    found = (_of_pod(history, target, upto_ts_ns, Scope(uid, lives)) for uid in reversed(lives))
    last = next(found)
    return last if last[1] else next((each for each in found if each[1]), last)


def _of_pod(
    history: History, target: Target, upto_ts_ns: int | None, scope: Scope
) -> tuple[list[Record], list[Record], Scope, list[StageEpisode]]:
    pod, uids = target.parts[:2], frozenset({*scope.lives, *filter(None, (scope.pod_uid,))})
    about: list[Record] = []
    decisions: list[Record] = []
    stages = PodStages()
    for record in history.picked(_seqs(history, target, scope)):
        if (upto_ts_ns is not None and record.ts_ns > upto_ts_ns) or not scope.holds(record, pod):
            continue
        if record.kind in STAGE_KINDS:
            stages.take(record)
        if tells_of(target, record, uids):
            about.append(record)
        if record.role == "decision" and concerns(target, record, uids):
            decisions.append(record)
    seqs = {record.seq for record in about}
    stages.wait_until(history.latest_ns(STAGE_KINDS, upto_ts_ns))
    silent_ns = (history.latest_ns(BODY_TYPES, upto_ts_ns) or 0) - SILENT_MIN * 60 * NS_PER_S
    episodes = [
        msgspec.structs.replace(each, is_silent=each.is_open and each.last_ts_ns < silent_ns)
        for each in stages.episodes()
        if each.seq in seqs
    ]
    return sorted(about, key=in_time), decisions, scope, episodes


def _seqs(history: History, target: Target, scope: Scope) -> list[int]:
    """Of the records that name a pod those that may be about it, in the order of replay."""
    pod, stretches = target.parts[:2], history.derive(SUBJECT_INDEX)
    names = {name_subject(None, pod[-1]), "/".join(pod)}
    named = set(scope.had_name(seqs_naming(names, stretches)))
    uids = {scope.pod_uid} if scope.pod_uid else set(scope.lives)
    named |= set(seqs_naming(uids, stretches))
    return [seq for seq in seqs_naming({*names, *uids}, stretches) if seq in named]


def _mentioning(history: History, target: Target, upto_ts_ns: int | None) -> list[Record]:
    """Records that name the target among others, in the order of time."""
    found, uids = history.read(None), frozenset[str]()
    if target.kind in {"pod", "container"}:
        scope = Scope(None, history.lives(target.parts[:2], upto_ts_ns))
        uids = frozenset({*scope.lives, *filter(None, (target.pod_uid,))})
        found = history.picked(_seqs(history, target, scope))
    there = (r for r in found if upto_ts_ns is None or r.ts_ns <= upto_ts_ns)
    return sorted((r for r in there if mentions(target, r, uids)), key=in_time)


def _rests_on(history: History, finding: Finding) -> list[Record]:
    """Decisions of other subsystems that a decision rests on, the nearest first."""
    kinds = _LINKS.get(finding.kind, "").split()
    # Of the same instant, one may stand after the other.
    return [
        record
        for record in reversed(history.pick(finding.inputs if kinds else ()))
        if record.kind in kinds and record.ts_ns <= finding.ts_ns
    ]


def _earlier(decisions: list[Record], main: Record) -> list[Record]:
    """The last deletion of an image that was kept when it was there again."""
    kept = main.kind == "images.GarbageCollected"
    return [r for r in decisions if kept and r.kind == "images.ImageDeleted"][-1:]


def _assigned(target: Target, decisions: list[Record], main: Record) -> list[Record]:
    """CPUs and memory that a container has of its own, whatever else became of it."""
    if target.kind != "container":
        return []
    last = {r.kind: r for r in decisions if r.kind in _ASSIGNED and r.seq < main.seq}
    return [record for kind, record in sorted(last.items()) if kind != main.kind]


def _later(target: Target, decisions: list[Record], main: Record) -> list[Record]:
    """What became of a container after its last start, or after what happened to its pod."""
    later: dict[str, Record] = {}
    if target.kind == "container" and is_about_pod(main):
        ends = [r for r in decisions if r.kind == _KILLED and r.seq > main.seq]
        return ends[:1]
    if main.kind != "lifecycle.ContainerRestarted":
        return []
    for record in decisions[decisions.index(main) + 1 :]:
        same = getattr(record.body, "container", None) == getattr(main.body, "container", None)
        if (same and record.kind in _AFTER_START) or is_about_pod(record):
            later.pop(record.kind, None)
            later[record.kind] = record
    return list(later.values())


def _causes(history: History, main: Record) -> list[Record]:
    """What led to a decision, the nearest first."""
    chain: list[Record] = []
    seq = main.cause
    while seq is not None and seq < (chain[-1] if chain else main).seq and len(chain) < _CAUSES_MAX:
        record = history.record(seq)
        if record is None:
            break
        if record.kind not in _SAID_BY_EFFECTS:
            chain.append(record)
        seq = record.cause
    return chain


def _meant(target: Target, finding: Finding) -> str:
    """The beginning of the sentence, where the decision is about others and says why not this."""
    kept = _kept(target, finding)
    return f"image {kept[0]} was kept at {format_ts(finding.ts_ns)}: it {kept[1]}; " if kept else ""


def _kept(target: Target, finding: Finding) -> tuple[str, str] | None:
    """ID of the image that is asked for and why a collection left it; None where it did not."""
    if target.kind != "image":
        return None
    found = ((subject.removeprefix("image/"), why) for subject, why in finding.about.items())
    return next(((image_id, why) for image_id, why in found if is_image(target, image_id)), None)


def _findings(history: History, decisions: Iterable[Record]) -> dict[int, Finding]:
    """What is found about some decisions; only what judges such ones is at work."""
    wanted = {record.seq: record.kind for record in decisions}
    if not wanted:
        return {}
    kept = history.findings()
    if kept is not None:
        return kept.findings(wanted)
    from kubeledger.verify.registry import verifiers_of  # all rules are much to load

    found: dict[int, Finding] = {}
    outcomes = history.verify(verifiers=verifiers_of(set(wanted.values())))
    for outcome in outcomes:
        if isinstance(outcome, Finding) and outcome.recorded is not None and outcome.seq in wanted:
            found[outcome.seq] = outcome
            if len(found) == len(wanted):
                break
    return found


def _inputs(finding: Finding | None) -> Iterable[int]:
    return finding.inputs if finding is not None else ()


def _sentence(chains: list[list[Record]], findings: dict[int, Finding]) -> str:
    """What the decision rests on and what led to it; then what went before it, or came after."""
    main, parts = chains[0][0], []
    after = iter(("since that restart, ",) if main.kind == "lifecycle.ContainerRestarted" else ())
    for chain in chains:
        clauses = [clause(r, findings[r.seq]) for r in chain if r.seq in findings]
        word = ""
        if chain[0] is not main:
            is_earlier = (chain[0].ts_ns, chain[0].seq) < (main.ts_ns, main.seq)
            word = "earlier, " if is_earlier else next(after, "after that, ")
        parts.append(word + "; before that, ".join(dict.fromkeys(clauses)))
    return "; ".join(parts)


def _lacks_container(history: History, target: Target) -> bool:
    """Whether the pod's specs are known, and none has the container that is asked about."""
    if target.kind != "container":
        return False
    known = _containers_of(history, target)
    return bool(known) and target.parts[2] not in known


def _containers_of(history: History, target: Target) -> list[str]:
    """Names of the containers that the specs of the target's pod have; none without a spec."""
    found: dict[str, None] = {}
    for record in history.naming({"/".join(target.parts[:2])}, {"lifecycle.PodListed"}):
        body: Any = record.body
        if (body.namespace, body.pod) == target.parts[:2]:
            names = (container.get("name") for container in containers_in(body.spec))
            found |= dict.fromkeys(name for name in names if isinstance(name, str))
    return list(found)


def _no_such_target(target: Target, histories: Sequence[History]) -> BadQuestionError:
    """The error for a target that no decision is about."""
    known: dict[str, None] = {}
    if target.kind == "container":
        for history in histories:
            known |= dict.fromkeys(_containers_of(history, target))
    if known and target.parts[2] not in known:
        pod = "/".join(target.parts[:2])
        return BadQuestionError(
            f"pod {pod} has no container {target.parts[2]}",
            advice=f"ask for one of: {' '.join(f'container/{pod}/{name}' for name in known)}",
        )
    advice = "`kubeledger ls` shows what the ledger knows"
    if target.kind in {"pod", "container"}:
        pods = (record for history in histories for record in history.read(None))
        if similar := similar_pods(pods, "/".join(target.parts[:2])):
            advice = f"is it {' or '.join(f'pod/{pod}' for pod in similar)}?"
    return BadQuestionError(f"no decision is about {target}", advice=advice)
