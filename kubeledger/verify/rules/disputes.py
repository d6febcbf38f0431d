"""What cannot be: sources, lists and records of one history that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec

from kubeledger.kubelet.kube.resources import name_key
from kubeledger.kubelet.kube.statuses import instances_in
from kubeledger.kubelet.lifecycle.denials import denials, differences, lasting
from kubeledger.model.bodies.eviction import PodPreempted, ReclaimAttempted
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodEvicted,
    PodListed,
    PodRejected,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved, SettingsObserved
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.episodes.safety import TAKES, Safety
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import See, Verifier, VerifyContext
from kubeledger.verify.evidence.container_specs import specs_of, versions_of
from kubeledger.verify.evidence.history_entries import STATUS_PREFIX
from kubeledger.verify.evidence.line_classes import (
    ENDS,
    KILL_TEXTS,
    RECLAIMS,
    VICTIMS,
    Form,
    is_plain,
    may_be_cut,
    unescaped,
)
from kubeledger.verify.evidence.pod_intervals import PodHistory
from kubeledger.verify.evidence.pods import ListedPod, OfPod, PodRegister
from kubeledger.verify.evidence.times import RELIST_NS
from kubeledger.verify.finding import Row, Side, Violation
from kubeledger.verify.rules.containers import Told, subject_of


def report_disputes(context: VerifyContext) -> None:
    """Say which lists of a pod differ, and which manifests differ from all lists of their pods."""
    of_manifests: dict[ListedPod, list[tuple[ListedPod, tuple[str, str, str] | None]]] = {}
    for lists in context.pods.all_versions():
        newest, specs = lists[-1], versions_of(lists)
        if len(specs) > 1:
            why = f"{len(specs)} lists of the pod differ in its probes, grace periods or restart "
            why += "policy, which cannot change while it lives"
            told = ((s.seq, f"pod {newest.uid}: version {n}") for n, s in enumerate(specs, start=1))
            context.contradict(newest.ts_ns, f"pod/{newest.namespace}/{newest.name}", why, *told)
        manifest = _manifest_of(context.pods, newest)
        if manifest is not None and specs and specs[0].is_static:
            used = msgspec.to_builtins(specs[0].spec)
            given = [msgspec.to_builtins(spec.spec) for spec in versions_of((manifest,))]
            found = (each for spec in given for each in differences(spec, used))
            of_manifests.setdefault(manifest, []).append((newest, next(found, None)))
    for manifest, pods in of_manifests.items():
        listed, one = pods[-1]
        if one is not None and all(each is not None for _, each in pods):
            what, given_there, shown = one
            subject = f"pod/{listed.namespace}/{listed.name}"
            why = f"the pod's manifest and the list of it differ in {what}"
            sides = (manifest.seq, f"{what}: {given_there}"), (listed.seq, f"{what}: {shown}")
            context.contradict(listed.ts_ns, subject, why, *sides)


def _manifest_of(pods: PodRegister, listed: ListedPod) -> ListedPod | None:
    """A static pod is called by its manifest's name and its node's."""
    node = "" if listed.pod is None else (listed.pod.spec.node_name or "").lower()
    name = listed.name.removesuffix(f"-{node}")
    return pods.manifest(listed.namespace, name) if node and name != listed.name else None


# Facts from several sources (docs/internals/verification.md has a table): where two of them cannot
# both be right, both are shown. A line that is cut shows nothing here, nor does one that is lost.

Parts = tuple[str | None, ...]
"""Parts of a fact; None for one that a source does not say."""
_Of = Callable[[Mapping[str, str]], Parts]

_WHY: Final = {
    "refusal": "sources differ about one refusal",
    "victim": "the log has different names for one victim of a preemption",
    "end of a victim": "a preemption victim has another reason or message than all victims get",
    "eviction": "sources have different messages of one eviction",
    "reclaim": "lines of one round of the eviction manager name different resources",
    "kill": "a kill and its event name different failed probes",
    "machine": "the line about the machine and the eviction signals have different "
    "capacities of memory",
    "startTime": "lists show a pod to have begun earlier than the lists before:",
    "creationTimestamp": "lists show different times at which the pod was made:",
    "name": "lists show two containers with the same ID",
    "restartCount": "lists count different restarts up to the same container",
    "startedAt": "lists show different starts of the same container",
    "finishedAt": "lists show different ends of the same container",
    "containerID": "lists show two containers for one start:",
    "image": "lists show different images of the same container",
    "exitCode": "sources show different exit codes of the same container",
    "state": "lists show a container to run after it had ended:",
    "spec": "lists differ in what cannot change while a pod lives:",
    "restarts": "lists count fewer restarts than before in pod",
    "phase": "lists show a pod to go on after it had ended:",
    "status": "a list's status says what the kubelet does not write together",
    "times": "by the times in a status one followed on what had not happened yet",
    "deletionTimestamp": "lists show a pod that is no more to be deleted:",
}
_TIMELESS: Final = frozenset({"containerID", "creationTimestamp", "exitCode", "finishedAt", "name",
                              "image", "restartCount", "spec", "startedAt", "status"})  # fmt: skip
"""What no clock explains, nor the order in which lists were taken."""
_MACHINE: Final = ("machine", ("node", ""))
_MARKS: Final = str.maketrans("", "", ' \t\r\n"\\')
_CLOCKS_NS: Final = 2 * NS_PER_S
"""Clocks of the node and of the API server that agree may be apart by so much."""
_DENIED: Final = "Pod admission denied"
"""A line that has the pod's UID; others name a pod that may have been made anew since."""
_RESIZED: Final = {
    "ResizeDeferred": "Pod resize Deferred",
    "ResizeInfeasible": "Pod resize Infeasible",
}
"""Reason -> how the words of the event begin (pkg/kubelet/events/resize.go, 1.35)."""
_VICTIM: Final = ("Preempting", "Preempted in order to admit critical pod")
"""Reason and message that the kubelet gives every victim (pkg/kubelet/preemption)."""

