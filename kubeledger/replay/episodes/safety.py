"""What can never be, whatever was decided before: one thing in two hands, and its like.

Nothing is decided again here. A state file shows at one instant who holds what; lines show who was
given what, and later records whether both lived on. Where a known bug of that kubelet's version
does such a thing, its number is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of
from kubeledger.kubelet.kube.pod import SIDECAR
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.kubelet.lifecycle.disputes import LINES_MIXED
from kubeledger.kubelet.profile.facts import NEWEST
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.devicemanager import (
    CheckpointRead,
    ClaimPrepared,
    ClaimReleased,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.lifecycle import (
    ContainerStarted,
    PodEvicted,
    PodListed,
    PodTerminated,
    PodTerminating,
)
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletStarted,
    NodeObserved,
    SettingsObserved,
)
from kubeledger.model.bodies.resourcemanagers import (
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    MemoryManagerStateRead,
)
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.replay.episodes.memory_states import MemoryInvariant, MemoryStates

Invariant = (
    MemoryInvariant
    | Literal[
        "device_in_two_lives",
        "cpu_in_two_lives",
        "reserved_cpu_given",
        "pools_overlap",
        "pool_empty",
        "more_devices_than_exist",
        "container_twice",
        "claim_unprepared_in_use",
    ]
)

_BUGS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "device_in_two_lives": ((137534, 0),),
    "cpu_in_two_lives": ((140989, 36),),
    "reserved_cpu_given": ((124066, 0), (140989, 36)),
    "pools_overlap": ((124066, 0), (140989, 36)),
    "pool_empty": ((141196, 32),),
    "memory_groups_overlap": ((113035, 0),),
    "memory_state_refused": ((113130, 0),),
    "claim_unprepared_in_use": ((140212, 0),),
}
"""Invariant -> number in kubernetes/kubernetes, and the first minor version that has the bug."""

_STALE_NS: Final = 15 * NS_PER_S
"""A list may be so much older than its name says."""
_TWICE_NS: Final = 10 * NS_PER_S
"""The runtime's own times of two containers may be apart so much without a meaning."""

_Holder = tuple[str, str]
"""Pod UID and container."""
_Grant = tuple[int, int]
"""Seq and time of the record that shows it."""
_UNKNOWN: Final[_Grant] = (0, 0)


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object in a status; an empty one where it is of another kind."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _all_down(status: Mapping[str, Any]) -> bool:
    """Whether a status shows its containers, and none that runs."""
    shown = list(objects_of(status.get("containerStatuses")))
    return bool(shown) and not any(_part(_part(each, "state"), "running") for each in shown)


class ViolationEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can never be, as the records show it.

    Attributes:
        seq: of the record that shows it.
        subject: as ``why`` takes it.
        message: one sentence.
        sides: (1 or more,) the records that show it, in their order, and what each says.
        bugs: (n,) known bugs of this version that do so, as ``kubernetes#N``.
        lost_since_ns: a line that was lost since then would explain it; None: nothing would.
    """

    seq: int
    ts_ns: int
    invariant: Invariant
    subject: str
    message: str
    sides: tuple[tuple[int, str], ...]
    bugs: tuple[str, ...] = ()
    lost_since_ns: int | None = None


class _Suspicion(NamedTuple):
    """Something was given while another pod had it: wrong if that pod is seen to live on."""

    key: tuple[str, str]
    found: ViolationEpisode
    ts_ns: int


class Safety:
    """Takes the records of a node in the order of replay, and says what cannot be."""

    def __init__(self) -> None:
        self._minor: int | None = None
        self._facts, self._has_sidecars = resolve(f"1.{NEWEST}").resourcemanagers, True
        self._names: dict[str, str] = {}
        self._lasting: dict[str, set[str]] = {}
        self._grants: dict[tuple[str, str, _Holder], _Grant] = {}
        self._suspected: dict[str, list[_Suspicion]] = {}
        self._ended: set[str] = set()
        self._said: set[object] = set()
        self._registered: dict[str, set[str]] = {}
        self._exist: dict[str, tuple[int, int]] = {}
        self._from_start: bool | None = None
        self._reserved: tuple[frozenset[int], int] = (frozenset(), 0)
        self._stepped_ns: int | None = None
        self._memory = MemoryStates()

    def take(self, record: Record) -> Iterator[ViolationEpisode]:
        """Take in a record; of kinds that are not in ``KINDS`` nothing follows."""
        handler = _HANDLERS.get(type(record.body))
        for key, found in handler(self, record, record.body) if handler else ():
            if key not in self._said:
                self._said.add(key)
                yield found

    def _found(
        self,
        record: Record,
        invariant: Invariant,
        subject: str,
        message: str,
        *others: tuple[int, str],
    ) -> ViolationEpisode:
        bugs, says = _BUGS.get(invariant, ()), _SAYS.get(type(record.body))
        shown = [] if says is None else [(record.seq, says)]
        return ViolationEpisode(
            seq=record.seq,
            ts_ns=record.ts_ns,
            invariant=invariant,
            subject=subject,
            message=message,
            sides=tuple(sorted({*shown, *others})),
            bugs=tuple(
                f"kubernetes#{number}"
                for number, since in bugs
                if self._minor is None or self._minor >= since
            ),
        )

    # -- what is only kept ------------------------------------------------------------------

    def _started(self, record: Record, body: KubeletStarted) -> _Found:
        if self._from_start is None:
            self._from_start = body.from_start and not body.restart
        with suppress(ValueError, AttributeError, IndexError):
            self._minor = int((body.kubelet_version or "").split(".")[1])
        with suppress(BadQuestionError):
            profile = resolve(body.kubelet_version or "")
            self._facts = profile.resourcemanagers
            self._has_sidecars = profile.prober.restartable_init_containers
        return ()

    def _settings(self, record: Record, body: SettingsObserved) -> _Found:
        setting = body.settings.get("reservedSystemCPUs")
        with suppress(ValueError, msgspec.DecodeError):
            if setting is not None and isinstance(text := msgspec.json.decode(setting.value), str):
                self._reserved = cpus_of(text), record.seq
        return ()

    def _cpu_manager(self, record: Record, body: CpuManagerStarted) -> _Found:
        with suppress(ValueError):
            if body.reserved_cpu_set is not None:
                self._reserved = cpus_of(body.reserved_cpu_set), record.seq
        return ()

    def _reported(self, record: Record, body: DevicesReported) -> _Found:
        self._registered.setdefault(body.resource, set()).update(body.device_ids or ())
        self._counted(record, body.resource, body.total)
        return ()

    def _node(self, record: Record, body: NodeObserved) -> _Found:
        for resource, amount in (body.capacity or {}).items():
            if "/" in resource and str(amount).isdecimal():
                self._counted(record, resource, int(amount))
        return ()

    def _step(self, record: Record, body: ClockStepped) -> _Found:
        """What follows may have been before, as where the parts of a log changed places."""
        self._stepped_ns = max(self._stepped_ns or 0, body.from_ts_ns)
        return self._out_of_order()

    def _reports(self, record: Record, body: FindingReported) -> _Found:
        return self._out_of_order() if body.finding == LINES_MIXED else ()

    def _out_of_order(self) -> _Found:
        """Who was given something first is not known."""
        self._grants.clear()
        self._suspected.clear()
        return ()

    def _ends(self, record: Record, body: Any) -> _Found:  # noqa: ANN401 - several kinds
        uid: str | None = getattr(body, "victim_uid", None) or getattr(body, "pod_uid", None)
        self._suspected.pop(uid or "", None)
        self._ended.add(uid or "")
        return ()

    def _preempted(self, record: Record, body: PodPreempted) -> _Found:
        """Who waits for a victim's end is not active yet: what it was given may be taken back."""
        for sort in ("cpu", "device"):
            self._back(sort, body.preemptor_uid or "", None)
        return self._ends(record, body)

    # -- who lives --------------------------------------------------------------------------

    def _runs(self, record: Record, body: ContainerStarted) -> _Found:
        if body.pod_uid is not None:
            self._names[body.pod_uid] = f"{body.namespace}/{body.pod}"
        yield from self._lives(body.pod_uid or "", record, record.ts_ns)

    def _lives(self, uid: str, record: Record, seen_ns: int) -> _Found:
        """A pod is seen to live, at that time at the earliest."""
        for each in self._suspected.get(uid, ()):
            if seen_ns > each.ts_ns:
                lived = record.seq, f"pod {self._names.get(uid, uid)} lives"
                sides = (*each.found.sides, lived)
                yield each.key, msgspec.structs.replace(each.found, sides=sides)

    def _listed(self, record: Record, body: PodListed) -> _Found:
        uid, spec, status = body.pod_uid or "", body.spec or {}, body.status or {}
        self._names[uid] = f"{body.namespace}/{body.pod}"
        regular = {str(each.get("name")) for each in objects_of(spec.get("containers"))}
        sidecars = {
            str(each.get("name"))
            for each in objects_of(spec.get("initContainers"))
            if each.get("restartPolicy") == SIDECAR and self._has_sidecars
        }
        self._lasting[uid] = regular | sidecars
        yield from self._twice(record, body, status)
        if body.gone or status.get("phase") in ("Succeeded", "Failed"):
            self._suspected.pop(uid, None)
        elif status.get("phase") == "Running" and not _all_down(status):
            yield from self._lives(uid, record, record.ts_ns - _STALE_NS)

    def _twice(self, record: Record, body: PodListed, status: Mapping[str, Any]) -> _Found:
        """A container that began before the last one of its name had ended, by the runtime."""
        for each in objects_of(status.get("containerStatuses")):
            running = _part(_part(each, "state"), "running")
            before = _part(_part(each, "lastState"), "terminated")
            with suppress(ValueError, TypeError):
                began_ns = parse_ts(str(running.get("startedAt", "")))
                over_ns = parse_ts(str(before.get("finishedAt", "")))
                stepped = self._stepped_ns is not None and self._stepped_ns >= began_ns - _STALE_NS
                if over_ns - began_ns < _TWICE_NS or stepped:
                    continue
                name = f"{body.namespace}/{body.pod}/{each.get('name')}"
                message = (
                    f"container {each.get('name')} of pod {body.namespace}/{body.pod} began at "
                    f"{running['startedAt']}, and the one before it ended at {before['finishedAt']}"
                )
                found = self._found(record, "container_twice", f"container/{name}", message)
                yield ("container_twice", name, running["startedAt"]), found

    # -- devices ----------------------------------------------------------------------------

    def _device_given(self, record: Record, body: DevicesAllocated) -> _Found:
        things = [f"{body.resource}/{device}" for device in body.device_ids]
        yield from self._given(record, "device", body, things)

    def _given(self, record: Record, sort: str, body: Any, things: Iterable[str]) -> _Found:  # noqa: ANN401 - two kinds
        """Something was given to a container; who else has it by the lines so far?"""
        if body.pod_uid is None:
            return
        if body.pod is not None:
            self._names[body.pod_uid] = f"{body.namespace}/{body.pod}"
        own = body.pod_uid, body.container
        if body.pod_uid in self._ended:  # lines, or a log and the files, are of two orders
            self._out_of_order()
        given = frozenset(things)
        for (kind, thing, other), (seq, given_ns) in self._grants.items():
            if kind == sort and thing in given and other[0] != own[0]:
                found = self._two_lives(record, sort, thing, (other, own), {other: seq})
                found = msgspec.structs.replace(found, lost_since_ns=given_ns)
                suspicion = _Suspicion((sort, thing), found, record.ts_ns)
                self._suspected.setdefault(other[0], []).append(suspicion)
        for thing in sorted(given):
            self._grants[sort, thing, own] = record.seq, record.ts_ns
        yield from ()

    def _two_lives(
        self,
        record: Record,
        sort: str,
        thing: str,
        holders: Sequence[_Holder],
        seqs: Mapping[_Holder, int],
    ) -> ViolationEpisode:
        who = " and ".join(self._named(holder) for holder in holders)
        given = [
            (seqs.get(each) or record.seq, f"given to {self._named(each)}") for each in holders
        ]
        if sort == "cpu":
            text = f"CPU {thing} belongs alone to {who}"
            return self._found(record, "cpu_in_two_lives", "node", text, *given)
        text, subject = f"device {thing} is given to {who}", f"device/{thing}"
        return self._found(record, "device_in_two_lives", subject, text, *given)

    def _named(self, holder: _Holder) -> str:
        return f"container {holder[1]} of pod {self._names.get(holder[0], holder[0])}"

    def _device_back(self, record: Record, body: DevicesReleased) -> _Found:
        self._back("device", body.pod_uid, body.container, f"{body.resource or ''}/")
        return ()

    def _back(self, sort: str, uid: str, container: str | None, begin: str = "") -> None:
        for key in [
            (kind, thing, holder)
            for kind, thing, holder in self._grants
            if (kind, holder[0]) == (sort, uid)
            and container in (None, holder[1])
            and (begin in ("", "/") or thing.startswith(begin))
        ]:
            del self._grants[key]
        if not any((kind, holder[0]) == (sort, uid) for kind, _, holder in self._grants):
            self._suspected.pop(uid, None)

    def _checkpoint(self, record: Record, body: CheckpointRead) -> _Found:
        for resource, devices in body.registered.items():
            self._registered.setdefault(resource, set()).update(devices)
        if body.checksum_ok is False:
            return
        held: dict[str, list[_Holder]] = {}
        for entry in body.entries:
            for device in (each for ids in entry.numa.values() for each in ids):
                thing = f"{entry.resource}/{device}"
                held.setdefault(thing, []).append((entry.pod_uid, entry.container))
        yield from self._shared(record, "device", held)
        # A checkpoint registers healthy devices only: how many there are something else counts.
        for resource, (exist, seq) in self._exist.items() if self._from_start else ():
            taken = {thing.rpartition("/")[2] for thing in held if thing.startswith(f"{resource}/")}
            unknown = taken - self._registered.get(resource, set())
            if unknown and len(taken) > exist:
                message = (
                    f"{len(taken)} devices of {resource} are given away, of {exist} that "
                    f"exist: {', '.join(sorted(unknown))} no plugin registered"
                )
                counted = seq, f"there are {exist}"
                found = self._found(record, "more_devices_than_exist", "node", message, counted)
                found = msgspec.structs.replace(found, lost_since_ns=0)  # of another plugin
                yield ("more_devices_than_exist", resource, frozenset(unknown)), found

    def _counted(self, record: Record, resource: str, count: int | None) -> None:
        """How many devices there are, healthy or not: the most that was ever told."""
        if count is not None and count > self._exist.get(resource, (-1, 0))[0]:
            self._exist[resource] = count, record.seq

    def _shared(self, record: Record, sort: str, held: Mapping[str, list[_Holder]]) -> _Found:
        """What a state file shows in two hands; what an init container had others may reuse."""
        for thing, holders in held.items():
            for one, two in combinations(sorted(set(holders)), 2):
                lasting = self._lasting.get(one[0], set())
                if one[0] == two[0] and not {one[1], two[1]} <= lasting:
                    continue
                seqs = {
                    each: self._grants.get((sort, thing, each), _UNKNOWN)[0] for each in (one, two)
                }
                found = self._two_lives(record, sort, thing, (one, two), seqs)
                yield (sort, thing), found

    # -- claims -----------------------------------------------------------------------------

    def _claim_given(self, record: Record, body: ClaimPrepared) -> _Found:
        if body.pod is not None:
            self._names[body.pod_uid] = f"{body.namespace}/{body.pod}"
        self._grants["claim", body.claim_uid, (body.pod_uid, "")] = record.seq, record.ts_ns
        return ()

    def _claim_back(self, record: Record, body: ClaimReleased) -> _Found:
        """Whom a claim was prepared for may live on when it is unprepared."""
        grant = self._grants.pop(("claim", body.claim_uid, (body.pod_uid, "")), None)
        if grant is None or not body.unprepared or body.pod_uid in self._ended:
            return ()
        pod = self._names.get(body.pod_uid, body.pod_uid)
        message = f"claim {body.namespace}/{body.claim} is unprepared while pod {pod} runs with it"
        prepared = grant[0], f"prepared for pod {pod}"
        found = self._found(record, "claim_unprepared_in_use", f"pod/{pod}", message, prepared)
        suspicion = _Suspicion((body.claim_uid, body.pod_uid), found, record.ts_ns)
        self._suspected.setdefault(body.pod_uid, []).append(suspicion)
        return ()

    # -- CPUs -------------------------------------------------------------------------------

    def _cpus_given(self, record: Record, body: CpusAllocated) -> _Found:
        with suppress(ValueError):
            cpus = cpus_of(body.cpu_set)
            if cpus & self._reserved[0]:
                yield from self._reserved_given(record, (body.pod_uid or "", body.container), cpus)
            yield from self._given(record, "cpu", body, map(str, cpus))

    def _reserved_given(self, record: Record, holder: _Holder, cpus: frozenset[int]) -> _Found:
        reserved, seq = self._reserved
        message = (
            f"{self._named(holder)} has CPUs {cpu_set_text(cpus & reserved)} alone, which are "
            f"reserved for the system ({cpu_set_text(reserved)})"
        )
        sides = (seq, f"{cpu_set_text(reserved)} are reserved"), (record.seq, "given all the same")
        found = self._found(record, "reserved_cpu_given", "node", message, *sides)
        yield ("reserved_cpu_given", holder, cpus & reserved), found

    def _cpus_back(self, record: Record, body: CpusReleased) -> _Found:
        self._back("cpu", body.pod_uid, body.container)
        return ()

    def _cpu_file(self, record: Record, body: CpuManagerStateRead) -> _Found:
        if body.policy != "static" or body.checksum_ok is False:
            return
        held: dict[str, list[_Holder]] = {}
        given: dict[_Holder, frozenset[int]] = {}
        try:
            pool = cpus_of(body.default_cpu_set)
            for uid, sets in body.assignments.items():
                for name, text in sets.items():
                    given[uid, name] = cpus_of(text)
        except ValueError:
            return
        for holder, cpus in given.items():
            for cpu in cpus:
                owners = held.setdefault(str(cpu), [])
                # Containers of a pod that has CPUs as a whole share them.
                if holder[0] not in body.pod_assignments or all(o[0] != holder[0] for o in owners):
                    owners.append(holder)
            if cpus & pool:
                grants = {
                    (seq, f"given to {self._named(holder)}")
                    for cpu in cpus & pool
                    if (seq := self._grants.get(("cpu", str(cpu), holder), _UNKNOWN)[0])
                }
                message = (
                    f"{self._named(holder)} has CPUs {cpu_set_text(cpus & pool)} alone, and they "
                    f"are in the shared pool ({cpu_set_text(pool)})"
                )
                found = self._found(record, "pools_overlap", "node", message, *grants)
                yield ("pools_overlap", holder, cpus & pool), found
            if cpus & self._reserved[0]:
                yield from self._reserved_given(record, holder, cpus)
        yield from self._shared(record, "cpu", held)
        if given and not pool:
            message = (
                "the shared pool of CPUs is empty: all others run on no CPU of their own, and the "
                "next start of the kubelet refuses cpu_manager_state (default cpuset cannot be "
                "empty)"
            )
            yield ("pool_empty",), self._found(record, "pool_empty", "node", message)

    # -- memory -----------------------------------------------------------------------------

    def _memory_file(self, record: Record, body: MemoryManagerStateRead) -> _Found:
        if body.checksum_ok is not False:
            for flaw in self._memory.look(body, self._facts):
                yield flaw.key, self._found(record, flaw.invariant, "node", flaw.message)


