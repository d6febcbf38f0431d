"""What verification says of the recordings, and the files that hold it.

    python -m tests.verify.expected_findings

writes these files anew; read the difference before it is committed.
"""

from collections.abc import Iterator
from pathlib import Path

from kubeledger.verify import Contradiction
from tests.verify.histories import outcomes, recorded

RECORDINGS = ("node-a", "node-b", "node-e-evictions", "node-e-oom")
EXPECTED = Path(__file__).parent / "expected"


def lines(node: str) -> Iterator[str]:
    """One line an outcome: the decision, its verdict, the sentence, and what that rests on."""
    for each in outcomes(recorded(node)):
        if isinstance(each, Contradiction):
            yield f"contradiction {each.subject}: {each.why}"
            continue
        by = f"{each.rule.rpartition(' ')[2]} on {' '.join(map(str, each.inputs))}"
        yield f"{each.seq} {each.kind} {each.subject} {each.verdict} ({by}): {each.why}"


if __name__ == "__main__":
    for name in RECORDINGS:
        text = "".join(f"{line}\n" for line in lines(name))
        (EXPECTED / f"{name}.txt").write_text(text)
