"""Classes of a kubelet's lines, what is read of their texts, and which records the ledger lost.

A log may have been filtered, by message, by source file, by severity, or written at a low
verbosity: whole classes of lines are missing then, and nothing else shows it. So a line that is
not there proves nothing unless the same process, in the same log, is seen to log its class. A
history that no log was read for (a simulation, a recording made by hand) was told as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kubeledger.model.bodies import images, lifecycle
from kubeledger.model.bodies.devicemanager import ClaimPrepared, ClaimReleased, DevicesAllocated
from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.ledger import ImportCompleted, RecordsLost
from kubeledger.model.bodies.resourcemanagers import CpusReleased, MemoryAllocated, MemoryReleased
from kubeledger.model.patterns import regex
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S

# What verification reads of the text of a line: a few words, and a few parts behind such words.
#
# Whoever shows records without their lines keeps these (:func:`reduced`), or verdicts change.

EVENT_SENT: Final = "event.go:"
"""Logs what is sent to the API server: a filter may leave these lines and take the others."""

BLOCK: Final = "=<"
"""A value of several lines follows."""
SYNC_FAILED: Final = "Error syncing pod"
HINTS: Final = "TopologyHints"
HINTS_OF_A_POD: Final = "TopologyHints for pod"
NO_HINT: Final = "no possible NUMA affinities"
IRRELEVANT: Final = "ignore irrelevant event"
_EVENT: Final = "Event occurred"
_EVICTED: Final = "evicted successfully"

Form = tuple[str, re.Pattern[str]]
"""Words of a line, and how it shows a fact: what may be anything in it has a name."""

_SAYS: Final = r' reason="(?P<reason>[^"]*)" message="(?P<message>(?:[^"\\]|\\.)*)"'
_STATUS: Final = r"\{Failed \[\] (?P<message>.*) (?P<reason>\w+)    \["
_ERROR: Final = r' err="(?P<message>(?:[^"\\]|\\.)*)"$'

ENDS: Final[tuple[Form, ...]] = (
    (_EVENT, regex(_SAYS)),
    ("Pod admission denied", regex(_SAYS)),
    ("Status Manager: adding pod", regex(_STATUS)),
    ("Predicate failed on Pod", regex(_ERROR)),
)
"""Reason and message of a pod's end."""

KILL_TEXTS: Final[tuple[Form, ...]] = (
    (_EVENT, regex(r' message="Container (?P<container>\S+) failed (?P<probe>\w+) probe')),
)
"""The probe for which a container is killed."""

VICTIMS: Final[tuple[Form, ...]] = (
    (_EVENT, regex(r' object="(?P<namespace>[^/" ]+)/(?P<name>[^/" ]+)"')),
    (_EVICTED, regex(r' pod="(?P<namespace>[^/" ]+)/(?P<name>[^/" ]+)"')),
    (_EVICTED, regex(r" pod (?P<name>[^ _]+)_(?P<namespace>[^ _(]+)\(")),
)
"""The victim of a preemption."""

RECLAIMS: Final[tuple[Form, ...]] = (
    ("to reclaim", regex(r'to reclaim" resourceName="(?P<resource>[\w.-]+)"')),
    ("to reclaim", regex(r"to reclaim (?P<resource>[\w-]+)$")),
)
"""What a round of the eviction manager is to reclaim."""

_RESOURCES: Final[tuple[Form, ...]] = ((NO_HINT, regex(r"'(?P<resource>[^' ]+)'")),)
_CUT_FROM: Final = 512
_PLAIN: Final = regex(r"[\n\t -~]*")
_ESCAPED: Final = regex(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "t": "\t"}
_UNESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})


def is_plain(text: str) -> bool:
    """Whether every form of a log line gives it back unchanged."""
    return _PLAIN.fullmatch(text) is not None


def may_be_cut(text: str) -> bool:
    """Whether it is so long that it may have been cut where it was sent or written."""
    return len(text) >= _CUT_FROM


def unescaped(text: str) -> str:
    """A text between quotes."""
    return _ESCAPED.sub(lambda one: _ESCAPES.get(one[1], one[1]), text)


def file_of_cgroup(text: str) -> str:
    """The file that a line of a snapshot of cgroups is of, as ``/cpu.shares``."""
    return f"/{text.split(' ', 1)[0].rpartition('/')[2]}"


def reduced(
    text: str, hide: Callable[[dict[str, str]], dict[str, str]], is_file: Callable[[str], bool]
) -> str:
    """What is read of a line; ``hide``: what takes the place of the named parts of a fact."""
    kept = (BLOCK, EVENT_SENT, SYNC_FAILED, HINTS_OF_A_POD, NO_HINT, IRRELEVANT)
    said = [words for words in kept if words in text]
    if HINTS in text and HINTS_OF_A_POD not in said:
        said.append(HINTS)
    if is_file((file := file_of_cgroup(text)).removeprefix("/")):
        said.insert(0, file)
    for words, form in (*VICTIMS, *KILL_TEXTS, *RECLAIMS, *_RESOURCES, *ENDS):
        found = form.search(text) if words in text else None
        message = "" if found is None else found.groupdict().get("message", "")
        # What may be cut, or changed on its way, contradicts nothing.
        if found is not None and is_plain(message) and not may_be_cut(message):
            said += [words, _with(found, hide)]
    return " ".join(dict.fromkeys(said))


