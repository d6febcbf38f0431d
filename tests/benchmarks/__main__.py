"""All benchmarks in one run, on the recordings of the repository: ``python -m tests.benchmarks``.

Ratios are what counts; absolute times belong to the machine. Nothing here is a test.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import (
    bench_decide,
    bench_grow,
    bench_import,
    bench_ledger,
    bench_replay,
    bench_sql,
    bench_timeline,
    bench_verify,
)
from tests.recordings import extract

RUNS = 9


def bench_help() -> None:
    """``kubeledger --help`` against ``import click`` in a fresh interpreter."""
    plain = _median([sys.executable, "-c", "import click"])
    own = _median([sys.executable, "-m", "kubeledger", "--help"])
    print(f"{'import click':<16}{plain * 1000:8.1f} ms")
    print(f"{'--help':<16}{own * 1000:8.1f} ms  {own / plain:6.2f} x")


def _median(command: list[str]) -> float:
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - begin)
    return sorted(times)[RUNS // 2]


def main() -> None:
    """Run them one after the other."""
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        for name in ("node-a", "node-b", "node-e-evictions", "node-e-oom"):
            print(f"\n-- import of {name}'s log --")
            log = extract(name, Path(scratch)) / "kubelet.log"
            bench_import.main(log, 3)
    print("\n-- ledger --")
    bench_ledger.main([])
    print("\n-- replay --")
    bench_replay.main()
    print("\n-- SQL --")
    bench_sql.main([])
    print("\n-- decide --")
    bench_decide.main([bench_decide.CASES])
    print("\n-- verify --")
    bench_verify.main()
    print("\n-- while a node grows --")
    bench_grow.main()
    print("\n-- timeline page, 100,000 items --")
    bench_timeline.main()
    print("\n-- start-up --")
    bench_help()


if __name__ == "__main__":
    main()
