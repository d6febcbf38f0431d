"""A YAML or JSON file as data, with the place of every value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import msgspec
import yaml

from kubeledger.ingest.sources.yaml_text import compose_yaml, scalar_of
from kubeledger.ledger.regular import read_regular
from kubeledger.simulate.scenario.problems import Path, Place, Problem, ScenarioError, dotted

BYTES_MAX = 64 << 20
"""No scenario, manifest or configuration is larger."""

_MERGE = "tag:yaml.org,2002:merge"


class Document(msgspec.Struct):
    """One document of a file.

    Attributes:
        file: its name as the user gave it.
        data: what it says.
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
        reason = ((error.strerror if isinstance(error, OSError) else "") or str(error)).lower()
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
