"""A warning where a ledger knows that it lost records: answers rest on what is left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kubeledger.cli.output import printable
from kubeledger.model.errors import KubeledgerError

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.model.bodies.ledger import RecordsLost

__all__ = ["warn_of_losses", "warn_of_losses_in"]


def warn_of_losses(ledger: Ledger, node: str | None = None) -> None:
    """One line on stderr for each node of a ledger, or the one named, that lost records.

    A ledger that cannot be read is not this function's matter.
    """
    try:
        for name in ledger.nodes():
            if node in (None, name):
                _warn(name, [loss.lost for loss in ledger.info(name).missing])
    except KubeledgerError:
        return


def warn_of_losses_in(histories: Iterable[History]) -> None:
    """As :func:`warn_of_losses`, from the records of histories.

    Raises:
        KubeledgerError: records cannot be read.
    """
    from kubeledger.verify.evidence.lost_records import LostRecords

    for history in histories:
        lost = LostRecords()
        for record in history.read({body.kind for body in LostRecords.KINDS}):
            lost.note(record)
        _warn(history.node, [body for _, body in lost.missing()])


def _warn(node: str, losses: list[RecordsLost]) -> None:
    if losses:
        spans = ", ".join(
            f"{loss.first_seq} to {loss.last_seq}"
            if loss.first_seq < loss.last_seq
            else str(loss.last_seq)
            for loss in losses
        )
        words = (
            f"warning: the ledger lost acknowledged records of {node} ({spans}): the answer rests "
            "on what is left; import the same sources again, `kubeledger audit` shows more"
        )
        click.echo(printable(words), err=True)
