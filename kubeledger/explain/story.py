"""What happened to a pod or container: its records told as a few dated steps, weighed.

Records that say the same of the same container are one step with a count. The step that weighs
most is the headline: what ended the pod or a container first, then probes and crashes, then
what kept a container from starting; what every pod goes through weighs least.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kubeledger.explain.explanation import StoryStep
from kubeledger.explain.target import Target
from kubeledger.explain.words import HEADLINE_MAX, cut, cut_words, ended, seconds, size, time, times
from kubeledger.machine import Record
from kubeledger.verify import Finding

__all__ = ["STEPS_MAX", "Story", "most_telling", "tell"]

STEPS_MAX = 8

_POD_END = 100
_CONTAINER_END = 90
_REFUSED = 80
_NEVER_STARTED = 75
_TROUBLE = 70
_BACK_OFF = 65
_WORTH_TELLING = 50
"""What weighs less happens to every pod, and is no trouble."""
_STOPPED = 45
_DELAY = 11
_OUTPUT_MAX = 50
_REASON_LONG = 40
_SENTENCE_MIN = 135

_PROBES = frozenset({"liveness", "readiness", "startup"})
_OWN_KILLS = {
    "deadline_exceeded": "was killed at its deadline",
    "liveness_probe": "was killed by its liveness probe",
    "post_start_hook": "was killed because its post-start hook failed",
    "startup_probe": "was killed by its startup probe",
}
_OTHER_KILLS = {
    "evicted": "was killed as its pod was evicted",
    "node_shutdown": "was killed as the node shut down",
    "orphaned": "was killed as no source knows its pod",
    "pod_deleted": "was killed as its pod was deleted",
    "pod_ended": "was killed as its pod had ended",
    "preempted": "was killed as its pod was preempted",
    "sandbox_changed": "was killed as the pod's sandbox changed",
    "spec_changed": "was killed as its spec changed",
}
_STOPS = {
    "deleted": "it was deleted",
    "ended": "its containers had ended",
    "killed": "the kubelet makes it end",
    "orphaned": "no source knows it",
    "removed": "it was removed",
    "shutdown": "the node shut down",
}
_SAID_BY_DECISIONS = frozenset(
    {"Evicted", "FailedPostStartHook", "Killing", "Preempting", "Unhealthy"}
)
_SAID_BY_OTHERS = ("Back-off restarting", "Error: Err", "Error: ImagePullBackOff")


class Words(NamedTuple):
    """Who (a container, or empty for the pod), what happened, and why."""

    who: str
    what: str
    why: str = ""


class _Facts(msgspec.Struct):
    """What the words of one step need from other records."""

    main: Record
    findings: Mapping[int, Finding]
    probes: dict[tuple[str, str], dict[str, Any]] = {}
    outputs: dict[tuple[str, str], str] = {}
    became_ready: set[str] = set()
    started: dict[str | None, int] = {}
    passed_startup: set[str] = set()
    not_given: str = ""
    stopped_ts_ns: int | None = None
    backed_off: set[str] = set()
    killed_ids: set[str] = set()
    restarted_ids: set[str] = set()
    reasons: set[str] = set()


class Story(NamedTuple):
    """The headline, and the steps in the order of time."""

    headline: str
    steps: list[StoryStep]


class _Group(msgspec.Struct):
    weight: int
    words: Words
    count: int
    records: list[Record]


def tell(
    target: Target,
    records: Sequence[Record],
    main: Record,
    findings: Mapping[int, Finding],
    others: Sequence[tuple[Record, str]] = (),
) -> Story:
    """The story of a pod or container.

    Args:
        target: which.
        records: (n,) about it, in the order of time.
        main: the decision that explains it.
        findings: by seq, at least of the decisions that weigh most.
        others: (m,) records about others that led to ``main``, and what they say.
    """
    facts = _facts(records, _Facts(main=main, findings=findings))
    is_container = target.kind == "container"
    groups = [
        _group(same, facts, is_container=is_container) for same in _grouped(records, facts).values()
    ]
    steps = [_step(group) for group in _without_repeats(groups)]
    told = {record.seq for group in groups for record in group.records}
    for record, text in others:
        if record.seq not in told:
            steps.append(_step(_Group(_REFUSED, Words("", text), 1, [record]), pod=""))
    steps.sort(key=lambda step: (step.ts_ns, step.seq))
    return Story(_headline(target, groups, records), steps)


def _without_repeats(groups: list[_Group]) -> list[_Group]:
    """The groups in the order of time, each reason said once: with what it first led to."""
    said: set[tuple[str, str]] = set()
    found = []
    for group in sorted(groups, key=lambda group: group.records[0].ts_ns):
        who, what, why = group.words
        key = (who if len(why) < _REASON_LONG else "", why)
        words = Words(who, what, "" if key in said else why)
        found.append(msgspec.structs.replace(group, words=words))
        said.add(key)
    return found


def most_telling(steps: Sequence[StoryStep]) -> list[StoryStep]:
    """(n,) n <= ``STEPS_MAX``: those that weigh most, in the order of time."""
    ranked = sorted(steps, key=lambda step: (-step.weight, step.ts_ns, step.seq))
    return sorted(ranked[:STEPS_MAX], key=lambda step: (step.ts_ns, step.seq))


def _facts(records: Sequence[Record], facts: _Facts) -> _Facts:
    for record in records:
        body: Any = record.body
        match record.kind:
            case "lifecycle.PodListed":
                _note_probes(facts, body.spec)
            case "lifecycle.ContainerStarted":
                if not body.sandbox:
                    facts.started[body.container] = record.ts_ns
            case kind if kind.endswith("AllocationFailed"):
                facts.not_given = _why([record], facts)
            case "lifecycle.ContainerRestarted":
                facts.restarted_ids.add(body.container_id)
            case "lifecycle.RestartBackedOff":
                facts.backed_off.add(body.container)
            case "lifecycle.ContainerKilled" | "oom.ProcessKilled":
                facts.killed_ids.add(body.container_id)
                if body.reason in _OTHER_KILLS and facts.stopped_ts_ns is None:
                    facts.stopped_ts_ns = record.ts_ns
            case "lifecycle.PodTerminating":
                facts.stopped_ts_ns = min(facts.stopped_ts_ns or record.ts_ns, record.ts_ns)
            case "prober.ProbeTransitioned":
                if body.probe_type == "startup" and body.to_result == "success":
                    facts.passed_startup.add(body.container)
            case "lifecycle.PodRejected":
                facts.reasons.add(body.reason)
            case "prober.ProbeExecuted" | "prober.ProbeTicksFolded":
                if body.result == "success":
                    if body.probe_type == "readiness":
                        facts.became_ready.add(body.container)
                elif body.output:
                    facts.outputs[body.container, body.probe_type] = body.output
            case _:
                pass
    return facts


def _note_probes(facts: _Facts, spec: Any) -> None:  # noqa: ANN401 # a spec as the API gives it
    if not isinstance(spec, dict):
        return
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            for probe_type in _PROBES:
                probe = container.get(f"{probe_type}Probe")
                if isinstance(probe, dict):
                    facts.probes[container.get("name"), probe_type] = probe


def _grouped(records: Sequence[Record], facts: _Facts) -> dict[tuple[str, ...], list[Record]]:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        rule = _RULES.get(record.kind)
        weight = rule.weight(record, facts) if rule else 0
        if rule is None or weight == 0:
            continue
        container = getattr(record.body, "container", None) or ""
        key = (
            record.kind,
            container,
            str(weight),
            *(str(getattr(record.body, f)) for f in rule.same),
        )
        if record.kind == "lifecycle.ReasonReported":
            key = (*key, str(getattr(record.body, "message", ""))[:20])
        elif record.kind == "lifecycle.PodEvicted":
            key = (*key, str(_is_besides(record, facts)))
        groups.setdefault(key, []).append(record)
    return groups


def _is_besides(record: Record, facts: _Facts) -> bool:
    """Whether it is another attempt at an eviction than the one that ended the pod."""
    return record.kind == facts.main.kind == "lifecycle.PodEvicted" and record is not facts.main


def _group(records: list[Record], facts: _Facts, *, is_container: bool) -> _Group:
    rule = _RULES[records[-1].kind]
    weight = max(rule.weight(record, facts) for record in records)
    ended_before = is_container and facts.main.kind not in _POD_ENDS
    if weight == _POD_END and (ended_before or _is_besides(records[-1], facts)):
        weight = _WORTH_TELLING
    count = sum(getattr(record.body, "count", 1) for record in records)
    return _Group(weight, rule.words(records, facts), count, records)


def _step(group: _Group, *, pod: str = "pod") -> StoryStep:
    who, what, why = group.words
    text = " ".join(filter(None, (who or pod, what)))
    first, last = group.records[0], group.records[-1]
    return StoryStep(
        ts_ns=first.ts_ns,
        last_ts_ns=last.ts_ns,
        count=group.count,
        text=seconds(" ".join(f"{text}: {why}".split()) if why else text),
        weight=group.weight,
        kind=last.kind,
        seq=last.seq,
    )


def _headline(target: Target, groups: list[_Group], records: Sequence[Record]) -> str:
    def rank(group: _Group) -> tuple[int, int, int]:
        return group.weight, group.count, group.records[-1].ts_ns

    ranked = sorted(groups, key=rank, reverse=True)
    trouble = [group for group in ranked if group.weight >= _WORTH_TELLING]
    if not trouble:
        return _without_trouble(target, ranked, records)
    also = _ready_again(trouble[0], ranked)
    for group in [each for each in trouble[1:] if not _is_told_by(each, trouble[0])][:2]:
        counts = group.count > 1 and group.weight != _BACK_OFF
        often = f" ({group.count} times)" if counts else ""
        more = f"; {group.words.who or 'the pod'} {group.words.what}{often}"
        if len(also) + len(more) <= HEADLINE_MAX - _SENTENCE_MIN:
            also += more
    return ended(_sentence(target, trouble[0], HEADLINE_MAX - 1 - len(also)) + also)


def _ready_again(unready: _Group, groups: list[_Group]) -> str:
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


def _is_told_by(group: _Group, first: _Group) -> bool:
    """Whether it is a probe that failed, or devices that were missing, which led to the first."""
    body: Any = group.records[-1].body
    kind = group.records[-1].kind
    if kind.endswith("AllocationFailed"):
        return first.records[-1].kind == "lifecycle.PodRejected"
    is_turn = hasattr(body, "to_result")
    return kind.startswith("prober.") and (body.probe_type != "readiness" or not is_turn)


def _sentence(target: Target, group: _Group, length: int) -> str:
    namespace, pod = target.parts[:2]
    who, what, why = group.words
    subject = f"container {namespace}/{pod}/{who}" if who else f"pod {namespace}/{pod}"
    first, last = group.records[0].ts_ns, group.records[-1].ts_ns
    text = f"{subject} {what} {times(first, last, group.count)}"
    text = f"{text}: {' '.join(why.split())}" if why else text
    return cut_words(seconds(text), length)


def _without_trouble(target: Target, ranked: list[_Group], records: Sequence[Record]) -> str:
    """How it fared where nothing went wrong: it was stopped, ended, or runs."""
    name = f"{target.kind} {'/'.join(target.parts)}"
    quiet = "no kill, eviction, refusal or failing probe is recorded"
    stops = [group for group in ranked if group.weight == _STOPPED]
    if stops:
        return f"{_sentence(target, stops[0], 150)}; nothing else befell it."
    own = target.parts[2] if target.kind == "container" else None
    lives = [r for r in records if r.kind in _LIVES and not getattr(r.body, "sandbox", False)]
    lives = [r for r in lives if own in (None, getattr(r.body, "container", None))]
    if lives and lives[-1].kind == "lifecycle.ContainerDied":
        body: Any = lives[-1].body
        code = "" if body.exit_code is None else f" with exit code {body.exit_code}"
        what = "ended" if own else f"had its container {body.container} end"
        return f"{name} {what}{code} at {time(lives[-1].ts_ns)}; {quiet}."
    late = next((group for group in ranked if group.weight == _DELAY), None)
    if lives and late:
        reason = late.words.what.partition("could not start ")[2]
        often = f", {late.count} times {reason}" if late.count > 1 else f", {reason}"
        return f"{name} runs since {time(lives[0].ts_ns)}, after it could not start{often}."
    if lives:
        return f"{name} runs since {time(lives[0].ts_ns)}; {quiet}."
    since = f" at {time(ranked[-1].records[0].ts_ns)}" if ranked else ""
    return f"{name} was admitted{since}; no start of a container is recorded."


def _why(records: Sequence[Record], facts: _Facts) -> str:
    """The reason that verification gives, or what the kubelet said itself."""
    record = records[-1]
    finding = facts.findings.get(record.seq)
    if finding is not None and finding.why and finding.verdict != "unverifiable":
        return finding.why.rstrip(".")
    body = record.body
    return getattr(body, "message", None) or getattr(body, "error", None) or ""


def _evicted(records: Sequence[Record], facts: _Facts) -> Words:
    if _is_besides(records[-1], facts):
        return Words("", "was chosen for eviction")
    return Words("", "was evicted", _why(records, facts))


def _preempted(records: Sequence[Record], facts: _Facts) -> Words:
    body: Any = records[-1].body
    who = f"{body.preemptor_namespace}/{body.preemptor_pod}"
    why = _why(records, facts)
    why = why.partition(" was killed because ")[2] or why
    inferred = " (inferred)" if body.preemptor_inferred else ""
    what = f"was preempted for {who}{inferred}" if body.preemptor_pod else "was preempted"
    return Words("", what, re.sub(rf"^{re.escape(who)} \(priority -?\d+\) ", "it ", why))


def _rejected(records: Sequence[Record], facts: _Facts) -> Words:
    body: Any = records[-1].body
    return Words("", f"was refused ({body.reason})", facts.not_given or _why(records, facts))


def _not_given(records: Sequence[Record], facts: _Facts) -> Words:
    body: Any = records[-1].body
    what = getattr(body, "resource", None) or {"c": "CPUs", "m": "memory"}.get(
        records[-1].kind[0], "devices"
    )
    return Words(body.container or "", f"was refused {what}", _why(records, facts))


def _killed(records: Sequence[Record], facts: _Facts) -> Words:
    body: Any = records[-1].body
    what = (_OWN_KILLS | _OTHER_KILLS).get(body.reason, "was killed")
    probe = str(body.reason).removesuffix("_probe")
    why = _said(body.container, probe, facts) if probe in _PROBES else ""
    if not why and body.grace_period_s is not None:
        why = f"with a {body.grace_period_s} s grace period"
    return Words(body.container or "", what, why)


def _out_of_memory(records: Sequence[Record], _: _Facts) -> Words:
    body: Any = records[-1].body
    limits = {"container_limit": "its memory limit", "pod_limit": "the pod's memory limit"}
    limit = limits.get(body.reason, "")
    amount = f" of {size(body.limit_bytes)}" if body.limit_bytes else ""
    why = f"{limit}{amount} was reached" if limit else ""
    if body.reason == "node":
        why = "the node was out of memory"
    process = f" (process {body.process})" if body.process else ""
    return Words(body.container or "", "was OOM-killed", f"{why}{process}")


def _died(records: Sequence[Record], _: _Facts) -> Words:
    body: Any = records[-1].body
    code = "" if body.exit_code is None else f" with exit code {body.exit_code}"
    return Words(body.container or "", f"ended by itself{code}")


def _put_off(records: Sequence[Record], _: _Facts) -> Words:
    bodies: list[Any] = [record.body for record in records]
    least, most = min(b.back_off_s for b in bodies), max(b.back_off_s for b in bodies)
    span = f"{most} s" if least == most else f"{least} s to {most} s"
    return Words(bodies[-1].container, f"had to wait to restart (back-off {span})")


def _restarted(records: Sequence[Record], _: _Facts) -> Words:
    body: Any = records[-1].body
    return Words(body.container or "", "was started again")


def _transition(records: Sequence[Record], facts: _Facts) -> Words:
    body: Any = records[-1].body
    if body.to_result == "success":
        what = "became ready" if body.probe_type == "readiness" else f"passed its {body.probe_type}"
        return Words(body.container, what if "ready" in what else f"{what} probe")
    what = f"came to count as failed ({body.probe_type})"
    if body.probe_type == "readiness":
        what = "went unready"
    return Words(body.container, what, _said(body.container, body.probe_type, facts))


def _ticks(records: Sequence[Record], facts: _Facts) -> Words:
    body: Any = records[-1].body
    never = body.probe_type == "readiness" and body.container not in facts.became_ready
    what = "was never ready, its readiness probe failed" if never else ""
    what = what or f"failed its {body.probe_type} probe"
    return Words(body.container, what, _said(body.container, body.probe_type, facts))


def _said(container: str, probe_type: str, facts: _Facts) -> str:
    """What a failing probe said last, and by which numbers it counts."""
    output = cut(facts.outputs.get((container, probe_type), "").strip(), _OUTPUT_MAX)
    probe = facts.probes.get((container, probe_type))
    if probe is None:
        return output
    period, threshold = probe.get("periodSeconds", 10), probe.get("failureThreshold", 3)
    return f"{output} (threshold {threshold}, every {period} s)".strip()


def _event(records: Sequence[Record], facts: _Facts) -> Words:
    body: Any = records[-1].body
    started = _started(body, facts)
    late = started is None or records[-1].ts_ns <= started
    what = f"could not start ({body.reason})" if late else f"had a warning ({body.reason})"
    return Words(body.container or "", what, body.message.removeprefix("Error: "))


def _stopped(records: Sequence[Record], _: _Facts) -> Words:
    body: Any = records[-1].body
    grace = "" if body.grace_period_s is None else f", with a {body.grace_period_s} s grace period"
    return Words("", "was stopped", f"{_STOPS[body.reason]}{grace}")


def _configured(records: Sequence[Record], _: _Facts) -> Words:
    body: Any = records[-1].body
    source = f" ({body.source})" if body.source else ""
    what = {"ADD": "was added", "DELETE": "was deleted", "REMOVE": "was removed"}
    return Words("", what[body.operation] + source)


def _devices(records: Sequence[Record], _: _Facts) -> Words:
    body: Any = records[-1].body
    return Words(body.container, f"got {', '.join(body.device_ids)} of {body.resource}")


def _no_victims(records: Sequence[Record], facts: _Facts) -> Words:
    return Words("", "found no pods to preempt", _why(records, facts))


def _simple(what: str) -> Callable[[Sequence[Record], _Facts], Words]:
    def words(records: Sequence[Record], _: _Facts) -> Words:
        return Words(getattr(records[-1].body, "container", None) or "", what)

    return words


def _weight_of_kill(record: Record, _: _Facts) -> int:
    body: Any = record.body
    return _CONTAINER_END if body.reason in _OWN_KILLS else 40


def _weight_of_death(record: Record, facts: _Facts) -> int:
    body: Any = record.body
    if body.sandbox or body.container is None or body.container_id in facts.killed_ids:
        return 0
    if body.exit_code or (body.exit_code == 0 and body.container in facts.backed_off):
        return _TROUBLE
    return 38


def _weight_of_start(record: Record, facts: _Facts) -> int:
    body: Any = record.body
    is_again = body.container_id in facts.restarted_ids
    return 0 if body.sandbox or body.container is None or is_again else 22


def _weight_of_transition(record: Record, _: _Facts) -> int:
    body: Any = record.body
    if body.to_result == "failure":
        return _TROUBLE if body.probe_type == "readiness" else 16
    return 28


def _weight_of_tick(record: Record, facts: _Facts) -> int:
    body: Any = record.body
    if body.result in {"success", "warning"}:
        return 0
    is_ending = facts.stopped_ts_ns is not None and record.ts_ns >= facts.stopped_ts_ns
    if is_ending or (body.probe_type == "startup" and body.container in facts.passed_startup):
        return 15
    never = body.probe_type == "readiness" and body.container not in facts.became_ready
    return _TROUBLE if never else _WORTH_TELLING


def _weight_of_event(record: Record, facts: _Facts) -> int:
    body: Any = record.body
    said = body.reason in _SAID_BY_DECISIONS or body.reason in facts.reasons
    if body.type != "Warning" or said or body.message.startswith(_SAID_BY_OTHERS):
        return 0
    started = _started(body, facts)
    if started is None:
        return _NEVER_STARTED
    return _DELAY if record.ts_ns <= started else _WORTH_TELLING + 5


def _started(body: Any, facts: _Facts) -> int | None:  # noqa: ANN401 # any body
    """When the container, or one of the pod's, started last; None when none did."""
    if body.container:
        return facts.started.get(body.container)
    return max(facts.started.values(), default=None)


