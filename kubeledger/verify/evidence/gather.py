"""From what single records show of pods to their active intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.resources import name_key
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.builder import IntervalBuilder, Surroundings
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.history_entries import POD_ENDS, HistoryEntry
from kubeledger.verify.evidence.pod_intervals import ContainerRun, PodHistory
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.processes import Process

_RUNS_MAX: Final = 256
"""So many runs of a pod's containers are remembered, the last ones."""
LAG_NS: Final = 10 * NS_PER_S
"""A list may show the status of so much earlier."""

_CALLS: Final = frozenset(
    {"add", "update", "delete", "remove", "evicted", "preempted", "terminating", "ending_event"}
)

_RUN: Final = frozenset({"started", "killed", "died"})
_SETTLED_MIN: Final = 32
"""Fewer entries of a pod are not looked through for what is not needed any more."""

Entries = Mapping[str, Mapping[str | None, Sequence[HistoryEntry]]]
"""``namespace/name`` -> UID -> signs, in any order."""


class Gathered(msgspec.Struct):
    """What all signs together say.

    Attributes:
        configured: process -> a config line of it.
        listed: (n,) times of the kubelet's lists.
        preempted_for: pod -> when the last victim was killed for it, as far as records show.
        terminations: records tell when pods have ended.
    """

    pods: dict[str, PodHistory] = {}
    configured: dict[int, int] = {}
    listed: list[int] = []
    preempted_for: dict[str, int] = {}
    terminations: bool = False

    def complete_times(self, process: Process, ts_ns: int) -> Iterator[int]:
        """Times around another at which every pod is known: a start, or a list of the kubelet's.

        Config lines show all pods that come; without any, a list shows its own time alone.
        """
        if process.from_start:
            yield process.started_ns
        # Lists leave no record of what an earlier one showed alike, perhaps under another process.
        later = process.number > 0 and not process.from_start
        if later or process.number not in self.configured:
            return
        index = bisect_right(self.listed, ts_ns)
        for listed_ns in self.listed[max(index - 1, 0) : index + 1]:
            if process.started_ns <= listed_ns < (process.ended_ns or listed_ns + 1):
                yield listed_ns


def gather(
    entries: Entries, lists: Mapping[str, list[int]], around: Surroundings, before: Gathered
) -> Gathered:
    """The active intervals of all pods, by what is settled.

    Args:
        lists: whose -> times, in order.
        around: what pods themselves show of others is added.
        before: what was gathered when more was known of pods that are gone.
    """
    processes = around.processes
    found = Gathered(listed=lists["kubelet"], terminations=before.terminations)
    for first_ns in before.configured.values():
        _configured(found, processes.at(first_ns), first_ns)
    by_key: dict[str, tuple[str, str | None, list[HistoryEntry]]] = {}
    for full_name, of_name in entries.items():
        for key, pod_uid, own in _by_pod(full_name, of_name):
            by_key.setdefault(key, (full_name, pod_uid, []))[2].extend(own)
    for _, _, own in by_key.values():
        own.sort(key=attrgetter("ts_ns", "seq"))
        for entry in own:
            process = processes.at(entry.ts_ns)
            if entry.what in ("add", "update", "delete", "remove"):
                _configured(found, process, entry.ts_ns)
            found.terminations = found.terminations or entry.what == "terminated"
            if entry.other is not None:
                uid, namespace, pod = entry.other
                key = uid or name_key(namespace, pod)
                found.preempted_for[key] = max(found.preempted_for.get(key, 0), entry.ts_ns)
    around.terminations = found.terminations or not around.coverage.is_of_log
    around.configured = found.configured
    for key, (full_name, pod_uid, own) in by_key.items():
        namespace, _, name = full_name.partition("/")
        history = PodHistory(key=key, uid=pod_uid, namespace=namespace, name=name)
        history.created_ns = _created_ns(own)
        history.runs = _runs(own)
        history.calls = _calls(own)
        history.listed_alive_ns = _listed_alive(own, lists)
        history.failures = [each for each in own if each.listing and each.listing.failed]
        history.intervals = IntervalBuilder(history, own, around).intervals()
        if history.intervals or history.runs:
            found.pods[key] = history
    return found


def _configured(found: Gathered, process: Process | None, ts_ns: int) -> None:
    if process is not None:
        found.configured.setdefault(process.number, ts_ns)


def is_gone(entries: Sequence[HistoryEntry], before_ns: int) -> bool:
    """Whether no config source had a pod any more by a time, and nothing was told of it since."""
    is_over = all(entry.ts_ns < before_ns for entry in entries)
    calls = (entry for entry in entries if entry.what in ("add", "remove"))
    last = max(calls, key=attrgetter("ts_ns", "seq"), default=None) if is_over else None
    return last is not None and last.what == "remove"


