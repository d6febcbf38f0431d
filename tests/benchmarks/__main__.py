"""All benchmarks in one run, on the recordings of the repository: ``python -m tests.benchmarks``.

Ratios are what counts; absolute times belong to the machine. Nothing here is a test.
"""

import tempfile
from pathlib import Path

from tests.benchmarks import (
    bench_day,
    bench_decide,
    bench_grow,
    bench_import,
    bench_ledger,
    bench_replay,
    bench_sql,
    bench_start,
    bench_timeline,
    bench_verify,
)
from tests.recordings import extract


def main() -> None:
    """Run them one after the other."""
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        for name in ("node-a", "node-b", "node-e-evictions", "node-e-oom", "node-f"):
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
    print("\n-- timeline and audit of a simulated day --")
    bench_day.main()
    print("\n-- start-up --")
    bench_start.main()


if __name__ == "__main__":
    main()
