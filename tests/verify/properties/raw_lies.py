"""Lies told in the files of a recorded node, before they are imported.

A lie changes the lines that tell of a decision, or what they follow on, in every file that the
record of it rests on: an amount, a name, a reason, the time. What else the node's files hold
denies it. ``LIARS`` has the kinds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.bodies.eviction import (
    NodeConditionsChanged,
    PodPreempted,
    ProcessKilled,
    ReclaimAttempted,
)
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    PullDecided,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodEvicted,
    PodRejected,
    PodResized,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.bodies.resourcemanagers import AffinityDecided
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Finding
from tests.verify.histories import outcomes
from tests.verify.properties.bundles import imported, unpacked
from tests.verify.properties.clocks import moved_by, time_of
from tests.verify.properties.tales import LONG_NS, ends_ns, next_process_ns

LOG, KERNEL, CGROUPS = "kubelet.log", "kernel.log", "cgroupfs.txt"
Place = tuple[str, int]
"""A file below the bundle, and the number of a line of it from 0."""
Edits = dict[Place, bytes | None]
"""Line -> what it says instead; None: it is not there. One with another stamp changes its place."""


class RawLie(msgspec.Struct, frozen=True):
    """What is changed.

    Attributes:
        what: of it, for people.
        edits: of the files.
        about: subjects, of which one has to be named; a subject's beginning is enough.
    """

    what: str
    edits: Edits
    about: tuple[str, ...]


class Bundle:
    """A recorded node's files, and what an import makes of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = imported([path])
        self.found = outcomes(self.records)
        self._sound = {each.seq for each in self.found if isinstance(each, Finding)
                       and each.is_sound and each.recorded is not None}  # fmt: skip
        self._files: dict[str, list[bytes]] = {}

    def lines(self, file: str) -> list[bytes]:
        """Lines of a file, without their ends."""
        if file not in self._files:
            self._files[file] = (self.path / file).read_bytes().split(b"\n")
        return self._files[file]

    def of(self, *kinds: type) -> list[Any]:
        """Records whose bodies are of these kinds; of decisions those that are sound."""
        return [
            r
            for r in self.records
            if isinstance(r.body, kinds) and not getattr(r.body, "inferred", False)
            if r.role != "decision" or r.seq in self._sound
        ]

    def some(self, random: Random, *kinds: type) -> list[Any]:
        """The same in any order."""
        found = self.of(*kinds)
        random.shuffle(found)
        return found

    def told(self, *records: Record, files: Sequence[str] = (LOG, KERNEL)) -> dict[Place, bytes]:
        """The lines that records rest on, in files of these names."""
        return {
            (file, e.line - 1): self.lines(file)[e.line - 1]
            for record in records
            for e in record.evidence
            if e.line is not None and (file := self.below(e.file)).rpartition("/")[2] in files
        }

    def below(self, file: str) -> str:
        return file.partition(f"{self.path.name}/")[2] or file

    def said(self, record: Record, old: str, new: str, **where: Any) -> Edits:  # noqa: ANN401 # of `told`
        """Another text in all lines of a record that have it."""
        pattern, text = re.compile(old.encode()), new.encode()
        told = self.told(record, **where).items()
        return {at: after for at, line in told if (after := pattern.sub(text, line)) != line}

    def at(self, seconds: float, *records: Record) -> Edits:
        """The lines of records with other stamps, where these are the same process's."""
        starts = [r.ts_ns for r in self.records if r.kind == "node.KubeletStarted"]
        for record in records:
            moved_ns = record.ts_ns + round(seconds * NS_PER_S)
            if bisect_right(starts, record.ts_ns) != bisect_right(starts, moved_ns):
                return {}
        told = self.told(*records, files=(LOG,)).items()
        return {at: moved_by(line, seconds) for at, line in told}

    def log(self, *words: str, since: Record | None = None) -> dict[Place, bytes]:
        """Lines of the log that hold all these words, from a record's first line on."""
        first = min((n for _, n in self.told(since)), default=0) if since is not None else 0
        needles = [word.encode() for word in words]
        return {
            (LOG, n): line
            for n, line in enumerate(self.lines(LOG))
            if n >= first and all(needle in line for needle in needles)
        }

    def besides(self, line: bytes) -> Edits:
        """A further line of the log, at the place of its stamp."""
        lines, time = self.lines(LOG), time_of(line)
        place = bisect_right(self._times, time) if time is not None else 0
        place = min(place, len(lines) - 1)
        return {(LOG, place): line + b"\n" + lines[place]}

    def write(self, directory: Path, edits: Edits) -> None:
        """Change a copy of the files."""
        for file in {file for file, _ in edits}:
            told = list[tuple[float, bytes]]()
            for n, line in enumerate(self.lines(file)):
                after = edits.get((file, n), line)
                if after is not None:
                    told.append((self._turn(file, n, after), after))
            path = directory / file
            path.unlink()  # it is a link to the original
            path.write_bytes(b"\n".join(line for _, line in sorted(told, key=lambda x: x[0])))

    def _turn(self, file: str, n: int, line: bytes) -> float:
        """Where a line stands: at its own place, or where its other stamp puts it."""
        time = time_of(line)
        if file != LOG or time is None or time == time_of(self.lines(file)[n]):
            return n
        return bisect_right(self._times, time) - 0.5

    @cached_property
    def _times(self) -> list[datetime]:
        """Of each line of the log the latest stamp so far."""
        stamps = (time_of(line) or datetime.min for line in self.lines(LOG))
        return list(accumulate(stamps, max))


