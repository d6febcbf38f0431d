"""Pods and their containers: a row each, probe ticks below it, problems first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from kubeledger.analyze.wording import shortened, times_text
from kubeledger.timeline.container_tracks import add_ticks, container_tracks
from kubeledger.timeline.drawing import Arrow, NodeView, Row, Section, ViewRow

_KILLS = {
    "liveness_probe": "killed",
    "startup_probe": "killed",
    "post_start_hook": "killed",
    "preempted": "killed",
    "evicted": "killed",
}
"""Reasons of a kill that are a problem; other kills are what somebody asked for."""
_UID_SHOWN = 8


class _Container(msgspec.Struct):
    """One container of a pod, by name."""

    lane: Row
    ticks: Row
    first_start_ns: int | None = None


class _Pod(msgspec.Struct):
    """A pod, by UID: its own marks, and its containers by name.

    Attributes:
        ended_ns: when it began to end, or was gone.
        gone_ns: when lists of pods held it no longer.
        admitted_ns, admitted_seq: first admission.
        preempts: who had to go for it.
        order: container -> its place in the spec, and whether it is an init container.
    """

    label: str
    uid: str | None
    own: Row
    ended_ns: int | None = None
    gone_ns: int | None = None
    admitted_ns: int | None = None
    admitted_seq: int = 0
    preempts: list[str] = msgspec.field(default_factory=list)
    containers: dict[str, _Container] = msgspec.field(default_factory=dict)
    order: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)

    def container(self, name: str) -> _Container:
        if name not in self.containers:
            label = f"{self.label}/{name}"
            self.containers[name] = _Container(Row(label=label), Row(label=label, shape="ticks"))
        return self.containers[name]

    def weight(self, severities: Mapping[int, int]) -> tuple[int, int]:
        """How bad it is: the worst thing that happened or that it did, and how many such things."""
        items = [item for row in self.lanes() for item in row.items]
        found = [severities[item.seq] for item in items if item.seq in severities]
        return max([*found, int(bool(self.preempts))]), len(found)

    def has_items(self) -> bool:
        """Whether there is anything to draw."""
        return any(row.items for row in self.lanes())

    def begins_ns(self) -> int:
        """When it is first seen; 0 where nothing of it is drawn."""
        return min((item.start_ns for row in self.lanes() for item in row.items), default=0)

    def lanes(self) -> list[Row]:
        """The rows on which something can go wrong."""
        return [self.own, *(container.lane for container in self.containers.values())]

    def note(self, named: Mapping[str, int]) -> str:
        """What distinguishes it from other pods of its name, of which ``named`` counts how many."""
        return f"uid {self.uid[:_UID_SHOWN]}" if self.uid and named[self.label] > 1 else ""

    def add_admission(self) -> None:
        """From the admission until it runs, as an outline; of several containers until its end."""
        if self.admitted_ns is None:
            return
        known = (part.first_start_ns for part in self.containers.values())
        starts = [ns for ns in known if ns is not None]
        if len(self.containers) > 1:
            self.own.bar("pod", self.admitted_ns, self.ended_ns, "", self.admitted_seq)
            return
        end_ns = min((ns for ns in starts if ns >= self.admitted_ns), default=None)
        if end_ns is not None or not starts:
            self.own.bar(
                "admitted", self.admitted_ns, end_ns or self.ended_ns, "", self.admitted_seq
            )

    def rows(self, note: str, *, apart: bool) -> list[Row]:
        """One row for a pod of one container unless they are apart, else one for each.

        Args:
            note: what distinguishes it from other pods of its name.
            apart: a pod and its only container have a row each.
        """
        names = sorted(self.containers, key=lambda name: self.order.get(name, (99, "")))
        self.own.note = note
        if len(names) == 1 and not apart:
            only = self.containers[names[0]]
            only.lane.items += self.own.items
            only.lane.note = note
            return [only.lane, *_with_ticks(only)]
        rows = [self.own]
        for name in names:
            container = self.containers[name]
            container.lane.depth = 1
            container.lane.label = container.ticks.label = name
            container.lane.note = self.order.get(name, (0, ""))[1]
            rows += [container.lane, *_with_ticks(container)]
        return rows


def _with_ticks(container: _Container) -> list[Row]:
    return [container.ticks] if container.ticks.items else []


class _Pods:
    """All pods of a node, by UID, or by name where no source has the UID."""

    def __init__(self) -> None:
        self.by_key: dict[str, _Pod] = {}

    def of(self, row: ViewRow) -> _Pod:
        """The pod that a row is about."""
        name = "/".join(part for part in (row["namespace"], row["pod"]) if part)
        key = row["pod_uid"] or name
        if key not in self.by_key:
            self.by_key[key] = _Pod(name or key, row["pod_uid"], Row(label=name or key))
        pod = self.by_key[key]
        if name and pod.label == key != name:
            pod.label = pod.own.label = name
        return pod

    def container(self, row: ViewRow) -> _Container:
        """The container that a row is about."""
        return self.of(row).container(row["container"])

    def lane(self, row: ViewRow) -> Row:
        """The container's row, or the pod's where no container is named."""
        return self.container(row).lane if row["container"] else self.of(row).own


def pod_sections(
    view: NodeView, severities: Mapping[int, int], begin_ns: int, *, apart: bool = False
) -> tuple[list[Section], list[Arrow]]:
    """Pods with problems, worst first, and the others, folded.

    Args:
        severities: record that shows a problem -> its severity.
        begin_ns: when the node's records begin.
        apart: a pod and its only container have a row each.

    Returns:
        The sections; and arrows from preemptors and the eviction manager to their victims.
    """
    pods = _Pods()
    _pod_ends(view, pods)
    _orders(view, pods)
    _admissions(view, pods)
    for row, bars in container_tracks(view, begin_ns):
        container = pods.container(row)
        container.first_start_ns = bars.first_start_ns
        container.lane.items += bars.items(pods.of(row).ended_ns)
    arrows = [*_ends(view, pods), *_preemptions(view, pods)]
    for row, item in add_ticks(view):
        pods.container(row).ticks.items.append(item)
    _transitions(view, pods)
    _sandboxes(view, pods)
    _stages(view, pods, severities)
    _resizes(view, pods)
    for pod in pods.by_key.values():
        pod.add_admission()
    weighed = [(pod.weight(severities), pod) for pod in pods.by_key.values()]
    bad = [(weight, pod) for weight, pod in weighed if weight[0]]
    bad.sort(key=lambda each: (-each[0][0], -each[0][1], each[1].begins_ns(), each[1].label))
    others = [pod for weight, pod in weighed if not weight[0] and pod.has_items()]
    others.sort(key=lambda pod: (pod.begins_ns(), pod.label))
    named = Counter(pod.label for pod in pods.by_key.values() if pod.has_items())

    def rows(chosen: Iterable[_Pod]) -> list[Row]:
        return [row for pod in chosen for row in pod.rows(pod.note(named), apart=apart)]

    return [
        Section(
            id="problems",
            title=f"Pods with problems ({len(bad)})",
            rows=rows(_beside_victims([pod for _, pod in bad])),
        ),
        Section(id="pods", title=f"Other pods ({len(others)})", rows=rows(others), folded=True),
    ], arrows


def _beside_victims(pods: list[_Pod]) -> list[_Pod]:
    """A preemptor directly after its victims, which stand together: its arrows stay short."""
    by_uid = {pod.uid: pod for pod in pods}
    preemptors = [pod for pod in pods if pod.preempts]
    groups: dict[str | None, list[_Pod]] = {}
    taken: set[str | None] = {pod.uid for pod in preemptors}
    for preemptor in preemptors:
        victims = [
            by_uid[uid]
            for uid in dict.fromkeys(preemptor.preempts)
            if uid in by_uid and uid not in taken
        ]
        taken.update(pod.uid for pod in victims)
        for each in (*victims, preemptor):
            groups[each.uid] = [*victims, preemptor]
    ordered: dict[int, _Pod] = {}
    for pod in pods:
        for each in groups.get(pod.uid, [pod]) if pod.uid else [pod]:
            ordered.setdefault(id(each), each)
    return list(ordered.values())


_POD = "namespace, pod, pod_uid"
_PLACE = f"{_POD}, container"


def _pod_ends(view: NodeView, pods: _Pods) -> None:
    for row in view(
        f"""SELECT {_POD}, min(ts_ns) AS ended_ns, min(ts_ns) FILTER (gone) AS gone_ns FROM (
            SELECT {_POD}, ts_ns, false AS gone FROM events WHERE node = $node
                AND kind IN ('lifecycle.PodTerminating', 'lifecycle.PodTerminated')
            UNION ALL
            SELECT {_POD}, epoch_ns(ts), gone FROM pods WHERE node = $node AND gone
        ) WHERE pod_uid IS NOT NULL GROUP BY ALL ORDER BY ended_ns, pod_uid"""
    ):
        pod = pods.of(row)
        pod.ended_ns, pod.gone_ns = row["ended_ns"], row["gone_ns"]


def _orders(view: NodeView, pods: _Pods) -> None:
    """The places of containers in their pod's spec: init containers and sidecars first."""
    for row in view(
        f"""SELECT {_POD}, any_value(spec -> 'initContainers') AS init,
            any_value(json_extract_string(spec, '$.containers[*].name')) AS names
        FROM pods WHERE node = $node AND spec IS NOT NULL GROUP BY ALL ORDER BY pod_uid"""
    ):
        init = json.loads(row["init"]) if row["init"] else None
        order = pods.of(row).order
        for each in init or ():
            sidecar = each.get("restartPolicy") == "Always"
            order[each["name"]] = (len(order), "sidecar" if sidecar else "init")
        for name in row["names"] or ():
            order[name] = (len(order), "")


