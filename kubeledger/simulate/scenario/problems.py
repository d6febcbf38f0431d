"""What is wrong with a scenario: all of it at once, each with its place and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kubeledger.model.errors import BadInputError

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
        place: where.
        path: of the value, e.g. ``pods[3].arrives``; empty where there is none.
        message: what.
        advice: what to do about it.
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
        """Begin.

        Args:
            places: of the values.
            default: of what stands nowhere.
        """
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
        super().__init__(
            "\n".join(lines),
            file=first.place.file,
            line=first.place.line or None,
        )

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
