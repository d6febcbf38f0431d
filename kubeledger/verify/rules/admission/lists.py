"""What pod lists tell of refusals, and of the node's name; filled in a first reading."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.evidence.timeline import Timeline
from kubeledger.verify.rules.admission.adds import PodAdd

__all__ = ["Lists"]

_WHOLE_SECONDS_NS: Final = 2 * NS_PER_S
"""The time of a list may be one of whole seconds."""


class Lists:
    """It grows with pods, not with records."""

    def __init__(self) -> None:
        self._rejections: dict[str, list[tuple[int, int, str, str]]] = {}
        self._bound: dict[str, str] = {}
        self._node: tuple[str | None] | None = None

    def pod_listed(self, record: Record) -> None:
        """Take in an entry of a list."""
        body = record.body
        assert isinstance(body, PodListed)
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        if body.gone or body.listed_by == "manifest" or key is None:
            return
        node = (body.spec or {}).get("nodeName")
        if isinstance(node, str) and node:
            self._bound[key] = node
        status = body.status or {}
        reason, message = status.get("reason"), status.get("message")
        # A passed deadline of the pod stands in place of a refusal.
        if status.get("phase") != "Failed" or reason == "DeadlineExceeded":
            return
        if isinstance(reason, str) and isinstance(message, str):
            shown = self._rejections.setdefault(key, [])
            if not shown or shown[-1][2:] != (reason, message):
                shown.append((record.ts_ns, record.seq, reason, message))

    def rejection(self, add: PodAdd, from_ns: int) -> tuple[int, str, str] | None:
        """Record, reason and message of the list that shows a refusal from a time on.

        A static pod may be refused once a process: only what its own stay shows counts.
        """
        until_ns = add.life.removed_ns
        for ts_ns, seq, reason, message in self._rejections.get(add.key, ()):
            if ts_ns >= from_ns - _WHOLE_SECONDS_NS and (until_ns is None or ts_ns < until_ns):
                return seq, reason, message
        return None

    def node(self, timeline: Timeline) -> str | None:
        """The node that most admitted pods are bound to; None when that is not clear."""
        if self._node is None:
            admitted = (
                key
                for key, pod in timeline.pods.items()
                if any(each.admitted for each in pod.lives)
            )
            named = Counter(self._bound[key] for key in admitted if key in self._bound)
            most = named.most_common(1)
            clear = [name for name, count in most if count > 1 and 2 * count > named.total()]
            self._node = (clear[0] if clear else None,)
        return self._node[0]
