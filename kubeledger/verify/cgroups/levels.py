"""Findings about the values of the node's cgroup, of pods and of containers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from kubeledger.cgroups.names import CgroupNameError
from kubeledger.cgroups.paths import parse_cgroup_path
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.errors import BadInputError
from kubeledger.kube.pod import Container, Pod
from kubeledger.kube.quantity import QuantityError
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.bench import Bench
from kubeledger.verify.cgroups.judging import Judged, Option, judge
from kubeledger.verify.cgroups.machine import Machine, node_option
from kubeledger.verify.cgroups.origins import Origins
from kubeledger.verify.cgroups.pods import PodOptions, Rules
from kubeledger.verify.cgroups.speech import Speaker
from kubeledger.verify.cgroups.versions import versions_of
from kubeledger.verify.pods import ListedPod

__all__ = ["Levels"]

_READABLE: Final = "a readable spec of the pod"
_BY_SETTINGS: Final = frozenset(
    {
        *("cpu_quota_us", "cpu_period_us", "unified/cpu.max", "other/pids.max"),
        *(f"unified/{name}" for name in ("pids.max", "memory.min", "memory.low", "memory.high")),
    }
)
"""Values that another process may have asked for by other settings."""
_MAKER: Final = "the settings of the kubelet process that made the cgroup"
_UNREADABLE = (msgspec.ValidationError, BadInputError, QuantityError, CgroupNameError)


class Levels:
    """Judges the cgroups of the node, of pods and of containers."""

    def __init__(self, bench: Bench, speaker: Speaker, machine: Machine, origins: Origins) -> None:
        self._bench = bench
        self._speaker = speaker
        self._machine = machine
        self._origins = origins
        self._options: dict[str, tuple[ListedPod, Rules, PodOptions]] = {}

    def without_rules(self, record: Record, body: CgroupUpdated) -> None:
        """The rules of that version are not known."""
        self._speaker.unverifiable(record, body, [self._bench.missing_profile])

    def find(self, record: Record, body: CgroupUpdated, rules: Rules, state: NodeState) -> None:
        """The node's, a pod's or a container's cgroup."""
        if not rules.settings.per_qos and not body.created:
            self._speaker.not_per_qos(record, body)
        elif body.level == "node":
            self._find_node(record, body, rules)
        else:
            self._find_pod(record, body, rules, state)

    # The node ---------------------------------------------------------------------------

    def _find_node(self, record: Record, body: CgroupUpdated, rules: Rules) -> None:
        missing: list[str] = []
        capacity = self._machine.at(record.ts_ns)
        pids = self._machine.pids.at(record.ts_ns)
        judged = judge(body, [node_option(body, capacity, pids, rules, missing)])
        # What is known may be wrong even where something else is not known.
        if missing and judged.verdict != "impossible":
            self._speaker.unverifiable(record, body, missing)
        else:
            self._speaker.say(record, body, judged)

    # Pods and containers ----------------------------------------------------------------

    def _find_pod(
        self, record: Record, body: CgroupUpdated, rules: Rules, state: NodeState
    ) -> None:
        where = parse_cgroup_path(body.cgroup)
        uid = body.pod_uid if where is None else where.pod_uid
        listed = self._bench.pods.at(record.ts_ns, uid) if uid is not None else None
        if listed is None:
            self._speaker.unverifiable(record, body, ["the pod's spec"])
            return
        if body.level == "pod" or body.container_id is None:
            origins = self._origins.of_pod(uid or "", rules)
        else:
            origins = self._origins.of_container(body.container_id, uid or "", rules)
        with suppress(*_UNREADABLE):
            if rules.resizes(listed) and rules not in origins:
                origins.append(rules)
        self._speaker.say(record, body, self._by_any(record, body, listed, origins, state))

    def _by_any(
        self,
        record: Record,
        body: CgroupUpdated,
        listed: ListedPod,
        origins: list[Rules | None],
        state: NodeState,
    ) -> Judged | list[str]:
        """By the rules of whichever process made it; one that is not known allows all."""
        found: list[Judged] = []
        for rules in origins:
            if rules is None:
                continue
            if rules.missing:
                return rules.missing
            judged = self._by(record, body, listed, rules, state)
            if isinstance(judged, list):
                return judged
            found.append(judged)
        refused = [judged for judged in found if judged.verdict == "impossible"]
        if refused and (
            len(refused) == len(origins)
            or (None in origins and not _BY_SETTINGS.issuperset(refused[0].differing))
        ):
            return refused[0]
        # A process before those that are known most likely had the same settings.
        return [_MAKER] if refused or not found else found[0]

    def _by(
        self,
        record: Record,
        body: CgroupUpdated,
        listed: ListedPod,
        rules: Rules,
        state: NodeState,
    ) -> Judged | list[str]:
        try:
            options = self._pod_options(listed, body, rules, state)
        except _UNREADABLE:
            return [_READABLE]
        if isinstance(options, str):
            return [options]
        judged = judge(body, options)
        if judged.verdict == "impossible" and rules.resizes(listed):
            judged = self._resized(record, body, listed, rules, state, judged)
        return judged

    def _of(self, listed: ListedPod, rules: Rules) -> PodOptions:
        key = listed.uid or f"{listed.namespace}/{listed.name}"
        found = self._options.get(key)
        if found is None or found[0] is not listed or found[1] is not rules:
            options = PodOptions(listed, listed.as_(Pod), rules)
            found = self._options[key] = (listed, rules, options)
            while len(self._options) > 512:
                del self._options[next(iter(self._options))]
        return found[2]

    def _pod_options(
        self, listed: ListedPod, body: CgroupUpdated, rules: Rules, state: NodeState
    ) -> list[Option] | str:
        """All that the cgroup can be; words for what is missing where that is nothing."""
        of_pod = self._of(listed, rules)
        if body.level == "pod":
            return [of_pod.pod_option(body)]
        name, sandbox = _whose(body, state)
        if sandbox:
            if of_pod.pod.spec.overhead:
                return "the runtime's rule for the sandbox of a pod with overhead"
            return [of_pod.sandbox_option(body)]
        containers = of_pod.containers()
        if name is not None:
            found = [c for c in containers if c.name == name]
            if not found:
                return f"container {name} in the pod's spec"
            return [of_pod.container_option(found[0], body)]
        options = [of_pod.container_option(c, body) for c in containers]
        if sandbox is None and not of_pod.pod.spec.overhead:
            options.insert(0, of_pod.sandbox_option(body))
        # What no list and no line names may be a debug container, too.
        options.append(of_pod.container_option(Container(), body))
        return options

    def _resized(
        self,
        record: Record,
        body: CgroupUpdated,
        listed: ListedPod,
        rules: Rules,
        state: NodeState,
        judged: Judged,
    ) -> Judged:
        """Judge again by what the pod had at other times: a resize goes value by value."""
        values: dict[str, tuple[Any, ...]] = {}
        first: Option | None = None
        try:
            for version, pod in versions_of(listed, self._bench.pods.versions(listed), rules):
                of_pod = PodOptions(version, pod, rules)
                options = self._options_of(of_pod, body, state)
                for option in options:
                    first = first or option
                    for key, possible in option.values.items():
                        values[key] = tuple(dict.fromkeys((*values.get(key, ()), *possible)))
        except _UNREADABLE:
            return judged
        if first is None:
            return judged
        why = f"{first.why}, and its resources were changed while it ran"
        again = judge(body, [first, Option(values, why, first.inputs, first.fields)])
        return judged if again.verdict == "impossible" else again

    def _options_of(
        self, of_pod: PodOptions, body: CgroupUpdated, state: NodeState
    ) -> Sequence[Option]:
        if body.level == "pod":
            return [of_pod.pod_option(body)]
        name, sandbox = _whose(body, state)
        if sandbox or name is None:
            return []
        return [of_pod.container_option(c, body) for c in of_pod.containers() if c.name == name]


def _whose(body: CgroupUpdated, state: NodeState) -> tuple[str | None, bool | None]:
    """Name of the container, and whether it is the sandbox; None where nothing tells."""
    if body.sandbox or body.container is not None:
        return body.container, bool(body.sandbox)
    pod = state.lifecycle.pods.get(body.pod_uid or "")
    if pod is None:
        return None, body.sandbox
    if pod.sandbox_id == body.container_id:
        return None, True
    for name, container in pod.containers.items():
        if container.container_id == body.container_id:
            return name, False
    return None, body.sandbox
