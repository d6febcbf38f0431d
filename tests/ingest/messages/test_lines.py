"""Lines as kubelets write them are read as ``lines.txt`` says."""

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kubeledger.ingest.assemblers import Assemblers
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.klog.account import LogEntry
from kubeledger.ingest.klog.router import Handled, Router
from kubeledger.ingest.messages.catalogue import MESSAGES, NEEDED, router
from kubeledger.ingest.messages.noise import NOISE
from kubeledger.ingest.planning.plan import KubeletVersion
from kubeledger.ingest.sources.items import Fact, Facts, LogLine
from tests.ingest.feeding import hear, log_line


class Line(NamedTuple):
    """A line, the message that it is read as, what is read of it, and the record of it alone."""

    text: str
    to: str
    values: dict[str, Any]
    kind: str | None


def _lines() -> dict[str, list[Line]]:
    """Those of ``lines.txt``, by subsystem."""
    lines: dict[str, list[Line]] = {}
    shown, text = list[Line](), ""
    for row in Path(__file__).with_name("lines.txt").read_text(encoding="utf-8").splitlines():
        if row.startswith("    "):
            kind, to, *values = row.strip().split(" | ", 2)
            read = json.loads(values[0]) if values else {}
            shown.append(Line(text, to, read, None if kind == "-" else kind))
        elif row.isidentifier():
            shown = lines.setdefault(row, [])
        text = row
    return lines


LINES = _lines()
ROWS = [row for rows in MESSAGES.values() for row in rows]
CASES = [line for lines in LINES.values() for line in lines]
SHOWN = [case.text for case in CASES]

WITHOUT_A_LINE = Path(__file__).with_name("without_a_line.txt")
"""Older structured rows without a line here; scenes show most of them. None is added."""

DIFFER = {"ContainerTopologyHint", "Pod is stopped", "SyncLoop (probe)", "Unhandled Error"}
"""Messages of which some lines lead to a record alone, and others do not, by their values."""

HAVE_BOTH = {"Eviction manager:", "Eviction manager: threshold observed resource"}
"""Structured rows that rename a key for some versions, which others log by its right name."""


class Heard:
    """Asks for all messages, and notes which came."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        to = {row.to for row in ROWS if row.to is not None}
        handlers = {message: (partial(self._hear, message),) for message in to}
        self.router = Router(ROWS, NOISE, handlers, NEEDED)

    def _hear(self, message: str, line: LogLine) -> Facts:
        self.messages.append(message)
        return ()


HEARD = Heard()


def handled(line: LogLine) -> Handled:
    if line.values is None:
        route = HEARD.router.free_text(line.file, line.message)
    else:
        route = HEARD.router.structured(line.file, line.message)
    assert isinstance(route, Handled), f"no row knows {line.text}: {route}"
    return route


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[30:90])
def test_line(case: Line) -> None:
    """The message that it is read as, and the values under that message's keys."""
    line = log_line(case.text)
    route = handled(line)
    if route.row is not None:
        given = route.row.keys.keys() & (line.values or {})
        assert not given or line.message in HAVE_BOTH, (
            f"the row renames to {given}, which the line itself has: that is read"
        )
        unsaid = route.row.keys.keys() - case.values
        assert not unsaid, f"the row renames keys to {unsaid}: say their values in the case"
        route.row.read(line, route.match)
    HEARD.messages.clear()
    for handler in route.handlers:
        handler(line)
    assert HEARD.messages == [case.to]
    values = line.values or {}
    assert {key: values.get(key) for key in case.values} == case.values
    lacking = LogEntry(line, route.handlers, route.needs).lacks()
    assert lacking is None, (
        f"the table says that {case.to!r} needs {lacking}, and this line gives "
        f"{sorted(values)}: correct its keys, or say in the row which key of the line it is"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[30:90])
def test_record(case: Line) -> None:
    """The kind of the record to which the line leads alone: its keys are those of the handlers."""
    context = BundleContext(node="n")
    assemblers = Assemblers(context, lambda _: KubeletVersion(None, None))
    heard = hear(router(assemblers.of("reads")), log_line(case.text))
    assert heard is not None, f"no row knows {case.text}"
    line, handlers = heard
    facts: list[Fact] = []
    for handler in handlers:
        facts.extend(handler(line) or ())
    for assembler in assemblers.made():
        facts.extend(assembler.finish(line.ts_ns))
    kinds = sorted({fact.body.kind for fact in facts})
    assert kinds == (case.kind or "").split(), (
        f"the line leads to {' '.join(kinds) or 'no record'}, lines.txt says {case.kind or '-'}. "
        "If the first is right, correct lines.txt. If a record is missing, the row gives the "
        f"handlers of {case.to!r} keys or values that they cannot use ({line.values}). If the line "
        "only adds to what other lines show, its kind is -"
    )


def test_lines_of_a_message_lead_to_the_same_record() -> None:
    """Else a row gives the handlers of its message something else than other rows do."""
    kinds: dict[str, dict[str | None, str]] = defaultdict(dict)
    for case in CASES:
        kinds[case.to].setdefault(case.kind, log_line(case.text).message)
    different = {to: found for to, found in kinds.items() if len(found) > 1}
    assert different.keys() == DIFFER, (
        "record -> a line that leads to it, of each message: correct the row whose line differs, "
        f"or name the message in DIFFER: {different}"
    )


def test_each_structured_row_has_a_line() -> None:
    """Only a line shows that the words and keys of a row are spelled as they are logged."""
    shown = {log_line(text).message for text in SHOWN}
    exempt = set(WITHOUT_A_LINE.read_text(encoding="utf-8").splitlines())
    rows = {row.words for row in ROWS if row.pattern is None and row.to is not None}
    missing = sorted(rows - shown - exempt)
    assert missing == [], f"add a line of each to tests/ingest/messages/lines.txt: {missing}"
    needless = sorted(exempt & shown | exempt - rows)
    assert needless == [], f"take out of {WITHOUT_A_LINE.name} what it need not name: {needless}"


def test_each_subsystem_has_lines() -> None:
    assert list(LINES) == [subsystem for subsystem in MESSAGES if subsystem in LINES]
    assert sorted(LINES.keys() - MESSAGES.keys()) == []


def test_keys_of_lines_are_shown() -> None:
    """Only a line shows that the right side of a row, its key, is spelled as it is logged."""
    shown = {(line.message, key) for line in map(log_line, SHOWN) for key in line.values or {}}
    renamed = {(row.words, key) for row in ROWS if row.pattern is None for key in row.keys.values()}
    missing = sorted(renamed - shown)
    assert missing == [], f"no line in lines.txt has the key that its row names: {missing}"
