"""What a line of the pod lifecycle event generator holds."""

from __future__ import annotations

import re
from typing import Any

_EVENT = re.compile(r'ID:"?([^\s",]+)"?,? Type:"?(\w+)"?,? Data:"?([^\s",}]+)')


def pleg_event(event: Any) -> tuple[str | None, str, str]:  # noqa: ANN401 - decoded value
    """Pod UID, type and container ID of a ``PodLifecycleEvent``, as JSON or as Go text."""
    if isinstance(event, dict):
        uid, data = event.get("ID"), event.get("Data")
        return uid or None, str(event.get("Type") or ""), data if isinstance(data, str) else ""
    match = _EVENT.search(str(event))
    return (match[1], match[2], match[3]) if match else (None, "", "")
