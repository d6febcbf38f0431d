"""What one can ask about, ``pod/NS/NAME`` and so on, and what an answer is made of."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from kubeledger.analyze.histories.noting import Life
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Evidence, Record, Role
from kubeledger.replay.episodes.subjects import pods_in, uid_of
from kubeledger.verify import Finding

TargetKind = Literal["pod", "container", "image", "device", "cgroup", "node"]

FORMS: dict[TargetKind, str] = {
    "pod": "pod/NS/NAME",
    "container": "container/NS/POD/C",
    "image": "image/ID",
    "device": "device/RESOURCE/ID",
    "cgroup": "cgroup/PATH",
    "node": "node or node/NAME",
}


class Target(msgspec.Struct, frozen=True):
    """What is asked about.

    Attributes:
        kind: which form it has.
        parts: what stands after the kind: (namespace, name), (namespace, pod, container),
            (ID,), (resource, ID), (path,), (name,), or nothing for any node; (UID,) of a pod
            whose name no record has, (name,) of one of which no record has anything else.
        pod_uid: of the pod that is meant, where others may have had its name; None: the last.
    """

    kind: TargetKind
    parts: tuple[str, ...]
    pod_uid: str | None = None

    def __str__(self) -> str:
        """As it is written on the command line."""
        return "/".join((self.kind, *self.parts))


def parse_target(text: str) -> Target:
    """Read a target as users write it.

    A resource name holds a slash of its own (``device/example.com/gpu/gpu-3``), and so do
    paths of cgroups and names of images.

    Raises:
        BadQuestionError: it has none of the forms.
    """
    word, _, rest = text.partition("/")
    kind = next((kind for kind in FORMS if kind == word), None)
    if kind is None:
        raise BadQuestionError(f"unknown target {text!r}", advice=f"give {_forms()}")
    if text == "node":
        return Target("node", ())
    if kind == "device":
        resource, _, device = rest.rpartition("/")
        parts: tuple[str, ...] = (resource, device)
    elif kind in {"image", "cgroup"}:
        parts = (rest.strip("/") if kind == "cgroup" else rest,)
    else:
        parts = tuple(rest.split("/"))
    if not all(parts) or len(parts) != _PARTS.get(kind, len(parts)):
        raise BadQuestionError(f"{text!r} is not of the form {FORMS[kind]}")
    return Target(kind, parts)


_PARTS = {"pod": 2, "container": 3, "node": 1}


def _forms() -> str:
    return ", ".join(FORMS.values())


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered piece of evidence: a record, and where the fact stands.

    Attributes:
        number: from 1, as the sentence's reader counts.
        summary: the record on one line.
        inferred: no line says it; it follows from others.
        file, line, text: first place in the sources; None for a fact without one.
    """

    number: int
    seq: int
    ts_ns: int
    role: Role
    kind: str
    subject: str
    summary: str
    inferred: bool
    file: str | None
    line: int | None
    text: str | None

    @property
    def place(self) -> str:
        """``file:line``, or the file alone; empty without one."""
        return Evidence(file=self.file or "", line=self.line).place


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about the target, or a fact about the node, on one line.

    Attributes:
        verdict: of a decision; None for what is no decision.
    """

    seq: int
    ts_ns: int
    kind: str
    summary: str
    verdict: str | None


class StoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, once or several times, and belongs to the answer.

    Attributes:
        ts_ns, last_ts_ns: the first and the last time.
        count: how often; 1 or more.
        text: what, on one line.
        weight: how much it explains; the largest explains most.
        kind, seq: of the record that shows it, the last one.
        evidence: number of that record's piece of evidence; None when it is not among them.
    """

    ts_ns: int
    last_ts_ns: int
    count: int
    text: str
    weight: int
    kind: str
    seq: int
    evidence: int | None = None

    @classmethod
    def of(
        cls, record: Record, text: str, weight: int, first_ts_ns: int | None = None, count: int = 1
    ) -> StoryStep:
        """What a record shows, of several the last one."""
        return cls(
            ts_ns=record.ts_ns if first_ts_ns is None else first_ts_ns,
            last_ts_ns=record.ts_ns,
            count=count,
            text=text,
            weight=weight,
            kind=record.kind,
            seq=record.seq,
        )


