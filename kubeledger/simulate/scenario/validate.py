"""From a YAML or JSON file to models: every value with its place, every error at once.

A value that is wrong is left out and the rest read again, so that a wrong size in one image
does not hide a pod that is there twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path as FilePath
from typing import Any, TypeVar, get_args

import msgspec
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from kubeledger.ingest.sources.yaml_text import compose_yaml, scalar_of
from kubeledger.ledger.storage import read_regular
from kubeledger.model.errors import reason_of
from kubeledger.simulate.scenario.models import Pods, Scenario
from kubeledger.simulate.scenario.models_node import (
    Claim,
    DiskChanges,
    Failure,
    Image,
    Model,
    Plugin,
    Restart,
)
from kubeledger.simulate.scenario.problems import (
    FAULT,
    Path,
    Place,
    Problem,
    Problems,
    Reading,
    ScenarioError,
    dotted,
    suggestion,
)
from kubeledger.simulate.scenario.values import Span

BYTES_MAX = 64 << 20
"""No scenario, manifest or configuration is larger."""

_MERGE = "tag:yaml.org,2002:merge"


class Document(msgspec.Struct):
    """One document of a file.

    Attributes:
        places: path of a value -> where its key (of a member) or the value itself begins.
        problems: what is wrong with it as a text: a key twice, a key that is not text.
    """

    file: str
    data: Any = None
    places: dict[Path, Place] = {}
    problems: list[Problem] = []


def read_documents(file: FilePath) -> list[Document]:
    """The documents of a file.

    Raises:
        ScenarioError: it cannot be read, or is no YAML.
    """
    name = str(file)
    try:
        data = read_regular(file, BYTES_MAX, links=True)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL byte
        reason = reason_of(error).lower()
        raise _error(Place(name), f"cannot be read: {reason}", "check the path") from error
    return parse_documents(name, data)


def parse_documents(name: str, data: bytes) -> list[Document]:
    """The documents of a text; ``name`` is what problems call it.

    Raises:
        ScenarioError: it is no YAML.
    """
    if data.lstrip()[:1] == b"{":
        data = data.replace(b"\t", b" ")  # JSON may be indented with tabs, YAML not
    try:
        nodes = compose_yaml(data)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = Place(name, mark.line + 1, mark.column + 1) if mark else Place(name)
        what = getattr(error, "problem", None) or "an unexpected character"
        raise _error(place, f"is not valid YAML: {what}", "fix its syntax") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise _error(Place(name), f"cannot be read: {error}", "fix its encoding") from error
    try:
        return [_Reader(name).document(node) for node in nodes]
    except RecursionError:
        raise _error(Place(name), "cannot be read: nested too deep", "nest less") from None


def _error(place: Place, message: str, advice: str) -> ScenarioError:
    return ScenarioError([Problem(place=place, path="", message=message, advice=advice)])


class _Reader:
    """Turns nodes into data and keeps their places."""

    def __init__(self, file: str) -> None:
        self._document = Document(file=file)

    def document(self, root: yaml.Node) -> Document:
        self._document.places[()] = self._place(root)
        self._document.data = self._value(root, ())
        return self._document

    def _place(self, node: yaml.Node) -> Place:
        mark = node.start_mark
        return Place(self._document.file, mark.line + 1, mark.column + 1)

    def _problem(self, node: yaml.Node, path: Path, message: str, advice: str) -> None:
        # The place is the key's own: that of the path may be another's.
        self._document.problems.append(
            Problem(place=self._place(node), path=dotted(path), message=message, advice=advice)
        )

    def _value(self, node: yaml.Node, path: Path) -> Any:  # noqa: ANN401  (any JSON value)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, child in enumerate(node.value):
                self._document.places[(*path, index)] = self._place(child)
                items.append(self._value(child, (*path, index)))
            return items
        assert isinstance(node, yaml.ScalarNode)
        try:
            value = scalar_of(node)
        except ValueError:
            self._problem(node, path, "cannot be read", "write a text, a number, true or false")
            return None
        if isinstance(value, bytes | set):
            self._problem(node, path, "is of a type that JSON has not", "write a text")
            return None
        return self._text(node, path, value) if isinstance(value, str) else value

    def _text(self, node: yaml.Node, path: Path, text: str) -> str:
        """Without halves of characters of UTF-16, which a file may hold as escapes."""
        whole = text.encode(errors="replace").decode()
        if whole != text:
            advice = "write both halves of the character, or the character itself"
            self._problem(node, path, "holds half a character", advice)
        return whole

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        own: dict[str, int] = {}
        for key_node, child, merged in _members(node):
            key = self._key(key_node, path)
            if key is None or (merged and key in found):
                continue
            if not merged and key in own:
                advice = f"it is already in line {own[key]}: keep one of them"
                self._problem(key_node, (*path, key), "is there twice", advice)
                continue
            own[key] = self._place(key_node).line
            self._document.places[(*path, key)] = self._place(key_node)
            found[key] = self._value(child, (*path, key))
        return found

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        value = scalar_of(node) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, str):
            return value if self._text(node, path, value) == value else None
        if isinstance(node, yaml.ScalarNode) and isinstance(value, bool | int | float):
            return str(node.value)  # labels may look like numbers
        self._problem(node, path, "a key must be a text", "write it in quotes")
        return None


def _members(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node, bool]]:
    """(key, value, merged): its own first, then those of ``<<``."""
    merged: list[yaml.Node] = []
    for key, value in node.value:
        if key.tag == _MERGE:
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
        else:
            yield key, value, False
    for other in merged:
        if isinstance(other, yaml.MappingNode):
            for key, value, _ in _members(other):
                yield key, value, True


ModelT = TypeVar("ModelT", bound=BaseModel)
Groups = Sequence[tuple[int, Sequence[object]]]
"""Index of an entry of ``pods``, and its manifests."""

_LISTS: dict[str, type[Model]] = {
    "plugins": Plugin, "claims": Claim, "images": Image, "pods": Pods, "diskChanges": DiskChanges,
    "failures": Failure, "kubeletRestarts": Restart,
}  # fmt: skip
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
    model: type[ModelT], data: object, path: Path, problems: Problems, end_ns: int | None = None
) -> ModelT | None:
    """An object without what is wrong in it; None when that was needed.

    Args:
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
        others = ((*above, *other) for other in context["other"])
        problems.note((at, context["message"], context["advice"], *others))
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
