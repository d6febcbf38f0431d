"""What verification reads of the text of a line: a few words, and a few parts behind such words.

Whoever shows records without their lines keeps these (:func:`reduced`), or verdicts change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

EVENT_SENT: Final = "event.go:"
"""Logs what is sent to the API server: a filter may leave these lines and take the others."""

SYNC_FAILED: Final = "Error syncing pod"
HINTS: Final = "TopologyHints"
HINTS_OF_A_POD: Final = "TopologyHints for pod"
NO_HINT: Final = "no possible NUMA affinities"
_EVENT: Final = "Event occurred"
_EVICTED: Final = "evicted successfully"

Form = tuple[str, re.Pattern[str]]
"""Words of a line, and how it shows a fact: what may be anything in it has a name."""

_SAYS: Final = r' reason="(?P<reason>[^"]*)" message="(?P<message>(?:[^"\\]|\\.)*)"'
_STATUS: Final = r"\{Failed \[\] (?P<message>.*) (?P<reason>\w+)    \["
_ERROR: Final = r' err="(?P<message>(?:[^"\\]|\\.)*)"$'

ENDS: Final[tuple[Form, ...]] = (
    (_EVENT, re.compile(_SAYS)),
    ("Pod admission denied", re.compile(_SAYS)),
    ("Status Manager: adding pod", re.compile(_STATUS)),
    ("Predicate failed on Pod", re.compile(_ERROR)),
)
"""Reason and message of a pod's end."""

KILLS: Final[tuple[Form, ...]] = (
    (_EVENT, re.compile(r' message="Container (?P<container>\S+) failed (?P<probe>\w+) probe')),
)
"""The probe for which a container is killed."""

VICTIMS: Final[tuple[Form, ...]] = (
    (_EVENT, re.compile(r' object="(?P<namespace>[^/" ]+)/(?P<name>[^/" ]+)"')),
    (_EVICTED, re.compile(r' pod="(?P<namespace>[^/" ]+)/(?P<name>[^/" ]+)"')),
    (_EVICTED, re.compile(r" pod (?P<name>[^ _]+)_(?P<namespace>[^ _(]+)\(")),
)
"""The victim of a preemption."""

_RESOURCES: Final[tuple[Form, ...]] = ((NO_HINT, re.compile(r"'(?P<resource>[^' ]+)'")),)
_CUT_FROM: Final = 512
_PLAIN: Final = re.compile(r"[\n\t -~]*")
_ESCAPED: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "t": "\t"}
_UNESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})


def is_plain(text: str) -> bool:
    """Whether every form of a log line gives it back unchanged."""
    return _PLAIN.fullmatch(text) is not None


def may_be_cut(text: str) -> bool:
    """Whether it is so long that it may have been cut where it was sent or written."""
    return len(text) >= _CUT_FROM


def unescaped(text: str) -> str:
    """A text between quotes."""
    return _ESCAPED.sub(lambda one: _ESCAPES.get(one[1], one[1]), text)


def file_of_cgroup(text: str) -> str:
    """The file that a line of a snapshot of cgroups is of, as ``/cpu.shares``."""
    return f"/{text.split(' ', 1)[0].rpartition('/')[2]}"


def reduced(
    text: str,
    hide: Callable[[dict[str, str]], dict[str, str]],
    is_file: Callable[[str], bool],
) -> str:
    """What is read of a line, and nothing else.

    Args:
        text: of the line.
        hide: what takes the place of the parts of a fact, by their names in the forms above.
        is_file: whether a name is one of a cgroup's files.
    """
    said = [words for words in (EVENT_SENT, SYNC_FAILED, HINTS_OF_A_POD, NO_HINT) if words in text]
    if HINTS in text and HINTS_OF_A_POD not in said:
        said.append(HINTS)
    if is_file((file := file_of_cgroup(text)).removeprefix("/")):
        said.insert(0, file)
    for words, form in (*VICTIMS, *KILLS, *_RESOURCES, *ENDS):
        found = form.search(text) if words in text else None
        if found is not None and _is_whole(found):
            said += [words, _with(found, hide)]
    return " ".join(dict.fromkeys(said))


def _is_whole(found: re.Match[str]) -> bool:
    """What may be cut, or changed on its way, contradicts nothing."""
    message = found.groupdict().get("message", "")
    return is_plain(message) and not may_be_cut(message)


def _with(found: re.Match[str], hide: Callable[[dict[str, str]], dict[str, str]]) -> str:
    """The match, its parts replaced."""
    parts = {name: unescaped(part) for name, part in found.groupdict().items()}
    whole, shift = found[0], found.start()
    hidden = hide(parts)
    for name in sorted(parts, key=found.start, reverse=True):
        begin, end = (at - shift for at in found.span(name))
        whole = whole[:begin] + hidden[name].translate(_UNESCAPED) + whole[end:]
    return whole
