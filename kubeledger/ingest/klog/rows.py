"""One row a message of the kubelet: its words, the versions that log it, what it is read as.

Structured lines are told apart by their whole message, free text by the caller's file and a
pattern. A row names the message whose handlers get the line (``to``): so free text of an old
kubelet becomes the structured line that newer ones log in its place, and what reads lines
knows one form of each. A new message of the kubelet is one row:

* ``klog("Image ID has size", since="1.21")``: a structured line as it is;
* ``klog("ListAndWatch ended unexpectedly for device plugin", to="listAndWatch ended unexpectedly
  for device plugin", resourceName="resource")``: new words or keys for what another message says.
  Left stands the key of ``to``, right the key of the line: what the line has under ``resource``
  is read as ``resourceName``;
* ``text("manager.go", 'Needs to allocate {deviceNumber:int} "{resourceName}" ', to="Need devices to
  allocate for pod")``: free text, its fields named as the keys of ``to``; ``texts`` for several
  rows of one file;
* ``ignore("Add device")``, ``ignore_text("manager.go", "created deprecation file")``: understood,
  and nothing of it is recorded.

Which keys are read of a message, and which it needs, stands in ``messages/keys.py``.
Structured rows get a line in ``tests/ingest/messages/lines.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubeledger.ingest.klog.values import without_masks
from kubeledger.ingest.sources.items import LogLine

FORMATTED_POD = r'[^_\s",()]+_[^_\s",()]+\([^\s")]*\)'
"""Regular expression of ``name_namespace(uid)``, without groups."""

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}"
"""Regular expression of a time as Go prints it, without groups."""

_FIELD = re.compile(r"\{(?P<key>\w*)(?::(?P<kind>\w+))?\}")
_KINDS = {
    "field": r"[^\s,)]+",
    "int": r"-?\d+",
    "list": r"\[[^\]]*\]",
    "pod": FORMATTED_POD,
    "rest": r".*",
    "some": r".*?",
    "struct": r'\{"[^"]*" "[^"]+"\}',
    "time": TIME,
    "word": r"\S+",
}
"""What a field of free text may hold; without a kind it ends before the letter after it."""


class Regex(str):
    """Words of free text as a regular expression, in which ``.`` is any letter, newlines too."""

    __slots__ = ()


class Row(msgspec.Struct, frozen=True):
    """A message.

    Attributes:
        words: the whole message of a structured line, or of free text what it begins with, its
            values as ``{key}`` or ``{key:kind}``, or a ``Regex``.
        to: the structured message that it says; None: nothing is recorded of it.
        files: callers of free text; a structured message may come from any.
        keys: key of ``to`` -> key of the line, where they differ.
        constants: key of ``to`` -> value that the words themselves imply; in free text, and only
            there, ``{key}`` stands for a field.
        since, until: the first and the last minor version that logs it, as far as is known.
        pattern: regular expression of free text; None for a structured message. It is compiled when
            a line may fit it: in a log of one version most are never needed.
        integers: fields that are whole numbers.
    """

    words: str
    to: str | None
    files: tuple[str, ...] = ()
    keys: Mapping[str, str] = {}
    constants: Mapping[str, Any] = {}
    since: str | None = None
    until: str | None = None
    pattern: str | None = None
    integers: frozenset[str] = frozenset()

    @property
    def is_error(self) -> bool:
        """The whole text is an error's (``HandleError``), so none of severity I is it."""
        return self.pattern is not None and self.pattern.startswith("(?P<err>")

    def read(self, line: LogLine, match: re.Match[str] | None) -> None:
        """Give a line the values of ``to``.

        Args:
            line: changed in place.
            match: of the pattern of free text.
        """
        if match is not None:
            found = {key: value for key, value in match.groupdict().items() if value is not None}
            line.values = without_masks(
                {
                    **{key: self._constant(key, found) for key in self.constants},
                    **{k: int(v) if k in self.integers else v for k, v in found.items()},
                }
            )
        elif line.values is not None:
            for key, other in self.keys.items():
                if other in line.values:
                    line.values.setdefault(key, line.values[other])
            line.values.update(self.constants)

    def _constant(self, key: str, found: Mapping[str, str]) -> Any:  # noqa: ANN401 - of any type
        constants = self.constants[key]
        return constants.format(**found) if isinstance(constants, str) else constants


def klog(
    message: str,
    /,
    *,
    to: str | None = None,
    since: str | None = None,
    until: str | None = None,
    constants: Mapping[str, Any] | None = None,
    **keys: str,
) -> Row:
    """A structured message that is read."""
    return Row(
        message, to or message, keys=keys, constants=constants or {}, since=since, until=until
    )


def text(
    files: str | tuple[str, ...],
    words: str,
    /,
    *,
    to: str,
    since: str | None = None,
    until: str | None = "1.20",
    **constants: object,
) -> Row:
    """Free text that is read; structured logging replaced most of it in 1.21."""
    return Row(
        words,
        to,
        files=(files,) if isinstance(files, str) else files,
        constants=constants,
        since=since,
        until=until,
        pattern=words if isinstance(words, Regex) else _regex(words),
        integers=frozenset(
            field["key"] for field in _FIELD.finditer(words) if field["kind"] == "int"
        ),
    )


def texts(files: str | tuple[str, ...], rows: Mapping[str, str]) -> Iterable[Row]:
    """Free text of one caller up to 1.20: words -> message that they say."""
    return (text(files, words, to=to) for words, to in rows.items())


def ignore(*messages: str) -> Iterable[Row]:
    """Structured messages that are understood, and of which nothing is recorded."""
    return (Row(message, None) for message in messages)


def ignore_text(file: str, *patterns: str) -> Iterable[Row]:
    """The same for free text: regular expressions of its beginning."""
    return (Row(text, None, (file,), pattern=text) for text in patterns)


def _regex(words: str) -> str:
    """The pattern of a template's matches."""
    parts, at = [], 0
    for field in _FIELD.finditer(words):
        parts.append(re.escape(words[at : field.start()]))
        at = field.end()
        following = words[at : at + 1]
        if field["kind"]:
            value = _KINDS[field["kind"]]
        elif following:
            value = r"\S*" if following == " " else f"[^{re.escape(following)}]*"
        else:
            value = _KINDS["rest"]
        parts.append(f"(?P<{field['key']}>{value})" if field["key"] else f"(?:{value})")
    parts.append(re.escape(words[at:]))
    return "".join(parts)
