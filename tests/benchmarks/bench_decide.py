"""``decide`` on recorded cases against ``json.loads`` over the same lines, start-up aside.

Run: python -m tests.benchmarks.bench_decide [DIRECTORY ...]
A directory holds <version>/<subsystem>.jsonl or .jsonl.zst; without one, the cases of the tests.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import zstandard

from kubeledger.kubelet.cases.registry import decider_of

CASES = Path(__file__).parents[1] / "data" / "conformance"
GOALS: dict[str, float] = {
    "admission": 1.3,
    "qos": 1.5,
    "prober": 1.7,
    "podactions": 2,
    "backoff": 3,
    "eviction": 3.5,
    "cgroup": 4.5,
    **dict.fromkeys(("cpumanager", "memorymanager", "topology", "imagepull", "resize", "dra"), 3),
}
ROUNDS = 5


def lines_of(path: Path) -> list[bytes]:
    """Lines as ``decide`` gets them: without the recorded outcomes."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    cases = [json.loads(line) for line in data.splitlines()]
    for case in cases:
        case.pop("outcomes", None)
    return [json.dumps(case, separators=(",", ":")).encode() for case in cases]


def best_of(work: Callable[[bytes], object], lines: list[bytes]) -> float:
    """Shortest of several passes over all lines, in seconds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for line in lines:
            work(line)
        times.append(time.perf_counter() - begin)
    return min(times)


def main(directories: Iterable[Path]) -> None:
    """Print a row for each subsystem: cases a second, ratio, goal."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for directory in directories:
        for path in sorted(directory.glob("*/*.jsonl*")):
            found[path.name.partition(".")[0]] += lines_of(path)
    for subsystem, lines in sorted(found.items()):
        loads, decide = best_of(json.loads, lines), best_of(decider_of(subsystem), lines)
        goal = f"  goal {GOALS[subsystem]}" if subsystem in GOALS else ""
        rate = f"{len(lines) / decide:>9,.0f} cases/s"
        print(f"{subsystem:<16}{rate}  {decide / loads:5.2f} x json.loads{goal}")


if __name__ == "__main__":
    main([Path(text) for text in sys.argv[1:]] or [CASES])
