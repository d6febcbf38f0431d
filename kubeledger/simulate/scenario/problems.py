"""What is wrong with a scenario: all of it at once, each with its place and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
from pydantic import ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_go_duration

Path = tuple[str | int, ...]
"""Where a value is in a document: ``("pods", 3, "arrives")``."""

Fault = tuple[Path, str, str] | tuple[Path, str, str, Path]
"""Where, what, what to do; and the place of which ``{}`` in that is the line."""

_CLOSE = 0.6
_SHOWN_MAX = 100


class Place(NamedTuple):
    """A place in a file, both numbers from 1; 0 where it is not known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """``file:line:column``."""
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    Attributes:
        path: of the value, e.g. ``pods[3].arrives``; empty where there is none.
    """

    place: Place
    path: str
    message: str
    advice: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        text = f"{self.place}: {where}{self.message}"
        return f"{text} ({self.advice})" if self.advice else text


class Problems:
    """Problems as they are found."""

    def __init__(self, places: dict[Path, Place], default: Place) -> None:
        """Begin."""
        self._places = places
        self._default = default
        self.found: list[Problem] = []

    def place(self, path: Path) -> Place:
        """Of a value; of what holds it, if it is not there."""
        for length in range(len(path), -1, -1):
            if (place := self._places.get(path[:length])) is not None:
                return place
        return self._default

    def add(self, path: Path, message: str, advice: str = "") -> None:
        self.found.append(
            Problem(place=self.place(path), path=dotted(path), message=message, advice=advice)
        )

    def note(self, fault: Fault) -> None:
        """Note what a rule found."""
        path, message, advice, *other = fault
        if other:
            advice = advice.replace("{}", str(self.place(other[0]).line))
        self.add(path, message, advice)

    def inside(self, path: Path) -> bool:
        """Whether something is wrong with a value or within it."""
        text = dotted(path)
        return any(
            each.path == text or each.path.startswith((f"{text}.", f"{text}["))
            for each in self.found
        )


class ScenarioError(BadInputError):
    """A scenario cannot be run.

    Attributes:
        problems: all that is wrong, in the order of the file.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(
            set(problems), key=lambda each: (each.place, each.path, each.message)
        )
        first = self.problems[0]
        lines = [str(each) for each in self.problems[:_SHOWN_MAX]]
        if len(self.problems) > _SHOWN_MAX:
            lines.append(f"and {len(self.problems) - _SHOWN_MAX} problems more")
        super().__init__("\n".join(lines), file=first.place.file, line=first.place.line or None)

    def __str__(self) -> str:
        return self.message


def dotted(path: Path) -> str:
    """``pods[3].arrives``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def suggestion(name: str, known: Iterable[str], what: str = "") -> str:
    """``did you mean X?``, or which there are."""
    names = sorted({*known})
    close = difflib.get_close_matches(name, names, 3, _CLOSE)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return f"there is no {what}" if what else ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there are: {shown}"


# Rules between values: what they find, and how a model's validator reports it at its place.

T = TypeVar("T")

FAULT = "fault"
"""The type of pydantic's error that holds one."""


class Reading(NamedTuple):
    """The context of a validation.

    Attributes:
        end_ns: of the simulation; None where it is not known.
        rules: False lets through what breaks a rule, to check the rest.
    """

    end_ns: int | None = None
    rules: bool = True


def refuse(faults: Iterable[Fault], info: ValidationInfo | None = None) -> None:
    """Report faults from within a validator, their paths from its value on.

    Args:
        info: of the validation, for a rule that can be let through.

    Raises:
        ValidationError: there are any.
    """
    if info is not None and info.context is not None and not info.context.rules:
        return
    found = []
    for path, message, advice, *other in faults:
        error = PydanticCustomError(
            FAULT, "{message}", {"message": message, "advice": advice, "at": path, "other": other}
        )
        found.append(InitErrorDetails(type=error, loc=path, input=None))
    if found:
        raise ValidationError.from_exception_data("", found)


def rule(check: Callable[[Any], Iterable[Fault]]) -> Any:  # noqa: ANN401  (pydantic's own object)
    """Make a method that yields faults a validator of its model."""

    def run(self: T, info: ValidationInfo) -> T:
        refuse(check(self), info)
        return self

    return model_validator(mode="after")(run)


def twice(items: Iterable[tuple[Path, T]], message_of: Callable[[T], str]) -> Iterator[Fault]:
    """Values that are there already."""
    first: dict[T, Path] = {}
    for path, value in items:
        if value in first:
            advice = "it is already in line {}: keep one of them"
            yield path, message_of(value), advice, first[value]
        first.setdefault(value, path)


def in_order(items: Iterable[tuple[Path, int]]) -> Iterator[Fault]:
    """Times before the one before them."""
    before = 0
    for path, at_ns in items:
        if at_ns < before:
            is_at, after = format_go_duration(at_ns), format_go_duration(before)
            text = f"is at {is_at}, before the one before it at {after}"
            yield path, text, "put them in the order of time"
        before = max(before, at_ns)
