"""A pipeline whose sources go on: what comes is read as it comes.

It begins as an import does, with all that there is, and then stays open at the end of the log:
lines and documents are read when they come, and facts leave when they are settled, at the latest
some seconds later. What it tells is what is known by then. An import of the same sources when they
are whole may know more (a pod list names the pod of an earlier line), and has the last word.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kubeledger.ingest.correlate.survey import fill_context
from kubeledger.ingest.dispatch import finding_fact
from kubeledger.ingest.klog.account import LogOutput, Ordered
from kubeledger.ingest.klog.log_survey import LogLook
from kubeledger.ingest.klog.reader import KlogReader
from kubeledger.ingest.klog.reorder import LogOrder, Timed
from kubeledger.ingest.pipeline import Keyed, Pipeline
from kubeledger.ingest.planning.plan import Plan, take_logs
from kubeledger.ingest.planning.timing import time_of_document
from kubeledger.ingest.sources.documents import Document, DocumentContents
from kubeledger.ingest.sources.items import Fact, Finding, Item
from kubeledger.ingest.standing import Coverage
from kubeledger.model.units import NS_PER_S

_LATE_NS = 2 * NS_PER_S
"""A line is in the log so soon after its stamp: what is older than that is all there."""
_STATUSES_HELD = 16
"""The last ones of a pod, beside its first and those that its containers' history needs."""


class LivePipeline(Pipeline):
    """Reads one bundle that grows.

    Attributes:
        log: name of the log that grows; None while there is none.
    """

    def __init__(self, plan: Plan) -> None:
        """Nothing is read yet; ``plan`` is of all that there is."""
        super().__init__(plan, Coverage({}))
        self._order = LogOrder(plan.timing.first_ts_ns)
        self._open: KlogReader | None = None
        survey = plan.timing.logs[-1] if plan.timing.logs else None
        self.log = survey.source.name if survey is not None else None
        self._look = LogLook(survey, survey.digests.size) if survey is not None else None
        self._offsets_ns = dict(survey.offsets_ns) if survey is not None else {}
        self._documents_due: deque[Keyed] = deque()
        self._written_ns = 0

    @property
    def is_misplaced(self) -> bool:
        """The log has come to show another zone than the one that its stamps are read by."""
        survey = self._look.survey if self._look is not None else None
        if survey is None or survey.offsets_ns == self._offsets_ns:
            return False
        self._offsets_ns = dict(survey.offsets_ns)
        best = max(self._offsets_ns, key=lambda offset_ns: self._offsets_ns[offset_ns])
        return best != self.plan.timing.offset_ns

    def begin(self, written_ns: int = 0) -> Iterator[Fact]:
        """The facts of all that there is, but for those that are not settled.

        Args:
            written_ns: when the end of the log was seen: its last entry may go on after it.
        """
        self._written_ns = written_ns
        return self._storable(self._up_to_the_end())

    def lines(self, data: bytes, now_ns: int) -> Iterator[Fact]:
        """The log has grown.

        Args:
            data: what was written.
            now_ns: when that was seen.
        """
        return self._storable(self._grown(data, now_ns))

    def document(self, document: Document) -> Iterator[Fact]:
        """A document has come; it is read when the log has come to its time.

        Args:
            document: with the time at which it was read; what it shows goes before that.
        """
        return self._storable(self._added(document))

    def pass_time(self, now_ns: int) -> Iterator[Fact]:
        """Nothing more has come until ``now_ns``: what is due by then."""
        return self._storable(self._passed(now_ns))

    def count(self, fact: Fact) -> None:
        """Nothing: the import that ends a recording accounts for its lines."""

    # --- what grows -------------------------------------------------------------------

    def _grown(self, data: bytes, now_ns: int) -> Iterator[Fact]:
        assert self._open is not None
        assert self._look is not None
        self._written_ns = now_ns
        self._look.feed(data)
        take_logs(self.plan)
        yield from self._ordered(self._open.feed(data))

    def _added(self, document: Document) -> Iterator[Fact]:
        context, contents = self.plan.context, DocumentContents()
        self.plan.bundle.contents = contents  # each document is read once, and none is held
        shown_ns = time_of_document(document, contents)
        document.ts_ns = document.ts_ns if shown_ns is None else shown_ns
        for file, reason in fill_context(context, [document], contents).items():
            finding = Finding("malformed", file, f"{reason}; it is not read")
            yield finding_fact(finding, document.ts_ns)
            return
        context.forget_instances()
        for known in context.pods.values():
            known.thin_out(_STATUSES_HELD)
        due = [*self._documents_due, *self._documents([document])]
        self._documents_due = deque(sorted(due, key=lambda pair: pair[0]))
        del self.accounts[document.source.name]

    def _passed(self, now_ns: int) -> Iterator[Fact]:
        horizon_ns = now_ns - _LATE_NS
        if self._open is not None and self._written_ns <= horizon_ns:
            yield from self._ordered(self._open.settle())
        yield from self._timed(self._order.settle(horizon_ns))
        yield from self._documents_until(horizon_ns)
        yield from self._dispatcher.pass_time(horizon_ns)

    # --- in the order of time ---------------------------------------------------------

    def _logs(self) -> Iterator[Keyed]:
        for output in self._read_logs():
            yield from self._order.take(output)

    def _stays_open(self, reader: KlogReader) -> bool:
        self._open = reader
        return True

    def _ordered(self, outputs: Iterable[LogOutput]) -> Iterator[Fact]:
        for output in outputs:
            yield from self._timed(self._order.take(output))

    def _timed(self, items: Iterable[Timed]) -> Iterator[Fact]:
        for key, item in items:
            yield from self._documents_until(key)
            yield from self._take(key, item)

    def _documents_until(self, ts_ns: int) -> Iterator[Fact]:
        due = self._documents_due
        while due and due[0][0] <= ts_ns:
            yield from self._take(*due.popleft())

    def _take(self, key: int, item: Ordered | Item) -> Iterator[Fact]:
        return self._dispatcher.take(max(key, self._dispatcher.last_ns), item)
