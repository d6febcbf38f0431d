"""``kubeledger decide`` and ``kubeledger judge``: JSON Lines in, JSON Lines out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import click

from kubeledger.cli.options import option, reports_errors
from kubeledger.cli.output import printable
from kubeledger.model.errors import BadInputError

_CHUNK = 1 << 20
_IMPOSSIBLE = 1
_BAD_INPUT = 3

_subsystem = click.argument("subsystem")
_file = click.argument("file", default="-")
_keep_going = option("--keep-going", "Report a bad line and go on with the next.")


@click.command(epilog="Example: kubeledger decide admission cases.jsonl > outcomes.jsonl")
@_subsystem
@_file
@_keep_going
@reports_errors
def decide(subsystem: str, file: str, keep_going: bool) -> None:
    """Decide cases as the kubelet of their version would.

    SUBSYSTEM is admission, backoff, cgroup, cgroupv2, cpumanager, devices, dra, eviction, imagegc,
    imagepull, memorymanager, nodeallocatable, podactions, podstatus, prober, qos, resize, topology,
    topologyhints or topologymerge. A case is one line {"id", "kubelet", "input"}; an outcome
    {"id", "outcome"} comes out for each, in the same order. Without FILE, or with -, cases are
    read from standard input.

    Schemas of the lines are schemas/cases.SUBSYSTEM.json, examples
    recordings/cases/SUBSYSTEM.jsonl; docs/testing.md explains both.
    """
    from kubeledger.kubelet.cases.registry import decider_of

    with _versions() as seen:
        _stream(decider_of(subsystem, seen), file, keep_going=keep_going)


@click.command(epilog="Example: kubeledger judge devices claims.jsonl | grep impossible")
@_subsystem
@_file
@_keep_going
@reports_errors
def judge(subsystem: str, file: str, keep_going: bool) -> None:
    """Judge claimed outcomes: match, admissible or impossible, and why.

    A claim is a case with an "outcome"; {"id", "verdict", "why"} comes out. "match" is what
    decide gives, "admissible" what the real kubelet could have done as well. Exits with 1 when
    a claim is impossible. Schemas and examples are those of decide: they hold outcomes, too.
    """
    from kubeledger.kubelet.cases.registry import judge_of

    verdicts: set[str] = set()
    with _versions() as seen:
        _stream(judge_of(subsystem, verdicts.add, seen), file, keep_going=keep_going)
    if "impossible" in verdicts:
        sys.exit(_IMPOSSIBLE)


@contextmanager
def _versions() -> Iterator[Callable[[str], object]]:
    """Takes versions that are known by their source alone, and says so of each at the end."""
    from kubeledger.kubelet.profile.facts import by_source

    said: set[str] = set()
    try:
        yield lambda version: said.add(by_source(version))
    finally:
        for text in sorted(said):
            click.echo(f"note: kubelet {text}", err=True)


def _stream(answer: Callable[[bytes], bytes], name: str, *, keep_going: bool) -> None:
    """Answer line by line; what came before a bad line is written in any case."""
    from kubeledger.cli.files import STANDARD_INPUT, is_standard, open_input

    shown = STANDARD_INPUT if is_standard(name) else name
    with open_input(name) as file:
        bad = _answer_all(answer, file, shown, keep_going=keep_going)
    if bad:
        sys.exit(_BAD_INPUT)


def _answer_all(
    answer: Callable[[bytes], bytes], file: BinaryIO, name: str, *, keep_going: bool
) -> bool:
    """Whether a line was bad; see :func:`_stream`."""
    out = sys.stdout.buffer
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
    return bad


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
