"""Where things stand in a lake, and what they are called. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from kubeledger.analyze.sql.derived import DERIVED
from kubeledger.ledger.names import node_directory

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
        sources: (n,) identities, in any order.
        chain: chain digest of the last record.
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
