"""Lines of one log that cannot both be right, as an import takes them down in a finding."""

from __future__ import annotations

import re
from typing import NamedTuple

from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.patterns import regex
from kubeledger.model.units import format_ts, parse_ts

LINES_DISAGREE = "lines_disagree"
"""``finding`` of such a ``FindingReported``."""
LINES_MIXED = "lines_mixed"
"""That of one about all lines: they do not stand in the order in which they were logged."""
CLOCK_UNKNOWN = "clock_unknown"
"""That of one about files beside a log: nothing shows when they were read."""
LISTS_PRUNED = "lists_pruned"
"""That of one about all lists of pods: they leave out what is always written."""
LISTS_MASKED = "lists_masked"
"""That of one about all lists of pods: what they show in place of values is none."""

_MESSAGE = regex(r"(node|pod/[^/\s]+/[^/\s]+): (.*): this says (.*), others say (.*)", re.DOTALL)


class Dispute(NamedTuple):
    """Whom it is about, why it cannot be, and what both sides say."""

    subject: str
    why: str
    here: str
    elsewhere: str

    @property
    def message(self) -> str:
        """One sentence; ``dispute_of`` reads it."""
        return f"{self.subject}: {self.why}: this says {self.here}, others say {self.elsewhere}"

    def in_file(self, file: str | None) -> FindingReported:
        """As an import takes it down, of a line in that file."""
        return FindingReported(finding=LINES_DISAGREE, file=file, message=self.message)


def dispute_of(message: str) -> Dispute | None:
    """What a finding's sentence says; None when it is none of these."""
    match = _MESSAGE.fullmatch(message)
    return None if match is None else Dispute(*match.groups())


_STAMP = "the stamp of one line does not go with those above and below it, and is not believed"


def stamp_dispute(place: str, logged_ns: int, before_ns: int, after_ns: int) -> Dispute:
    """One line's stamp against those of its neighbours."""
    around = f"{format_ts(before_ns)} and {format_ts(after_ns)}"
    return Dispute("node", _STAMP, f"{place}: {format_ts(logged_ns)}", around)


def stamps_of(dispute: Dispute | None) -> tuple[int, ...]:
    """The times that ``stamp_dispute`` names; none where it is another dispute, or redacted."""
    if dispute is None or dispute.why != _STAMP:
        return ()
    try:
        before, after = dispute.elsewhere.split(" and ")
        return tuple(map(parse_ts, (dispute.here.rpartition(": ")[2], before, after)))
    except ValueError:
        return ()
