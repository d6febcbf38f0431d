"""Lines as kubelets write them are read as ``LINES`` says."""

from __future__ import annotations

from functools import partial

import pytest

from kubeledger.ingest.klog.outputs import LogEntry
from kubeledger.ingest.klog.router import Handled, Router
from kubeledger.ingest.messages.catalogue import MESSAGES
from kubeledger.ingest.messages.keys import NEEDED
from kubeledger.ingest.messages.noise import NOISE
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import LogLine
from tests.ingest.feeding import log_line
from tests.ingest.messages.lines import LINES, Line

ROWS = [row for rows in MESSAGES.values() for row in rows]
CASES = [line for lines in LINES.values() for line in lines]
SHOWN = [case.text for case in CASES]


class Heard:
    """Asks for all messages, and notes which came."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        to = {row.to for row in ROWS if row.to is not None}
        handlers = {message: partial(self._hear, message) for message in to}
        self.router = Router(ROWS, NOISE, [handlers], NEEDED)

    def _hear(self, message: str, line: LogLine) -> Facts:
        self.messages.append(message)
        return ()


HEARD = Heard()


def handled(line: LogLine) -> Handled:
    """Who gets the line."""
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
        route.row.read(line, route.match)
    HEARD.messages.clear()
    for handler in route.handlers:
        handler(line)
    assert HEARD.messages == [case.to]
    values = line.values or {}
    assert {key: values.get(key) for key in case.values} == case.values
    assert LogEntry(line, route.handlers, route.needs).lacks() is None


def test_each_subsystem_has_lines() -> None:
    """In the order of the tables."""
    assert list(LINES) == [subsystem for subsystem in MESSAGES if subsystem in LINES]
    assert sorted(LINES.keys() - MESSAGES.keys()) == []


def test_keys_of_lines_are_shown() -> None:
    """Only a line shows that the right side of a row, its key, is spelled as it is logged."""
    shown = {(line.message, key) for line in map(log_line, SHOWN) for key in line.values or {}}
    renamed = {(row.words, key) for row in ROWS if row.pattern is None for key in row.keys.values()}
    assert sorted(renamed - shown) == []