def _by_pod(
    name: str, of_name: Mapping[str | None, Sequence[HistoryEntry]]
) -> Iterator[tuple[str, str | None, list[HistoryEntry]]]:
    """Give each sign to a pod; one without UID to the newest pod of its name by then.

    The UID of a pod that is added while its predecessor is not seen again is known later.
    """
    by_uid = {uid: list(entries) for uid, entries in of_name.items() if uid is not None}
    unnamed = list(of_name.get(None, ()))
    if not by_uid:
        if unnamed:
            yield name, None, unnamed
        return
    first_ns = {uid: min(entry.ts_ns for entry in entries) for uid, entries in by_uid.items()}
    came = sorted((_created_ns(each) or first_ns[uid], uid) for uid, each in by_uid.items())
    last_ns = {uid: max(entry.ts_ns for entry in entries) for uid, entries in by_uid.items()}
    for entry in unnamed:
        index = bisect_right(came, entry.ts_ns, key=lambda pod: pod[0])
        is_next = 0 < index < len(came) and last_ns[came[index - 1][1]] < entry.ts_ns
        index += entry.what == "add" and is_next
        by_uid[came[max(index - 1, 0)][1]].append(entry)
    for uid, entries in by_uid.items():
        yield uid or name_key(*name.split("/", 1)), uid, entries


def _created_ns(entries: Sequence[HistoryEntry]) -> int | None:
    lists = [each.listing for each in entries if each.listing and not each.listing.mirror]
    times = (listing.created_ns for listing in lists)
    return min((ts_ns for ts_ns in times if ts_ns is not None), default=None)


def _runs(entries: Sequence[HistoryEntry]) -> list[ContainerRun]:
    by_id: dict[str, ContainerRun] = {}
    last: dict[str | None, ContainerRun] = {}
    for entry in entries:
        if entry.what not in ("started", "killed", "died"):
            continue
        run = by_id.get(entry.container_id or "")
        if run is None and entry.container_id is None:
            run = last.get(entry.container)
            if run is None or run.died_ns is not None:
                continue
        if run is None:
            run = ContainerRun(name=entry.container, container_id=entry.container_id)
            by_id[entry.container_id or ""] = run
        run.name = run.name or entry.container
        last[run.name] = run
        _note(run, entry)
    return list(by_id.values())[-_RUNS_MAX:]


def still_asked(entries: list[HistoryEntry], before_ns: int) -> list[HistoryEntry]:
    """Without the middle of what is told of a pod in rows, which says nothing of later times.

    Of the runs of a container those go between the first and the one that began last by then; of
    lists that show the pod alike, and of updates, those between the first and the last in a row.
    """
    if sum(entry.ts_ns < before_ns for entry in entries) < _SETTLED_MIN:
        return entries
    kept: list[HistoryEntry] = []
    rows: dict[str, list[HistoryEntry]] = {}
    runs: dict[str | None, dict[str | None, list[HistoryEntry]]] = {}
    names = {entry.container_id: entry.container for entry in entries if entry.container}
    for entry in sorted(entries, key=attrgetter("ts_ns", "seq")):
        if entry.ts_ns >= before_ns:
            kept.append(entry)
        elif entry.what in _RUN and entry.word not in POD_ENDS:
            name = entry.container or names.get(entry.container_id)
            runs.setdefault(name, {}).setdefault(entry.container_id, []).append(entry)
        elif entry.listing is not None or entry.what in _CALLS:
            row = rows.setdefault("" if entry.listing is None else entry.listing.by, [])
            if row and not _is_alike(row[-1], entry):
                kept += row
                row.clear()
            row[1:] = [entry]
        else:
            kept.append(entry)
    for of_name in runs.values():
        began = [any(entry.what == "started" for entry in run) for run in of_name.values()]
        last = len(began) - 1 - began[::-1].index(True) if any(began) else 0
        first, *others = of_name.values()
        kept += chain(first, *others[max(last - 1, 0) :])
    return [*kept, *chain.from_iterable(rows.values())]


def _is_alike(entry: HistoryEntry, other: HistoryEntry) -> bool:
    if entry.listing is None or other.listing is None:
        return entry.what == other.what == "update"
    one, two = (replace(each, running=each.running[:1]) for each in (entry.listing, other.listing))
    return one == two and one.alive


