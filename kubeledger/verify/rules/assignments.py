"""What the rules of the CPU manager and of the memory manager share.

Both keep a table of what each container has, in memory and in a state file. Lines tell its
changes, the file shows the table. A line may be lost, so two things stay open at any time: what a
container got may have been given back, unless something later shows it still; and a container
whose spec asks for it may have got something, unless the ledger tells when it did.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from kubeledger.errors import BadInputError
from kubeledger.kube.pod import Container, Pod
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.records import PodConfigChanged, PodTerminated
from kubeledger.machine import Body, Record
from kubeledger.node.state import NodeState
from kubeledger.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, RuleVerifier, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.pods import ListedPod
from kubeledger.verify.rules.activity import Activity
from kubeledger.verify.verifier import Foresee, See
from kubeledger.verify.witnesses import Row, Witnesses

__all__ = [
    "FILE_NS",
    "NOTICED_NS",
    "AssignmentRule",
    "Held",
    "Holder",
    "Spec",
    "Whose",
    "specs_in",
    "whose",
]

Holder = tuple[str, str]
"""Pod key and container."""

V = TypeVar("V", bound=Hashable)

FILE_NS = 15 * NS_PER_S
"""A snapshot is named by the second it began in, and may take so long to be made."""
NOTICED_NS = 5 * NS_PER_S
"""So long after a pod's end, the next admission lets go of what it held."""


class Spec(NamedTuple):
    """A container of a listed pod.

    Attributes:
        defaulted: the API server's defaults are in it, so that a class other than Guaranteed
            is certain.
    """

    pod: Pod
    container: Container
    seqs: tuple[int, ...]
    defaulted: bool


class Whose(NamedTuple):
    """Whom a decision is about: key, and subject of its finding."""

    holder: Holder
    subject: str


class Held(NamedTuple, Generic[V]):
    """What a container has, and the record that told of it."""

    value: V
    seq: int


