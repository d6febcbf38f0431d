"""Whether pods can have been ranked as recorded, by what they request, may use and used.

A pod comes before another if it exceeds its request and the other does not, then by lower
priority, then by more usage above its request; a pod without statistics comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.eviction.local_storage import LocalStorageExcess, excesses
from kubeledger.kubelet.eviction.ranking import candidates
from kubeledger.kubelet.eviction.signals import (
    RESOURCE_OF,
    ContainerStats,
    DiskLayout,
    FsStats,
    MemoryStats,
    PodReference,
    PodStats,
    ProcessStats,
    VolumeStats,
    format_of,
)
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError, value_of
from kubeledger.kubelet.preemption.explain import listing
from kubeledger.model.bodies.eviction import PodSpared, PodUsage, PodUsageObserved, RankedPod
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.errors import KubeledgerError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_objects import PodObjects
from kubeledger.verify.evidence.pods import key_of_pod

_NANOS: Final = 10**9


class Bounds(NamedTuple):
    """Between what a usage lies, both included; ``most`` None for no bound."""

    least: int
    most: int | None


class Place(msgspec.Struct, frozen=True):
    """A pod's place in a recorded ranking, as far as it can be judged.

    Attributes:
        pod: its spec; None when no list shows it.
        inputs: seqs of records: its spec (0 where none shows it), then its usage around.
        request_nanos, deducted_nanos: as in ``kubelet.eviction.ranking.Candidate``; a request
            of -1 for process IDs, of which every usage is above what is requested.
        likely, possible: bounds of its usage; None without a sample.
        has_statistics: None where it may have had none, so that it may stand anywhere, or some:
            a container, or sampling, had just begun; False where no sample shows any.
    """

    name: str
    pod: Pod | None
    inputs: tuple[int, ...]
    priority: int = 0
    request_nanos: int = 0
    deducted_nanos: int = 0
    likely: Bounds | None = None
    possible: Bounds | None = None
    has_statistics: bool | None = False

    def above(self, used: Bounds, *, exceeds: bool) -> Bounds | None:
        """Usage above what is deducted, when it does or does not exceed its request.

        None where it cannot.
        """
        least, most = used.least * _NANOS, None if used.most is None else used.most * _NANOS
        if exceeds:
            least = max(least, self.request_nanos + 1)
        else:
            most = self.request_nanos if most is None else min(most, self.request_nanos)
        if most is not None and least > most:
            return None
        deducted = self.deducted_nanos
        return Bounds(least - deducted, None if most is None else most - deducted)

    def text(self, resource: str) -> str:
        """The pod's usage against its request, and its priority."""
        if self.pod is None:
            return "is in no list, so its request is not known"
        priority = f"priority {self.priority}"
        if self.has_statistics is False or self.likely is None:
            return f"may have had no statistics, and such pods go first ({priority})"
        form = format_of(resource)
        least, most = (str(Quantity.of(n or 0, form)) for n in self.likely)
        used = least if least == most else f"{least} to {most}"
        request = Quantity.of(-(-self.request_nanos // _NANOS), form)
        return f"used {used} of a request of {request} ({priority})"


def _may_precede(first: Place, other: Place, *, likely: bool) -> bool:
    """Whether a pod can come before another, with usages that are likely, or all possible ones.

    Which of them may have had no statistics is likely to have had some.
    """
    one, two = (pod.likely if likely else pod.possible for pod in (first, other))
    statistics = first.has_statistics, other.has_statistics
    if one is None or two is None or False in statistics or (None in statistics and not likely):
        return True
    for exceeds, exceeds_too in ((True, True), (True, False), (False, False)):
        above = first.above(one, exceeds=exceeds)
        below = other.above(two, exceeds=exceeds_too)
        if above is None or below is None:
            continue
        if exceeds != exceeds_too or first.priority < other.priority:
            return True
        enough = above.most is None or above.most >= below.least
        if first.priority == other.priority and enough:
            return True
    return False


def judge_order(
    pairs: Iterable[tuple[Place, Place]], why: str, resource: str, ts_ns: int
) -> Judgement:
    """Whether the first pod of each pair can have come before the other; ``why`` it did.

    Usage that is likely makes it a match; what is only possible is open, and named.
    """
    unlikely = [pair for pair in pairs if not _may_precede(*pair, likely=True)]
    if not unlikely:
        return same(True, why)
    wrong = [pair for pair in unlikely if not _may_precede(*pair, likely=False)]
    first, other = (wrong or unlikely)[0]
    denied = f"pod {other.name} had to go before it, by what both used: "
    denied += f"pod {other.name} {other.text(resource)}; pod {first.name} {first.text(resource)}"
    if wrong:
        return same(False, denied)
    missing = f"what pods {first.name} and {other.name} used of {resource} at {format_ts(ts_ns)}"
    doubtful = [each.name for each in (first, other) if each.has_statistics is None]
    if doubtful:
        missing = f"whether the kubelet had statistics of pod {listing(doubtful)}"
    return open_to(missing, denied=denied)


def judge_first(places: Sequence[Place], resource: str, ts_ns: int) -> Judgement:
    """Whether the first of these pods can have come before each of the others."""
    first, *others = places
    after = next((each for each in others if each.likely is not None), next(iter(others), None))
    why = f"pod {first.name} was the only one to go"
    if after is not None:
        why = f"pod {first.name} {first.text(resource)}"
        why += f"; next came pod {after.name}, which {after.text(resource)}"
    found = judge_order([(first, each) for each in others], why, resource, ts_ns)
    return replace(found, inputs=first.inputs)


def places_text(places: Sequence[Place], spared: Sequence[bool], resource: str) -> dict[str, str]:
    """Pod -> what the kubelet ranked it by, the first to go first; ``pod/NS/NAME`` as key."""
    return {
        f"pod/{place.name}": place.text(resource) + ("; critical, so it was spared" * passed)
        for place, passed in zip(places, spared, strict=True)
    }


# What pods request, may use and used, for the ranking.
#
# The kubelet ranks by its cached statistics: cAdvisor looks at a cgroup every ``--housekeeping-
# interval`` (10 s) and up to twice as long. So between two samples of memory that are less than two
# intervals apart there was no other, and what the kubelet saw is known; else it may have seen
# anything that the pod can use. What lies between the samples around is what is likely.

LATER_NS: Final = 21 * NS_PER_S
"""A sample taken after a decision is shown by a reading within this time."""
_READINGS: Final = 6
_GONE_NS: Final = 600 * NS_PER_S
_STORAGE_NS: Final = 60 * NS_PER_S
"""Volumes are measured once a minute."""
_STEADY_NS: Final = 30 * NS_PER_S
"""A container that runs for so long has statistics."""
_INTERVAL_NS: Final = 10 * NS_PER_S
_STAMP_NS: Final = NS_PER_S
"""Samples are stamped in whole seconds."""

_Who = RankedPod | PodUsage | PodEvicted | PodSpared


class _Row(NamedTuple):
    """A pod's row of a reading."""

    ts_ns: int
    seq: int
    usage: PodUsage


class _Sample(NamedTuple):
    """A value at a time."""

    ts_ns: int
    value: int


class Usages:
    """The last readings of every pod; as long as it is shown, and a little longer."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._rows: dict[str, list[_Row]] = {}
        self._stated: dict[str, tuple[str | None, int, int]] = {}
        self.objects = PodObjects(context.pods)

    def note(self, ts_ns: int, body: PodEvicted, used: int | None) -> None:
        """What the message of an eviction shows of the containers of its pod, if anything."""
        if used is not None:
            self._stated[key_of_pod(body)] = (body.resource, ts_ns, used)

    def read(self, record: Record, body: PodUsageObserved) -> None:
        for usage in body.pods:
            rows = self._rows.setdefault(key_of_pod(usage), [])
            rows.append(_Row(record.ts_ns, record.seq, usage))
            del rows[:-_READINGS]
        past_ns = record.ts_ns - _GONE_NS
        self._rows = {key: rows for key, rows in self._rows.items() if rows[-1].ts_ns >= past_ns}

    def spec(self, ts_ns: int, pod: _Who) -> tuple[Pod | None, int | None]:
        """The pod's spec then, and the record that shows it: of a resize, what was allocated."""
        who = pod.pod_uid, pod.namespace, pod.pod
        listed = self._context.pods.at(ts_ns, *who)
        interval = self._context.timeline.interval(ts_ns, *who)
        if listed is not None and self.objects.is_resized_untold(ts_ns, listed):
            return None, None
        if interval is not None and self.objects.is_resized(pod.pod_uid):
            given = self.objects.at(ts_ns, interval, "")
            return (None, None) if given is None else (given.pod, given.seq)
        spec = None if listed is None else listed.pod
        return (None, None) if spec is None or listed is None else (spec, listed.seq)

    def latest(self, ts_ns: int) -> list[PodUsage]:
        """Pods that the last reading before a time shows."""
        known = [row for rows in self._rows.values() for row in rows if row.ts_ns <= ts_ns]
        last = max((row.ts_ns for row in known), default=0)
        return [row.usage for row in known if row.ts_ns == last]

    def excess(
        self, ts_ns: int, body: PodEvicted, pod: Pod, layout: DiskLayout
    ) -> tuple[LocalStorageExcess, int] | None:
        """The pod's limit of local storage that the reading nearest shows exceeded, and its seq."""
        profile = self._context.known_profile
        rows = self._rows.get(key_of_pod(body), ())
        near = (row for row in rows if abs(row.ts_ns - ts_ns) <= _STORAGE_NS)
        for row in sorted(near, key=lambda each: abs(each.ts_ns - ts_ns)):
            for excess in excesses(pod, _stats_of(row.usage), layout, profile):
                if excess.limit == body.signal and body.message in (None, excess.message):
                    return excess, row.seq
        return None

    def place(self, ts_ns: int, who: _Who, signal: str, layout: DiskLayout) -> Place:
        """A pod's place in a ranking for a signal."""
        name, resource = f"{who.namespace}/{who.pod}", RESOURCE_OF[signal]
        pod, listed = self.spec(ts_ns, who)
        rows = self._rows.get(key_of_pod(who), [])
        inputs = (listed or 0, *(row.seq for row in _around(rows, ts_ns)))
        place = Place(name, pod, inputs)
        if pod is None:
            return place
        try:
            place, samples = self._samples(place, pod, rows, signal, layout)
            most = _most_memory(pod) if resource == "memory" else None
        except (KubeledgerError, QuantityError):
            return place
        of, at_ns, stated = self._stated.get(key_of_pod(who), (None, ts_ns, 0))
        is_stated = of == resource and abs(at_ns - ts_ns) <= NS_PER_S
        samples = samples or [_Sample(ts_ns, stated)] * is_stated
        if not samples:
            return place
        likely, possible = _usage_at(samples, ts_ns, most, sampled=resource == "memory")
        if is_stated and likely != possible:
            # A pod uses what its containers do, and its sandbox and volumes besides.
            likely = Bounds(max(likely.least, stated), max(likely.most or 0, stated))
        # Before the first sample there may have been no statistics: such pods go first.
        has_statistics: bool | None = is_stated
        if not is_stated and abs(samples[0].ts_ns - ts_ns) < NS_PER_S:
            has_statistics = None  # it was taken in this very round
        if not is_stated and samples[0].ts_ns + NS_PER_S <= ts_ns:
            has_statistics = self._has_statistics(ts_ns, who)
        return replace(place, likely=likely, possible=possible, has_statistics=has_statistics)

    def _samples(
        self, place: Place, pod: Pod, rows: Sequence[_Row], signal: str, layout: DiskLayout
    ) -> tuple[Place, list[_Sample]]:
        """The place with priority and request, and what each reading shows of the usage."""
        profile, uid = self._context.known_profile, pod.metadata.uid or ""
        is_memory, found = RESOURCE_OF[signal] == "memory", {}
        (spec,) = candidates([pod], {}, signal, layout, profile)
        for row in rows:
            if is_memory and row.usage.memory_bytes is None:
                continue
            (one,) = candidates([pod], {uid: _stats_of(row.usage)}, signal, layout, profile)
            at_ns = row.usage.memory_ts_ns if is_memory else None
            found[at_ns or row.ts_ns] = one.usage or 0
        place = replace(place, priority=spec.priority, deducted_nanos=spec.deducted_nanos)
        request = -1 if RESOURCE_OF[signal] == "pids" else spec.request_nanos
        samples = [_Sample(*sample) for sample in sorted(found.items())]
        return replace(place, request_nanos=request), samples

    def _has_statistics(self, ts_ns: int, who: _Who) -> bool | None:
        """Whether a container of the pod had run for a while; None: one ran, and died soon.

        Source: v1.30.1 pkg/kubelet/stats/cri_stats_provider.go removeTerminatedContainers
        """
        pod = self._context.timeline.pod(ts_ns, who.pod_uid, who.namespace, who.pod)
        starts: dict[str | None, int] = {}
        found: bool | None = False
        for run in reversed(pod.runs):
            started_ns, later_ns = run.started_ns, starts.get(run.name)
            if run.sandbox or started_ns is None:
                continue
            starts[run.name] = started_ns
            ends = [at_ns for at_ns in (run.died_ns, later_ns) if at_ns is not None]
            until_ns = min(ends, default=ts_ns + LATER_NS)
            if not started_ns <= ts_ns < until_ns:
                continue
            if run.name is None:  # it may be the sandbox
                found = None
                continue
            # Where its end may be lost it may be over already.
            needed_ns = ts_ns if ts_ns - started_ns > _STEADY_NS else ts_ns + LATER_NS
            missing = self._context.coverage.missing
            if until_ns >= needed_ns if ends else missing(started_ns, needed_ns) is None:
                return True
            found = None
        return found


def _usage_at(
    samples: Sequence[_Sample], ts_ns: int, most: int | None, *, sampled: bool
) -> tuple[Bounds, Bounds]:
    """What a pod is likely to have used at a time, as the kubelet saw it, and what is possible.

    Args:
        samples: (n,) in the order of their time, each once, n >= 1.
        ts_ns: that time.
        most: it cannot use more; None for no bound.
        sampled: the values are taken at cAdvisor's interval (memory); else at any time.
    """
    before = [sample for sample in samples if sample.ts_ns <= ts_ns]
    after = [sample for sample in samples if sample.ts_ns > ts_ns][:1]
    around = before[-1:] + after
    if before:
        last = before[-1]
        age_ns = ts_ns - last.ts_ns
        if age_ns <= _STAMP_NS:
            around += before[-2:-1]
        elif sampled and (
            after[0].ts_ns - last.ts_ns < 2 * _INTERVAL_NS - _STAMP_NS
            if after
            else age_ns < _INTERVAL_NS
        ):
            known = Bounds(last.value, last.value)
            return known, known
    values = [sample.value for sample in around]
    return Bounds(min(values), max(values)), Bounds(0, most)


def _around(rows: Sequence[_Row], ts_ns: int) -> list[_Row]:
    """The last reading before and the first after."""
    before = [row for row in rows if row.ts_ns <= ts_ns]
    return before[-1:] + [row for row in rows if row.ts_ns > ts_ns][:1]


def _most_memory(pod: Pod) -> int | None:
    """What the pod's cgroup lets it use; None where a container has no limit."""
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    limits = [container.limits.get("memory") for container in containers]
    stated = [limit for limit in limits if limit is not None]
    return sum(map(value_of, stated)) if len(stated) == len(limits) else None


def _stats_of(row: PodUsage) -> PodStats:
    """A recorded row as the decider reads it."""
    return PodStats(
        pod_ref=PodReference(row.pod, row.namespace, row.pod_uid),
        containers=tuple(
            ContainerStats(
                each.name,
                memory=MemoryStats(working_set_bytes=each.memory_bytes),
                rootfs=FsStats(used_bytes=each.rootfs_bytes, inodes_used=each.rootfs_inodes),
                logs=FsStats(used_bytes=each.logs_bytes, inodes_used=each.logs_inodes),
            )
            for each in row.containers
        ),
        memory=MemoryStats(working_set_bytes=row.memory_bytes),
        process_stats=ProcessStats(row.processes),
        ephemeral_storage=FsStats(used_bytes=row.storage_bytes),
        volumes=tuple(
            VolumeStats(name=each.name, used_bytes=each.used_bytes, inodes_used=each.used_inodes)
            for each in row.volumes
        ),
    )
