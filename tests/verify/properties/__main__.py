"""Print the figures, or what is wrong with one case; see the package's docstring."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from kubeledger.model.units import format_ts
from kubeledger.verify import Contradiction, Outcome
from tests.verify.properties.bundles import BUNDLES
from tests.verify.properties.losses import LOSSES
from tests.verify.properties.measure import (
    CONTRADICTION,
    CRASH,
    Answer,
    Case,
    Judged,
    answers,
    judged,
    kind_of,
    owed,
)
from tests.verify.properties.shrinking import least_loss
from tests.verify.properties.truths import RECORDED, golden_names, named, truths

_LEVELS = ("whole", "drop1", "drop10", "drop30")


def main(arguments: Sequence[str]) -> int:
    """1 if a degraded truth is called impossible."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.properties", description=__doc__)
    parser.add_argument("--kinds", default="", help="only decisions whose kind begins so (a,b)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=24, help="simulated histories [24]")
    parser.add_argument("--files", type=int, default=1, help="turns through the recordings [1]")
    parser.add_argument("--lies", type=int, default=40, help="lies a history [40]; 0: none")
    parser.add_argument("--how", default="", help="only these ways to lose evidence (a,b)")
    parser.add_argument("--show", type=int, default=0, help="of each kind so many wrong cases")
    parser.add_argument("--missed", type=int, default=0, help="of each field so many missed lies")
    parser.add_argument("--case", help="print all that is wrong with one case, TRUTH:HOW:SEED")
    parser.add_argument("--shrink", action="store_true", help="the least loss of that case")
    given = parser.parse_args(arguments)
    if given.case:
        case = Case.parse(given.case)
        return _least(case) if given.shrink else _one(case)
    kinds = tuple(given.kinds.split(","))
    wrong = _truths(given, kinds)
    if given.lies:
        _lies(given, kinds)
    return 1 if wrong else 0


def _one(case: Case) -> int:
    found = judged(case.records())
    for outcome in found.wrong:
        print(*_reported(outcome), sep="\n    ")
    print(f"{case}: {found.decisions.total()} decisions, {found.decided.total()} decided,"
          f" {len(found.wrong)} wrong")  # fmt: skip
    return 1 if found.wrong else 0


def _least(case: Case) -> int:
    lost, left = least_loss(case)
    for record in lost:
        print(f"lost: record {record.seq} {format_ts(record.ts_ns)} {record.body}")
    for outcome in judged(left).wrong if left else ():
        print(*_reported(outcome), sep="\n    ")
    return 1 if lost else _one(case)


def _reported(outcome: Outcome) -> Iterator[str]:
    if isinstance(outcome, Contradiction):
        yield f"{CONTRADICTION} {outcome.subject}: {outcome.why}"
        yield from (f"record {side.seq}: {side.says}" for side in outcome.sides)
        return
    absent = "" if outcome.recorded is not None else " (absent)"
    yield f"{outcome.place} record {outcome.seq} {outcome.kind}{absent} {outcome.subject}"
    yield outcome.why
    if outcome.expected is not None:
        yield f"expected {outcome.expected}, recorded {outcome.recorded}"


def cases(seed: int, simulated: int, files: int, how: Sequence[str]) -> Iterator[Case]:
    """All cases of a table."""
    names = [truth.name for truth in truths(seed, simulated)]
    for way in LOSSES:
        if not how or way in how:
            yield from (Case(name, way, seed) for name in names)
    for turn in range(files):
        for way in BUNDLES:
            if not how or way in how:
                yield from (Case(f"files/{node}", way, seed + turn) for node in RECORDED)


def _truths(given: argparse.Namespace, kinds: tuple[str, ...]) -> int:
    ways = [way for way in given.how.split(",") if way]
    counts: dict[tuple[str, str], list[int]] = {}
    shown: Counter[tuple[str, str]] = Counter()
    total = 0
    for case in cases(given.seed, given.cases, given.files, ways):
        found = judged(case.records())
        total += _count(counts, case, found, kinds)
        for outcome in found.wrong:
            kind = kind_of(outcome)
            shown[kind, case.how] += 1
            if shown[kind, case.how] <= given.show and kind.startswith(
                (*kinds, CONTRADICTION, CRASH)
            ):
                print(f"--case {case}", *_reported(outcome), sep="\n    ", flush=True)
    _print_truths(counts)
    print(f"{total} wrong (impossible, or a contradiction) of degraded truths")
    return total


def _count(
    counts: dict[tuple[str, str], list[int]], case: Case, found: Judged, kinds: tuple[str, ...]
) -> int:
    """Decisions, decided, and wrong, of each kind and way; returns what is wrong."""
    wrong = Counter(kind_of(each) for each in found.wrong)
    total = 0
    level = ("files " if case.truth.startswith("files/") else "") + case.how
    for kind in {*found.decisions, *wrong}:
        if not kind.startswith((*kinds, CONTRADICTION, CRASH)):
            continue
        row = counts.setdefault((kind, level), [0, 0, 0])
        row[0] += found.decisions[kind]
        row[1] += found.decided[kind]
        row[2] += wrong[kind]
        total += wrong[kind]
    return total


def _print_truths(counts: dict[tuple[str, str], list[int]]) -> None:
    levels = [*_LEVELS, *(f"files {level}" for level in _LEVELS)]
    others = sorted({level for _, level in counts} - set(levels))
    header = "decided % (decisions), then '!' and wrong ones"
    print(f"{header:<38}" + "".join(f"{level:>18}" for level in levels) + f"{'others':>18}")
    for kind in sorted({kind for kind, _ in counts}):
        cells = [_cell([counts.get((kind, level), [0, 0, 0])]) for level in levels]
        cells.append(_cell([counts.get((kind, level), [0, 0, 0]) for level in others]))
        print(f"{kind:<38}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"\n{'all kinds, by way':<38}{'simulated':>18}{'files':>18}")
    for level in dict.fromkeys((*LOSSES, *BUNDLES)):
        cells = [
            _cell([row for (_, each), row in counts.items() if each == where])
            for where in (level, f"files {level}")
        ]
        print(f"{level:<38}" + "".join(f"{cell:>18}" for cell in cells))


def _cell(rows: Sequence[Sequence[int]]) -> str:
    there, decided, wrong = (sum(row[i] for row in rows) for i in range(3))
    text = f"{100 * decided / there:.1f} ({there})" if there else "-" if not wrong else ""
    return f"{text} !{wrong}" if wrong else text


def _lies(given: argparse.Namespace, kinds: tuple[str, ...]) -> None:
    reported: list[Answer] = []
    histories = [*(named(name) for name in RECORDED), *truths(given.seed, given.cases)]
    histories += [named(name) for name in golden_names()[given.seed % 4 :: 4]]
    for truth in histories:
        random = Random(f"{truth.name} {given.seed}")
        reported += answers(truth, random, given.lies, kinds)
        reported += owed(truth, random, given.lies, kinds)
    verdicts = ("caught", "elsewhere", "open", "admissible", "match", "missed", "lost")
    head = "".join(f"{verdict:>12}" for verdict in verdicts)
    print(f"\n{'lies':<58}{'caught %':>10}{'tried':>8}{head}")
    tables = [
        sorted({(a.kind, "") for a in reported}),
        sorted({(a.kind, a.field) for a in reported}),
    ]
    for kind, field in [*tables[0], *tables[1]]:
        rows = [a for a in reported if a.kind == kind and field in ("", a.field)]
        if not field:
            rows = [a for a in rows if a.field != "(not there)"]
        if rows:
            counts = Counter(answer.verdict for answer in rows)
            share = 100 * counts["caught"] / len(rows)
            cells = "".join(f"{counts[verdict] or '':>12}" for verdict in verdicts)
            print(f"{f'{kind} {field}':<58}{share:>10.1f}{len(rows):>8}{cells}")
    _print_missed(reported, given.missed)


def _print_missed(reported: Sequence[Answer], most: int) -> None:
    shown: Counter[tuple[str, str]] = Counter()
    for answer in reported:
        of = answer.kind, answer.field
        if answer.verdict != "caught" and shown[of] < most:
            shown[of] += 1
            print(f"{answer.truth} record {answer.seq} {answer.kind} {answer.field}"
                  f" {answer.verdict}: {answer.lie}")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
