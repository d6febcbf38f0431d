"""Answers of the pod-resources API: one record for each that differs from the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import PodResources
from kubeledger.model.bodies.podresources import AllocatableResourcesListed, PodResourcesListed

__all__ = ["PodResourcesAssembler"]


class PodResourcesAssembler(Assembler):
    """What containers have for themselves, with the UIDs of their pods."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._last: dict[str, PodResourcesListed | AllocatableResourcesListed] = {}

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """Both answers."""
        return {PodResources: self._listed}

    def _listed(self, item: PodResources) -> None:
        body = item.body
        if isinstance(body, PodResourcesListed):
            body = self._named(body, item.ts_ns)
        if self._last.get(body.kind) != body:
            self._last[body.kind] = body
            self.queue.add(Fact(item.ts_ns, body, (item.evidence,)))

    def _named(self, body: PodResourcesListed, ts_ns: int) -> PodResourcesListed:
        containers = tuple(
            msgspec.structs.replace(
                each, pod_uid=self.context.uid_of(each.namespace, each.pod, ts_ns)
            )
            for each in body.containers
        )
        return PodResourcesListed(containers=containers)
