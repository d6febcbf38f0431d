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
    """What happened, why, and to whom: a container, or empty for the pod."""

    what: str
    why: str = ""
    who: str = ""


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


class Alike(NamedTuple):
    """Records that are alike, and what others say of their pod.

    Attributes:
        body: of the last of them.
    """

    body: Any
    records: Sequence[Record]
    facts: Facts

    @property
    def why(self) -> str:
        """As verification gives it, or the kubelet itself."""
        return why_of(self.records, self.facts)

    @property
    def is_besides(self) -> bool:
        """Whether they are evictions or preemptions besides the one that ended the pod."""
        return is_besides(self.records[-1], self.facts)


def _evicted(of: Alike) -> Words:
    if of.is_besides:
        return Words("was chosen for eviction")
    why = _THRESHOLD.sub(r"\1", of.why, count=1)
    if not why and of.body.threshold_kind == "local_storage":
        why = "it used more local storage than its limit"
    elif not why:
        low = of.body.signal or of.body.resource
        unknown = "what the node was low on is not recorded"
        why = f"the node was low on {low}" if low else unknown
    return Words("was evicted", why)


def _preempted(of: Alike) -> Words:
    body = of.body
    who = f"{body.preemptor_namespace}/{body.preemptor_pod}"
    if of.is_besides:
        return Words(f"was chosen to make room for {who}")
    inferred = " (inferred)" if body.preemptor_inferred else ""
    what = f"was preempted for {who}{inferred}" if body.preemptor_pod else "was preempted"
    finding = of.facts.findings.get(of.records[-1].seq)
    about = {} if finding is None else finding.about
    for_it = [f"{name.rpartition('/')[2]} {lacked}" for name, lacked in about.items()]
    return Words(what, for_it[0] if for_it else of.why)


def _rejected(of: Alike) -> Words:
    why = _REFUSED_AS.sub("", of.facts.not_given or of.why)
    return Words(f"was refused ({of.body.reason})", why)


def _not_given(of: Alike) -> Words:
    manager = of.body.kind.partition(".")[0]
    what = {"cpumanager": "CPUs", "memorymanager": "memory"}.get(manager, "devices")
    return Words(f"was refused {getattr(of.body, 'resource', None) or what}", of.why)


def _killed(of: Alike) -> Words:
    body = of.body
    probe = str(body.reason).removesuffix("_probe")
    why = probe_message(body.container, probe, of.facts) if probe in PROBES else ""
    if not why and body.grace_period_s is not None:
        why = f"with a {body.grace_period_s} s grace period"
    return Words((OWN_KILLS | OTHER_KILLS).get(body.reason, "was killed"), why)


def _out_of_memory(of: Alike) -> Words:
    body = of.body
    limits = {"container_limit": "its memory limit", "pod_limit": "the pod's memory limit"}
    limit = limits.get(body.reason, "")
    amount = f" of {size(body.limit_bytes)}" if body.limit_bytes else ""
    why = f"{limit}{amount} was reached" if limit else ""
    if is_of_pods(body.cgroup):
        why = f"all pods together had reached their limit{amount} (node allocatable)"
    elif body.reason == "node":
        why = "the node was out of memory"
    kills: list[Any] = [record.body for record in of.records]
    named = [kill.process for kill in kills if kill.process]
    process = f"process {', '.join(dict.fromkeys(named))}" if named else ""
    if 0 < len(named) < len(kills):
        process += f" in {len(named)} of {len(kills)}"
    return Words("was OOM-killed", f"{why} ({process})" if why and process else why or process)


def _died(of: Alike) -> Words:
    code, run = of.body.exit_code, of.facts.runs.get(of.body.container_id)
    if run is not None and run.failed:
        first = " at first" if of.facts.ran_after(run) else ""
        return Words(f"could not be started{first}", f"exit code {code}")
    return Words(how_it_ended(code), UNKNOWN_KILLER if killer_unknown(code) else "")


def start_measured(record: Record, facts: Facts) -> tuple[int, str]:
    """Since when all containers of a pod run, and how long that took, in brackets."""
    body: Any = record.body
    since_ns = body.running_ts_ns or record.ts_ns
    if facts.is_static or body.created_ts_ns is None or since_ns < body.created_ts_ns:
        return since_ns, ""
    took = f"{span_text(since_ns - body.created_ts_ns)} after it was created"
    pulled = f", {span_text(body.pulling_ns)} of it for images" if body.pulling_ns else ""
    return since_ns, f" ({took}{pulled})"


