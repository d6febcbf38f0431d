"""The shape of a line of severity W, E or F: its message without its values.

Two lines that one call wrote have one shape, whatever pod, image or time they name; each try of
what fails again and again has the shape of the first.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kubeledger.ingest.klog.line_values import go_text
from kubeledger.ingest.sources.items import LogLine

_SHAPE_LENGTH = 240
_TEXT_LENGTH = 4096
"""More of a message is not looked at."""
_BEGIN = r"""(?<![^\s,;:=()\[\]{}"'])"""
"""Where a word begins: to search in its midst would look at each letter many times."""
_QUOTED = re.compile(
    rf"""
      "[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)
    | {_BEGIN}(?:'[^']*(?:'(?!\w)|\Z) | [^_\s",()\[]++_[^_\s",()]++\([^\s")]*\))
    """,
    re.VERBOSE | re.DOTALL,
)
"""What stands in quotes; a pod with its UID."""
_INNERMOST = re.compile(r"\{[^{}]*\}|(?<!^)\[(?![^\[\]]*, [A-Za-z])[^\[\]]*\]")
"""Go's values; ``[one error, another]`` and ``[cpumanager]`` at the beginning are words."""
_OPEN = re.compile(r"\{.*\Z", re.DOTALL)
_VALUE = re.compile(
    rf"""{_BEGIN}(?:
      (?P<kept>\*?v\d+(?:(?:alpha|beta)\d+)?\.[A-Z]\w+)  # a type of the API
    | \d{{4}}-\d\d-\d\d[ ]\d\d:\d\d:\d\d\S*(?:[ ][+-]\d{{4}})?(?:[ ][A-Z]{{3,4}}\b)?(?:[ ]m=\S+)?
    | [a-z]++://[^\s,"]*
    | (?<=feature[ ]gate:[ ])\w+ | (?<=feature[ ]gate[ ])\w+=\w+
    | [^\s,;:=()\[\]{{}}"'\d/]*+[\d/](?:[^\s,;:()\[\]{{}}"']|:(?=\w))*+
    )""",
    re.VERBOSE,
)
_RUN = re.compile(r"\*(?:[\s.:,+=-]*\*)+(?!v\d)")


def error_shape(line: LogLine) -> str:
    """The message's constant words and those of its error: what failed, and how."""
    message = line.message
    error = dict.get(line.values, "err") if line.values else None
    if error is not None:
        message = f"{message}: {go_text(error)}"
    return _constant(message.partition("\n")[0][:_TEXT_LENGTH])


@lru_cache(4096)
def _constant(text: str) -> str:
    words, groups = _QUOTED.sub("*", text), 1
    while groups:
        words, groups = _INNERMOST.subn("*", words)
    words = _OPEN.sub("*", words)
    words = _VALUE.sub(lambda value: value["kept"] or "*", words)
    return _RUN.sub("*", words)[:_SHAPE_LENGTH].rstrip(" :,") or "(no words)"
