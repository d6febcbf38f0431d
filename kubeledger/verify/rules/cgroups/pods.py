"""The cgroups of pods and containers, by the rules of the process that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec

from kubeledger.cgroups.names import CgroupNameError
from kubeledger.cgroups.paths import parse_cgroup_path
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.errors import BadInputError
from kubeledger.kube.pod import Container, Pod
from kubeledger.kube.quantity import QuantityError
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.cgroups.files import Compared, Option, compare
from kubeledger.verify.rules.cgroups.lists import Sightings
from kubeledger.verify.rules.cgroups.options import PodOptions
from kubeledger.verify.rules.cgroups.origins import Origins
from kubeledger.verify.rules.cgroups.resizes import versions_of
from kubeledger.verify.rules.cgroups.settings import Rules
from kubeledger.verify.rules.cgroups.values import Values

__all__ = ["PodLevels"]

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

RulesOf = Callable[[Process], Rules | None]


class PodLevels:
    """Judges the cgroups of pods and of containers."""

    def __init__(self, bench: Bench, seen: Sightings, origins: Origins, rules_of: RulesOf) -> None:
        self._bench = bench
        self._seen = seen
        self._origins = origins
        self._rules_of = rules_of
        self._options: dict[str, tuple[ListedPod, Rules, PodOptions]] = {}

    def level(
        self, record: Record, body: CgroupUpdated, now: Rules, state: NodeState
    ) -> tuple[Judgement, Compared | None]:
        """By the rules of whichever process made it; one that is not known allows all."""
        where = parse_cgroup_path(body.cgroup)
        uid = body.pod_uid if where is None else where.pod_uid
        listed = self._bench.pods.at(record.ts_ns, uid) if uid is not None else None
        body = self._named(body, state)
        if listed is None:
            return lacks(["the pod's spec"]), None
        origins = self._makers(record, body, uid or "", now)
        with suppress(*_UNREADABLE):
            if now.resizes(listed):
                origins.setdefault(id(now), now)
        found: list[Compared] = []
        for rules in origins.values():
            if rules is None:
                continue
            if rules.missing:
                return lacks(rules.missing), None
            compared = self._by(record, body, listed, rules)
            if isinstance(compared, str):
                return lacks([compared]), None
            found.append(compared)
        return _judged(found, open_=None in origins.values())

    def _makers(
        self, record: Record, body: CgroupUpdated, uid: str, now: Rules
    ) -> dict[int, Rules | None]:
        """Rules of the processes that may have made it, each once; None where not known."""
        if body.level == "pod" or body.container_id is None:
            made_by = self._origins.of_pod(uid, record.ts_ns)
        else:
            made_by = self._origins.of_container(body.container_id, uid, record.ts_ns)
        found = [None if process is None else self._rules_of(process) for process in made_by]
        return {id(rules): rules for rules in found or [now]}

    def _by(
        self, record: Record, body: CgroupUpdated, listed: ListedPod, rules: Rules
    ) -> Compared | str:
        """By the rules of one process; words for what is missing."""
        try:
            options = self._pod_options(listed, body, rules)
            if isinstance(options, str):
                return options
            compared = compare(body, options)
            if compared is None:
                return "values in the cgroup's files"
            if not compared.ruling.allowed and rules.resizes(listed):
                compared = self._resized(body, listed, rules, compared)
            return compared
        except _UNREADABLE:
            return _READABLE

    def _of(self, listed: ListedPod, rules: Rules) -> PodOptions:
        key = listed.uid or f"{listed.namespace}/{listed.name}"
        found = self._options.get(key)
        if found is None or found[0] is not listed or found[1] is not rules:
            options = PodOptions(listed, listed.as_(Pod), rules)
            found = self._options[key] = (listed, rules, options)
            while len(self._options) > _KNOWN_MAX:
                del self._options[next(iter(self._options))]
        return found[2]

    def _pod_options(
        self, listed: ListedPod, body: CgroupUpdated, rules: Rules
    ) -> list[Option] | str:
        """All that the cgroup can be; words for what is missing where that is nothing."""
        of_pod = self._of(listed, rules)
        if body.level == "pod":
            return [of_pod.pod_option(body)]
        if body.sandbox:
            if of_pod.pod.spec.overhead:
                return "the runtime's rule for the sandbox of a pod with overhead"
            return [of_pod.sandbox_option(body)]
        containers = of_pod.containers()
        if body.container is not None:
            found = [c for c in containers if c.name == body.container]
            if not found:
                return f"container {body.container} in the pod's spec"
            return [of_pod.container_option(found[0], body)]
        options = [of_pod.container_option(c, body) for c in containers]
        if body.sandbox is None and not of_pod.pod.spec.overhead:
            options.insert(0, of_pod.sandbox_option(body))
        # What no list and no line names may be a debug container, too.
        options.append(of_pod.container_option(Container(), body))
        return options

    def _named(self, body: CgroupUpdated, state: NodeState) -> CgroupUpdated:
        """The record with the container's name, and whether it is the sandbox, as known."""
        if body.sandbox or body.container is not None or body.container_id is None:
            return body
        pod = state.lifecycle.pods.get(body.pod_uid or "")
        if pod is not None and pod.sandbox_id == body.container_id:
            return msgspec.structs.replace(body, sandbox=True)
        listed = self._seen.containers.get(body.container_id)
        names = [] if listed is None else [listed.name]
        for name, container in pod.containers.items() if pod is not None else ():
            names += [name] if container.container_id == body.container_id else []
        return msgspec.structs.replace(body, sandbox=False, container=names[0]) if names else body

    def _resized(
        self, body: CgroupUpdated, listed: ListedPod, rules: Rules, refused: Compared
    ) -> Compared:
        """Judge again by what the pod had at other times: a resize goes value by value."""
        values: Values = {}
        first: Option | None = None
        for version, pod in versions_of(listed, self._bench.pods.versions(listed), rules):
            for option in self._options_of(PodOptions(version, pod, rules), body):
                first = first or option
                for key, possible in option.values.items():
                    values[key] = tuple(dict.fromkeys((*values.get(key, ()), *possible)))
        if first is None:
            return refused
        why = f"{first.why}, and its resources were changed while it ran"
        again = compare(body, [first, Option(values, why, first.inputs, first.fields)])
        return refused if again is None or not again.ruling.allowed else again

    def _options_of(self, of_pod: PodOptions, body: CgroupUpdated) -> Iterable[Option]:
        if body.level == "pod":
            return [of_pod.pod_option(body)]
        if body.sandbox or body.container is None:
            return []
        containers = [c for c in of_pod.containers() if c.name == body.container]
        return [of_pod.container_option(c, body) for c in containers]


def _judged(found: list[Compared], *, open_: bool) -> tuple[Judgement, Compared | None]:
    """Over the processes that may have made it; ``open_``: and one of which nothing is known."""
    if not found:
        return lacks([_MAKER]), None
    refused = [each for each in found if not each.ruling.allowed]
    # A process before those that are known most likely had the same settings.
    if refused and open_ and _BY_SETTINGS.issuperset(refused[0].differing):
        return lacks([_MAKER]), None
    rulings: list[Ruling] = [
        each.ruling
        if each.ruling.allowed
        else msgspec.structs.replace(each.ruling, assumes=(_MAKER,))
        for each in found
    ]
    return judge(rulings), (refused or found)[0]