_EVICTIONS: Final = ("The node was low on", "Usage of EmptyDir", "Pod ephemeral", "Container ")
"""How the message of an eviction begins; a refusal has the same reason."""
_ROUNDS: Final = "Evicting pod", 'reason="Evicted"'
_ENDS_NS: Final = 120 * NS_PER_S
"""A pod that was evicted before this is over."""


class SourceDisputes(Verifier):
    """Compares what is shown of one fact; memory grows with pods and their containers."""

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._told: set[tuple[str, Hashable, Any, Any]] = set()
        self._ends: dict[tuple[str, Hashable], list[tuple[str | None, Row[Parts]]]] = {}
        self._shown: dict[tuple[str, Hashable, str | None, Parts], Row[Parts]] = {}
        self._awaited: Row[Parts] | None = None
        self._first: dict[tuple[str, Hashable], Row[Any]] = {}
        self._pods: dict[str, tuple[str, str | None, int]] = {}
        self._came: set[str | None] = set()

    def sees(self) -> Mapping[type[Body], See]:
        return {
            ContainerDied: self._container_died,
            ContainerKilled: self._container_killed,
            ContainerStarted: self._container_started,
            EvictionSignalObserved: self._signal_observed,
            # Another process may find another machine.
            KubeletStarted: lambda record, body, state: self._first.pop(_MACHINE, None),
            KubernetesEvent: self._reported,
            NodeObserved: self._node_observed,
            PodEvicted: self._pod_evicted,
            PodListed: self._pod_listed,
            PodPreempted: self._pod_preempted,
            PodRejected: self._pod_rejected,
            ReclaimAttempted: self._reclaimed,
            SettingsObserved: self._settings_observed,
        }

    def _compare(self, change: Row[Any], *reading: Row[Any]) -> None:
        """Accounts of one fact; each pair that cannot be of one value is told once."""
        for row in reading:
            pair = (row.kind, row.subject, change.value, row.value)
            if pair in self._told or _may_be_one(change.value, row.value):
                continue
            self._told.add(pair)
            sides = (change.seq, change.text), (row.seq, row.text)
            # An event goes to a victim that no event names: where lines are lost that is a guess.
            is_guess = row.kind in ("victim", "eviction")
            subject, of = cast(tuple[str, str], row.subject)
            why = f"{_WHY[row.kind]} {of}".rstrip()
            told = partial(self.context.contradict, row.ts_ns, subject, why, *sides)
            told(by_absence=is_guess, timeless=row.kind in _TIMELESS)

    def _go_on(self, row: Row[Any]) -> None:
        """What stays as it was told first, or is a number that only rises."""
        first = self._first.setdefault((row.kind, row.subject), row)
        if first.ts_ns <= row.ts_ns:
            self._compare(first, row)
        if not isinstance(row.value, tuple):
            self._first[row.kind, row.subject] = row

    def _pod_rejected(self, record: Record, body: PodRejected, _: NodeState) -> None:
        subject = subject_of(body)
        value = (body.reason, _bare(body.message))
        change = _row("refusal", subject, value, record, f"{body.reason}: {body.message}")
        rows = [*_lines(change, record, ENDS, _end_of)]
        timeline = self.context.timeline
        interval, pod = timeline.interval_of(record), timeline.of(record)
        if interval and (listed := pod.failure(interval, record.ts_ns)) is not None:
            seq, reason, words = listed
            reading = reason, _bare(words)
            rows.append(change._replace(value=reading, seq=seq, text=f"{reason}: {words}"))
        self._compare(change, *rows)
        if interval and any(_DENIED in (piece.text or "") for piece in record.evidence):
            self._compare_creation(record.ts_ns, record.seq, "refused", pod, interval.process)

    def _compare_creation(
        self, ts_ns: int, seq: int, what: str, pod: PodHistory, process: int
    ) -> None:
        """The pod that came last, and was made just before, shows whether both clocks agree."""
        if (pod.created_ns or 0) <= ts_ns + _CLOCKS_NS:
            return
        came = [(own.added_ns, own.added_ns - (each.created_ns or 0))
                for each in self.context.timeline.pods.values() if each is not pod
                for own in each.intervals if own.process == process
                and own.added_ns and own.added_ns <= ts_ns]  # fmt: skip
        told = (each for each in came if each[1] <= RELIST_NS)
        _, late_ns = max(told, default=(0, -2 * _CLOCKS_NS))
        listed = self.context.pods.at(ts_ns, pod.uid)
        if late_ns >= -_CLOCKS_NS and listed is not None:
            made = f"it was made at {format_ts(pod.created_ns or 0)}"
            sides = (seq, f"the pod is {what}"), (listed.seq, made)
            why = f"a pod is {what} before it was made"
            self.context.contradict(ts_ns, f"pod/{pod.namespace}/{pod.name}", why, *sides)

    def _compare_coming(self, record: Record, body: PodListed) -> None:
        """A pod that the log shows to come was made before."""
        interval, pod = self.context.timeline.interval_of(record), self.context.timeline.of(record)
        if interval is None or interval.added_ns is None or pod.uid in self._came:
            return
        alike = self.context.timeline.named(pod.namespace, pod.name)
        came = [each.added_ns for one in alike for each in one.intervals if each.added_ns]
        # Else another pod of that name came, which no list shows.
        if len(came) == 1 and self.context.coverage.missing(came[0], record.ts_ns) is None:
            self._came.add(pod.uid)
            self._compare_creation(came[0], interval.add_seq or 0, "added", pod, interval.process)

    def _pod_preempted(self, record: Record, body: PodPreempted, _: NodeState) -> None:
        victim = (body.victim_namespace, body.victim_pod)
        subject = f"pod/{name_key(*victim)}"
        change = _row("victim", subject, victim, record, f"{name_key(*victim)} ({body.victim_uid})")
        self._compare(change, *_lines(change, record, VICTIMS, _name_of))
        end = _row("end of a victim", subject, _VICTIM, record, ": ".join(_VICTIM))
        self._compare(end, *_lines(end, record, ENDS, _end_of))
        self._ends.setdefault((end.kind, end.subject), []).append((body.victim_uid, end))

    def _reclaimed(self, record: Record, body: ReclaimAttempted, _: NodeState) -> None:
        account = f"{body.resource} is to be reclaimed"
        change = _row("reclaim", "node", (body.resource,), record, account)
        self._compare(change, *_lines(change, record, RECLAIMS, _only))

    def _pod_evicted(self, record: Record, body: PodEvicted, _: NodeState) -> None:
        """The manager waits for the pod that it chose, and does nothing else until it ends."""
        subject = f"pod/{name_key(body.namespace, body.pod)}"
        # Where no line parts two rounds one record has the lines of both.
        texts = [piece.text or "" for piece in record.evidence]
        rounds = max(sum(words in text for text in texts) for words in _ROUNDS)
        value = None, None if body.message is None or rounds > 1 else _bare(body.message)
        end = _row("eviction", subject, value, record, body.message or "evicted")
        self._ends.setdefault((end.kind, end.subject), []).append((body.pod_uid, end))
        awaited, is_open = self._awaited, body.rank is not None and body.evicted is None
        self._awaited = end if is_open else None
        is_end = body.rank is None and body.message is None and body.evicted is not None
        lost = self.context.coverage.missing
        if awaited and is_end and lost(awaited.ts_ns, record.ts_ns) is None:
            why = "the eviction manager waits for the end of one pod, and tells that of another"
            chosen, _of = cast(tuple[str, str], awaited.subject)
            sides = (awaited.seq, chosen), (record.seq, subject)
            self.context.contradict(record.ts_ns, subject, why, *sides, by_absence=True)

    def _show_end(self, record: Record, body: OfPod, reason: str | None, message: object) -> None:
        """An event, or a list, shows how a pod ended; which ends it had is known at the end."""
        value, account = (reason, _bare(str(message))), f"{reason}: {message}"
        # Where both differ somebody else may have set them.
        kind = "end of a victim" if set(value) & set(_VICTIM) else "eviction"
        if kind != "eviction" or str(message).startswith(_EVICTIONS):
            row = _row(kind, f"pod/{body.namespace}/{body.pod}", value, record, account)
            self._shown.setdefault((kind, row.subject, body.pod_uid, value), row)

    def settle(self, state: NodeState) -> None:
        for (kind, subject, uid, value), shown in self._shown.items():
            every = self._ends.get((kind, subject), ())
            own = [row for of, row in every if of is None or uid in (None, of)]
            if not own or any(_may_be_one(row.value, value) for row in own):
                continue
            near = min(own, key=lambda row: abs(row.ts_ns - shown.ts_ns))
            span = min(near.ts_ns, shown.ts_ns) - _ENDS_NS, shown.ts_ns
            if kind != "eviction" or self.context.coverage.missing(*span) is None:
                self._compare(near, shown)

    def _pod_listed(self, record: Record, body: PodListed, _: NodeState) -> None:
        status = body.status or {}
        for container, *both, since_ns in denials(body):
            if since_ns is None or self._is_seen(since_ns, record.ts_ns):
                kind, about = "status" if since_ns is None else "times", _whose(body, container)
                self._compare(*(_row(kind, about, (each,), record, each) for each in both))
        for each in (status, *(status.get("conditions") or ())):
            self._show_end(record, body, each.get("reason"), each.get("message"))
        self._compare_coming(record, body)
        for kind, container, of, value, shown in lasting(body):
            # One API server may be behind another.
            if body.listed_by == "kubelet" or isinstance(value, tuple):
                who = _whose(body, container)
                self._go_on(_row(kind, who, value, record, f"{kind} {shown}", of))
        for shown in instances_in(status):
            self._belongs(record, shown.container_id, body)

    def _is_seen(self, since_ns: int, until_ns: int) -> bool:
        """One process tells of all of that time: it shows a clock that is set back."""
        start_ns = self.context.coverage.next_start(since_ns) or until_ns + 1
        return start_ns > until_ns and self.context.coverage.silent(since_ns, until_ns) is None

    def _container_started(self, record: Record, body: ContainerStarted, _: NodeState) -> None:
        self._belongs(record, body.container_id, body)
        self._compare_time(record, body, "began")

    def _compare_time(self, record: Record, body: Told, what: str) -> None:
        """A line may be late, but nothing is told before it is."""
        early = self.context.times.early(body.container_id, record.ts_ns)
        texts = [piece.text for piece in record.evidence if piece.text]
        # Which instance an event is about an importer works out.
        is_named = not texts or any((body.container_id or "")[:12] in text for text in texts)
        if early is not None and is_named:
            when = f"container {body.container_id} {what}"
            sides = (record.seq, when), (early[1], f"{when} at {format_ts(early[0])}")
            why = f"a line tells that a container {what} before it did, by its status"
            self.context.contradict(record.ts_ns, subject_of(body), why, *sides)

    def _belongs(self, record: Record, container_id: str | None, body: OfPod) -> None:
        """A runtime gives no ID twice."""
        if not (container_id and body.namespace and body.pod):
            return
        pod = name_key(body.namespace, body.pod)
        first, uid, seq = self._pods.setdefault(container_id, (pod, body.pod_uid, record.seq))
        if first != pod and (uid is None or uid != body.pod_uid):  # else one source hides its name
            self._pods[container_id] = pod, body.pod_uid, record.seq
            says = f"container {container_id} is of pod "
            sides = (seq, f"{says}{first}"), (record.seq, f"{says}{pod}")
            why = "one container is shown as that of two pods"  # whatever the clock was
            self.context.contradict(record.ts_ns, f"pod/{pod}", why, *sides, by_lines=True)

    def _container_died(self, record: Record, body: ContainerDied, _: NodeState) -> None:
        self._belongs(record, body.container_id, body)
        self._compare_time(record, body, "ended")
        if body.exit_code is not None and body.container is not None:
            code, of = str(body.exit_code), body.container_id
            self._go_on(_row("exitCode", subject_of(body), (code,), record, f"exitCode {code}", of))

    def _container_killed(self, record: Record, body: ContainerKilled, _: NodeState) -> None:
        probe, _sep, of_probe = (body.reason or "").partition("_")
        if of_probe == "probe":
            change = _row("kill", subject_of(body), (probe,), record, f"the {probe} probe failed")
            self._compare(change, *_lines(change, record, KILL_TEXTS, _only))

    def _reported(self, record: Record, body: KubernetesEvent, _: NodeState) -> None:
        """A kill is of one of the pod's containers; what a resize came to is said twice."""
        words = _RESIZED.get(body.reason, "")
        if not body.message.startswith(words) and body.message.startswith((*_RESIZED.values(),)):
            sides = (record.seq, body.reason), (record.seq, body.message)
            why = "a resize's event has the words of another outcome than its reason"
            self.context.contradict(record.ts_ns, f"pod/{body.namespace}/{body.pod}", why, *sides)
        if body.reason == "Evicted":
            self._show_end(record, body, body.reason, body.message)
        if body.reason != "Killing" or body.container is None or body.object_kind != "Pod":
            return
        who = body.namespace, body.pod
        alike, pods = self.context.timeline.named(*who), self.context.pods
        specs = [specs_of(pods, pods.at(record.ts_ns, pod.uid, *who)) for pod in alike]
        known = [each[0] for each in specs if not isinstance(each, str)]
        own = {container.name for spec in known for container in spec.containers}
        if known and len(known) == len(specs) and body.container not in own:
            sides = (known[0].seq, f"it has {', '.join(sorted(own))}"), (record.seq, body.message)
            why = f"an event tells of container {body.container}, which the pod does not have"
            self.context.contradict(record.ts_ns, f"pod/{name_key(*who)}", why, *sides)

    def _node_observed(self, record: Record, body: NodeObserved, _: NodeState) -> None:
        if body.memory_capacity_bytes is not None:
            size = str(body.memory_capacity_bytes)
            account = f"the machine has {size} bytes"
            self._first[_MACHINE] = _row("machine", "node", (size,), record, account)

    def _settings_observed(self, record: Record, body: SettingsObserved, _: NodeState) -> None:
        """Sources of one process's settings that disagree."""
        if record.seq in self.context.timeline.processes.of_none:
            return
        for conflict in body.conflicts:
            name, _colon, text = conflict.partition(": ")
            sides = [(record.seq, side) for side in (text or conflict).split(", ", 1)]
            self.context.contradict(record.ts_ns, "node", f"sources disagree on {name}", *sides)

    def _signal_observed(self, record: Record, body: EvictionSignalObserved, _: NodeState) -> None:
        if body.signal == "memory.available" and (machine := self._first.pop(_MACHINE, None)):
            account = f"{body.signal} has a capacity of {body.capacity} bytes"
            self._compare(machine, _row("machine", "node", (str(body.capacity),), record, account))


