"""The state at a base: what later records follow on once the earlier ones were dropped."""

from __future__ import annotations

from pathlib import Path

from kubeledger.ledger.base_content import BaseContent, content_path
from kubeledger.ledger.reading import Reading
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.replay.encoding import STATE_VERSION, decode_state
from kubeledger.replay.node.state import NodeState


def state_of_base(look: Reading) -> NodeState:
    """The state before the node's first record: an empty one where nothing was dropped.

    Raises:
        DamagedLedgerError: the state at the base is gone, damaged, or of another version.
        LedgerUnavailableError: a drop came meanwhile.
    """
    content = look.content()
    if content is None:
        return NodeState(node=look.node)
    return decoded_base(look.directory, content)


def decoded_base(directory: Path, content: BaseContent) -> NodeState:
    """A new copy of the state that a node's base kept.

    Raises:
        DamagedLedgerError: it is of another version.
    """
    state = decode_state(content.state) if content.version == STATE_VERSION else None
    if state is None or state.seq != content.seq:
        raise DamagedLedgerError(
            f"the state after dropped records is of another form ({content.version}, this "
            f"kubeledger knows {STATE_VERSION})",
            advice="use the version of kubeledger that dropped them; records can be read and "
            "audited without it",
            file=str(content_path(directory, content.seq)),
        )
    return state
