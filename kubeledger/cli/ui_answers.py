"""What the page of ``kubeledger ui`` gets: the answers of the commands, as JSON.

A ledger that grows is answered as it was when it was last verified, while the next state is made
ready.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock, Thread

import msgspec

from kubeledger.analyze.histories.history import History, histories_of_ledger
from kubeledger.analyze.sql.api import Queryable
from kubeledger.analyze.sql.tables import fingerprint
from kubeledger.analyze.sql.views import find_query, load_library
from kubeledger.analyze.whatif.variants import ConfigFile, config_of, variants_for
from kubeledger.analyze.why import answers_to
from kubeledger.cli.output import cell_text
from kubeledger.cli.service import SharedBound
from kubeledger.cli.sql import bound
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.replay import state_at
from kubeledger.replay.node.state import document
from kubeledger.timeline import NodeView, build_drawing
from kubeledger.timeline.overlay import overlay
from kubeledger.timeline.page import page_text, payload_of, records_between
from kubeledger.timeline.server import Answer, Asked, Reply, json_reply

Opened = Callable[[Path], Queryable]
"""Opens a ledger for SQL, with the limits of a query, as it is now."""


class Snapshot:
    """The ledger at one time.

    Attributes:
        etag: changes when the ledger grows.
        queryable: answers SQL; later records are not seen.
        drawing: the payload of all nodes, as JSON.
    """

    def __init__(self, ledger: Path, opened: Opened) -> None:
        self.etag = etag_of(ledger)
        self.queryable = opened(ledger)
        self.drawing = b""
        self.users = 0
        self._ledger = ledger

    def draw(self) -> None:
        """Verify and draw, which of a long ledger takes long.

        Raises:
            KubeledgerError: the ledger cannot be read, or was closed.
        """
        histories = histories_of_ledger(Ledger.open(self._ledger))
        views = [NodeView(self.queryable, each.node, history=each) for each in histories]
        self.drawing = json_reply(payload_of([build_drawing(view) for view in views])).content


class Snapshots:
    """The newest snapshot that is ready; several threads may ask.

    The first one is waited for. When the ledger has grown, another is made in a thread of its
    own, and until it is ready the one before answers. While a ledger grows all the time, at
    least as long passes between two of them as one takes.
    """

    def __init__(self, ledger: Path, opened: Opened) -> None:
        self._ledger = ledger
        self._opened = opened
        self._lock = Lock()
        self._first = Lock()
        self._now: Snapshot | None = None
        self._next: Snapshot | None = None
        self._failure: Exception | None = None
        self._rest_until_s = 0.0
        self._is_closed = False

    def close(self) -> None:
        """Let go of all; what others ask is stopped."""
        with self._lock:
            self._is_closed = True
            open_ones = [each for each in (self._now, self._next) if each is not None]
        for each in open_ones:
            each.queryable.close()

    @contextmanager
    def newest(self) -> Iterator[Snapshot]:
        """The newest snapshot; it stays usable meanwhile.

        Raises:
            KubeledgerError: the first one cannot be made.
        """
        with self._first:
            if self._now is None:
                self._make()
        with self._lock:
            snapshot = self._now
            assert snapshot is not None
            snapshot.users += 1
        try:
            yield snapshot
        finally:
            with self._lock:
                snapshot.users -= 1
                self._close_unused(snapshot)

    def follow(self) -> None:
        """Begin with another snapshot if the ledger has grown.

        Raises:
            Exception: what the last attempt failed with.
        """
        with self._lock:
            failure, self._failure = self._failure, None
            if (
                failure is None
                and self._next is None
                and self._now is not None
                and self._now.etag != etag_of(self._ledger)
                and time.monotonic() > self._rest_until_s
            ):
                self._next = Snapshot(self._ledger, self._opened)
                Thread(target=self._follow, args=(self._next,), daemon=True).start()
        if failure is not None:
            raise failure

    def _follow(self, made: Snapshot) -> None:
        try:
            self._ready(made)
        except Exception as error:  # the next request reports it
            made.queryable.close()
            with self._lock:
                self._next = None
                self._failure = None if self._is_closed else error

    def _make(self) -> None:
        """The first snapshot."""
        made = Snapshot(self._ledger, self._opened)
        with self._lock:
            self._next = made
        try:
            self._ready(made)
        except BaseException:
            made.queryable.close()
            with self._lock:
                self._next = None
            raise

    def _ready(self, made: Snapshot) -> None:
        began_s = time.monotonic()
        made.draw()
        with self._lock:
            before, self._now, self._next = self._now, made, None
            self._rest_until_s = 2 * time.monotonic() - began_s
            if before is not None:
                self._close_unused(before)

    def _close_unused(self, snapshot: Snapshot) -> None:
        if snapshot is not self._now and not snapshot.users:
            snapshot.queryable.close()


def etag_of(ledger: Path) -> str:
    """What changes when the ledger grows."""
    return sha256(repr(fingerprint(ledger)).encode()).hexdigest()[:20]


ROWS_MAX = 1000
"""Of a result that the page shows; `kubeledger sql` has the rest."""
_CELL_MAX = 4000
_NOT_MODIFIED = 304


class Answers:
    """Answers of one ledger, to several requests at a time; use it as a context manager.

    A snapshot answers all that is drawn or asked in SQL, until one of the grown ledger is ready.
    """

    def __init__(self, ledger: Path, opened: Opened, bound: SharedBound) -> None:
        self._ledger = ledger
        self._snapshots = Snapshots(ledger, opened)
        self._bound = bound
        self._whatif_lock = Lock()
        self.nodes()

    def __enter__(self) -> Answers:
        """Nothing is read before the first question."""
        return self

    def __exit__(self, *_: object) -> None:
        self._snapshots.close()

    def nodes(self) -> list[str]:
        """Names of the nodes.

        Raises:
            BadQuestionError: there is none.
        """
        nodes = Ledger.open(self._ledger).nodes()
        if not nodes:
            raise BadQuestionError(
                "the ledger holds no record", advice="import a node's files first"
            )
        return nodes

    def routes(self) -> Mapping[tuple[str, str], Answer]:
        """(method, path) -> what answers it; docs/internals/timeline.md has the table."""
        return {
            ("GET", "/"): self.page,
            ("GET", "/api/drawing"): self.drawing,
            ("GET", "/api/records"): self.records,
            ("GET", "/api/queries"): _queries,
            ("POST", "/api/sql"): self.sql,
            ("GET", "/api/why"): self.why,
            ("GET", "/api/state"): self.state,
            ("POST", "/api/whatif"): self.whatif,
        }

    def page(self, asked: Asked) -> Reply:
        """The page itself, which asks for the rest; it says how much there is to decide."""
        ledger = Ledger.open(self._ledger)
        records = sum(ledger.info(node).last_seq for node in ledger.nodes())
        live = {"token": asked.text("token"), "api": "/api/", "records": records}
        return Reply(content=page_text(None, live).encode(), media="text/html; charset=utf-8")

    def drawing(self, asked: Asked) -> Reply:
        """The payload; of a ledger that has not grown, that it has not."""
        self._snapshots.follow()
        with self._snapshots.newest() as snapshot:
            if asked.etag == snapshot.etag:
                return Reply(content=b"", status=_NOT_MODIFIED, etag=snapshot.etag)
            return Reply(content=snapshot.drawing, etag=snapshot.etag)

    def records(self, asked: Asked) -> Reply:
        """A record as the side pane shows it, in a list; an empty one where there is none."""
        seq = asked.whole("seq") or 0
        with self._snapshots.newest() as snapshot:
            view = NodeView(snapshot.queryable, self._node(asked))
            return json_reply(list(records_between(view, seq, seq)))

    def sql(self, asked: Asked) -> Reply:
        """Rows of a query, no more than ``ROWS_MAX``."""
        query = asked.text("query")
        if not query.strip():
            raise BadQuestionError(
                "the query is empty", advice="write one, or choose a shipped one"
            )
        given = asked.values.get("params") or {}
        if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
            raise BadQuestionError("params must be an object whose values are text")
        params: Mapping[str, str | None] = given
        if name := asked.text("name"):
            filled = {key: each for key, each in given.items() if each}
            params = bound(find_query(name), filled, Ledger.open(self._ledger).span)
        began_s = time.monotonic()
        with self._snapshots.newest() as snapshot:
            named = {key: value for key, value in params.items() if f"${key}" in query}
            with self._bound.held():
                rows = snapshot.queryable.sql(query, named)
                shown = [[_cell(value) for value in row] for row in islice(rows, ROWS_MAX + 1)]
        return json_reply(
            {
                "columns": rows.columns,
                "types": rows.types,
                "rows": shown[:ROWS_MAX],
                "truncated": len(shown) > ROWS_MAX,
                "ms": round((time.monotonic() - began_s) * 1000),
            }
        )

    def why(self, asked: Asked) -> Reply:
        """The explanation, as `why -o json` has it."""
        history = self._history(asked)
        (answer,) = answers_to(asked.text("target"), [history], upto_ts_ns=asked.whole("at"))
        return json_reply(msgspec.to_builtins(answer))

    def state(self, asked: Asked) -> Reply:
        """The state, as `state -o json` has it."""
        rebuilt = state_at(Ledger.open(self._ledger), self._node(asked), ts_ns=asked.whole("at"))
        return json_reply(document(rebuilt))

    def whatif(self, asked: Asked) -> Reply:
        """What would have been decided otherwise, to be drawn over what was recorded."""
        settings, versions = _options(asked.text("set"))
        history = self._history(asked)
        variants = variants_for(history, settings, versions, _configs(asked))
        if len(variants) > 1:
            raise BadQuestionError(
                "several variants cannot be drawn over one another", advice="ask for one"
            )
        # Each decides everything twice: one after the other.
        with self._whatif_lock:
            found = overlay(history, variants[0])
        return json_reply(found)

    def _node(self, asked: Asked) -> str:
        node = asked.text("node")
        if node not in self.nodes():
            raise BadQuestionError(f"no node {node!r}")
        return node

    def _history(self, asked: Asked) -> History:
        (history,) = histories_of_ledger(Ledger.open(self._ledger), self._node(asked))
        return history


def _queries(_: Asked) -> Reply:
    return json_reply([msgspec.to_builtins(query) for query in load_library().values()])


def _configs(asked: Asked) -> list[ConfigFile]:
    """The KubeletConfiguration that the page sends along, if it does."""
    config = asked.values.get("config")
    if config is None:
        return []
    match config:
        case {"name": str(name), "text": str(text)}:
            return [config_of(name, text.encode())]
    raise BadQuestionError("config must be an object with a name and a text")


def _cell(value: object) -> str | None:
    """Text of a value; None of NULL."""
    if value is None:
        return None
    text = cell_text(value)
    return text if len(text) <= _CELL_MAX else f"{text[:_CELL_MAX]}…"


def _options(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Settings and kubelet versions in words as the command line takes them.

    ``--set`` may be left out; ``--kubelet-version 1.31.0`` is another kubelet.
    """
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise BadQuestionError(f"{text!r} cannot be split into words: {error}") from error
    settings: list[str] = []
    versions: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if option in {"--set", "--kubelet-version"}:
            into = settings if option == "--set" else versions
            if not equals and not (value := next(words, "")):
                raise BadQuestionError(f"{option} has no value")
            into.append(value)
        else:
            settings.append(word)
    return tuple(settings), tuple(versions)
