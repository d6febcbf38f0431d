"""Foreign JSON and YAML made plain: values that a ledger can hold, and nothing else.

What had to be changed is stated in words, once for each kind of change.
"""

from __future__ import annotations

import math
import re
from typing import Any

DEPTH_MAX = 200
"""Levels of lists and maps in a document; API objects have about twenty."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_LOW, _HIGH = -(1 << 63), (1 << 64) - 1


def plain(value: Any, flaws: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    """The value with what JSON or Unicode cannot hold replaced; itself where nothing has to be.

    Args:
        value: from a JSON or YAML decoder.
        flaws: what was replaced is appended, in words, each kind once.

    Raises:
        ValueError: nested too deep.
    """
    return value if _is_plain(value) else _replaced(value, flaws, 0)


def _is_plain(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Nothing in it has to be replaced, and it is nested less deep than it may be.

    Most files are so, and looking costs a fraction of making a copy.
    """
    level: list[Any] = [[value]]
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for each in level:
            if type(each) is dict:
                for key in each:
                    if type(key) is not str or not (
                        key.isascii() or _SURROGATE.search(key) is None
                    ):
                        return False
                each = each.values()
            for member in each:
                kind = type(member)
                if kind is str:
                    if not member.isascii() and _SURROGATE.search(member):
                        return False
                elif kind is dict or kind is list:
                    below.append(member)
                elif kind is int:
                    if not _LOW <= member <= _HIGH:
                        return False
                elif kind is float:
                    if not math.isfinite(member):
                        return False
                elif member is not None and kind is not bool:
                    return False
        if not below:
            return True
        level = below
    return False


def _replaced(value: Any, flaws: list[str], depth: int) -> Any:  # noqa: ANN401 - any JSON value
    if depth > DEPTH_MAX:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        return {
            _key(key, flaws): _replaced(member, flaws, depth + 1) for key, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replaced(member, flaws, depth + 1) for member in value]
    if isinstance(value, str):
        return _text(value, flaws)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if _LOW <= value <= _HIGH:
            return value
        note(flaws, "a number of more than 64 bits was left out")
        return None
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        note(flaws, "a value that is not a number (NaN or infinite) was left out")
        return None
    note(flaws, f"a value that JSON has not ({type(value).__name__}) was left out")
    return None


def _text(text: str, flaws: list[str]) -> str:
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    note(flaws, "half a character (a lone surrogate) was replaced")
    return _SURROGATE.sub("\ufffd", text)


def _key(key: object, flaws: list[str]) -> str:
    """A key as Kubernetes reads YAML: numbers and booleans become their text."""
    if isinstance(key, str):
        return _text(key, flaws)
    note(flaws, "a key that is not text was taken as one")
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def note(flaws: list[str], text: str) -> None:
    """Take down what was replaced, each kind once."""
    if text not in flaws:
        flaws.append(text)


def normal_message(text: str) -> str:
    """A message without the one newline that it may end with."""
    return text[:-1] if text.endswith("\n") else text


def object_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """The value; one without members where it is no object."""
    return value if isinstance(value, dict) else {}


def is_of_api(pod: dict[str, Any]) -> bool:
    """Whether it came through an API server, and is no manifest; its status may be taken away."""
    return "status" in pod or bool(object_of(pod.get("metadata")).get("creationTimestamp"))
