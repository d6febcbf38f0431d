"""What commands take before they do anything: against ``import click`` in a fresh interpreter."""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.cost import command, least_s

ROUNDS = 7
_LINE = 'I0102 03:04:05.000000     7 server.go:1] "Started kubelet"\n'


def main() -> None:
    """Print processor time, and the ratio; the log has one line, and the ledger its records."""
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        log, ledger = Path(scratch) / "kubelet.log", Path(scratch) / "ledger"
        log.write_text(_LINE, "utf-8")
        new = Path(scratch) / "new"
        own = [sys.executable, "-m", "kubeledger"]
        asked = {
            "import click": [sys.executable, "-c", "import click"],
            "import duckdb": [sys.executable, "-c", "import duckdb; duckdb.connect()"],
            "--help": [*own, "--help"],
            "import": [*own, "import", str(log), "--ledger", str(new)],
            "why": [*own, "why", "node", "--ledger", str(ledger)],
            "sql": [*own, "sql", "SELECT * FROM preemptions", "--ledger", str(ledger)],
        }
        command([*asked["import"][:-1], str(ledger)])()
        works = [command(words) for words in asked.values()]
        times = least_s(ROUNDS, lambda: shutil.rmtree(new, ignore_errors=True), *works)[1:]
    for name, seconds in zip(asked, times, strict=True):
        print(f"{name:<16}{seconds * 1000:8.1f} ms  {seconds / times[0]:6.2f} x")


if __name__ == "__main__":
    main()
