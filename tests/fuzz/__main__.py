"""``python -m tests.fuzz``: a long run, or one input again.

    python -m tests.fuzz                         a million inputs over all targets
    python -m tests.fuzz --inputs 10000 log-text pods
    python -m tests.fuzz log-text 17.4           this input again, with its traceback
    python -m tests.fuzz log-text 17.4 --show    its bytes

A long run works in a process of its own. This one watches it: an input that never ends, memory
that grows, a process that dies are failures, too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.lineage import input_of, parse_lineage
from tests.fuzz.loop import Tally, attempt_within, fuzz, rss_bytes
from tests.fuzz.targets import TARGETS

MILLION = 1_000_000
GROWTH_BYTES_MAX = 96 << 20
"""Between a tenth of a run and its end: what caches, kept inputs and allocators may take."""

STUCK_S = 300.0
_TELL_S = 60.0


def main() -> int:
    """Run; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("words", nargs="*", help="targets, or one target and a lineage")
    parser.add_argument("--inputs", type=int, default=MILLION)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="write the input's bytes")
    parser.add_argument("--list", action="store_true", help="names of the targets")
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.list:
        print("\n".join(TARGETS))
        return 0
    if len(given.words) == 2 and given.words[1] not in TARGETS:
        return _again(given.words[0], given.words[1], show=given.show)
    unknown = [name for name in given.words if name not in TARGETS]
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}; --list tells which there are")
    if given.note is not None:
        return _work(given.words or list(TARGETS), given.inputs, given.seed, given.note)
    return _watch(given.words, given.inputs, given.seed)


def _again(name: str, lineage: str, *, show: bool) -> int:
    target = TARGETS[name]
    data = input_of(target, parse_lineage(lineage))
    if show:
        sys.stdout.buffer.write(data)
        return 0
    print(f"{name} {lineage}: {attempt_within(target, data)}")
    return 0


def _work(names: list[str], inputs: int, seed: int, note: Path) -> int:
    started = time.monotonic()
    warm = shown = 0
    told_at = started

    def tell(tally: Tally, count: int) -> None:
        nonlocal warm, told_at, shown
        for failure in list(tally.failures.values())[shown:]:
            print(f"FAILED {failure.where}\n  {failure.again}", flush=True)
            shown += 1
        if not warm and count >= inputs // 10:
            warm = rss_bytes()
        if time.monotonic() - told_at > _TELL_S:
            told_at = time.monotonic()
            rate = count / (told_at - started)
            rss = rss_bytes() >> 20
            print(f"{count:>9} inputs, {rate:.0f}/s, {tally.lines} lines reached, {rss} MiB, "
                  f"{len(tally.failures)} failures", flush=True)  # fmt: skip

    tally = fuzz([TARGETS[name] for name in names], inputs, seed, tell=tell, note=note)
    _report(tally, inputs, time.monotonic() - started)
    growth = rss_bytes() - warm if warm else 0
    print(
        f"memory: {rss_bytes() >> 20} MiB, {growth / (1 << 20):+.0f} MiB since a tenth of the run"
    )
    if growth > GROWTH_BYTES_MAX:
        print("FAILED: memory grows")
        return 1
    return 1 if tally.failures else 0


def _report(tally: Tally, inputs: int, seconds: float) -> None:
    per_target: Counter[str] = Counter()
    for (name, _), count in tally.inputs.items():
        per_target[name] += count
    print(f"{'target':<24}{'inputs':>9}{'read':>9}{'refused':>9}{'failed':>8}{'kept':>7}{'/s':>8}")
    for name, count in per_target.most_common():
        ends = [tally.inputs[name, ended] for ended in ("read", "refused", "failed")]
        rate = count / max(tally.seconds[name], 1e-9)
        print(
            f"{name:<24}{count:>9}{ends[0]:>9}{ends[1]:>9}{ends[2]:>8}{tally.kept[name]:>7}{rate:>8.0f}"
        )
    print(f"{inputs} inputs in {seconds:.0f} s, {inputs / seconds:.0f} inputs/s, "
          f"{tally.lines} lines of the package reached")  # fmt: skip
    for failure in tally.failures.values():
        print(f"\nFAILED {failure.where}\n  {failure.again}\n{failure.trace}")


def _watch(words: list[str], inputs: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as directory:
        note = Path(directory) / "note"
        command = [sys.executable, "-m", "tests.fuzz", *words, "--note", str(note)]
        command += ["--inputs", str(inputs), "--seed", str(seed)]
        worker = subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": "0"})
        last, since = "", time.monotonic()
        try:
            while worker.poll() is None:
                time.sleep(1)
                now = note.read_text() if note.exists() else ""
                if now != last:
                    last, since = now, time.monotonic()
                elif now and time.monotonic() - since > STUCK_S:
                    print(f"FAILED: stuck for {STUCK_S:g} s\n  python -m tests.fuzz {now}")
                    return 1
        finally:
            worker.kill()
            worker.wait()
        if worker.returncode not in (0, 1):
            print(f"FAILED: the process died ({worker.returncode})\n  python -m tests.fuzz {last}")
        return 1 if worker.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
