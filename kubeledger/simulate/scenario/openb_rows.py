"""Rows of the Alibaba GPU trace 2023, checked."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kubeledger.ledger.regular import read_regular
from kubeledger.simulate.scenario.problems import Place, Problem, ScenarioError

__all__ = ["TraceNode", "TracePod", "read_nodes", "read_pods"]

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_PHASES = frozenset({"Succeeded", "Failed", "Running", "Pending"})
_NONE = frozenset({"", "nan", "NaN", "None"})
_MILLI = 1000
_MAX = 2**53
_BYTES_MAX = 256 << 20


class TraceNode(msgspec.Struct, frozen=True):
    """A node; ``model`` of its GPUs, empty without."""

    line: int
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class TracePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was scheduled; times in seconds of the trace.

    Attributes:
        gpu_milli: of each GPU; below 1000 it shares one.
        models: of GPUs that it can run on; empty: any.
        node: where it ran, if the list says so.
    """

    line: int
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: frozenset[str]
    qos: str
    phase: str
    scheduled_s: int
    deleted_s: int
    node: str = ""

    @property
    def shares_gpu(self) -> bool:
        """It has a part of one GPU."""
        return self.gpus == 1 and self.gpu_milli < _MILLI


class _Row:
    """One row, and what is wrong with it."""

    def __init__(self, file: str, line: int, cells: dict[str, str], found: list[Problem]) -> None:
        self.place = Place(file, line)
        self.cells = cells
        self._found = found
        self.good = True

    def wrong(self, column: str, message: str, advice: str) -> None:
        """Note what is wrong."""
        self.good = False
        problem = Problem(place=self.place, path=column, message=message, advice=advice)
        self._found.append(problem)

    def number(self, column: str, least: int = 0, most: int = _MAX) -> int:
        """A whole number; ``32000.0`` is one."""
        text = self.cells[column]
        whole = text.removesuffix(".0")
        if not (whole.isascii() and whole.isdigit()) or not least <= int(whole[:20]) <= most:
            limit = f" up to {most}" if most < _MAX else ""
            advice = f"write a whole number from {least}{limit}"
            self.wrong(column, f"{text!r} is no such number", advice)
            return least
        return int(whole)

    def text(self, column: str) -> str:
        """A text; empty where there is none."""
        value = self.cells.get(column, "")
        return "" if value in _NONE else value


def read_nodes(file: Path, problems: list[Problem]) -> list[TraceNode]:
    """Nodes in the order of the list.

    Raises:
        ScenarioError: the file cannot be read.
    """
    found: list[TraceNode] = []
    taken: dict[str, int] = {}
    for row in _rows(file, _NODE_COLUMNS, problems):
        node = TraceNode(
            line=row.place.line,
            name=_name(row, "sn", taken),
            cpu_milli=row.number("cpu_milli", 1),
            memory_mib=row.number("memory_mib", 1),
            gpus=row.number("gpu", 0, 64),
            model=row.text("model"),
        )
        if node.gpus and not node.model:
            row.wrong("model", "a node with GPUs needs their model", "write e.g. T4")
        if row.good:
            found.append(node)
    return found


def read_pods(file: Path, problems: list[Problem]) -> list[TracePod]:
    """Pods that were scheduled, in the order of the list.

    Raises:
        ScenarioError: the file cannot be read.
    """
    found: list[TracePod] = []
    taken: dict[str, int] = {}
    for row in _rows(file, _POD_COLUMNS, problems):
        name = _name(row, "name", taken)
        created, deleted = row.number("creation_time"), row.number("deletion_time")
        scheduled = row.number("scheduled_time") if row.text("scheduled_time") else None
        phase = row.text("pod_phase")
        if phase not in _PHASES:
            row.wrong("pod_phase", f"{phase!r} is none", f"one of {', '.join(sorted(_PHASES))}")
        gpus = row.number("num_gpu", 0, 64)
        pod = TracePod(
            line=row.place.line,
            name=name,
            cpu_milli=row.number("cpu_milli"),
            memory_mib=row.number("memory_mib"),
            gpus=gpus,
            gpu_milli=row.number("gpu_milli", 1 if gpus else 0, _MILLI),
            models=frozenset(row.text("gpu_spec").split("|")) - {""},
            qos=row.text("qos"),
            phase=phase,
            scheduled_s=scheduled or 0,
            deleted_s=deleted,
            node=row.text("node"),
        )
        if row.good:
            _check_times(row, created, scheduled, deleted)
        if row.good and scheduled is not None:
            found.append(pod)
    return found


def _name(row: _Row, column: str, taken: dict[str, int]) -> str:
    name = row.text(column)
    if not name:
        row.wrong(column, "a row needs a name", "add one")
    elif name in taken:
        row.wrong(column, f"{name!r} is there twice", f"it is already in line {taken[name]}")
    taken.setdefault(name, row.place.line)
    return name


def _check_times(row: _Row, created: int, scheduled: int | None, deleted: int) -> None:
    if deleted < created:
        row.wrong("deletion_time", f"{deleted} is before its creation at {created}", "fix it")
    elif scheduled is not None and scheduled < created:
        row.wrong("scheduled_time", f"{scheduled} is before its creation at {created}", "fix it")


def _rows(file: Path, columns: tuple[str, ...], problems: list[Problem]) -> Iterator[_Row]:
    name = str(file)
    fail: Callable[[int, str, str], ScenarioError] = lambda line, message, advice: ScenarioError(  # noqa: E731  (one use twice)
        [Problem(place=Place(name, line), path="", message=message, advice=advice)]
    )
    try:
        text = read_regular(file, _BYTES_MAX, links=True).decode("utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise fail(0, f"cannot be read: {reason}", "download the trace; see the docs") from error
    except UnicodeDecodeError as error:
        raise fail(0, "is no text", "unpack it, if it is compressed") from error
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(reader, [])
        missing = [column for column in columns if column not in header]
        if missing:
            what = f"has no column {', '.join(missing)}"
            raise fail(1, what, "is it a list of the trace, and are they in order?")
        for cells in reader:
            if not cells:
                continue
            row = _Row(name, reader.line_num, dict(zip(header, cells, strict=False)), problems)
            if len(cells) != len(header):
                row.wrong("", f"has {len(cells)} cells, not {len(header)}", "fix the row")
                continue
            yield row
    except csv.Error as error:
        raise fail(reader.line_num, f"is not CSV: {error}", "fix the row") from error