def _with(found: re.Match[str], hide: Callable[[dict[str, str]], dict[str, str]]) -> str:
    """The match, its parts replaced."""
    parts = {name: unescaped(part) for name, part in found.groupdict().items()}
    whole, shift = found[0], found.start()
    hidden = hide(parts)
    for name in sorted(parts, key=found.start, reverse=True):
        begin, end = (at - shift for at in found.span(name))
        whole = whole[:begin] + hidden[name].translate(_UNESCAPED) + whole[end:]
    return whole


class LineClass(NamedTuple):
    """Lines that a filter lets through or holds back together.

    Attributes:
        phrase: what is missing without them.
        kinds: records that stand on such a line.
    """

    phrase: str
    kinds: tuple[type[Body], ...]


PODS: Final = LineClass("the sync loop's lines about pods", (lifecycle.PodConfigChanged,))
RUNS: Final = LineClass(
    "the sync loop's lines about containers", (lifecycle.ContainerStarted, lifecycle.ContainerDied)
)
KILLS: Final = LineClass("the lines about kills of containers", (lifecycle.ContainerKilled,))
CPUS: Final = LineClass("the lines with which CPUs are given back", (CpusReleased,))
MEMORY: Final = LineClass("the lines with which memory is given back", (MemoryReleased,))
MEMORY_GIVEN: Final = LineClass("the lines with which memory is given", (MemoryAllocated,))
CLAIMS: Final = LineClass("the lines with which claims are given back", (ClaimReleased,))
CLAIMS_GIVEN: Final = LineClass("the lines with which claims are prepared", (ClaimPrepared,))
DEVICES: Final = LineClass("the lines with which devices are given", (DevicesAllocated,))
RESIZES: Final = LineClass("the lines about resizes in place", (lifecycle.PodResized,))
REFUSALS: Final = LineClass("the lines about refused pods", (lifecycle.PodRejected,))
SIGNALS: Final = LineClass("the eviction manager's signals", (images.EvictionSignalObserved,))
CONDITIONS: Final = LineClass("the lines about conditions of the node", (NodeConditionsChanged,))
CALM: Final = LineClass("the lines of rounds without pressure", ())
"""Another call, with which a change to no condition is told."""
COLLECTIONS: Final = (
    LineClass("the lines with which image collections begin", (images.GarbageCollectionStarted,)),
    LineClass("the lines with which image collections end", (images.GarbageCollected,)),
)
REMOVALS: Final = LineClass("the lines about removed images", (images.ImageDeleted,))
_CLASSES: Final = (PODS, RUNS, KILLS, RESIZES, REFUSALS, CPUS, CLAIMS, CLAIMS_GIVEN, DEVICES,
                   MEMORY, MEMORY_GIVEN, SIGNALS, CONDITIONS, CALM, *COLLECTIONS,
                   REMOVALS)  # fmt: skip

_PODS: Final = (PODS, RUNS)
RESTS_ON: Final[Mapping[str, tuple[LineClass, ...]]] = {
    "lifecycle.ContainerStarted": (PODS, RUNS),
    "lifecycle.PodTerminating": (PODS,),
    "cgroups.CgroupRemoved": _PODS,
    "cgroups.CgroupUpdated": _PODS,
    "cgroups.QOSCgroupsUpdated": _PODS,
    "cpumanager.CpuAllocationFailed": (*_PODS, CPUS),
    "cpumanager.CpusAllocated": (*_PODS, CPUS),
    "cpumanager.CpusReleased": _PODS,
    "topologymanager.HintsGenerated": (*_PODS, MEMORY, MEMORY_GIVEN),
    "dra.ClaimPrepared": (*_PODS, CLAIMS),
    "dra.ClaimReleased": (*_PODS, CLAIMS_GIVEN),
    "dra.DraManagerStateRead": (CLAIMS,),
    "devicemanager.AllocationFailed": _PODS,
    "devicemanager.DevicesAllocated": _PODS,
    "devicemanager.DevicesReleased": (*_PODS, DEVICES),
    "eviction.NodeConditionsChanged": (SIGNALS,),
    "eviction.PodSpared": (*_PODS, SIGNALS),
    "eviction.ReclaimAttempted": (*_PODS, SIGNALS),
    "images.GarbageCollected": (*COLLECTIONS, REMOVALS),
    "images.GarbageCollectionStarted": COLLECTIONS,
    "images.ImageDeleted": (*_PODS, *COLLECTIONS),
    "lifecycle.ContainerKilled": _PODS,
    "lifecycle.ContainerRestarted": (*_PODS, KILLS),
    "lifecycle.PodAdmitted": _PODS,
    "lifecycle.PodEvicted": (*_PODS, SIGNALS),
    "lifecycle.PodRejected": _PODS,
    "lifecycle.PodResized": (*_PODS, RESIZES),
    "lifecycle.RestartBackedOff": (*_PODS, KILLS),
    "memorymanager.MemoryAllocated": (*_PODS, MEMORY),
    "memorymanager.MemoryAllocationFailed": (*_PODS, MEMORY),
    "memorymanager.MemoryReleased": _PODS,
    "preemption.PodPreempted": _PODS,
    "preemption.PreemptionFailed": _PODS,
    "prober.ProbeTransitioned": _PODS,
}
"""Kind of decision -> classes of which a line that is not there may make it impossible.

Of an observation: what a contradiction rests on that names its kind (``VerifyContext.contradict``).
"""
OWED: Final[Mapping[str, tuple[LineClass, ...]]] = {
    "eviction.NodeConditionsChanged": (CONDITIONS,),
    "lifecycle.ContainerKilled": (KILLS,),
    "lifecycle.PodRejected": (REFUSALS,),
}
"""Kind of decision -> classes of its own lines, which it is missed in besides."""

