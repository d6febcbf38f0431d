"""The cgroups of pods and containers, by the rules of the process that made them.

A pod's cgroup is made at the pod's first sync, a container's when it is created, and both
keep what was written then. A later process, with other settings or of another version, finds
them there and leaves them as they are (but for resizes in place).

Source: v1.36.2 pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.cgroups.paths import CgroupNameError, parse_cgroup_path
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.lifecycle import PodResized
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.rules.cgroups.files import (
    NO_VALUES,
    Compared,
    Option,
    Values,
    compare,
    value_of,
)
from kubeledger.verify.rules.cgroups.options import PodOptions, Rules

_RELIST_NS: Final = 10 * NS_PER_S
"""So long after its start a process may show containers that ran before it."""
_STATIC_NS: Final = 60 * NS_PER_S
"""A static pod's start time may be that of a process that found it running."""
_TELLS_NS: Final = 60 * NS_PER_S
"""So long after its start a process shows itself, at any verbosity."""


_AS_MADE: Final = frozenset({"100", "1024", "-1", "max", "max 100000"})
"""The kernel's values of a new cgroup: weight or shares, no quota, no limit."""
_BEFORE_RESIZE: Final = "what the pod had before it was resized"
_READABLE: Final = "a readable spec of the pod"
_BY_SETTINGS: Final = frozenset(
    {
        *("cpu_quota_us", "cpu_period_us", "unified/cpu.max", "other/pids.max"),
        *(f"unified/{name}" for name in ("pids.max", "memory.min", "memory.low", "memory.high")),
    }
)
"""Values that another process may have asked for by other settings."""
_UNLISTED: Final = "the resources that the pod had then, which no list shows"
_MAKER: Final = "the settings of the kubelet process that made the cgroup"
_SOON_NS: Final = 30 * NS_PER_S
"""A list that is read so soon after a pod was made shows what it was made with."""
_UNREADABLE = (msgspec.ValidationError, BadInputError, QuantityError, CgroupNameError)


