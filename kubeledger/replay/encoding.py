"""A snapshot's bytes: the state as JSON behind the version of its structures, compressed."""

from __future__ import annotations

import msgspec
import zstandard

from kubeledger.node.state import STATE_SCHEMA, NodeState

__all__ = ["decode_snapshot", "encode_snapshot"]

_LEVEL = 3


class _Header(msgspec.Struct):
    """What can be read of a snapshot of any version."""

    state_schema: int


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    state_schema: int
    state: NodeState


_STATE_DECODER = msgspec.json.Decoder(_Snapshot)
_HEADER_DECODER = msgspec.json.Decoder(_Header)


def encode_snapshot(state: NodeState) -> bytes:
    """The same state gives the same JSON; it shares nothing with ``state`` afterwards."""
    snapshot = _Snapshot(state_schema=STATE_SCHEMA, state=state)
    data = msgspec.json.encode(snapshot, order="deterministic")
    return zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def decode_snapshot(data: bytes) -> NodeState | None:
    """The state, or None when the bytes are of another version or damaged.

    Snapshots only save time: a reader that cannot use one replays from further back.
    """
    try:
        text = zstandard.ZstdDecompressor().decompress(data)
        if _HEADER_DECODER.decode(text).state_schema != STATE_SCHEMA:
            return None
        return _STATE_DECODER.decode(text).state
    except (zstandard.ZstdError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
