"""Resource claims: prepared once for all pods that share one, unprepared when the last one ends.

What the records say that a pod was given is given to the DRA manager as its drivers' answer; what
it then holds is what it must have held. A claim is given back when its pod ends, and, which is a
bug of all versions, when another pod that names it ends and was never given it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import msgspec

from kubeledger.kubelet.dra.claiminfo import Answer, ClaimInfoState, Device, DriverState, Result
from kubeledger.kubelet.dra.manager import Manager, is_used
from kubeledger.kubelet.kube import resourceclaim as api
from kubeledger.kubelet.kube.maporder import FIRST_ORDER
from kubeledger.kubelet.kube.pod import (
    Container,
    ContainerClaim,
    ObjectMeta,
    Pod,
    PodResourceClaim,
    PodSpec,
    ResourceRequirements,
)
from kubeledger.kubelet.preemption.explain import listing
from kubeledger.model.bodies.devicemanager import (
    ClaimDevice,
    ClaimPrepared,
    ClaimReleased,
    DraManagerStateRead,
)
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body, Decision, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, Ruling, judge, lacks, open_to, same
from kubeledger.verify.context import See, VerifyContext
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.finding import Row, Witnesses
from kubeledger.verify.rules.activity import lived, relied_on
from kubeledger.verify.variant import UNKNOWN

RULE_PREPARE: Final = "pkg/kubelet/cm/dra Manager.PrepareResources"
RULE_UNPREPARE: Final = "pkg/kubelet/cm/dra Manager.UnprepareResources"
_SHOWN_NS: Final = 10 * NS_PER_S
"""A snapshot is named by the second it began in; its files may be so much younger."""

Drivers = Mapping[str, tuple[ClaimDevice, ...]]
_Claim = ClaimPrepared | ClaimReleased
_Devices = frozenset[tuple[str, ClaimDevice]]
_FILE: Final = "dra_manager_state"


class ClaimVerifier(RuleVerifier):
    """The DRA manager's decisions."""

    rule = RULE_PREPARE
    decides: ClassVar[tuple[type[Decision], ...]] = (ClaimPrepared, ClaimReleased)

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._started_ns: int | None = None
        self._witnesses: Witnesses[_Devices] = Witnesses(_SHOWN_NS)

    def sees(self) -> Mapping[type[Body], See]:
        return {
            KubeletStarted: self._kubelet_started,
            ClaimPrepared: self._prepared,
            ClaimReleased: self._released,
            DraManagerStateRead: self._file_read,
        }

    def settle(self, state: NodeState) -> None:
        self._compare(None)

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._started_ns = record.ts_ns

    def _file_read(self, record: Record, body: DraManagerStateRead, state: NodeState) -> None:
        """What the file shows of the claims that pods hold by the records."""
        self._compare(record.ts_ns)
        if not relied_on(self.context, record, _FILE):
            return
        shown = {(uid, claim.uid): claim for claim in body.claims for uid in claim.pod_uids}
        for pod, claims in state.dra.pods.items():
            for uid, claim in claims.items():
                held = shown.get((pod, uid))
                if held is None and not lived(self.context, pod, record.ts_ns):
                    continue  # the line that gave it back may be lost
                has = "no such entry" if held is None else _words(held.drivers)
                text = f"the file has {has} for claim {claim.namespace}/{claim.claim}"
                row = Row(_FILE, (pod, uid), _set_of(held.drivers if held else {}),
                          record.seq, record.ts_ns, text)  # fmt: skip
                self._witnesses.note_reading(row)

    def _note(self, record: Record, body: _Claim, drivers: Drivers | None) -> None:
        """From now on a pod holds a claim, or, with None, perhaps not."""
        text = f"claim {body.namespace}/{body.claim} has {_words(drivers or {})}"
        value = None if drivers is None else _set_of(drivers)
        holder = body.pod_uid, body.claim_uid
        row = Row(_FILE, holder, value, record.seq, record.ts_ns, text)
        if drivers is not None and not self._witnesses.knows(_FILE, holder):
            before_ns = record.ts_ns - 2 * _SHOWN_NS
            self._witnesses.note_change(row._replace(value=frozenset(), ts_ns=before_ns))
        self._witnesses.note_change(row)

    def _compare(self, ts_ns: int | None) -> None:
        for told, shown in self._witnesses.passed(ts_ns):
            sides = (told.seq, told.text), (shown.seq, shown.text)
            why = f"{_FILE} shows another claim than the DRA manager prepared"
            if self.context.coverage.missing(told.ts_ns, shown.ts_ns) is None or shown.value:
                at_ns, absent, kind = shown.ts_ns, not shown.value, DraManagerStateRead.kind
                self.context.contradict(at_ns, "node", why, *sides, by_absence=absent, kind=kind)

    def _prepared(self, record: Record, body: ClaimPrepared, state: NodeState) -> None:
        self._compare(record.ts_ns)
        self._note(record, body, body.drivers)
        unknown = self._unknown() or self._unnamed(record, body)
        self.conclude(record, _subject(body), unknown or self._preparing(body, state))

    def _released(self, record: Record, body: ClaimReleased, state: NodeState) -> None:
        self._compare(record.ts_ns)
        self._note(record, body, None)
        held, found = state.dra.pods.get(body.pod_uid, {}), self._unknown()
        if body.claim_uid not in held or (body.namespace, body.claim) not in _held(state):
            found = found or lacks(("when the claim was prepared for the pod",))
        found = found or self._giving_back(record, body, state)
        if found.verdict == "match":
            found = self._reason(record, body, held[body.claim_uid].since_ts_ns)
        self.conclude(record, _subject(body), found, rule=RULE_UNPREPARE)

    def _unknown(self) -> Judgement | None:
        """The judgement where this version is not known, or has no claims."""
        profile = self.context.profile
        if profile is None:
            return lacks((self.context.missing_profile,))
        if profile.stages.dynamic_resources:
            return None
        if self.context.settings.get("featureGates") is UNKNOWN:
            return lacks(("the setting featureGates",))
        return same(False, "this kubelet prepares no claims: DynamicResourceAllocation is off")

    def _unnamed(self, record: Record, body: ClaimPrepared) -> Judgement | None:
        """That the pod does not name the claim, as far as that is known; None: it may."""
        listed = self.context.pods.of(record)
        used = self.context.known_profile.dra.noted_when_prepared
        names = None if listed is None else _names_of(listed, used=used)
        if listed is None or names is None:
            return lacks(("the pod's claims",))
        if body.claim in names:
            return None
        verb = "uses" if used else "names"
        why = f"the pod {verb} {' and '.join(sorted(names)) or 'no claim'}, not {body.claim}"
        return same(False, why, inputs=(listed.seq,))

    # -- what the manager does ---------------------------------------------------------------

    def _preparing(self, body: ClaimPrepared, state: NodeState) -> Judgement:
        """The drivers are asked if the claim is not prepared, and a start forgets that it is."""
        claim, before = _claim_of(body), _held(state)
        known = before.get((body.namespace, body.claim))
        of_pods = (claims.get(body.claim_uid) for claims in state.dra.pods.values())
        since_ns = min((each.since_ts_ns for each in of_pods if each is not None), default=0)
        again = known is not None and (self._started_ns or 0) > since_ns
        holders = _names(state, known.pod_uids) if known is not None else ""
        rulings = []
        for asked in (False, True) if again else (known is None,):
            drivers_known = {*body.drivers, *(known.drivers if known else ())}
            manager = Manager(self.context.known_profile.dra, drivers_known)
            manager.cache.claims = dict(before)
            if not asked:
                manager.cache.prepared = {*before}
            error = manager.prepare_resources(
                _pod_of(body),
                {(body.namespace, body.claim): claim},
                _answers(body, known if asked else None),
                FIRST_ORDER,
            )
            after = manager.cache.claims.get((body.namespace, body.claim))
            drivers = {} if error or after is None else after.drivers
            expected = {name: each.devices or () for name, each in drivers.items()}
            allowed = not error and expected == _devices(body.drivers)
            why = _why_prepared(error, holders, asked=asked, allowed=allowed)
            given = None if error else {"drivers": msgspec.to_builtins(expected)}
            rulings.append(Ruling(allowed=allowed, why=why, expected=given))
        # A driver may have been asked again or not, which no record shows.
        return judge([each for each in rulings if each.allowed] or rulings[:1])

    def _giving_back(self, record: Record, body: ClaimReleased, state: NodeState) -> Judgement:
        before = _held(state)
        key = body.namespace, body.claim
        claim_uid = before[key].claim_uid
        manager = Manager(self.context.known_profile.dra, before[key].drivers)
        manager.cache.claims = dict(before)
        # Its drivers unprepare the claim without an error.
        silent = dict.fromkeys(before[key].drivers, Answer(results={claim_uid: Result()}))
        manager.unprepare_resources(_pod_of(body), silent, FIRST_ORDER)
        unprepared = key not in manager.cache.claims
        others = _names(state, sorted({*before[key].pod_uids} - {body.pod_uid}))
        why = "no other pod refers to the claim, so its drivers unprepare it"
        coverage = self.context.coverage
        until_ns = min(record.ts_ns, coverage.last_line_ns)
        lost = coverage.missing(0, until_ns) is not None or self._is_named_by_others(record, body)
        if unprepared > body.unprepared and lost:
            return open_to("the other pods that refer to the claim", denied=why)
        if not unprepared:
            why = f"{others} refers to the claim, so only the reference goes"
        return same(unprepared == body.unprepared, why, expected={"unprepared": unprepared})

    # -- why it is given back ----------------------------------------------------------------

    def _reason(self, record: Record, body: ClaimReleased, since_ns: int) -> Judgement:
        """Its pod has ended; or another one that names the claim."""
        timeline, until_ns = self.context.timeline, record.ts_ns + _SHOWN_NS
        if (interval := timeline.interval_of(record)) is None:
            return lacks(("when the pod came",))
        if interval.ending_ns is not None and interval.ending_ns <= until_ns:
            gone = "its drivers unprepared it" if body.unprepared else "others still refer to it"
            return same(True, f"the pod had ended, and {gone}", inputs=(interval.seq,))
        ended = self._ended(interval, since_ns, until_ns)
        named = [other for other, names in ended if names is not None and body.claim in names]
        if named and body.unprepared:
            why = (
                f"pod {named[-1].full_name} ended, which names the claim and was never given it: "
                "it is unprepared under the pod that runs with it (kubernetes#140212)"
            )
            return same(True, why, inputs=(interval.seq, named[-1].seq))
        if interval.seen_ns <= until_ns:
            return lacks(("when the pod ended",))
        denied = "the pod lives on, and no other pod that names the claim has ended"
        unknown = any(names is None for _, names in ended)
        if unknown or timeline.active(since_ns, until_ns).loss is not None:
            return open_to("the claims of all other pods", denied=denied, inputs=(interval.seq,))
        return same(False, denied, inputs=(interval.seq,))

    def _is_named_by_others(self, record: Record, body: ClaimReleased) -> bool:
        """Whether another pod runs whose spec names the claim: the line that gave it is lost."""
        ts_ns = record.ts_ns
        return any(
            other.namespace == body.namespace
            and not self._witnesses.knows(_FILE, (other.uid, body.claim_uid))
            and (listed := self.context.pods.at(ts_ns, other.uid, other.namespace, other.name))
            and body.claim in (_names_of(listed) or ())
            for other in self.context.timeline.active(ts_ns, ts_ns).must.values()
        )

    def _ended(
        self, interval: PodActiveInterval, since_ns: int, until_ns: int
    ) -> list[tuple[PodActiveInterval, set[str] | None]]:
        """Other pods of its namespace that ended in a span, with their claims if known."""
        pods = self.context.pods
        ended = [
            (other, pods.at(until_ns, other.uid, other.namespace, other.name))
            for other in self.context.timeline.active(since_ns, until_ns).may.values()
            if other.ending_ns is not None and other.ending_ns <= until_ns
            if other.namespace == interval.namespace and other.key != interval.key
        ]
        return [(other, None if listed is None else _names_of(listed)) for other, listed in ended]


