"""What a node costs a fleet, by recordings of whole nodes: per line of its log, and a day.

python -m tests.benchmarks.bench_node DIRECTORY...
"""

import sys
import tempfile
from pathlib import Path

from kubeledger.fleet.lake import Lake
from tests.benchmarks.bench_fleet import import_all

_DAY_NS = 24 * 3600 * 10**9


def main(directories: list[Path]) -> None:
    """Print them; a day is as busy as the recording was all along."""
    for directory in directories:
        lines = sum(1 for _ in (directory / "kubelet.log").open("rb"))
        with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
            results, _ = import_all([directory], Path(scratch) / "lake", "local")
            (head,) = Lake.open(f"{scratch}/lake").heads().values()
        node = head.summary
        parts = {
            "import": node.import_cpu_ms,
            "verify": node.verify_cpu_ms,
            "write": node.write_cpu_ms,
        }
        cost_s = sum(parts.values()) / 1000
        assert node.first_ts_ns is not None
        assert node.last_ts_ns is not None
        days = (node.last_ts_ns - node.first_ts_ns) / _DAY_NS
        print(
            f"{directory.name}: {lines:,} log lines, {node.source_bytes / 1e6:.0f} MB,"
            f" {days * 24 * 60:.0f} minutes: {cost_s:.1f} s ("
            + ", ".join(f"{name} {ms / 1000:.1f}" for name, ms in parts.items())
            + f"), {cost_s / lines * 1e6:.0f} µs a log line, {node.lake_bytes / 1e6:.1f} MB in the"
            f" lake; {sum(each.cpu_ms for each in results) / 1000:.1f} s in all"
        )
        print(f"  a day of that: {lines / days:,.0f} lines, {cost_s / days:,.0f} s,"
              f" {node.lake_bytes / days / 1e6:,.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
