"""Claims that are prepared for pods and given back, as ``dra_manager_state`` shows it."""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.registers import Pods
from kubeledger.ingest.correlate.state_files import StateFileAssembler
from kubeledger.ingest.sources.items import DraManagerState
from kubeledger.kubelet.dra.checkpoint import read_dra_manager_state
from kubeledger.model.bodies.dra import ClaimPrepared, ClaimReleased, HeldClaim
from kubeledger.model.record import Body

_Holder = tuple[str, str]
"""UIDs of pod and claim."""


class ClaimsAssembler(StateFileAssembler):
    """The state file, and what changed from one to the next."""

    def __init__(self, context: BundleContext, pods: Pods) -> None:
        super().__init__(context)
        self._pods = pods
        self._held: dict[_Holder, HeldClaim] = {}

    @takes(DraManagerState)
    def _state_file(self, item: DraManagerState) -> None:
        body = self.read_file(item, read_dra_manager_state)
        if body is None:
            return
        shows = {(uid, claim.uid): claim for claim in body.claims for uid in claim.pod_uids}
        left = {claim.uid for claim in body.claims}
        changes: list[Body] = []
        gone = [holder for holder in self._held if holder not in shows]
        # Whoever lives on loses a claim as the last; the file does not tell the order.
        for holder in sorted(gone, key=lambda each: (not self._has_ended(each[0]), each)):
            claim = self._held.pop(holder)
            unprepared = claim.uid not in {*left, *(uid for _, uid in self._held)}
            changes.append(self._released(holder, claim, unprepared=unprepared))
        for holder, claim in shows.items():
            known = self._held.get(holder)
            prepared = all(claim.drivers.values())
            if prepared and (known is None or known.drivers != claim.drivers):
                self._held[holder] = claim
                changes.append(self._prepared(holder, claim))
        for change in changes:
            self.queue.add(shown(item, change))

    def _has_ended(self, uid: str) -> bool:
        pod = self._pods.with_uid(uid)
        return pod is None or pod.deleted is not None or pod.phase in ("Failed", "Succeeded")

    def _released(self, holder: _Holder, claim: HeldClaim, *, unprepared: bool) -> ClaimReleased:
        return ClaimReleased(
            namespace=claim.namespace,
            pod=self.context.name_of(holder[0])[1],
            pod_uid=holder[0],
            claim=claim.name,
            claim_uid=claim.uid,
            unprepared=unprepared,
            inferred=True,
        )

    def _prepared(self, holder: _Holder, claim: HeldClaim) -> ClaimPrepared:
        return ClaimPrepared(
            namespace=claim.namespace,
            pod=self.context.name_of(holder[0])[1],
            pod_uid=holder[0],
            claim=claim.name,
            claim_uid=claim.uid,
            drivers=claim.drivers,
            told_by="state_file",
        )
