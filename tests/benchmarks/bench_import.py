"""Import of a kubelet log against ``grep -cE`` for the same messages on the same file.

    python -m tests.benchmarks.bench_import LOG [ROUNDS]

And what the same lines cost as the log of 32 nodes, and as two copies, against one.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from kubeledger.ingest.api import ImportReport, import_sources
from kubeledger.ingest.assemblers import Assemblers
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.klog.account import Account
from kubeledger.ingest.klog.reader import KlogReader
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.planning.plan import KubeletVersion
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger
from tests.benchmarks.cost import least_s

MESSAGES = (
    r"FLAG: |KubeletConfiguration|Machine: \{|SyncLoop |Event occurred|probe for \"|Probe failed"
    r"|Probe succeeded|[Ii]mage|preempt|[Aa]llocat|needs [0-9]|TopologyHint|evict|Killing"
    r"|Updated QoS|pod requests total|back-?off|observations|Pod.*admi|Registered endpoint"
)
NODES = 32
_OF_EACH = 2000
_HEADER = re.compile(rb"[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{6}) ")


def read_only(log: Path) -> None:
    """Read the log as the import does, without assemblers at work and without a ledger."""
    context = BundleContext(node="node")
    version = KubeletVersion(None, None)
    routes = router(Assemblers(context, lambda _: version).of("reads"))
    source = SourceFile(log.name, log)
    for _ in KlogReader(Account(log.name), routes, Clock(2026)).read(source.chunks()):
        pass


def whole_import(logs: Sequence[Path]) -> ImportReport:
    """Everything: survey, digests, assemblers, durable records."""
    with tempfile.TemporaryDirectory() as directory:
        ledger = Ledger.create(Path(directory) / "ledger")
        return import_sources([str(log) for log in logs], ledger)


def carried(entries: Sequence[bytes], node: bytes, host: bytes) -> list[bytes]:
    """The entries of a node's log as a journal shows them of one that is called by the host."""
    found = []
    for entry in entries:
        stamp = b"2026-%b-%bT%b+00:00" % _HEADER.findall(entry)[0]
        found.append(b"%b %b kubelet[1]: %b" % (stamp, host, entry.replace(node, host)))
    return found


def bench_several(log: Path, node: str, rounds: int) -> None:
    """Print what a line costs in a log of many nodes, and in a second copy."""
    lines = log.read_bytes().splitlines(keepends=True)[:_OF_EACH]
    entries = [line[begin.start() :] for line in lines if (begin := _HEADER.search(line))]
    with tempfile.TemporaryDirectory() as directory:
        one, many, bare = (Path(directory) / name for name in ("one.log", "many.log", "bare.log"))
        of_each = [carried(entries, node.encode(), b"host-%02d" % n) for n in range(NODES)]
        one.write_bytes(b"".join(of_each[0]))
        many.write_bytes(b"".join(chain.from_iterable(zip(*of_each, strict=True))))
        bare.write_bytes(b"".join(entries).replace(node.encode(), b"host-00"))
        alone_s, copies_s, many_s = least_s(
            rounds,
            lambda: whole_import([one]),
            lambda: whole_import([one, bare]),
            lambda: whole_import([many]),
        )
    print(f"{NODES} nodes in one log{many_s / NODES / alone_s:8.2f} x a line of one")
    print(f"text and journal    {copies_s / alone_s:8.2f} x one of them")


def main(log: Path, rounds: int) -> None:
    """Print lines a second, and times as multiples of grep's."""
    (bundle,) = whole_import([log]).bundles
    accounts = bundle.accounts
    lines = sum(each.lines for each in accounts)
    read = lines - sum(each.noise for each in accounts)
    grep_s, reading_s, import_s = least_s(
        rounds,
        lambda: subprocess.run(["grep", "-cE", MESSAGES, str(log)], capture_output=True),
        lambda: read_only(log),
        lambda: whole_import([log]),
    )
    print(f"{'grep -cE':<12}{lines / grep_s:>14,.0f} lines/s")
    for name, seconds in (("read", reading_s), ("import", import_s)):
        print(
            f"{name:<12}{lines / seconds:>14,.0f} lines/s  {seconds / grep_s:6.1f} x grep"
            f"  {seconds / read * 1e6:6.1f} µs a line that is no noise"
        )
    bench_several(log, bundle.node, rounds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