def _set_of(drivers: Drivers) -> _Devices:
    """The devices of a claim, each once: after a start of the kubelet they stand there twice."""
    return frozenset((name, each) for name, devices in drivers.items() for each in devices)


def _words(drivers: Drivers) -> str:
    names = [each.device or "?" for devices in drivers.values() for each in devices]
    return listing(dict.fromkeys(names)) or "no devices"


def _subject(body: _Claim) -> str:
    return f"pod/{body.namespace}/{body.pod or body.pod_uid}"


def _names_of(listed: ListedPod, *, used: bool = False) -> set[str] | None:
    """Names of a pod's claims; None where one was yet to be made, or the spec is unreadable.

    ``used``: of those that one of its containers uses.
    """
    try:
        pod = listed.as_(Pod)
    except msgspec.ValidationError:
        return None
    claims = pod.spec.resource_claims or ()
    found = [api.claim_name(pod, c) for c in claims if not used or is_used(pod, c.name)]
    if any(error for _, error in found):
        return None
    extended = pod.status.extended_resource_claim_status if pod.status is not None else None
    own = {extended.resource_claim_name} if extended is not None else set()
    return own | {name for name, _ in found if name is not None}


def _pod_of(body: _Claim) -> Pod:
    """The pod, with this claim alone."""
    claims = (PodResourceClaim(name=body.claim, resource_claim_name=body.claim),)
    meta = ObjectMeta(name=body.pod, namespace=body.namespace, uid=body.pod_uid)
    uses = ResourceRequirements(claims=(ContainerClaim(name=body.claim),))
    return Pod(metadata=meta, spec=PodSpec((Container(resources=uses),), resource_claims=claims))


