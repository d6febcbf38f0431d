"""``kubeledger diff``: what two histories, or two instants, do not share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.analyze.clock import parse_time
from kubeledger.cli.options import ledger_option, node_option, option, output_option, reports_errors
from kubeledger.cli.output import printable, write_document, write_objects
from kubeledger.model.errors import BadQuestionError, RecordsDroppedError
from kubeledger.model.units import format_ts, whole_number

if TYPE_CHECKING:
    import msgspec

    from kubeledger.analyze.diff import Difference
    from kubeledger.analyze.histories.history import History
    from kubeledger.replay.node.state import NodeState

_DIFFERENCE = 1
"""Exit code: there is a difference."""


@click.command(epilog="Example: kubeledger diff before/ after/ -o json")
@click.argument("a")
@click.argument("b")
@ledger_option
@node_option
@option("--exact", "Compare UIDs, container IDs and times of decisions, too.")
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def diff(a: str, b: str, ledger: Path, node: str | None, exact: bool, output: str) -> None:
    """Compare the decisions of two histories, or the node's state at two instants.

    A and B are ledgers, *.ledger.jsonl files, or a node's files. The n-th decision of a kind
    about a subject is compared with the n-th on the other side, and so are the stages in which
    pods were stuck, the node's conditions and its troubles; names replace UIDs and container
    IDs. With @TIME or @SEQ after both (node-a/@+5m node-a/@03:17), or alone for the ledger
    (@+5m @03:17), the states then are compared. Exits with 1 when there is a difference.
    """
    from kubeledger.cli.files import warn_of_losses_in
    from kubeledger.cli.progress import progress, watched

    (source_a, at_a), (source_b, at_b) = _split(a, ledger), _split(b, ledger)
    if (at_a is None) != (at_b is None):
        raise BadQuestionError(
            "one side has an instant, the other has none",
            advice="put @TIME or @SEQ after both to compare states, or after none",
        )
    with (
        progress("reading both") as bar,
        _history(source_a, node) as a_alone,
        _history(source_b, node) as b_alone,
    ):
        one, two = watched((a_alone, b_alone), bar, {})
        warn_of_losses_in((one, two))
        if at_a is not None and at_b is not None:
            found = _states(_state(one, at_a), _state(two, at_b), output)
        else:
            found = _decisions(one, two, exact, output)
    if found:
        sys.exit(_DIFFERENCE)


def _split(side: str, ledger: Path) -> tuple[str, str | None]:
    """A source, else the ledger, and an instant; a path that is there may hold an ``@``."""
    if Path(side).exists() or "@" not in side:
        return side, None
    source, _, at = side.rpartition("@")
    return source or str(ledger), at


@contextmanager
def _history(source: str, node: str | None) -> Iterator[History]:
    """The only history of a source."""
    from kubeledger.analyze.histories.sources import open_histories

    with open_histories([source], node=node) as histories:
        if len(histories) != 1:
            names = ", ".join(history.node for history in histories)
            nothing = "holds no records" if node is None else f"holds no node {node!r}"
            held = f"holds {len(histories)} nodes: {names}" if names else nothing
            advice = "name one node with --node" if names else ""
            raise BadQuestionError(f"{source} {held}", advice=advice)
        yield histories[0]


def _state(history: History, at: str) -> NodeState:
    from itertools import takewhile

    from kubeledger.replay import fold

    state = history.begin()
    seq = whole_number(at)
    if seq is None:
        ts_ns = parse_time(at, history.span)
        if state.latest_ts_ns is not None and ts_ns < state.latest_ts_ns:
            raise RecordsDroppedError(
                f"{history.label}: the records of {history.node} at {at} were dropped",
                advice=f"ask for {format_ts(state.latest_ts_ns)} or later",
            )
        return fold(takewhile(lambda record: record.ts_ns <= ts_ns, history.read(None)), state)
    if 0 < seq < state.seq:
        raise RecordsDroppedError(
            f"{history.label}: record {seq} of {history.node} was dropped",
            advice=f"ask for record {state.seq} or later",
        )
    if 0 < seq == state.seq:
        return state
    for record in history.read(None):
        fold((record,), state)
        if record.seq == seq:
            return state
    raise BadQuestionError(f"{history.label} has no record {seq} of {history.node}")


def _decisions(a: History, b: History, exact: bool, output: str) -> bool:
    from kubeledger.analyze.diff import Difference, diff_decisions

    found = diff_decisions(a, b, exact=exact)
    if output != "table":
        _print_all(found, Difference, output)
        return bool(found)
    if not found:
        click.echo("the same decisions")
        return False
    click.secho("first difference:", bold=True)
    for number, difference in enumerate(found):
        if number == 1:
            click.secho(f"\nall {len(found)} differences, with the first:", bold=True)
            click.echo("\n".join(_words(found[0])))
        click.echo("\n".join(_words(difference)))
    return True


def _words(difference: Difference) -> Iterator[str]:
    what = {"only_in_a": "only in A", "only_in_b": "only in B", "differs": "differs"}
    number = f" (number {difference.occurrence})" if difference.occurrence > 1 else ""
    about = f" {difference.subject}" if difference.subject else ""
    head = f"{difference.kind}{about}{number}: {what[difference.what]}"
    yield printable(head)
    for side, place in (("A", difference.a), ("B", difference.b)):
        if place is not None:
            line = "" if place.line is None else f":{place.line}"
            at = f" {place.file}{line}" if place.file else ""
            yield f"  {side}: record {place.seq} at {format_ts(place.ts_ns)}{printable(at)}"
    if difference.what == "differs":
        for name, (in_a, in_b) in difference.fields.items():
            yield f"  {name}: {_shown(in_a)} -> {_shown(in_b)}"


def _states(a: NodeState, b: NodeState, output: str) -> bool:
    from kubeledger.analyze.diff import StateDifference, diff_states

    found = diff_states(a, b)
    if output != "table":
        _print_all(found, StateDifference, output)
        return bool(found)
    for difference in found:
        sides = f"{_shown(difference.a)} -> {_shown(difference.b)}"
        click.echo(f"{printable(difference.path)}: {sides}")
    if not found:
        click.echo("the same state")
    return bool(found)


def _shown(value: object) -> str:
    import msgspec

    return printable(msgspec.json.encode(value).decode())


def _print_all(found: Sequence[msgspec.Struct], kind: type[msgspec.Struct], output: str) -> None:
    """Differences as one document, or a line each."""
    import msgspec

    if output == "json":
        write_document({"differences": found}, order="deterministic")
        return
    write_objects(map(msgspec.to_builtins, found), kind.__struct_fields__, output)
