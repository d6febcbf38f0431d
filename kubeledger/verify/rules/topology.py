"""Merged hints: does the policy yield this hint, and admit with it?

The topology manager merges the hints of all providers by its policy; there is no freedom in it.
What may be open are hints in lines that were lost, and distances of NUMA nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple, get_args

from kubeledger.kubelet.topologymanager.bitmask import bits_of, mask_of
from kubeledger.kubelet.topologymanager.blame import blame_text, blamed
from kubeledger.kubelet.topologymanager.decider import decide
from kubeledger.kubelet.topologymanager.hint import TopologyHint
from kubeledger.kubelet.topologymanager.options import PREFER_CLOSEST
from kubeledger.kubelet.topologymanager.policies import Policy, PolicyName
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, lacks, open_to, recorded, same
from kubeledger.verify.evidence.hints import mask_of_hint, masks_of
from kubeledger.verify.evidence.line_texts import HINTS, HINTS_OF_A_POD, NO_HINT
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.devices.model import Affinity, DeviceManagerModel
from kubeledger.verify.rules.devices.words import joined, nodes_text
from kubeledger.verify.settings import UNKNOWN
from kubeledger.verify.variant import RECORDED

RULE: Final = "pkg/kubelet/cm/topologymanager/policy.go mergeFilteredHints"
_KEPT_MAX = 64
_SCOPE = "topologyManagerScope"
_POLICY = "topologyManagerPolicy"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class _Offer(NamedTuple):
    """Hints that were generated for a pod."""

    record: Record
    pod: str
    body: HintsGenerated


class Affinities:
    """Judgements of ``AffinityDecided``; gives the model what was stored."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._model = model
        self._offers: OrderedDict[int, _Offer] = OrderedDict()
        self._scope_reported: int | None = None

    def restarted(self) -> None:
        """A new kubelet process knows no hints."""
        self._offers.clear()

    def offered(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        """Hints came in: keep them for the merge that they cause."""
        self._offers[record.seq] = _Offer(record, self._model.key(record, state), body)
        if len(self._offers) > _KEPT_MAX:
            self._offers.popitem(last=False)

    def decided(
        self, rule: RuleVerifier, record: Record, body: AffinityDecided, state: NodeState
    ) -> None:
        """Judge a merged hint, and remember what was stored."""
        model = self._model
        pod, offer = model.key(record, state), self._offers.get(record.cause or 0)
        subject = model.subject(record, pod, body.container)
        masks: set[int | None] = {mask_of_hint(body.hint)}
        policy, missing = self._policy(body, state, offer)
        logged = recorded(record, ("hint", "policy"))
        if policy is None or offer is None:
            found = lacks(missing)
        elif policy.name == "none":
            why = "with policy none no hints are merged and no affinity is stored"
            found, masks = same(False, why), {None}
        else:
            merged, found, logged = self._judge(record, body, policy, offer, pod)
            if found.verdict != "unverifiable":
                # A variant's decision stands; of the recorded one, either may have been stored.
                masks = {merged, *(masks if model.context.variant == RECORDED else ())}
        is_open = found.verdict == "unverifiable"
        rule.conclude(record, subject, found, recorded=None if is_open else logged, rule=RULE)
        hints = offer.body.hints if offer is not None else {}
        without = frozenset(resource for resource, given in hints.items() if given is None)
        ordered = tuple(sorted(masks, key=lambda m: -1 if m is None else m))
        model.store(pod, body.container or "", Affinity(record.seq, ordered, without))

    def _policy(
        self, body: AffinityDecided, state: NodeState, offer: _Offer | None
    ) -> tuple[Policy | None, list[str]]:
        """The policy on this machine; or what is missing of it, or of the hints."""
        context = self._model.context
        name: Any = context.settings.get(_POLICY)
        name = body.policy if name is UNKNOWN else name
        # Without any hint, all nodes are merged: those that most other decisions yielded.
        none = offer is not None and all(hints is None for hints in offer.body.hints.values())
        nodes = self._model.numa_nodes(state, body.hint.numa_nodes if none else None)
        lacking = {
            context.missing_profile: context.profile is None,
            _POLICY: name not in get_args(PolicyName),
            "the NUMA nodes of the machine": nodes is None,
            "the hints of the providers": offer is None,
        }
        missing = [phrase for phrase, is_missing in lacking.items() if is_missing]
        return None if missing else Policy(name=name, numa_nodes=nodes or ()), missing

    def _judge(
        self, record: Record, body: AffinityDecided, policy: Policy, offer: _Offer, pod: str
    ) -> tuple[int | None, Judgement, Fields]:
        """Decide again: the merged mask, the judgement, and what is shown of it."""
        context = self._model.context
        assert context.profile is not None
        provided = masks_of(offer.body.hints)
        hint, admits = decide(policy, [provided], context.profile.topology)
        wrong = self._wrong_subject(body, offer, pod)
        expected: dict[str, Any] = {"hint": _plain(hint), **wrong}
        if body.admit is not None:
            expected["admit"] = admits
        if body.policy is not None and self._is_own(_POLICY):
            expected["policy"] = policy.name
        logged = recorded(record, expected)
        if body.disputed is not None and logged["hint"] == expected["hint"]:
            logged["hint"] = _plain(
                TopologyHint(mask_of_hint(body.disputed), body.disputed.preferred)
            )
            sides = ((record.seq, _hint_text(each)) for each in (body.hint, body.disputed))
            subject = self._model.subject(record, pod, body.container)
            what = "lines about one merged hint name different hints"
            context.contradict(record.ts_ns, subject, what, *sides)
        why = _merged(policy, offer.body, hint, admits=admits)
        if not admits and (blame := blamed(policy, provided, context.profile.topology)):
            why = f"{blame_text(blame, policy)}; {why}"
        inputs = (offer.record.seq, context.settings.seq or 0)
        if logged == expected:
            self._compare_scope(record, body)
            return hint.affinity, same(True, why, expected=expected, inputs=inputs), logged
        differs = {name: value for name, value in logged.items() if value != expected[name]}
        if "hint" in differs:
            differs["hint"] = _hint_text(Hint(**logged["hint"]))
        why = f"{why}, not {joined(f'{name} {value}' for name, value in differs.items())}"
        size = (hint.affinity or 0).bit_count()
        if "hint" in differs and self._by_distance and 2 <= size < len(policy.numa_nodes):
            found = open_to("the distances of the NUMA nodes", denied=why)
        elif not wrong and not self._is_complete(offer):
            found = open_to("the hints of every provider", denied=why)
        else:
            found = same(False, why, expected=expected, inputs=inputs)
        return hint.affinity, found, logged

    @property
    def _by_distance(self) -> bool:
        """Whether sets of nodes that lie closer together win, which no record shows."""
        options = self._model.context.settings.get("topologyManagerPolicyOptions")
        return isinstance(options, dict) and str(options.get(PREFER_CLOSEST, "")) in _TRUE

    def _wrong_subject(self, body: AffinityDecided, offer: _Offer, pod: str) -> dict[str, Any]:
        """Fields that say for whom hints were merged, where it was for another."""
        context, logged = self._model.context, offer.body
        wrong: dict[str, Any] = {"pod_uid": logged.pod_uid} if offer.pod != pod else {}
        pods = _SCOPE in context.variant.settings and context.settings.get(_SCOPE) == "pod"
        if logged.container != body.container or (pods and body.container):
            wrong["container"] = None if pods else logged.container
        return wrong

    def _is_own(self, setting: str) -> bool:
        """Whether a setting is the recorded one, and its sources agree."""
        context = self._model.context
        return setting not in context.settings.disputed | context.variant.settings.keys()

    def _compare_scope(self, record: Record, body: AffinityDecided) -> None:
        """Hints and merged hint are about a container, or a pod: the setting says which."""
        context = self._model.context
        scope, seq = context.settings.get(_SCOPE), context.settings.seq
        own = "pod" if body.container is None else "container"
        if (
            seq in (None, self._scope_reported)
            or scope in (UNKNOWN, own)
            or not self._is_own(_SCOPE)
        ):
            return
        self._scope_reported = seq
        sides = (seq or 0, f"{_SCOPE} = {scope}"), (record.seq, f"hints merged for a {own}")
        what = f"{_SCOPE} is {scope} by the settings, and hints were merged for a {own}"
        context.contradict(record.ts_ns, "node", what, *sides)

    def _is_complete(self, offer: _Offer) -> bool:
        """Whether hints of all providers are there: each writes a line of its own."""
        texts = [piece.text or "" for piece in offer.record.evidence]
        lines = sum(HINTS in text for text in texts)
        if any(HINTS_OF_A_POD in text for text in texts):
            # Go 1.20 writes no preference and no possible hint alike; another line says which.
            logged = [text for text in texts if NO_HINT in text]
            empty = [resource for resource, hints in offer.body.hints.items() if hints == ()]
            if not all(any(f"'{resource}'" in text for text in logged) for resource in empty):
                return False
        context = self._model.context
        gates = context.settings.get("featureGates")
        gates = gates if isinstance(gates, dict) else {}
        assert context.profile is not None
        providers = (
            1
            + (gates.get("CPUManager", True) is not False)
            + context.profile.resourcemanagers.memory_manager_gate_on
        )
        return not lines or lines >= providers


def _plain(hint: TopologyHint) -> dict[str, Any]:
    """As the fields of a recorded hint."""
    nodes = None if hint.affinity is None else bits_of(hint.affinity)
    return {"numa_nodes": nodes, "preferred": hint.preferred}


def _hint_text(hint: Hint) -> str:
    return f"{nodes_text(mask_of_hint(hint))}, {'preferred' if hint.preferred else 'not preferred'}"


def _hints_text(hints: tuple[Hint, ...] | None) -> str:
    """What one resource is offered."""
    if hints is None:
        return "no preference"
    return joined(_hint_text(hint) for hint in hints) if hints else "no possible affinity"


def _merged(policy: Policy, offered: HintsGenerated, hint: TopologyHint, *, admits: bool) -> str:
    """What providers offered, what a policy made of it, and whether that is good enough."""
    given = [f"{name} has {_hints_text(hints)}" for name, hints in sorted(offered.hints.items())]
    offers = joined(given) if given else "no provider has a preference"
    machine = nodes_text(mask_of(policy.numa_nodes))
    return (
        f"{offers}: on a machine with {machine} this merges to {_hint_text(Hint(**_plain(hint)))}, "
        f"which policy {policy.name} {'admits' if admits else 'refuses'}"
    )