@cache
def bundle(node: str) -> Bundle:
    """Of a recording of the repository."""
    return Bundle(unpacked(node))


def subjects(body: Any) -> tuple[str, ...]:  # noqa: ANN401 # any body
    """Beginnings of the subjects of what is said of a decision."""
    pods = [
        (getattr(body, f"{who}namespace", None), getattr(body, f"{who}pod", None))
        for who in ("", "victim_", "preemptor_")
    ]
    named = [f"{what}/{ns}/{pod}" for ns, pod in pods if pod for what in ("pod", "container")]
    return (*named, "node") if named else ("node", "image/", "cgroup/", "pod/", "container/")


Liar = Callable[[Bundle, Random], Iterator[RawLie]]


def number_alone(text: str) -> str:
    """A pattern of a number that stands alone."""
    return rf"(?<![\w.:-]){text}(?![\w:]|\.\d)"


# -- one value is another ------------------------------------------------------------------------


def values_of(kinds: tuple[type, ...], *ways: tuple[str, str, tuple[str, ...]],
            files: Sequence[str] = (LOG, KERNEL), reason: str | None = None) -> Liar:  # fmt: skip
    """Liars who change what a pattern finds in the lines of such decisions.

    A way is a field or "", a pattern, in which ``{}`` is that field's value, and what is said
    instead: ``+N``, ``*N`` and ``/N`` change a number, other words stand as they are.
    """

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        for record in bundle.some(random, *kinds):
            for field, pattern, others in ways:
                value = getattr(record.body, field) if field else ""
                other_one = reason is not None and record.body.reason != reason
                if value is None or value == () or other_one:
                    continue
                other = random.choice(others)
                old = pattern.replace("{}", re.escape(str(value)))
                edits = _changed(bundle, record, old, other, files)
                if edits:
                    yield RawLie(f"{record.seq} {field or pattern} {other}", edits,
                                 subjects(record.body))  # fmt: skip

    return liar


