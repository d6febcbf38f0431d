"""Resource claims of pods: prepared before their sandboxes, unprepared when they have ended.

Drivers are outside of the kubelet: they give what the scenario says, and unprepare at once. What
is asked of them the kubelet's own manager decides.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.dra.claiminfo import ClaimInfoState, Device
from kubeledger.kubelet.dra.manager import Manager
from kubeledger.kubelet.dra.plugin import Answer, Result
from kubeledger.kubelet.kube import resourceclaim as api
from kubeledger.kubelet.kube.maporder import FIRST_ORDER
from kubeledger.kubelet.kube.pod import Pod, PodResourceClaimStatus, PodStatus
from kubeledger.model.bodies.dra import ClaimDevice, ClaimPrepared, ClaimReleased
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.plan import PlannedClaim
from kubeledger.simulate.engine.world import SimPod

_RECONCILE_NS = 60 * NS_PER_S

_Held = dict[tuple[str, str], ClaimInfoState]


class ClaimLoop:
    """The DRA manager of one kubelet process."""

    def __init__(self, kubelet: Kubelet) -> None:
        sim = kubelet.sim
        self._kubelet = kubelet
        self._on = sim.profile.stages.dynamic_resources
        self._claims = {
            (pod.manifest["metadata"]["namespace"], claim.name): claim
            for pod in sim.plan.pods
            for claim in pod.claims
        }
        self._manager = Manager(sim.profile.dra)
        self._manager.cache = sim.claims
        sim.claims.restart()

    def start(self) -> None:
        """What pods held that are gone is unprepared, again and again."""
        if self._on and self._claims:
            self._kubelet.every(_RECONCILE_NS, self._reconcile)

    def prepare(self, pod: SimPod) -> str:
        """Prepare a pod's claims; the error, or nothing.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod
        """
        if not self._on or not pod.claims:
            return ""
        before = self._begin()
        answers = self._answers(pod)
        claims = {(pod.namespace, claim.name): _api_claim(pod, claim) for claim in pod.claims}
        error = self._manager.prepare_resources(_seen(pod), claims, answers, FIRST_ORDER)
        if not error:
            for claim in pod.claims:
                held = self._manager.cache.claims[pod.namespace, claim.name]
                if before.get((pod.namespace, claim.name)) != held:
                    self._kubelet.sim.journal.write(_prepared(pod, held))
        return error

    def unprepare(self, pod: SimPod, cause: int | None) -> str:
        """Give a pod's claims back; the error, with which its end waits, or nothing.

        Source: v1.36.2 pkg/kubelet/kubelet.go SyncTerminatingPod
        """
        if not self._on or not pod.claims:
            return ""
        before = self._begin()
        error = self._manager.unprepare_resources(_seen(pod), self._answers(), FIRST_ORDER)
        self._tell(before, cause)
        return error

    def _reconcile(self) -> None:
        pods = self._kubelet.sim.world.pods
        active = {uid for uid, pod in pods.items() if pod.admitted and not pod.terminated}
        if self._kubelet.pods.sources_ready:
            before = self._begin()
            self._manager.reconcile(active, self._answers(), FIRST_ORDER)
            self._tell(before, None)

    def _begin(self) -> _Held:
        """What is held; drivers are those that are registered now."""
        failures = self._kubelet.sim.failures
        drivers = {name for claim in self._claims.values() for name in claim.drivers}
        self._manager.drivers = {
            name for name in drivers if failures.words("driver", None, name) is None
        }
        return dict(self._manager.cache.claims)

    def _answers(self, pod: SimPod | None = None) -> dict[str, Answer]:
        """What each driver says when it is asked to prepare for a pod, or to unprepare."""
        failures, node = self._kubelet.sim.failures, self._kubelet.sim.plan.node.name
        answers: dict[str, dict[str, Result]] = {}
        for claim in self._claims.values() if pod is None else pod.claims:
            words = None if pod is None else failures.words("claim", pod, claim.in_spec)
            for driver, names in claim.drivers.items():
                devices = tuple(
                    Device(node, name, cdi_device_ids=(f"{driver}/device={name}",))
                    for name in names
                )
                said = Result(devices=devices) if words is None else Result(error=words)
                answers.setdefault(driver, {})[claim.uid] = said
        return {driver: Answer(results=results) for driver, results in answers.items()}

    def _tell(self, before: _Held, cause: int | None) -> None:
        """Who no longer holds which claim."""
        pods, after = self._kubelet.sim.world.pods, self._manager.cache.claims
        for key, claim in before.items():
            left = after.get(key)
            for uid in claim.pod_uids:
                if left is not None and uid in left.pod_uids:
                    continue
                known = pods.get(uid)
                body = ClaimReleased(
                    namespace=claim.namespace,
                    pod=None if known is None else known.name,
                    pod_uid=uid,
                    claim=claim.claim_name,
                    claim_uid=claim.claim_uid,
                    unprepared=left is None,
                )
                self._kubelet.sim.journal.write(body, cause=cause)


def _seen(pod: SimPod) -> Pod:
    """The pod with the claims that were made for it, which its status names."""
    made = tuple(
        PodResourceClaimStatus(name=claim.in_spec, resource_claim_name=claim.name)
        for claim in pod.claims
        if claim.is_made
    )
    return msgspec.structs.replace(pod.api, status=PodStatus(resource_claim_statuses=made))


def _api_claim(pod: SimPod, claim: PlannedClaim) -> api.ResourceClaim:
    """A claim of a pod as the API server has it."""
    owners = (api.OwnerReference(pod.uid, controller=True),) if claim.is_made else ()
    results = tuple(
        api.DeviceRequestAllocationResult(driver=driver)
        for driver, devices in claim.drivers.items()
        for _ in devices
    )
    reserved = (api.ConsumerReference(pod.uid),) if claim.is_reserved else ()
    return api.ResourceClaim(
        api.ClaimMeta(claim.name, pod.namespace, claim.uid, owners),
        api.ResourceClaimStatus(
            api.AllocationResult(api.DeviceAllocationResult(results)), reserved
        ),
    )


def _prepared(pod: SimPod, held: ClaimInfoState) -> ClaimPrepared:
    return ClaimPrepared(
        **pod.identity,
        claim=held.claim_name,
        claim_uid=held.claim_uid,
        drivers={
            name: tuple(
                ClaimDevice(
                    pool=each.pool_name,
                    device=each.device_name,
                    requests=each.request_names or (),
                    cdi_device_ids=each.cdi_device_ids or (),
                )
                for each in state.devices or ()
            )
            for name, state in sorted(held.drivers.items())
        },
    )
