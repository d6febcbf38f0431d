"""Read-only SQL over a ledger, for Python: ``connect(path).sql("SELECT * FROM preemptions")``."""

from __future__ import annotations

import shutil
import time
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import mkdtemp
from threading import Lock, Thread
from typing import TypeVar

from kubeledger.analyze.sql.ledger_tables import LedgerTables
from kubeledger.analyze.sql.loader import (
    check_query,
    comment_on,
    create_views,
    load,
    one_line,
    require_room,
)
from kubeledger.analyze.sql.rows import Rows, check_text, in_utc
from kubeledger.analyze.sql.tables import Tables
from kubeledger.analyze.sql.views import Needs, needs_of
from kubeledger.ledger.engine import duckdb, engine
from kubeledger.model.errors import (
    BadQuestionError,
    DamagedLedgerError,
    KubeledgerError,
    LedgerUnavailableError,
)
from kubeledger.model.patterns import regex

DEFAULT_TIMEOUT_S = 60.0
_LOOKS = 5
_GONE = regex(
    r'(?:No files found that match the pattern "([^"]+\.parquet)"'
    r'|Cannot access file "([^"]+\.parquet)/\*\*/\*\.parquet"'
    r"|StorageError: (.+\.parquet): there is no such object)"
)
"""DuckDB's words for a file that is gone; where there was one it then looks for a folder."""

_OF_A_FILE = regex(r"^Traceback|\.parquet\b")

_MEANT_TABLE = regex(r'(Table with name \S+ does not exist); Did you mean "(.+)"')
_GRACE_S = 3.0
"""After an interruption; most functions look for one now and then."""

_LINGERING_MAX = 2
_MORE_MEMORY = "give it more with --memory, or ask for less"

_T = TypeVar("_T")


