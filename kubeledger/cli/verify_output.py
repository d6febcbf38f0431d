"""Findings as a table for people, JSON for programs, JUnit XML for build servers; and said live."""

from __future__ import annotations

import sys
import tempfile
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import click
import msgspec

from kubeledger.cli.files import new_output, output_errors
from kubeledger.cli.output import counted, csv_line, printable, write_rows
from kubeledger.cli.screen import screen_width
from kubeledger.cli.service import served, until_stopped
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_ts
from kubeledger.verify import Contradiction, Finding, Outcome, Verdict, Violation
from kubeledger.verify.finding import VERDICTS, Tally

if TYPE_CHECKING:
    from kubeledger.analyze.histories.watching import News

_SPOOL_BYTES = 4 << 20
_CSV_COLUMNS = (
    "type", "node", "seq", "ts_ns", "kind", "subject", "verdict", "expected", "recorded",
    "missing", "why", "rule", "inputs", "file", "line", "inferred", "sides",
    "invariant", "bugs",
)  # fmt: skip
encode = msgspec.json.Encoder(order="deterministic").encode


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
    if output == "csv":
        yield _Csv()
        return
    if output in ("table", "wide"):
        yield _Table(all_, output)
        return
    with _spool() as items, _spool() as contradictions, _spool() as violations:
        yield _Json(items, contradictions, violations)


def _spool() -> IO[bytes]:
    # In memory while it is small.
    return tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)


def _item(node: str, outcome: Outcome) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(outcome)
    fields.pop("about", None)  # for `why`; with hundreds of images it would swell every item
    return {"node": node, **fields}


def outcome_line(node: str, outcome: Outcome) -> dict[str, Any]:
    """The object of an outcome in JSON Lines."""
    what = "contradiction" if isinstance(outcome, Contradiction) else "finding"
    what = "violation" if isinstance(outcome, Violation) else what
    return {"type": what, **_item(node, outcome)}


class _JsonLines(Writer):
    def write(self, outcome: Outcome) -> None:
        sys.stdout.buffer.write(encode(outcome_line(self.node, outcome)) + b"\n")

    def end(self, tally: Tally) -> None:
        sys.stdout.buffer.flush()


class _Csv(Writer):
    """The fields of JSON Lines; those of contradictions that findings lack come last."""

    def __init__(self) -> None:
        sys.stdout.write(csv_line(_CSV_COLUMNS))

    def write(self, outcome: Outcome) -> None:
        fields = outcome_line(self.node, outcome)
        sys.stdout.write(csv_line([fields.get(column) for column in _CSV_COLUMNS]))

    def end(self, tally: Tally) -> None:
        sys.stdout.flush()


class _Json(Writer):
    """Counts come first in the document, so items wait in a file until all are counted."""

    def __init__(self, items: IO[bytes], contradictions: IO[bytes], violations: IO[bytes]) -> None:
        self._items = items
        self._contradictions = contradictions
        self._violations = violations

    def write(self, outcome: Outcome) -> None:
        spool = self._contradictions if isinstance(outcome, Contradiction) else self._items
        spool = self._violations if isinstance(outcome, Violation) else spool
        comma = b",\n " if spool.tell() else b"\n "
        spool.write(comma + encode(_item(self.node, outcome)))

    def end(self, tally: Tally) -> None:
        out = sys.stdout.buffer
        head: dict[str, Any] = {"decisions": tally.decisions}
        head |= {verdict: tally.count(verdict) for verdict in VERDICTS}
        head["inferred"] = {verdict: tally.inferred[verdict] for verdict in VERDICTS}
        head["kinds"] = {kind: dict(sorted(c.items())) for kind, c in sorted(tally.by_kind.items())}
        out.write(msgspec.json.encode(head)[:-1])
        for name, spool in (
            ("items", self._items),
            ("contradictions", self._contradictions),
            ("violations", self._violations),
        ):
            out.write(f',\n"{name}":['.encode())
            _copy(spool, out)
            out.write(b"]")
        out.write(b"}\n")
        out.flush()


class _Table(Writer):
    def __init__(self, all_: bool, form: str) -> None:
        self._all = all_
        self._form = form
        self._begun: list[str] = []

    def begin(self, node: str) -> None:
        super().begin(node)
        self._begun.append(node)

    def _heads(self) -> None:
        """Names of nodes, when something follows: until then the progress is on the screen."""
        for node in self._begun:
            click.secho(printable(node), bold=True)
        self._begun.clear()

    def write(self, outcome: Outcome) -> None:
        if isinstance(outcome, Contradiction) or self._all or outcome.verdict == "impossible":
            self._heads()
        if isinstance(outcome, Contradiction):
            what, color = "contradiction", "yellow"
            if isinstance(outcome, Violation):
                what, color = f"violation, {outcome.invariant}", "red"
            click.secho(f"  {what}: {printable(outcome.subject)}", fg=color)
            click.echo(f"    {printable(outcome.why)}")
            if isinstance(outcome, Violation) and outcome.bugs:
                click.echo(f"    a known bug of this kubelet does so: {', '.join(outcome.bugs)}")
            for side in outcome.sides:
                click.echo(f"    record {side.seq}: {printable(side.says)}")
        elif self._all or outcome.verdict == "impossible":
            what = f"{outcome.verdict}, inferred" if outcome.inferred else outcome.verdict
            about = f"  {what}: {outcome.kind} {printable(outcome.subject)}"
            click.secho(about, fg="red" if outcome.is_wrong else None)
            click.echo(f"    {printable(outcome.why)}")
            click.echo(f"    {printable(outcome.place)} (record {outcome.seq})")
            if outcome.verdict == "impossible":
                click.echo(f"    expected {_shown(outcome.expected)}")
                click.echo(f"    recorded {_shown(outcome.recorded)}")

    def end(self, tally: Tally) -> None:
        self._heads()
        short = self._form == "table"
        rows = [
            (
                kind.rpartition(".")[2] if short else kind,
                counts.total(),
                *(counts[verdict] for verdict in VERDICTS),
            )
            for kind, counts in sorted(tally.by_kind.items())
        ]
        rows.append(("all", tally.decisions, *(tally.count(verdict) for verdict in VERDICTS)))
        if apart := tally.inferred.total():
            rows.append(("inferred", apart, *(tally.inferred[verdict] for verdict in VERDICTS)))
        columns = ("kind", "decisions", *VERDICTS)
        write_rows(columns, rows, self._form, width_max=screen_width())
        for missing, count in sorted(tally.missing.items(), key=lambda item: (-item[1], item[0])):
            click.echo(f"missing for {count}: {printable(missing)}")
        if apart:
            click.echo(f"{counted(apart, 'inferred decision')}, shown by no line: counted apart")
        if tally.violations:
            click.secho(f"{counted(tally.violations, 'violation')} of what always holds", fg="red")
        if tally.contradictions:
            click.echo(f"{counted(tally.contradictions, 'contradiction')} between sources")


