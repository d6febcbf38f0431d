"""What the tools do: one method each, from a question to a typed answer of bounded length."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any

from kubeledger.analyze.headlines import Incident, incidents
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.problems.told import told_by
from kubeledger.analyze.whatif import Change, answer, variants_of
from kubeledger.analyze.why import Answer, Explanation, Piece, StoryStep
from kubeledger.api.opened import OpenLedger
from kubeledger.cli.output import json_value, printable
from kubeledger.cli.service import bounded
from kubeledger.mcp import results
from kubeledger.mcp.results import Room
from kubeledger.mcp.sources import Source
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_ts
from kubeledger.replay.node.state import PARTS, document

ROWS_MAX = 1000
_LINE_MAX = 400
_TARGET_KINDS = frozenset({"pod", "container", "image", "device", "cgroup", "node"})


class Tools:
    """Answers from one source."""

    def __init__(self, source: Source, memory_bytes: int) -> None:
        """Nothing is asked yet.

        Args:
            memory_bytes: what a query may take.
        """
        self._source = source
        self._memory_bytes = memory_bytes

    def overview(self, node: str | None, room: Room) -> results.Overview:
        """Nodes, and what went wrong on each, worst first; of a lake where one is named.

        Raises:
            KubeledgerError: no such node, or its records cannot be read.
        """
        names = [self._name(node)] if node else self._source.nodes()
        nodes, left_out = room.fill(map(self._known, names))
        if node or self._source.is_here:
            for each in nodes:
                wrong = [one for one in self._wrong(each.node) if one.severity]
                part = room.share(len(nodes))
                each.problems, each.left_out = part.fill(map(_problem, wrong))
        return results.Overview(nodes=nodes, left_out=left_out)

    def _known(self, node: str) -> results.NodeOverview:
        version, span, records = self._source.known(node)
        return results.NodeOverview(
            node=node,
            kubelet=version,
            first=format_ts(span[0]) if span else None,
            last=format_ts(span[1]) if span else None,
            records=records,
            problems=None,
            left_out=0,
        )

    def _wrong(self, node: str) -> list[Incident]:
        opened = self._source.opened(node)
        (history,) = histories_of_ledger(opened.ledger, _own(opened, node))
        return [each for each in incidents(told_by(history)) if each.kind != "harmless"]

    def why(self, target: str, at: str | None, node: str | None, room: Room) -> results.Reasons:
        """Why something is as it is, or how it fared.

        A target is taken as it is shown, and by its real name where pseudonyms are shown.

        Raises:
            KubeledgerError: nothing is known of it, or no such time or node.
        """
        names = [self._name(node)] if node else self._source.nodes()
        answers: list[Answer] = []
        refusal: BadQuestionError | None = None
        for name in names:
            try:
                answers += self._answers(target, at, name)
            except BadQuestionError as error:
                refusal = error
        if not answers and refusal is not None:
            raise refusal
        each = room.share(len(answers))
        return results.Reasons(answers=[_why(answer, each.share(1)) for answer in answers])

    def _answers(self, target: str, at: str | None, node: str) -> tuple[Answer, ...]:
        opened = self._source.opened(node)
        own = _own(opened, node)
        asked = list(dict.fromkeys((target, self._shown_target(target))))
        for words in asked[:-1]:
            try:
                return opened.why(words, at=at, node=own).answers
            except BadQuestionError:
                continue
        return opened.why(asked[-1], at=at, node=own).answers

    def _shown_target(self, target: str) -> str:
        parts = target.split("/")
        at = int(len(parts) > 1 and parts[0] in _TARGET_KINDS)
        if target == "node" or parts[0] in {"image", "device", "cgroup"}:
            return target
        return "/".join([*parts[:at], *map(self._source.shown, parts[at:])])

    def sql(self, query: str, node: str | None, limit: int, room: Room) -> results.Table:
        """Rows of one read-only query.

        Raises:
            KubeledgerError: no single reading query, one that DuckDB refuses, or of a lake
                no node.
        """
        if node is None:
            names = self._source.nodes()
            first = self._source.opened(names[0])
            if len(names) > len(first.nodes):
                raise BadQuestionError("which node?", advice="give the argument node")
            opened = first
        else:
            opened = self._source.opened(self._name(node))
        with bounded(self._memory_bytes):
            rows = opened.sql(query)
            read = [[_cell(value) for value in row] for row in islice(rows, limit + 1)]
        shown = list(takewhile(room.holds, read[:limit]))
        return results.Table(
            columns=list(map(printable, rows.columns)), rows=shown, more=len(shown) < len(read)
        )

    def state(
        self, node: str | None, at: str | None, parts: list[str] | None, room: Room
    ) -> results.State:
        """Parts of a node's state at an instant.

        Raises:
            KubeledgerError: no such node, time or part, or several nodes and none named.
        """
        name = self._name(node) if node else self._only()
        if unknown := [part for part in parts or () if part not in PARTS]:
            raise BadQuestionError(
                f"no such part of the state: {', '.join(unknown)}",
                advice=f"the parts are {', '.join(PARTS)}",
            )
        opened = self._source.opened(name)
        whole = document(opened.state(at, node=_own(opened, name)))
        chosen = {part: whole[part] for part in parts or PARTS if part in whole}
        kept = {part: room.share(len(chosen)).part(_texts(value)) for part, value in chosen.items()}
        return results.State(
            node=name,
            state={part: value for part, (value, _) in kept.items()},
            left_out={part: count for part, (_, count) in kept.items() if count},
        )

    def whatif(
        self, settings: list[str], kubelet_version: str | None, node: str | None, room: Room
    ) -> results.Outlooks:
        """What would have been decided otherwise.

        Raises:
            KubeledgerError: nothing is changed, no such setting, value, version or node.
        """
        from kubeledger.analyze.histories.history import histories_of_ledger

        name = self._name(node) if node else self._only()
        opened = self._source.opened(name)
        (history,) = histories_of_ledger(opened.ledger, _own(opened, name))
        versions = () if kubelet_version is None else (kubelet_version,)
        variants = variants_of(history, tuple(settings), versions)
        made = []
        for variant in variants:
            found = answer(history, variant)
            changes, left_out = room.share(len(variants)).fill(map(_changed, found.changes))
            counts = {
                each: getattr(found.result, each)
                for each in ("decisions", "same", "changed", "untrusted", "unknown")
            }
            made.append(
                results.Outlook(
                    node=name,
                    variant=printable(found.result.variant),
                    summary=[printable(each) for each in found.summary],
                    changes=changes,
                    left_out=left_out,
                    **counts,
                )
            )
        return results.Outlooks(variants=made)

    def _name(self, node: str) -> str:
        """A node as it is shown, by that name or its real one."""
        nodes = self._source.nodes()
        return node if node in nodes else self._source.shown(node)

    def _only(self) -> str:
        nodes = self._source.nodes()
        if len(nodes) != 1:
            raise BadQuestionError("which node?", advice="overview names them; give node")
        return nodes[0]


def _own(opened: OpenLedger, node: str) -> str:
    """The node's name in its ledger: a lake may know it by a longer one."""
    return node if node in opened.nodes else opened.nodes[0]


