"""All messages that are known, by subsystem, and who hears them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from kubeledger.ingest.klog.router import LineHandler, Needs, Router
from kubeledger.ingest.klog.rows import Keys, Row, read_table
from kubeledger.ingest.messages.noise import NOISE

_TABLES = {
    file.stem: read_table(file.read_text("utf-8"), f"tables/{file.name}")
    for file in sorted(Path(__file__).with_name("tables").iterdir())
}

MESSAGES: dict[str, tuple[Row, ...]] = {name: table.rows for name, table in _TABLES.items()}
"""Subsystem -> its messages."""

KEYS: Mapping[str, Keys] = {
    message: keys for table in _TABLES.values() for message, keys in table.keys.items()
}
"""Message -> keys of its lines."""

NEEDED: Mapping[str, Needs] = {message: keys.needed for message, keys in KEYS.items()}
"""Message -> keys that its lines need, each with its alternatives."""


def router(listeners: Mapping[str, Sequence[LineHandler]]) -> Router:
    """Routes of all messages to those who listen, by message, in their order."""
    return Router(chain.from_iterable(MESSAGES.values()), NOISE, listeners, NEEDED)
