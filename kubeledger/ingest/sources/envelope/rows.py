"""What the readers of rows give: a value, and where it is in the file."""

from __future__ import annotations

from typing import Any, NamedTuple

ROW_MAX = 16 << 20
"""Bytes of a row that is read whole; stores take messages of a few hundred thousand."""

BROKEN_MAX = 4096
"""Bytes that are kept of a row that cannot be read."""


class RawRow(NamedTuple):
    """One row of a file.

    Attributes:
        begin, end: its bytes in the file.
        line: in which it begins, from 0.
        value: what it holds; None where it cannot be read.
        text: the beginning of a row that cannot be read.
        key: equal for rows of the same bytes.
    """

    begin: int
    end: int
    line: int
    value: dict[str, Any] | None
    text: bytes = b""
    key: int = 0