_OTHERS: Final = {REFUSALS: ("SyncLoop",), RUNS: (IRRELEVANT,)}


def _is_own_line(piece: Evidence, of: LineClass) -> bool:
    """Not a list or another file that shows the same, nor the event that went with it.

    Nor the line that handed over a pod which a list shows refused, nor the one about containers of
    pods that are gone, which is another call.
    """
    others = (EVENT_SENT, *_OTHERS.get(of, ()))
    return piece.line is not None and not any(each in (piece.text or "") for each in others)


class LoggedClasses:
    """Which process logs which classes, from the first reading.

    Attributes:
        is_read: files were imported: the history was not told as a whole.
    """

    KINDS: tuple[type[Body], ...] = (ImportCompleted, *(k for c in _CLASSES for k in c.kinds))

    def __init__(self) -> None:
        self.is_read = False
        # class -> minute -> the first and the last such line in it
        self._seen: dict[LineClass, dict[int, tuple[int, int]]] = {c: {} for c in _CLASSES}
        self._of_kind = {kind: each for each in _CLASSES for kind in each.kinds}
        self._bounds: list[int] = []
        self._logged: dict[LineClass, list[bool]] = {}

    def note(self, record: Record) -> None:
        of = self._of_kind.get(type(record.body))
        if of is None:
            self.is_read = self.is_read or isinstance(record.body, ImportCompleted)
            return
        if record.evidence and not any(_is_own_line(piece, of) for piece in record.evidence):
            return
        if isinstance(record.body, NodeConditionsChanged) and not record.body.conditions:
            of = CALM
        _see(self._seen[of], record.ts_ns)

    def settle(self, starts: Sequence[int]) -> None:
        """Find what each process logs; ``starts``: when processes began, ascending."""
        self._bounds = list(starts)
        for of, minutes in self._seen.items():
            times = sorted(ns for ends in minutes.values() for ns in ends)
            at = [0, *(bisect_right(times, start - 1) for start in starts), len(times)]
            self._logged[of] = [until > since for since, until in pairwise(at)]
            # The first and the last of a process will do, though another start may part them yet.
            self._seen[of] = {}
            for since, until in pairwise(at):
                for ts_ns in (*times[since:until][:1], *times[since:until][-1:]):
                    _see(self._seen[of], ts_ns)

    def unlogged(self, ts_ns: int, classes: Iterable[LineClass]) -> LineClass | None:
        """The first of some classes that the process of a time is not seen to log."""
        if not self.is_read:
            return None
        process = bisect_right(self._bounds, ts_ns)
        return next((each for each in classes if not self._logged[each][process]), None)


def _see(minutes: dict[int, tuple[int, int]], ts_ns: int) -> None:
    first_ns, last_ns = minutes.get(minute := ts_ns // (60 * NS_PER_S), (ts_ns, ts_ns))
    minutes[minute] = min(first_ns, ts_ns), max(last_ns, ts_ns)


# Records that the ledger knows it lost, gathered from a history's records in any order.


class LostRecords:
    """What records show to be lost, and what came back since."""

    KINDS: tuple[type[Body], ...] = (ImportCompleted, RecordsLost)

    def __init__(self) -> None:
        self._losses: list[tuple[int, RecordsLost]] = []
        self._completed: set[str] = set()

    def note(self, record: Record) -> None:
        match record.body:
            case RecordsLost() as body:
                self._losses.append((record.seq, body))
            case ImportCompleted() as body:
                self._completed.add(body.digest)

    def missing(self) -> list[tuple[int, RecordsLost]]:
        """(seq, body) of the records that show a loss which was not imported again."""
        losses = sorted(self._losses, key=lambda one: one[0])
        return [(seq, body) for seq, body in losses if not body.is_healed_by(self._completed)]
