"""Feed an assembler with klog text lines and items, as the pipeline would."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, ItemHandler
from kubeledger.ingest.klog.account import LogEntry
from kubeledger.ingest.klog.router import Handled, LineHandler, Router, Verdict
from kubeledger.ingest.klog.values import split_structured, text_values
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.sources.items import Fact, Item, LogLine
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S, parse_ts

DATA = Path(__file__).parent.parent / "data"

_HEADER = re.compile(
    r"(?P<severity>[IWEF])(?P<month>\d\d)(?P<day>\d\d) (?P<time>[\d:.]+)\s+(?P<pid>\d+) "
    r"(?P<file>[^:]+):(?P<line>\d+)\] (?P<message>.*)",
    re.DOTALL,
)
_Body = TypeVar("_Body", bound=Body)


def log_line(text: str, number: int = 1) -> LogLine:
    """A line of klog text as the reader hands it on; the year is 2026."""
    header = _HEADER.fullmatch(text)
    assert header is not None, text
    structured = split_structured(header["message"])
    return LogLine(
        ts_ns=parse_ts(f"2026-{header['month']}-{header['day']}T{header['time']}Z"),
        severity=header["severity"],
        pid=int(header["pid"]),
        file=header["file"],
        caller_line=int(header["line"]),
        message=structured[0] if structured else header["message"],
        values=text_values(structured[1]) if structured else None,
        source="kubelet.log",
        line=number,
        offset=0,
        text=text,
    )


def lines(*texts: str) -> list[LogLine]:
    """Lines ``file.go message``, a millisecond apart from 02:00:00 on; ``+2.5s `` waits first."""
    result = []
    ms = 0
    for number, text in enumerate(texts, 1):
        rest = text
        if wait := re.match(r"\+([\d.]+)s ", text):
            ms += int(float(wait[1]) * 1000)
            rest = text[wait.end() :]
        ms += 1
        file, message = rest.split(" ", 1)
        clock = (
            f"{2 + ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
        )
        severity = "E" if "failed" in message else "I"
        result.append(log_line(f"{severity}1121 {clock}000 1 {file}:1] {message}", number))
    return result


def recorded(path: str) -> list[LogLine]:
    """The lines of a file below ``tests/data``."""
    texts = (DATA / path).read_text().splitlines()
    return [log_line(text, number) for number, text in enumerate(texts, 1)]


def at(clock: str) -> int:
    """``02:54:16`` of the recordings' day in nanoseconds."""
    return parse_ts(f"2026-11-21T{clock}Z")


def listening(*assemblers: Assembler) -> dict[str, list[LineHandler]]:
    """Message -> the handlers of assemblers, in their order."""
    found: dict[str, list[LineHandler]] = {}
    for assembler in assemblers:
        for each in assembler.declared("reads"):
            found.setdefault(each.what, []).append(assembler.of_line(each))
    return found


def items_of(assembler: Assembler) -> dict[type, ItemHandler]:
    """Type of an item -> handler."""
    return {each.what: assembler.of_item(each) for each in assembler.declared("takes")}


def feed(assembler: Assembler, stream: Iterable[Item]) -> list[Fact]:
    """All facts, in the order of their emission; checks that lines are asked for and ordered."""
    routes, items = router(listening(assembler)), items_of(assembler)
    facts: list[Fact] = []
    ordered = sorted(stream, key=lambda piece: piece.ts_ns)
    for piece in ordered:
        if not isinstance(piece, LogLine):
            _take(facts, items[type(piece)](piece))
            continue
        heard = hear(routes, piece)
        assert heard is not None, f"nobody understands {piece.text}"
        for handler in heard[1]:
            _take(facts, handler(heard[0]))
    _take(facts, assembler.finish(ordered[-1].ts_ns if ordered else 0))
    return facts


def hear(routes: Router, line: LogLine) -> tuple[LogLine, Sequence[LineHandler]] | None:
    """A line as the reader hands it on, and who asked for it; None where nobody knows it."""
    line = msgspec.structs.replace(line)
    if line.values is not None:
        route = routes.structured(line.file, line.message)
    else:
        route = routes.free_text(line.file, line.message)
    if not isinstance(route, Handled):
        return (line, ()) if route is Verdict.UNDERSTOOD else None
    if route.row is not None:
        route.row.read(line, route.match)
    lacking = LogEntry(line, route.handlers, route.needs).lacks()
    assert lacking is None, f"{lacking} is missing: {line.text}"
    return line, route.handlers


def _take(facts: list[Fact], found: Iterable[Fact] | None) -> None:
    for fact in found or ():
        assert fact.evidence, fact.body
        assert fact.cause is None or fact.cause.seq is not None, "a cause comes first"
        assert not facts or fact.ts_ns >= facts[-1].ts_ns, "time goes back"
        fact.seq = len(facts) + 1
        facts.append(fact)


def bodies(facts: Iterable[Fact], kind: type[_Body]) -> list[_Body]:
    return [fact.body for fact in facts if isinstance(fact.body, kind)]


def of_kind(facts: Iterable[Fact], kind: type[Body]) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact.body, kind)]


def seconds(fact: Fact) -> int:
    """Whole seconds since the epoch."""
    return fact.ts_ns // NS_PER_S
