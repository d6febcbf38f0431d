"""The cgroups of pods and containers, by the rules of the process that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.cgroups.names import CgroupNameError
from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.kubelet.kube.pod import Container, Pod, ResourceRequirements
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, judge, lacks
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.rules.cgroups.files import NO_VALUES, Compared, Option, compare
from kubeledger.verify.rules.cgroups.options import PodOptions
from kubeledger.verify.rules.cgroups.settings import Rules
from kubeledger.verify.rules.cgroups.sightings import Sightings
from kubeledger.verify.rules.cgroups.values import Values

__all__ = ["PodLevels", "differing_resources"]

_READABLE: Final = "a readable spec of the pod"
_BY_SETTINGS: Final = frozenset(
    {
        *("cpu_quota_us", "cpu_period_us", "unified/cpu.max", "other/pids.max"),
        *(f"unified/{name}" for name in ("pids.max", "memory.min", "memory.low", "memory.high")),
    }
)
"""Values that another process may have asked for by other settings."""
_MAKER: Final = "the settings of the kubelet process that made the cgroup"
_KNOWN_MAX: Final = 512
_UNREADABLE = (msgspec.ValidationError, BadInputError, QuantityError, CgroupNameError)


class PodLevels:
    """Judges the cgroups of pods and of containers."""

    def __init__(
        self, bench: Bench, seen: Sightings, rules_of: Callable[[Process], Rules | None]
    ) -> None:
        self._bench = bench
        self._seen = seen
        self._rules_of = rules_of
        self._options: dict[int, tuple[ListedPod, Rules, PodOptions]] = {}

    def level(
        self, record: Record, body: CgroupUpdated, now: Rules, state: NodeState
    ) -> tuple[Judgement, Compared | None]:
        """By the rules of whichever process made it; one that is not known allows all."""
        where = parse_cgroup_path(body.cgroup)
        uid = body.pod_uid if where is None else where.pod_uid
        listed = self._bench.pods.at(record.ts_ns, uid) if uid is not None else None
        if listed is None:
            return lacks(["the pod's spec"]), None
        if body.level == "pod" or body.container_id is None:
            makers = self._seen.makers_of_pod(uid or "", record.ts_ns)
        else:
            makers = self._seen.makers_of_container(body.container_id, uid or "", record.ts_ns)
            body = self._named(body, state)
        asked = [None if maker is None else self._rules_of(maker) for maker in makers] or [now]
        with suppress(*_UNREADABLE):
            asked += [now] if now.resizes(listed) else []
        found: list[Compared] = []
        for rules in {id(rules): rules for rules in asked if rules is not None}.values():
            compared = self._by(body, listed, rules)
            if isinstance(compared, list):
                return lacks(compared), None
            found.append(compared)
        refused = [each for each in found if not each.ruling.allowed]
        # A process before those that are known most likely had the same settings.
        alike = None in asked and refused and _BY_SETTINGS.issuperset(refused[0].differing)
        if not found or alike:
            return lacks([_MAKER]), None
        assuming = {id(each): replace(each.ruling, assumes=(_MAKER,)) for each in refused}
        rulings = [assuming.get(id(each), each.ruling) for each in found]
        return judge(rulings), (refused or found)[0]

    def _by(self, body: CgroupUpdated, listed: ListedPod, rules: Rules) -> Compared | list[str]:
        """By the rules of one process; words for what is missing."""
        if rules.missing:
            return rules.missing
        try:
            options = _options(self._of(listed, rules), body)
            if isinstance(options, str):
                return [options]
            compared = compare(body, options)
            if compared is None:
                return [NO_VALUES]
            if not compared.ruling.allowed and rules.resizes(listed):
                return self._resized(body, listed, rules) or compared
            return compared
        except _UNREADABLE:
            return [_READABLE]

    def _of(self, listed: ListedPod, rules: Rules) -> PodOptions:
        found = self._options.get(listed.seq)
        if found is None or found[0] is not listed or found[1] is not rules:
            if len(self._options) >= _KNOWN_MAX:
                self._options.clear()
            options = PodOptions(listed, listed.as_(Pod), rules)
            found = self._options[listed.seq] = (listed, rules, options)
        return found[2]

    def _named(self, body: CgroupUpdated, state: NodeState) -> CgroupUpdated:
        """The record with the container's name, and whether it is the sandbox, as known."""
        if body.sandbox or body.container is not None or body.container_id is None:
            return body
        pod = state.lifecycle.pods.get(body.pod_uid or "")
        if pod is not None and pod.sandbox_id == body.container_id:
            return replace(body, sandbox=True)
        listed = self._seen.containers.get(body.pod_uid, {}).get(body.container_id)
        names = [] if listed is None else [listed.name]
        for name, container in pod.containers.items() if pod is not None else ():
            names += [name] if container.container_id == body.container_id else []
        return replace(body, sandbox=False, container=names[0]) if names else body

    def _resized(self, body: CgroupUpdated, listed: ListedPod, rules: Rules) -> Compared | None:
        """Judge by what the pod had at any time: a resize goes value by value.

        None where that gives no such values either.
        """
        values: Values = {}
        option: Option | None = None
        for version in dict.fromkeys((listed, *self._bench.pods.versions(listed))):
            pod = version.as_(Pod)
            for each in (pod, *_given(version, pod)):
                options = _options(PodOptions(version, each, rules), body)
                for found in options if isinstance(options, list) and len(options) == 1 else ():
                    option = option or found
                    for key, possible in found.values.items():
                        values[key] = tuple(dict.fromkeys((*values.get(key, ()), *possible)))
        if option is None:
            return None
        why = f"{option.why}, and its resources were changed while it ran"
        again = compare(body, [option, replace(option, values=values, why=why)])
        return again if again is not None and again.ruling.allowed else None


