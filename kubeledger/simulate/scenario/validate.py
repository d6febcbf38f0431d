"""From data to models: every type error at once, and what is sound kept for further checks.

A value that is wrong is left out and the rest read again, so that a wrong size in one image
does not hide a pod that is there twice.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kubeledger.simulate.scenario.models import Scenario
from kubeledger.simulate.scenario.models_base import Model
from kubeledger.simulate.scenario.models_node import DiskChanges, Image, Plugin, Restart
from kubeledger.simulate.scenario.models_pods import Pods
from kubeledger.simulate.scenario.problems import Path, Problems, suggestion

__all__ = ["Sound", "validate"]

ModelT = TypeVar("ModelT", bound=Model)

_LISTS: dict[str, type[Model]] = {
    "plugins": Plugin,
    "images": Image,
    "pods": Pods,
    "diskChanges": DiskChanges,
    "kubeletRestarts": Restart,
}
_STAND_INS = {"kubeletVersion": "1.36.2", "duration": "100000h"}
"""For required values that are wrong, so that nothing else seems wrong because of them."""

_WORDS = {
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping of keys to values",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "model_type": "must be a mapping of keys to values",
    "string_type": "must be a text",
    "string_unicode": "must be a text of whole characters",
    "string_pattern_mismatch": "has the wrong form",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}
_ADVICE = {
    "bool_type": "write true or false, without quotes",
    "int_type": "write digits alone, without quotes",
    "list_type": "write its items one a line, each after a dash",
    "string_type": "put it in quotes",
    "string_pattern_mismatch": "use lower case letters, digits and dashes",
}


class Sound:
    """What is left of a scenario when all that is of a wrong type is left out.

    Attributes:
        scenario: without the lists.
        items: key of a list -> (index in the file, item).
        incomplete: keys of lists of which something is left out.
    """

    def __init__(
        self,
        scenario: Scenario,
        items: dict[str, list[tuple[int, Any]]],
        incomplete: frozenset[str] = frozenset(),
    ) -> None:
        self.scenario = scenario
        self.items = items
        self.incomplete = incomplete

    def whole(self) -> Scenario:
        """With the lists."""
        lists = {
            "plugins": [each for _, each in self.items["plugins"]],
            "pods": [each for _, each in self.items["pods"]],
            "disk_changes": [each for _, each in self.items["diskChanges"]],
            "kubelet_restarts": [each for _, each in self.items["kubeletRestarts"]],
        }
        images = self.scenario.images
        if images is not None:
            images = [each for _, each in self.items["images"]]
        return self.scenario.model_copy(update={**lists, "images": images})


def validate(data: dict[str, Any], problems: Problems) -> Sound:
    """Read data as a scenario; what is wrong is noted."""
    top = dict(data)
    items: dict[str, list[tuple[int, Any]]] = {}
    incomplete: set[str] = set()
    for key, model in _LISTS.items():
        items[key] = []
        given = top.get(key)
        if not isinstance(given, list):
            continue
        top[key] = []
        for index, item in enumerate(given):
            sound = _read(model, item, (key, index), problems)
            if sound is None:
                incomplete.add(key)
            else:
                items[key].append((index, sound))
    scenario = _read(Scenario, top, (), problems)
    assert scenario is not None  # stand-ins fill what is required
    return Sound(scenario, items, frozenset(incomplete))


def _read(model: type[ModelT], data: object, path: Path, problems: Problems) -> ModelT | None:
    """An object without what is wrong in it; None when that was needed."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    for each in details:
        _note(model, each, data, path, problems)
    left = deepcopy(data)
    while True:
        if not isinstance(left, dict) or not all(_prune(left, each, path) for each in details):
            return None
        try:
            return model.model_validate(left)
        except ValidationError as error:
            details = error.errors(include_url=False)


def _prune(data: dict[str, Any], error: ErrorDetails, path: Path) -> bool:
    """Take a wrong value out, or what holds it when it is needed there; False: that is all."""
    steps = _steps(error["loc"], data)
    if error["type"] == "missing":
        if not path and len(steps) == 1 and steps[0] in _STAND_INS:
            data[str(steps[0])] = _STAND_INS[str(steps[0])]
            return True
        steps = steps[:-1]
    if error["type"] == "string_unicode" and _drop_unreadable_keys(data, steps):
        return True
    while steps and not isinstance(steps[-1], str):
        steps = steps[:-1]
    if not steps:
        return False
    holder: Any = data
    for step in steps[:-1]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):
            return True  # it went with another value
    if isinstance(holder, dict):
        holder.pop(steps[-1], None)
    return True


def _drop_unreadable_keys(data: dict[str, Any], steps: Path) -> bool:
    """Take out the keys of an object that are no text; whether there were any.

    Half a character of UTF-16, which a file may hold as an escape, is none.
    """
    holder: Any = data
    for step in steps:
        holder = holder[step]
    if not isinstance(holder, dict):
        return False
    unreadable = [key for key in holder if key.encode(errors="ignore").decode() != key]
    for key in unreadable:
        del holder[key]
    return bool(unreadable)


def _note(
    model: type[Model], error: ErrorDetails, data: object, path: Path, problems: Problems
) -> None:
    steps = _steps(error["loc"], data)
    kind, context = error["type"], error.get("ctx", {})
    at = (*path, *steps)
    if kind == "missing":
        name = steps[-1]
        problems.add(at, "is missing", f"add `{name}: ...`")
    elif kind == "extra_forbidden":
        known = _keys(model, steps[:-1])
        problems.add(at, "there is no such key", suggestion(str(steps[-1]), known))
    else:
        problems.add(at, f"{_words(kind, error, context)}{_given(error['input'])}", _advice(kind))


def _words(kind: str, error: ErrorDetails, context: dict[str, Any]) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be {context['expected']}"
    for word, text in (
        ("ge", "at least"),
        ("gt", "more than"),
        ("le", "at most"),
        ("lt", "less than"),
    ):
        if word in context:
            return f"must be {text} {context[word]}"
    return error["msg"][:1].lower() + error["msg"][1:]


def _given(value: object) -> str:
    if isinstance(value, dict | list):
        return ""
    text = "nothing" if value is None else repr(value)
    return f", not {text if len(text) <= 60 else text[:57] + '...'}"


def _advice(kind: str) -> str:
    return _ADVICE.get(kind, "fix the value")


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