def _calls(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    found: list[HistoryEntry] = []
    for entry in entries:
        again = entry.what == "update" and found and found[-1].what == "update"
        if entry.what in _CALLS and not again:
            found.append(entry)
    return found


def _note(run: ContainerRun, entry: HistoryEntry) -> None:
    run.sandbox = run.sandbox if entry.sandbox is None else entry.sandbox
    if entry.what == "started":
        run.shown = entry.ts_ns, entry.seq
        if run.started_ns is None:
            run.started_ns, run.started_seq = run.shown
    elif entry.what == "killed" and run.killed_ns is None:
        run.killed_ns, run.killed_seq = entry.ts_ns, entry.seq
    elif entry.what == "died":
        if run.died_ns is None:
            run.died_ns, run.died_seq = entry.ts_ns, entry.seq
        if run.exit_code is None:
            run.exit_code = entry.number


def _listed_alive(
    entries: Sequence[HistoryEntry], lists: Mapping[str, list[int]]
) -> tuple[int, int] | None:
    """First and last time that lists show the pod alive.

    A list that shows the same again leaves no record: it was shown until another state is.
    """
    found: list[int] = []
    shown = ((e.listing.by, e.ts_ns, e.listing.alive) for e in entries if e.listing)
    listed = sorted(shown, key=itemgetter(0, 1))
    for by, of_source in groupby(listed, key=itemgetter(0)):
        times, states = lists[by], list(of_source)
        for index, (_, ts_ns, is_alive) in enumerate(states):
            if is_alive:
                later = states[index + 1][1] if index + 1 < len(states) else times[-1] + 1
                last = times[bisect_left(times, later) - 1]
                found += (ts_ns, max(last, ts_ns) - LAG_NS)
    return (min(found), max(found)) if found else None


# Whether the sources of a node call the same pods and containers by the same names.
#
# Who shares a log hides names, UIDs or IDs in it, or cuts them, often in one file only. What
# is said of one pod then looks like that of another, and nothing that two sources say can be
# compared.

_SEVERAL: Final = 2
"""A single line that names another pod is wrong by itself."""

_NAMING: Final = frozenset({"killed", "aligned"})
"""What names a container by itself, and not by its ID as a list has it."""
_LAST_NS: Final = 1 << 62

_MASKS: Final = ("<", "[", "(", "*")


def are_unjoined(pods: Entries, specs: PodRegister) -> bool:
    """Whether most identities that two sources share mean other pods, or containers, in each."""
    names: dict[str, set[str]] = {}
    uids, joined = set[str](), set[str]()
    apart = masked = strange = familiar = 0
    for name, of_name in pods.items():
        for uid, entries in of_name.items():
            listed = sum(entry.listing is not None for entry in entries)
            if uid is not None:
                uids.add(uid)
                names.setdefault(uid, set()).add(name)
                if 0 < listed < len(entries):
                    joined.add(uid)
                told = {entry.container for entry in entries if entry.what in _NAMING} - {None}
                last = specs.at(_LAST_NS, uid) if told and uid is not None else None
                shown = versions_of([last] if last is not None else [])
                own = {each.name for spec in shown for each in spec.containers}
                strange += bool(own) and not told <= own
                familiar += bool(own) and told <= own
            for entry in entries:
                if entry.container_id:
                    names.setdefault(entry.container_id, set()).add(name)
                    masked += entry.container_id.startswith(_MASKS)
        apart += _is_apart(of_name)
    renamed = sum(len(names[uid]) > 1 for uid in uids)
    bare = [pair for pair in pairwise(sorted(pods)) if pods[pair[0]].keys() == {None}]
    cut = sum(longer.startswith(name) for name, longer in bare)  # of these the one was cut
    return (
        any(len(each) > _SEVERAL for each in names.values())
        or masked >= _SEVERAL
        or apart >= max(_SEVERAL, (len(pods) - apart) // 4)
        or _SEVERAL <= renamed > len(joined) - renamed
        or _SEVERAL <= strange > familiar
        or _SEVERAL <= cut > len(bare) - cut
    )


def _is_apart(of_name: Mapping[str | None, Sequence[HistoryEntry]]) -> bool:
    """Whether the log first tells of a UID while lists show that the name is another's.

    One that was there before, or came after the list, is another pod: of a StatefulSet, say.
    """
    logged, owned = list[int](), list[tuple[int, int]]()
    for uid, entries in of_name.items():
        lists = [(entry.ts_ns, it) for entry in entries if (it := entry.listing)]
        shown = ((ts_ns, it) for ts_ns, it in lists if it.alive and not it.mirror)
        owned += [(it.created_ns, ts_ns) for ts_ns, it in shown if it.created_ns]
        if uid is not None and not lists:
            logged.append(min(entry.ts_ns for entry in entries))
    return any(start <= ts_ns <= end for ts_ns in logged for start, end in owned)
