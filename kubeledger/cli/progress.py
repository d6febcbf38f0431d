"""Progress on a terminal's standard error, for what takes longer than a second.

A thread of its own draws it; the work only notes how far it has come. It ends with the first
output, so that the two never mix.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

from kubeledger.cli.output import printable

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.model.record import Record

_DELAY_S = 1.0
_REFRESH_S = 0.2


class Progress:
    """How far the work has come.

    Attributes:
        done: how much of it; None where that is not counted.
        total: of how much; None where that is not known.
        unit: what is counted.
        remark: what else there is to say of it.
    """

    def __init__(self, words: str) -> None:
        self.words = words
        self.done: int | None = None
        self.total: int | None = None
        self.unit = "record"
        self.remark = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def begin(self) -> None:
        """Show it in a second, unless it is over by then."""
        self._thread.start()

    def report(self, words: str) -> None:
        """What is being done from now on."""
        self.words, self.done, self.total = words, None, None

    def end(self) -> None:
        """Take it off the screen; nothing where it is over or never began."""
        if not self._over.is_set():
            self._over.set()
            if self._thread.ident is not None:
                self._thread.join()

    def _draw(self) -> None:
        if self._over.wait(_DELAY_S):
            return
        from rich import progress as rich
        from rich.console import Console

        columns = (
            rich.SpinnerColumn(),
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(bar_width=24),
            rich.TimeElapsedColumn(),
        )
        with rich.Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as bar:
            task = bar.add_task(self._text(), total=None)
            while True:
                bar.update(task, description=self._text(), completed=self.done, total=self.total)
                bar.refresh()
                if self._over.wait(_REFRESH_S):
                    return

    def _text(self) -> str:
        if self.done is None:
            return self.words
        of = "" if self.total is None else f" of {self.total:,}"
        return f"{self.words}: {self.unit} {self.done:,}{of}{self.remark}"


@contextmanager
def progress(words: str) -> Iterator[Progress]:
    """Show progress while the block runs, on a terminal's standard error and nowhere else."""
    bar = Progress(words)
    if sys.stderr is None or not sys.stderr.isatty():
        yield bar
        return
    bar.begin()
    try:
        if sys.stdout.isatty():
            with redirect_stdout(_EndsProgress(sys.stdout, bar)):
                yield bar
        else:
            yield bar
    finally:
        bar.end()


def watched(
    histories: Iterable[History], bar: Progress, totals: Mapping[str, int]
) -> list[History]:
    """The same histories; every reading of one is shown.

    Args:
        totals: node -> its last record, where that is known.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        return list(histories)
    return [each.noting(_note(each.node, bar, totals.get(each.node))) for each in histories]


def _note(node: str, bar: Progress, total: int | None) -> Callable[[Record], None]:
    words = printable(node)

    def note(record: Record) -> None:
        bar.words, bar.done, bar.total = words, record.seq, total

    return note


class _EndsProgress(io.TextIOBase):
    """Standard output that takes the progress off the screen before it is used."""

    def __init__(self, below: TextIO, bar: Progress) -> None:
        self._below = below
        self._bar = bar

    @property
    def encoding(self) -> str:  # type: ignore[override] # a plain attribute in typeshed
        return self._below.encoding

    @property
    def buffer(self) -> Any:  # noqa: ANN401 # of the stream below
        self._bar.end()
        return self._below.buffer

    def isatty(self) -> bool:
        """As the stream below."""
        return True

    def fileno(self) -> int:
        return self._below.fileno()

    def write(self, text: str) -> int:
        self._bar.end()
        return self._below.write(text)

    def flush(self) -> None:
        """Nothing is shown by it, and a process that starts another does it."""
        self._below.flush()