class PodLevels:
    """Judges the cgroups of pods and of containers.

    Attributes:
        resized_ns: pod -> when it was resized, as lines tell it.
    """

    def __init__(self, context: VerifyContext, rules_of: Callable[[Process], Rules | None]) -> None:
        self._context = context
        self._made_ns: dict[str, int] = {}
        self.resized_ns: dict[str | None, list[int]] = {}
        self._rules_of = rules_of

    def prescan(self, record: Record, body: PodResized) -> None:
        self.resized_ns.setdefault(body.pod_uid, []).append(record.ts_ns)

    def see_made(self, body: CgroupUpdated, ts_ns: int) -> None:
        """A snapshot shows a cgroup, which was made by then."""
        if body.level == "pod" and body.pod_uid:
            self._made_ns[body.pod_uid] = min(self._made_ns.get(body.pod_uid, ts_ns), ts_ns)

    def level(
        self, record: Record, body: CgroupUpdated, now: Rules, state: NodeState
    ) -> tuple[Judgement, Compared | None]:
        """By the rules of whichever process made it.

        One of which nothing is known may have had any settings: a world in which the values that
        settings decide are as they are.
        """
        where = parse_cgroup_path(body.cgroup)
        uid = body.pod_uid if where is None else where.pod_uid
        listed = self._context.pods.at(record.ts_ns, uid) if uid is not None else None
        if listed is None or uid is None:
            return lacks(["the pod's spec"]), None
        if body.level == "pod" or body.container_id is None:
            creators = self._makers_of_pod(uid, record.ts_ns)
        else:
            creators = self._makers_of_container(body.container_id, uid, record.ts_ns)
            body = self._named(body, state)
        asked = [None if each is None else self._rules_of(each) for each in creators] or [now]
        with suppress(*_UNREADABLE):
            asked += [now] if now.resizes(listed) else []
        found: list[Compared] = []
        for rules in {id(rules): rules for rules in asked if rules is not None}.values():
            compared = self._by(body, listed, rules)
            if isinstance(compared, list):
                return lacks(compared), None
            found.append(compared)
        if not found:
            return lacks([_MAKER]), None
        worst = next((each for each in found if not each.ruling.allowed), found[0])
        if not worst.ruling.allowed and self._is_unwritten(body, record.ts_ns, worst):
            why = f"{worst.ruling.why} (not written yet: its container was only being created)"
            ruling = replace(worst.ruling, allowed=True, chosen=False, why=why)
            found = [replace(worst, ruling=ruling, differing={})]
            worst = found[0]
        rulings = [each.ruling for each in found]
        if None in asked:
            may_be = _BY_SETTINGS.issuperset(worst.differing)
            rulings.append(Ruling(allowed=may_be, why="an unknown process made it"))
        resized = any(rules is not None and rules.resizes(listed) for rules in asked)
        # No line that is not there tells of a process, or of a container just made, that fits what
        # neither a new cgroup has nor settings decide.
        wrong = [value_of(body, key) for key in worst.differing.keys() - _BY_SETTINGS]
        certain = not resized and any(str(value) not in _AS_MADE for value in wrong)
        each_of = (replace(r, assumes=(_MAKER,) * r.allowed, certain=certain) for r in rulings)
        return judge([*each_of]), worst

    def _makers_of_pod(self, key: str, ts_ns: int) -> list[Process | None]:
        """The processes that may have made the cgroup of a pod that a snapshot shows at a time.

        The likeliest comes first; None stands for a process of which nothing is known.
        """
        runs = self._context.timeline.history(key).runs
        ran = (run.started_ns for run in runs if run.started_ns)
        made_ns = min((*ran, self._made_ns.get(key, ts_ns), ts_ns))
        return self._between(self._synced_ns(key), made_ns)

    def _makers_of_container(self, of: str, key: str, ts_ns: int) -> list[Process | None]:
        timeline = self._context.timeline
        run = timeline.history(key).run(of)
        if run is not None and run.started_ns is not None:
            process = timeline.process(run.started_ns)
            if process is not None and run.started_ns - process.started_ns > _RELIST_NS:
                return [process]
        began = self._context.times.listed_start(of)
        if began is None:
            return self._between(self._synced_ns(key), ts_ns)
        return self._between(*began)

    def _synced_ns(self, key: str) -> int | None:
        """When the first sync of a pod was at the latest; None when no list says."""
        synced_ns = self._context.instances.known_ns(key)
        if synced_ns is None or self._context.timeline.history(key).created_ns is not None:
            return synced_ns
        return synced_ns - _STATIC_NS if self._number(synced_ns) > 0 else synced_ns

    def _between(self, start_ns: int | None, end_ns: int) -> list[Process | None]:
        """The processes that may have run in a span; its start may be in no record."""
        processes, coverage = self._context.timeline.processes.all, self._context.coverage
        first = -1 if start_ns is None else self._number(start_ns)
        last = max(first, self._number(end_ns))
        following = processes[last + 1 : last + 2]
        if following and not following[0].from_start and coverage.silent(end_ns, end_ns):
            last += 1  # nobody knows since when it ran
        found = [processes[n] if n >= 0 else None for n in range(last, first - 1, -1)]
        known_ns = end_ns if start_ns is None else min(start_ns, end_ns)
        logged_ns = processes[-1].started_ns + _TELLS_NS if processes else known_ns
        dark = known_ns > logged_ns and 0 < coverage.last_line_ns < known_ns
        # Behind the end of the log another one may have begun.
        return [*found, None] if dark and None not in found else found

    def _number(self, ts_ns: int) -> int:
        """The process that ran last by a time; -1 for one before those known."""
        processes = self._context.timeline.processes.all
        return bisect_right(processes, ts_ns, key=lambda process: process.started_ns) - 1

    def _by(self, body: CgroupUpdated, listed: ListedPod, rules: Rules) -> Compared | list[str]:
        """By the rules of one process; words for what is missing."""
        if rules.missing:
            return rules.missing
        try:
            options = PodOptions(listed, listed.as_(Pod), rules).of(body)
            if isinstance(options, str):
                return [options]
            compared = compare(body, options)
            if compared is None:
                return [NO_VALUES]
            if not compared.ruling.allowed and rules.resizes(listed):
                first = self._context.pods.versions(listed)[0]
                if min(self.resized_ns.get(listed.uid, ()), default=first.ts_ns) < first.ts_ns:
                    return [_BEFORE_RESIZE]
                resized = self._resized(body, listed, rules)
                if resized is None and self._had_others(listed):
                    return [_UNLISTED]
                return resized or compared
            return compared
        except _UNREADABLE:
            return [_READABLE]

    def _is_unwritten(self, body: CgroupUpdated, ts_ns: int, found: Compared) -> bool:
        """Whether the runtime may just have made the cgroup, and not have written its values yet.

        Between a container's creation and its start systemd makes the scope, with the kernel's
        values, and then the runtime fills it in.
        """
        if body.level != "container" or body.container_id is None:
            return False
        run = self._context.timeline.history(body.pod_uid or "").run(body.container_id)
        told_ns = None if run is None else run.started_ns
        began = self._context.times.started(body.container_id, told_ns)
        as_made = all(str(value_of(body, key)) in _AS_MADE for key in found.differing)
        return as_made and began is not None and began.to_ns >= ts_ns - NS_PER_S

    def _named(self, body: CgroupUpdated, state: NodeState) -> CgroupUpdated:
        """The record with the container's name, and whether it is the sandbox, as known."""
        of = body.container_id
        if body.sandbox or body.container is not None or of is None:
            return body
        pod = state.lifecycle.pods.get(body.pod_uid or "")
        if pod is not None and pod.sandbox_id == of:
            return replace(body, sandbox=True)
        listed = self._context.instances.of_pod(body.pod_uid or "").get(of)
        running = () if pod is None else pod.containers.items()
        names = [] if listed is None else [listed.name]
        names += [name for name, container in running if container.container_id == of]
        return replace(body, sandbox=False, container=names[0]) if names else body

    def _had_others(self, listed: ListedPod) -> bool:
        """Whether it may have had resources that no list shows: before, between or after them."""
        versions, made_ns = self._context.pods.versions(listed), listed.created_ns
        pod = self._context.timeline.history(listed.uid or "")
        last_ns = pod.listed_alive_ns[1] if pod.listed_alive_ns else versions[-1].ts_ns
        after = max(self.resized_ns.get(listed.uid, ()), default=0) > last_ns
        if after or (made_ns is not None and versions[0].ts_ns - made_ns > _SOON_NS):
            return True
        return any(differing_resources(*pair) is not None for pair in pairwise(versions))

    def _resized(self, body: CgroupUpdated, listed: ListedPod, rules: Rules) -> Compared | None:
        """Judge by what the pod had at any time: a resize goes value by value.

        None where that gives no such values either.
        """
        values: Values = {}
        option: Option | None = None
        for version in dict.fromkeys((listed, *self._context.pods.versions(listed))):
            pod = version.as_(Pod)
            for each in (pod, *_given(pod)):
                options = PodOptions(version, each, rules).of(body)
                for found in options if isinstance(options, list) and len(options) == 1 else ():
                    option = option or found
                    for key, possible in found.values.items():
                        values[key] = tuple(dict.fromkeys((*values.get(key, ()), *possible)))
        if option is None:
            return None
        why = f"{option.why}, and its resources were changed while it ran"
        again = compare(body, [option, replace(option, values=values, why=why)])
        return again if again is not None and again.ruling.allowed else None


def _given(pod: Pod) -> Iterator[Pod]:
    """The pod with the resources that the status says its containers have, if it says any."""
    status, spec = pod.status, pod.spec
    if status is None:
        return
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    found = {each.name: each.resources for each in statuses if each.resources}
    if found:
        containers, inits = (
            tuple(replace(c, resources=found.get(c.name or "", c.resources)) for c in each or ())
            for each in (spec.containers, spec.init_containers)
        )
        yield replace(pod, spec=replace(spec, containers=containers, init_containers=inits))


def differing_resources(first: ListedPod, second: ListedPod) -> tuple[str, str, str] | None:
    """The first container whose resources two versions show differently, and both in JSON."""
    pods = [listed.pod for listed in (first, second)]
    given = [
        {
            c.name: {"requests": c.requests, "limits": c.limits}
            for c in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        }
        for pod in filter(None, pods)
    ]
    before, after = given if len(given) == 2 else ({}, {})
    for name in after:
        sides = before.get(name), after[name]
        if name in before and sides[0] != sides[1]:
            texts = [msgspec.json.encode(s, order="deterministic").decode() for s in sides]
            return name or "", texts[0], texts[1]
    return None
