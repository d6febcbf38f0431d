"""What the words of one step about a pod need from its other records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.sql.shorten import cut
from kubeledger.analyze.why.concern import containers_in
from kubeledger.kubelet.kube.defaults import PROBE
from kubeledger.kubelet.kube.statuses import claims_of
from kubeledger.model.record import Record
from kubeledger.replay.episodes.container_runs import ContainerRun, container_runs
from kubeledger.verify import Finding

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

    def first_started_ns(self, container: str) -> int | None:
        """When the container, or without a name any, began to run."""
        begun = (run for run in self.runs.values() if container in ("", run.container))
        return min((run.since_ts_ns for run in begun if run.began), default=None)

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