def _problem(each: Incident) -> results.Problem:
    return results.Problem(
        severity=each.severity,
        text=_line(each.text),
        count=each.count,
        ts=format_ts(each.ts_ns),
        record=each.seq,
        why=each.target,
    )


def _why(answer: Answer, room: Room) -> results.Why:
    finding = answer.finding if isinstance(answer, Explanation) else None
    headline, in_full = printable(answer.headline), _line(answer.sentence, 4 * _LINE_MAX)
    room.holds([headline, in_full])
    heavy = sorted(answer.steps, key=lambda step: (-step.weight, step.ts_ns))
    steps, steps_left = room.share(2).fill(map(_happened, heavy))
    wanted = {step.evidence for step in steps}
    pieces = sorted(answer.evidence, key=lambda piece: (piece.seq not in wanted, piece.number))
    proofs, proofs_left = room.share(2).fill(map(_proof, pieces))
    return results.Why(
        node=answer.node,
        target=answer.target,
        answer=headline,
        in_full=in_full,
        steps=sorted(steps, key=lambda step: step.ts),
        evidence=sorted(proofs, key=lambda proof: proof.record),
        verdict=None if finding is None else finding.verdict,
        missing=[] if finding is None else list(finding.missing),
        left_out=steps_left + proofs_left,
    )


def _happened(step: StoryStep) -> results.Happened:
    return results.Happened(
        ts=format_ts(step.ts_ns), text=_line(step.text), times=step.count, evidence=step.seq
    )


def _proof(piece: Piece) -> results.Proof:
    return results.Proof(
        record=piece.seq,
        what=_line(f"{piece.subject} {piece.summary}".strip()),
        inferred=piece.inferred,
        place=None if piece.file is None else printable(piece.place),
        line=None if piece.text is None else _line(piece.text),
    )


def _changed(change: Change) -> results.Changed:
    return results.Changed(
        record=change.seq,
        ts=format_ts(change.ts_ns),
        decision=change.kind,
        about=printable(change.subject),
        why=_line(change.why),
        since=change.untrusted_since,
    )


def _line(text: str, most: int = _LINE_MAX) -> str:
    """A text on one line, without anything that a terminal would act upon."""
    clean = printable(text)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def _cell(value: object) -> object:
    plain = json_value(value)
    return _line(plain, 5 * _LINE_MAX) if isinstance(plain, str) else _texts(plain)


def _texts(value: Any) -> Any:  # noqa: ANN401 # any JSON
    """The same document, each text as :func:`_line` has it."""
    if isinstance(value, str):
        return _line(value)
    if isinstance(value, dict):
        return {_line(str(key)): _texts(inner) for key, inner in value.items()}
    return [_texts(inner) for inner in value] if isinstance(value, list) else value
