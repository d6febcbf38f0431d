"""What the words of one step about a pod need from its other records."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.summaries import cut, summary_of
from kubeledger.analyze.why.concern import containers_in, is_about_pod, is_image
from kubeledger.analyze.why.explanation import Target
from kubeledger.kubelet.kube.pod import PROBE
from kubeledger.kubelet.kube.statuses import claims_of
from kubeledger.kubelet.lifecycle.state import UNKNOWN_KILLER, how_it_ended, killer_unknown
from kubeledger.model.bodies.eviction import ReclaimAttempted
from kubeledger.model.bodies.images import ImageDeleted, ImagesDetected, ListedImage
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodEvicted, PodListed
from kubeledger.model.record import Evidence, Record
from kubeledger.model.units import format_ts
from kubeledger.replay.episodes.container_runs import ContainerRun, container_runs
from kubeledger.verify import Finding

_TELLING = {
    "lifecycle.PodEvicted": ("Evicting pod", "evicted successfully", "failed to evict"),
    "oom.ProcessKilled": ("Killed process",),
}
"""Kind -> words of the line that says what happened, the best first."""


def line_about(target: Target, record: Record) -> Evidence | None:
    """The line of a record that names the target, of its use before others; else the best one.

    An eviction is shown by what was done to the pod, not by the list of all that might have gone;
    a kill of the kernel by the line that names the process.
    """
    if isinstance(record.body, ImagesDetected) and target.kind == "image":
        image = _listed(target, record.body)
        named = image.image_id if image is not None else None
        lines = [piece for piece in record.evidence if named and named in (piece.text or "")]
        used = [piece for piece in lines if "lastused" in (piece.text or "").lower()]
        for piece in (*used, *lines[-1:]):
            return piece
    for words in _TELLING.get(record.kind, ()):
        for piece in record.evidence:
            if words in (piece.text or ""):
                return piece
    return record.evidence[0] if record.evidence else None


def passes_about(target: Target, records: Iterable[Record], main: Record) -> list[Record]:
    """Detect passes up to a decision that found an image: when it was new, and the last one.

    Args:
        target: any; what is not an image has no pass.
    """
    found: dict[str, Record] = {}
    for record in records:
        if target.kind != "image" or record.seq > main.seq:
            break
        image = _listed(target, record.body) if isinstance(record.body, ImagesDetected) else None
        if image is not None:
            found |= {"new": record, "last": record} if image.new else {"last": record}
    return list({record.seq: record for record in found.values()}.values())


def words_about(target: Target, record: Record) -> str | None:
    """What a detect pass found out about an image, whom a node ranked; else None."""
    if isinstance(body := record.body, ReclaimAttempted) and target.kind == "node" and body.ranked:
        ranked = ", ".join(f"{each.namespace}/{each.pod}" for each in body.ranked)
        return f"{summary_of(record.kind, msgspec.to_builtins(body))}; in rank: {ranked}"
    if not isinstance(record.body, ImagesDetected) or target.kind != "image":
        return None
    image = _listed(target, record.body)
    total = len(record.body.images)
    if image is None:
        return f"not among the {total} images listed"
    use = "in use" if image.in_use else "not in use"
    new = ", not there before" if image.new else ""
    last = image.last_used_ts_ns
    used = f", last used at {format_ts(last)}" if last and not image.in_use else ""
    return f"one of {total} images listed: {use}{used}{new}"


def _listed(target: Target, body: ImagesDetected) -> ListedImage | None:
    return next((image for image in body.images if is_image(target, image.image_id)), None)


_OUTPUT_MAX = 80
PROBES = frozenset({"liveness", "readiness", "startup"})
OWN_KILLS = {
    "deadline_exceeded": "was killed at its deadline",
    "liveness_probe": "was killed by its liveness probe",
    "post_start_hook": "was killed because its post-start hook failed",
    "resized": "was killed because its resize asks for a restart",
    "spec_changed": "was killed because its definition changed",
    "startup_probe": "was killed by its startup probe",
}
OTHER_KILLS = {
    "evicted": "was killed as its pod was evicted",
    "node_shutdown": "was killed as the node shut down",
    "orphaned": "was killed as no source knows its pod",
    "pod_deleted": "was killed as its pod was deleted",
    "pod_ended": "was killed as its pod had ended",
    "preempted": "was killed as its pod was preempted",
    "sandbox_changed": "was killed as the pod's sandbox changed",
}


class Facts(msgspec.Struct):
    """What the words of one step need from other records.

    Attributes:
        main: the decision that explains the target; None where nothing was decided about it.
        runs: container ID -> instance.
        started: of the pod as a whole, as the kubelet measured it.
        is_static: from a file or a server of its own: measured from when the API had its mirror.
        resized: the last that is known of a resize in place.
        claims: names of the pod's resource claims.
        held_by_images: containers of which a stage tells that their image was not pulled.
        ended_pulls: numbers of the records of pulls whose end is recorded, too.
    """

    main: Record | None
    findings: Mapping[int, Finding]
    probes: dict[tuple[str, str], dict[str, Any]] = {}
    outputs: dict[tuple[str, str], str] = {}
    became_ready: set[str] = set()
    runs: dict[str, ContainerRun] = {}
    started: Record | None = None
    is_static: bool = False
    passed_startup: set[str] = set()
    not_given: str = ""
    stopped_ts_ns: int | None = None
    backed_off: set[str] = set()
    reasons: set[str] = set()
    resized: Record | None = None
    claims: list[str] = []
    held_by_images: set[str | None] = set()
    ended_pulls: set[int | None] = set()

    def is_killed(self, container_id: str | None) -> bool:
        """Whether the kubelet killed the instance, or the kernel a process in it."""
        run = self.runs.get(container_id or "")
        return run is not None and bool(run.kills)

    def is_restart(self, container_id: str | None) -> bool:
        """Whether the instance was started again."""
        run = self.runs.get(container_id or "")
        return run is not None and run.is_restart

    def begun_ns(self, starts: Iterable[Record]) -> list[int]:
        """When the instances began: each kubelet that starts tells of them once more."""
        seen: dict[str, int] = {}
        for record in starts:
            body: Any = record.body
            seen.setdefault(body.container_id, record.ts_ns)
        runs = ((self.runs.get(each), ts_ns) for each, ts_ns in seen.items())
        return [ts_ns if run is None else run.shown_ts_ns for run, ts_ns in runs]

    def first_started_ns(self, container: str) -> int | None:
        """When the container, or without a name any, began to run."""
        begun = (run for run in self.runs.values() if container in ("", run.container))
        return min((run.since_ts_ns for run in begun if run.began), default=None)

    def ran_after(self, failed: ContainerRun) -> bool:
        """Whether the container ran in a later instance than one that could not be started."""
        return any(
            run.began and not run.failed and run.since_ts_ns > failed.ts_ns
            for run in self.runs.values()
            if run.container == failed.container
        )

    def lives_after(self, ts_ns: int) -> bool:
        """Whether the pod runs on after some time, as far as is known."""
        if self.stopped_ts_ns is not None:
            return self.stopped_ts_ns > ts_ns
        return self.runs_now("")

    def runs_now(self, container: str) -> bool:
        """Whether the newest instance of the container, or without a name of any, runs."""
        newest = {run.container: run for run in self.runs.values()}
        return any(
            run.began and run.ended_ts_ns is None
            for name, run in newest.items()
            if container in ("", name)
        )

    def was_never_ready(self, container: str) -> bool:
        """Whether its start is recorded, and no success of its readiness probe since."""
        began = any(run.began and run.container == container for run in self.runs.values())
        return began and container not in self.became_ready


def facts_of(records: Sequence[Record], facts: Facts) -> Facts:
    """Fill the facts in from all records about a pod or container."""
    facts.runs = {run.container_id: run for run in container_runs(records)}
    for record in records:
        body: Any = record.body
        match record.kind:
            case "lifecycle.PodListed":
                _note_probes(facts, body.spec)
                facts.claims = claims_of(body.spec or {}, body.status or {}) or facts.claims
            case kind if kind.endswith("AllocationFailed"):
                facts.not_given = why_of([record], facts)
            case "lifecycle.PodStageFailed" if body.stage == "image":
                facts.held_by_images.add(body.container)
            case "imagepull.PullEnded":
                facts.ended_pulls.add(record.cause)
            case "lifecycle.RestartBackedOff":
                facts.backed_off.add(body.container)
            case "lifecycle.ContainerKilled" | "oom.ProcessKilled":
                if body.reason in OTHER_KILLS and facts.stopped_ts_ns is None:
                    facts.stopped_ts_ns = record.ts_ns
            case "lifecycle.PodTerminating":
                facts.stopped_ts_ns = min(facts.stopped_ts_ns or record.ts_ns, record.ts_ns)
            case "prober.ProbeTransitioned":
                if body.probe_type == "startup" and body.to_result == "success":
                    facts.passed_startup.add(body.container)
            case "lifecycle.PodResized":
                facts.resized = record
            case "lifecycle.PodConfigChanged":
                facts.is_static |= body.source in {"file", "http"}
            case "lifecycle.PodStarted":
                facts.started = record
            case "lifecycle.PodRejected":
                facts.reasons.add(body.reason)
            case "prober.ProbeExecuted" | "prober.ProbeTicksFolded":
                if body.result == "success":
                    if body.probe_type == "readiness":
                        facts.became_ready.add(body.container)
                elif body.output:
                    facts.outputs[body.container, body.probe_type] = body.output
    return facts


def _note_probes(facts: Facts, spec: object) -> None:
    for container in containers_in(spec):
        for probe_type in PROBES:
            probe = container.get(f"{probe_type}Probe")
            if isinstance(probe, dict):
                facts.probes[str(container.get("name")), probe_type] = probe


_POD_ENDS = frozenset({"lifecycle.PodEvicted", "preemption.PodPreempted"})


def is_besides(record: Record, facts: Facts) -> bool:
    """Whether it is an eviction or preemption besides the one that ended the pod."""
    main = facts.main
    ended = main is not None and main.kind in _POD_ENDS
    return record.kind in _POD_ENDS and ended and record is not main


def why_of(records: Sequence[Record], facts: Facts) -> str:
    """The reason that verification gives, or what the kubelet said itself."""
    record = records[-1]
    finding = facts.findings.get(record.seq)
    if (
        finding is not None
        and finding.why
        and (finding.is_sound or finding.verdict == "impossible")
    ):
        return finding.why.rstrip(".")
    body = record.body
    return getattr(body, "message", None) or getattr(body, "error", None) or ""


def probe_message(container: str, probe_type: str, facts: Facts) -> str:
    """What a failing probe said last, and by which numbers it counts."""
    output = cut(facts.outputs.get((container, probe_type), "").strip(), _OUTPUT_MAX)
    probe = facts.probes.get((container, probe_type))
    if probe is None:
        return output
    period, threshold = ({**PROBE, **probe}[key] for key in ("periodSeconds", "failureThreshold"))
    numbers = f"threshold {threshold}, every {period} s"
    return f"{output} ({numbers})" if output else numbers


# Which of several evictions of one pod ended it, and what came of the others.
#
# The manager's loop and the notifiers of memory thresholds each choose a pod and wait for its
# end; one that is ending may be chosen again.

_GAVE_UP = "the eviction manager gave up waiting for its end"
_FAILED = re.compile(r'failed to evict(?:".*?\berr"?[=:]"(?P<quoted>[^"]*)"| (?P<plain>.+))')


def ending_attempt(main: Record, decisions: Sequence[Record], about: Sequence[Record]) -> Record:
    """The eviction that ended the pod, where it was evicted more than once.

    The pod's status bears the message of the one that ended it; without a status it is the
    first one, for a pod that is being killed is not spared any more.
    """
    attempts = _attempts(main, decisions)
    message = None
    for record in about:
        status = record.body.status if isinstance(record.body, PodListed) else None
        if status and status.get("reason") == "Evicted":
            message = status.get("message")
    fitting = [each for each in attempts if getattr(each.body, "message", None) == message]
    return [*fitting, *attempts, main][0]


def attempts_note(main: Record, decisions: Sequence[Record]) -> str:
    """A clause on the attempts that failed or came besides; empty where there is none."""
    attempts = _attempts(main, decisions)
    failure = _given_up(main)
    parts = [failure] if failure else []
    for other in attempts:
        if other is not main:
            turn = "before, it was chosen" if other.seq < main.seq else "it was chosen again"
            failure = _given_up(other)
            parts.append(
                f"{turn} at {format_ts(other.ts_ns)}{', and ' if failure else ''}{failure}"
            )
    return "; ".join(parts)


def _attempts(main: Record, decisions: Sequence[Record]) -> list[Record]:
    if not isinstance(main.body, PodEvicted):
        return []
    return [
        each
        for each in decisions
        if isinstance(each.body, PodEvicted) and each.body.pod_uid == main.body.pod_uid
    ]


def _given_up(attempt: Record) -> str:
    body = attempt.body
    if not isinstance(body, PodEvicted) or body.evicted is not False:
        return ""
    for piece in attempt.evidence:
        if match := _FAILED.search(piece.text or ""):
            return f"{_GAVE_UP}: {match['quoted'] or match['plain']}"
    return _GAVE_UP


def last_end(runs: Sequence[ContainerRun], target: Target) -> ContainerRun | None:
    """The last instance of a container, of which the end is recorded; None for one that runs."""
    last = runs[-1] if runs and target.kind == "container" else None
    return last if last is not None and last.ended_seq is not None else None


def ended_by_itself(end: ContainerRun | None, main: Record) -> str:
    """A clause that says so; empty where something killed it, or the decision says more."""
    if end is None or end.kills or end.ended_by is not None or is_about_pod(main):
        return ""
    if end.ended_seq is None or end.ended_ts_ns is None or end.ended_seq < main.seq:
        return ""
    who = f"container {end.namespace}/{end.pod}/{end.container}"
    killer = f", and {UNKNOWN_KILLER}" if killer_unknown(end.exit_code) else ""
    return f"{who} {how_it_ended(end.exit_code)} at {format_ts(end.ended_ts_ns)}{killer}"


_PODS_MAX = 5


class Failures(msgspec.Struct, frozen=True):
    """What the removal of the sandbox image led to.

    Attributes:
        clause: as an end of a sentence; empty where there is nothing to say.
        seqs: of the removal, and of the first failures.
    """

    clause: str = ""
    seqs: tuple[int, ...] = ()


def failures_about(
    history: History,
    target: Target,
    about: Iterable[Record],
    seqs: Collection[int],
    upto_ts_ns: int | None,
) -> Failures:
    """Failures that go back to a removal of the target, or that are the target pod's.

    Args:
        target: an image or a pod; others get nothing.
        about: the records about a pod.
        upto_ts_ns: as of this time; None: as of the last record.
    """
    found: dict[int, list[Record]] = {}
    for record in about if target.kind == "pod" else history.read({KubernetesEvent.kind}):
        body = record.body
        if record.cause is None or not isinstance(body, KubernetesEvent):
            continue
        if upto_ts_ns is not None and record.ts_ns > upto_ts_ns:
            continue
        of_pod = target.kind == "pod" and (body.namespace, body.pod) == target.parts
        if of_pod or (target.kind == "image" and record.cause in seqs):
            found.setdefault(record.cause, []).append(record)
    for seq, failures in reversed(found.items()):
        removal = history.record(seq)
        if removal is not None and isinstance(removal.body, ImageDeleted):
            return _failures_of(target, removal, removal.body, failures)
    return Failures()


def _failures_of(
    target: Target, removal: Record, body: ImageDeleted, failures: list[Record]
) -> Failures:
    times = f"{len(failures)} times" if len(failures) > 1 else "once"
    since = f"from {format_ts(failures[0].ts_ns)} on ({times})"
    if target.kind == "pod":
        clause = (
            f"its sandbox could not be made {since}, for the image of all sandboxes, "
            f"{body.image_id}, had been deleted at {format_ts(removal.ts_ns)}"
        )
    else:
        pods = list(dict.fromkeys(_pod(failure) for failure in failures))
        named = ", ".join(pods[:_PODS_MAX]) + (", ..." if len(pods) > _PODS_MAX else "")
        clause = (
            f"it is the image of all sandboxes: after its deletion at "
            f"{format_ts(removal.ts_ns)} none could be made {since}, which held up {named}"
        )
    return Failures(clause, (removal.seq, *(failure.seq for failure in failures[:_PODS_MAX])))


def _pod(failure: Record) -> str:
    body = failure.body
    assert isinstance(body, KubernetesEvent)
    return f"{body.namespace}/{body.pod}"
