"""What verification says: a finding for each decision, and contradictions between sources."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Verdict = Literal["match", "admissible", "impossible", "unverifiable"]
"""``match``: what ``decide`` gives. ``admissible``: another of the kubelet's possible choices.
``impossible``: none of them. ``unverifiable``: an input is missing, which is named."""

WORKED_OUT: Final = "a line that says so: the import worked it out of what would judge it"
"""What is missing where a verdict would rest on its own conclusion."""

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
        inferred: an import worked the decision out, and no line says it: such a finding is counted
            apart, and proves nothing. An impossible admission counts all the same: that the pod
            was synced shows it.
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
    inferred: bool = False

    @property
    def is_sound(self) -> bool:
        """The kubelet decided so, or what would judge it gave it in the first place."""
        return self.verdict in {"match", "admissible"} or self.missing == (WORKED_OUT,)

    @property
    def is_wrong(self) -> bool:
        """The kubelet did what it could not have done; what an import inferred it did not do."""
        return self.verdict == "impossible" and not self.inferred

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


class Violation(Contradiction, frozen=True, kw_only=True):
    """What can never be, whatever was decided; a side is a record that shows it, one at least.

    Attributes:
        invariant: which, see :mod:`kubeledger.replay.episodes.safety`.
        bugs: (n,) known bugs of that kubelet that do so (``kubernetes#137534``).
    """

    invariant: str
    bugs: tuple[str, ...] = ()


Outcome = Finding | Contradiction