def _weight_of_stop(record: Record, _: _Facts) -> int:
    body: Any = record.body
    return 10 if body.reason == "killed" else _STOPPED


def _weight_of_change(record: Record, _: _Facts) -> int:
    body: Any = record.body
    return {"ADD": 12, "DELETE": 30, "REMOVE": 8}.get(body.operation, 0)


def _always(weight: int) -> Callable[[Record, _Facts], int]:
    return lambda record, facts: weight


class _Rule(NamedTuple):
    weight: Callable[[Record, _Facts], int]
    words: Callable[[Sequence[Record], _Facts], Words]
    same: tuple[str, ...] = ()


_POD_ENDS = frozenset({"lifecycle.PodEvicted", "preemption.PodPreempted", "lifecycle.PodRejected"})
_LIVES = frozenset(
    {"lifecycle.ContainerStarted", "lifecycle.ContainerRestarted", "lifecycle.ContainerDied"}
)
_RULES: Mapping[str, _Rule] = {
    "cpumanager.CpuAllocationFailed": _Rule(_always(_REFUSED), _not_given),
    "cpumanager.CpusAllocated": _Rule(_always(31), _simple("got CPUs of its own")),
    "devicemanager.AllocationFailed": _Rule(_always(_REFUSED), _not_given, ("resource",)),
    "devicemanager.DevicesAllocated": _Rule(_always(32), _devices, ("resource",)),
    "lifecycle.ContainerDied": _Rule(_weight_of_death, _died, ("exit_code",)),
    "lifecycle.ContainerKilled": _Rule(_weight_of_kill, _killed, ("reason",)),
    "lifecycle.ContainerRestarted": _Rule(_always(20), _restarted),
    "lifecycle.ContainerStarted": _Rule(_weight_of_start, _simple("was started")),
    "lifecycle.PodAdmitted": _Rule(_always(14), _simple("was admitted")),
    "lifecycle.PodConfigChanged": _Rule(_weight_of_change, _configured, ("operation",)),
    "lifecycle.PodEvicted": _Rule(_always(_POD_END), _evicted),
    "lifecycle.PodRejected": _Rule(_always(_POD_END), _rejected, ("reason",)),
    "lifecycle.PodTerminated": _Rule(_always(10), _simple("had all its containers down")),
    "lifecycle.PodTerminating": _Rule(_weight_of_stop, _stopped, ("reason",)),
    "lifecycle.ReasonReported": _Rule(_weight_of_event, _event, ("reason",)),
    "lifecycle.RestartBackedOff": _Rule(_always(_BACK_OFF), _put_off),
    "memorymanager.MemoryAllocated": _Rule(_always(13), _simple("got memory of NUMA nodes")),
    "memorymanager.MemoryAllocationFailed": _Rule(_always(_REFUSED), _not_given),
    "oom.ProcessKilled": _Rule(_always(_CONTAINER_END), _out_of_memory, ("reason",)),
    "preemption.PodPreempted": _Rule(_always(_POD_END), _preempted),
    "preemption.PreemptionFailed": _Rule(_always(_REFUSED), _no_victims),
    "prober.ProbeExecuted": _Rule(_weight_of_tick, _ticks, ("probe_type",)),
    "prober.ProbeTicksFolded": _Rule(_weight_of_tick, _ticks, ("probe_type",)),
    "prober.ProbeTransitioned": _Rule(
        _weight_of_transition, _transition, ("probe_type", "to_result")
    ),
}
"""Kind -> how much a record of it explains, its words, and the fields that make records alike."""