def _all_run(of: Alike) -> Words:
    return Words(f"had all its containers running{start_measured(of.records[-1], of.facts)[1]}")


def _put_off(of: Alike) -> Words:
    bodies: list[Any] = [record.body for record in of.records]
    least, most = min(b.back_off_s for b in bodies), max(b.back_off_s for b in bodies)
    span = f"{most} s" if least == most else f"{least} s to {most} s"
    return Words(f"was not restarted yet (back-off {span})")


def _transition(of: Alike) -> Words:
    probe_type = of.body.probe_type
    if of.body.to_result == "success":
        ready = probe_type == "readiness"
        return Words("became ready" if ready else f"passed its {probe_type} probe")
    what = f"reached the failure threshold of its {probe_type} probe"
    if probe_type == "readiness":
        what = "went unready"
    return Words(what, probe_message(of.body.container, probe_type, of.facts))


def _ticks(of: Alike) -> Words:
    container, probe_type = of.body.container, of.body.probe_type
    what = f"failed its {probe_type} probe"
    if probe_type == "readiness" and of.facts.was_never_ready(container):
        what = "was never ready, its readiness probe failed"
    return Words(what, probe_message(container, probe_type, of.facts))


def _logged(of: Alike) -> Words:
    body, evidence = of.body, of.records[-1].evidence
    is_single = body.count == len(of.records) == len(evidence)
    said = own_words(evidence[0].text or "") if is_single else ""
    what = "a warning" if body.severity == "W" else "an error"
    return Words(f"is named in {what}", said or body.shape)


def _resized(of: Alike) -> Words:
    body = of.body
    if body.reason == "Error":
        return Words("cannot be given what its resize in place was allocated", body.message)
    reason = f" ({body.reason})" if body.reason else ""
    is_refused = body.outcome in _REFUSED_RESIZES
    why = of.why if is_refused else _asked_for(body.resources)
    return Words(f"{_RESIZES[body.outcome]}{reason}", why)


def _asked_for(resources: Mapping[str, Any] | None) -> str:
    """Amounts by container: ``app requests cpu 1, memory 1Gi``."""
    amounts = {
        name: ", ".join(f"{key} {amount}" for key, amount in (each.get("requests") or {}).items())
        for name, each in (resources or {}).items()
    }
    return "; ".join(f"{name} requests {each}" for name, each in amounts.items() if each)


def _stopped(of: Alike) -> Words:
    grace_s = of.body.grace_period_s
    grace = "" if grace_s is None else f", with a {grace_s} s grace period"
    return Words("was stopped", f"{_STOPS[of.body.reason]}{grace}")


def _configured(of: Alike) -> Words:
    source = f" ({of.body.source})" if of.body.source else ""
    what = {"ADD": "was added", "DELETE": "was deleted", "REMOVE": "was removed"}
    return Words(what[of.body.operation] + source)


def _memory(of: Alike) -> Words:
    blocks = of.body.blocks or ()
    given = " and ".join(f"{size(block.size_bytes)} of {block.type}" for block in blocks)
    nodes = sorted({node for block in blocks for node in block.numa_nodes})
    where = f"NUMA node{'s' if len(nodes) != 1 else ''} {', '.join(map(str, nodes))}".rstrip()
    return Words(f"got {given or 'memory'} of {where}")


def _claim(of: Alike) -> Words:
    drivers = ", ".join(sorted(of.body.drivers))
    return Words(f"had its claim {of.body.claim} prepared", f"by {drivers}" if drivers else "")


def _claim_back(of: Alike) -> Words:
    claim, is_last = of.body.claim, of.body.unprepared
    if is_last and of.facts.lives_after(of.records[-1].ts_ns):
        return Words(f"had its claim {claim} unprepared while it ran", _OTHERS_END)
    return Words(f"gave back its claim {claim}", "" if is_last else "other pods hold it")


def _image(of: Alike) -> Words:
    amount = f" ({size(of.body.size_bytes)})" if of.body.size_bytes else ""
    return Words(f"was deleted{amount}", _PASSES.get(of.body.pass_, ""))