def _ends(view: NodeView, pods: _Pods) -> list[Arrow]:
    """Kills, OOM kills and evictions; with arrows from the attempt to reclaim to the evicted."""
    for row in view.rows("container_kills", f"{_PLACE}, reason, message"):
        kind = _KILLS.get(row["reason"] or "", "stopped")
        reason = (row["reason"] or "killed").replace("_", " ")
        pods.lane(row).mark(kind, row["ts_ns"], reason, row["seq"])
    for row in view.rows("oom_kills", f"{_PLACE}, process, reason", "pod_uid IS NOT NULL"):
        label = f"{row['process'] or 'a process'}, {row['reason'] or 'out of memory'}"
        pods.lane(row).mark("oom", row["ts_ns"], label.replace("_", " "), row["seq"])
    arrows = []
    for row in view.rows("evictions", f"{_POD}, signal, kind, evicted, cause_seq"):
        words = [row["kind"] or "", "threshold of" if row["signal"] else "", row["signal"] or ""]
        failed = " (took longer than the kubelet waited)" if row["evicted"] is False else ""
        label = " ".join(word for word in words if word).replace("_", " ") + failed
        pods.of(row).own.mark("evicted", row["ts_ns"], label, row["seq"])
        if row["cause_seq"] is not None:
            arrows.append(Arrow(from_seq=row["cause_seq"], to_seq=row["seq"], quiet=True))
    return arrows


