"""Merged hints: does the policy yield this hint, and admit with it?

The topology manager merges the hints of all providers by its policy; there is no freedom in it.
What may be open are hints in lines that were lost, distances of NUMA nodes, and, where no record
says, the policy and the NUMA nodes: then each is tried that goes with the decisions before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple, cast, get_args

from kubeledger.kubelet.topologymanager.policy import (
    Hints,
    Policy,
    PolicyName,
    TopologyHint,
    bits_of,
    blame_text,
    blamed,
    mask_of,
    merge,
)
from kubeledger.kubelet.topologymanager.scope import (
    PREFER_CLOSEST,
    ConfigurationError,
    policy_options,
)
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, open_to, recorded, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.line_classes import HINTS, HINTS_OF_A_POD, NO_HINT
from kubeledger.verify.evidence.machine import Affinity, Offer, mask_of_hint
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.devices.model import DeviceTable
from kubeledger.verify.rules.devices.worlds import joined, nodes_text
from kubeledger.verify.variant import RECORDED, UNKNOWN

RULE: Final = "pkg/kubelet/cm/topologymanager/policy.go mergeFilteredHints"
_SCOPE: Final = "topologyManagerScope"
_POLICY: Final = "topologyManagerPolicy"
_OPTIONS: Final = "topologyManagerPolicyOptions"
_NODES: Final = "the NUMA nodes of the machine"
_NO_START: Final = "a kubelet that starts with these settings"
_NO_AFFINITY: Final = TopologyHint(None, preferred=False)
_SHOWN_MAX: Final = 4
"""So many hints of a resource are shown, those that are preferred first."""
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class _Merged(NamedTuple):
    """What one policy makes of the hints.

    Attributes:
        logged: fields of the record that are compared.
    """

    policy: Policy
    hint: TopologyHint
    judgement: Judgement
    logged: Fields


class Affinities(DeviceTable):
    """Judgements of ``AffinityDecided``; tells other rules what was stored."""

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._scope_reported: int | None = None
        self._refuted: set[tuple[str, tuple[int, ...]]] = set()

    def restarted(self) -> None:
        """A new kubelet process knows no hints, and may have another policy."""
        self.context.alignment.restarted()
        self._refuted.clear()

    def offered(self, record: Record, body: HintsGenerated, state: NodeState) -> None:
        self.context.alignment.offer(record, self.key(record, state), body)

    def decided(self, record: Record, body: AffinityDecided, state: NodeState) -> None:
        """Judge a merged hint, and remember what was stored."""
        alignment = self.context.alignment
        pod, offer = self.key(record, state), alignment.offered(record.cause)
        subject = self.subject(record, pod, body.container)
        stored = {_of(body.hint)}
        policies, missing = self._policies(body, state, offer)
        logged = recorded(record, ("hint", "policy"))
        if missing or offer is None:
            found = lacks(missing)
        elif policies[0].name == "none":
            why = "with policy none no hints are merged and no affinity is stored"
            found, stored = same(False, why), {_NO_AFFINITY}
        else:
            tried = [self._merge(record, body, policy, offer, pod) for policy in policies]
            found, logged = self._agreed(tried), tried[0].logged
            self._compare_lines(record, subject, tried[0])
            if found.verdict != "unverifiable":
                # A variant's decision stands; of the recorded one, either may have been stored.
                of_variant = {each.hint for each in tried}
                stored = of_variant | (stored if self.context.variant == RECORDED else set())
        is_open = found.verdict == "unverifiable"
        self.conclude(record, subject, found, recorded=None if is_open else logged, rule=RULE)
        hints = {} if offer is None else offer.hints
        without = frozenset(resource for resource, given in hints.items() if given is None)
        ordered = sorted(stored, key=lambda h: (-1 if h.affinity is None else h.affinity, h[1]))
        alignment.store(pod, body.container, Affinity(record.seq, tuple(ordered), without))
        if body.admit is not False:
            self.shown_later(record, body, state)

    def _policies(
        self, body: AffinityDecided, state: NodeState, offer: Offer | None
    ) -> tuple[list[Policy], list[str]]:
        """The policy on this machine, or all that it may be; and what is missing."""
        context = self.context
        machines = self._machines(body, state, offer)
        lacking = {
            context.missing_profile: context.profile is None,
            _POLICY: not (names := self._names(body)),
            _NODES: not machines,
            "the hints of the providers": offer is None,
        }
        missing = [phrase for phrase, is_missing in lacking.items() if is_missing]
        missing += [] if offer is None else offer.missing
        open_ones = [each for each in product(names, machines) if each not in self._refuted]
        policies = [Policy(name=name, numa_nodes=nodes) for name, nodes in open_ones]
        if not missing and not any(map(self._starts, policies)):
            missing = [_NO_START]
        return policies, missing

    def _names(self, body: AffinityDecided) -> list[PolicyName]:
        """The policy; where no source says, all that merge hints."""
        name: Any = self.context.settings.get(_POLICY)
        name = body.policy if name is UNKNOWN else name
        if name is None:
            return [each for each in get_args(PolicyName) if each != "none"]
        return [cast(PolicyName, name)] if name in get_args(PolicyName) else []

    def _machines(
        self, body: AffinityDecided, state: NodeState, offer: Offer | None
    ) -> list[tuple[int, ...]]:
        """The machine's NUMA nodes; where no source says, those of CPUs, and some without any."""
        # Without any hint, all nodes are merged: those that most other decisions yielded.
        none = offer is not None and all(hints is None for hints in offer.hints.values())
        own = body.hint.numa_nodes
        if nodes := self.numa_nodes(state, own if none else None):
            return [nodes]
        if not (least := self.first_pass.nodes_with_cpus):
            return []
        named = tuple(sorted({*least, *(own or ())}))
        return list(dict.fromkeys((least, named, (*named, named[-1] + 1))))

    def _starts(self, policy: Policy) -> bool:
        """Whether a kubelet starts with a variant's options on this machine."""
        context, profile = self.context, self.context.profile
        if policy.name == "none" or profile is None or context.variant == RECORDED:
            return True
        options = context.settings.get(_OPTIONS)
        given = options.items() if isinstance(options, dict) else ()
        try:
            read = policy_options({name: str(value) for name, value in given}, profile.topology)
        except ConfigurationError:
            return False
        return len(policy.numa_nodes) <= read.max_allowable_numa_nodes

    def _merge(
        self, record: Record, body: AffinityDecided, policy: Policy, offer: Offer, pod: str
    ) -> _Merged:
        context, profile = self.context, self.context.known_profile
        hint, admits = merge(policy, [offer.hints], profile.topology)
        wrong = self._wrong_subject(body, offer, pod)
        expected: dict[str, Any] = {"hint": _plain(hint), **wrong}
        if body.admit is not None:
            expected["admit"] = admits
        if body.policy is not None and self._is_own(_POLICY):
            expected["policy"] = policy.name
        own = _of(body.hint)
        if own == hint and body.disputed is not None:
            own = _of(body.disputed)
        logged = {**recorded(record, expected), "hint": _plain(own)}
        why = _merged(policy, offer, hint, admits=admits)
        if not admits and (blame := blamed(policy, offer.hints, profile.topology)):
            why = f"{blame_text(blame, policy)}; {why}"
        inputs = (offer.record.seq, context.settings.seq or 0)
        if logged == expected:
            found = same(True, why, expected=expected, inputs=inputs)
            return _Merged(policy, hint, found, logged)
        differs = {name: value for name, value in logged.items() if value != expected[name]}
        if "hint" in differs:
            differs["hint"] = _text(own)
        why = f"{why}, not {joined(f'{name} {value}' for name, value in differs.items())}"
        size, options = (hint.affinity or 0).bit_count(), context.settings.get(_OPTIONS)
        # Then sets of nodes that lie closer together win, which no record shows.
        by_distance = isinstance(options, dict) and str(options.get(PREFER_CLOSEST, "")) in _TRUE
        if "hint" in differs and by_distance and 2 <= size < len(policy.numa_nodes):
            found = open_to("the distances of the NUMA nodes", denied=why)
        elif not wrong and not self._is_complete(offer):
            found = open_to("the hints of every provider", denied=why)
        else:
            found = same(False, why, expected=expected, inputs=inputs)
        return _Merged(policy, hint, found, logged)

    def _agreed(self, tried: Sequence[_Merged]) -> Judgement:
        """What is found with all policies that it may be; those that deny it are refuted."""
        denying = [each for each in tried if each.judgement.verdict == "impossible"]
        if not denying or len(denying) == len(tried):
            return min((each.judgement for each in tried), key=lambda j: j.verdict == "match")
        fits = {(e.policy.name, e.policy.numa_nodes): e not in denying for e in tried}
        self._refuted.update(key for key, fit in fits.items() if not fit)
        unknown = [
            phrase
            for phrase, part in ((_POLICY, 1), (_NODES, 0))
            if len({(key[part], fit) for key, fit in fits.items()}) > len({k[part] for k in fits})
        ]
        first = denying[0].judgement
        return open_to(" and ".join(unknown), denied=first.why, inputs=first.inputs)

    def _compare_lines(self, record: Record, subject: str, own: _Merged) -> None:
        """Show where lines differ on the hint, or settings on what hints were merged for."""
        body = record.body
        assert isinstance(body, AffinityDecided)
        if own.judgement.verdict == "match":
            self._compare_scope(record, body)
        elif body.disputed is not None and own.hint == _of(body.hint):
            sides = ((record.seq, _text(_of(each))) for each in (body.hint, body.disputed))
            what = "lines about one merged hint name different hints"
            self.context.contradict(record.ts_ns, subject, what, *sides)

    def _wrong_subject(self, body: AffinityDecided, offer: Offer, pod: str) -> dict[str, Any]:
        """Fields that say for whom hints were merged, where it was for another."""
        context, logged = self.context, offer.body
        wrong: dict[str, Any] = {"pod_uid": logged.pod_uid} if offer.pod != pod else {}
        pods = _SCOPE in context.variant.settings and context.settings.get(_SCOPE) == "pod"
        if logged.container != body.container or (pods and body.container):
            wrong["container"] = None if pods else logged.container
        return wrong

    def _is_own(self, setting: str) -> bool:
        """Whether a setting is that of the process, and its sources agree."""
        known = self.context.settings
        return setting not in known.disputed | known.of_files | known.variant.settings.keys()

    def _compare_scope(self, record: Record, body: AffinityDecided) -> None:
        """Hints and merged hint are about a container, or a pod: the setting says which."""
        context = self.context
        scope, seq = context.settings.get(_SCOPE), context.settings.seq
        own = "pod" if body.container is None else "container"
        is_told = seq in (None, self._scope_reported) or not self._is_own(_SCOPE)
        if is_told or scope in (UNKNOWN, own):
            return
        self._scope_reported = seq
        sides = (seq or 0, f"{_SCOPE} = {scope}"), (record.seq, f"hints merged for a {own}")
        what = f"{_SCOPE} is {scope} by the settings, and hints were merged for a {own}"
        context.contradict(record.ts_ns, "node", what, *sides)

    def _is_complete(self, offer: Offer) -> bool:
        """Whether hints of all providers are there: each writes a line of its own."""
        texts = [piece.text or "" for piece in offer.record.evidence]
        lines = sum(HINTS in text for text in texts)
        if any(HINTS_OF_A_POD in text for text in texts):
            # Go 1.20 writes no preference and no possible hint alike; another line says which.
            logged = [text for text in texts if NO_HINT in text]
            empty = [resource for resource, hints in offer.body.hints.items() if hints == ()]
            if not all(any(f"'{resource}'" in text for text in logged) for resource in empty):
                return False
        gates, profile = self.context.settings.get("featureGates"), self.context.profile
        cpus = not isinstance(gates, dict) or gates.get("CPUManager", True) is not False
        memory = profile is not None and profile.resourcemanagers.memory_manager_gate_on
        return not lines or lines >= 1 + cpus + memory


