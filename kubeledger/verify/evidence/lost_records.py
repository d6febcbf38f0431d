"""Records that the ledger knows it lost, gathered from a history's records in any order."""

from __future__ import annotations

from kubeledger.model.bodies.ledger import ImportCompleted, RecordsLost
from kubeledger.model.record import Body, Record


class LostRecords:
    """What records show to be lost, and what came back since."""

    KINDS: tuple[type[Body], ...] = (ImportCompleted, RecordsLost)
    """Kinds of the records that this needs."""

    def __init__(self) -> None:
        """Nothing is lost yet."""
        self._losses: list[tuple[int, RecordsLost]] = []
        self._completed: set[str] = set()

    def note(self, record: Record) -> None:
        """Take in a record; one of another kind changes nothing."""
        match record.body:
            case RecordsLost() as body:
                self._losses.append((record.seq, body))
            case ImportCompleted() as body:
                self._completed.add(body.digest)

    def missing(self) -> list[tuple[int, RecordsLost]]:
        """(seq, body) of the records that show a loss which was not imported again."""
        losses = sorted(self._losses, key=lambda one: one[0])
        return [(seq, body) for seq, body in losses if not body.is_healed_by(self._completed)]
