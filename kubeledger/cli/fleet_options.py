"""What the commands of a fleet share: options, and how a run shows how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubeledger.cli.options import Seconds
from kubeledger.cli.output import counted

if TYPE_CHECKING:
    from kubeledger.fleet.types import Failure

__all__ = ["engine_options", "known_lake_option", "lake_option", "watched_results"]

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")

_LINE_S = 30.0
"""Where no terminal shows a bar, a line each half minute shows progress; the first is sooner."""

_FIRST_LINE_S = 5.0


def lake_option(function: _F) -> _F:
    """``--lake URL``, passed as ``lake: str``."""
    return _lake(required=True)(function)


def known_lake_option(function: _F) -> _F:
    """``--lake URL``, passed as ``lake: str | None``, for commands that can do without."""
    return _lake(required=False)(function)


def _lake(*, required: bool) -> Callable[[_F], _F]:
    return click.option(
        "--lake",
        envvar="KUBELEDGER_LAKE",
        required=required,
        metavar="URL",
        help="The lake: a directory, s3://BUCKET/PREFIX, gs:// or az://."
        "  [default: $KUBELEDGER_LAKE]",
    )


def engine_options(function: _F) -> _F:
    """``--engine --address --workers --attempts --timeout``, passed by these names."""
    for option in reversed(
        (
            click.option(
                "--engine",
                default="local",
                show_default=True,
                metavar="local|ray|ray=ADDRESS",
                help="Where the work is done: by processes of this machine, or on Ray.",
            ),
            click.option("--address", metavar="ADDRESS", help="Of a Ray cluster to join."),
            click.option(
                "--workers",
                type=click.IntRange(min=1),
                metavar="N",
                help="Nodes at once.  [default: one a processor]",
            ),
            click.option(
                "--attempts",
                type=click.IntRange(min=1),
                default=3,
                show_default=True,
                metavar="N",
                help="For a node whose worker dies, whose storage fails, or that lacks memory.",
            ),
            click.option(
                "--timeout",
                "timeout_s",
                type=Seconds(min=0, min_open=True),
                default=3600.0,
                show_default="3600",
                metavar="SECONDS",
                help="Longest time for a node.",
            ),
        )
    ):
        function = option(function)
    return function


def watched_results(
    results: Iterable[_R],
    words: str,
    total: int,
    failure_of: Callable[[_R], Failure | None],
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[_R]:
    """The same results; how far they are is shown on standard error meanwhile.

    On a terminal a bar shows it, elsewhere a line now and then.

    Args:
        results: as they come.
        words: what is done to the nodes.
        total: how many results there will be.
        failure_of: why a result is none.
        now_s: a clock.
    """
    from kubeledger.cli.get_rows import human_duration
    from kubeledger.cli.progress import progress

    began_s = now_s()
    written_s = began_s + _FIRST_LINE_S - _LINE_S
    done = failed = 0
    with progress(words) as bar:
        bar.unit, bar.done, bar.total = "node", 0, total
        for result in results:
            done += 1
            failed += failure_of(result) is not None
            left = human_duration(round((now_s() - began_s) / done * (total - done)))
            left = f", about {left} left" if done < total else ""
            bar.done, bar.remark = done, f", {failed:,} failed{left}"
            if not sys.stderr.isatty() and now_s() - written_s >= _LINE_S:
                written_s = now_s()
                click.echo(f"{done:,} of {counted(total, 'node')}{bar.remark}", err=True)
            yield result
