"""What records show of the node as an object: its labels and taints, and amounts of all times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from kubeledger.kubelet.kube.pod import Pod, Taint
from kubeledger.kubelet.lifecycle.predicate import tolerates_no_execute
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.record import Record
from kubeledger.verify.evidence.timeline import Timeline
from kubeledger.verify.settings import UNKNOWN, Settings

_OF_SHORT_LIFE: Final = tuple(
    Taint(key=f"node.kubernetes.io/{name}", effect="NoExecute")
    for name in ("not-ready", "unreachable")
)
"""Taints that come and go with the node's heartbeat."""


class NodeRecord(NamedTuple):
    """A record of the node that shows something new."""

    ts_ns: int
    seq: int
    body: NodeObserved


class LabelsAndTaints(NamedTuple):
    """What the node object holds besides amounts.

    Attributes:
        seqs: (n,) records that show it.
        labels_known, taints_known: a node object shows them, and no later one others.
    """

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    seqs: tuple[int, ...]
    labels_known: bool
    taints_known: bool


class Nodes:
    """Filled in the first reading."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._records: list[NodeRecord] = []
        self._records_with: dict[tuple[str, ...], list[NodeRecord]] = {}

    def prescan(self, record: Record, body: NodeObserved) -> None:
        """Take in what a record of the node says."""
        self._records.append(NodeRecord(record.ts_ns, record.seq, body))
        self._records_with.clear()

    def last(self, ts_ns: int, field: str, *, of_process: bool = False) -> NodeRecord | None:
        """The last record by then that shows something, else the first one after it.

        Args:
            ts_ns: the time.
            field: of the record.
            of_process: of the process that runs then alone: what its settings decide is no other's.
        """
        records = self._having(field)
        if of_process:
            process = self._timeline.process(ts_ns)
            records = [each for each in records if self._timeline.process(each.ts_ns) is process]
        index = bisect_right(records, ts_ns, key=lambda each: each.ts_ns)
        return records[max(index - 1, 0)] if records else None

    def labels_and_taints(self, ts_ns: int, settings: Settings, node_name: str) -> LabelsAndTaints:
        """Labels and taints by then; what they were before the first node object is not known."""
        objects = self._having("labels", "taints")
        if not objects:
            labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": node_name}
            return LabelsAndTaints(labels, _registered(settings), (), False, False)
        index = bisect_right(objects, ts_ns, key=lambda each: each.ts_ns)
        newest = objects[max(index - 1, 0)]
        taints = _taints(newest.body)
        same = all(_taints(each.body) == taints for each in objects[index : index + 1])
        seqs = (newest.seq,) if index and taints else ()
        return LabelsAndTaints(newest.body.labels, taints, seqs, True, bool(index) and same)

    def _having(self, *fields: str) -> list[NodeRecord]:
        """Records in the order of time that show another value of these fields."""
        if fields not in self._records_with:
            records = self._records_with[fields] = []
            known = None
            for each in sorted(self._records):
                values = [getattr(each.body, field) for field in fields]
                if any(values) and values != known:
                    records.append(each)
                    known = values
        return self._records_with[fields]


def hostname(settings: Settings) -> str | None:
    """The name that the kubelet was configured with; None without one.

    Source: v1.36.2 pkg/util/node/node.go GetHostname
    """
    name = settings.get("--hostname-override")
    return name.strip().lower() or None if isinstance(name, str) else None


def tolerates_short_taints(pod: Pod) -> bool:
    """Whether no taint that was there for moments alone can have kept the pod out."""
    return tolerates_no_execute(_OF_SHORT_LIFE, pod.spec.tolerations or ())


def _registered(settings: Settings) -> tuple[Taint, ...]:
    taints = settings.get("registerWithTaints")
    if taints is UNKNOWN or not isinstance(taints, list):
        return ()
    try:
        return msgspec.convert(taints, tuple[Taint, ...])
    except msgspec.ValidationError:
        return ()


def _taints(body: NodeObserved) -> tuple[Taint, ...]:
    return msgspec.convert(body.taints, tuple[Taint, ...])
