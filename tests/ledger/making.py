"""Small ledgers for the tests, and ways to look at them."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.ledger import ImportCompleted, ImportStarted
from kubeledger.model.record import Body, Evidence

NODE = "node-a"


def deleted(number: int) -> ImageDeleted:
    return ImageDeleted(image_id=f"sha256:{number:08x}", size_bytes=number)


def draft(ts_ns: int, body: Body | None = None, cause: int | None = None) -> Draft:
    """A fact at a time; the time is also its number."""
    evidence = (Evidence(file="kubelet.log", line=ts_ns + 1, offset=ts_ns * 90, text="a line"),)
    return Draft(ts_ns, body or deleted(ts_ns), evidence, cause)


def batch(first: int, count: int) -> list[Draft]:
    """Facts at the times ``first``, ``first + 1`` ..."""
    return [draft(ts_ns) for ts_ns in range(first, first + count)]


def import_of(times: Iterable[int], digest: str, *, complete: bool = True) -> list[Draft]:
    """What an import appends: its start, facts at these times, its end."""
    facts = [draft(ts_ns) for ts_ns in times]
    start = ImportStarted(digest=digest, kubeledger_version="0", sources=())
    end = ImportCompleted(digest=digest, accounts=())
    return [
        Draft(facts[0].ts_ns, start),
        *facts,
        *([Draft(facts[-1].ts_ns, end)] if complete else []),
    ]


def append(ledger: Ledger, *batches: list[Draft], node: str = NODE) -> list[list[int]]:
    """Append batches in one session of a writer."""
    with ledger.writer() as writer:
        return [writer.append(node, drafts) for drafts in batches]


def ledger_of(path: Path, *batches: list[Draft], segment_bytes: int = 64 << 20) -> Ledger:
    """A new ledger with these batches, cleanly closed."""
    ledger = Ledger.create(path, WriterOptions(segment_bytes=segment_bytes))
    append(ledger, *batches)
    return ledger


def copy(ledger: Ledger, path: Path) -> Ledger:
    """The same bytes elsewhere."""
    shutil.copytree(ledger.path, path)
    return Ledger(path, ledger.options)


def segment_paths(ledger: Ledger, node: str = NODE) -> list[Path]:
    """Files of the node's segments, sorted."""
    return sorted((ledger.path / "nodes" / node / "segments").iterdir())


def seqs(ledger: Ledger, node: str = NODE, after_seq: int = 0) -> list[int]:
    """Numbers of the node's records as read."""
    return [record.seq for record in ledger.records(node, after_seq)]


def sizes(ledger: Ledger, node: str = NODE) -> list[int | None]:
    """What the records say, in the order read."""
    return [
        record.body.size_bytes
        for record in ledger.records(node)
        if isinstance(record.body, ImageDeleted)
    ]


def lines(ledger: Ledger, node: str = NODE) -> list[bytes]:
    """The node's lines as they stand on disk."""
    return [raw.line for raw in ledger.raw_lines(node)]