_PULLS = {
    "back_off": "did not have its image pulled again yet",
    "failed": "could not have its image pulled",
    "never": "may not have its image pulled",
    "present": "may use its image, which was there",
    "pull": "has its image pulled, of which no end is recorded",
    "pulled": "had its image pulled",
    "refused": "had the pull of its image refused",
}


def _pull_ended(of: Alike) -> Words:
    body = of.body
    why = body.error
    if body.whole_ms is not None:
        waited_ms = 0 if body.pull_ms is None else body.whole_ms - body.pull_ms
        waited = f", {waited_ms / 1000:.1f} s of which it waited for others" if waited_ms else ""
        why = f"{body.image} in {body.whole_ms / 1000:.1f} s{waited}"
    return Words(_PULLS[body.outcome], why)


def _weight_of_death(body: Any, _: Record, facts: Facts) -> int:  # noqa: ANN401 # of its kind
    if body.sandbox or body.container is None or facts.is_killed(body.container_id):
        return 0
    if body.exit_code or (body.exit_code == 0 and body.container in facts.backed_off):
        return TROUBLE
    return 38


def _weight_of_start(body: Any, _: Record, facts: Facts) -> int:  # noqa: ANN401 # of its kind
    is_again = facts.is_restart(body.container_id)
    return 0 if body.sandbox or body.container is None or is_again else 22


def _weight_of_transition(body: Any, *_: object) -> int:  # noqa: ANN401 # of its kind
    if body.to_result == "failure":
        return TROUBLE if body.probe_type == "readiness" else 16
    return 28


def _weight_of_tick(body: Any, record: Record, facts: Facts) -> int:  # noqa: ANN401 # of its kind
    if body.result in {"success", "warning"}:
        return 0
    is_ending = facts.stopped_ts_ns is not None and record.ts_ns >= facts.stopped_ts_ns
    if is_ending or (body.probe_type == "startup" and body.container in facts.passed_startup):
        return 15
    never = body.probe_type == "readiness" and facts.was_never_ready(body.container)
    return TROUBLE if never else WORTH_TELLING


def _weight_of_event(body: Any, _: Record, facts: Facts) -> int:  # noqa: ANN401 # of its kind
    is_known = body.reason in TOLD_BY_DECISIONS or body.reason in facts.reasons
    is_known |= facts.resized is not None and body.reason.startswith("Resize")
    is_known |= failure_of_event(body.reason, body.message) is not None
    is_known |= harmless(EVENT, f"{body.reason}: {body.message}") is not None
    return 0 if body.type != "Warning" or is_known else WORTH_TELLING + 5


def _weight_of_logged(body: Any, *_: object) -> int:  # noqa: ANN401 # of its kind
    if body.recorded or harmless(body.source, body.shape) is not None:
        return 0
    return 13 if body.severity == "W" else 35


def _weight_of_resize(body: Any, record: Record, facts: Facts) -> int:  # noqa: ANN401 # of its kind
    is_refused = body.outcome in _REFUSED_RESIZES or body.reason == "Error"
    return WORTH_TELLING + 10 if is_refused and record is facts.resized else 30


def _weight_of_pull(body: Any, record: Record, facts: Facts) -> int:  # noqa: ANN401 # of its kind
    """What fails is told as a stage, too; a pull tells its end; that an image is there is well."""
    if record.kind == "imagepull.PullEnded":
        is_held = body.container in facts.held_by_images
        return 19 if body.outcome == "pulled" else 0 if is_held else 17
    is_under_way = body.decision == "pull" and record.seq not in facts.ended_pulls
    return 40 if is_under_way else 18 if body.decision == "back_off" else 0


class Rule(NamedTuple):
    """How records of a kind are described.

    Attributes:
        weight: how much one explains, or what says so of its body; 0 is left out.
        words: of several that are alike: what happened, or what says so.
        same: fields that make two of them alike, besides kind and container.
    """

    weight: int | Callable[[Any, Record, Facts], int]
    words: str | Callable[[Alike], Words]
    same: tuple[str, ...] = ()

    def weigh(self, record: Record, facts: Facts) -> int:
        """How much a record explains."""
        weight = self.weight
        return weight if isinstance(weight, int) else weight(record.body, record, facts)

    def tell(self, records: Sequence[Record], facts: Facts) -> Words:
        """What happened to whom, by records that are alike."""
        of = Alike(records[-1].body, records, facts)
        words = Words(self.words) if isinstance(self.words, str) else self.words(of)
        return words._replace(who=getattr(of.body, "container", None) or "")