def _claim_of(body: ClaimPrepared) -> api.ResourceClaim:
    """The claim as it must have been: given to these drivers, and to be used by this pod."""
    results = tuple(api.DeviceRequestAllocationResult(driver=name) for name in body.drivers)
    return api.ResourceClaim(
        api.ClaimMeta(name=body.claim, namespace=body.namespace, uid=body.claim_uid),
        api.ResourceClaimStatus(
            api.AllocationResult(api.DeviceAllocationResult(results)),
            (api.ConsumerReference(body.pod_uid),),
        ),
    )


def _held(state: NodeState) -> dict[tuple[str, str], ClaimInfoState]:
    found: dict[tuple[str, str], ClaimInfoState] = {}
    for pod_uid, claims in state.dra.pods.items():
        for uid, claim in claims.items():
            key = claim.namespace, claim.claim
            drivers = {n: DriverState(each) for n, each in _devices(claim.drivers).items()}
            made = ClaimInfoState(uid, claim.claim, claim.namespace, (), drivers)
            known = found.get(key, made)
            found[key] = (known if known.claim_uid == uid else made).with_pod(pod_uid)
    return found


def _devices(drivers: Drivers) -> dict[str, tuple[Device, ...]]:
    return {
        name: tuple(
            Device(
                pool_name=each.pool or "",
                device_name=each.device or "",
                request_names=each.requests or None,
                cdi_device_ids=each.cdi_device_ids or None,
            )
            for each in devices
        )
        for name, devices in drivers.items()
    }