class Queryable:
    """A ledger, or a lake of many, that answers SQL; use it as a context manager.

    Only what the queries name is loaded, at the first query that needs it, and again
    when there is more since. Several threads may ask: they wait for one another while
    something is loaded, and not for one another's queries.

    Attributes:
        timeout_s: seconds that one query may take in DuckDB and for what is made of its rows,
            loading left out.
        at_work: what runs now.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        memory_limit: str | None = None,
        is_fixed: bool = False,
    ) -> None:
        self.timeout_s = timeout_s
        self._tables = tables
        self._memory_limit = memory_limit
        self._is_fixed = is_fixed
        self._spill = mkdtemp(prefix="kubeledger-spill-")
        # A reader that is not closed leaves no directory behind, and gets no warning for it.
        self._remove_spill = weakref.finalize(self, shutil.rmtree, self._spill, ignore_errors=True)
        self._parser = blank = engine(Path(self._spill))
        self._blank: duckdb.DuckDBPyConnection | None = blank
        self._loading = Lock()
        self._opening = Lock()
        self.at_work: set[_Run] = set()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._needs = Needs(kinds=frozenset(), evidence=False)
        self._loaded: tuple[Needs, Hashable] | None = None
        self._made: set[str] = set()
        self._is_commented = False
        self._is_closed = False

    def __enter__(self) -> Queryable:
        """Nothing is read before the first query."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of memory and of spilled files; what other threads ask is stopped."""
        self._is_closed = True
        at_work = tuple(self.at_work)
        for query in at_work:
            query.interrupt()
        if at_work or self._loading.locked():
            _abandoned.append(self._database or self._parser)
        else:
            if self._database is not None:
                self._database.close()
            self._parser.close()
        self._remove_spill()

    def sql(self, query: str, params: Mapping[str, object] | None = None) -> Rows:
        """Run one query that reads.

        Args:
            query: one SELECT statement over the views; parameters as ``$name``.
            params: parameter name -> value; an aware datetime means its instant.

        Raises:
            BadQuestionError: no single reading query, one that DuckDB refuses, or no ledger.
            DamagedLedgerError: the ledger cannot be read.
        """
        check_text(query, "the query")
        if lingering() >= _LINGERING_MAX:
            raise BadQuestionError(
                "queries that did not stop when their time was over are still running",
                advice="wait until they end, or start again",
            )
        with self._loading:
            if self._is_closed:
                raise _closed()
            names = check_query(self._parser, query, self._tables.views)
            database = self._ready(names)
            if self._is_closed:  # meanwhile, by another thread, which did not wait
                raise _closed()
        values = {name: in_utc(value) for name, value in params.items()} if params else None

        def start() -> _Run:
            nonlocal database
            for _ in range(_LOOKS):
                try:
                    return _Run(self, database, query, values)
                except (BadQuestionError, DamagedLedgerError) as error:
                    # Files may be gone because others took their place: look again.
                    if not _GONE.search(str(error.__cause__)):
                        raise
                    with self._loading:
                        before, database = database, self._ready(names)
                    if database is before:
                        raise
            raise _changing()

        return Rows(start)

    def cursor(self, database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """Of a database that this has opened, for one thread."""
        with self._opening:  # a connection answers one thread at a time
            return database.cursor()

    def abandon(self) -> duckdb.DuckDBPyConnection | None:
        """A query cannot be stopped: continue with a connection of our own, and leave it this."""
        left, self._database, self._loaded = self._database, None, None
        self._parser = self._blank = engine(Path(self._spill))  # closed with what is left
        return left

    def refusal(self, error: duckdb.Error) -> KubeledgerError:
        """What to report: a damaged file is no fault of the question."""
        # Of what it finds inside a Parquet file DuckDB makes an error of no class of its own.
        may_be_damage = type(error) is duckdb.Error or _OF_A_FILE.search(str(error))
        return (self._tables.damage(str(error)) if may_be_damage else None) or _refusal(
            error, self._tables.views
        )

    def _ready(self, names: frozenset[str]) -> duckdb.DuckDBPyConnection:
        """A connection with all that the named tables and views read."""
        views = self._tables.views
        self._needs = self._needs.union(needs_of(names, views))
        # A query of the catalogue, or of an unknown name, must see everything.
        is_catalogue = not names or not names <= views.keys()
        asked = views if is_catalogue else names
        for _ in range(_LOOKS):
            loaded = self._loaded if self._is_fixed else None
            wanted = (self._needs, loaded[1] if loaded else self._tables.state())
            try:
                if self._database is None or self._loaded != wanted:
                    # A locked connection loads nothing more, so a wider question makes a new one.
                    self._database, self._loaded, self._made = self._load(), wanted, set()
                    self._is_commented = False
                with self._opening:
                    create_views(self._database, views, asked, self._made)
                    if is_catalogue and not self._is_commented:
                        comment_on(self._database, views.values())
                        self._is_commented = True
            except duckdb.OutOfMemoryException as error:
                raise _refusal(error) from error
            except duckdb.Error as error:
                if not _GONE.search(str(error)) or self._tables.state() == wanted[1]:
                    raise self.refusal(error) from error
                self._loaded = None
            else:
                return self._database
        raise _changing()

    def _load(self) -> duckdb.DuckDBPyConnection:
        spill = Path(self._spill)
        database, self._blank = self._blank or engine(spill), None
        load(database, self._tables, self._needs, memory_limit=self._memory_limit, spill=spill)
        self._parser = database.cursor()
        return database


def connect(
    ledger: Path | str,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    memory_limit: str | None = None,
    is_fixed: bool = False,
) -> Queryable:
    """Open a ledger for SQL.

    Args:
        ledger: its directory.
        timeout_s: seconds that one query may take.
        memory_limit: memory for data and queries, as DuckDB writes it (``2GB``); what does
            not fit goes to a temporary directory. None is DuckDB's default.
        is_fixed: what is appended after a query has loaded all it names is not seen by later
            ones that name no more; else every query sees what there is.
    """
    return Queryable(
        LedgerTables(Path(ledger)),
        timeout_s=timeout_s,
        memory_limit=memory_limit,
        is_fixed=is_fixed,
    )


class _Run:
    """One run of a query: the time that it takes in DuckDB and of who takes its rows is limited."""

    def __init__(
        self,
        queryable: Queryable,
        database: duckdb.DuckDBPyConnection,
        query: str,
        params: dict[str, object] | None,
    ) -> None:
        self._queryable, self._database = queryable, database
        self._query, self._params = query, params
        self._limit_s = self._left_s = queryable.timeout_s
        self.cursor = self._open()
        self.run(lambda: self.cursor.execute(query, params))

    def _open(self) -> duckdb.DuckDBPyConnection:
        try:
            cursor = self._queryable.cursor(self._database)
        except duckdb.ConnectionException as error:
            raise _closed() from error
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        return cursor

    def relation(self) -> duckdb.DuckDBPyRelation:
        """The query again, for what DuckDB makes of a relation only."""
        import_module("duckdb")  # has a connection make relations
        self.cursor.close()
        self.cursor = self._open()
        return self.cursor.sql(self._query, params=self._params)

    def run(self, work: Callable[[], _T]) -> _T:
        """Do some of the work.

        Raises:
            BadQuestionError: DuckDB's refusal in one line, or the time is over.
        """
        # In a thread of its own, for a query that runs in C does not hear Ctrl-C.
        answers: SimpleQueue[_T | BaseException] = SimpleQueue()
        thread = Thread(target=_answer, args=(work, answers), name="kubeledger-query", daemon=True)
        started = time.monotonic()
        self._queryable.at_work.add(self)
        try:
            require_room()
            thread.start()
            answer = answers.get(timeout=max(self._left_s, 0.001))
        except Empty:
            self._stop(thread)
            raise self._over() from None
        except (MemoryError, RuntimeError) as error:  # no room for a thread
            raise _no_memory() from error
        except KeyboardInterrupt:
            self._stop(thread)
            raise
        finally:
            self._left_s -= time.monotonic() - started
            self._queryable.at_work.discard(self)
        if isinstance(answer, duckdb.Error):
            raise self._queryable.refusal(answer) from answer
        if isinstance(answer, MemoryError):
            raise _no_memory() from answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def interrupt(self) -> None:
        """Let what is done now fail, from another thread."""
        self.cursor.interrupt()

    def spend(self, seconds: float) -> None:
        """Count work that was done elsewhere.

        Raises:
            BadQuestionError: the time is over.
        """
        self._left_s -= seconds
        if self._left_s <= 0:
            raise self._over()

    def _over(self) -> BadQuestionError:
        return BadQuestionError(
            f"the query took longer than {self._limit_s:g} s",
            advice="narrow it down, or give it more with --timeout",
        )

    def _stop(self, thread: Thread) -> None:
        """Interrupt the query; one that is inside a single call of a function hears nothing.

        It is abandoned then: what it holds must not be closed, for that would wait for it.
        """
        self.cursor.interrupt()
        thread.join(_GRACE_S)
        if thread.is_alive():
            with _pruning:
                _lingering.append((thread, (self.cursor, self._queryable.abandon())))


_abandoned: list[duckdb.DuckDBPyConnection] = []
_lingering: list[tuple[Thread, tuple[duckdb.DuckDBPyConnection | None, ...]]] = []
"""Queries that were given up, and what they hold until they end."""
_pruning = Lock()


def abandoned() -> bool:
    """Whether a query that was told to stop continues, perhaps for long."""
    return bool(_abandoned) or lingering() > 0


def lingering() -> int:
    """How many queries continue after their time; what the others held is let go of."""
    with _pruning:
        ended = [each for each in _lingering if not each[0].is_alive()]
        _lingering[:] = [each for each in _lingering if each[0].is_alive()]
    for _, held in ended:
        for connection in filter(None, held):
            connection.close()
    return len(_lingering)


def _answer(work: Callable[[], _T], answers: SimpleQueue[_T | BaseException]) -> None:
    try:
        answers.put(work())
    except BaseException as error:
        answers.put(error)


def _no_memory() -> BadQuestionError:
    return BadQuestionError("the query needs more memory than it may take", advice=_MORE_MEMORY)


def _closed() -> BadQuestionError:
    return BadQuestionError("the ledger was closed", advice="open it again")


def _changing() -> BadQuestionError:
    return BadQuestionError("files change faster than they can be read", advice="run it again")


def _refusal(error: duckdb.Error, views: Collection[str] = ()) -> KubeledgerError:
    """DuckDB's words in one line, and what the user can do; it may mean these views alone."""
    if gone := _GONE.search(str(error)):
        return BadQuestionError(
            f"{''.join(filter(None, gone.groups()))} is not there",
            advice="run it again; if that does not help, restore it or import its source again",
        )
    if str(error).startswith("Traceback"):  # of what gives DuckDB the files of object storage
        return LedgerUnavailableError(one_line(str(error)), advice="try again")
    if "pytz" in str(error):  # DuckDB's words hold a traceback of ours
        return BadQuestionError(
            "a column of the result has a time zone", advice="write it as column::TIMESTAMP"
        )
    is_memory = isinstance(error, duckdb.OutOfMemoryException)
    advice = _MORE_MEMORY if is_memory else _advice(str(error))
    words = one_line(str(error))
    if (meant := _MEANT_TABLE.search(words)) and meant[2] not in views:  # a table of DuckDB's own
        words = words[: meant.end(1)]
    return BadQuestionError(words, advice=advice)


def _advice(message: str) -> str:
    if "does not exist" in message:
        return "`DESCRIBE view` and `SHOW TABLES` show what there is"
    return ""
