"""What the judges of this subject share: who a record is about, and findings that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.state import PodState
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.lives.specs import SpecBook

__all__ = [
    "About",
    "Causes",
    "Held",
    "Holding",
    "at",
    "compared",
    "corrected",
    "key_for",
    "pod_state",
    "seconds",
    "subject_of",
]


B = TypeVar("B", bound=msgspec.Struct)

_NAMES = tuple(
    (name, name)
    for name in ("namespace", "pod", "pod_uid", "container", "container_id", "probe_type")
)
_VICTIM = (("victim_namespace", "namespace"), ("victim_pod", "pod"), ("victim_uid", "pod_uid"))
_CAUSES_MAX = 512


class About(Protocol):
    """Bodies about one container."""

    @property
    def namespace(self) -> str:
        """Of the pod."""

    @property
    def pod(self) -> str:
        """Name of the pod."""

    @property
    def pod_uid(self) -> str | None:
        """None when no source tells."""

    @property
    def container(self) -> str | None:
        """Its name."""


class OfPod(Protocol):
    """Bodies about one pod."""

    @property
    def namespace(self) -> str:
        """Of the pod."""

    @property
    def pod(self) -> str:
        """Name of the pod."""

    @property
    def pod_uid(self) -> str | None:
        """None when no source tells."""


def key_for(state: NodeState, body: OfPod) -> str:
    """Under which the judges keep the pod: as the node's state does."""
    found = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
    return found or pod_key(body.pod_uid, body.namespace, body.pod) or ""


def pod_state(state: NodeState, key: str) -> PodState | None:
    """The pod, if it is on the node."""
    return state.lifecycle.pods.get(key)


def at(ts_ns: int) -> str:
    """An instant for people."""
    return format_ts(ts_ns)


def seconds(nanoseconds: int) -> str:
    """A span for people."""
    return f"{nanoseconds / NS_PER_S:.1f} s"


def subject_of(body: About) -> str:
    """As ``why`` takes it."""
    if body.container is None:
        return f"pod/{body.namespace}/{body.pod}"
    return f"container/{body.namespace}/{body.pod}/{body.container}"


class Causes:
    """Who the newest records that may lead to a decision were about."""

    def __init__(self, book: SpecBook) -> None:
        self._book = book
        self._bodies: dict[int, tuple[object, frozenset[str]]] = {}

    def note(self, seq: int, body: object, *, but: frozenset[str] = frozenset()) -> None:
        """Take one down; ``but``: fields in which what follows is different."""
        self._bodies[seq] = (body, but)
        if len(self._bodies) > _CAUSES_MAX:
            del self._bodies[next(iter(self._bodies))]

    def _names(self, seq: int | None) -> Fields:
        """Who the record was about, as far as it told."""
        body, but = self._bodies.get(seq or 0, (None, frozenset()))
        names = _VICTIM if isinstance(body, PodPreempted) else _NAMES
        fields = {field: getattr(body, name, None) for name, field in names if field not in but}
        return {field: value for field, value in fields.items() if value is not None}

    def wrong(self, record: Record, body: Any) -> Fields | None:  # noqa: ANN401 # any body
        """Names that the record has wrong -> what they must be; None when none are.

        They are those of what led to it; where both tell the same UID, those of its pod, for
        what led to it may be what has the name wrong.
        """
        expected = self._names(record.cause)
        uid = getattr(body, "pod_uid", None)
        if uid is not None and expected.get("pod_uid", uid) == uid:
            ask = self._book.find(uid, "", "")
            if ask is not None:
                expected |= {"namespace": ask.namespace, "pod": ask.name}
        wrong = {
            name: value
            for name, value in expected.items()
            if getattr(body, name, None) not in (None, value)
        }
        return wrong or None


def corrected(body: B, fields: Fields) -> B:
    """The body as it must have been, where that is known."""
    return msgspec.structs.replace(body, **fields)


def compared(body: object, expected: Fields) -> tuple[Fields, list[str]]:
    """The same fields of a body, and the names of those that differ."""
    recorded = {name: getattr(body, name) for name in expected}
    return recorded, [name for name in expected if recorded[name] != expected[name]]


class Held:
    """A finding that waits for what may still speak against it.

    Attributes:
        fields: arguments of :meth:`Bench.find`.
        owner: whose finding it is.
        ticks: seqs of the ticks that it rests on.
        open_from_ns: it is impossible only if no tick of its worker is missing from then on,
            which counts have to prove; None where nothing is to be proved.
        missing: what is missing to say so, if they do not.
    """

    __slots__ = ("due_ns", "fields", "missing", "open_from_ns", "owner", "record", "ticks")

    def __init__(
        self,
        record: Record,
        due_ns: int,
        fields: dict[str, Any],
        owner: object = None,
        ticks: tuple[int, ...] = (),
    ) -> None:
        self.record = record
        self.due_ns = due_ns
        self.fields = fields
        self.owner = owner
        self.ticks = ticks
        self.open_from_ns: int | None = None
        self.missing = ""

    def prove(self, from_ns: int, to_ns: int) -> None:
        """No tick of its worker is missing between these times."""
        if self.open_from_ns is not None and from_ns <= self.open_from_ns:
            self.open_from_ns = None if self.record.ts_ns <= to_ns else self.open_from_ns

    def settle(self) -> None:
        """What was not proved stays open."""
        if self.open_from_ns is None:
            return
        self.fields["verdict"], self.fields["expected"] = "unverifiable", None
        self.fields["missing"] = (self.missing,)
        self.fields["why"] = f"cannot be decided again without {self.missing}"

    @property
    def verdict(self) -> Verdict:
        """So far."""
        verdict: Verdict = self.fields["verdict"]
        return verdict

    def leave_open(self, missing: str, *inputs: int) -> None:
        """Something that would tell is missing."""
        self.open_from_ns, self.missing = self.record.ts_ns, missing
        self.fields["inputs"] = (*self.fields.get("inputs", ()), *inputs)

    def doom(self, why: str, *inputs: int) -> None:
        """Something speaks against it: it cannot have been."""
        self.open_from_ns = None
        self.fields["verdict"] = "impossible"
        self.fields["expected"] = None
        self.fields["why"] = why
        self.fields["missing"] = ()
        self.fields["inputs"] = (*self.fields.get("inputs", ()), *inputs)


class Holding:
    """All findings that wait; few at a time, because each waits for seconds."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._held: list[Held] = []
        self._next_ns: int | None = None
        self._due: list[Held] = []
        self._doubt: Callable[[], None] = lambda: None

    def hold(self, held: Held) -> None:
        """Take one in."""
        self._held.append(held)
        self._next_ns = held.due_ns if self._next_ns is None else min(self._next_ns, held.due_ns)

    def of(self, owner: object) -> list[Held]:
        """Those of one owner, oldest first."""
        return [held for held in self._held if held.owner is owner]

    def before_release(self, doubt: Callable[[], None]) -> None:
        """Have this called before findings are given out; it looks at :meth:`due`."""
        self._doubt = doubt

    def due(self) -> list[Held]:
        """Those that are given out now."""
        return self._due

    def release(self, now_ns: int | None) -> None:
        """Give out what is due; None: all."""
        if self._next_ns is None or (now_ns is not None and now_ns < self._next_ns):
            return
        waiting: list[Held] = []
        self._due = []
        for held in self._held:
            is_due = now_ns is None or held.due_ns <= now_ns
            (self._due if is_due else waiting).append(held)
        self._doubt()
        for held in self._due:
            held.settle()
            self._bench.find(held.record, **held.fields)
        self._held = waiting
        self._next_ns = min((held.due_ns for held in waiting), default=None)
