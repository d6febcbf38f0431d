"""Pods and their containers: a row each, probe ticks below it, problems first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from kubeledger.timeline.ask import NodeView, ViewRow
from kubeledger.timeline.drawing import Arrow, Row, Section

__all__ = ["pod_sections"]

_KILLS = {
    "liveness_probe": "killed",
    "startup_probe": "killed",
    "post_start_hook": "killed",
    "preempted": "killed",
    "evicted": "killed",
}
"""Reasons of a kill that are a problem; other kills are what somebody asked for."""
_WEIGHTS = {
    "oom": 6,
    "evicted": 6,
    "preempted": 6,
    "killed": 5,
    "refused": 4,
    "died": 3,
    "threshold": 2,
}
_TICKS = {"success": "tick_success", "failure": "tick_failure"}


class _Container(msgspec.Struct):
    """One container of a pod, by name."""

    lane: Row
    ticks: Row
    first_start_ns: int | None = None


class _Pod(msgspec.Struct):
    """A pod, by UID: its own marks, and its containers by name."""

    label: str
    own: Row
    ended_ns: int | None = None
    preempts: bool = False
    containers: dict[str, _Container] = msgspec.field(default_factory=dict)

    def container(self, name: str) -> _Container:
        """Its container of this name."""
        if name not in self.containers:
            label = f"{self.label}/{name}"
            self.containers[name] = _Container(Row(label=label), Row(label=label, shape="ticks"))
        return self.containers[name]

    def ends(self, ts_ns: int) -> None:
        """Nothing of it goes on after this."""
        self.ended_ns = ts_ns if self.ended_ns is None else min(self.ended_ns, ts_ns)

    def weight(self, verdicts: Mapping[int, str]) -> tuple[int, int]:
        """How bad it is: the worst thing that happened or that it did, and how many such things."""
        items = [item for row in self.lanes() for item in row.items]
        weights = [_WEIGHTS.get(item.kind, 0) for item in items]
        weights += [7 for item in items if verdicts.get(item.seq) == "impossible"]
        return max([*weights, int(self.preempts)]), sum(weight > 0 for weight in weights)

    def has_items(self) -> bool:
        """Whether there is anything to draw."""
        return any(row.items for row in self.lanes())

    def begins_ns(self) -> int:
        """When it is first seen; 0 where nothing of it is drawn."""
        return min((item.start_ns for row in self.lanes() for item in row.items), default=0)

    def lanes(self) -> list[Row]:
        """The rows on which something can go wrong."""
        return [self.own, *(container.lane for container in self.containers.values())]

    def rows(self, *, apart: bool) -> list[Row]:
        """One row for a pod of one container unless they are apart, else one for each."""
        parts = list(self.containers.values())
        if len(parts) == 1 and not apart:
            only = parts[0]
            only.lane.items += self.own.items
            return [only.lane, *_with_ticks(only)]
        rows = [self.own]
        for container in parts:
            container.lane.depth = 1
            container.lane.label = container.lane.label.rpartition("/")[2]
            container.ticks.label = container.lane.label
            rows += [container.lane, *_with_ticks(container)]
        return rows


def _with_ticks(container: _Container) -> list[Row]:
    return [container.ticks] if container.ticks.items else []


class _Pods:
    """All pods of a node, by UID, or by name where no source tells the UID."""

    def __init__(self) -> None:
        self.by_key: dict[str, _Pod] = {}

    def of(self, row: ViewRow) -> _Pod:
        """The pod that a row is about."""
        name = "/".join(part for part in (row["namespace"], row["pod"]) if part)
        key = row["pod_uid"] or name
        if key not in self.by_key:
            self.by_key[key] = _Pod(name or key, Row(label=name or key))
        pod = self.by_key[key]
        if name and pod.label == key != name:
            pod.label = pod.own.label = name
        return pod

    def lane(self, row: ViewRow) -> Row:
        """The container's row, or the pod's where no container is named."""
        pod = self.of(row)
        return pod.container(row["container"]).lane if row["container"] else pod.own


def pod_sections(
    view: NodeView, verdicts: Mapping[int, str], *, apart: bool = False
) -> tuple[list[Section], list[Arrow]]:
    """Pods with problems, worst first, and the others, folded.

    Args:
        view: the node's views.
        verdicts: seq -> verdict, of decisions that are no match.
        apart: a pod and its only container have a row each.

    Returns:
        The sections, and arrows from preemptors to their victims.
    """
    pods = _Pods()
    _pod_ends(view, pods)
    _lives(view, pods)
    _ends(view, pods)
    _probes(view, pods)
    arrows = _admissions(view, pods)
    weighed = [(pod.weight(verdicts), pod) for pod in pods.by_key.values()]
    bad = [(weight, pod) for weight, pod in weighed if weight[0]]
    bad.sort(key=lambda each: (-each[0][0], -each[0][1], each[1].begins_ns(), each[1].label))
    others = [pod for weight, pod in weighed if not weight[0] and pod.has_items()]
    others.sort(key=lambda pod: (pod.begins_ns(), pod.label))
    return [
        Section(
            id="problems",
            title=f"Pods with problems ({len(bad)})",
            rows=[row for _, pod in bad for row in pod.rows(apart=apart)],
        ),
        Section(
            id="pods",
            title=f"Other pods ({len(others)})",
            rows=[row for pod in others for row in pod.rows(apart=apart)],
            folded=True,
        ),
    ], arrows


_PLACE = "namespace, pod, pod_uid, container"


def _lives(view: NodeView, pods: _Pods) -> None:
    """A bar for each container ID with its restart number, back-off between two of them."""
    counts = {
        row["container_id"]: row["restart_count"]
        for row in view.rows("container_restarts", "container_id, restart_count")
    }
    back_offs: dict[tuple[str | None, str | None], list[ViewRow]] = defaultdict(list)
    for row in view.rows("restart_backoffs", f"{_PLACE}, back_off_s"):
        back_offs[row["pod_uid"], row["container"]].append(row)
    states: dict[tuple[str | None, str | None], list[ViewRow]] = defaultdict(list)
    for row in view.rows(
        "container_states",
        f"{_PLACE}, container_id, state, exit_code, cause_seq",
        "NOT coalesce(sandbox, false) AND container IS NOT NULL",
    ):
        states[row["pod_uid"], row["container"]].append(row)
    for key, rows in states.items():
        container = pods.of(rows[0]).container(rows[0]["container"])
        starts = [row["ts_ns"] for row in rows if row["state"] == "started"]
        container.first_start_ns = min(starts, default=None)
        _bars(container.lane, rows, counts)
        _back_off_bars(container.lane, back_offs[key], starts, pods.of(rows[0]).ended_ns)


def _bars(lane: Row, rows: list[ViewRow], counts: Mapping[str | None, int | None]) -> None:
    died = {row["container_id"]: row for row in reversed(rows) if row["state"] == "died"}
    for row in rows:
        if row["state"] == "started":
            end = died.get(row["container_id"])
            count = counts.get(row["container_id"])
            label = f"#{count}" if count else ""
            lane.bar("running", row["ts_ns"], end["ts_ns"] if end else None, label, row["seq"])
        elif row["exit_code"] and row["cause_seq"] is None:
            lane.mark("died", row["ts_ns"], f"exit code {row['exit_code']}", row["seq"])
        elif row["exit_code"] == 0:
            lane.mark("completed", row["ts_ns"], "exit code 0", row["seq"])


def _back_off_bars(
    lane: Row, rows: list[ViewRow], starts: list[int], pod_ended_ns: int | None
) -> None:
    """From the first refusal to restart until the container's next start, or its pod's end."""
    drawn_until_ns: int | None = 0
    for row in rows:
        if drawn_until_ns is None or row["ts_ns"] < drawn_until_ns:
            continue
        drawn_until_ns = min((ns for ns in starts if ns > row["ts_ns"]), default=pod_ended_ns)
        lane.bar(
            "backoff", row["ts_ns"], drawn_until_ns, f"back-off {row['back_off_s']} s", row["seq"]
        )


def _pod_ends(view: NodeView, pods: _Pods) -> None:
    for row in view(
        """SELECT namespace, pod, pod_uid, min(ts_ns) AS ts_ns FROM (
            SELECT namespace, pod, pod_uid, ts_ns FROM events WHERE node = $node
                AND kind IN ('lifecycle.PodTerminating', 'lifecycle.PodTerminated')
            UNION ALL
            SELECT namespace, pod, pod_uid, epoch_ns(ts) FROM pods WHERE node = $node AND gone
        ) WHERE pod_uid IS NOT NULL GROUP BY ALL ORDER BY ts_ns"""
    ):
        pods.of(row).ends(row["ts_ns"])


def _ends(view: NodeView, pods: _Pods) -> None:
    for row in view.rows("container_kills", f"{_PLACE}, reason, message"):
        kind = _KILLS.get(row["reason"] or "", "completed")
        reason = (row["reason"] or "killed").replace("_", " ")
        pods.lane(row).mark(kind, row["ts_ns"], reason, row["seq"])
    for row in view.rows("oom_kills", f"{_PLACE}, process, reason", "pod_uid IS NOT NULL"):
        label = f"{row['process'] or 'a process'}, {row['reason'] or 'out of memory'}"
        pods.lane(row).mark("oom", row["ts_ns"], label.replace("_", " "), row["seq"])
    for row in view.rows("evictions", "namespace, pod, pod_uid, signal, kind", "evicted"):
        label = f"{row['signal'] or ''} {row['kind'] or ''}".strip().replace("_", " ")
        pods.of(row).own.mark("evicted", row["ts_ns"], label, row["seq"])


def _probes(view: NodeView, pods: _Pods) -> None:
    for row in view.rows("probe_ticks", f"{_PLACE}, probe_type, result"):
        if row["container"]:
            ticks = pods.of(row).container(row["container"]).ticks
            kind = _TICKS.get(row["result"], "tick_other")
            ticks.mark(kind, row["ts_ns"], row["probe_type"], row["seq"])
    for row in view.rows("probe_transitions", f"{_PLACE}, probe_type, from_result, to_result"):
        if row["container"] and row["from_result"] == "success":
            pods.lane(row).mark(
                "threshold", row["ts_ns"], f"{row['probe_type']} failed", row["seq"]
            )


def _admissions(view: NodeView, pods: _Pods) -> list[Arrow]:
    """Outlines until the first start, refusals, and who was preempted for whom."""
    admitted: dict[str | None, int] = {}
    for row in view.rows("admissions", "namespace, pod, pod_uid, admitted, reason, message"):
        pod = pods.of(row)
        if row["admitted"]:
            starts = [
                part.first_start_ns
                for part in pod.containers.values()
                if part.first_start_ns is not None
            ]
            end_ns = min((ns for ns in starts if ns >= row["ts_ns"]), default=None)
            if row["pod_uid"] not in admitted and (end_ns is not None or not starts):
                pod.own.bar("admitted", row["ts_ns"], end_ns or pod.ended_ns, "", row["seq"])
            admitted.setdefault(row["pod_uid"], row["seq"])
            pod.own.mark("started", row["ts_ns"], "admitted", row["seq"])
        else:
            pod.own.bar("rejected", row["ts_ns"], pod.ended_ns, "", row["seq"])
            pod.own.mark("refused", row["ts_ns"], row["reason"] or "", row["seq"])
    arrows = []
    columns = (
        "preemptor_uid, victim_namespace AS namespace, victim_pod AS pod, victim_uid AS pod_uid"
    )
    names = "preemptor_namespace, preemptor_pod"
    for row in view.rows("preemptions", f"{columns}, {names}"):
        preemptor = f"{row['preemptor_namespace']}/{row['preemptor_pod']}"
        pods.of(row).own.mark("preempted", row["ts_ns"], f"for {preemptor}", row["seq"])
        if row["preemptor_uid"] in admitted:
            pods.by_key[row["preemptor_uid"]].preempts = True
            arrows.append(Arrow(from_seq=admitted[row["preemptor_uid"]], to_seq=row["seq"]))
    return arrows
