"""What commands judge: ledgers, recordings, or a node's files, imported for the while."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kubeledger.errors import BadQuestionError
from kubeledger.importers.api import import_sources
from kubeledger.importers.options import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.names import MANIFEST, NODES
from kubeledger.replay.histories import History, histories_of_ledger, histories_of_recording

__all__ = ["RECORDING_SUFFIXES", "is_ledger", "is_recording", "open_histories"]

RECORDING_SUFFIXES = (".ledger.jsonl", ".ledger.jsonl.zst")


def is_ledger(path: Path) -> bool:
    """Whether a directory is a ledger's."""
    return (path / MANIFEST).exists() or (path / NODES).is_dir()


def is_recording(path: Path) -> bool:
    """Whether a file's name says that it holds records."""
    return path.name.endswith(RECORDING_SUFFIXES)


@contextmanager
def open_histories(
    sources: Sequence[str], *, node: str | None = None, options: ImportOptions | None = None
) -> Iterator[list[History]]:
    """Histories of all sources, in their order.

    Args:
        sources: ledger directories, ``*.ledger.jsonl`` files, or whatever an import takes;
            these are imported together into a ledger that is thrown away at the end.
        node: only this one's.
        options: of the import.

    Raises:
        BadQuestionError: a source has no name.
        KubeledgerError: as the ledger, ``read_recording`` and ``import_sources``.
    """
    if "" in sources:
        raise BadQuestionError(
            "a source has no name", advice="name a ledger, a file or a directory"
        )
    histories: list[History] = []
    files = [s for s in sources if not is_ledger(Path(s)) and not is_recording(Path(s))]
    with tempfile.TemporaryDirectory(prefix="kubeledger-") as scratch:
        for source in sources:
            path = Path(source)
            if is_ledger(path):
                histories += histories_of_ledger(Ledger.open(path))
            elif is_recording(path):
                histories += histories_of_recording(path)
        if files:
            ledger = Ledger.create(Path(scratch) / "ledger")
            import_sources(files, ledger, options)
            histories += [
                msgspec.structs.replace(history, label=", ".join(files))
                for history in histories_of_ledger(ledger)
            ]
        yield [history for history in histories if node is None or history.node == node]
