"""``kubeledger decide`` and ``kubeledger judge``: JSON Lines in, JSON Lines out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

import click

from kubeledger.cli.options import reports_errors
from kubeledger.cli.output import printable

__all__ = ["decide", "judge"]

_CHUNK = 1 << 20
_BAD_INPUT = 3

_subsystem = click.argument("subsystem")
_file = click.argument("file", type=click.File("rb"), default="-")
_keep_going = click.option(
    "--keep-going", is_flag=True, help="Report a bad line and go on with the next."
)


@click.command(epilog="Example: kubeledger decide admission cases.jsonl > outcomes.jsonl")
@_subsystem
@_file
@_keep_going
@reports_errors
def decide(subsystem: str, file: BinaryIO, keep_going: bool) -> None:
    """Decide cases as the kubelet of their version would.

    SUBSYSTEM is admission, cgroup, cgroupv2, devices, imagegc, nodeallocatable, podstatus,
    prober, qos, topologyhints or topologymerge. A case is one line {"id", "kubelet", "input"};
    an outcome {"id", "outcome"} comes out for each, in the same order.
    """
    from kubeledger.cases.registry import decider_of

    _stream(decider_of(subsystem), file, keep_going=keep_going)


@click.command(epilog="Example: kubeledger judge devices claims.jsonl | grep impossible")
@_subsystem
@_file
@_keep_going
@reports_errors
def judge(subsystem: str, file: BinaryIO, keep_going: bool) -> None:
    """Judge claimed outcomes: match, admissible or impossible, and why.

    A claim is a case with an "outcome"; {"id", "verdict", "why"} comes out. "match" is what
    decide gives, "admissible" what the real kubelet could have done as well.
    """
    from kubeledger.cases.registry import judge_of

    _stream(judge_of(subsystem), file, keep_going=keep_going)


def _stream(answer: Callable[[bytes], bytes], file: BinaryIO, *, keep_going: bool) -> None:
    """Answer line by line; what came before a bad line is written in any case.

    Raises:
        BadInputError: naming file, line and field, unless it is to go on.
    """
    from kubeledger.errors import BadInputError

    out = sys.stdout.buffer
    name = getattr(file, "name", "-")
    name = "standard input" if name in ("-", "<stdin>", 0) else str(name)
    bad = False
    for number, block in _blocks(file):
        for offset, line in enumerate(block):
            if not line.strip():
                continue
            try:
                out.write(answer(line) + b"\n")
            except BadInputError as error:
                placed = BadInputError(
                    error.message, advice=error.advice, file=name, line=number + offset
                )
                out.flush()
                if not keep_going:
                    raise placed from None
                click.echo(printable(f"error: {placed}"), err=True)
                bad = True
        # Whoever feeds a pipe line by line gets its answers without waiting for more.
        out.flush()
    if bad:
        sys.exit(_BAD_INPUT)


def _blocks(file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Complete lines as they arrive, with the number of the first; memory of one block."""
    read = getattr(file, "read1", file.read)
    number, parts = 1, list[bytes]()
    while chunk := read(_CHUNK):
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            parts.append(chunk)
            continue
        lines = b"".join([*parts, whole]).split(b"\n")
        yield number, lines
        number += len(lines)
        parts = [rest] if rest else []
    if parts:
        yield number, [b"".join(parts)]
