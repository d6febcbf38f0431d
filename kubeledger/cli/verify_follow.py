"""``kubeledger verify --follow``: what is wrong, said while the ledger grows."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from kubeledger.analyze.histories.watching import News, Watch
from kubeledger.cli.output import printable
from kubeledger.cli.service import served, until_stopped
from kubeledger.cli.verify_output import encode, outcome_line
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_ts
from kubeledger.record.metrics import FINDINGS, READY
from kubeledger.verify import Contradiction

_LOOK_S = 0.5
_SHARE = 10
"""Looking takes at most one part of so many of a processor's time, however busy that is."""
_TURN_S = 60.0
"""A pause may be longer; the loop is said to turn so often (``Metrics.loop_turned``)."""


def follow_verdicts(
    directory: Path, node: str | None, settle_s: float, output: str, metrics_address: str | None
) -> int:
    """Print what is wrong, until a signal comes.

    Returns:
        how many impossible and missed decisions stand.

    Raises:
        BadQuestionError: the form of the output has an end, or nothing can listen there.
    """
    if output not in ("table", "wide", "jsonl"):
        raise BadQuestionError(f"-o {output} has an end", advice="follow with -o jsonl")
    watch = Watch(Ledger.open(directory), node, settle_s)
    with served(metrics_address) as metrics, until_stopped() as waits:
        while True:
            begun_s = time.process_time()
            for news in watch.look(time.monotonic()):
                _print(news, output)
            sys.stdout.flush()
            for what, count in watch.stands.items():
                metrics.set(FINDINGS, count, what)
            metrics.set(READY, 1)
            left_s = max(_LOOK_S, (time.process_time() - begun_s) * (_SHARE - 1))
            while left_s > 0:
                metrics.loop_turned()
                if not waits(min(left_s, _TURN_S)):
                    return sum(watch.stands[what] for what in ("impossible", "missed", "violation"))
                left_s -= _TURN_S


def _print(news: News, output: str) -> None:
    node, outcome, withdrawn = news
    if output == "jsonl":
        line = {**outcome_line(node, outcome), "withdrawn": withdrawn}
        sys.stdout.buffer.write(encode(line) + b"\n")
        sys.stdout.buffer.flush()
        return
    if isinstance(outcome, Contradiction):
        subject, place = outcome.subject, ""
    else:
        subject, place = f"{outcome.kind} {outcome.subject}", f"{outcome.place} ({outcome.seq})"
    color = None if withdrawn else "yellow" if isinstance(outcome, Contradiction) else "red"
    what = f"withdrawn: {news.what}" if withdrawn else news.what
    head = f"{format_ts(outcome.ts_ns)} {node} {what}: {subject}"
    click.secho(printable(head), fg=color)
    if not withdrawn:
        click.echo(f"  {printable(outcome.why)}")
        if place:
            click.echo(f"  {printable(place)}")