def _whose(body: PodListed, container: str | None) -> str:
    names = filter(None, (body.namespace, body.pod, container))
    return "/".join(("pod" if container is None else "container", *names))


def _row(
    kind: str, subject: str, value: Parts | int | None, record: Record, account: str, of: str = ""
) -> Row[Any]:
    return Row(kind, (subject, of), value, record.seq, record.ts_ns, account)


def _lines(change: Row[Any], record: Record, forms: Sequence[Form], of: _Of) -> Iterator[Row[Any]]:
    """What the lines of a record show of a fact, each in its own form."""
    for piece in record.evidence:
        text = piece.text or ""
        for words, form in forms:
            if words in text and (found := form.search(text)) is not None:
                account = text if piece.line is None else f"{piece.file}:{piece.line}: {text}"
                yield change._replace(value=of(found.groupdict()), text=account)


def _bare(message: str) -> str:
    """Some versions put words before it in the status."""
    return STATUS_PREFIX.sub("", message).rstrip()


def _end_of(parts: Mapping[str, str]) -> Parts:
    """Reason and message of a pod's end."""
    return parts.get("reason"), _bare(unescaped(parts["message"]))


def _name_of(parts: Mapping[str, str]) -> Parts:
    return parts["namespace"], parts["name"]


def _only(parts: Mapping[str, str]) -> Parts:
    return (parts.get("probe") or parts.get("resource"),)


