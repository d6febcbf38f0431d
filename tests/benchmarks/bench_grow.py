"""What a node costs while it grows, as ratios: questions, and a day more, recorded or imported.

    python -m tests.benchmarks.bench_grow [DAYS] [LEDGER]

Processor time of this process; of commands, that of theirs, start-up included. The first is a
simulated day (or the first node of LEDGER), asked before anything is kept of it, then again, then
after 5 % more records; the second that day recorded DAYS times by a kubelet that goes on, verified
each evening; the third a recording's log cut into DAYS pieces of equally many lines, imported one
after the other.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodConfigChanged, PodListed
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Outcome
from tests.recordings import extract

_DAY = Path(__file__).parents[2] / "recordings/scenarios/node-day.yaml"
_LOG = "node-b"
_COMMAND = [sys.executable, "-m", "kubeledger"]
_POD = "service-7"
_MORE = 20
"""One part of so many is appended."""


def seconds(work: Callable[[], object]) -> float:
    """Processor time."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def of_command(*arguments: str) -> float:
    """Processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*_COMMAND, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def outcomes(ledger: Ledger) -> list[Outcome]:
    """Of all its nodes."""
    return [outcome for history in histories_of_ledger(ledger) for outcome in history.verify()]


def growing(whole: Ledger, scratch: Path) -> Ledger:
    """A ledger with all but the last records of another, of one node."""
    (node,) = whole.nodes()
    upto = whole.info(node).last_seq * (_MORE - 1) // _MORE
    ledger = Ledger.create(scratch / "growing")
    drafts: list[Draft] = []
    with ledger.writer() as writer:
        for record in whole.records(node):
            if record.seq > upto:
                break
            drafts.append(Draft(record.ts_ns, record.body, record.evidence, record.cause))
            if len(drafts) == 1000 or record.seq == upto:
                writer.append(node, drafts)
                drafts.clear()
    return ledger


def append_rest(whole: Ledger, ledger: Ledger) -> None:
    """The records that ``growing`` left."""
    (node,) = whole.nodes()
    rest = whole.records(node, ledger.info(node).last_seq)
    with ledger.writer() as writer:
        writer.append(node, [Draft(r.ts_ns, r.body, r.evidence, r.cause) for r in rest])


def bench_questions(whole: Ledger, scratch: Path) -> None:
    """Print what ``why``, ``ls`` and ``verify`` cost, before and after something is kept."""
    (node,) = whole.nodes()
    ledger = growing(whole, scratch)
    path = str(ledger.path)
    why = ("why", _POD, "--ledger", path)
    listed = ("ls", "--pod", _POD, "--limit", "5", "--ledger", path)
    print(f"{ledger.info(node).last_seq:,} records")
    print(f"ls --pod, nothing kept         {of_command(*listed):8.2f} s")
    first = seconds(lambda: outcomes(ledger))
    print(f"verify                         {first:8.2f} s")
    again = seconds(lambda: outcomes(ledger))
    print(f"verify again                   {again:8.2f} s {again / first:8.2f} x")
    first_why = of_command(*why)
    print(f"why, the first                 {first_why:8.2f} s")
    print(f"why, again                     {of_command(*why):8.2f} s")
    print(f"ls --pod                       {of_command(*listed):8.2f} s")
    append_rest(whole, ledger)
    grown = of_command(*why)
    print(f"why, {100 // _MORE} % more records         {grown:8.2f} s")
    more = seconds(lambda: outcomes(ledger))
    print(f"verify, {100 // _MORE} % more records      {more:8.2f} s {more / first:8.2f} x")
    encode = msgspec.json.encode
    equal = [encode(each) for each in outcomes(ledger)] == [
        encode(each) for history in histories_of_ledger(whole) for each in history.verified()
    ]
    print(f"findings as of one verification of all: {equal}")


_ONCE: Final = (KubeletStarted, PodAdmitted, PodConfigChanged, PodListed, SettingsObserved)
_DAY_NS: Final = 24 * 3600 * NS_PER_S


def bench_recorded_days(whole: Ledger, days: int, scratch: Path) -> None:
    """Print what verification costs each evening, and whether it says what one of all says."""
    (node,) = whole.nodes()
    ledger = Ledger.create(scratch / "recorded")
    costs: list[float] = []
    for day in range(days):
        drafts: list[Draft] = []
        with ledger.writer() as writer:
            for record in whole.records(node):
                if not day or not isinstance(record.body, _ONCE):
                    later_ns = record.ts_ns + day * _DAY_NS
                    drafts.append(Draft(later_ns, record.body, record.evidence))
                if len(drafts) == 1000:
                    writer.append(node, drafts)
                    drafts.clear()
            writer.append(node, drafts)
        costs.append(seconds(lambda: outcomes(ledger)))
    (history,) = histories_of_ledger(ledger)
    at_once: list[Outcome] = []
    taken = seconds(lambda: at_once.extend(history.verified()))
    print(f"{days} days, {ledger.info(node).last_seq:,} records; all at once {taken:.1f} s")
    print(f"verify of the first, the last  {costs[0]:8.2f} s {costs[-1]:8.2f} s"
          f" {costs[-1] / costs[0]:8.2f} x")  # fmt: skip
    print(f"findings as of one verification of all: {at_once == outcomes(ledger)}")


def bench_days(days: int, scratch: Path) -> None:
    """Print what the first and the last piece of a log cost, and whether the whole is the same."""
    lines = (extract(_LOG, scratch) / "kubelet.log").read_bytes().splitlines(keepends=True)
    ledger = Ledger.create(scratch / "days")
    costs: list[tuple[float, float]] = []
    for day in range(days):
        piece = scratch / f"day-{day:03}" / "kubelet.log"
        piece.parent.mkdir()
        begin, end = (len(lines) * at // days for at in (day, day + 1))
        piece.write_bytes(b"".join(lines[begin:end]))
        taken = seconds(lambda piece=piece: import_sources([str(piece.parent)], ledger))  # type: ignore[misc] # bound in the loop
        costs.append((taken, seconds(lambda: outcomes(ledger))))
    whole = Ledger.create(scratch / "one")
    at_once = scratch / "one-import" / "kubelet.log"
    at_once.parent.mkdir()
    at_once.write_bytes(b"".join(lines))
    taken = seconds(lambda: import_sources([str(at_once.parent)], whole))
    (first_import, first_verify), (last_import, last_verify) = costs[0], costs[-1]
    print(f"{_LOG}, {len(lines):,} lines in {days} pieces; all at once {taken:.2f} s")
    print(f"import of the first, the last  {first_import:8.2f} s {last_import:8.2f} s"
          f" {last_import / first_import:8.1f} x")  # fmt: skip
    print(f"verify after it                {first_verify:8.2f} s {last_verify:8.2f} s"
          f" {last_verify / first_verify:8.1f} x")  # fmt: skip
    pieces, one = ([type(o).__name__ for o in outcomes(each)] for each in (ledger, whole))
    print(f"findings of the pieces, of one import: {len(pieces)}, {len(one)}")


def main(days: int = 30, directory: str | None = None) -> None:
    """All three."""
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as place:
        scratch = Path(place)
        if directory is None:
            directory = str(scratch / "whole")
            subprocess.run(
                [*_COMMAND, "simulate", str(_DAY), "--quiet", "--ledger", directory], check=True
            )
        bench_questions(Ledger.open(directory), scratch)
        bench_recorded_days(Ledger.open(directory), days, scratch)
        bench_days(days, scratch)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30, *sys.argv[2:3])
