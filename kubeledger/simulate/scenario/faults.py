"""Rules between values: what they find, and how a model's validator reports it at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from kubeledger.model.units import format_go_duration
from kubeledger.simulate.scenario.problems import Fault, Path

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
        faults: what a rule found.
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
