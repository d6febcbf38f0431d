"""Replay against bare msgspec decode of the same records, as ratios on one machine.

    python tests/benchmarks/bench_replay.py [ROUNDS]

Input is the bundled recording of a real node, imported once and replayed ROUNDS times.
Decode: each line into its envelope and its body's type, nothing checked. Replay: the same
and the reducers. State at an instant: the middle of a long history (the recording behind
itself again and again), with snapshots and without.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import decode_line
from kubeledger.replay import fold, refresh_snapshots, state_at

RECORDING = Path(__file__).parents[2] / "recordings" / "node-a.tar.zst"
REPEATS = 5
LONG_RECORDS = 200_000


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the quickest of several runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def bench_fold(ledger: Ledger, node: str, rounds: int) -> None:
    """Decode, and decode with reducers."""
    lines = [raw.line for raw in ledger.raw_lines(node)] * rounds
    records = [decode_line(line) for line in lines]

    def decode() -> None:
        for line in lines:
            decode_line(line)

    decoding = best(decode)
    replaying = best(lambda: fold(decode_line(line) for line in lines))
    reducing = best(lambda: fold(records))
    for what, seconds in (("decode", decoding), ("replay", replaying), ("reduce", reducing)):
        rate = len(lines) / seconds
        print(f"{what:<8}{seconds:8.3f} s  {rate:>11,.0f} records/s  x {seconds / decoding:.2f}")


def bench_state_at(directory: Path, records: list[Record], node: str) -> None:
    """One question about the middle of a long history."""
    ledger = Ledger.create(directory)
    span_ns = records[-1].ts_ns - records[0].ts_ns + 1
    rounds = LONG_RECORDS // len(records)
    with ledger.writer() as writer:
        for n in range(rounds):
            writer.append(node, [Draft(r.ts_ns + n * span_ns, r.body, r.evidence) for r in records])
    at_ns = records[0].ts_ns + span_ns * rounds // 2
    took = best(lambda: refresh_snapshots(ledger, node), 1)
    print(
        f"\n{rounds * len(records):,} records, snapshots taken in {took:.1f} s; state in the middle"
    )
    for snapshots in (True, False):

        def ask(snapshots: bool = snapshots) -> object:
            return state_at(ledger, node, ts_ns=at_ns, snapshots=snapshots)

        took_ms = best(ask, 3 if snapshots else 1) * 1000
        print(f"{'with' if snapshots else 'without'} snapshots {took_ms:10.1f} ms")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        ledger = Ledger.create(Path(scratch) / "ledger")
        import_sources([str(RECORDING)], ledger, ImportOptions(), None)
        node = ledger.nodes()[0]
        bench_fold(ledger, node, rounds)
        bench_state_at(Path(scratch) / "long", list(ledger.records(node)), node)


if __name__ == "__main__":
    main()
