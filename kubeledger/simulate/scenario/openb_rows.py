"""Rows of the Alibaba GPU trace 2023, checked."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kubeledger.ledger.regular import read_regular
from kubeledger.simulate.scenario.faults import rule
from kubeledger.simulate.scenario.problems import Fault, Place, Problem, Problems, ScenarioError
from kubeledger.simulate.scenario.validate import read

_NONE = frozenset({"", "nan", "NaN", "None"})
_MILLI = 1000
_BYTES_MAX = 256 << 20


def _text(cell: str) -> str:
    return "" if cell in _NONE else cell


def _whole(cell: str) -> int:
    """A whole number; ``32000.0`` is one."""
    digits = cell.removesuffix(".0")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        raise ValueError("must be a whole number")
    return int(digits)


_Text = Annotated[str, BeforeValidator(_text)]
_Name = Annotated[_Text, Field(min_length=1)]
_Count = Annotated[int, BeforeValidator(_whole), Field(le=2**53)]
_Least1 = Annotated[_Count, Field(ge=1)]
_Gpus = Annotated[_Count, Field(le=64)]
_Models = Annotated[frozenset[str], BeforeValidator(lambda cell: {*_text(cell).split("|")} - {""})]
_NEVER = -1
_Perhaps = Annotated[
    int, BeforeValidator(lambda cell: _whole(cell) if _text(cell) else _NEVER), Field(le=2**53)
]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True)

    line: int


class TraceNode(_Row):
    """A node; ``model`` of its GPUs, empty without."""

    name: Annotated[_Name, Field(alias="sn")]
    cpu_milli: _Least1
    memory_mib: _Least1
    gpus: Annotated[_Gpus, Field(alias="gpu")]
    model: _Text

    @rule
    def _gpus_have_a_model(self) -> Iterator[Fault]:
        if self.gpus and not self.model:
            yield ("model",), "a node with GPUs needs their model", "write e.g. T4"


class TracePod(_Row):
    """A pod; times in seconds of the trace.

    Attributes:
        gpu_milli: of each GPU; below 1000 it shares one.
        models: of GPUs that it can run on; empty: any.
        scheduled_s: negative: it never was.
        node: where it ran, if the list says so.
    """

    name: _Name
    cpu_milli: _Count
    memory_mib: _Count
    gpus: Annotated[_Gpus, Field(alias="num_gpu")]
    gpu_milli: Annotated[_Count, Field(le=_MILLI)]
    models: Annotated[_Models, Field(alias="gpu_spec")]
    qos: _Text
    phase: Annotated[Literal["Failed", "Pending", "Running", "Succeeded"], Field(alias="pod_phase")]
    created_s: Annotated[_Count, Field(alias="creation_time")]
    deleted_s: Annotated[_Count, Field(alias="deletion_time")]
    scheduled_s: Annotated[_Perhaps, Field(alias="scheduled_time")]
    node: _Text = ""

    @property
    def shares_gpu(self) -> bool:
        """It has a part of one GPU."""
        return self.gpus == 1 and self.gpu_milli < _MILLI

    @rule
    def _can_be(self) -> Iterator[Fault]:
        if self.gpus and not self.gpu_milli:
            yield ("gpu_milli",), "a GPU of which it gets nothing", f"write 1 up to {_MILLI}"
        if self.deleted_s < self.created_s:
            text = f"{self.deleted_s} is before its creation at {self.created_s}"
            yield ("deletion_time",), text, "fix it"
        elif _NEVER < self.scheduled_s < self.created_s:
            text = f"{self.scheduled_s} is before its creation at {self.created_s}"
            yield ("scheduled_time",), text, "fix it"


RowT = TypeVar("RowT", TraceNode, TracePod)


def read_nodes(file: Path, problems: list[Problem]) -> list[TraceNode]:
    """Nodes in the order of the list.

    Raises:
        ScenarioError: the file cannot be read.
    """
    return _read(TraceNode, file, problems)


def read_pods(file: Path, problems: list[Problem]) -> list[TracePod]:
    """Pods that were scheduled, in the order of the list.

    Raises:
        ScenarioError: the file cannot be read.
    """
    return [pod for pod in _read(TracePod, file, problems) if pod.scheduled_s > _NEVER]


def _read(model: type[RowT], file: Path, problems: list[Problem]) -> list[RowT]:
    columns = [
        field.alias or name
        for name, field in model.model_fields.items()
        if field.is_required() and name != "line"
    ]
    found: list[RowT] = []
    taken: dict[str, int] = {}
    for line, cells in _rows(file, columns, problems):
        place = Place(str(file), line)
        row_problems = Problems({(): place}, place)
        row = read(model, {"line": line, **cells}, (), row_problems)
        if (name := _text(cells[columns[0]])) in taken and name:
            advice = f"it is already in line {taken[name]}"
            row_problems.add((columns[0],), f"{name!r} is there twice", advice)
        taken.setdefault(name, line)
        problems += row_problems.found
        if row is not None:
            found.append(row)
    return found


def _rows(
    file: Path, columns: list[str], problems: list[Problem]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells of each row."""
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
        raise fail(0, "is not text", "unpack it, if it is compressed") from error
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
            if len(cells) != len(header):
                text = f"has {len(cells)} cells, not {len(header)}"
                place = Place(name, reader.line_num)
                problems.append(Problem(place=place, path="", message=text, advice="fix the row"))
                continue
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise fail(reader.line_num, f"is not CSV: {error}", "fix the row") from error
