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
from kubeledger.kubelet.eviction.ranking import Candidate, candidates, rank_key
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
from kubeledger.kubelet.kube.pod import Pod, containers_of
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
_ENDLESS: Final = 2**63
_FIRST, _LAST = (-_ENDLESS,), (_ENDLESS,)


class Bounds(NamedTuple):
    """Between what a usage lies, both included; ``most`` None for no bound."""

    least: int
    most: int | None


class Place(msgspec.Struct, frozen=True):
    """A pod's place in a recorded ranking, as far as it can be judged.

    Attributes:
        pod: its spec; None when no list shows it.
        inputs: seqs of records: its spec (0 where none shows it), then its usage around.
        ranked: what the ranking reads of its spec; None when that is not known.
        likely, possible: bounds of its usage; None without a sample.
        has_statistics: None where it likely had some: a container had just begun; False where it
            may as well have had none: no container, or no sample before, is known.
    """

    name: str
    pod: Pod | None
    inputs: tuple[int, ...]
    ranked: Candidate | None = None
    likely: Bounds | None = None
    possible: Bounds | None = None
    has_statistics: bool | None = False

    def keys(self, signal: str, *, likely: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first and the last place that it can have had, by likely or by possible usage.

        More usage never moves a pod back, and none without statistics stands behind itself.
        """
        used, key = self.likely if likely else self.possible, rank_key(signal)
        if self.ranked is None or used is None or (likely and self.has_statistics is False):
            return _FIRST, _LAST
        most = _ENDLESS if used.most is None else used.most
        first = replace(self.ranked, usage=most if likely or self.has_statistics else None)
        return key(first), key(replace(self.ranked, usage=used.least))

    def text(self, resource: str) -> str:
        """The pod's usage against its request, and its priority."""
        if self.pod is None:
            return "is in no list, so its request is not known"
        priority = f"priority {self.pod.spec.priority or 0}"
        if self.has_statistics is False or self.ranked is None or self.likely is None:
            return f"may have had no statistics, and such pods go first ({priority})"
        form = format_of(resource)
        least, most = (str(Quantity.of(n or 0, form)) for n in self.likely)
        used = least if least == most else f"{least} to {most}"
        request = Quantity.of(-(-self.ranked.request_nanos // _NANOS), form)
        return f"used {used} of a request of {request} ({priority})"


def _is_turned(first: Place, other: Place, signal: str, *, likely: bool) -> bool:
    """Whether a pod cannot have come before another."""
    return first.keys(signal, likely=likely)[0] > other.keys(signal, likely=likely)[1]


def judge_order(
    pairs: Iterable[tuple[Place, Place]], why: str, signal: str, ts_ns: int
) -> Judgement:
    """Whether the first pod of each pair can have come before the other; ``why`` it did.

    Usage that is likely makes it a match; what is only possible is open, and named.
    """
    resource = RESOURCE_OF[signal]
    unlikely = [pair for pair in pairs if _is_turned(*pair, signal, likely=True)]
    if not unlikely:
        return same(True, why)
    wrong = [pair for pair in unlikely if _is_turned(*pair, signal, likely=False)]
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


def judge_first(places: Sequence[Place], signal: str, ts_ns: int) -> Judgement:
    """Whether the first of these pods can have come before each of the others."""
    resource = RESOURCE_OF[signal]
    first, *others = places
    after = next((each for each in others if each.likely is not None), next(iter(others), None))
    why = f"pod {first.name} was the only one to go"
    if after is not None:
        why = f"pod {first.name} {first.text(resource)}"
        why += f"; next came pod {after.name}, which {after.text(resource)}"
    found = judge_order([(first, each) for each in others], why, signal, ts_ns)
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
            while len(rows) > _READINGS and rows[1].ts_ns < record.ts_ns - _STORAGE_NS - LATER_NS:
                del rows[0]
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
        name, resource = f"{who.namespace}/{who.pod}", RESOURCE_OF[signal]
        pod, listed = self.spec(ts_ns, who)
        rows = self._rows.get(key_of_pod(who), [])
        # The last reading before and the first after.
        before = [row.seq for row in rows if row.ts_ns <= ts_ns][-1:]
        inputs = (listed or 0, *before, *[row.seq for row in rows if row.ts_ns > ts_ns][:1])
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
        since_ns = None
        if resource == "memory" and all(row.usage.memory_ts_ns for row in rows):
            # Another process samples anew.
            until_ns = min((each.ts_ns for each in samples if each.ts_ns > ts_ns), default=ts_ns)
            process = self._context.timeline.process(until_ns)
            since_ns = 0 if process is None else process.known_from_ns
        likely, possible = _usage_at(samples, ts_ns, most, since_ns=since_ns)
        if is_stated and likely != possible:
            # A pod uses what its containers do, and its sandbox and volumes besides.
            likely = Bounds(max(likely.least, stated), max(likely.most or 0, stated))
        has_statistics = is_stated or self._has_statistics(
            ts_ns, who, is_sampled=_is_taken(samples[0], ts_ns)
        )
        return replace(place, likely=likely, possible=possible, has_statistics=has_statistics)

    def _samples(
        self, place: Place, pod: Pod, rows: Sequence[_Row], signal: str, layout: DiskLayout
    ) -> tuple[Place, list[_Sample]]:
        """The place with what is ranked, and what each reading shows of the usage."""
        profile, uid = self._context.known_profile, pod.metadata.uid or ""
        is_memory, found = RESOURCE_OF[signal] == "memory", {}
        (spec,) = candidates([pod], {}, signal, layout, profile)
        for row in rows:
            if is_memory and row.usage.memory_bytes is None:
                continue
            (one,) = candidates([pod], {uid: _stats_of(row.usage)}, signal, layout, profile)
            at_ns = row.usage.memory_ts_ns if is_memory else None
            found[at_ns or row.ts_ns] = one.usage or 0
        samples = [_Sample(*sample) for sample in sorted(found.items())]
        return replace(place, ranked=replace(spec, uid=place.name)), samples

    def _has_statistics(self, ts_ns: int, who: _Who, *, is_sampled: bool) -> bool | None:
        """Whether a container of the pod had run for a while; None: one ran, and died soon.

        Source: v1.30.1 pkg/kubelet/stats/cri_stats_provider.go removeTerminatedContainers
        """
        pod = self._context.timeline.pod(ts_ns, who.pod_uid, who.namespace, who.pod)
        process = self._context.timeline.process(ts_ns)
        process_ns = 0 if process is None else process.known_from_ns
        starts: dict[str | None, int] = {}
        found: bool | None = False
        for run in reversed(pod.runs):
            started_ns, later_ns = run.started_ns, starts.get(run.name)
            if run.sandbox or started_ns is None:
                continue
            starts[run.name] = started_ns
            ends = [] if later_ns is None else [later_ns]
            if run.died_ns is not None:
                times = self._context.times
                ended = times.listed_end(run.container_id, run.died_ns) or times.told(run.died_ns)
                ends.append(max(ended.from_ns, run.killed_ns or 0))
            until_ns = min(ends, default=ts_ns + LATER_NS)
            if not started_ns <= ts_ns < until_ns:
                continue
            if run.name is None or (run.killed_ns or ts_ns) < ts_ns:  # the sandbox, or over by then
                found = None
                continue
            long = ts_ns - max(started_ns, process_ns) > _STEADY_NS
            is_steady = long and not self._context.times.late(ts_ns)
            if not is_sampled and not is_steady:
                continue
            # Where its end may be lost it may be over already.
            needed_ns = ts_ns if is_steady else ts_ns + LATER_NS
            missing = self._context.coverage.missing
            if until_ns >= needed_ns if ends else missing(started_ns, needed_ns) is None:
                return True
            found = None
        return found


def _usage_at(
    samples: Sequence[_Sample], ts_ns: int, most: int | None, *, since_ns: int | None
) -> tuple[Bounds, Bounds]:
    """What a pod is likely to have used at a time, as the kubelet saw it, and what is possible.

    Args:
        samples: (n,) in the order of their time, each once, n >= 1.
        most: it cannot use more; None for no bound.
        since_ns: values are taken at cAdvisor's interval (memory) from then on; None: at any time.
    """
    taken = sum(_is_taken(sample, ts_ns) for sample in samples)
    around = samples[max(taken - 1, 0) :]
    seen = [sample for sample in around if sample.ts_ns <= ts_ns]
    values = [sample.value for sample in around[: len(seen) + 1]]
    if taken and since_ns is not None and since_ns <= (last_ns := around[0].ts_ns):
        # Another one came an interval later at least, and as long before the next that is known.
        next_ns = min((sample.ts_ns for sample in around[1:]), default=last_ns + 2 * _INTERVAL_NS)
        if ts_ns < last_ns + _INTERVAL_NS or next_ns < last_ns + 2 * _INTERVAL_NS - _STAMP_NS:
            values = values[: len(seen)]
            return (known := Bounds(min(values), max(values))), known
    return Bounds(min(values), max(values)), Bounds(0, most)


def _is_taken(sample: _Sample, ts_ns: int) -> bool:
    """Whether it had been taken by then: a stamp in whole seconds is up to a second early."""
    return sample.ts_ns + (0 if sample.ts_ns % _STAMP_NS else _STAMP_NS) <= ts_ns


def _most_memory(pod: Pod) -> int | None:
    """What the pod's cgroup lets it use; None where a container has no limit."""
    limits = [container.limits.get("memory") for container in containers_of(pod)]
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
