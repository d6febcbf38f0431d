"""Pod objects as admission gets them, and what they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.allocation.state import same_resources
from kubeledger.kubelet.kube.pod import (
    SIDECAR,
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    containers_of,
)
from kubeledger.kubelet.kube.podclass import CONFIG_SOURCE
from kubeledger.kubelet.kube.podtotals import allocated, resized_spec
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import is_extended_resource
from kubeledger.model.bodies.lifecycle import PodResized
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.pods import ListedPod, PodRegister
from kubeledger.verify.evidence.times import ROUND_NS

_REMEMBERED_MAX: Final = 4096
_BEFORE_MAX: Final = 8
_STATUS_NS: Final = 5 * NS_PER_S
"""So long a decision may take, with a status that comes back meanwhile."""

_Resources = dict[str, ResourceRequirements]
"""By container."""


class PodObject(msgspec.Struct, frozen=True):
    """A pod as admission gets it.

    Attributes:
        pod: the object; ``seq`` the record that shows it.
        asked: resources that it requests some of.
        extended: those of them that device plugins have.
    """

    pod: Pod
    seq: int
    asked: frozenset[str]
    extended: tuple[str, ...]


class PodObjects:
    """The objects that lists show, with what the kubelet allocated (since 1.33).

    What a resize asks for counts from its allocation on: until then, what the pod was admitted
    with.
    """

    def __init__(self, listed: PodRegister) -> None:
        self._lists = listed
        self._objects: dict[tuple[ListedPod, str | None, str, int], PodObject | None] = {}
        self._allocated: dict[str | None, list[tuple[int, _Resources]]] = {}
        self._told: dict[str | None, list[int]] = {}
        self._decided: dict[str | None, list[int]] = {}
        self._unsaid: dict[str | None, list[int]] = {}

    def forget(self) -> None:
        """What was read once is read again where it is asked for; pods that are gone are not."""
        self._objects.clear()

    def foresee(self, record: Record, body: PodResized) -> None:
        is_unsaid = body.outcome == "allocated" and body.resources is None
        times = self._unsaid if is_unsaid else self._decided
        times.setdefault(body.pod_uid, []).append(record.ts_ns)
        self._told.setdefault(body.pod_uid, []).append(record.ts_ns)

    def resized(self, record: Record, body: PodResized, state: NodeState) -> None:
        if body.outcome == "allocated" and body.resources is not None:
            given = msgspec.convert(body.resources, _Resources)
            self._allocated.setdefault(body.pod_uid, []).append((record.ts_ns, given))

    def is_resized(self, uid: str | None) -> bool:
        return uid in self._told

    def is_resized_untold(self, ts_ns: int, listed: ListedPod) -> bool:
        """Whether by then lists show it to ask for something else, and no line what came of it."""
        if self.is_resized(listed.uid):
            return False
        versions = self._lists.versions(listed)
        later = next((n for n, each in enumerate(versions) if each.ts_ns > ts_ns), len(versions))
        specs = (each.as_(Pod).spec for each in versions[: later + 1])
        asked = [[each.resources for each in spec.containers or ()] for spec in specs]
        return any(each != asked[0] for each in asked)

    def at(self, ts_ns: int, interval: PodActiveInterval, node: str) -> PodObject | None:
        """A pod as admission got it; None where no list shows it as it was, or no readable one."""
        listed = self._lists.at(ts_ns, interval.uid, interval.namespace, interval.name)
        if listed is None and interval.is_static:
            # A static pod's name is that of its manifest and the node.
            stem, dash, _ = interval.name.partition(f"-{node}")
            listed = self._lists.at(ts_ns, None, interval.namespace, stem) if dash else None
        if listed is None:
            return None
        times = [at_ns for at_ns, _ in self._allocated.get(listed.uid, ()) if at_ns <= ts_ns]
        first_ns = self._lists.versions(listed)[0].ts_ns
        if not times and min(self._told.get(listed.uid, ()), default=first_ns) < first_ns:
            return None  # all lists show what was asked for later
        if self._lists.changed_unseen(ts_ns, listed):
            return None  # perhaps, too
        if self._is_unsaid(listed, max(times, default=0), ts_ns):
            return None
        key = (listed, interval.source, interval.key, len(times))
        if key not in self._objects:
            if len(self._objects) >= _REMEMBERED_MAX:
                self._objects.clear()
            self._objects[key] = _read(listed, interval, self._given(listed, len(times)))
        return self._objects[key]

    def _is_unsaid(self, listed: ListedPod, since_ns: int, by_ns: int) -> bool:
        """Whether between two times it was given what neither its line nor a list shows."""
        told, shown = self._told.get(listed.uid, ()), self._lists.versions(listed)
        for ts_ns in self._unsaid.get(listed.uid, ()):
            next_ns = min((each for each in told if each > ts_ns), default=1 << 62)
            is_shown = any(ts_ns - ROUND_NS <= each.ts_ns < next_ns for each in shown)
            if since_ns < ts_ns <= by_ns and not is_shown:
                return True
        return False

    def asking(
        self, ts_ns: int, interval: PodActiveInterval, resources: dict[str, Any]
    ) -> PodObject | None:
        """A pod as a resize asks for it: container -> ``requests`` and ``limits``."""
        listed = self._lists.at(ts_ns, interval.uid, interval.namespace, interval.name)
        if listed is None:
            return None
        with suppress(msgspec.ValidationError):
            return _read(listed, interval, msgspec.convert(resources, _Resources))
        return None

    def asked(self, ts_ns: int, interval: PodActiveInterval, now: PodObject) -> list[PodObject]:
        """What lists show that it may have asked for then: the last one before, and the next.

        What asks for the same as it has ``now`` is left out.
        """
        listed = self._lists.at(ts_ns, interval.uid, interval.namespace, interval.name)
        versions = () if listed is None else self._lists.versions(listed)
        before = [each for each in versions if each.ts_ns <= ts_ns][-1:]
        after = [each for each in versions if each.ts_ns > ts_ns]
        wants = (_read(each, interval, {}) for each in (*before, *after))
        other = [each for each in wants if each is not None and each.pod.spec != now.pod.spec]
        return other[: 1 + bool(before)]

    def denied(self, ts_ns: int, interval: PodActiveInterval, want: PodObject) -> int | None:
        """The list that shows what a pod asked for in its only change since the one before.

        None where that is what it wants, or where it may have asked for more in between.
        """
        listed = self._lists.at(ts_ns, interval.uid, interval.namespace, interval.name)
        versions = () if listed is None else self._lists.versions(listed)
        later = sum(each.ts_ns <= ts_ns for each in versions)
        if listed is None or not 0 < later < len(versions):
            return None
        since_ns, until_ns = versions[later - 1].ts_ns, versions[later].ts_ns + ROUND_NS
        told = sum(since_ns <= ts <= until_ns for ts in self._told.get(listed.uid, ()))
        told = max(told, self._lists.updates(listed, since_ns, until_ns))
        if told + self._lists.additions(listed, since_ns, until_ns) > 1:
            return None
        shown = [_read(each, interval, {}) for each in versions[later - 1 : later + 1]]
        uses = _uses(want)
        if any(each is None or all(map(same_resources, _uses(each), uses)) for each in shown):
            return None
        return versions[later].seq

    def readings(self, ts_ns: int, interval: PodActiveInterval, node: str) -> tuple[Pod, ...]:
        """The pod with what else its status may have said of resizes, as far as lists show.

        Lists show what the kubelet knows; the object that it counts has the status that came
        back from the API server. Lists without it leave open which of the last resizes it tells,
        others which of those since the first of them.
        Where they show more resizes than lines tell of, the pod may have been allocated what any
        of them shows.
        """
        now = self.at(ts_ns, interval, node)
        listed = None if now is None else self._lists.at(ts_ns, interval.uid)
        if now is None or listed is None:
            return ()
        versions = self._lists.versions(listed)
        specs = [_as_admitted(each.as_(Pod), interval, {}).spec for each in versions]
        asked = [spec for n, spec in enumerate(specs) if spec not in specs[:n]]
        told = self._decided.get(listed.uid, ())
        untold = any(
            one != other and not any(a.ts_ns - ROUND_NS <= at_ns <= b.ts_ns for at_ns in told)
            for (a, one), (b, other) in pairwise(zip(versions, specs, strict=True))
        )
        if not untold and not self._allocated.get(listed.uid):
            return ()
        index = versions.index(listed) if listed in versions else 0
        last = 1 + sum(each.ts_ns <= ts_ns + _STATUS_NS for each in versions)  # and the one after
        lags = ts_ns <= versions[index].ts_ns + _STATUS_NS + ROUND_NS  # the list may be the newer
        shown = versions[max(index - lags, 0) : max(last, index + 2)]
        statuses = [each.as_(Pod).status for each in shown]
        times = [at_ns for at_ns, _ in self._allocated.get(listed.uid, ()) if at_ns <= ts_ns]
        # A list may still show the status of before; what came back since, none need show.
        first = sum(at_ns <= shown[0].ts_ns for at_ns in times)
        seen = (each.as_(Pod).status for each in shown if each.ts_ns <= ts_ns)
        if not any(one.resources for each in seen if each for one in each.container_statuses or ()):
            first = max(len(times) - _BEFORE_MAX, 0)
        had = (self._given(versions[-1], number) for number in range(first, len(times) + 1))
        given = ((ContainerStatus(n, resources=r) for n, r in each.items()) for each in had)
        statuses += [PodStatus(container_statuses=tuple(before)) for before in given]
        found, counted = list[Pod](), [_counted(now.pod)]
        specs = [now.pod.spec, *(asked if untold else ())]
        for spec, status in product(specs, (now.pod.status, *statuses)):
            pod = replace(now.pod, spec=spec, status=status)
            if (counts := _counted(pod)) not in counted:
                found.append(pod)
                counted.append(counts)
        return tuple(found)

    def _given(self, listed: ListedPod, resizes: int) -> _Resources:
        """What its containers have after so many resizes, where that is not what its spec says."""
        if resizes:
            return self._allocated[listed.uid][resizes - 1][1]
        first = self._lists.versions(listed)[0]
        if first is listed or listed.is_manifest:
            return {}
        with suppress(msgspec.ValidationError):
            each = containers_of(first.as_(Pod))
            return {one.name or "": one.resources for one in each if one.resources is not None}
        return {}


def _uses(shown: PodObject) -> list[ResourceRequirements | None]:
    return [container.resources for container in containers_of(shown.pod)]


def _counted(pod: Pod) -> PodSpec:
    """What counts of a pod that may be resized."""
    return resized_spec(allocated(pod), pod_level=True)


def requests_of(pod: Pod) -> Iterator[tuple[str, str | float | None]]:
    """Resources and amounts that a pod requests, in whatever way."""
    spec = pod.spec
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    for part in (*(container.resources for container in containers), spec.resources):
        if part is not None:
            yield from (part.requests or {}).items()
    yield from (spec.overhead or {}).items()


def _read(listed: ListedPod, interval: PodActiveInterval, given: _Resources) -> PodObject | None:
    try:
        pod = _as_admitted(listed.as_(Pod), interval, given)
    except msgspec.ValidationError:
        return None
    asked = [name for name, amount in requests_of(pod) if _is_some(amount)]
    extended = dict.fromkeys(filter(is_extended_resource, asked))
    return PodObject(pod, listed.seq, frozenset(asked), tuple(extended))


def _as_admitted(pod: Pod, interval: PodActiveInterval, given: _Resources) -> Pod:
    """Requests that only limits are given for are those, and a static pod is marked as one.

    The API server and the kubelet do so before admission; a manifest does not hold it yet. Nor
    does it hold a UID, by which preemption tells pods apart.
    """
    spec, metadata = pod.spec, pod.metadata
    inits = spec.init_containers

    def admitted(container: Container) -> Container:
        resources = given.get(container.name or "") or container.resources
        if resources is not None and resources.limits:
            requests = {**resources.limits, **(resources.requests or {})}
            resources = replace(resources, requests=requests)
        return replace(container, resources=resources)

    own, inits = tuple(map(admitted, spec.containers or ())), inits and tuple(map(admitted, inits))
    spec = replace(spec, containers=own, init_containers=inits)
    if interval.is_static and CONFIG_SOURCE not in (metadata.annotations or {}):
        annotations = {**(metadata.annotations or {}), CONFIG_SOURCE: interval.source or ""}
        metadata = replace(metadata, annotations=annotations)
    return replace(pod, spec=spec, metadata=replace(metadata, uid=metadata.uid or interval.key))


def _is_some(written: str | float | None) -> bool:
    try:
        return written is not None and Quantity.from_api(written).value() > 0
    except QuantityError:
        return True


# The containers of one version of a pod, as managers of devices, CPUs and memory get them.


class Spec(NamedTuple):
    """A container of a listed pod.

    Attributes:
        defaulted: the API server's defaults are in it, so that a class other than Guaranteed
            is certain.
    """

    pod: Pod
    container: Container
    seq: int
    defaulted: bool

    @property
    def name(self) -> str:
        return self.container.name or ""

    @property
    def is_init(self) -> bool:
        """An init container; ``is_sidecar``: one that keeps running."""
        return self.container in (self.pod.spec.init_containers or ())

    @property
    def is_sidecar(self) -> bool:
        return self.is_init and self.container.restart_policy == SIDECAR

    def limit(self, resource: str) -> int:
        """Its limit on a resource, rounded up; 0 where it has none that can be read."""
        with suppress(QuantityError):
            return Quantity.from_api(self.container.limits.get(resource, "0")).value()
        return 0


def specs_in(listed: ListedPod) -> Iterator[Spec]:
    """The containers of one version of a pod, in the order in which they get something."""
    try:
        pod = listed.as_(Pod)
    except (msgspec.ValidationError, BadInputError):
        return
    defaulted = pod.status is not None and pod.status.qos_class is not None
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        yield Spec(pod, container, listed.seq, defaulted)
