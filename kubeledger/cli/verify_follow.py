"""``kubeledger verify --follow``: what is wrong, said while the ledger grows."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from kubeledger.analyze.histories.watching import News, Watch
from kubeledger.cli.output import printable
from kubeledger.cli.stopping import until_stopped
from kubeledger.cli.verify_output import encode, outcome_line
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_ts
from kubeledger.verify import Contradiction

__all__ = ["follow_verdicts"]

_LOOK_S = 0.5
_SHARE = 10
"""Looking takes at most one part of so many of the time."""


def follow_verdicts(directory: Path, node: str | None, settle_s: float, output: str) -> int:
    """Print what is wrong, until a signal comes.

    Returns:
        how many impossible and missed decisions stand.

    Raises:
        BadQuestionError: the form of the output has an end.
    """
    if output not in ("table", "wide", "jsonl"):
        raise BadQuestionError(f"-o {output} has an end", advice="follow with -o jsonl")
    watch = Watch(Ledger.open(directory), node, settle_s)
    with until_stopped() as waits:
        while True:
            begun_s = time.monotonic()
            for news in watch.look(begun_s):
                _print(news, output)
            sys.stdout.flush()
            took_s = time.monotonic() - begun_s
            if not waits(max(_LOOK_S, took_s * (_SHARE - 1))):
                return watch.stands


def _print(news: News, output: str) -> None:
    node, outcome, withdrawn = news
    if output == "jsonl":
        line = {**outcome_line(node, outcome), "withdrawn": withdrawn}
        sys.stdout.buffer.write(encode(line) + b"\n")
        sys.stdout.buffer.flush()
        return
    if isinstance(outcome, Contradiction):
        what, subject, place = "contradiction", outcome.subject, ""
    else:
        missed = outcome.recorded is None
        what = "missed" if missed else outcome.verdict
        subject, place = f"{outcome.kind} {outcome.subject}", f"{outcome.place} ({outcome.seq})"
    color = None if withdrawn else "yellow" if isinstance(outcome, Contradiction) else "red"
    head = (
        f"{format_ts(outcome.ts_ns)} {node} {'withdrawn: ' if withdrawn else ''}{what}: {subject}"
    )
    click.secho(printable(head), fg=color)
    if not withdrawn:
        click.echo(f"  {printable(outcome.why)}")
        if place:
            click.echo(f"  {printable(place)}")