def _transitions(view: NodeView, pods: _Pods) -> None:
    fails = "container <> '' AND from_result = 'success' AND to_result = 'failure'"
    for row in view.rows("probe_transitions", f"{_PLACE}, probe_type", fails):
        pods.lane(row).mark("threshold", row["ts_ns"], f"{row['probe_type']} failed", row["seq"])


def _sandboxes(view: NodeView, pods: _Pods) -> None:
    """Sandboxes that had to be made again; a pod's first is what its row begins with anyway."""
    known: dict[int, set[str]] = {}
    for row in view.rows(
        "container_states", f"{_POD}, container_id", "sandbox AND state = 'started'"
    ):
        pod = pods.of(row)
        before = known.setdefault(id(pod), set())
        if before and row["container_id"] not in before:
            pod.own.mark("sandbox", row["ts_ns"], "another sandbox", row["seq"])
        before.add(row["container_id"])


_TOLD = ("admission", "run", "ready")
"""Stages that refusals, restarts and probes show."""
_WAITED = 2
"""Severity of what a pod got past."""


def _stages(view: NodeView, pods: _Pods, severities: Mapping[int, int]) -> None:
    """The stage in which a pod or container waits, until it is past it or ends."""
    for row in view.rows(
        "pod_stages",
        f"{_PLACE}, stage, reason, message, attempts,"
        " passed_ts IS NULL AND ended_ts IS NULL AS is_open,"
        " epoch_ns(coalesce(passed_ts, ended_ts, last_ts)) AS until_ns",
        f"stage NOT IN {_TOLD}",
    ):
        why = f": {shortened(row['message'])}" if row["message"] else ""
        kind = "stuck" if severities.get(row["seq"], 0) > _WAITED else "waits"
        label = f"{row['stage']}{times_text(row['attempts'])}: {row['reason']}{why}"
        until_ns = None if row["is_open"] and kind == "stuck" else row["until_ns"]
        pods.lane(row).bar(kind, row["ts_ns"], until_ns, label, row["seq"])


