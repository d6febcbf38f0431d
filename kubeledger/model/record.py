"""The event-sourced state machine: records, and the two kinds of facts they carry.

    Observation --decide(state, observation, profile)--> Decision --evolve--> state'

An *observation* is what the kubelet read from the world; a *decision* is what it
did, a refusal included. Both are bodies of a :class:`Record`, the one line format.
Bodies are plain immutable values: this module and every body module do no I/O and
know no clock.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

Role = Literal["observation", "decision"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an imported fact is in its source.

    Attributes:
        file: path of the source, relative to the bundle it was imported from.
        line: 1-based line; None when the fact is the whole file.
        offset: byte offset of that line in the decompressed source, after a byte order mark; None
            as above.
        text: the line itself, without its newline, cut at 4096 characters;
            None when the source is a whole file.
    """

    file: str
    line: int | None = None
    offset: int | None = None
    text: str | None = None

    @property
    def place(self) -> str:
        """``file:line``, or the file alone."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a record says. A released ``(kind, v)`` never changes its meaning.

    As of it, all bodies are frozen, and refuse fields that they do not know.

    Attributes:
        kind: ``subsystem.Name``, a literal on disk, never a Python path.
        v: schema version of this kind, from 1.
        role: observation or decision.
    """

    kind: ClassVar[str]
    v: ClassVar[int] = 1
    role: ClassVar[Role]


class Observation(Body, frozen=True, kw_only=True):
    """What the kubelet read from the world."""

    role: ClassVar[Role] = "observation"


class Decision(Body, frozen=True, kw_only=True):
    """What the kubelet did, refusals included."""

    role: ClassVar[Role] = "decision"


class OfPod(Body, frozen=True, kw_only=True):
    """About one pod; its UID is None where neither the source nor another one has it."""

    namespace: str
    pod: str
    pod_uid: str | None


class OfSomePod(Body, frozen=True, kw_only=True):
    """About one pod, of which a source may leave out anything."""

    namespace: str | None
    pod: str | None
    pod_uid: str | None


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a ledger: an envelope around a body.

    Attributes:
        node: name of the node the fact is about.
        seq: per node, gapless from 1.
        ts_ns: when, in nanoseconds since the Unix epoch, UTC.
        role: observation or decision (the body's).
        kind: the body's kind.
        v: the body's schema version.
        cause: seq of the record that led to this one, or None.
        evidence: (n,) where the fact stands; empty for facts made by kubeledger.
        body: the fact.
    """

    node: str
    seq: int
    ts_ns: int
    role: Role
    kind: str
    v: int
    cause: int | None
    evidence: tuple[Evidence, ...]
    body: Body
