"""``kubeledger why``: one sentence, then the numbered evidence behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import (
    ledger_option,
    node_option,
    output_option,
    parse_time,
    reports_errors,
    time_option,
)

if TYPE_CHECKING:
    from kubeledger.explain import Answer, Piece
    from kubeledger.verify import Finding

__all__ = ["why"]


@click.command(epilog="Example: kubeledger why pod/default/web-0")
@click.argument("target")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@time_option("--at", "As of then", default="Default: the end.")
@output_option("table", "json")
@reports_errors
def why(
    target: str,
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    at: str | None,
    output: str,
) -> None:
    """Say why something is as it is, in one sentence with its evidence.

    TARGET is pod/NS/NAME, container/NS/POD/C, image/ID, device/RESOURCE/ID, cgroup/PATH, node
    or node/NAME. The decision that explains it is decided again from what the kubelet knew
    then. The answer is one sentence, then the evidence (file, line, text) and the decision's
    inputs. Of a node it is how its kubelet's processes ended, and what befell the node.
    """
    import msgspec

    from kubeledger.cli.verify import histories_for
    from kubeledger.explain import explain, explain_node, parse_target
    from kubeledger.explain.why import no_such_target
    from kubeledger.replay.histories import span_of_histories

    asked = parse_target(target)
    with histories_for(sources, ledger, node) as histories:
        upto_ts_ns = None if at is None else parse_time(at, partial(span_of_histories, histories))
        ask = explain_node if asked.kind == "node" else explain
        answers = [ask(history, asked, upto_ts_ns=upto_ts_ns) for history in histories]
        found = [answer for answer in answers if answer is not None]
        if not found:
            raise no_such_target(asked, histories)
    if output == "json":
        document = msgspec.to_builtins(found[0] if len(histories) == 1 else found)
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2))
        sys.stdout.buffer.write(b"\n")
        return
    for answer in found:
        click.echo("\n".join(_text(answer)))


_RANKING_MAX = 12


def _text(answer: Answer) -> Iterator[str]:
    from kubeledger.cli.output import printable
    from kubeledger.explain import Explanation
    from kubeledger.units import format_ts

    yield printable(answer.sentence)
    if isinstance(answer, Explanation) and answer.ranking:
        yield ""
        yield f"Ranking of {len(answer.ranking)} pods, the first to go first:"
        for place, line in enumerate(answer.ranking[:_RANKING_MAX], start=1):
            yield f"  {place}. {printable(line)}"
    yield ""
    yield f"Evidence on {printable(answer.node)}:"
    for piece in answer.evidence:
        yield from _piece(piece)
    if isinstance(answer, Explanation):
        yield ""
        yield from _finding(answer.finding)
    if len(answer.history) > 1 and isinstance(answer, Explanation):
        yield ""
        yield f"All {len(answer.history)} decisions about {printable(answer.target)}:"
        for step in answer.history:
            words = f"{format_ts(step.ts_ns)}  {step.kind}: {step.summary} [{step.verdict}]"
            yield f"  {step.seq:>7}  {printable(words)}"


def _finding(finding: Finding) -> Iterator[str]:
    import msgspec

    from kubeledger.cli.output import printable
    from kubeledger.units import format_ts

    yield f"Decision: record {finding.seq}, {finding.kind} at {format_ts(finding.ts_ns)}"
    yield f"Verdict:  {finding.verdict}"
    if finding.rule:
        yield f"Rule:     {printable(finding.rule)}"
    for title, fields in (("Expected", finding.expected), ("Recorded", finding.recorded)):
        if fields is not None:
            yield f"{title}: {printable(msgspec.json.encode(fields).decode())}"


def _piece(piece: Piece) -> Iterator[str]:
    from kubeledger.cli.output import printable
    from kubeledger.units import format_ts

    inferred = " (inferred)" if piece.inferred else ""
    words = f"{format_ts(piece.ts_ns)}  {piece.subject}: {piece.summary}".replace("  : ", "  ")
    yield f"  {piece.number}. {printable(words)}{inferred}"
    if piece.file is not None:
        place = piece.file if piece.line is None else f"{piece.file}:{piece.line}"
        text = "" if piece.text is None else f"  {printable(piece.text[:300])}"
        yield f"     {printable(place)}{text}"
