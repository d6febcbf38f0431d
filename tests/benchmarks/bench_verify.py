"""Verification: decisions a second over a long history, and memory against its length.

    python -m tests.benchmarks.bench_verify [ROUNDS]

The history is a recording behind itself again and again, each time later: a kubelet that starts
anew each time. What is measured is the verification of records in memory. The goal is 20,000 decisions a second.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Collection, Iterator

import msgspec

from kubeledger.machine import Record
from kubeledger.verify import Contradiction, verify
from tests.verify.histories import recorded

GOAL = 20_000


class Repeated:
    """A recording ``rounds`` times; made anew at each reading, so it takes no memory."""

    def __init__(self, name: str, rounds: int) -> None:
        self._records = recorded(name)
        self._rounds = rounds
        self._span_ns = self._records[-1].ts_ns - self._records[0].ts_ns + 1

    def __call__(self, kinds: Collection[str] | None) -> Iterator[Record]:
        """A :data:`kubeledger.verify.Reader`."""
        count = len(self._records)
        for n in range(self._rounds):
            for record in self._records:
                if kinds is None or record.kind in kinds:
                    yield msgspec.structs.replace(
                        record,
                        seq=record.seq + n * count,
                        ts_ns=record.ts_ns + n * self._span_ns,
                        cause=record.cause + n * count if record.cause is not None else None,
                    )


def bench(name: str, rounds: int) -> None:
    """Print the rate for one recording."""
    history = Repeated(name, rounds)
    plain = sum(1 for _ in history(None))
    begin = time.perf_counter()
    sum(1 for _ in history(None))
    making = time.perf_counter() - begin
    begin = time.perf_counter()
    counts = Counter(
        "contradiction" if isinstance(outcome, Contradiction) else outcome.verdict
        for outcome in verify(history)
    )
    took = time.perf_counter() - begin - 2 * making
    decisions = counts.total() - counts["contradiction"]
    rate = decisions / took
    print(
        f"{name}: {plain:,} records, {decisions:,} decisions in {took:.2f} s: "
        f"{rate:,.0f} decisions/s ({rate / GOAL:.2f} x goal), {plain / took:,.0f} records/s; "
        + ", ".join(f"{verdict} {count:,}" for verdict, count in sorted(counts.items()))
    )


def memory(name: str, rounds: int) -> None:
    """Print the peak of allocations for a short and a long history."""
    for n in (1, rounds):
        history = Repeated(name, n)
        tracemalloc.start()
        for _ in verify(history):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{name} x {n}: peak {peak / 2**20:.1f} MiB")


def main(rounds: int = 10) -> None:
    """Both recordings."""
    for name in ("node-a", "node-b"):
        bench(name, rounds)
    memory("node-b", 5)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
