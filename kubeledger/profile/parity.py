"""docs/parity.md: what differs between kubelet versions, since when, and what proves it.

Run: ``python -m kubeledger.profile.parity > docs/parity.md``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from kubeledger.profile.facts import NEWEST, OLDEST, Fact
from kubeledger.profile.resolve import FACT_TABLES

__all__ = ["render"]

_HEAD = f"""# Parity with the kubelet

Generated from the version profile (`kubeledger/profile/`): do not edit. Any version from 1.{OLDEST}
to 1.{NEWEST} resolves to a profile; what is not listed here is the same in all of them.

*Proof*: **conformance**: recorded decisions of the real kubelet on both sides of the change,
replayed by the tests; **recording**: a recorded node shows it; **source**: read in the kubelet's
source of both sides; **documented**: from release notes or pull requests, not seen in source.
"""


def render() -> str:
    """The page."""
    return "\n".join([_HEAD, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    for subsystem, facts in FACT_TABLES.items():
        yield f"## {subsystem}\n"
        yield "| fact | versions | behaviour | source | proof |"
        yield "|---|---|---|---|---|"
        for fact in facts:
            cells = (f"`{fact.name}`", _versions(fact), fact.says, fact.source, fact.proof)
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        yield ""


def _versions(fact: Fact) -> str:
    since = f"1.{fact.since}" if fact.since is not None else f"1.{OLDEST}"
    upto = f" to 1.{fact.until - 1}" if fact.until is not None else " on"
    backports = ", ".join(f"1.{minor}.{patch}" for minor, patch in sorted(fact.backports.items()))
    return f"{since}{upto}" + (f"; also from {backports}" if backports else "")


if __name__ == "__main__":
    sys.stdout.write(render())
