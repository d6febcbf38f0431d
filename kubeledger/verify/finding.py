"""What verification says: a finding for each decision, and contradictions between sources."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Contradiction", "Fields", "Finding", "Outcome", "Side", "Verdict"]

Verdict = Literal["match", "admissible", "impossible", "unverifiable"]
"""``match``: what ``decide`` gives. ``admissible``: another of the kubelet's possible choices.
``impossible``: none of them. ``unverifiable``: an input is missing, which is named."""

Fields = dict[str, Any]
"""Field of a decision's body -> value, as plain JSON values; only what the rule determines."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, decided again.

    Attributes:
        seq: the decision's record. For a decision that was not taken but had to be: the
            observation that had to lead to it; then ``recorded`` is None.
        ts_ns: time of that record.
        kind: the decision's kind.
        subject: what it is about, as ``why`` takes it (``pod/NS/NAME``,
            ``container/NS/POD/C``, ``image/ID``, ``device/RESOURCE/ID``, ``cgroup/PATH``) or
            ``node``.
        verdict: see :data:`Verdict`.
        expected: what was decided again; None where the decision had not to be taken, or
            nothing can be said.
        recorded: the same fields of the record.
        missing: (n,) inputs that are missing, each as a noun phrase ("the pod's spec").
        why: one sentence that a kubelet developer accepts, for any verdict.
        rule: the kubelet's function that decides so.
        inputs: (n,) seqs of the records that the decision rests on, in order of use.
        file, line: first evidence of the decision's record; None without any.
        about: subject -> clause that says what the decision meant for it, where it meant
            something for others than ``subject`` (an image that a collection left: "is in
            use").
    """

    seq: int
    ts_ns: int
    kind: str
    subject: str
    verdict: Verdict
    expected: Fields | None = None
    recorded: Fields | None = None
    missing: tuple[str, ...] = ()
    why: str = ""
    rule: str = ""
    inputs: tuple[int, ...] = ()
    file: str | None = None
    line: int | None = None
    about: dict[str, str] = {}

    @property
    def place(self) -> str:
        """``file:line`` of the decision, or ``record SEQ`` for one without evidence."""
        if self.file is None:
            return f"record {self.seq}"
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says.

    Attributes:
        seq: its record.
        says: in words.
    """

    seq: int
    says: str


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Two sources disagree about one fact; verification takes no side silently.

    Attributes:
        ts_ns: time of the later record.
        subject: as in :class:`Finding`.
        why: one sentence.
        sides: (2 or more,) what each says.
    """

    ts_ns: int
    subject: str
    why: str
    sides: tuple[Side, ...]


Outcome = Finding | Contradiction
