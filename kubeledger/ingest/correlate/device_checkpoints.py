"""Checkpoints as observations, and the allocations that only they show."""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import takes
from kubeledger.ingest.correlate.device_model import (
    DeviceManagerModel,
    Holder,
    Holding,
    Numa,
    all_ids,
)
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import Checkpoint
from kubeledger.kubelet.devicemanager.checkpoint import read_checkpoint
from kubeledger.kubelet.kube.checkpoints import MalformedCheckpointError
from kubeledger.model.bodies.devicemanager import CheckpointRead, DevicesReleased, DevicesReported
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_SETTLING_NS = 2 * NS_PER_S
"""A snapshot is named by a whole second and takes a moment to be made."""


class CheckpointItems:
    """Handlers of checkpoint items."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._model = model
        self._raw: bytes | None = None
        self._body: CheckpointRead | None = None
        self._reported: set[tuple[str, str]] = set()

    @takes(Checkpoint)
    def _checkpoint(self, item: Checkpoint) -> None:
        if item.raw == self._raw:
            return
        self._raw = item.raw
        try:
            body = read_checkpoint(item.data)
        except MalformedCheckpointError as error:
            self._find(item, "malformed_checkpoint", f"not read: {error}")
            return
        if body == self._body:
            return
        before, self._body = self._body, body
        read = self._model.queue.add(shown(item, body))
        if body.checksum_ok is False:
            message = f"checksum {body.checksum} does not fit the content, which is not relied on"
            self._find(item, "checksum_mismatch", message)
            self._body = before
            return
        self._health(item, before, body, read)
        self._entries(item, body)

    def _health(
        self, item: Checkpoint, before: CheckpointRead | None, body: CheckpointRead, read: Fact
    ) -> None:
        """The registered lists hold healthy devices only: a change is a change of health.

        An empty list is that of a plugin that is away as well, so it says nothing.
        """
        old = before.registered if before is not None else {}
        for resource, ids in body.registered.items():
            if ids and old.get(resource) != ids:
                report = DevicesReported(resource=resource, healthy=len(ids), device_ids=ids)
                self._model.queue.add(shown(item, report, cause=read))

    def _entries(self, item: Checkpoint, body: CheckpointRead) -> None:
        for entry in body.entries:
            self._compare(item, (entry.pod_uid, entry.container, entry.resource), entry.numa)
        self._missing(
            item, {(each.pod_uid, each.container, each.resource) for each in body.entries}
        )

    def _compare(self, item: Checkpoint, holder: Holder, numa: Numa) -> None:
        devices = all_ids(numa)
        holdings = self._model.holdings
        holding = holdings.held.get(holder)
        if holding is None:
            asked = holder in self._model.requests
            if devices and (asked or not holdings.is_stale(holder, devices)):
                self._grant(item, holder, numa)
        elif holding.device_ids == devices:
            holding.in_checkpoint = True
        elif holding.in_checkpoint and self._may_be_anew(holder, holding):
            self._release(item, holder)
            self._grant(item, holder, numa)
        elif holding.disputed != devices:
            self._dispute(item, holder, holding, devices)

    def _may_be_anew(self, holder: Holder, holding: Holding) -> bool:
        """Whether the pod may have been admitted again since: only then its devices change."""
        since_ns = max(holding.since_ns, holding.confirmed_ns)
        pod = self._model.pods.with_uid(holder[0])
        if pod is not None and pod.added is not None:
            return pod.deleted is not None or pod.added.ts_ns > since_ns
        # Of a pod from a file, the next one may have the same UID.
        from_api = "-" in holder[0]
        return not from_api or (self._model.sync_loop.started_ns or 0) > since_ns

    def _grant(self, item: Checkpoint, holder: Holder, numa: Numa) -> None:
        nodes = None if "" in numa else numa
        devices = all_ids(numa)
        fact = self._model.grant(
            holder, devices, item.ts_ns, (item.evidence,), nodes, told_by="checkpoint"
        )
        self._model.holdings.held[holder].in_checkpoint = True
        self._model.queue.add(fact)

    def _dispute(
        self, item: Checkpoint, holder: Holder, holding: Holding, devices: tuple[str, ...]
    ) -> None:
        holding.disputed = devices
        uid, container, resource = holder
        before, believed = "the log gives", "the log is believed"
        if holding.in_checkpoint:
            before, believed = "all sources so far give", "what was recorded first is used"
        message = (
            f"{before} {resource} {', '.join(holding.device_ids)} to container {container} "
            f"of pod {uid}, the checkpoint {', '.join(devices)}; {believed}"
        )
        self._find(item, "contradiction", message, holding.evidence)

    def _missing(self, item: Checkpoint, seen: set[Holder]) -> None:
        """Entries that a later checkpoint has no more: their devices were given back."""
        gone = [
            holder
            for holder, holding in self._model.holdings.held.items()
            if holder not in seen
            and "/" not in holder[0]
            and (holding.in_checkpoint or holding.since_ns < item.ts_ns - _SETTLING_NS)
        ]
        for pod in sorted({holder[0] for holder in gone}):
            if set(self._model.holdings.of_pod(pod)) <= set(gone):
                self._model.holdings.release_pod(pod)
                body = DevicesReleased(pod_uid=pod, inferred=True)
                self._model.queue.add(shown(item, body))
            else:
                for holder in sorted(holder for holder in gone if holder[0] == pod):
                    self._release(item, holder)

    def _release(self, item: Checkpoint, holder: Holder) -> None:
        uid, container, resource = holder
        self._model.holdings.release(holder)
        body = DevicesReleased(pod_uid=uid, container=container, resource=resource, inferred=True)
        self._model.queue.add(shown(item, body))

    def _find(self, item: Checkpoint, finding: str, text: str, *more: Evidence) -> None:
        if (finding, text) in self._reported:
            return
        self._reported.add((finding, text))
        body = FindingReported(finding=finding, file=item.evidence.file, message=text)
        self._model.queue.add(shown(item, body, *more))