def _changed(bundle: Bundle, record: Record, old: str, other: str, files: Sequence[str]) -> Edits:
    if other[0] not in "+*/":
        return bundle.said(record, old, other, files=files)
    by = int(other[1:])

    def reckoned(found: re.Match[bytes]) -> bytes:
        number = int(found[0])
        done = {"+": number + by, "*": number * by, "/": number // by}[other[0]]
        return str(done if done != number else number + 1).encode()

    pattern = re.compile(old.encode())
    told = bundle.told(record, files=files).items()
    return {at: after for at, line in told if (after := pattern.sub(reckoned, line)) != line}


def _swapped(line: bytes, one: str, other: str) -> bytes:
    a, b, between = one.encode(), other.encode(), b"\0"
    return line.replace(a, between).replace(b, a).replace(between, b)


# -- evictions -----------------------------------------------------------------------------------


def _another_victim(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """Another pod of the ranking is evicted; its containers are not the ones that die."""
    for record in bundle.some(random, PodEvicted):
        rank = next((r for r in bundle.of(ReclaimAttempted) if r.seq == record.cause), None)
        if rank is None or not rank.body.ranked or len(rank.body.ranked) < 2:
            continue
        other = random.choice(rank.body.ranked[1:])
        lines = bundle.told(record, rank).items()
        edits: Edits = {}
        for at, line in lines:
            after = _swapped(line, f'"{_name(record.body)}"', f'"{other.namespace}/{other.pod}"')
            if record.body.pod_uid and other.pod_uid:
                after = _swapped(after, record.body.pod_uid, other.pod_uid)
            if after != line:
                edits[at] = after
        about = (*subjects(record.body), *subjects(other))
        yield RawLie(f"{record.seq} {other.pod}", edits, about)


def _name(body: Any) -> str:  # noqa: ANN401 # any body
    return f"{body.namespace}/{body.pod}"


def _ranking(change: Callable[[list[bytes], Random], list[bytes]]) -> Liar:
    """The pods of a ranking stand otherwise."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        for record in bundle.some(random, ReclaimAttempted):
            if not record.body.ranked or len(record.body.ranked) < 3:
                continue
            for at, line in bundle.told(record).items():
                listed = re.search(rb"pods ranked for eviction.*pods=\[(.*)\]", line)
                if listed is not None:
                    pods = b",".join(change(listed[1].split(b","), random))
                    edits: Edits = {at: line.replace(listed[1], pods)}
                    yield RawLie(f"{record.seq}", edits, ("node", "pod/"))

    return liar


def _reversed(pods: list[bytes], random: Random) -> list[bytes]:
    return [pods[0], *pods[:0:-1]]


def _less_one(pods: list[bytes], random: Random) -> list[bytes]:
    out = random.randrange(1, len(pods))
    return pods[:out] + pods[out + 1 :]


def _starved(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """Memory stays at a tenth of what is left at most, for 110 s, and nothing is done."""
    signals = [r for r in bundle.of(EvictionSignalObserved) if r.body.signal == "memory.available"]
    acts = [r.ts_ns for r in bundle.of(ReclaimAttempted, NodeConditionsChanged)]
    for first in random.sample(signals, len(signals)):
        until = first.ts_ns + 110 * NS_PER_S
        if any(first.ts_ns - 400 * NS_PER_S < ts < until + 60 * NS_PER_S for ts in acts):
            continue
        spell = [r for r in signals if first.ts_ns <= r.ts_ns <= until]
        edits: Edits = {}
        for record in spell:
            edits |= bundle.said(
                record, r"available(=\"|: )\d+Ki", rf"available\g<1>{random.randint(400, 900)}Ki"
            )
        if len(spell) >= 8:
            yield RawLie(f"{first.seq}", edits, ("node", "pod/"))


# -- time ------------------------------------------------------------------------------------------


def _moved(kinds: tuple[type, ...], *seconds: float, reason: str | None = None) -> Liar:
    """All lines of the decision, of that reason alone, stand at another time."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        for record in bundle.some(random, *kinds):
            by = random.choice(seconds)
            others = reason is not None and record.body.reason != reason
            if not others and (edits := bundle.at(by, record)):
                yield RawLie(f"{record.seq} {by:+} s", edits, subjects(record.body))

    return liar


def _near(
    bundle: Bundle,
    record: Any,  # noqa: ANN401 # of a container
    *kinds: type,
    before_s: float = 0,
    after_s: float = 2,
) -> list[Any]:
    """Records of the same container about that time."""
    return [
        r
        for r in bundle.of(*kinds)
        if _name(r.body) == _name(record.body)
        and r.body.container == record.body.container
        and -before_s * NS_PER_S <= r.ts_ns - record.ts_ns <= after_s * NS_PER_S
    ]


def _too_early(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A restart stands a second behind the end before it, though a back-off runs."""
    for held in bundle.some(random, RestartBackedOff):
        later = _near(bundle, held, RestartBackedOff, ContainerStarted, after_s=600)
        start = next((r for r in later if r.seq > held.seq), None)
        if start is None or not isinstance(start.body, ContainerStarted):
            continue
        by = 1 - (start.ts_ns - held.ts_ns) / NS_PER_S
        ends = _near(bundle, held, ContainerDied, before_s=400, after_s=0)
        waited_s = (held.ts_ns - ends[-1].ts_ns) / NS_PER_S + 1 if ends else 0
        if not ends or by > -8 or waited_s > held.body.back_off_s - 4:
            continue
        events = [r for r in _near(bundle, start, KubernetesEvent, before_s=4)
                  if r.body.reason in ("Created", "Started", "Pulled")]  # fmt: skip
        if edits := bundle.at(by, start, *events):
            yield RawLie(f"{held.seq} {by:+.0f} s", edits, subjects(held.body))


def _died_before(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """The line of a container's end stands before that of its start."""
    starts = {r.body.container_id: r for r in bundle.of(ContainerStarted) if not r.body.sandbox}
    for died in bundle.some(random, ContainerDied):
        start = starts.get(died.body.container_id)
        if start is not None and died.ts_ns - start.ts_ns > 20 * NS_PER_S:
            by = (start.ts_ns - died.ts_ns) / NS_PER_S - 5
            if edits := bundle.at(by, died):
                yield RawLie(f"{died.seq}", edits, subjects(died.body))


def _soon_failed(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A tick of a probe is there, a fraction of its period after the one before."""
    last: dict[tuple[object, ...], Any] = {}
    pairs = list[tuple[Any, Any]]()
    for tick in bundle.of(ProbeExecuted):
        key = (tick.body.container_id, tick.body.probe_type)
        if (before := last.get(key)) is not None:
            pairs.append((before, tick))
        last[key] = tick
    for before, tick in random.sample(pairs, len(pairs)):
        if tick.body.result != "success" and tick.ts_ns - before.ts_ns >= 4 * NS_PER_S:
            by = (before.ts_ns - tick.ts_ns) * 0.7 / NS_PER_S
            yield RawLie(f"{tick.seq}", bundle.at(by, tick), subjects(tick.body))


def _killed_early(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A probe's kill stands behind its first failure, before the threshold is reached."""
    for kill in bundle.some(random, ContainerKilled):
        which = (kill.body.reason or "").removesuffix("_probe")
        failed = [r for r in _near(bundle, kill, ProbeExecuted, before_s=300)
                  if r.body.probe_type == which and r.body.result != "success"
                  and r.body.container_id in (None, kill.body.container_id)]  # fmt: skip
        if len(failed) > 1:
            by = (failed[0].ts_ns - kill.ts_ns) / NS_PER_S + 0.05
            changes = [r for r in _near(bundle, kill, ProbeTransitioned, before_s=5)
                       if r.body.probe_type == which]  # fmt: skip
            yield RawLie(f"{kill.seq}", bundle.at(by, *changes, kill), subjects(kill.body))


# -- what never came -----------------------------------------------------------------------------


def _never_restarted(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """Nothing is seen of a container after its end, though it is to be started again."""
    started, died = bundle.of(ContainerStarted), bundle.of(ContainerDied)
    for record in bundle.some(random, ContainerRestarted):
        body, name = record.body, _name(record.body)
        end = next((r for r in died if r.body.container_id == body.previous_container_id), None)
        if end is None:
            continue
        pod = body.namespace, body.pod
        until = min(ends_ns(bundle.records, pod), next_process_ns(bundle.records, end.ts_ns))
        if until - end.ts_ns < LONG_NS:
            continue
        gone: Edits = {}
        for start in started:
            own = _name(start.body) == name and start.body.container == body.container
            if own and start.ts_ns >= record.ts_ns:
                gone |= dict.fromkeys(bundle.log(start.body.container_id))
        for words in (f"{{{body.container}}}", f'containerName="{body.container}"'):
            gone |= dict.fromkeys(bundle.log(f'"{name}"', words, since=end))
        yield RawLie(f"{record.seq}", gone, subjects(body))


# -- other names -----------------------------------------------------------------------------------


def _another_pod(kinds: tuple[type, ...], who: str = "") -> Liar:
    """All lines of the decision name another pod, with its UID."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        pods = sorted({(r.body.namespace, r.body.pod, r.body.pod_uid)
                       for r in bundle.of(ContainerStarted) if r.body.pod_uid})  # fmt: skip
        for record in bundle.some(random, *kinds):
            ns, pod, uid = (
                getattr(record.body, f"{who}{field}")
                for field in ("namespace", "pod", "uid" if who else "pod_uid")
            )
            others = [each for each in pods if each[1] != pod]
            if uid is None or not others:
                continue
            other = random.choice(others)
            edits: Edits = {}
            for at, line in bundle.told(record).items():
                if b"SyncLoop" in line:
                    continue  # the pod came
                after = line.replace(f'{ns}/{pod}"'.encode(), f'{other[0]}/{other[1]}"'.encode())
                after = after.replace(f"{pod}_{ns}".encode(), f"{other[1]}_{other[0]}".encode())
                after = after.replace(uid.encode(), other[2].encode())
                if after != line:
                    edits[at] = after
            about = (
                *subjects(record.body),
                f"pod/{other[0]}/{other[1]}",
                f"container/{other[0]}/{other[1]}",
            )
            if edits:
                yield RawLie(f"{record.seq} {other[1]}", edits, about)

    return liar


def _another_container(kinds: tuple[type, ...]) -> Liar:
    """The decision's lines have the ID of a container that had ended, or was still to come."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        of = {r.body.container_id: r for r in bundle.of(ContainerStarted) if not r.body.sandbox}
        for record in bundle.some(random, *kinds):
            own, other = record.body.container_id, random.choice(sorted(of))
            if own is not None and (edits := bundle.said(record, own, other)):
                about = (*subjects(record.body), *subjects(of[other].body))
                yield RawLie(f"{record.seq}", edits, about)

    return liar


def _held_device(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A grant has another device in the place of its own."""
    devices = sorted(
        {(r.body.resource, each) for r in bundle.of(DevicesAllocated) for each in r.body.device_ids}
    )
    for record in bundle.some(random, DevicesAllocated):
        for own in record.body.device_ids:
            others = [
                each
                for resource, each in devices
                if resource == record.body.resource and each not in record.body.device_ids
            ]
            if others:
                edits = bundle.said(record, number_alone(re.escape(own)), random.choice(others))
                if edits:
                    yield RawLie(f"{record.seq} {own}", edits, subjects(record.body))


def _left_out(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A run of image GC leaves an image that it had to remove, and its sum is less by that."""
    ends = {end.cause: end for end in bundle.of(GarbageCollected) if end.body.bytes_freed}
    for removed in bundle.some(random, ImageDeleted):
        end, size = ends.get(removed.cause), removed.body.size_bytes
        if end is not None and size:
            freed = end.body.bytes_freed
            gone: Edits = dict.fromkeys(bundle.told(removed))
            edits = gone | bundle.said(end, number_alone(str(freed)), str(freed - size))
            yield RawLie(f"{removed.seq}", edits, ("node", "image/"))


_CGROUP = r"(?<=[ =]){}$"

LIARS: dict[str, Liar] = {
    "another victim": _another_victim,
    "ranking reversed": _ranking(_reversed),
    "pod not ranked": _ranking(_less_one),
    "eviction's threshold": values_of(
        (PodEvicted,), ("", r"(?<=Threshold quantity: )\d+", ("*2", "/2", "+5"))
    ),
    "eviction's amount": values_of((PodEvicted,), ("", r"(?<=available: )\d+", ("*3", "*40"))),
    "eviction's resource": values_of(
        (PodEvicted,),
        ("", r"low on resource: (memory|ephemeral-storage)", ("low on resource: pids",)),
    ),
    "starved, and no eviction": _starved,
    "another condition": values_of(
        (NodeConditionsChanged,),
        ("", r"MemoryPressure", ("DiskPressure",)),
        ("", r"DiskPressure", ("PIDPressure",)),
    ),
    "reason of a kill": values_of(
        (ContainerKilled,),
        ("", r"failed liveness probe", ("failed startup probe",)),
        ("", r"failed startup probe", ("failed liveness probe",)),
        (
            "",
            r"Stopping container \w+",
            ("Container app failed liveness probe, will be restarted",),
        ),
        (
            "",
            r"Container (\w+) failed (liveness|startup) probe",
            (r"Container \g<1> definition changed",),
        ),
    ),
    "grace period of a kill": values_of(
        (ContainerKilled,),
        ("grace_period_s", r"(?<=gracePeriod=){}\b", ("+1", "+30", "*3")),
        ("grace_period_s", r"(?<=with a ){}(?= second)", ("+1", "+30", "*3")),
        ("grace_period_s", r"(?<=with ){}(?= second grace)", ("+1", "+30", "*3")),
    ),
    "another container killed": _another_container((ContainerKilled,)),
    "kill of another pod": _another_pod((ContainerKilled,)),
    "kill before its cause": _moved((ContainerKilled,), -25, -60, -120),
    "killed before the threshold": _killed_early,
    "probe's tick too early": _soon_failed,
    "back-off": values_of(
        (RestartBackedOff,), ("back_off_s", r"(?<=back-off ){}(?=s)", ("*2", "/2", "+5"))
    ),
    "back-off in minutes": values_of(
        (RestartBackedOff,), ("", r"(?<=back-off )[\dms]+(?= restarting)", ("3m20s", "15s"))
    ),
    "back-off of another pod": _another_pod((RestartBackedOff,)),
    "restarted too early": _too_early,
    "ended before it started": _died_before,
    "restart never came": _never_restarted,
    "image GC: amount": values_of(
        (GarbageCollectionStarted,),
        ("bytes_to_free", number_alone("{}"), ("+1", "*2", "+4096")),
        ("usage_percent", number_alone("{}(?=%)"), ("+1", "+9")),
        ("usage_percent", "(?<=usage=){}", ("+1", "+9")),
    ),
    "image GC: thresholds": values_of(
        (GarbageCollectionStarted,),
        ("high_threshold_percent", "(?<=old \\(){}(?=%)", ("+1", "+9")),
        ("high_threshold_percent", "(?<=highThreshold=){}", ("+1", "+9")),
        ("low_threshold_percent", "(?<=lowThreshold=){}", ("+1", "/2")),
    ),
    "image GC: size": values_of(
        (ImageDeleted,), ("size_bytes", number_alone("{}"), ("+1", "*2", "/2"))
    ),
    "image GC: sum": values_of(
        (GarbageCollected,), ("bytes_freed", number_alone("{}"), ("+1", "*2", "/2"))
    ),
    "image GC: one left out": _left_out,
    "another device": _held_device,
    "another NUMA node": values_of(
        (AffinityDecided,),
        ("", r'(?<="NUMANodeAffinity":)1\b', ("2", "3")),
        ("", r"\{01 true\}", ("{10 true}",)),
        ("", r'(?<="Preferred":)true', ("false",)),
    ),
    "another preempted": _another_pod((PodPreempted,), "victim_"),
    "another preemptor": _another_pod((PodPreempted,), "preemptor_"),
    "preempted for less": values_of((PodPreempted,), ("", r"(?<=q: )\d+", ("+10", "/2", "*2"))),
    "numbers of a refusal": values_of(
        (PodRejected,),
        ("", r"(?<=requested: )\d+", ("+10", "/2")),
        ("", r"(?<=used: )\d+", ("+10", "/2")),
        ("", r"(?<=capacity: )\d+", ("+10", "*2")),
        ("", r"(?<=Requested: )\d+", ("+1",)),
        ("", r"(?<=Available: )\d+", ("+1",)),
    ),
    "reason of a refusal": values_of(
        (PodRejected,), ("reason", '(?<=reason="){}(?=")', ("OutOfpods", "NodeShutdown"))
    ),
    "refusal of another pod": _another_pod((PodRejected,)),
    "OOM: another container": _another_container((ProcessKilled,)),
    "OOM: limit": values_of((ProcessKilled,), ("", r"(?<=limit )\d+(?=kB)", ("*2", "/2"))),
    "OOM: score": values_of((ProcessKilled,), ("", r"(?<=oom_score_adj:)\d+", ("/2", "+7"))),
    "OOM: size": values_of((ProcessKilled,), ("", r"(?<=anon-rss:)\d+(?=kB)", ("*2", "/2"))),
    "cgroup: shares": values_of(
        (CgroupUpdated,), ("cpu_shares", _CGROUP, ("*2", "+1", "/2")), files=(CGROUPS,)
    ),
    "cgroup: weight": values_of(
        (CgroupUpdated,), ("", r"(?<=cpu.weight )\d+$", ("*2", "+9")), files=(CGROUPS,)
    ),
    "cgroup: quota": values_of(
        (CgroupUpdated,),
        ("", r"(?<=cpu.max )\d+", ("*2", "/2")),
        ("", r"(?<=cfs_quota_us )\d+", ("*2", "/2")),
        ("", r"(?<=cpu.max )max", ("50000",)),
        ("", r"(?<=cfs_quota_us )-1", ("50000",)),
        files=(CGROUPS,),
    ),
    "cgroup: memory": values_of(
        (CgroupUpdated,),
        ("", r"(?<=memory.max )\d+$", ("*2", "/2")),
        ("", r"(?<=memory.limit_in_bytes )\d+$", ("/2",)),
        ("", r"(?<=memory.max )max", ("104857600",)),
        files=(CGROUPS,),
    ),
    "pulled though present": values_of(
        (PullDecided,),
        (
            "",
            r'reason="Pulled" message="Container image (.*) already present on machine.*',
            (r'reason="Pulling" message="Pulling image \g<1>"',),
        ),
    ),
    "resize: amount": values_of(
        (PodResized,),
        ("", r'(?<=cpu\\":\\")\d+', ("*2", "/2")),
        ("", r'(?<=memory\\":\\")\d+', ("*2", "/2")),
    ),
    "resize: outcome": values_of(
        (PodResized,),
        ("", r"(?<![-\w])Deferred\b", ("Infeasible",)),
        ("", r"(?<![-\w])Infeasible\b", ("Deferred",)),
    ),
    "shutdown: grace": values_of(
        (PodTerminating,), ("", r"(?<=gracePeriod=)\d+", ("*4", "+60")), reason="shutdown"
    ),
    "shutdown: turn": _moved((PodTerminating,), -20, 12, reason="shutdown"),
}
"""What is changed -> who tells it."""
