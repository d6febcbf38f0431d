"""Claims of pods are prepared by their drivers, and unprepared after the last pod.

Source: v1.36.2 pkg/kubelet/cm/dra/manager.go
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kubeledger.kubelet.dra.claiminfo import (
    NOTHING,
    Answer,
    ClaimInfoCache,
    ClaimInfoState,
    DraError,
    Result,
    Verb,
    fails,
    new_claim_info,
    read,
)
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, PodResourceClaim
from kubeledger.kubelet.kube.resourceclaim import (
    ResourceClaim,
    claim_name,
    is_for_pod,
    is_reserved_for_pod,
)
from kubeledger.kubelet.kube.resources import NANOS, is_extended_resource
from kubeledger.kubelet.profile.devices import DraFacts
from kubeledger.model.errors import BadInputError

DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"

Claims = Mapping[tuple[str, str], ResourceClaim]
"""Namespace and name -> claim, as the API server has them."""

Batches = dict[str, list[ClaimInfoState]]
"""Driver -> claims that it is asked to prepare or unprepare, in one call."""

Call = tuple[str, Verb, tuple[str, ...]]
"""Driver, what it was asked, and for which claims (UIDs)."""


class Manager:
    """The DRA manager.

    Attributes:
        drivers: names of those that are registered.
        calls: what drivers were asked, in order.
    """

    def __init__(self, facts: DraFacts, drivers: Collection[str] = ()) -> None:
        self.cache = ClaimInfoCache()
        self.drivers = set(drivers)
        self.calls: list[Call] = []
        self._facts = facts

    def prepare_resources(
        self, pod: Pod, claims: Claims, answers: Mapping[str, Answer], order: MapOrder
    ) -> str:
        """Prepare a pod's claims; the error, or nothing.

        Args:
            claims: in the API server.
            answers: what each driver will answer; others answer with nothing.

        Raises:
            BadInputError: the kubelet crashes over this.
        """
        try:
            if self._facts.checks_before_changes:
                wanted = list(self._checked(pod, claims, order))
                unprepared = self._noted(pod, wanted)
            else:
                unprepared = list(self._checked_and_noted(pod, claims))
            self._node_prepare_resources(unprepared, answers, order)
        except DraError as error:
            return self._told("prepare", error)
        return ""

    def unprepare_resources(self, pod: Pod, answers: Mapping[str, Answer], order: MapOrder) -> str:
        """Unprepare what only this pod refers to; the error, or nothing.

        A claim to which one pod refers is unprepared, even if that is another pod.
        """
        try:
            names = [name for _, name in self._names(pod, self._pod_claims(pod), "unprepare")]
            meta = pod.metadata
            self._unprepare(meta.uid or "", meta.namespace or "", names, answers, order)
        except DraError as error:
            return self._told("unprepare", error)
        return ""

    def reconcile(
        self, active: Collection[str], answers: Mapping[str, Answer], order: MapOrder
    ) -> None:
        """Unprepare for pods that are no longer active; errors are only logged.

        Source: v1.36.2 pkg/kubelet/cm/dra/manager.go reconcileLoop, which v1.30.0 lacks
        """
        if self._facts.noted_when_prepared:
            return
        inactive: dict[str, list[ClaimInfoState]] = {}
        for claim in self.cache.claims.values():
            for uid in claim.pod_uids:
                if uid not in active:
                    inactive.setdefault(uid, []).append(claim)
        for uid in order.until_failure(inactive, inactive):
            claims = inactive[uid]
            names = [claim.claim_name for claim in claims]
            try:
                self._unprepare(uid, claims[0].namespace, names, answers, order)
            except DraError:
                continue

    def get_resources(self, pod: Pod, container: Container, order: MapOrder) -> list[str] | str:
        """CDI names of a container's devices, or an error; a name may stand there twice."""
        namespace, devices = pod.metadata.namespace or "", list[str]()
        try:
            for name, requests in self._claim_requests(pod, container, order):
                claim = self.cache.claims.get((namespace, name))
                if claim is None:
                    return self._unknown(name, namespace)
                for request in requests:
                    devices += claim.cdi_devices(request)
        except DraError as error:
            return str(error)
        return devices

    def _claim_requests(
        self, pod: Pod, container: Container, order: MapOrder
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """Names of the container's claims, and which of their requests it uses.

        Source: v1.36.2, v1.35.6 and v1.33.13 pkg/kubelet/cm/dra/manager.go GetResources
        """
        used: dict[str, list[str]] = {}
        for each in (container.resources.claims if container.resources else None) or ():
            used.setdefault(each.name, []).append(each.request or "")
        claims: Sequence[PodResourceClaim] = pod.spec.resource_claims or ()
        if not self._facts.container_claims_alone:
            for claim, name in self._names(pod, claims, "list", "s"):
                if claim.name in used:
                    yield name, used[claim.name]
            return
        wanted: dict[str, list[str]] = {}
        for claim, name in self._names(pod, [c for c in claims if c.name in used], "list"):
            wanted.setdefault(name, []).extend(used[claim.name])
        status = pod.status.extended_resource_claim_status if pod.status is not None else None
        if status is not None and self._facts.extended_resource_claims:
            for mapping in status.request_mappings or ():
                if mapping.container_name == container.name and _asks(
                    container, mapping.resource_name
                ):
                    wanted.setdefault(status.resource_claim_name, []).append(mapping.request_name)
        namespace = pod.metadata.namespace or ""
        missing = [name for name in wanted if (namespace, name) not in self.cache.claims]
        for name in order.until_failure(wanted, missing):
            yield name, wanted[name]

    def _pod_claims(self, pod: Pod) -> Sequence[PodResourceClaim]:
        claims = pod.spec.resource_claims or ()
        status = pod.status.extended_resource_claim_status if pod.status is not None else None
        if status is None or not self._facts.extended_resource_claims:
            return claims
        return (*claims, PodResourceClaim(resource_claim_name=status.resource_claim_name))

    def _names(
        self, pod: Pod, claims: Sequence[PodResourceClaim], why: str, plural: str = ""
    ) -> Iterator[tuple[PodResourceClaim, str]]:
        """A pod's claims with the names of those that there are.

        Args:
            why: what they are wanted for, as errors up to 1.33 say.
        """
        for claim in claims:
            name, error = claim_name(pod, claim)
            if error:
                wrapped = "" if self._facts.errors_for_users else f"{why} resource claim{plural}: "
                raise DraError(f"{wrapped}{error}")
            if name is not None:
                yield claim, name

    def _fetched(self, pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
        """The pod's claims from the API server, of those that it may use."""
        meta, facts = pod.metadata, self._facts
        for pod_claim, name in self._names(pod, self._pod_claims(pod), "prepare"):
            claim = claims.get((meta.namespace or "", name))
            if claim is None:
                missing = f'resourceclaims.resource.k8s.io "{name}" not found'
                raise DraError(
                    f"fetch ResourceClaim {name}: {missing}"
                    if facts.errors_for_users
                    else f"failed to fetch ResourceClaim {name} referenced by pod {meta.name}: "
                    f"{missing}"
                )
            if pod_claim.resource_claim_name is None and not is_for_pod(pod, claim):
                kind = "Pod" if facts.owner_error_names_kinds else "pod"
                raise DraError(
                    f"ResourceClaim {claim.metadata.namespace}/{claim.metadata.name} was not "
                    f"created for {kind} {meta.namespace}/{meta.name} ({kind} is not owner)"
                )
            if not is_reserved_for_pod(pod, claim):
                user, used, blank = f"({meta.uid})", f"({claim.metadata.uid})", ""
                kind = "resource claim"
                if facts.errors_for_users:
                    kind, blank = "ResourceClaim", " "
                raise DraError(
                    f"pod {meta.name}{blank}{user} is not allowed to use {kind} {name}{blank}{used}"
                )
            if not facts.noted_when_prepared or is_used(pod, pod_claim.name):
                yield claim

    def _checked(self, pod: Pod, claims: Claims, order: MapOrder) -> Iterator[ClaimInfoState]:
        """The pod's claims as they would be noted; their drivers are registered."""
        for claim in self._fetched(pod, claims):
            info = new_claim_info(claim)
            if info is None:
                raise DraError(f"ResourceClaim {claim.metadata.name}: not allocated")
            missing = [name for name in info.drivers if name not in self.drivers]
            if missing:
                raise DraError(self._not_registered(order.pick(missing)))
            yield info

    def _noted(self, pod: Pod, wanted: Sequence[ClaimInfoState]) -> list[ClaimInfoState]:
        """Note the pod at each claim, and the claim if it is new; those that are not prepared.

        Source: v1.34.9 pkg/kubelet/cm/dra/manager.go prepareResources
        """
        unprepared = []
        for info in wanted:
            key = info.namespace, info.claim_name
            held = self.cache.claims.get(key, info)
            if held.claim_uid != info.claim_uid:
                raise DraError(
                    f"old ResourceClaim with same name {info.claim_name} and different UID "
                    f"{held.claim_uid} still exists (previous pod force-deleted?!)"
                )
            held = self._note(pod, held)
            if key in self.cache.prepared:
                continue
            gone = [driver for driver in held.drivers if driver not in info.drivers]
            if gone:
                raise BadInputError(
                    f"a kubelet crashes over ResourceClaim {info.claim_name}: it holds the "
                    f"claim with driver {gone[0]}, which the claim's allocation no longer has"
                )
            unprepared.append(held)
        return unprepared

    def _checked_and_noted(self, pod: Pod, claims: Claims) -> Iterator[ClaimInfoState]:
        """Check one claim and note it, then the next; those that are not prepared.

        Source: v1.33.13 and v1.30.0 pkg/kubelet/cm/dra/manager.go PrepareResources
        """
        late = self._facts.noted_when_prepared
        for claim in self._fetched(pod, claims):
            key = claim.metadata.namespace or "", claim.metadata.name or ""
            known = self.cache.claims.get(key)
            held = known or new_claim_info(claim)
            if held is None:
                raise DraError(f"locked cache operation: claim {'/'.join(key)}: not allocated")
            if not late:
                held = self._note(pod, held)
            else:
                held = held.with_pod(pod.metadata.uid or "")
                if known is not None:
                    self.cache.put(held)
            if key not in self.cache.prepared:
                yield held

    def _note(self, pod: Pod, claim: ClaimInfoState) -> ClaimInfoState:
        noted = claim.with_pod(pod.metadata.uid or "")
        self.cache.put(noted)
        self.cache.sync_to_checkpoint()
        return noted

    def _node_prepare_resources(
        self, unprepared: Sequence[ClaimInfoState], answers: Mapping[str, Answer], order: MapOrder
    ) -> None:
        cache, client = self.cache, "failed to get gRPC client for driver "
        for driver, claim, result in self._calls("prepare", unprepared, answers, order, client):
            key = claim.namespace, claim.claim_name
            cache.put(cache.claims.get(key, claim).with_devices(driver, result.devices))
            if self._facts.noted_when_prepared:
                cache.prepared.add(key)
                cache.sync_to_checkpoint()
        cache.prepared.update((claim.namespace, claim.claim_name) for claim in unprepared)
        cache.sync_to_checkpoint()

    def _unprepare(
        self,
        uid: str,
        namespace: str,
        names: Sequence[str],
        answers: Mapping[str, Answer],
        order: MapOrder,
    ) -> None:
        """Source: v1.36.2 pkg/kubelet/cm/dra/manager.go unprepareResources."""
        last = []
        for name in names:
            claim = self.cache.claims.get((namespace, name))
            if claim is None:
                continue
            if len(claim.pod_uids) > 1:
                self.cache.put(claim.without_pod(uid))
            else:
                last.append(claim)
        client = "get gRPC client for DRA driver "
        for _ in self._calls("unprepare", last, answers, order, client):
            pass
        for claim in last:
            self.cache.delete((namespace, claim.claim_name))
        self.cache.sync_to_checkpoint()

    def _calls(
        self,
        verb: Verb,
        claims: Sequence[ClaimInfoState],
        answers: Mapping[str, Answer],
        order: MapOrder,
        client: str,
    ) -> Iterator[tuple[str, ClaimInfoState, Result]]:
        """Ask each driver for all its claims; what it says of each.

        Args:
            client: what an error says up to 1.33 of a driver that is not registered.
        """
        batches: Batches = {}
        for claim in claims:
            for driver in claim.drivers:
                batches.setdefault(driver, []).append(claim)
        failing = [
            driver
            for driver, asked in batches.items()
            if driver not in self.drivers or fails(asked, answers.get(driver, NOTHING))
        ]
        for driver in order.until_failure(batches, failing):
            if driver not in self.drivers:
                wrapped = "" if self._facts.errors_for_users else f"{client}{driver}: "
                raise DraError(f"{wrapped}{self._not_registered(driver)}")
            asked = batches[driver]
            self.calls.append((driver, verb, tuple(claim.claim_uid for claim in asked)))
            answer = answers.get(driver, NOTHING)
            for claim, result in read(verb, asked, answer, order, self._facts):
                yield driver, claim, result

    def _not_registered(self, driver: str) -> str:
        if self._facts.errors_for_users:
            return (
                f"DRA driver {driver} is not registered" if driver else "DRA driver name is empty"
            )
        if not driver:
            return "plugin name is empty"
        return f"plugin name {driver} not found in the list of registered DRA plugins"

    def _unknown(self, name: str, namespace: str) -> str:
        if not self._facts.errors_for_users:
            return (
                f"locked cache operation: unable to get claim info for claim {name} in namespace "
                f"{namespace}"
            )
        of = f" in namespace {namespace}" if self._facts.container_claims_alone else ""
        return f"internal error: unable to get claim info for ResourceClaim {name}{of}"

    def _told(self, verb: Verb, error: DraError) -> str:
        return f"{verb} dynamic resources: {error}" if self._facts.errors_for_users else str(error)


def is_used(pod: Pod, name: str | None) -> bool:
    """Whether a container uses the pod's claim of that name.

    Source: v1.30.0 pkg/kubelet/cm/dra/manager.go claimIsUsedByPod
    """
    each = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    used = (c.resources.claims or () for c in each if c.resources is not None)
    return any(claim.name == name for claims in used for claim in claims)


def _asks(container: Container, resource: str) -> bool:
    """Whether a container asks for an extended resource that a claim can stand for."""
    amount = container.requests.get(resource)
    return bool(
        amount is not None
        and NANOS[amount]
        and (resource.startswith(DEVICE_CLASS) or is_extended_resource(resource))
    )
