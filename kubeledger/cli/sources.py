"""A ledger of what a command's sources hold, for commands that ask SQL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ledger_for"]


@contextmanager
def ledger_for(sources: Sequence[str], ledger: Path) -> Iterator[Path]:
    """Directory of a ledger that holds the sources' records.

    Args:
        sources: ledgers, recordings, or whatever an import takes. One ledger is used as it is;
            of anything else a ledger is made that is thrown away at the end.
        ledger: the one to use where there are no sources.

    Raises:
        BadInputError: a source cannot be read, or is an excerpt, whose records do not begin with
            the first.
        KubeledgerError: as of an import or of the ledger.
    """
    from kubeledger import open as open_ledger
    from kubeledger.analyze.histories.sources import is_ledger, open_histories
    from kubeledger.ingest.api import import_sources
    from kubeledger.ledger.ledger import Ledger

    if not sources or (len(sources) == 1 and sources[0] and is_ledger(Path(sources[0]))):
        yield Ledger.open(Path(sources[0]) if sources else ledger).path
        return
    with tempfile.TemporaryDirectory(prefix="kubeledger-") as scratch:
        copy = Path(scratch) / "ledger"
        if all(each and each != "-" and not _holds_records(Path(each)) for each in sources):
            import_sources(sources, Ledger.create(copy), keep=False)
        else:
            with open_histories(sources) as histories, open_ledger(copy) as opened:
                for history in histories:
                    opened.append(history.read(None))
        yield copy


def _holds_records(path: Path) -> bool:
    from kubeledger.analyze.histories.sources import is_ledger, is_recording

    return is_ledger(path) or is_recording(path)