class AssignmentRule(RuleVerifier, ABC, Generic[V]):
    """One manager's table of assignments.

    Attributes:
        file: name of the manager's state file.
        denied: what it means when the file shows something else than the lines told.
        held: the table; ``complete``: nobody else has anything; ``was_complete``: so it was at the
            end of the process before, until the new one tells what it began with.
    """

    file: ClassVar[str]
    denied: ClassVar[str]
    grants: ClassVar[type[Body]]
    releases: ClassVar[type[Body]]
    files: ClassVar[type[Body]]

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.activity = Activity(bench.pods)
        self.held: dict[Holder, Held[V]] = {}
        self.complete = False
        self.was_complete = False
        self._witnesses: Witnesses[V] = Witnesses(FILE_NS)
        self._changes: dict[Holder, list[Record]] = {}
        self._shown: dict[Holder, list[tuple[int, V]]] = {}

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Which pods were alive by when, what files show, and who ever got something."""
        return {
            **dict.fromkeys(self.activity.kinds, self.activity.foresee),
            self.grants: self._foresee_change,
            self.releases: self._foresee_change,
            self.files: self.foresee_file,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """The ends of pods."""
        return {
            PodConfigChanged: lambda record, body, state: self.activity.added(body),
            PodTerminated: lambda record, body, state: self.activity.ended(record, body),
        }

    def settle(self, state: NodeState) -> None:
        """The records end."""
        self.compare(None)

    @abstractmethod
    def shown_by(self, body: Any) -> dict[Holder, V]:  # noqa: ANN401 - the manager's file
        """The table of a state file."""

    @abstractmethod
    def text(self, value: V) -> str:
        """``has 1-2``, for people."""

    def _foresee_change(self, record: Record) -> None:
        body: Any = record.body
        holder = body.pod_uid or f"{body.namespace}/{body.pod}", body.container
        self._changes.setdefault(holder, []).append(record)

    def foresee_file(self, record: Record) -> None:
        """First reading of a state file."""
        body: Any = record.body
        if body.checksum_ok is not False:
            for holder, value in self.shown_by(body).items():
                self._shown.setdefault(holder, []).append((record.ts_ns, value))

    def process_started(self) -> None:
        """Whether a new process has the same table, only a line of its start tells."""
        self.activity.restarted()
        self.was_complete = self.was_complete or self.complete
        self.complete = False

    def foreign(self, record: Record, body: Any) -> Judgement | None:  # noqa: ANN401 - any body
        """The judgement of a record whose pod has another name, or no such container."""
        listed = self.bench.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if listed is None or listed.uid != body.pod_uid:
            return None
        named = {"namespace": listed.namespace, "pod": listed.name}
        if body.pod is not None and named != {"namespace": body.namespace, "pod": body.pod}:
            why = f"pod {body.pod_uid} is {listed.namespace}/{listed.name} in the pod list"
            return same(False, why, expected=named, inputs=[listed.seq], certain=True)
        if not any(specs_in(listed)) or self.specs(record, body):
            return None
        why = f"the pod has no container {body.container}"
        return same(False, why, inputs=[listed.seq], certain=True)

    def reset(self) -> None:
        """The log begins within a process: what that had, and did until here, no line tells."""
        self.held.clear()
        self.complete = self.was_complete = False
        self._witnesses.forget()

    def take(self, record: Record, holder: Holder, value: V) -> None:
        """A container has it from now on."""
        self.held[holder] = Held(value, record.seq)
        self._tell(holder, value, record)

    def lose(self, record: Record, holder: Holder) -> None:
        """A container has nothing any more."""
        self.held.pop(holder, None)
        self._tell(holder, None, record)

    def _tell(self, holder: Holder, value: V | None, record: Record) -> None:
        says = "" if value is None else f"container {holder[1]} {self.text(value)}"
        row = Row(self.file, holder, value, record.seq, record.ts_ns, says)
        self._witnesses.tell(row)

    def adopt(self, record: Record, shown: Mapping[Holder, V]) -> None:
        """Take over a file's table as it was at its time: lines until it was made are behind it."""
        self.held = {holder: Held(value, record.seq) for holder, value in shown.items()}
        for holder, change in self.meanwhile(record):
            if isinstance(change.body, self.grants):
                self.held.pop(holder, None)

    def meanwhile(self, read: Record) -> Iterator[tuple[Holder, Record]]:
        """Changes that lines tell between the time of a file and the last one it can be of."""
        for holder, changes in self._changes.items():
            for change in changes:
                if 0 <= change.ts_ns - read.ts_ns < FILE_NS and change.seq > read.seq:
                    yield holder, change

    def show(self, record: Record, holder: Holder, value: V, says: str) -> None:
        """A file shows what a container has."""
        self._witnesses.show(Row(self.file, holder, value, record.seq, record.ts_ns, says))

    def compare(self, ts_ns: int | None) -> None:
        """Show what files denied, of those that cannot be explained by what came by then."""
        sides: dict[int, list[tuple[int, str]]] = {}
        at_ns = 0
        for told, shown in self._witnesses.passed(ts_ns):
            at_ns = max(at_ns, shown.ts_ns)
            side = sides.setdefault(shown.seq, [(shown.seq, shown.says)])
            side.append((told.seq, told.says))
        for shown_sides in sides.values():
            self.bench.contradict(at_ns, "node", self.denied, *shown_sides)

    def relied_on(self, record: Record, checksum: int, checksum_ok: bool | None) -> bool:
        """Whether the content of the manager's file counts; a wrong checksum is told."""
        if checksum_ok is False:
            self.bench.contradict(
                record.ts_ns,
                "node",
                f"the checksum of {self.file} is not that of its content, which is not relied on",
                (record.seq, f"checksum {checksum} is stored"),
                (record.seq, "its content has another checksum"),
            )
        return checksum_ok is not False

    def surely_has(self, holder: Holder, ts_ns: int) -> bool:
        """Whether something later shows that a container kept what it has."""
        held = self.held.get(holder)
        shown = self._shown.get(holder, ())
        return held is not None and (
            self.activity.lived(holder[0], ts_ns)
            or any(at_ns > ts_ns and value == held.value for at_ns, value in shown)
        )

    def may_have_got(self, holder: Holder) -> bool:
        """Whether a grant to the container may stand in a line that was lost: none is there."""
        told = (
            each for each in self._changes.get(holder, ()) if isinstance(each.body, self.grants)
        )
        return self.activity.came_back(holder[0]) or not any(told)

    def end_of(self, holder: Holder) -> Record | None:
        """The end of a container's pod, if that was due to be noticed."""
        return self.activity.end_of(holder[0])

    def facts(self) -> ResourceManagerFacts | None:
        """What this version does."""
        profile = self.bench.profile
        return profile.resourcemanagers if profile is not None else None

    def specs(self, record: Record, body: Any) -> list[Spec]:  # noqa: ANN401 - any body
        """The container in each version of its pod's spec; none where no list shows it.

        A pod that was resized has several, and any may be what was asked for.
        """
        pods = self.bench.pods
        listed = pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        versions = pods.versions(listed) if listed is not None else ()
        found = (spec for version in versions for spec in specs_in(version))
        return [spec for spec in found if spec.container.name == body.container]

    def pod(self, holder: Holder) -> str:
        """The name of a holder's pod, or its UID."""
        listed = self.bench.pods.at(0, holder[0])
        return f"{listed.namespace}/{listed.name}" if listed is not None else holder[0]

    def named(self, holder: Holder) -> str:
        """``container c of pod ns/p``."""
        return f"container {holder[1]} of pod {self.pod(holder)}"


def specs_in(listed: ListedPod) -> Iterator[Spec]:
    """The containers of one version of a pod, in the order in which they get something."""
    try:
        pod = listed.as_(Pod)
    except (msgspec.ValidationError, BadInputError):
        return
    defaulted = pod.status is not None and pod.status.qos_class is not None
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        yield Spec(pod, container, (listed.seq,), defaulted)


def whose(state: NodeState, body: Any) -> Whose:  # noqa: ANN401 - any body
    """Whom a decision is about."""
    key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod) or ""
    container = body.container or ""
    name = f"{body.namespace}/{body.pod}" if body.pod else key
    subject = f"container/{name}/{container}" if container and body.pod else f"pod/{name}"
    return Whose((key, container), subject)
