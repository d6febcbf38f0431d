"""A simulated day's page and its audit, against reading its records: time, and peak of memory.

python -m tests.benchmarks.bench_day [DURATION]
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ledger.ledger import Ledger
from tests.benchmarks.cost import command, least_s

ROUNDS = 3
_DAY = Path(__file__).parents[2] / "recordings/scenarios/node-day.yaml"


def main(duration: str = "24h") -> None:
    """Print processor time, the multiple of reading, and the largest peak."""
    own = [sys.executable, "-m", "kubeledger"]
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        where = ["--ledger", f"{scratch}/ledger"]
        command([*own, "simulate", str(_DAY), "--quiet", "--duration", duration, *where])()
        (history,) = histories_of_ledger(Ledger.open(Path(scratch) / "ledger"))
        count = sum(1 for _ in history.read(None))
        drawing = [*own, "timeline", "--out", f"{scratch}/page.html", *where]
        subprocess.run(drawing, capture_output=True, check=True)  # makes what is kept for later
        works = (
            lambda: sum(1 for _ in history.read(None)),
            command(drawing),
            command([*own, "audit", *where]),
        )
        times = least_s(ROUNDS, *works)
    for name, seconds in zip(("reading", "timeline", "audit"), times, strict=True):
        print(f"{name:<16}{seconds:8.2f} s  {seconds / times[0]:6.1f} x reading")
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{count:,} records; at most {peak_mb:.0f} MB in a program")


if __name__ == "__main__":
    main(*sys.argv[1:2])