RULES: Mapping[str, Rule] = {
    "cgroups.CgroupUpdated": Rule(0, lambda of: Words("" if of.body.created else "had changed")),
    "cpumanager.CpuAllocationFailed": Rule(REFUSED, _not_given),
    "cpumanager.CpusAllocated": Rule(
        31, lambda of: Words(f"got CPUs {of.body.cpu_set} of its own")
    ),
    "devicemanager.AllocationFailed": Rule(REFUSED, _not_given, ("resource",)),
    "devicemanager.DevicesAllocated": Rule(
        32,
        lambda of: Words(f"got {', '.join(of.body.device_ids)} of {of.body.resource}"),
        ("resource",),
    ),
    "dra.ClaimPrepared": Rule(32, _claim, ("claim",)),
    "dra.ClaimReleased": Rule(
        lambda body, record, facts: (
            TROUBLE if body.unprepared and facts.lives_after(record.ts_ns) else 9
        ),
        _claim_back,
        ("claim",),
    ),
    "imagepull.PullDecided": Rule(
        _weight_of_pull, lambda of: Words(_PULLS[of.body.decision], of.why), ("decision", "image")
    ),
    "imagepull.PullEnded": Rule(_weight_of_pull, _pull_ended, ("outcome", "image")),
    "eviction.PodSpared": Rule(
        WORTH_TELLING, lambda _: Words("was to be evicted, and was spared", "it is critical")
    ),
    "images.GarbageCollected": Rule(
        0, lambda of: Words(f"an image collection ended ({of.body.outcome})")
    ),
    "images.ImageDeleted": Rule(0, _image),
    "lifecycle.ContainerDied": Rule(_weight_of_death, _died, ("exit_code",)),
    "lifecycle.ContainerKilled": Rule(
        lambda body, *_: CONTAINER_END if body.reason in OWN_KILLS else 40, _killed, ("reason",)
    ),
    "lifecycle.ContainerRestarted": Rule(20, "was started again"),
    "lifecycle.ContainerStarted": Rule(_weight_of_start, "was started"),
    "lifecycle.PodAdmitted": Rule(14, "was admitted"),
    "lifecycle.PodConfigChanged": Rule(
        lambda body, *_: {"ADD": 12, "DELETE": DELETED, "REMOVE": 8}.get(body.operation, 0),
        _configured,
        ("operation",),
    ),
    "lifecycle.PodEvicted": Rule(POD_END, _evicted),
    "lifecycle.PodRejected": Rule(POD_END, _rejected, ("reason",)),
    "lifecycle.PodResized": Rule(_weight_of_resize, _resized, ("outcome", "reason")),
    "lifecycle.PodStarted": Rule(22, _all_run),
    "lifecycle.PodTerminated": Rule(10, "was terminated, all its containers stopped"),
    "lifecycle.PodTerminating": Rule(
        lambda body, *_: 10 if body.reason == "killed" else STOPPED, _stopped, ("reason",)
    ),
    "lifecycle.ReasonReported": Rule(
        _weight_of_event,
        lambda of: Words(f"had a warning ({of.body.reason})", of.body.message),
        ("reason",),
    ),
    "lifecycle.RestartBackedOff": Rule(BACK_OFF, _put_off),
    "memorymanager.MemoryAllocated": Rule(13, _memory),
    "memorymanager.MemoryAllocationFailed": Rule(REFUSED, _not_given),
    "node.ErrorsLogged": Rule(_weight_of_logged, _logged, ("severity", "shape")),
    "oom.ProcessKilled": Rule(CONTAINER_END, _out_of_memory, ("reason",)),
    "preemption.PodPreempted": Rule(POD_END, _preempted),
    "preemption.PreemptionFailed": Rule(
        REFUSED, lambda of: Words("found no pods to preempt", of.why)
    ),
    "prober.ProbeExecuted": Rule(_weight_of_tick, _ticks, ("probe_type",)),
    "prober.ProbeTicksFolded": Rule(_weight_of_tick, _ticks, ("probe_type",)),
    "prober.ProbeTransitioned": Rule(
        _weight_of_transition, _transition, ("probe_type", "to_result")
    ),
    "topologymanager.AffinityDecided": Rule(0, "had its NUMA affinity decided"),
}
"""Kind -> how much a record of it explains, its words, and the fields that make records alike."""