def _may_be_one(change: Parts | int | None, reading: Parts | int | None) -> bool:
    """Whether two accounts can be of one value, as far as both show it, or of one that rises."""
    if change is None or reading is None:
        return True
    if isinstance(change, int) or isinstance(reading, int):
        return change <= reading  # type: ignore[operator] # a fact is of one kind
    for given in zip(change, reading, strict=True):
        # A terminal breaks lines, and before a quote it is no quote of the line any more.
        texts = [text.translate(_MARKS) for text in given if text is not None]
        if len(texts) < 2 or not all(map(is_plain, texts)):
            continue
        short, long = sorted(texts, key=len)
        if short != long and not (may_be_cut(short) and long.startswith(short)):
            return False
    return True


# What can never be is said as it is met; no decision is judged.


class SafetyVerifier(Verifier):
    """Reports violations of invariants."""

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._safety = Safety()

    def sees(self) -> Mapping[type[Body], See]:
        return dict.fromkeys(TAKES, self._take)

    def _take(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401 - any body
        coverage = self.context.coverage
        for each in self._safety.take(record):
            since_ns, until_ns = each.lost_since_ns, min(each.ts_ns, coverage.last_line_ns)
            if since_ns is not None and coverage.missing(since_ns, until_ns) is not None:
                continue
            found = Violation(
                ts_ns=each.ts_ns,
                subject=each.subject,
                why=each.message,
                sides=tuple(Side(seq=seq, says=says) for seq, says in each.sides),
                invariant=each.invariant,
                bugs=each.bugs,
            )
            self.context.pending.add(found)
