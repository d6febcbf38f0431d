"""Granted devices: could the kubelet have taken them, out of what was there just then?

A grant that only a later checkpoint shows is judged when its container was aligned, asked or
its pod admitted, with what was held then; the finding waits for the record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kubeledger.devicemanager.records import DevicesAllocated
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.devices.account import open_inputs, surroundings, taken
from kubeledger.verify.devices.desk import Desk, Request, SetUp, when_of
from kubeledger.verify.devices.entries import misplaced
from kubeledger.verify.devices.foresight import Entry, Holder, When, all_ids
from kubeledger.verify.devices.holdings import Held
from kubeledger.verify.devices.words import joined, listing
from kubeledger.verify.devices.worlds import Judged, judge
from kubeledger.verify.finding import Verdict
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.activity import is_active

__all__ = ["RULE", "Grants"]

RULE = "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate"
_SETTLING_NS = 2_000_000_000


class _Early(NamedTuple):
    """A grant judged before its record comes."""

    set_up: SetUp
    judged: Judged | None


class _Grant(NamedTuple):
    """A grant, and what is known of its moment.

    Attributes:
        holder: to whom the record gives the devices.
        devices: that it gives.
        caused: the request that the record names as its cause.
        listed: the pod, as lists show it.
        set_up: what the allocation saw.
        judged: by that; None where it is not known.
        early: judged before the record came.
        stranded: pods that had ended and held what was granted.
        entry: the checkpoint entry that agrees with the grant.
        disputed: the one that does not.
    """

    record: Record
    body: DevicesAllocated
    holder: Holder
    devices: frozenset[str]
    caused: Request | None
    listed: ListedPod | None
    set_up: SetUp
    judged: Judged | None
    early: bool
    stranded: list[str]
    entry: Entry | None
    disputed: Entry | None

    @property
    def asked_by_another(self) -> bool:
        """Another container asked than the one that the record names."""
        return self.caused is not None and self.caused.holder != self.holder


class _Verdict(NamedTuple):
    verdict: Verdict
    why: str
    expected: dict[str, Any] | None
    missing: tuple[str, ...] = ()


class Grants:
    """Findings for ``DevicesAllocated``."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._early: dict[tuple[Holder, int], _Early] = {}

    def allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> None:
        """A grant: judge it, then let the container hold what it got."""
        grant = self._gather(record, body, state)
        found = self._verdict(grant)
        if grant.disputed is not None and not grant.asked_by_another:
            self._contradict(record, body, grant.disputed, state)
        self._tell(grant, state, found)
        self._hand_over(grant, found)
        if grant.caused is not None:
            self._desk.requests.pop(grant.caused.seq, None)

    def _gather(self, record: Record, body: DevicesAllocated, state: NodeState) -> _Grant:
        desk, when = self._desk, when_of(record)
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        holder = (pod, body.container, body.resource)
        devices = frozenset(body.device_ids)
        stranded: list[str] = []
        early = self._early.pop((holder, record.seq), None)
        caused = desk.requests.get(record.cause or 0)
        listed = desk.pod(when, body.pod_uid, body.namespace, body.pod)
        if early is not None:
            set_up, judged = early
        else:
            if body.told_by == "call":
                desk.holdings.restore_failed(holder)
            is_its = caused is not None and caused.holder == holder
            request = caused if is_its else desk.request_of(holder)
            set_up = desk.set_up(state, when, holder, listed, request)
            judged = judge(set_up.evidence, devices) if set_up.evidence is not None else None
            if judged is not None and (judged.fits == "none" or judged.lost):
                stranded = self._stranded(set_up, devices, state)
        entry, disputed = None, None
        if body.told_by != "checkpoint":
            entry, disputed = self._checkpointed(holder, devices, when)
        return _Grant(
            record,
            body,
            holder,
            devices,
            caused,
            listed,
            set_up,
            judged,
            early is not None,
            stranded,
            entry,
            disputed,
        )

    def _verdict(self, grant: _Grant) -> _Verdict:
        """By the first that has something to say: who got it, other sources, the rule."""
        return (
            self._foreign(grant)
            or self._told_twice(grant)
            or _untold(grant)
            or self._by_rule(grant)
        )

    def _hand_over(self, grant: _Grant, found: _Verdict) -> None:
        """To the container that asked, if that was another."""
        holder, entry, disputed = grant.holder, grant.entry, grant.disputed
        if grant.caused is not None and grant.asked_by_another:
            holder = grant.caused.holder
            entry, disputed = self._checkpointed(holder, grant.devices, when_of(grant.record))
            found = found._replace(verdict="match")  # what is wrong is not the devices
        if entry is not None:
            found = found._replace(verdict="match")  # a checkpoint holds the same devices
        self._hold(holder, grant, found, disputed)

    def _stranded(self, set_up: SetUp, devices: frozenset[str], state: NodeState) -> list[str]:
        """Pods that had ended and held what was granted: that they were let go of is not told.

        Empty when the grant does not fit even without them.
        """
        evidence = set_up.evidence
        assert evidence is not None
        taken = devices & evidence.in_use.certain - evidence.reuse
        pods = {evidence.in_use.holders[device][0] for device in taken}
        if not pods or any(
            is_active(state, self._desk.bench.pods, pod)[0] is not False for pod in pods
        ):
            return []
        in_use = msgspec.structs.replace(
            evidence.in_use,
            certain=evidence.in_use.certain - taken,
            maybe=evidence.in_use.maybe | taken,
        )
        without = msgspec.structs.replace(evidence, in_use=in_use)
        if judge(without, devices).fits == "none":
            return []
        return [self._desk.name(state, pod) for pod in pods]

    def _foreign(self, grant: _Grant) -> _Verdict | None:
        """Is it the container that asked, of the pod that is named?"""
        body, set_up = grant.body, grant.set_up
        if grant.caused is not None and grant.asked_by_another:
            pod, container, resource = grant.caused.holder
            expected = {"pod_uid": pod, "container": container, "resource": resource}
            why = (
                f"container {container} of pod {pod} asked for {resource}, and nobody else, "
                f"so container {body.container} cannot have got {body.resource}"
            )
            return _Verdict("impossible", why, expected)
        named = self._desk.misnamed(grant.listed, body.pod_uid, body.namespace, body.pod)
        if named is not None:
            why = f"pod {body.pod_uid} is {named['namespace']}/{named['pod']} in the pod list"
            return _Verdict("impossible", why, named)
        asks = set_up.asks
        if asks is not None and not (set_up.limit or 0):
            has = f"container {body.container} has no limit on {body.resource}"
            if asks.of(body.container) is None:
                has = f"the pod has no container {body.container}"
            return _Verdict("impossible", f"{has}, so nothing is allocated to it", None)
        return None

    def _told_twice(self, grant: _Grant) -> _Verdict | None:
        """Do other sources tell the same of it?"""
        body, entry, disputed = grant.body, grant.entry, grant.disputed
        request, limit = grant.set_up.request, grant.set_up.limit
        if request is not None and limit is not None and request.needed != limit:
            why = (
                f"the log says that container {body.container} needs "
                f"{request.needed} {body.resource}, its spec has a limit of {limit}"
            )
            return _Verdict("impossible", why, None)
        if disputed is not None:
            ids = sorted(all_ids(disputed.numa))
            why = (
                f"the checkpoint written after it holds {listing(ids)} for container "
                f"{body.container}, not {listing(body.device_ids)}"
            )
            return _Verdict("impossible", why, {"device_ids": ids})
        if body.numa is None:
            return None
        if all_ids(body.numa) != frozenset(body.device_ids):
            why = f"its NUMA record holds {listing(all_ids(body.numa))}"
            return _Verdict("impossible", why, {"numa": _plain(entry.numa) if entry else None})
        if entry is not None and "" not in entry.numa and entry.numa != body.numa:
            why = "the checkpoint has the devices under other NUMA nodes"
            return _Verdict("impossible", why, {"numa": _plain(entry.numa)})
        if (elsewhere := misplaced(self._desk, grant.holder, body.numa)) is not None:
            why = "the checkpoint has the devices under other NUMA nodes when others hold them"
            return _Verdict("impossible", why, {"numa": elsewhere})
        return None

    def _by_rule(self, grant: _Grant) -> _Verdict:
        body, devices, judged, entry = grant.body, grant.devices, grant.judged, grant.entry
        if len(body.device_ids) != len(devices):
            return _Verdict("impossible", "a device is granted twice in one grant", None)
        evidence = grant.set_up.evidence
        if evidence is None or judged is None:
            return _Verdict("unverifiable", "", None, grant.set_up.missing)
        expected: dict[str, Any] = {"device_ids": sorted(judged.choice or ())}
        if judged.fits == "none":
            why = f"{judged.why}: {surroundings(evidence, self._desk)}"
            return _Verdict("impossible", why, expected if judged.choice else None)
        if judged.fits == "some":
            return _Verdict("unverifiable", "", None, open_inputs(evidence, judged.open, devices))
        same = judged.choice == devices
        if same and body.numa is not None and entry is not None:
            expected["numa"] = _plain(entry.numa)
        why = taken(evidence, devices, self._desk)
        return _Verdict("match" if same else "admissible", why, expected)

    def _tell(self, grant: _Grant, state: NodeState, found: _Verdict) -> None:
        record, body, entry = grant.record, grant.body, grant.entry or grant.disputed
        subject = f"container/{self._desk.name(state, grant.holder[0])}/{body.container}"
        if body.namespace and body.pod:
            subject = f"container/{body.namespace}/{body.pod}/{body.container}"
        if found.verdict == "unverifiable":
            self._desk.bench.unverifiable(record, subject=subject, missing=found.missing, rule=RULE)
            return
        fields = {"device_ids": list(body.device_ids)}
        if found.expected is not None:
            fields = {name: _field(body, name) for name in found.expected}
        self._desk.bench.find(
            record,
            found.verdict,
            subject=subject,
            why=found.why,
            expected=found.expected,
            recorded=fields,
            rule=RULE,
            inputs=(*grant.set_up.seqs, *((entry.when[1],) if entry is not None else ())),
        )

    def _hold(self, holder: Holder, grant: _Grant, found: _Verdict, disputed: Entry | None) -> None:
        """What the container holds from now on; a lie is not built upon."""
        seq = grant.record.seq
        holdings = self._desk.holdings
        if disputed is not None:
            # Log or checkpoint lies: nobody else is blamed for what either says.
            holdings.take(holder, Held(all_ids(disputed.numa), seq, disputed=True))
        elif found.verdict != "impossible":
            holdings.take(holder, Held(grant.devices, seq))
        elif holdings.get(holder) is None or grant.early:
            holdings.take(holder, Held(None, seq))

    def _checkpointed(
        self, holder: Holder, devices: frozenset[str], when: When
    ) -> tuple[Entry | None, Entry | None]:
        """The checkpoint entry that agrees with a grant, or the one that does not."""
        later = [
            entry
            for entry in self._desk.foresight.entries.get(holder, ())
            if entry.last[0] + _SETTLING_NS >= when[0]
        ]
        agreeing = next((entry for entry in later if all_ids(entry.numa) == devices), None)
        if agreeing is not None:
            return agreeing, None
        disputing = next((entry for entry in later if entry.when > when), None)
        if disputing and self._desk.foresight.may_change(holder[0], when, disputing.when):
            return None, None
        return None, disputing

    def _contradict(
        self, record: Record, body: DevicesAllocated, entry: Entry, state: NodeState
    ) -> None:
        pod = self._desk.name(state, body.pod_uid or f"{body.namespace}/{body.pod}")
        self._desk.bench.contradict(
            max(record.ts_ns, entry.when[0]),
            f"container/{pod}/{body.container}",
            f"log and checkpoint name different devices of {body.resource} for one allocation",
            (record.seq, f"container {body.container} got {listing(body.device_ids)}"),
            (entry.when[1], f"it holds {listing(all_ids(entry.numa))}"),
        )

    def shown_later(
        self, record: Record, pod: str, container: str | None, state: NodeState
    ) -> None:
        """A pod's containers get devices about now; a checkpoint showed later which.

        Args:
            record: that tells of the moment.
            pod: key of the pod.
            container: None for all.
            state: just before.
        """
        desk, when = self._desk, when_of(record)
        due = desk.foresight.late_of(pod)
        if not due:
            return
        listed = desk.pod(when, pod if "/" not in pod else None, *_split(pod))
        asks = desk.asks(listed, pod)
        order = {asker.name: index for index, asker in enumerate(asks.askers)} if asks else {}
        for holder in sorted(due, key=lambda one: (order.get(one[1], 0), one)):
            if container is not None and holder[1] != container:
                continue
            grant = next(((w, b) for w, b in due[holder] if w > when), None)
            if grant is None or (holder, grant[0][1]) in self._early:
                continue
            current = desk.holdings.get(holder)
            if current is not None and current.certain:
                continue
            (_, seq), body = grant
            devices = frozenset(body.device_ids)
            set_up = desk.set_up(state, when, holder, listed, desk.request_of(holder))
            judged = judge(set_up.evidence, devices) if set_up.evidence is not None else None
            self._early[holder, seq] = _Early(set_up, judged)
            desk.holdings.take(holder, Held(devices, seq))


def _untold(grant: _Grant) -> _Verdict | None:
    """Is it told at all when it was granted, and that what ended pods held was let go of?"""
    if grant.body.told_by != "call" and not grant.early:
        return _Verdict("unverifiable", "", None, (_when_missing(grant.body),))
    if grant.stranded:
        whose = joined(sorted(grant.stranded))
        return _Verdict("unverifiable", "", None, (f"the release of the devices of {whose}",))
    return None


def _split(pod: str) -> tuple[str | None, str | None]:
    namespace, slash, name = pod.partition("/")
    return (namespace, name) if slash else (None, None)


def _when_missing(body: DevicesAllocated) -> str:
    if body.told_by == "restore":
        return "the log of the kubelet process that allocated the devices"
    return "the log of the pod's admission"


def _plain(numa: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {node: list(ids) for node, ids in numa.items()}


def _field(body: DevicesAllocated, name: str) -> Any:  # noqa: ANN401 # any field of a body
    value = getattr(body, name)
    if name == "numa" and value is not None:
        return _plain(value)
    return list(value) if isinstance(value, tuple) else value
