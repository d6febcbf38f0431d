"""The line format: one record is one line of JSON that proves itself.

    {"node":...,"seq":...,"ts_ns":...,"role":...,"kind":...,"v":...,"cause":...,
     "evidence":[...],"body":{...},"chain":"<64 hex>","crc":"<8 hex>"}<newline>

Everything before ``,"chain"`` is the *payload*: the record as msgspec writes it, keys in
this order, keys inside dicts sorted. ``chain`` is BLAKE2b-256 over the 32 raw bytes of the
previous line's chain and the payload (before the first line of a node: 32 zero bytes).
``crc`` is CRC-32 over everything before ``,"crc"``. The suffix has a fixed length, so a
line is taken apart by slicing, and its bytes are checked before any of them is parsed.
"""

from __future__ import annotations

import hashlib
from binascii import hexlify
from collections.abc import Collection, Iterable, Sequence
from zlib import crc32

import msgspec

from kubeledger.model.record import Body, Evidence, Record, Role
from kubeledger.model.wire.catalogue import (
    BODY_TYPES,
    NOT_JSON,
    BodyDecoder,
    UpcastError,
    decoder_of,
    flaw_of_encoded,
    upcast,
)

DIGEST_BYTES = 32
GENESIS = bytes(DIGEST_BYTES)
"""The chain digest before the first record of a node."""

_CRC_PART = b',"crc":"%08x"}\n'
_FRAME = b"%b" + _CRC_PART
_CRC_BYTES = len(_CRC_PART % 0)
_FRAME_BYTES = len(b',"chain":""') + 2 * DIGEST_BYTES + _CRC_BYTES
_WHOLE_FRAME = b',"chain":"%b"' + _CRC_PART
_CHAIN_AT = slice(len(b',"chain":"') - _FRAME_BYTES, -_CRC_BYTES - 1)
_new_hash = hashlib.blake2b(digest_size=DIGEST_BYTES).copy  # quicker than a new one each time