def _answers(body: ClaimPrepared, known: ClaimInfoState | None) -> dict[str, Answer]:
    """What the drivers must have said: what they did not say before."""
    answers = {}
    for name, devices in _devices(body.drivers).items():
        before = known.drivers[name].devices if known is not None and name in known.drivers else ()
        said = devices[len(before or ()) :] if devices[: len(before or ())] == before else devices
        answers[name] = Answer(results={body.claim_uid: Result(devices=said)})
    return answers


def _names(state: NodeState, uids: Iterable[str]) -> str:
    """Pods that hold a claim, by name where it is known."""
    named = ((uid, next(iter(state.dra.pods[uid].values()))) for uid in uids)
    return ", ".join(
        f"pod {claim.namespace}/{claim.pod}" if claim.pod else f"pod {uid}" for uid, claim in named
    )


def _why_prepared(error: str, holders: str, *, asked: bool, allowed: bool) -> str:
    """Args: ``holders``: pods that had the claim before; empty for none."""
    if error:
        return f"the kubelet prepares nothing: {error}"
    if not holders:
        return "the claim was not prepared, so its drivers were asked"
    if not allowed:
        return f"the claim is prepared for {holders} with other devices"
    if asked:
        return "the kubelet had started again, so the claim's drivers were asked once more"
    return f"the claim was prepared for {holders} before, so its drivers were not asked again"
