"""docs/internals/parity.md: what kubelet versions do, since when, and what proves it.

Run: ``python -m tests.generated.parity > docs/internals/parity.md``
"""

import sys
from collections.abc import Iterator, Mapping

from kubeledger.kubelet.profile.facts import CONFIRMED, NEWEST, OLDEST, Fact
from kubeledger.kubelet.profile.resolve import FACT_TABLES
from tests.generated.behaviours import BEHAVIOURS

_HEAD = f"""# Parity with the kubelet

Generated from the version profile (`kubeledger/kubelet/profile/`): do not edit. Any version
from 1.{OLDEST} to 1.{NEWEST} resolves to a profile. Each subsystem has two tables: what differs
between versions, and the main behaviours that all of them have, so since 1.{OLDEST} at the latest.

*Proof*: **conformance**: recorded decisions in
`tests/data/conformance/VERSION/SUBSYSTEM.jsonl.zst`, of versions before and after the change; the
exact version is read in the source; **recording**: the log, the metrics or the cgroup files of a
recorded node (`recordings/`) show it, which the tests look up; **source**: read in the kubelet's
source, of both sides of a change. Where a change came to older releases as well, the patch release
is the one that the change's backport names.

**1.{NEWEST} is known by source**: it has what 1.{CONFIRMED} has, and the facts below that begin
with it, which were read in the changes themselves. No decision of such a kubelet was compared;
`decide`, `judge` and `import` say so.
"""

_DEFECTS = """## Defects of the kubelet that are not imitated

* **Requests of a pod as a whole that grow** (1.32 to 1.36; the gate PodLevelResources is on by
  default from 1.34). `PodRequests` and `PodLimits` of component-helpers/resource/helpers.go copy a
  quantity of `spec.resources` without the decimal that it points to. A quantity that is held as
  such a decimal (`1.5Gi`, `0.1Gi`, `100Ti`, `8Ei`) is so changed in place when the overhead is
  added: each call makes the pod's own request, or limit, larger by the overhead. The API server
  writes quantities in canonical form (`1536Mi`), which is held as an integer; static pods and
  very large amounts are hit. Here a pod requests what its spec says, however often it is asked.
* **Volumes without a number** (all versions). The eviction manager crashes over a pod whose
  statistics name a volume but not its `usedBytes` (`emptyDirLimitEviction`). Here the volume is
  passed over.
* **More than 31 pulls at once** (1.33 to 1.36, while credentials are verified). The kubelet crashes
  (`StripedLockSet`: 31 locks at most, but keys are spread over `maxParallelImagePulls`). Here it
  goes on.
"""


def render() -> str:
    """The page."""
    return "\n".join([_HEAD, *_sections(), _DEFECTS])


def _sections() -> Iterator[str]:
    for subsystem, facts in FACT_TABLES.items():
        yield f"## {subsystem}\n"
        yield from _table("fact", facts)
        yield from _table("same in all versions", BEHAVIOURS[subsystem])


def _table(title: str, facts: Mapping[str, Fact]) -> Iterator[str]:
    yield f"| {title} | versions | behaviour | source | proof |"
    yield "|---|---|---|---|---|"
    for name, fact in facts.items():
        cells = (f"`{name}`", _versions(fact), fact.text, fact.source, _proof(fact))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _proof(fact: Fact) -> str:
    return f"{fact.proof}, recording" if fact.recorded else fact.proof


def _versions(fact: Fact) -> str:
    since = f"1.{fact.since}" if fact.since is not None else f"1.{OLDEST}"
    last = None if fact.until is None else f"1.{fact.until - 1}"
    upto = " on" if last is None else " only" if last == since else f" to {last}"
    backports = ", ".join(f"1.{minor}.{patch}" for minor, patch in sorted(fact.backports.items()))
    gate = f", with the gate {fact.gate}" if fact.gate else ""
    return f"{since}{upto}{gate}" + (f"; also from {backports}" if backports else "")


if __name__ == "__main__":
    sys.stdout.write(render())
