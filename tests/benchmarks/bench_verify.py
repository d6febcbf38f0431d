"""Verification: decisions a second over a long history, and memory against its length.

    python -m tests.benchmarks.bench_verify [ROUNDS]

Two kinds of history: a synthetic one in which every second record is a decision (readiness
probes that flap), and a recording behind itself again and again, each time later, of which
about one record in nine is a decision. What is measured is the verification of records in
memory. The goal is 20,000 decisions a second. A third is a simulated node, read from its ledger,
as a user does it: a day of it, 280,000 records, is to take 3 s of the processor.
"""

import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeResult, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.testing.scene import Scene
from kubeledger.verify import Contradiction, verify
from tests.verify.histories import reader, recorded

GOAL = 20_000
DAY_RECORDS, DAY_GOAL_S = 280_000, 3.0
_DAY = Path(__file__).parents[2] / "recordings/scenarios/node-day.yaml"


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


def flapping(pods: int, ticks: int) -> list[Record]:
    """A synthetic history: readiness probes whose every tick changes the cached result."""
    scene = Scene("1.36.2", settings={"maxPods": 500})
    probe = {"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 1}
    spec = {
        "restartPolicy": "Always",
        "containers": [{"name": "app", "image": "app:1", "readinessProbe": probe}],
    }
    names = [("default", f"flap-{n}", f"{n:08x}-0000-4000-8000-000000000000") for n in range(pods)]
    for namespace, pod, uid in names:
        scene.at(
            1,
            PodListed(
                namespace=namespace, pod=pod, pod_uid=uid, spec=spec, status={}, listed_by="kubelet"
            ),
        )
    results: tuple[ProbeResult, ...] = ("failure", "success")
    for tick in range(ticks):
        for n, (namespace, pod, uid) in enumerate(names):
            whose: dict[str, Any] = {
                "namespace": namespace, "pod": pod, "pod_uid": uid, "container": "app",
                "container_id": f"{n:064x}", "probe_type": "readiness",
            }  # fmt: skip
            now = results[(tick + 1) % 2]
            at_s = 5 + tick * 10 + n / pods
            seq = scene.at(at_s, ProbeExecuted(**whose, result=now, output=None))
            changed = ProbeTransitioned(**whose, from_result=results[tick % 2], to_result=now)
            scene.at(at_s, changed, cause=seq)
    return scene.records


def bench_flapping() -> None:
    """Print the rate where every second record is a decision."""
    records = flapping(100, 200)
    read = reader(records)
    begin = time.perf_counter()
    counts = Counter(o.verdict for o in verify(read) if not isinstance(o, Contradiction))
    took = time.perf_counter() - begin
    rate = counts.total() / took
    print(
        f"flapping probes: {len(records):,} records, {counts.total():,} decisions in {took:.2f} s: "
        f"{rate:,.0f} decisions/s ({rate / GOAL:.2f} x goal); "
        + ", ".join(f"{verdict} {count:,}" for verdict, count in sorted(counts.items()))
    )


def bench_simulated(duration: str = "6h") -> None:
    """Print what a simulated day costs, by a part of it."""
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        command = [sys.executable, "-m", "kubeledger", "simulate", str(_DAY), "--quiet"]
        subprocess.run([*command, "--duration", duration, "--ledger", scratch], check=True)
        (history,) = histories_of_ledger(Ledger.open(scratch))
        count = sum(1 for _ in history.read(None))
        begin = time.process_time()
        for _ in history.verify():
            pass
        day_s = (time.process_time() - begin) / count * DAY_RECORDS
    print(
        f"simulated day: {day_s:.1f} s of the processor for {DAY_RECORDS:,} records "
        f"({day_s / DAY_GOAL_S:.2f} x goal), by {count:,} of them"
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
    bench_flapping()
    bench_simulated()
    for name in ("node-a", "node-b"):
        bench(name, rounds)
    memory("node-b", 5)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
