"""Findings as a table for people, JSON for programs, JUnit XML for build servers."""

from __future__ import annotations

import sys
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from xml.sax.saxutils import escape, quoteattr

import click
import msgspec

from kubeledger.cli.output import printable, write_rows
from kubeledger.errors import LedgerUnavailableError
from kubeledger.verify import Contradiction, Finding, Outcome
from kubeledger.verify.tally import VERDICTS, Tally

__all__ = ["Junit", "Writer", "writer_of"]

_SPOOL_BYTES = 4 << 20
_encode = msgspec.json.Encoder(order="deterministic").encode


class Writer:
    """Takes outcomes as they come; memory is flat."""

    def begin(self, node: str) -> None:
        """Outcomes of this node follow."""
        self.node = node

    @abstractmethod
    def write(self, outcome: Outcome) -> None:
        """Take one."""

    @abstractmethod
    def end(self, tally: Tally) -> None:
        """All were taken."""


@contextmanager
def writer_of(output: str, all_: bool) -> Iterator[Writer]:
    """The writer of an output format; what it had to keep aside is removed at the end."""
    if output == "jsonl":
        yield _JsonLines()
        return
    if output == "table":
        yield _Table(all_)
        return
    with _spool() as items, _spool() as contradictions:
        yield _Json(items, contradictions)


def _spool() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)


def _item(node: str, outcome: Outcome) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(outcome)
    fields.pop("about", None)  # for `why`; with hundreds of images it would swell every item
    return {"node": node, **fields}


class _JsonLines(Writer):
    def write(self, outcome: Outcome) -> None:
        what = "contradiction" if isinstance(outcome, Contradiction) else "finding"
        sys.stdout.buffer.write(_encode({"type": what, **_item(self.node, outcome)}) + b"\n")

    def end(self, tally: Tally) -> None:
        sys.stdout.buffer.flush()


class _Json(Writer):
    """Counts come first in the document, so items wait in a file until all are counted."""

    def __init__(self, items: IO[bytes], contradictions: IO[bytes]) -> None:
        self._items = items
        self._contradictions = contradictions

    def write(self, outcome: Outcome) -> None:
        spool = self._contradictions if isinstance(outcome, Contradiction) else self._items
        comma = b",\n " if spool.tell() else b"\n "
        spool.write(comma + _encode(_item(self.node, outcome)))

    def end(self, tally: Tally) -> None:
        out = sys.stdout.buffer
        head: dict[str, Any] = {"decisions": tally.decisions}
        head |= {verdict: tally.count(verdict) for verdict in VERDICTS}
        head["kinds"] = {kind: dict(sorted(c.items())) for kind, c in sorted(tally.by_kind.items())}
        out.write(msgspec.json.encode(head)[:-1])
        for name, spool in (("items", self._items), ("contradictions", self._contradictions)):
            out.write(f',\n"{name}":['.encode())
            spool.seek(0)
            while block := spool.read(1 << 20):
                out.write(block)
            out.write(b"]")
        out.write(b"}\n")
        out.flush()


class _Table(Writer):
    def __init__(self, all_: bool) -> None:
        self._all = all_

    def begin(self, node: str) -> None:
        super().begin(node)
        click.secho(printable(node), bold=True)

    def write(self, outcome: Outcome) -> None:
        if isinstance(outcome, Contradiction):
            click.secho(f"  contradiction: {printable(outcome.subject)}", fg="yellow")
            click.echo(f"    {printable(outcome.why)}")
            for side in outcome.sides:
                click.echo(f"    record {side.seq}: {printable(side.says)}")
        elif self._all or outcome.verdict == "impossible":
            color = "red" if outcome.verdict == "impossible" else None
            click.secho(
                f"  {outcome.verdict}: {outcome.kind} {printable(outcome.subject)}", fg=color
            )
            click.echo(f"    {printable(outcome.why)}")
            click.echo(f"    {printable(outcome.place)} (record {outcome.seq})")
            if outcome.verdict == "impossible":
                click.echo(f"    expected {_shown(outcome.expected)}")
                click.echo(f"    recorded {_shown(outcome.recorded)}")

    def end(self, tally: Tally) -> None:
        rows = [
            (kind, counts.total(), *(counts[verdict] for verdict in VERDICTS))
            for kind, counts in sorted(tally.by_kind.items())
        ]
        rows.append(("all", tally.decisions, *(tally.count(verdict) for verdict in VERDICTS)))
        write_rows(("kind", "decisions", *VERDICTS), rows, "table", sys.stdout)
        for missing, count in sorted(tally.missing.items(), key=lambda item: (-item[1], item[0])):
            click.echo(f"missing for {count}: {printable(missing)}")
        if tally.contradictions:
            click.echo(f"{tally.contradictions} contradictions between sources")


def _shown(fields: object) -> str:
    return "no such decision" if fields is None else printable(_encode(fields).decode())


class Junit:
    """One test suite a node and kind, one test case a decision."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._suites: dict[tuple[str, str], IO[bytes]] = {}

    def write(self, node: str, outcome: Outcome) -> None:
        """Take one outcome; contradictions are no test cases."""
        if not isinstance(outcome, Finding):
            return
        suite = self._suites.setdefault((node, outcome.kind), _spool())
        suite.write(_case(outcome).encode("utf-8", "xmlcharrefreplace"))

    def save(self, tally: Tally) -> None:
        """Write the file.

        Raises:
            LedgerUnavailableError: the file cannot be written.
        """
        try:
            with self._path.open("wb") as file:
                file.write(b'<?xml version="1.0" encoding="utf-8"?>\n<testsuites')
                file.write(
                    f' tests="{tally.decisions}" failures="{tally.count("impossible")}"'.encode()
                )
                file.write(f' skipped="{tally.count("unverifiable")}">\n'.encode())
                for (node, kind), suite in sorted(self._suites.items()):
                    file.write(f" <testsuite name={_attr(f'{node} {kind}')}>\n".encode())
                    suite.seek(0)
                    while block := suite.read(1 << 20):
                        file.write(block)
                    file.write(b" </testsuite>\n")
                file.write(b"</testsuites>\n")
        except OSError as error:
            raise LedgerUnavailableError(
                f"cannot be written: {error.strerror}", file=str(self._path)
            ) from error


def _case(finding: Finding) -> str:
    name = _attr(f"{finding.seq} {finding.subject}")
    head = f"  <testcase classname={_attr(finding.kind)} name={name}"
    why = _attr(finding.why)
    if finding.verdict == "impossible":
        text = f"expected {_shown(finding.expected)}\nrecorded {_shown(finding.recorded)}"
        return f"{head}><failure message={why}>{escape(text)}</failure></testcase>\n"
    if finding.verdict == "unverifiable":
        return f"{head}><skipped message={why}/></testcase>\n"
    return f"{head}/>\n"


def _attr(text: str) -> str:
    return quoteattr(printable(text))
