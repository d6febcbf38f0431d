"""Merged hints: does the policy come to this hint, and admit with it?"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple, get_args

from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.topologymanager.bitmask import BITS_MAX, bits_of
from kubeledger.topologymanager.decider import decide
from kubeledger.topologymanager.hint import Hints, ProviderHints, TopologyHint
from kubeledger.topologymanager.options import PREFER_CLOSEST
from kubeledger.topologymanager.policies import Policy, PolicyName
from kubeledger.topologymanager.records import AffinityDecided, Hint, HintsGenerated
from kubeledger.verify.devices.desk import Affinity, Desk, when_of
from kubeledger.verify.devices.hint_words import difference, hint_text, hints_text, mask, merged
from kubeledger.verify.devices.hints import wrong_hints
from kubeledger.verify.devices.words import joined
from kubeledger.verify.settings import UNKNOWN
from kubeledger.verify.variant import RECORDED

__all__ = ["Affinities"]

RULE = "pkg/kubelet/cm/topologymanager/policy.go mergeFilteredHints"
_KEPT_MAX = 64
_SCOPE = "topologyManagerScope"
_POLICY = "topologyManagerPolicy"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class _Offer(NamedTuple):
    """Hints that were generated.

    Attributes:
        lines: log lines that hold providers' hints; 0 when the source is no log.
        disputed: (n,) resources whose hints are not those of the devices that were there.
        unclear: resources of which no line tells whether they had no preference or no hint.
    """

    seq: int
    pod: str
    body: HintsGenerated
    lines: int
    disputed: tuple[str, ...] = ()
    unclear: frozenset[str] = frozenset()


class _Rules(NamedTuple):
    policy: Policy
    scope: Any
    prefers_closest: bool

    def leaves_open(self, hint: TopologyHint) -> bool:
        """Distances decide among hints of several nodes, and they are not known."""
        size = (hint.affinity or 0).bit_count()
        return self.prefers_closest and 2 <= size < len(self.policy.numa_nodes)


class Affinities:
    """Findings for ``AffinityDecided``."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._offers: OrderedDict[int, _Offer] = OrderedDict()
        self._scope_told: int | None = None

    def restarted(self) -> None:
        """A new kubelet process knows no hints."""
        self._offers.clear()

    def offered(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        """Hints came in: look whether the device manager can have given them, and keep them."""
        desk = self._desk
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        lines = sum("TopologyHints" in (piece.text or "") for piece in record.evidence)
        offer = _Offer(record.seq, pod, body, lines, unclear=_unclear(record, body))
        self._offers[record.seq] = offer
        if len(self._offers) > _KEPT_MAX:
            self._offers.popitem(last=False)
        if body.container is not None and (disputed := self._check(record, offer, state)):
            self._offers[record.seq] = offer._replace(disputed=disputed)

    def _check(self, record: Record, offer: _Offer, state: NodeState) -> tuple[str, ...]:
        """Hints of devices against the devices that were there; gives the disputed resources."""
        disputed = []
        desk, body = self._desk, offer.body
        when = when_of(record)
        listed = desk.pod(when, body.pod_uid, body.namespace, body.pod)
        for resource, hints in body.hints.items():
            if resource not in desk.foresight.lists.resources:
                continue
            holder = (offer.pod, body.container or "", resource)
            set_up = desk.set_up(state, when, holder, listed, None)
            if set_up.evidence is None or not set_up.limit or resource in offer.unclear:
                continue
            why = wrong_hints(set_up.evidence, hints)
            if why and wrong_hints(set_up.evidence.of_sure_holders(), hints):
                disputed.append(resource)
                desk.bench.contradict(
                    record.ts_ns,
                    f"container/{body.namespace}/{body.pod}/{body.container}",
                    f"the hints for {resource} are not those of the devices that were there",
                    (record.seq, f"hints for {resource}: {hints_text(hints)}"),
                    (max(set_up.evidence.listed.seqs, default=record.seq), why),
                    by_absence=True,
                )
        return tuple(disputed)

    def decided(self, record: Record, body: AffinityDecided, state: NodeState) -> None:
        """Judge a merged hint, and remember what was stored."""
        desk = self._desk
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        offer = self._offers.get(record.cause or 0)
        name = (
            f"{body.namespace}/{body.pod}" if body.namespace and body.pod else desk.name(state, pod)
        )
        subject = f"container/{name}/{body.container}" if body.container else f"pod/{name}"
        rules, missing = self._rules(body, state, offer)
        if offer is None:
            missing = (*missing, "the hints of the providers")
        masks = {mask(body.hint)}
        if missing or rules is None or offer is None:
            desk.bench.unverifiable(record, subject=subject, missing=missing, rule=RULE)
        else:
            masks = self._judge(record, body, subject, rules, offer, pod)
        without = frozenset(
            resource
            for resource, hints in (offer.body.hints if offer else {}).items()
            if hints is None
        )
        stored = Affinity(
            record.seq, tuple(sorted(masks, key=lambda m: -1 if m is None else m)), without
        )
        desk.store(pod, body.container or "", stored)

    def _rules(
        self, body: AffinityDecided, state: NodeState, offer: _Offer | None
    ) -> tuple[_Rules | None, tuple[str, ...]]:
        """Policy and machine; or what is missing of them."""
        bench = self._desk.bench
        missing: list[str] = []
        if bench.profile is None:
            missing.append(bench.missing_profile)
        policy = bench.settings.get(_POLICY)
        if policy is UNKNOWN:
            policy = body.policy
        if policy not in get_args(PolicyName):
            missing.append(_POLICY)
        nodes = self._desk.told_nodes(state) or self._nodes_of_others(body, offer)
        if not nodes or not all(0 <= node < BITS_MAX for node in nodes):
            missing.append("the NUMA nodes of the machine")
        if missing or nodes is None:
            return None, tuple(missing)
        options = bench.settings.get("topologyManagerPolicyOptions")
        closest = isinstance(options, dict) and str(options.get(PREFER_CLOSEST, "")) in _TRUE
        rules = Policy(name=policy, numa_nodes=nodes)
        return _Rules(rules, bench.settings.get(_SCOPE), closest), ()

    def _nodes_of_others(
        self, body: AffinityDecided, offer: _Offer | None
    ) -> tuple[int, ...] | None:
        """Without any hint, all nodes are merged: those that most other decisions came to."""
        own = None
        if offer is not None and not _any(offer.body):
            own = body.hint.numa_nodes
        return self._desk.foresight.voted(own)

    def _judge(
        self,
        record: Record,
        body: AffinityDecided,
        subject: str,
        rules: _Rules,
        offer: _Offer,
        pod: str,
    ) -> set[int | None]:
        """Decide again; gives the masks that the topology manager may have stored."""
        bench = self._desk.bench
        assert bench.profile is not None
        inputs = (offer.seq, *(() if bench.settings.seq is None else (bench.settings.seq,)))
        policy = rules.policy
        if policy.name == "none":
            bench.find(
                record,
                "impossible",
                subject=subject,
                why="with policy none no hints are merged and no affinity is stored",
                expected=None,
                recorded=_recorded(body, ("hint", "policy")),
                rule=RULE,
                inputs=inputs,
            )
            return {None}
        hint, admits = decide(policy, [_provider(offer.body)], bench.profile.topology)
        wrong = self._wrong_subject(body, rules, offer, pod)
        if not wrong:
            self._scope(record, body, subject, rules.scope)
        expected = self._expected(body, policy, hint, admits=admits) | wrong
        recorded = _recorded(body, tuple(expected))
        if body.disputed is not None and recorded["hint"] == expected["hint"]:
            recorded["hint"] = _plain_hint(body.disputed)
            self._disputed(record, body, subject)
        same = recorded == expected
        is_open = rules.leaves_open(hint) and recorded["hint"] != expected["hint"]
        if is_open or not (same or wrong or self._is_sure(offer)):
            missing = (_open_input(offer, open_distance=rules.leaves_open(hint)),)
            bench.unverifiable(record, subject=subject, missing=missing, rule=RULE)
            return {mask(body.hint)}
        why = merged(policy, offer.body, hint, admits=admits)
        bench.find(
            record,
            "match" if same else "impossible",
            subject=subject,
            why=why if same else f"{why}, not {difference(recorded, expected)}",
            expected=expected,
            recorded=recorded,
            rule=RULE,
            inputs=inputs,
        )
        # A variant's decision stands; of the recorded one, either may have been stored.
        return {hint.affinity, *([mask(body.hint)] if bench.variant == RECORDED else [])}

    def _expected(
        self, body: AffinityDecided, policy: Policy, hint: TopologyHint, *, admits: bool
    ) -> dict[str, Any]:
        """What the record has to say; only of what its source tells."""
        expected: dict[str, Any] = {"hint": _plain(hint)}
        if body.admit is not None:
            expected["admit"] = admits
        if body.policy is not None and self._is_own(_POLICY):
            expected["policy"] = policy.name
        return expected

    def _wrong_subject(
        self, body: AffinityDecided, rules: _Rules, offer: _Offer, pod: str
    ) -> dict[str, Any]:
        """Fields that say for whom hints were merged, where it was for another."""
        wrong = _foreign(body, offer, pod)
        if _SCOPE in self._desk.bench.variant.settings and rules.scope == "pod" and body.container:
            wrong.setdefault("container", None)
        return wrong

    def _is_sure(self, offer: _Offer) -> bool:
        """Whether the hints are all there are, and no line disputes them."""
        return not offer.disputed and self._whole(offer)

    def _is_own(self, setting: str) -> bool:
        """Whether a setting is the recorded one, and its sources agree."""
        bench = self._desk.bench
        return setting not in bench.settings.disputed | bench.variant.settings.keys()

    def _scope(self, record: Record, body: AffinityDecided, subject: str, scope: Any) -> None:  # noqa: ANN401 # any JSON value
        """Hints and merged hint are about a container, or a pod: the setting tells which."""
        bench = self._desk.bench
        if not self._is_own(_SCOPE):
            return
        own = "pod" if body.container is None else "container"
        settings = bench.settings.seq
        if settings is None or scope not in ("pod", "container") or scope == own:
            return
        if settings == self._scope_told:
            return
        self._scope_told = settings
        bench.contradict(
            record.ts_ns,
            subject,
            f"{_SCOPE} is {scope} by the settings, and hints were merged for a {own}",
            (settings, f"{_SCOPE} = {scope}"),
            (record.seq, f"hints merged for a {own}"),
        )

    def _disputed(self, record: Record, body: AffinityDecided, subject: str) -> None:
        assert body.disputed is not None
        self._desk.bench.contradict(
            record.ts_ns,
            subject,
            "lines about one merged hint name different hints",
            (record.seq, f"the merged hint is {hint_text(body.hint)}"),
            (record.seq, f"the merged hint is {hint_text(body.disputed)}"),
        )

    def _whole(self, offer: _Offer) -> bool:
        """Whether hints of all providers are there: each writes a line of its own."""
        if offer.unclear:
            return False
        if not offer.lines:
            return True
        bench = self._desk.bench
        gates = bench.settings.get("featureGates")
        gates = gates if isinstance(gates, dict) else {}
        minor = bench.profile.version.minor if bench.profile is not None else 0
        providers = 1 + (gates.get("CPUManager", True) is not False)
        memory = gates.get("MemoryManager", minor >= 22)
        return offer.lines >= providers + (memory is not False)


def _open_input(offer: _Offer, *, open_distance: bool) -> str:
    if open_distance:
        return "the distances of the NUMA nodes"
    if offer.disputed:
        return f"undisputed hints for {joined(offer.disputed)}"
    return "the hints of every provider"


def _unclear(record: Record, body: HintsGenerated) -> frozenset[str]:
    """Go writes no preference and no possible hint alike; another line tells them apart."""
    texts = [piece.text or "" for piece in record.evidence]
    if not any("TopologyHints for pod" in text for text in texts):
        return frozenset()
    told = [text for text in texts if "no possible NUMA affinities" in text]
    return frozenset(
        resource
        for resource, hints in body.hints.items()
        if hints == () and not any(f"'{resource}'" in text for text in told)
    )


def _foreign(body: AffinityDecided, offer: _Offer, pod: str) -> dict[str, Any]:
    """Whom the hints are about, where the decision is about another."""
    wrong: dict[str, Any] = {}
    if offer.pod != pod:
        wrong["pod_uid"] = offer.body.pod_uid
    for name in ("namespace", "pod"):
        told = getattr(offer.body, name)
        if told is not None and getattr(body, name) not in (None, told):
            wrong[name] = told
    if offer.body.container != body.container:
        wrong["container"] = offer.body.container
    return wrong


def _recorded(body: AffinityDecided, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(body, name) for name in names}
    return {
        name: _plain_hint(value) if isinstance(value, Hint) else value
        for name, value in values.items()
    }


def _plain_hint(hint: Hint) -> dict[str, Any]:
    nodes = None if hint.numa_nodes is None else list(hint.numa_nodes)
    return {"numa_nodes": nodes, "preferred": hint.preferred}


def _any(body: HintsGenerated) -> bool:
    return any(hints is not None for hints in body.hints.values())


def _provider(body: HintsGenerated) -> ProviderHints:
    return {resource: _hints(hints) for resource, hints in body.hints.items()}


def _hints(hints: tuple[Hint, ...] | None) -> Hints | None:
    if hints is None:
        return None
    return tuple(TopologyHint(mask(hint), hint.preferred) for hint in hints)


def _plain(hint: TopologyHint) -> dict[str, Any]:
    nodes = None if hint.affinity is None else bits_of(hint.affinity)
    return {"numa_nodes": nodes, "preferred": hint.preferred}
