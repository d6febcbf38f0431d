"""Facts against records: which of the facts of an import are in the ledger already.

An import that is repeated regenerates its facts in the same order, so both sides are
walked together and only a window of records is held. A fact that is not found in it is
new; the window then moves on, so that records of other sources do not block it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from kubeledger.importers.facts import Fact
from kubeledger.machine import Body, Record

__all__ = ["StoredFacts"]

WINDOW = 4096
_STEP = 256


class StoredFacts:
    """Records of earlier imports, to be found again once each."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records: Iterator[Record] = iter(records)
        self._order: deque[tuple[bytes, int]] = deque()
        self._seqs: dict[bytes, deque[int]] = {}
        self._pull(WINDOW)

    def take(self, fact: Fact) -> int | None:
        """Seq of the record that says the same; None when there is none."""
        key = _key(fact.ts_ns, fact.body)
        seqs = self._seqs.get(key)
        if not seqs:
            self._pull(_STEP)
            seqs = self._seqs.get(key)
            if not seqs:
                return None
        seq = seqs.popleft()
        if not seqs:
            del self._seqs[key]
        self._pull(1)
        return seq

    def _pull(self, count: int) -> None:
        for record in self._records:
            key = _key(record.ts_ns, record.body)
            self._order.append((key, record.seq))
            self._seqs.setdefault(key, deque()).append(record.seq)
            if len(self._order) > WINDOW:
                self._forget(*self._order.popleft())
            count -= 1
            if count <= 0:
                return

    def _forget(self, key: bytes, seq: int) -> None:
        """The oldest record leaves the window, unless it was found already."""
        seqs = self._seqs.get(key)
        if seqs and seqs[0] == seq:
            seqs.popleft()
            if not seqs:
                del self._seqs[key]


def _key(ts_ns: int, body: Body) -> bytes:
    text = msgspec.json.encode(body, order="sorted")
    return hashlib.blake2b(
        ts_ns.to_bytes(12, "big", signed=True) + body.kind.encode() + text, digest_size=16
    ).digest()
