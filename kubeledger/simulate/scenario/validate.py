"""From data to models: every error at once, and what is sound kept for further checks.

A value that is wrong is left out and the rest read again, so that a wrong size in one image
does not hide a pod that is there twice.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar, get_args

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from kubeledger.simulate.scenario.faults import FAULT, Reading
from kubeledger.simulate.scenario.models import Scenario
from kubeledger.simulate.scenario.models_base import Model
from kubeledger.simulate.scenario.models_claims import Claim
from kubeledger.simulate.scenario.models_failures import Failure
from kubeledger.simulate.scenario.models_node import DiskChanges, Image, Plugin, Restart
from kubeledger.simulate.scenario.models_pods import Pods
from kubeledger.simulate.scenario.problems import Path, Problems, suggestion
from kubeledger.simulate.scenario.values import Span

ModelT = TypeVar("ModelT", bound=BaseModel)

_LISTS: dict[str, type[Model]] = {
    "plugins": Plugin,
    "claims": Claim,
    "images": Image,
    "pods": Pods,
    "diskChanges": DiskChanges,
    "failures": Failure,
    "kubeletRestarts": Restart,
}
_STAND_INS = {"kubeletVersion": "1.36.2", "duration": "100000h"}
"""For required values that are wrong, so that nothing else seems wrong because of them."""

_WORDS = {
    "bool_type": ("must be true or false", "write true or false, without quotes"),
    "dict_type": ("must be a mapping of keys to values", "write `key: value` below it"),
    "int_type": ("must be a whole number", "write digits alone, without quotes"),
    "list_type": ("must be a list", "write its items one a line, each after a dash"),
    "model_type": ("must be a mapping of keys to values", "write `key: value` below it"),
    "string_type": ("must be a text", "put it in quotes"),
    "string_pattern_mismatch": ("must match {pattern}", "see the reference of its key"),
    "string_too_short": ("must not be empty", "fix the value"),
    "too_short": ("must not be empty", "fix the value"),
    "value_error": ("{error}", "fix the value"),
    "literal_error": ("must be {expected}", "fix the value"),
    "greater_than_equal": ("must be at least {ge}", "fix the value"),
    "less_than_equal": ("must be at most {le}", "fix the value"),
    "less_than": ("must be less than {lt}", "fix the value"),
}
"""Type of pydantic's error -> what is wrong, what to do."""


class Sound(msgspec.Struct):
    """What is left of a scenario when all that is wrong in it is left out.

    Attributes:
        scenario: without the lists.
        items: key of a list -> (index in the file, item).
        incomplete: keys of lists of which something is left out.
    """

    scenario: Scenario
    items: dict[str, list[tuple[int, Any]]]
    incomplete: set[str]


def validate(data: dict[str, Any], problems: Problems) -> Sound:
    """Read data as a scenario; what is wrong is noted."""
    top = dict(data)
    end_ns = _end_of(data)
    items: dict[str, list[tuple[int, Any]]] = {}
    incomplete: set[str] = set()
    for key, model in _LISTS.items():
        items[key] = []
        given = top.get(key)
        if not isinstance(given, list):
            continue
        top[key] = []
        for index, item in enumerate(given):
            sound = read(model, item, (key, index), problems, end_ns)
            if sound is None:
                incomplete.add(key)
            else:
                items[key].append((index, sound))
    scenario = read(Scenario, top, (), problems, end_ns)
    assert scenario is not None  # stand-ins fill what is required
    return Sound(scenario, items, incomplete)


def _end_of(data: dict[str, Any]) -> int | None:
    try:
        return TypeAdapter(Span).validate_python(data.get("duration"))
    except ValidationError:
        return None


