"""Tell tales over true histories, or in raw files, and count what is said of them.

``python -m tests.verify.properties.telling [--raw]``
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random

import msgspec

from kubeledger.model.record import Record
from kubeledger.verify import Finding, Outcome
from tests.verify.histories import outcomes
from tests.verify.properties.bundles import imported
from tests.verify.properties.further import FURTHER
from tests.verify.properties.inventions import INVENTED
from tests.verify.properties.list_lies import LIST_LIARS
from tests.verify.properties.measure import is_wrong
from tests.verify.properties.raw_lies import LIARS, Bundle, RawLie, bundle
from tests.verify.properties.story_lies import STORY_LIARS
from tests.verify.properties.tales import TALES as NAMED
from tests.verify.properties.truths import RECORDED, SCENARIOS, Truth, named

TALES = NAMED | INVENTED | FURTHER
"""What is told over records -> who tells it."""
RAW = LIARS | LIST_LIARS | STORY_LIARS
"""What is changed in a node's files -> who tells it."""


class Heard(msgspec.Struct, frozen=True):
    """What was said of a tale.

    Attributes:
        verdict: ``caught``: something that it is about is impossible, or disputed, now;
            ``elsewhere``: something else is; ``open``: something that it is about is unverifiable
            that was not, or for another reason;
            ``believed``: nothing of it.
    """

    truth: str
    kind: str
    what: str
    verdict: str


def tell(truth: Truth, most: int, kinds: Sequence[str] = ()) -> Iterator[Heard]:
    """Tell up to ``most`` tales of each kind."""
    before: list[Outcome] | None = None
    for kind, teller in TALES.items():
        if kinds and kind not in kinds:
            continue
        random = Random(f"{truth.name} {kind}")
        tales = list(teller(truth.records, random))
        random.shuffle(tales)
        for tale in tales[:most]:
            before = outcomes(truth.records) if before is None else before
            verdict = _verdict(tale.about, before, outcomes(tale.records))
            yield Heard(truth.name, kind, tale.what, verdict)


def tell_raw(told: Bundle, most: int, kinds: Sequence[str] = (), seed: int = 0) -> Iterator[Heard]:
    """Tell up to ``most`` lies of each kind in copies of a bundle's files.

    What the import makes the same decisions of is none.
    """
    before = told.found
    decided = _decisions(told.records)
    for kind, liar in RAW.items():
        if kinds and kind not in kinds:
            continue
        random = Random(f"{told.path.name} {kind} {seed or ''}".rstrip())
        heard = 0
        for lie in islice(liar(told, random), 3 * most):
            records = _as_told(told, lie)
            if _decisions(records) != decided:
                verdict = _verdict(lie.about, before, outcomes(records))
                yield Heard(told.path.name, kind, lie.what, verdict)
                heard += 1
            if heard == most:
                break


def _as_told(told: Bundle, lie: RawLie) -> list[Record]:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / told.path.name
        shutil.copytree(told.path, copy, copy_function=os.link)
        told.write(copy, lie.edits)
        return imported([copy])


def _decisions(records: Iterable[Record]) -> Counter[str]:
    """What was decided and seen, wherever it stands."""
    return Counter(f"{record.ts_ns} {record.body}" for record in records
                   if not record.kind.startswith("ledger."))  # fmt: skip


def _verdict(about: tuple[str, ...], before: Sequence[Outcome], after: Sequence[Outcome]) -> str:
    told, known = (Counter(map(_said, filter(is_wrong, found))) for found in (after, before))
    new = told - known
    if any(subject.startswith(about) for subject, _ in new):
        return "caught"
    if new:
        return "elsewhere"
    unknown = [Counter(_said(o) for o in found if _is_open(o) and o.subject.startswith(about))
               for found in (after, before)]  # fmt: skip
    return "open" if unknown[0] - unknown[1] else "believed"


def _said(outcome: Outcome) -> tuple[str, str]:
    return outcome.subject, outcome.why


def _is_open(outcome: Outcome) -> bool:
    return isinstance(outcome, Finding) and outcome.verdict == "unverifiable"


def ears(seed: int, simulated: int) -> Iterator[Truth]:
    """The histories that tales are told over: of an excerpt absence proves nothing."""
    yield from map(named, RECORDED)
    yield from (named(f"scenario/{name}/{seed}") for name in SCENARIOS)
    for number in range(simulated):
        yield named(f"{'long' if number % 3 == 0 else 'random'}/{seed * 1000 + number}")


def table(heard: Sequence[Heard], kinds: Iterable[str]) -> list[str]:
    """Rows by kind, as the documentation has them."""
    verdicts = ("caught", "elsewhere", "open", "believed")
    rows = [f"| lie | told | {' | '.join(verdicts)} |", "|---" * 6 + "|"]
    for kind in (*kinds, "all"):
        found = Counter(each.verdict for each in heard if kind in (each.kind, "all"))
        if found:
            cells = (kind, found.total(), *(found[verdict] for verdict in verdicts))
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.properties.telling")
    parser.add_argument("--kinds", default="", help="only these (a,b)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=40, help="simulated histories [40]")
    parser.add_argument("--most", type=int, default=4, help="of each kind a history [4]")
    parser.add_argument("--raw", default="", help="in the files of these recordings instead (a,b)")
    parser.add_argument("--show", action="store_true", help="what was not caught")
    given = parser.parse_args(arguments)
    kinds = [kind for kind in given.kinds.split(",") if kind]
    nodes = [node for node in given.raw.split(",") if node]
    truths = () if nodes else ears(given.seed, given.cases)
    heard = [
        *(e for node in nodes for e in tell_raw(bundle(node), given.most, kinds, given.seed)),
        *(each for truth in truths for each in tell(truth, given.most, kinds)),
    ]
    all_kinds: Mapping[str, object] = RAW if nodes else TALES
    print(*table(heard, all_kinds), sep="\n")
    if given.show:
        for each in heard:
            if each.verdict != "caught":
                print(f"{each.verdict} {each.kind}: {each.truth} {each.what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
