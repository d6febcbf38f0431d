"""Evictions as the API server shows them: events, and pods that ended so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.eviction_messages import ended_by, is_eviction, message_ended_by
from kubeledger.ingest.correlate.pods import Pod, Pods
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.api_events import ApiReason
from kubeledger.ingest.sources.items import ApiEvent, PodList
from kubeledger.model.units import NS_PER_S

__all__ = ["EvictionStatus", "EvictionStatuses"]


class EvictionStatus(NamedTuple):
    """An eviction that the API server shows.

    Attributes:
        ts_ns: when; of a pod that ended so, when that was first shown.
        ended_pod: the pod's status shows that it was this one that ended it.
    """

    pod: Pod
    ts_ns: int
    message: str
    ended_pod: bool


class EvictionStatuses:
    """Reads the signs of one bundle, each once."""

    def __init__(self, context: BundleContext, pods: Pods) -> None:
        self._context = context
        self._pods = pods
        self._seen: set[str] = set()
        self._living: set[Pod] = set()

    def of_event(self, item: ApiEvent) -> EvictionStatus | None:
        """The eviction that an event reports; None for any other event."""
        api = ApiReason.read(item.event)
        kind, namespace, name, reason, message = api.key
        if (kind, reason) != ("Pod", "Evicted") or not is_eviction(message):
            return None
        if api.object_id in self._seen:
            return None
        self._seen.add(api.object_id)
        pod = self._pods.named(PodRef(namespace, name, api.pod_uid), item)
        ts_ns = item.ts_ns
        if api.named_ns is not None and 0 <= api.named_ns - ts_ns < NS_PER_S:
            ts_ns = api.named_ns
        ended = ended_by(self._context.status_of(pod.uid), message)
        return EvictionStatus(pod, ts_ns, message, ended)

    def of_list(self, item: PodList) -> Iterator[EvictionStatus]:
        """The pods that were evicted since the list before; of earlier ones no time is known."""
        for listed in item.pods:
            metadata, status = listed.get("metadata") or {}, listed.get("status") or {}
            pod = self._pods.with_uid(str(metadata.get("uid") or ""))
            message = message_ended_by(status)
            if pod is not None and message is None:
                self._living.add(pod)
            elif pod is not None and message is not None and pod in self._living:
                self._living.discard(pod)
                yield EvictionStatus(pod, item.ts_ns, message, True)
