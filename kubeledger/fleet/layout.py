"""Where things stand in a lake, what they are called, and its small files of JSON with a CRC."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from kubeledger.analyze.sql.ledger_tables import DERIVED
from kubeledger.fleet.types import Compacted, Head
from kubeledger.ledger.sealing import sealed, unsealed
from kubeledger.ledger.storage import node_directory
from kubeledger.model.errors import DamagedLedgerError

LAYOUT = 2
"""Version of the layout; a lake of a higher one is refused. The small files of 1 have no CRC."""

LAKE = "lake.json"
DONE = "done/"
LEDGERS = "ledgers/"
NODES = "nodes/"
CLAIMS = "claims/"
FAILURES = "failures/"
COMPACT = "compact/"
INDEX = "index/"
ROW_ROOMS = ("records", "verdicts", *(table.room for table in DERIVED.values()))
"""Folders of rows, a file for each node and date."""

_DIGEST_BYTES = 16


def run_id(sources: Sequence[str], chain: str, rules: str, *labels: str | None) -> str:
    """ID of a generation: the same for the same sources, records, rules and labels.

    Args:
        labels: what else is in the node's row.

    Returns:
        32 hex digits.
    """
    text = "\n".join([*sorted(sources), chain, rules, *(label or "" for label in labels)])
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def rows_path(room: str, date: str, node: str, id_: str) -> str:
    """Records, verdicts or episodes (a room of rows) of a node, by its key, and a date."""
    return f"{room}/date={date}/node={node_directory(node)}/{id_}.parquet"


def summary_path(node: str, id_: str) -> str:
    """The node's row."""
    return f"{NODES}{node_directory(node)}/{id_}.parquet"


def ledger_path(node: str, id_: str) -> str:
    """The node's sealed ledger."""
    return f"{LEDGERS}{node_directory(node)}/{id_}.tar.zst"


def compact_path(room: str, date: str, paths: Sequence[str]) -> str:
    """One file with the rows of these: ``room`` is as of ``rows_path``."""
    digest = hashlib.blake2b("\n".join(sorted(paths)).encode(), digest_size=_DIGEST_BYTES)
    return f"{COMPACT}{room}/date={date}/{digest.hexdigest()}.parquet"


def done_of(node: str) -> str:
    """Prefix of a node's markers."""
    return f"{DONE}{node_directory(node)}/"


def done_path(node: str, id_: str) -> str:
    """The marker of a generation."""
    return f"{done_of(node)}{id_}.json"


def claims_of(node: str) -> str:
    """Prefix of a node's claims."""
    return f"{CLAIMS}{node_directory(node)}/"


def claim_path(node: str, generation: int) -> str:
    """The claim of a generation; names sort by generation."""
    return f"{claims_of(node)}{generation:010d}.json"


def node_of(path: str) -> str:
    """The node of a file of one node, as directories call it."""
    return path.split("/")[-2].removeprefix("node=")


def failure_path(source: str) -> str:
    """The failure of a source, by its URL."""
    digest = hashlib.blake2b(source.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{FAILURES}{digest}.json"


# The small files of a lake: what is in them, and how: JSON with a CRC over itself.

_T = TypeVar("_T")


class LakeFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``lake.json``."""

    format: str = "kubeledger lake"
    layout: int = LAYOUT


class Marked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a marker says, and the tag of the object in which it was read."""

    tag: str
    head: Head


class Index(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``index/ID.json``: markers by their paths, so that not each must be read."""

    markers: dict[str, Marked] = {}


class CompactIndex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``compact/ID.json``: the compacted files that count."""

    files: tuple[Compacted, ...]


def encoded(value: msgspec.Struct) -> bytes:
    """A value as JSON, the same bytes for the same value."""
    return sealed(value)


def decoded(content: bytes, type_: type[_T], place: str) -> _T:
    """The value of a file.

    Raises:
        DamagedLedgerError: it holds none.
    """
    found = unsealed(content, type_)
    if found is not None:
        return found
    try:
        return msgspec.json.decode(content, type=type_)  # of layout 1, which has no CRC
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = "its CRC does not fit" if b'"crc"' in content else str(error)
        raise DamagedLedgerError(
            f"cannot be read: {reason}",
            advice="it was changed by something else: `kubeledger fleet repair` repairs it",
            file=place,
        ) from error
