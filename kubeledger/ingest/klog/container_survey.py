"""What a log shows of its containers late, looked for before it is read.

The PLEG logs the ID of a new container, and nothing else of a terse log (``-v=2``) says
which container it is, until it is killed: that line holds both. To know it from the first
line on, all kills of a log are looked at beforehand, bounded by the number of containers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NamedContainer = tuple[str, str, str]
"""Bare container ID, pod UID, container's name."""

NAMING = (
    b"Killing container with a grace period",
    b"Killing unwanted container ",
    b'"}) of pod ',
)
"""What the lines hold that show an ID and its name."""

_MESSAGE = re.compile(
    rb'(?:^|"|\] )Container \\?"([^"\\]+)\\?" \(\{\\?"[^"\\]*\\?" \\?"([^"\\]+)\\?"\}\)'
    rb" of pod [^\s(]+\(([^\s()]+)\): "
)
_UNWANTED = re.compile(
    rb'Killing unwanted container \\?"([^"\\]+)\\?"\(id=\{\\?"[^"\\]*\\?" \\?"([^"\\]+)\\?"\}\)'
    rb' for pod \\?"[^\s(]+\(([^\s()]+)\)'
)
_NAME = re.compile(rb'[ ,]"?containerName"?[=:]"([^"\\]+)"')
_UID = re.compile(rb'[ ,]"?podUID"?[=:]"([^"\\]+)"')
_ID = re.compile(
    rb'[ ,]"?containerID"?[=:](?:"(?:[a-z][\w.+-]*://)?|\{"?Type"?:"?[\w.+-]*"?[ ,]"?ID"?:"?)'
    rb'([^"\\}\s]+)'
)


def named_container(body: bytes) -> NamedContainer | None:
    """What a log line (without a carrier's prefix) shows; None when it names no container."""
    for found in _found(body):
        container_id, uid, name = (value.decode("utf-8", "replace") for value in found)
        return container_id, uid, name
    return None


def _found(body: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    for pattern in (_MESSAGE, _UNWANTED):
        match = pattern.search(body)
        if match is not None:
            yield match[2], match[3], match[1]
    values = [pattern.search(body) for pattern in (_ID, _UID, _NAME)]
    if all(values):
        container_id, uid, name = (value[1] for value in values if value is not None)
        yield container_id, uid, name
