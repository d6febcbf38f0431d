"""Lakes for tests: a ledger of one node becomes the node's next generation, as by an import."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from kubeledger.fleet.generation import commit_generation
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.types import Head, NodeSummary, SourceSeen
from kubeledger.ledger.ledger import Ledger


def put_node(lake: Lake, ledger: Path, key: str, *, pool: str | None = None) -> Head:
    """Put a ledger of one node into a lake, as the next generation of the node of that key."""
    (name,) = Ledger.open(ledger).nodes()
    source = SourceSeen(url=str(ledger), stamp="", digest=f"{hash(ledger):x}", size_bytes=1)
    with TemporaryDirectory() as scratch:
        shutil.copytree(ledger, Path(scratch) / "ledger")
        summary = NodeSummary(node=key, name=name, pool=pool)
        return commit_generation(lake, Path(scratch), (source,), summary, lake.head(key))