def read(
    model: type[ModelT],
    data: object,
    path: Path,
    problems: Problems,
    end_ns: int | None = None,
) -> ModelT | None:
    """An object without what is wrong in it; None when that was needed.

    Args:
        path: where it stands.
        problems: where what is wrong is noted.
        end_ns: of the simulation, where it is known.
    """
    left, is_first, rules = data, True, True
    while True:
        try:
            return model.model_validate(left, context=Reading(end_ns, rules))
        except ValidationError as error:
            details = error.errors(include_url=False)
        for each in details:
            # What only seems wrong because something was taken out is not noted.
            at = (*path, *_steps(each["loc"], left))
            if is_first or (each["type"] == FAULT and not problems.inside(at)):
                _note(model, each, left, path, problems)
        if is_first:
            left, is_first = deepcopy(data), False
        if not isinstance(left, dict):
            return None
        wrong = [each for each in details if each["type"] != FAULT or not rules]
        pruned = [_prune(left, each, path) for each in wrong]
        if None in pruned or (wrong and not any(pruned)):
            return None
        rules = bool(wrong) and rules


def _prune(data: dict[str, Any], error: ErrorDetails, path: Path) -> bool | None:
    """Take a wrong value out, or what holds it when it is needed there.

    Returns:
        Whether it was there still; None: all of the object would have to go.
    """
    steps = _steps(error["loc"], data)
    if error["type"] == "missing":
        if not path and len(steps) == 1 and steps[0] in _STAND_INS:
            data[str(steps[0])] = _STAND_INS[str(steps[0])]
            return True
        steps = steps[:-1]
    while steps and not isinstance(steps[-1], str):
        steps = steps[:-1]
    if not steps:
        return None
    holder: Any = data
    for step in steps[:-1]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):
            return False  # it went with another value
    return isinstance(holder, dict) and holder.pop(steps[-1], holder) is not holder


def _note(
    model: type[BaseModel], error: ErrorDetails, data: object, path: Path, problems: Problems
) -> None:
    steps = _steps(error["loc"], data)
    kind, context = error["type"], error.get("ctx", {})
    at = (*path, *steps)
    if kind == FAULT:
        above = at[: len(at) - len(context["at"])]
        problems.note(
            (
                at,
                context["message"],
                context["advice"],
                *((*above, *other) for other in context["other"]),
            )
        )
    elif kind == "missing":
        problems.add(at, "is missing", f"add `{steps[-1]}: ...`")
    elif kind == "extra_forbidden":
        known = _keys(model, steps[:-1])
        problems.add(at, "there is no such key", suggestion(str(steps[-1]), known))
    else:
        words, advice = _WORDS.get(kind, (error["msg"][:1].lower() + error["msg"][1:], "fix it"))
        problems.add(at, f"{words.format(**context)}{_given(error['input'])}", advice)


def _given(value: object) -> str:
    if isinstance(value, dict | list):
        return ""
    text = "nothing" if value is None else repr(value)
    return f", not {text if len(text) <= 60 else text[:57] + '...'}"


def _steps(loc: tuple[int | str, ...], data: Any) -> Path:  # noqa: ANN401  (any JSON value)
    """The location without the names of union branches, which stand nowhere in the data."""
    steps: list[str | int] = []
    for number, step in enumerate(loc):
        last = number == len(loc) - 1
        is_index = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if is_index or (isinstance(data, dict) and step in data):
            data = data[step]
        elif not (last and isinstance(data, dict)) or step in {"one", "many"}:
            continue
        steps.append(step)
    return tuple(steps)


def _keys(model: type[BaseModel], path: Path) -> list[str]:
    """Keys that an object somewhere below a model may have."""
    found: Any = model
    for step in path:
        models = _models_in(found)
        hints = [
            field.annotation
            for each in models
            for field_name, field in each.model_fields.items()
            if (field.alias or field_name) == step
        ]
        if hints:
            found = hints[0]
    return [
        field.alias or name
        for each in _models_in(found)
        for name, field in each.model_fields.items()
    ]


def _models_in(hint: Any) -> list[type[BaseModel]]:  # noqa: ANN401  (any annotation)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return [hint]
    return [model for each in get_args(hint) for model in _models_in(each)]
