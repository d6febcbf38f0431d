"""Facts against records: which of the facts of an import are in the ledger already.

Facts and records both come in the order of time, so both sides are walked together and
only a window of records around the present is held. Each record is found once at most.

What is the same is a matter of the question. The facts of one import that was broken off
are regenerated to the letter. Facts of another import about the same moment may
know more or less of it (a pod list gave the names, a checkpoint the NUMA nodes): for those
the kind, the time and the subject decide.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator

import msgspec

from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S

WINDOW_NS = 120 * NS_PER_S
"""How far apart in the order of time a fact and its record may stand."""

_SUBJECT = (
    "namespace",
    "pod",
    "probe_type",
    "to_result",
    "resource",
    "image_id",
    "cgroup",
    "signal",
    "operation",
    "victim_pod",
    "reason",
    "message",
    "listed_by",
)
"""Fields that tell facts of one kind and one moment apart, and do not depend on what else a
bundle holds. Containers and UIDs do: they may have been unknown before."""

_UNNAMED = frozenset({"cpumanager", "devicemanager", "memorymanager", "topologymanager"})
"""Subsystems whose lines often name a pod by its UID alone."""

Key = Callable[[int, Body], Hashable]


def same_body(ts_ns: int, body: Body) -> bytes:
    """Key by which only equal facts are equal."""
    text = msgspec.json.encode(body, order="sorted")
    return hashlib.blake2b(
        ts_ns.to_bytes(12, "big", signed=True) + body.kind.encode() + text, digest_size=16
    ).digest()


def same_subject(ts_ns: int, body: Body) -> Hashable:
    """Key by which facts are equal that are about the same thing at the same time."""
    names = _SUBJECT[2:] if body.kind.partition(".")[0] in _UNNAMED else _SUBJECT
    return ts_ns, body.kind, *(getattr(body, name, None) for name in names)


class StoredFacts:
    """Records of earlier imports, to be found again once each."""

    def __init__(self, records: Iterable[Record], key: Key) -> None:
        """Begin before the first record.

        Args:
            records: in the order of time (within a run, of its source).
            key: what makes a fact and a record the same.
        """
        self._records: Iterator[Record] = iter(records)
        self._key = key
        self._window: deque[tuple[int, Hashable, int]] = deque()
        self._seqs: dict[Hashable, deque[int]] = {}
        self._latest_record_ns: int | None = None
        self._latest_fact_ns: int | None = None

    def take(self, fact: Fact) -> int | None:
        """Seq of the record that says the same; None when there is none."""
        latest_ns = max(self._latest_fact_ns or fact.ts_ns, fact.ts_ns)
        self._latest_fact_ns = latest_ns
        self._pull(latest_ns + WINDOW_NS)
        self._forget(latest_ns - WINDOW_NS)
        seqs = self._seqs.get(self._key(fact.ts_ns, fact.body))
        return seqs.popleft() if seqs else None

    def _pull(self, upto_ns: int) -> None:
        while self._latest_record_ns is None or self._latest_record_ns <= upto_ns:
            record = next(self._records, None)
            if record is None:
                return
            latest_ns = max(self._latest_record_ns or record.ts_ns, record.ts_ns)
            self._latest_record_ns = latest_ns
            key = self._key(record.ts_ns, record.body)
            self._window.append((latest_ns, key, record.seq))
            self._seqs.setdefault(key, deque()).append(record.seq)

    def _forget(self, before_ns: int) -> None:
        """Records far behind leave the window, unless they were found already."""
        while self._window and self._window[0][0] < before_ns:
            _, key, seq = self._window.popleft()
            seqs = self._seqs.get(key)
            if seqs is None:
                continue
            if seqs and seqs[0] == seq:
                seqs.popleft()
            if not seqs:
                del self._seqs[key]
