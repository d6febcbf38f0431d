"""What does not change while a pod lives: lists that show it otherwise contradict each other.

Priority and class of priority are set when the pod is made, and the QoS class follows from
its spec; no resize may change it. Victims are chosen by both.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeledger.errors import BadInputError
from kubeledger.kube.critical import CONFIG_MIRROR
from kubeledger.kube.pod import Pod
from kubeledger.kube.podqos import pod_qos
from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record
from kubeledger.verify.admission.podspecs import as_admitted
from kubeledger.verify.bench import Bench

__all__ = ["Constants"]

_Key = tuple[str, str, str]
"""UID, who lists the pod (its mirror is another object), and the field."""


class Constants:
    """What lists have shown of each pod; it grows with the pods of a ledger."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._shown: dict[_Key, list[tuple[str, int]]] = {}
        self._follow: dict[tuple[str, str], bool] = {}

    def pod_listed(self, record: Record, body: PodListed) -> None:
        """Compare an entry of a list with those before it, and its class with its spec."""
        if body.gone or body.listed_by == "manifest" or body.pod_uid is None or body.spec is None:
            return
        kind = "mirror" if CONFIG_MIRROR in body.annotations else "pod"
        for name, value in _constants(body):
            # What the spec contradicts is compared with nothing else.
            if name != "qosClass" or self._follows(record, body, value):
                self._compare(record, body, (body.pod_uid, kind, name), value)

    def _compare(self, record: Record, body: PodListed, key: _Key, value: str) -> None:
        shown = self._shown.setdefault(key, [])
        if any(value == before for before, _ in shown):
            return
        shown.append((value, record.seq))
        if len(shown) > 1:
            first, seq = shown[0]
            self._bench.contradict(
                record.ts_ns,
                f"pod/{body.namespace}/{body.pod}",
                f"lists show the pod with different values of {key[2]}, which never changes",
                (seq, f"{key[2]} is {first}"),
                (record.seq, f"{key[2]} is {value}"),
            )

    def _follows(self, record: Record, body: PodListed, qos: str) -> bool:
        """Whether the class is that of the spec; checked once a pod and class."""
        profile = self._bench.profile
        if profile is None or not body.spec or body.spec.get("resources"):
            return True  # resources of the whole pod count or do not, by a gate
        assert body.pod_uid is not None
        key = (body.pod_uid, qos)
        if key in self._follow:
            return self._follow[key]
        self._follow[key] = True
        try:
            pod = as_admitted(msgspec.convert({"metadata": {}, "spec": body.spec}, Pod), None)
            follows = pod_qos(pod, status_wins=False, pod_level=False)
        except (BadInputError, msgspec.ValidationError):
            return True
        if follows != qos:
            self._follow[key] = False
            self._bench.contradict(
                record.ts_ns,
                f"pod/{body.namespace}/{body.pod}",
                "the pod's QoS class does not follow from its spec",
                (record.seq, f"status.qosClass is {qos}"),
                (record.seq, f"requests and limits of the spec make it {follows}"),
            )
        return follows == qos


def _constants(body: PodListed) -> Iterator[tuple[str, str]]:
    """Field and value of what is set; what a list leaves out is not known."""
    spec, status = body.spec or {}, body.status or {}
    for name, value in (
        ("priority", spec.get("priority")),
        ("priorityClassName", spec.get("priorityClassName")),
        ("qosClass", status.get("qosClass")),
    ):
        if value is not None and value != "":
            yield name, str(value)