def _resizes(view: NodeView, pods: _Pods) -> None:
    for row in view.rows("resizes", f"{_POD}, outcome, reason"):
        kind = "resize_refused" if row["outcome"] in ("deferred", "infeasible") else "resized"
        label = " ".join(word for word in ("resize", row["outcome"], row["reason"]) if word)
        pods.of(row).own.mark(kind, row["ts_ns"], label, row["seq"])


def _admissions(view: NodeView, pods: _Pods) -> None:
    """First admissions, and refusals until the pod is gone."""
    for row in view.rows("admissions", f"{_POD}, admitted, reason"):
        pod = pods.of(row)
        if row["admitted"]:
            if pod.admitted_ns is None:
                pod.admitted_ns, pod.admitted_seq = row["ts_ns"], row["seq"]
            pod.own.mark("admission", row["ts_ns"], "admitted", row["seq"])
        else:
            pod.own.bar("rejected", row["ts_ns"], pod.gone_ns, "", row["seq"])
            pod.own.mark("refused", row["ts_ns"], row["reason"] or "", row["seq"])


def _preemptions(view: NodeView, pods: _Pods) -> list[Arrow]:
    """Who was preempted for whom."""
    arrows = []
    victim = "victim_namespace AS namespace, victim_pod AS pod, victim_uid AS pod_uid"
    preemptor = "preemptor_namespace, preemptor_pod, preemptor_uid"
    for row in view.rows("preemptions", f"{victim}, {preemptor}"):
        named = (
            (row[f"{who}namespace"], row[f"{who}pod"], row[uid])
            for who, uid in (("", "pod_uid"), ("preemptor_", "preemptor_uid"))
        )
        if not any(view.scope.names(*each) for each in named):
            continue
        victim_pod = pods.of(row)
        by = "/".join(part for part in (row["preemptor_namespace"], row["preemptor_pod"]) if part)
        label = f"for {by or 'an unknown pod'}"
        victim_pod.own.mark("preempted", row["ts_ns"], label, row["seq"])
        preempting = pods.by_key.get(row["preemptor_uid"] or by)
        if preempting is not None:
            preempting.preempts.append(victim_pod.uid or victim_pod.label)
            if preempting.admitted_seq:
                arrows.append(Arrow(from_seq=preempting.admitted_seq, to_seq=row["seq"]))
    return arrows
