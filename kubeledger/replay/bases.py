"""The state at a base: what later records follow on once the earlier ones were dropped."""

from __future__ import annotations

from kubeledger.errors import DamagedLedgerError
from kubeledger.ledger.base_content import content_path
from kubeledger.ledger.reading import Reading
from kubeledger.node.state import NodeState
from kubeledger.replay.encoding import STATE_VERSION, decode_state

__all__ = ["state_of_base"]


def state_of_base(look: Reading) -> NodeState:
    """The state before the node's first record: an empty one where nothing was dropped.

    Raises:
        DamagedLedgerError: the state at the base is gone, damaged, or of another version.
    """
    content = look.content()
    if content is None:
        return NodeState(node=look.node)
    state = decode_state(content.state) if content.version == STATE_VERSION else None
    if state is None or state.seq != content.seq:
        raise DamagedLedgerError(
            f"the state behind dropped records is of another form ({content.version}, this "
            f"kubeledger knows {STATE_VERSION})",
            advice="use the version of kubeledger that dropped them; records can be read and "
            "audited without it",
            file=str(content_path(look.directory, content.seq)),
        )
    return state
