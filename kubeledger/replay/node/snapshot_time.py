"""When a snapshot was taken, from the names of the directories and files that hold it."""

from __future__ import annotations

import re

from kubeledger.model.units import parse_ts

SNAPSHOT_NAME = re.compile(
    r"(?P<year>20\d\d)-?(?P<month>\d\d)-?(?P<day>\d\d)[T_-]?"
    r"(?P<hour>\d\d)[:-]?(?P<minute>\d\d)[:-]?(?P<second>\d\d)(?P<fraction>[.,]\d+)?Z?"
)
"""``20261121T025401Z``, ``20261121T025401.296Z``, ``2026-11-21T02:54:01Z``,
``2026-11-21_02-54-01``; UTC."""

_INSIDE = re.compile(rf"(?<!\d)(?:{SNAPSHOT_NAME.pattern})(?!\d)")


def time_in_name(name: str) -> int | None:
    """Nanoseconds since the epoch of the innermost path element that holds a time."""
    for part in reversed(name.split("/")):
        for match in _INSIDE.finditer(part):
            parts = match.groupdict(default="")
            text = "{year}-{month}-{day}T{hour}:{minute}:{second}{fraction}Z".format(**parts)
            try:
                return parse_ts(text)
            except ValueError:
                continue
    return None
