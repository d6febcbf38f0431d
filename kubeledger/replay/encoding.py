"""A snapshot's bytes: the state as JSON, under the version of its structures."""

from __future__ import annotations

import msgspec

from kubeledger.replay.node.state import STATE_SCHEMA, NodeState

STATE_VERSION = f"node-state-{STATE_SCHEMA}"
"""What a snapshot says its bytes are; one of another version is not used."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(NodeState).decode


def encode_state(state: NodeState) -> bytes:
    """The same state gives the same bytes; they share nothing with ``state``."""
    return _encode(state)


def decode_state(data: bytes) -> NodeState | None:
    """The state, or None when the bytes are none.

    Snapshots only save time: a reader that cannot use one replays from further back.
    """
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
