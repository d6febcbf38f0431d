"""What a node costs while it grows, as ratios: questions, and a day more, recorded or imported.

    python -m tests.benchmarks.bench_grow [DAYS] [LEDGER]

Processor time of this process; of commands, that of theirs, start-up included. The first is a
simulated day (or the first node of LEDGER), asked before anything is kept of it, then again, then
after 5 % more records. The second is a recording's log cut into 30 pieces of equally many lines,
imported one after the other; the third that log imported whole on each of DAYS days, and verified
each evening; the last that simulated day recorded on DAYS days, of other pods each day, and asked
about each evening. Thirty of these take a quarter of an hour.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from pathlib import Path

import msgspec
import yaml

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.histories.verdicts import is_wrong
from kubeledger.analyze.histories.watching import Watch
from kubeledger.analyze.why.names import kept_folds
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.record import Record
from kubeledger.verify import Outcome
from tests.benchmarks import later_days
from tests.benchmarks.cost import processor_s
from tests.recordings import extract

_DAY = Path(__file__).parents[2] / "recordings/scenarios/node-day.yaml"
_LOG = "node-b"
_COMMAND = [sys.executable, "-m", "kubeledger"]
_POD = "service-7"
_MORE = 20
"""One part of so many is appended."""
_DRAINED = "1430m"
"""Each evening the node is emptied."""
_LOOKS, _A_LOOK = 5, 2000


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def of_command(*arguments: str) -> float:
    work = [*_COMMAND, *arguments]
    return processor_s(lambda: subprocess.run(work, capture_output=True, check=False))


def outcomes(ledger: Ledger) -> list[Outcome]:
    keeping = (history.keeping(kept_folds) for history in histories_of_ledger(ledger))
    return [outcome for history in keeping for outcome in history.verify()]


def growing(whole: Ledger, scratch: Path) -> Ledger:
    """A ledger with all but the last records of another, of one node."""
    (node,) = whole.nodes()
    upto = whole.info(node).last_seq * (_MORE - 1) // _MORE
    ledger = Ledger.create(scratch / "growing")
    append(
        ledger, node, (_draft(r) for r in takewhile(lambda r: r.seq <= upto, whole.records(node)))
    )
    return ledger


def append_rest(whole: Ledger, ledger: Ledger) -> None:
    """The records that ``growing`` left."""
    (node,) = whole.nodes()
    append(ledger, node, map(_draft, whole.records(node, ledger.info(node).last_seq)))


def append(ledger: Ledger, node: str, drafts: Iterable[Draft]) -> None:
    """Write them, a thousand at a time."""
    left = iter(drafts)
    with ledger.writer() as writer:
        while some := list(islice(left, 1000)):
            writer.append(node, some)


def _draft(record: Record) -> Draft:
    return Draft(record.ts_ns, record.body, record.evidence, record.cause)


def ratio(costs: Sequence[float], name: str) -> None:
    """Print the first, the last, and how often the first goes into the last."""
    first, last = costs[0], costs[-1]
    print(f"{name + ', the first, the last':30} {first:8.2f} s {last:8.2f} s {last / first:8.2f} x")


def bench_questions(whole: Ledger, scratch: Path) -> None:
    """Print what ``why``, ``ls`` and ``verify`` cost, before and after something is kept."""
    (node,) = whole.nodes()
    ledger = growing(whole, scratch)
    path = str(ledger.path)
    why = ("why", _POD, "--ledger", path)
    all_listed = ("ls", "--pod", _POD, "--ledger", path)
    listed = (*all_listed, "--limit", "5")
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
    print(f"ls --pod, all of its records   {of_command(*all_listed):8.2f} s")
    append_rest(whole, ledger)
    grown_ledger = Ledger.open(shutil.copytree(ledger.path, scratch / "verified"))
    more = seconds(lambda: outcomes(grown_ledger))
    grown = of_command(*why)
    print(f"why, {100 // _MORE} % more records         {grown:8.2f} s")
    print(f"verify, {100 // _MORE} % more records      {more:8.2f} s {more / first:8.2f} x")
    encode = msgspec.json.encode
    equal = [encode(each) for each in outcomes(ledger)] == [
        encode(each) for history in histories_of_ledger(whole) for each in history.verified()
    ]
    print(f"findings as of one verification of all: {equal}")


def bench_recorded_days(whole: Ledger, days: int, scratch: Path) -> None:
    """Print what each evening costs, what a look costs then, and whether all says the same."""
    (node,) = whole.nodes()
    ledger = Ledger.create(scratch / "recorded")
    evenings: list[list[float]] = []
    for day in range(days):
        append(ledger, node, later_days.records_of(whole, day, _last_seq(ledger)))
        asked = (("verify",), ("why", _POD), ("ls", "--pod", _POD, "--limit", "5"))
        evenings.append([of_command(*words, "--ledger", str(ledger.path)) for words in asked])
    print(f"{days} days, {_last_seq(ledger):,} records")
    for at, name in enumerate(("verify", "why", "ls --pod", "all three")):
        ratio([evening[at] if at < len(evening) else sum(evening) for evening in evenings], name)
    (history,) = histories_of_ledger(ledger)
    at_once: list[Outcome] = []
    taken = seconds(lambda: at_once.extend(history.verified()))
    wrong = sum(map(is_wrong, at_once))
    print(f"findings as of one verification of all: {at_once == outcomes(ledger)}"
          f" ({wrong} wrong), which takes {taken:.1f} s")  # fmt: skip
    watch = Watch(ledger, node, settle_s=0)
    drafts = later_days.records_of(whole, days, _last_seq(ledger))
    looks: list[float] = []
    for _ in range(_LOOKS):
        append(ledger, node, islice(drafts, _A_LOOK))
        looks.append(seconds(lambda: list(watch.look(0))))
    print(f"verify -f, a look after {_A_LOOK:,} records more, {_LOOKS} of them"
          f" {min(looks):8.2f} to {max(looks):.2f} s")  # fmt: skip


def bench_logged_days(days: int, scratch: Path) -> None:
    """Print what the whole log costs each day: its import, and verification in the evening."""
    log = (extract(_LOG, scratch) / "kubelet.log").read_bytes()
    ledger = Ledger.create(scratch / "logged")
    imports: list[float] = []
    evenings: list[float] = []
    for day in range(days):
        piece = scratch / f"logged-{day:03}" / "kubelet.log"
        piece.parent.mkdir()
        piece.write_bytes(later_days.log_of(log, day))
        imports.append(of_command("import", str(piece.parent), "--ledger", str(ledger.path)))
        evenings.append(of_command("verify", "--ledger", str(ledger.path)))
    wrong = sum(map(is_wrong, outcomes(ledger)))
    print(f"{_LOG}'s log on {days} days, {_last_seq(ledger):,} records, {wrong} outcomes wrong")
    ratio(imports, "import")
    ratio(evenings, "verify")
    ratio([sum(both) for both in zip(imports, evenings, strict=True)], "both")


def _last_seq(ledger: Ledger) -> int:
    """Of its only node; 0 before it has one."""
    return max((ledger.info(node).last_seq for node in ledger.nodes()), default=0)


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
    print(f"{_LOG}, {len(lines):,} lines in {days} pieces; all at once {taken:.2f} s")
    ratio([each for each, _ in costs], "import")
    ratio([each for _, each in costs], "verify")
    pieces, one = ([type(o).__name__ for o in outcomes(each)] for each in (ledger, whole))
    print(f"findings of the pieces, of one import: {len(pieces)}, {len(one)}")


def main(days: int = 5, directory: str | None = None) -> None:
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as place:
        scratch = Path(place)
        if directory is None:
            directory = str(scratch / "whole")
            scenario = yaml.safe_load(_DAY.read_text())
            for pods in scenario["pods"]:
                pods["deleted"] = _DRAINED
            day = scratch / "day.yaml"
            day.write_text(json.dumps(scenario))
            subprocess.run(
                [*_COMMAND, "simulate", str(day), "--quiet", "--ledger", directory], check=True
            )
        bench_questions(Ledger.open(directory), scratch)
        bench_days(30, scratch)
        bench_logged_days(days, scratch)
        bench_recorded_days(Ledger.open(directory), days, scratch)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, *sys.argv[2:3])