def _options(of_pod: PodOptions, body: CgroupUpdated) -> list[Option] | str:
    """All that the cgroup can be; words for what is missing where that is nothing."""
    if body.level == "pod":
        return [of_pod.of_pod(body)]
    if body.sandbox:
        if of_pod.pod.spec.overhead:
            return "the runtime's rule for the sandbox of a pod with overhead"
        return [of_pod.of_sandbox(body)]
    if body.container is not None:
        found = [c for c in of_pod.containers if c.name == body.container]
        if not found:
            return f"container {body.container} in the pod's spec"
        return [of_pod.of_container(found[0], body)]
    # What no list and no line names may be a debug container, too.
    options = [of_pod.of_container(c, body) for c in (*of_pod.containers, Container())]
    if body.sandbox is None and not of_pod.pod.spec.overhead:
        options.insert(0, of_pod.of_sandbox(body))
    return options


# Resizes ----------------------------------------------------------------------------------


class _Status(msgspec.Struct, rename="camel"):
    name: str = ""
    resources: ResourceRequirements | None = None


class _Statuses(msgspec.Struct, rename="camel"):
    container_statuses: list[_Status] | None = None
    init_container_statuses: list[_Status] | None = None


class _WithStatus(msgspec.Struct):
    status: _Statuses | None = None


def _given(listed: ListedPod, pod: Pod) -> Iterator[Pod]:
    """The pod with the resources that the status says its containers have, if it says any."""
    told = listed.as_(_WithStatus).status or _Statuses()
    statuses = (*(told.container_statuses or ()), *(told.init_container_statuses or ()))
    found = {status.name: status.resources for status in statuses if status.resources}
    if found:
        containers, inits = (
            tuple(replace(c, resources=found.get(c.name or "", c.resources)) for c in each or ())
            for each in (pod.spec.containers, pod.spec.init_containers)
        )
        yield replace(pod, spec=replace(pod.spec, containers=containers, init_containers=inits))


def differing_resources(first: ListedPod, second: ListedPod) -> tuple[str, str, str] | None:
    """The first container whose resources two versions show differently, and both in JSON."""
    try:
        specs = [listed.as_(Pod).spec for listed in (first, second)]
    except msgspec.ValidationError:
        return None
    before, after = (
        {c.name: c for c in (*(spec.containers or ()), *(spec.init_containers or ()))}
        for spec in specs
    )
    for name in (name for name in after if name in before):
        sides = [{"requests": c.requests, "limits": c.limits} for c in (before[name], after[name])]
        if sides[0] != sides[1]:
            shown = [msgspec.json.encode(side, order="deterministic").decode() for side in sides]
            return name or "", shown[0], shown[1]
    return None
