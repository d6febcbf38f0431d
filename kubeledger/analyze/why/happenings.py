"""What happens to pods and containers: each kind of record in words, and its weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kubeledger.analyze.logged_errors import EVENT, TOLD_BY_DECISIONS, harmless, own_words
from kubeledger.analyze.why.facts import (
    OTHER_KILLS,
    OWN_KILLS,
    PROBES,
    Facts,
    is_besides,
    probe_message,
    why_of,
)
from kubeledger.analyze.why.pieces import size, span_of
from kubeledger.analyze.wording import span_text
from kubeledger.kubelet.cgroups.paths import is_of_pods
from kubeledger.kubelet.lifecycle.stages import failure_of_event
from kubeledger.kubelet.lifecycle.state import UNKNOWN_KILLER, how_it_ended, killer_unknown
from kubeledger.model.patterns import regex
from kubeledger.model.record import Record

POD_END = 100
STUCK = 95
"""It does not run now; what killed it before weighs less."""
CONTAINER_END = 90
REFUSED = 80
NEVER_STARTED = 75
TROUBLE = 70
BACK_OFF = 65
WORTH_TELLING = 50
"""What weighs less happens to every pod, and is no trouble."""
STOPPED = 45
DELETED = 44
DELAY = 21

_STOPS = {
    "deleted": "it was deleted",
    "ended": "its containers had ended",
    "killed": "the kubelet makes it end",
    "orphaned": "no source knows it",
    "removed": "it was removed",
    "shutdown": "the node shut down",
}
_RESIZES = {
    "actuated": "was resized in place",
    "allocated": "was given what a resize in place asks for",
    "deferred": "had its resize in place deferred",
    "infeasible": "had a resize in place that is infeasible",
}
_REFUSED_RESIZES = frozenset({"deferred", "infeasible"})
_PASSES = {
    "age": "it was unused for longer than imageMaximumGCAge",
    "all": "all unused images were to go",
}
_OTHERS_END = "the end of another pod that names the claim unprepares it (kubernetes#140212)"
_THRESHOLD = regex(r"(of eviction(?:Hard|Soft)) [\w.]+<\S+?(?=[,; ]|$)")
"""The threshold as it was set, which its amount stands before."""
_REFUSED_AS = regex(
    r"^(?:the pod is refused (?:as \w+|before any predicate is asked)|Unexpected error while "
    r"attempting to recover from admission failure(?:: preemption)?"
    r"(?:: error finding a set of pods to preempt)?): "
)


class Words(NamedTuple):
    """Who (a container, or empty for the pod), what happened, and why."""

    who: str
    what: str
    why: str = ""


class Group(msgspec.Struct):
    """What makes one step: records of which each says the same of the same.

    Attributes:
        count: how often it happened.
        records: (n,) n >= 1, in the order of time.
        span: the first and the last time; None: those of the records.
        goes_on: it is still so.
        is_silent: it was so when the records told of it last, and they go on without it.
        next_try: a clause on when it is tried again.
    """

    weight: int
    words: Words
    count: int
    records: list[Record]
    span: tuple[int, int] | None = None
    goes_on: bool = False
    is_silent: bool = False
    next_try: str = ""

    @property
    def first_ts_ns(self) -> int:
        """When it happened first."""
        return self.span[0] if self.span else span_of(self.records[0])[0]

    @property
    def last_ts_ns(self) -> int:
        """When it happened last."""
        return self.span[1] if self.span else span_of(self.records[-1])[1]


def _evicted(records: Sequence[Record], facts: Facts) -> Words:
    if is_besides(records[-1], facts):
        return Words("", "was chosen for eviction")
    why = _THRESHOLD.sub(r"\1", why_of(records, facts), count=1)
    return Words("", "was evicted", why or _short(records[-1].body))


def _short(eviction: Any) -> str:  # noqa: ANN401 # the body of an eviction
    """For what a pod had to go, where neither a message nor verification says it."""
    if eviction.threshold_kind == "local_storage":
        return "it used more local storage than its limit"
    what = eviction.signal or eviction.resource
    return f"{what} was short" if what else "what was short is not recorded"


def _spared(records: Sequence[Record], _: Facts) -> Words:
    return Words("", "was to be evicted, and was spared", "it is critical")


def _preempted(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    who = f"{body.preemptor_namespace}/{body.preemptor_pod}"
    if is_besides(records[-1], facts):
        return Words("", f"was chosen to make room for {who}")
    inferred = " (inferred)" if body.preemptor_inferred else ""
    what = f"was preempted for {who}{inferred}" if body.preemptor_pod else "was preempted"
    finding = facts.findings.get(records[-1].seq)
    about = {} if finding is None else finding.about
    for_it = [f"{name.rpartition('/')[2]} {lacked}" for name, lacked in about.items()]
    return Words("", what, for_it[0] if for_it else why_of(records, facts))


def _rejected(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    why = facts.not_given or why_of(records, facts)
    why = _REFUSED_AS.sub("", why)
    return Words("", f"was refused ({body.reason})", why)


def _not_given(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    what = getattr(body, "resource", None) or {"c": "CPUs", "m": "memory"}.get(
        records[-1].kind[0], "devices"
    )
    return Words(body.container or "", f"was refused {what}", why_of(records, facts))


def _killed(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    what = (OWN_KILLS | OTHER_KILLS).get(body.reason, "was killed")
    probe = str(body.reason).removesuffix("_probe")
    why = probe_message(body.container, probe, facts) if probe in PROBES else ""
    if not why and body.grace_period_s is not None:
        why = f"with a {body.grace_period_s} s grace period"
    return Words(body.container or "", what, why)


def _out_of_memory(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    limits = {"container_limit": "its memory limit", "pod_limit": "the pod's memory limit"}
    limit = limits.get(body.reason, "")
    amount = f" of {size(body.limit_bytes)}" if body.limit_bytes else ""
    why = f"{limit}{amount} was reached" if limit else ""
    if is_of_pods(body.cgroup):
        why = f"all pods together had reached their limit{amount} (node allocatable)"
    elif body.reason == "node":
        why = "the node was out of memory"
    kills: list[Any] = [record.body for record in records]
    named = [kill.process for kill in kills if kill.process]
    process = f"process {', '.join(dict.fromkeys(named))}" if named else ""
    if 0 < len(named) < len(records):
        process += f" in {len(named)} of {len(records)}"
    why = f"{why} ({process})" if why and process else why or process
    return Words(body.container or "", "was OOM-killed", why)


def _died(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    run = facts.runs.get(body.container_id)
    if run is not None and run.failed:
        what = f"could not be started{' at first' if facts.ran_after(run) else ''}"
        return Words(body.container or "", what, f"exit code {body.exit_code}")
    why = UNKNOWN_KILLER if killer_unknown(body.exit_code) else ""
    return Words(body.container or "", how_it_ended(body.exit_code), why)


def start_measured(record: Record, facts: Facts) -> tuple[int, str]:
    """Since when all containers of a pod run, and how long that took, in brackets."""
    body: Any = record.body
    since_ns = body.running_ts_ns or record.ts_ns
    if facts.is_static or body.created_ts_ns is None or since_ns < body.created_ts_ns:
        return since_ns, ""
    took = f"{span_text(since_ns - body.created_ts_ns)} after it was created"
    pulled = f", {span_text(body.pulling_ns)} of it for images" if body.pulling_ns else ""
    return since_ns, f" ({took}{pulled})"


def _all_run(records: Sequence[Record], facts: Facts) -> Words:
    return Words("", f"had all its containers running{start_measured(records[-1], facts)[1]}")


def _put_off(records: Sequence[Record], _: Facts) -> Words:
    bodies: list[Any] = [record.body for record in records]
    least, most = min(b.back_off_s for b in bodies), max(b.back_off_s for b in bodies)
    span = f"{most} s" if least == most else f"{least} s to {most} s"
    return Words(bodies[-1].container, f"was not restarted yet (back-off {span})")


def _restarted(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    return Words(body.container or "", "was started again")


def _transition(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    if body.to_result == "success":
        what = "became ready" if body.probe_type == "readiness" else f"passed its {body.probe_type}"
        return Words(body.container, what if "ready" in what else f"{what} probe")
    what = f"got the {body.probe_type} result failure"
    if body.probe_type == "readiness":
        what = "went unready"
    return Words(body.container, what, probe_message(body.container, body.probe_type, facts))


def _ticks(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    never = body.probe_type == "readiness" and facts.was_never_ready(body.container)
    what = "was never ready, its readiness probe failed" if never else ""
    what = what or f"failed its {body.probe_type} probe"
    return Words(body.container, what, probe_message(body.container, body.probe_type, facts))


def _event(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    return Words(body.container or "", f"had a warning ({body.reason})", body.message)


def _logged(records: Sequence[Record], _: Facts) -> Words:
    record = records[-1]
    body: Any = record.body
    what = "a warning" if body.severity == "W" else "an error"
    is_single = body.count == len(records) == len(record.evidence)
    said = own_words(record.evidence[0].text or "") if is_single else ""
    return Words("", f"is named in {what}", said or body.shape)


def _resized(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    if body.reason == "Error":
        return Words("", "cannot be given what its resize in place was allocated", body.message)
    reason = f" ({body.reason})" if body.reason else ""
    is_refused = body.outcome in _REFUSED_RESIZES
    why = why_of(records, facts) if is_refused else _asked_for(body.resources)
    return Words("", f"{_RESIZES[body.outcome]}{reason}", why)


def _asked_for(resources: Mapping[str, Any] | None) -> str:
    """Amounts by container: ``app requests cpu 1, memory 1Gi``."""
    amounts = {
        name: ", ".join(f"{key} {amount}" for key, amount in (each.get("requests") or {}).items())
        for name, each in (resources or {}).items()
    }
    return "; ".join(f"{name} requests {each}" for name, each in amounts.items() if each)


def _stopped(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    grace = "" if body.grace_period_s is None else f", with a {body.grace_period_s} s grace period"
    return Words("", "was stopped", f"{_STOPS[body.reason]}{grace}")


def _configured(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    source = f" ({body.source})" if body.source else ""
    what = {"ADD": "was added", "DELETE": "was deleted", "REMOVE": "was removed"}
    return Words("", what[body.operation] + source)


def _cpus(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    return Words(body.container or "", f"got CPUs {body.cpu_set} of its own")


def _memory(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    blocks = body.blocks or ()
    given = " and ".join(f"{size(block.size_bytes)} of {block.type}" for block in blocks)
    nodes = sorted({node for block in blocks for node in block.numa_nodes})
    where = f"NUMA node{'s' if len(nodes) != 1 else ''} {', '.join(map(str, nodes))}".rstrip()
    return Words(body.container or "", f"got {given or 'memory'} of {where}")


def _claim(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    drivers = ", ".join(sorted(body.drivers))
    return Words("", f"had its claim {body.claim} prepared", f"by {drivers}" if drivers else "")


def _claim_back(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    if body.unprepared and facts.lives_after(records[-1].ts_ns):
        return Words("", f"had its claim {body.claim} unprepared while it ran", _OTHERS_END)
    others = "" if body.unprepared else "other pods hold it"
    return Words("", f"gave back its claim {body.claim}", others)


def _cgroup(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    return Words("", "" if body.created else "had changed")


def _image(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    amount = f" ({size(body.size_bytes)})" if body.size_bytes else ""
    return Words("", f"was deleted{amount}", _PASSES.get(body.pass_, ""))


def _collection(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    return Words("", f"an image collection ended ({body.outcome})")


def _devices(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    return Words(body.container, f"got {', '.join(body.device_ids)} of {body.resource}")


_PULLS = {
    "back_off": "did not have its image pulled again yet",
    "failed": "could not have its image pulled",
    "never": "may not have its image pulled",
    "present": "may use its image, which was there",
    "pull": "has its image pulled, of which no end is recorded",
    "pulled": "had its image pulled",
    "refused": "had the pull of its image refused",
}


def _pull_decided(records: Sequence[Record], facts: Facts) -> Words:
    body: Any = records[-1].body
    return Words(body.container or "", _PULLS[body.decision], why_of(records, facts))


def _pull_ended(records: Sequence[Record], _: Facts) -> Words:
    body: Any = records[-1].body
    why = body.error
    if body.whole_ms is not None:
        waited_ms = 0 if body.pull_ms is None else body.whole_ms - body.pull_ms
        waited = f", {waited_ms / 1000:.1f} s of which it waited for others" if waited_ms else ""
        why = f"{body.image} in {body.whole_ms / 1000:.1f} s{waited}"
    return Words(body.container or "", _PULLS[body.outcome], why)


def _no_victims(records: Sequence[Record], facts: Facts) -> Words:
    return Words("", "found no pods to preempt", why_of(records, facts))


def _simple(what: str) -> Callable[[Sequence[Record], Facts], Words]:
    def words(records: Sequence[Record], _: Facts) -> Words:
        return Words(getattr(records[-1].body, "container", None) or "", what)

    return words


def _weight_of_kill(record: Record, _: Facts) -> int:
    body: Any = record.body
    return CONTAINER_END if body.reason in OWN_KILLS else 40


def _weight_of_death(record: Record, facts: Facts) -> int:
    body: Any = record.body
    if body.sandbox or body.container is None or facts.is_killed(body.container_id):
        return 0
    if body.exit_code or (body.exit_code == 0 and body.container in facts.backed_off):
        return TROUBLE
    return 38


def _weight_of_start(record: Record, facts: Facts) -> int:
    body: Any = record.body
    is_again = facts.is_restart(body.container_id)
    return 0 if body.sandbox or body.container is None or is_again else 22


def _weight_of_transition(record: Record, _: Facts) -> int:
    body: Any = record.body
    if body.to_result == "failure":
        return TROUBLE if body.probe_type == "readiness" else 16
    return 28


def _weight_of_tick(record: Record, facts: Facts) -> int:
    body: Any = record.body
    if body.result in {"success", "warning"}:
        return 0
    is_ending = facts.stopped_ts_ns is not None and record.ts_ns >= facts.stopped_ts_ns
    if is_ending or (body.probe_type == "startup" and body.container in facts.passed_startup):
        return 15
    never = body.probe_type == "readiness" and facts.was_never_ready(body.container)
    return TROUBLE if never else WORTH_TELLING


def _weight_of_event(record: Record, facts: Facts) -> int:
    body: Any = record.body
    is_known = body.reason in TOLD_BY_DECISIONS or body.reason in facts.reasons
    is_known |= facts.resized is not None and body.reason.startswith("Resize")
    is_known |= failure_of_event(body.reason, body.message) is not None
    is_known |= harmless(EVENT, f"{body.reason}: {body.message}") is not None
    return 0 if body.type != "Warning" or is_known else WORTH_TELLING + 5


def _weight_of_logged(record: Record, _: Facts) -> int:
    body: Any = record.body
    if body.recorded or harmless(body.source, body.shape) is not None:
        return 0
    return 13 if body.severity == "W" else 35


def _weight_of_resize(record: Record, facts: Facts) -> int:
    body: Any = record.body
    is_refused = body.outcome in _REFUSED_RESIZES or body.reason == "Error"
    return WORTH_TELLING + 10 if is_refused and record is facts.resized else 30


def _weight_of_claim_back(record: Record, facts: Facts) -> int:
    body: Any = record.body
    return TROUBLE if body.unprepared and facts.lives_after(record.ts_ns) else 9


def _weight_of_stop(record: Record, _: Facts) -> int:
    body: Any = record.body
    return 10 if body.reason == "killed" else STOPPED


def _weight_of_change(record: Record, _: Facts) -> int:
    body: Any = record.body
    return {"ADD": 12, "DELETE": DELETED, "REMOVE": 8}.get(body.operation, 0)


def _weight_of_pull(record: Record, facts: Facts) -> int:
    """What fails is told as a stage, too; a pull tells its end; that an image is there is well."""
    body: Any = record.body
    if record.kind == "imagepull.PullEnded":
        return 19 if body.outcome == "pulled" else 0 if _is_held(body, facts) else 17
    is_under_way = body.decision == "pull" and record.seq not in facts.ended_pulls
    return 40 if is_under_way else 18 if body.decision == "back_off" else 0


def _is_held(body: Any, facts: Facts) -> bool:  # noqa: ANN401 # any body with a container
    """Whether a stage tells that the container waits for its image."""
    return body.container in facts.held_by_images


def _always(weight: int) -> Callable[[Record, Facts], int]:
    return lambda record, facts: weight


class Rule(NamedTuple):
    """How records of a kind are described.

    Attributes:
        weight: how much one explains; 0 is left out.
        words: of several that are alike.
        same: fields that make two of them alike, besides kind and container.
    """

    weight: Callable[[Record, Facts], int]
    words: Callable[[Sequence[Record], Facts], Words]
    same: tuple[str, ...] = ()


RULES: Mapping[str, Rule] = {
    "cgroups.CgroupUpdated": Rule(_always(0), _cgroup),
    "cpumanager.CpuAllocationFailed": Rule(_always(REFUSED), _not_given),
    "cpumanager.CpusAllocated": Rule(_always(31), _cpus),
    "devicemanager.AllocationFailed": Rule(_always(REFUSED), _not_given, ("resource",)),
    "devicemanager.DevicesAllocated": Rule(_always(32), _devices, ("resource",)),
    "dra.ClaimPrepared": Rule(_always(32), _claim, ("claim",)),
    "dra.ClaimReleased": Rule(_weight_of_claim_back, _claim_back, ("claim",)),
    "imagepull.PullDecided": Rule(_weight_of_pull, _pull_decided, ("decision", "image")),
    "imagepull.PullEnded": Rule(_weight_of_pull, _pull_ended, ("outcome", "image")),
    "eviction.PodSpared": Rule(_always(WORTH_TELLING), _spared),
    "images.GarbageCollected": Rule(_always(0), _collection),
    "images.ImageDeleted": Rule(_always(0), _image),
    "lifecycle.ContainerDied": Rule(_weight_of_death, _died, ("exit_code",)),
    "lifecycle.ContainerKilled": Rule(_weight_of_kill, _killed, ("reason",)),
    "lifecycle.ContainerRestarted": Rule(_always(20), _restarted),
    "lifecycle.ContainerStarted": Rule(_weight_of_start, _simple("was started")),
    "lifecycle.PodAdmitted": Rule(_always(14), _simple("was admitted")),
    "lifecycle.PodConfigChanged": Rule(_weight_of_change, _configured, ("operation",)),
    "lifecycle.PodEvicted": Rule(_always(POD_END), _evicted),
    "lifecycle.PodRejected": Rule(_always(POD_END), _rejected, ("reason",)),
    "lifecycle.PodResized": Rule(_weight_of_resize, _resized, ("outcome", "reason")),
    "lifecycle.PodStarted": Rule(_always(22), _all_run),
    "lifecycle.PodTerminated": Rule(_always(10), _simple("had all its containers down")),
    "lifecycle.PodTerminating": Rule(_weight_of_stop, _stopped, ("reason",)),
    "lifecycle.ReasonReported": Rule(_weight_of_event, _event, ("reason",)),
    "lifecycle.RestartBackedOff": Rule(_always(BACK_OFF), _put_off),
    "memorymanager.MemoryAllocated": Rule(_always(13), _memory),
    "memorymanager.MemoryAllocationFailed": Rule(_always(REFUSED), _not_given),
    "node.ErrorsLogged": Rule(_weight_of_logged, _logged, ("severity", "shape")),
    "oom.ProcessKilled": Rule(_always(CONTAINER_END), _out_of_memory, ("reason",)),
    "preemption.PodPreempted": Rule(_always(POD_END), _preempted),
    "preemption.PreemptionFailed": Rule(_always(REFUSED), _no_victims),
    "prober.ProbeExecuted": Rule(_weight_of_tick, _ticks, ("probe_type",)),
    "prober.ProbeTicksFolded": Rule(_weight_of_tick, _ticks, ("probe_type",)),
    "prober.ProbeTransitioned": Rule(
        _weight_of_transition, _transition, ("probe_type", "to_result")
    ),
    "topologymanager.AffinityDecided": Rule(_always(0), _simple("had its NUMA affinity decided")),
}
"""Kind -> how much a record of it explains, its words, and the fields that make records alike."""
