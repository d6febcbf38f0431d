"""Import of a kubelet log against ``grep -cE`` for the same messages on the same file.

Run: python -m tests.benchmarks.bench_import LOG [ROUNDS]
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.assemblers import assemblers_of
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.klog.account import Account
from kubeledger.ingest.klog.reader import KlogReader
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.planning.identity import KubeletVersion
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger

MESSAGES = (
    r"FLAG: |KubeletConfiguration|Machine: \{|SyncLoop |Event occurred|probe for \"|Probe failed"
    r"|Probe succeeded|[Ii]mage|preempt|[Aa]llocat|needs [0-9]|TopologyHint|evict|Killing"
    r"|Updated QoS|pod requests total|back-?off|observations|Pod.*admi|Registered endpoint"
)


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Shortest of several runs, in seconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def read_only(log: Path) -> None:
    """Read the log as the import does, without assemblers at work and without a ledger."""
    context = BundleContext(node="node")
    version = KubeletVersion(None, None)
    routes = router(assemblers_of(context, lambda _: version).in_order)
    source = SourceFile(log.name, log)
    for _ in KlogReader(Account(log.name), routes, Clock(2026)).read(source.chunks()):
        pass


def whole_import(log: Path) -> None:
    """Everything: survey, digests, assemblers, durable records."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = Ledger.create(Path(directory) / "ledger")
        import_sources([str(log)], ledger)


def main(log: Path, rounds: int) -> None:
    """Print lines a second, and times as multiples of grep's."""
    re.compile(MESSAGES)  # grep must be asked for something sensible
    lines = sum(1 for _ in log.open("rb"))
    grep = best_of(
        rounds, lambda: subprocess.run(["grep", "-cE", MESSAGES, str(log)], capture_output=True)
    )
    print(f"{'grep -cE':<12}{lines / grep:>14,.0f} lines/s")
    for name, work in (("read", read_only), ("import", whole_import)):
        seconds = best_of(rounds, lambda work=work: work(log))  # type: ignore[misc]  # bound in the loop
        print(f"{name:<12}{lines / seconds:>14,.0f} lines/s  {seconds / grep:6.1f} x grep")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
