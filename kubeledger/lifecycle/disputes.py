"""Lines of one log that cannot both be right, as an import takes them down in a finding."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["LINES_DISAGREE", "Dispute", "dispute_of"]

LINES_DISAGREE = "lines_disagree"
"""``finding`` of such a ``FindingReported``."""

_MESSAGE = re.compile(
    r"(node|pod/[^/\s]+/[^/\s]+): (.*): this says (.*), others say (.*)", re.DOTALL
)


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


def dispute_of(message: str) -> Dispute | None:
    """What a finding's sentence says; None when it is none of these."""
    match = _MESSAGE.fullmatch(message)
    return None if match is None else Dispute(*match.groups())