class Namesake(msgspec.Struct, frozen=True, kw_only=True):
    """Another pod that had the target's name.

    Attributes:
        first_ts_ns, last_ts_ns: of the records about it.
    """

    pod_uid: str
    first_ts_ns: int
    last_ts_ns: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is as it is, or how it fared.

    Attributes:
        headline: the answer in at most ``HEADLINE_MAX`` characters.
        steps: (k,) what led to it and what came of it, oldest first.
        sentence: the answer with all its reasons.
        evidence: (n,) in the order of time.
        history: (m,) all that counts as an answer, oldest first (the newest ``HISTORY_MAX``).
        pod_uid: UID of the pod that the answer is about; None when the target is not a pod or
            container, or no record names one.
        namesakes: other pods of that name, which the answer leaves out, oldest first.
        counts: of a node, what happened on it in all, as an import counts it; empty where nothing
            went wrong, and for any other target.
        worst: of a node, what befell its pods, and lines that nothing else tells, worst first;
            without what the headline holds.
        span_ns: of a node, the times of the first and last record that the answer goes by.
        is_quiet: of a node, that nothing befell it that is recorded, or little.
        was_stopped: of a node, that its kubelet was told to stop, or began anew.
    """

    target: str
    node: str
    headline: str
    steps: tuple[StoryStep, ...]
    sentence: str
    evidence: tuple[Piece, ...]
    history: tuple[Step, ...]
    pod_uid: str | None = None
    namesakes: tuple[Namesake, ...] = ()
    counts: str = ""
    worst: tuple[str, ...] = ()
    span_ns: tuple[int, int] = (0, 0)
    is_quiet: bool = False
    was_stopped: bool = False


class Explanation(Answer, frozen=True, kw_only=True):
    """Why something is as it is: an answer that one decision explains.

    Attributes:
        finding: the decision that explains it, decided again.
        ranking: of an eviction, a line for each candidate: what it was ranked by, the first to
            go first.
    """

    finding: Finding
    ranking: tuple[str, ...] = ()


# Which pod a target means, where several had its name one after the other.


class Scope(NamedTuple):
    """The pod that is meant.

    Attributes:
        pod_uid: its UID; None when no record names one, or the target is no pod or container.
        lives: UID -> what is known of each pod of that name, the first to be told of first.
    """

    pod_uid: str | None = None
    lives: dict[str, Life] = {}  # never changed

    @property
    def namesakes(self) -> tuple[Namesake, ...]:
        """The other pods of that name, oldest first."""
        others = ((uid, life) for uid, life in self.lives.items() if uid != self.pod_uid)
        return tuple(
            Namesake(pod_uid=uid, first_ts_ns=life.first_ns, last_ts_ns=life.last_ns)
            for uid, life in others
        )

    def had_name(self, seqs: Sequence[int]) -> Iterator[int]:
        """Of some records those of which the pod had the name when they were written."""
        if self.pod_uid is None or len(self.lives) <= 1:
            yield from seqs
            return
        edges = sorted(life.first_seq for life in self.lives.values())
        holders = [self._holder(seq) for seq in (0, *edges)]
        yield from (seq for seq in seqs if holders[bisect(edges, seq)] == self.pod_uid)

    def holds(self, record: Record, pod: tuple[str, ...]) -> bool:
        """Whether a record of the name is about the pod that is meant.

        One that names no UID is about the pod that had the name then.
        """
        if self.pod_uid is None or len(self.lives) <= 1:
            return True
        uid = _uid_in(record, pod)
        return (self._holder(record.seq) if uid is None else uid) == self.pod_uid

    def _holder(self, seq: int) -> str:
        begun = [uid for uid, life in self.lives.items() if life.first_seq <= seq]
        return (begun or list(self.lives))[-1]


def _uid_in(record: Record, pod: tuple[str, ...]) -> str | None:
    """UID that the record gives to the pod of this name."""
    body: Any = record.body
    found = list(pods_in(body))
    for named in found:
        if named.pod == pod:
            return named.uid
    return None if found else uid_of(body)
