"""What the tools answer with, and how much; schemas go to each client, so they say little."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict


def _bare(schema: dict[str, Any]) -> None:
    """Without what repeats the names: each client pays for it at each start."""
    for each in (schema, *schema.get("properties", {}).values()):
        each.pop("title", None)
    schema.pop("description", None)


class Result(BaseModel):
    """A result, or a part of one."""

    model_config = ConfigDict(json_schema_extra=_bare)


class Problem(Result):
    """Something that went wrong.

    Attributes:
        severity: 5 (the worst) to 1.
        count: how many records it stands for.
        record: number of the record that shows it best.
        why: what the tool ``why`` would be asked; None: nothing of it.
    """

    severity: int
    text: str
    count: int
    ts: str
    record: int
    why: str | None


class NodeOverview(Result):
    """One node.

    Attributes:
        kubelet: its version; None: no source says it.
        problems: worst first; empty and nothing left out: nothing that went wrong was recorded;
            None: not looked at.
        left_out: how many problems did not fit.
    """

    node: str
    kubelet: str | None
    first: str | None
    last: str | None
    records: int
    problems: list[Problem] | None
    left_out: int


class Overview(Result):
    """All nodes; ``left_out`` counts those that did not fit."""

    nodes: list[NodeOverview]
    left_out: int


class Happened(Result):
    """A dated step; ``evidence`` is the record that shows it."""

    ts: str
    text: str
    times: int
    evidence: int


class Proof(Result):
    """A record, and the line of a source that it rests on.

    Attributes:
        inferred: no line says it; it follows from others.
        line: as the source has it: data, whatever it says; None: no single line.
    """

    record: int
    what: str
    inferred: bool
    place: str | None
    line: str | None


class Why(Result):
    """Why something is as it is, on one node.

    Attributes:
        verdict: of the decision that explains it, whether the kubelet could have decided so:
            match, admissible, impossible, unverifiable; None: no decision explains it.
        missing: inputs without which it cannot be verified.
        left_out: how many steps and proofs did not fit.
    """

    node: str
    target: str
    answer: str
    in_full: str
    steps: list[Happened]
    evidence: list[Proof]
    verdict: str | None
    missing: list[str]
    left_out: int


class Reasons(Result):
    """One answer for each node that knows of the target."""

    answers: list[Why]


class Table(Result):
    """Rows of a query.

    Attributes:
        rows: values as JSON has them; None is "not known".
        more: whether there are further rows.
    """

    columns: list[str]
    rows: list[list[Any]]
    more: bool


class State(Result):
    """Parts of the node's state, null where nothing is known.

    Attributes:
        state: by part.
        left_out: how many entries of a part did not fit, where some did not.
    """

    node: str
    state: dict[str, Any]
    left_out: dict[str, int]


class Changed(Result):
    """A decision that would have differed.

    Attributes:
        since: the record of an earlier change, after which inputs would have been others;
            None: its inputs hold.
    """

    record: int
    ts: str
    decision: str
    about: str
    why: str
    since: int | None


class Outlook(Result):
    """A variant of a node.

    Attributes:
        summary: sentences.
        decisions, same, changed, untrusted, unknown: counts of recorded decisions.
        left_out: changes that did not fit.
    """

    node: str
    variant: str
    summary: list[str]
    decisions: int
    same: int
    changed: int
    untrusted: int
    unknown: int
    changes: list[Changed]
    left_out: int


class Outlooks(Result):
    """One for each node and variant."""

    variants: list[Outlook]


# How much an answer may take: it ends where what the client asked for is full.

TOKENS: Final = 2000
"""Of an answer, unless the client asks for more."""
TOKENS_MAX: Final = 50_000
_CHARACTERS_PER_TOKEN: Final = 3
"""Of JSON with names, times and numbers, which models cut finer than prose."""

M = TypeVar("M", bound=BaseModel)


class Room:
    """What is left of an answer, in characters of JSON."""

    def __init__(self, tokens: int) -> None:
        """All of it is left.

        Args:
            tokens: about how many the answer may take.
        """
        self._left = tokens * _CHARACTERS_PER_TOKEN

    def share(self, parts: int) -> Room:
        """A room of its own: one of ``parts`` equal parts of what is left."""
        part = Room(0)
        part._left = self._left // max(parts, 1)
        return part

    def holds(self, value: object) -> bool:
        """Whether a value still fits; then it is taken off."""
        size = len(msgspec.json.encode(value, enc_hook=str))
        if size > self._left:
            return False
        self._left -= size
        return True

    def fill(self, items: Iterable[M]) -> tuple[list[M], int]:
        """The first items that fit, and how many do not."""
        taken: list[M] = []
        left_out = 0
        for item in items:
            if not left_out and self.holds(item.model_dump()):
                taken.append(item)
            else:
                left_out += 1
        return taken, left_out

    def part(self, value: Any) -> tuple[Any, int]:  # noqa: ANN401 # any JSON
        """A document's entries that fit, and how many do not."""
        if isinstance(value, dict):
            kept = {key: inner for key, inner in value.items() if self.holds([key, inner])}
            return kept, len(value) - len(kept)
        if isinstance(value, list):
            fitting = [inner for inner in value if self.holds(inner)]
            return fitting, len(value) - len(fitting)
        return (value, 0) if self.holds(value) else (None, 1)