class BadLineError(ValueError):
    """A line that is not a record of this format; the message says why.

    The reader that knows the file turns it into an error with file, record and offset.
    """


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A line with its body left as JSON: what filters and audits need, at half the price.

    Attributes:
        body: raw JSON of the body, in the schema version ``v`` that is on disk.
        chain: 64 hex digits.
        crc: 8 hex digits.

    The others are as in :class:`kubeledger.model.record.Record`.
    """

    node: str
    seq: int
    ts_ns: int
    role: Role
    kind: str
    v: int
    cause: int | None
    evidence: tuple[Evidence, ...]
    body: msgspec.Raw
    chain: str
    crc: str


_KIND_KEY = b'"kind":"'  # nor this
_encode_json = msgspec.json.Encoder(order="deterministic").encode
_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_plain = msgspec.json.Decoder(dict[str, object]).decode
_Known = tuple[int, Role, BodyDecoder]


class _Bodies(dict[str, _Known]):
    """Kind -> version, role and decoder of its body."""

    def __missing__(self, kind: str) -> _Known:
        decode = decoder_of(kind)
        if decode is None:
            raise BadLineError(f"unknown kind {kind!r}")
        body = BODY_TYPES[kind]
        known = self[kind] = (body.v, body.role, decode)
        return known


_bodies = _Bodies()


def chained(payload: bytes, previous: bytes) -> tuple[bytes, bytes]:
    """Frame a payload (JSON without its closing brace) after ``previous``.

    Returns:
        the line's part after the payload, and the line's chain digest (32 raw bytes).
    """
    running = _new_hash()
    running.update(previous)
    running.update(payload)
    digest = running.digest()
    chain = b',"chain":"%b"' % hexlify(digest)
    return _FRAME % (chain, crc32(chain, crc32(payload))), digest


def encode_parts(
    record: Record, previous: bytes, *, is_sound: bool = False
) -> tuple[bytes, bytes, bytes]:
    """One record as payload, frame (to be written directly after it) and chain digest.

    Args:
        is_sound: its body was found to be readable.

    Raises:
        BadLineError: the record could not be read back: a text is no Unicode, a value is
            not of its field's type or nothing that JSON can hold, a time is out of range.
    """
    try:
        encoded = _encode_json(record)
    except NOT_JSON as error:
        raise BadLineError(f"{record.kind} cannot be written as JSON: {error}") from error
    flaw = flaw_of_encoded(record, encoded, is_sound=is_sound)
    if flaw is not None:
        raise BadLineError(flaw)
    payload = encoded[:-1]
    frame, digest = chained(payload, previous)
    return payload, frame, digest


def encode_line(record: Record, previous: bytes = GENESIS) -> tuple[bytes, bytes]:
    """One record as its line, and the line's chain digest (32 raw bytes).

    The same record after the same digest gives the same bytes in any process.

    Raises:
        BadLineError: as :func:`encode_parts`.
    """
    payload, frame, digest = encode_parts(record, previous)
    return payload + frame, digest


def payload_of(line: bytes) -> bytes:
    """The bytes that the chain covers."""
    return line[:-_FRAME_BYTES]


def chain_of(line: bytes) -> bytes:
    """The 32 raw bytes of the chain digest that is in the line (not checked).

    Raises:
        BadLineError: there are no 64 hex digits where they belong.
    """
    try:
        digest = bytes.fromhex(line[_CHAIN_AT].decode("ascii"))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise BadLineError("no chain digest where it belongs")
    return digest


def check_crc(line: bytes) -> None:
    """Check the CRC of a line; a flip of any byte, newline included, is found.

    Raises:
        BadLineError: bytes of the line are not those that were written.
    """
    if line[-_CRC_BYTES:] != _CRC_PART % crc32(line[:-_CRC_BYTES]):
        raise BadLineError("its CRC does not fit its bytes")


def is_complete_except_newline(text: bytes) -> bool:
    """Whether what follows the last newline is a whole line with another last byte.

    An unfinished write leaves the beginning of a line, never this: its newline was changed.
    """
    try:
        check_crc(text[:-1] + b"\n")
    except BadLineError:
        return False
    return not text.endswith(b"\n")


def next_digest(line: bytes, previous: bytes) -> bytes:
    """The chain digest that a line must carry after ``previous``: 32 raw bytes."""
    return chained(line[:-_FRAME_BYTES], previous)[1]


def check_line(line: bytes, previous: bytes) -> bytes:
    """Check every byte of a line: frame, CRC and chain.

    Returns:
        its chain digest (32 raw bytes).

    Raises:
        BadLineError: bytes are damaged (CRC), or were changed by someone who fitted the CRC,
            or lines before it are missing or changed (chain).
    """
    frame, digest = chained(line[:-_FRAME_BYTES], previous)
    if line[-_FRAME_BYTES:] != frame:
        check_crc(line)
        raise BadLineError("its chain digest does not follow from the lines before it")
    return digest


def count_chained(lines: Sequence[bytes], previous: bytes) -> tuple[int, bytes]:
    """How many lines, from the first on, :func:`check_line` finds sound one after the other.

    Returns:
        the count, and the chain digest of the last of them (32 raw bytes; ``previous`` for none).
    """
    digest = previous
    for count, line in enumerate(lines):
        running = _new_hash()
        running.update(digest)
        running.update(line[:-_FRAME_BYTES])
        found = running.digest()
        crc = crc32(line[:-_CRC_BYTES])
        if line[-_FRAME_BYTES:] != _WHOLE_FRAME % (hexlify(found), crc):
            return count, digest
        digest = found
    return len(lines), digest


def kind_of(line: bytes) -> str:
    """The kind that is in a line, without parsing it; empty when there is none."""
    start = line.find(_KIND_KEY) + len(_KIND_KEY)
    if start < len(_KIND_KEY):
        return ""
    return line[start : line.find(b'"', start)].decode(errors="replace")


def of_kinds(lines: Iterable[tuple[int, bytes]], kinds: Collection[str]) -> list[tuple[int, bytes]]:
    """Of numbered lines those of some kinds, by what :func:`kind_of` says of them."""
    key, key_bytes, wanted = _KIND_KEY, len(_KIND_KEY), frozenset(kind.encode() for kind in kinds)
    return [
        (seq, line)
        for seq, line in lines
        if line[(start := line.find(key) + key_bytes) : line.find(b'"', start)] in wanted
    ]


def decode_envelope(line: bytes) -> Envelope:
    """Parse a line without its body's type. Checks no CRC.

    Raises:
        BadLineError: not JSON, or a field is missing, unknown or of the wrong type.
    """
    try:
        return _decode_envelope(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadLineError(f"not a record: {error}") from error


def decode_line(line: bytes) -> Record:
    """Parse a line into a record of the current schema version. Checks no CRC.

    Raises:
        BadLineError: as :func:`decode_envelope`; or a kind or schema version that this
            program does not know, or a body that does not fit its schema.
    """
    try:
        envelope = _decode_envelope(line)
        kind = envelope.kind
        v, role, decode = _bodies[kind]
        body: Body = decode(envelope.body) if envelope.v == v else _old_body(envelope)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadLineError(f"not a record: {error}") from error
    if envelope.role != role:
        raise BadLineError(f"{kind} is not a kind of {envelope.role}")
    return Record(
        node=envelope.node,
        seq=envelope.seq,
        ts_ns=envelope.ts_ns,
        role=role,
        kind=kind,
        v=v,
        cause=envelope.cause,
        evidence=envelope.evidence,
        body=body,
    )


def _old_body(envelope: Envelope) -> Body:
    try:
        plain = upcast(envelope.kind, envelope.v, _decode_plain(envelope.body))
    except UpcastError as error:
        raise BadLineError(str(error)) from None
    except (KeyError, TypeError, ValueError) as error:  # a step met a shape it does not know
        raise BadLineError(f"not a body of {envelope.kind} v{envelope.v}") from error
    return msgspec.convert(plain, BODY_TYPES[envelope.kind])
