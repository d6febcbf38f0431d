"""Tell tales over true histories and count what is said of them; ``python -m ...telling``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from kubeledger.verify import Contradiction, Finding, Outcome
from tests.verify.histories import outcomes
from tests.verify.properties.tales import TALES, Tale
from tests.verify.properties.truths import RECORDED, SCENARIOS, Truth, named


class Heard(msgspec.Struct, frozen=True):
    """What was said of a tale.

    Attributes:
        verdict: ``caught``: something that it is about is impossible, or disputed, now;
            ``elsewhere``: something else is; ``open``: more of what it is about is unverifiable;
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
            yield Heard(truth.name, kind, tale.what, _verdict(tale, before))


def _verdict(tale: Tale, before: Sequence[Outcome]) -> str:
    after = outcomes(tale.records)
    new = Counter(map(_said, filter(_wrong, after))) - Counter(map(_said, filter(_wrong, before)))
    if any(subject.startswith(tale.about) for subject, _ in new):
        return "caught"
    if new:
        return "elsewhere"
    unknown = [sum(_is_open(o) and o.subject.startswith(tale.about) for o in found)
               for found in (after, before)]  # fmt: skip
    return "open" if unknown[0] > unknown[1] else "believed"


def _said(outcome: Outcome) -> tuple[str, str]:
    return outcome.subject, outcome.why


def _wrong(outcome: Outcome) -> bool:
    return isinstance(outcome, Contradiction) or outcome.verdict == "impossible"


def _is_open(outcome: Outcome) -> bool:
    return isinstance(outcome, Finding) and outcome.verdict == "unverifiable"


def ears(seed: int, simulated: int) -> Iterator[Truth]:
    """The histories that tales are told over: of an excerpt absence proves nothing."""
    yield from map(named, RECORDED)
    yield from (named(f"scenario/{name}/{seed}") for name in SCENARIOS)
    for number in range(simulated):
        yield named(f"{'long' if number % 3 == 0 else 'random'}/{seed * 1000 + number}")


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.properties.telling")
    parser.add_argument("--kinds", default="", help="only these (a,b)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=40, help="simulated histories [40]")
    parser.add_argument("--most", type=int, default=4, help="of each kind a history [4]")
    parser.add_argument("--show", action="store_true", help="what was not caught")
    given = parser.parse_args(arguments)
    kinds = [kind for kind in given.kinds.split(",") if kind]
    heard = [each for truth in ears(given.seed, given.cases)
             for each in tell(truth, given.most, kinds)]  # fmt: skip
    verdicts = ("caught", "elsewhere", "open", "believed")
    print(f"{'tale':<28}{'told':>7}" + "".join(f"{verdict:>11}" for verdict in verdicts))
    for kind in (*TALES, "all"):
        found = Counter(each.verdict for each in heard if kind in (each.kind, "all"))
        if found:
            cells = "".join(f"{found[verdict]:>11}" for verdict in verdicts)
            print(f"{kind:<28}{found.total():>7}{cells}")
    if given.show:
        for each in heard:
            if each.verdict != "caught":
                print(f"{each.verdict} {each.kind}: {each.truth} {each.what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