def _shown(fields: object) -> str:
    return "no such decision" if fields is None else printable(encode(fields).decode())


@contextmanager
def junit_writer(path: Path) -> Iterator[Writer]:
    """Writes JUnit XML, all of it or nothing: a test suite a node and kind, a case a decision.

    Inferred decisions are in suites of their own, and skipped: they prove nothing.

    Raises:
        OutputError: the file cannot be written.
    """
    with output_errors(path), new_output(path) as file, _spool() as body:
        junit = _Junit(file, body)
        try:
            yield junit
        finally:
            junit.close()


class _Junit(Writer):
    """Counts come first, so suites wait for the end of a node, and nodes for the end of all."""

    def __init__(self, file: IO[bytes], body: IO[bytes]) -> None:
        self._file = file
        self._body = body
        self._suites: dict[str, tuple[Counter[Verdict], IO[bytes]]] = {}

    def begin(self, node: str) -> None:
        self._end_of_node()
        super().begin(node)

    def write(self, outcome: Outcome) -> None:
        """Take one outcome; contradictions are no test cases, violations are."""
        if isinstance(outcome, Violation):
            self._add("safety", "impossible", _failed(outcome))
        if isinstance(outcome, Contradiction):
            return
        name = f"{outcome.kind} (inferred)" if outcome.inferred else outcome.kind
        self._add(name, "unverifiable" if outcome.inferred else outcome.verdict, _case(outcome))

    def _add(self, name: str, verdict: Verdict, case: str) -> None:
        if name not in self._suites:
            self._suites[name] = (Counter(), _spool())
        counts, cases = self._suites[name]
        counts[verdict] += 1
        cases.write(case.encode("utf-8", "xmlcharrefreplace"))

    def end(self, tally: Tally) -> None:
        self._end_of_node()
        counts = Counter({verdict: tally.count(verdict) for verdict in VERDICTS})
        counts["unverifiable"] += tally.inferred.total()
        counts["impossible"] += tally.violations
        head = f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites{_counts(counts)}>\n'
        self._file.write(head.encode())
        _copy(self._body, self._file)
        self._file.write(b"</testsuites>\n")

    def _end_of_node(self) -> None:
        for kind, (counts, cases) in sorted(self._suites.items()):
            name = _attr(f"{self.node} {kind}")
            self._body.write(f" <testsuite name={name}{_counts(counts)}>\n".encode())
            _copy(cases, self._body)
            self._body.write(b" </testsuite>\n")
        self.close()

    def close(self) -> None:
        """Let go of what waits."""
        for _, cases in self._suites.values():
            cases.close()
        self._suites.clear()


def _counts(counts: Counter[Verdict]) -> str:
    return (
        f' tests="{counts.total()}" failures="{counts["impossible"]}"'
        f' skipped="{counts["unverifiable"]}"'
    )


def _copy(source: IO[bytes], sink: IO[bytes]) -> None:
    source.seek(0)
    while block := source.read(1 << 20):
        sink.write(block)


def _case(finding: Finding) -> str:
    name = _attr(f"{finding.seq} {finding.subject}")
    head = f"  <testcase classname={_attr(finding.kind)} name={name}"
    why = _attr(f"inferred, {finding.verdict}: " * finding.inferred + finding.why)
    if finding.is_wrong:
        text = f"expected {_shown(finding.expected)}; recorded {_shown(finding.recorded)}"
        return f"{head}><failure message={why}>{escape(_xml(text))}</failure></testcase>\n"
    if finding.inferred or finding.verdict == "unverifiable":
        return f"{head}><skipped message={why}/></testcase>\n"
    return f"{head}/>\n"


def _failed(violation: Violation) -> str:
    first = violation.sides[0].seq
    head = f"  <testcase classname={_attr(violation.invariant)}"
    text = "; ".join(f"record {side.seq}: {side.says}" for side in violation.sides)
    why = _attr(" ".join((violation.why, *violation.bugs)))
    name = _attr(f"{first} {violation.subject}")
    return f"{head} name={name}><failure message={why}>{escape(_xml(text))}</failure></testcase>\n"


def _attr(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    """Without the characters that XML cannot hold."""
    safe = printable(text)
    return safe.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


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
    from kubeledger.analyze.histories.watching import Watch
    from kubeledger.record.metrics import FINDINGS, READY

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