_Found = Iterable[tuple[object, ViolationEpisode]]

_HANDLERS: Mapping[type[Body], Callable[[Safety, Record, Any], _Found]] = {
    CheckpointRead: Safety._checkpoint,
    ClaimPrepared: Safety._claim_given,
    ClaimReleased: Safety._claim_back,
    ClockStepped: Safety._step,
    ContainerStarted: Safety._runs,
    CpuManagerStarted: Safety._cpu_manager,
    CpuManagerStateRead: Safety._cpu_file,
    CpusAllocated: Safety._cpus_given,
    CpusReleased: Safety._cpus_back,
    DevicesAllocated: Safety._device_given,
    DevicesReleased: Safety._device_back,
    DevicesReported: Safety._reported,
    FindingReported: Safety._reports,
    KubeletStarted: Safety._started,
    MemoryManagerStateRead: Safety._memory_file,
    PodEvicted: Safety._ends,
    PodListed: Safety._listed,
    PodPreempted: Safety._preempted,
    NodeObserved: Safety._node,
    PodTerminated: Safety._ends,
    PodTerminating: Safety._ends,
    SettingsObserved: Safety._settings,
}

TAKES = tuple(_HANDLERS)
"""Types of the bodies that are looked at."""
KINDS = frozenset(body.kind for body in TAKES)

_SAYS: Mapping[type[Body], str] = {
    CheckpointRead: "kubelet_internal_checkpoint shows it",
    ClaimReleased: "no longer in dra_manager_state",
    CpuManagerStateRead: "cpu_manager_state shows it",
    MemoryManagerStateRead: "memory_manager_state shows it",
    PodListed: "the list of pods shows it",
}


def violations(records: Iterable[Record]) -> Iterator[ViolationEpisode]:
    """All that cannot be."""
    safety = Safety()
    for record in records:
        yield from safety.take(record)