def _of(hint: Hint) -> TopologyHint:
    return TopologyHint(mask_of_hint(hint), hint.preferred)


def _plain(hint: TopologyHint) -> dict[str, Any]:
    nodes = None if hint.affinity is None else bits_of(hint.affinity)
    return {"numa_nodes": nodes, "preferred": hint.preferred}


def _text(hint: TopologyHint) -> str:
    return f"{nodes_text(hint.affinity)}, {'preferred' if hint.preferred else 'not preferred'}"


def _hints_text(hints: Hints | None) -> str:
    if hints is None:
        return "no preference"
    if not hints:
        return "no possible affinity"
    first = sorted(hints, key=lambda hint: not hint.preferred)[:_SHOWN_MAX]
    texts = [_text(hint) for hint in first]
    return joined([*texts, f"{len(hints) - len(first)} more"] if hints[_SHOWN_MAX:] else texts)


def _merged(policy: Policy, offer: Offer, hint: TopologyHint, *, admits: bool) -> str:
    """What providers offered, what a policy made of it, and whether that is good enough."""
    given = [f"{name} has {_hints_text(hints)}" for name, hints in sorted(offer.hints.items())]
    offers = joined(given) if given else "no provider has a preference"
    machine = nodes_text(mask_of(policy.numa_nodes))
    return (
        f"{offers}: on a machine with {machine} this merges to {_text(hint)}, "
        f"which policy {policy.name} {'admits' if admits else 'refuses'}"
    )
