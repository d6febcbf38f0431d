"""What could not be verified, and what to collect so that it can be next time."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from kubeledger.analyze.completeness.span import Span
from kubeledger.verify import Contradiction, Outcome
from kubeledger.verify.tally import Tally

_ADVICE: tuple[tuple[str, str], ...] = (
    (r"end of the ledger|log that goes on", "Import a piece of the log that goes on for longer: "
     "here it ends before the decision does."),
    (r"version|rules of kubelet", "Import metrics or the log's first lines, which name the "
     "version, or give --kubelet-version."),
    (r"setting|feature gate|thresholds?\b|policy", "Add the kubelet's configuration file, or its "
     "/configz, and the log of its start at --v=1 or more, which lists all flags."),
    (r"spec|object of pod|owner|active|came and went|life of|pod list|what each pod|the pods",
     "Take the kubelet's /pods every 15 s, from before the pods come until after they end."),
    (r"eviction signal|usage of the image filesystem|size of the image filesystem|disk",
     "Log at --v=3 or more, for eviction signals every 10 s, and take /stats/summary."),
    (r"tick|success|probe|worker", "Log at --v=3 or more, which holds successful probes, from "
     "the start of the kubelet on."),
    (r"device|checkpoint|plugin|allocat", "Copy the kubelet's device checkpoint every 15 s, and "
     "log at --v=4 or more."),
    (r"hint|NUMA", "Log at --v=4 or more, and import the machine's topology with the log of the "
     "kubelet's start."),
    (r"image|collection|detect", "Log at --v=5, which holds every list of images, from the "
     "start of the kubelet on."),
    (r"cgroup|QoS|minute timer|write|memory usage|limit", "Copy the kubepods cgroup files every "
     "15 s, and log at --v=4 or more, which shows when they were written."),
    (r"CPUs|capacity|machine|node's|allocatable", "Add the node object and the log of the "
     "kubelet's start, which shows the machine's CPUs and memory."),
    (r"grace period|kill|reason|end of|deleted|restart|container", "Log at --v=3 or more, and "
     "keep the whole log: rotate it later, or copy it before it is rotated."),
)  # fmt: skip
"""First pattern that fits -> one sentence."""

_ADVICE_ELSE = "Keep the whole log of the kubelet at --v=5 and all of the snapshots beside it."


class MissingInput(msgspec.Struct, frozen=True, kw_only=True):
    """One input that verification lacked.

    Attributes:
        what: as verification names it.
        decisions: how many lack it.
        kinds: of which kinds, sorted.
        advice: one sentence.
    """

    what: str
    decisions: int
    kinds: list[str]
    advice: str


class MissingReport(msgspec.Struct, kw_only=True):
    """Section 5.

    Attributes:
        decisions, unverifiable: how many, in the time of the report.
        inputs: most wanted first.
    """

    decisions: int
    unverifiable: int
    inputs: list[MissingInput]


def advice_on(what: str) -> str:
    """What to collect so that an input is there."""
    return next((text for pattern, text in _ADVICE if re.search(pattern, what)), _ADVICE_ELSE)


def missing_report(outcomes: Iterable[Outcome], span: Span) -> MissingReport:
    """Tally what a verification lacked."""
    tally = Tally()
    kinds: dict[str, set[str]] = {}
    for outcome in outcomes:
        if isinstance(outcome, Contradiction) or not span.holds(outcome.ts_ns):
            continue
        tally.add(outcome)
        for what in outcome.missing:
            kinds.setdefault(what, set()).add(outcome.kind)
    ordered = sorted(tally.missing.items(), key=lambda item: (-item[1], item[0]))
    return MissingReport(
        decisions=tally.decisions,
        unverifiable=tally.count("unverifiable"),
        inputs=[
            MissingInput(
                what=what, decisions=count, kinds=sorted(kinds[what]), advice=advice_on(what)
            )
            for what, count in ordered
        ],
    )
