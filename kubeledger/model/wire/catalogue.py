"""Every kind of record, the type of its body, its old versions, and whether it can be read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

import kubeledger.model.bodies.cgroups
import kubeledger.model.bodies.devicemanager
import kubeledger.model.bodies.eviction
import kubeledger.model.bodies.images
import kubeledger.model.bodies.ledger
import kubeledger.model.bodies.lifecycle
import kubeledger.model.bodies.node
import kubeledger.model.bodies.prober
import kubeledger.model.bodies.resourcemanagers
from kubeledger.model.patterns import regex
from kubeledger.model.record import Body, Record

TS_NS_MIN = -9_214_560_000_000_000_000
"""1678-01-01T00:00:00Z."""

TS_NS_MAX = 9_214_646_400_000_000_000 - 1
"""The last nanosecond of 2261."""

YEARS = "1678 to 2261"
"""The same for a user."""


def is_storable(ts_ns: int) -> bool:
    """The time can be stored, compared and shown by everything that reads a ledger."""
    return TS_NS_MIN <= ts_ns <= TS_NS_MAX


_MODULES: tuple[ModuleType, ...] = (
    kubeledger.model.bodies.cgroups,
    kubeledger.model.bodies.devicemanager,
    kubeledger.model.bodies.eviction,
    kubeledger.model.bodies.images,
    kubeledger.model.bodies.ledger,
    kubeledger.model.bodies.lifecycle,
    kubeledger.model.bodies.node,
    kubeledger.model.bodies.prober,
    kubeledger.model.bodies.resourcemanagers,
)


def _body_types() -> dict[str, type[Body]]:
    types = [
        member
        for module in _MODULES
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, Body) and "kind" in vars(member)
    ]
    return {body.kind: body for body in sorted(types, key=lambda body: body.kind)}


BODY_TYPES: dict[str, type[Body]] = _body_types()
"""kind -> body type of its current schema version, sorted by kind."""


# Old schema versions become the current one when they are read.
#
# A released ``(kind, v)`` never changes its meaning. When a body changes, its ``v`` goes up,
# the old shape gets a function here that makes the next one of it, and a file with old lines
# goes to ``recordings/upcast/``. Each function knows one step; ``upcast`` runs the chain.

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


class UpcastError(ValueError):
    """A schema version that this program does not know."""


def _probe_executed_v1(body: dict[str, Any]) -> dict[str, Any]:
    """V2 says by which handler the container was probed; v1 did not hold it."""
    return {**body, "handler": None}


def _grown(body: dict[str, Any]) -> dict[str, Any]:
    """The next version says more, and what an older one did not hold is not known."""
    return body


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("cpumanager.CpuAllocationFailed", 1): _grown,
    ("cpumanager.CpuManagerStarted", 1): _grown,
    ("devicemanager.CpuManagerStateRead", 1): _grown,
    ("ledger.FindingReported", 1): _grown,
    ("lifecycle.PodEvicted", 1): _grown,
    ("lifecycle.PodListed", 1): _grown,
    ("memorymanager.MemoryManagerStateRead", 1): _grown,
    ("node.SettingsObserved", 1): _grown,
    ("prober.ProbeExecuted", 1): _probe_executed_v1,
}
"""(kind, v) -> function from a body of that version to one of version v + 1."""


def upcast(kind: str, v: int, body: dict[str, Any]) -> dict[str, Any]:
    """A body of version ``v`` in the shape of the current version, as plain JSON values.

    Raises:
        UpcastError: the version is newer than this program, or never existed.
    """
    current = BODY_TYPES[kind].v
    if v > current:
        raise UpcastError(f"{kind} v{v} was written by a newer version (this one knows v{current})")
    for version in range(v, current):
        step = UPCASTERS.get((kind, version))
        if step is None:
            raise UpcastError(f"{kind} v{version} is not a known schema version")
        body = step(body)
    return body


# Whether a record can be read back: the check before anything is written.
#
# Types are hints to Python: a body made from foreign JSON may hold anything. The sure way to
# know is to decode what was encoded, and msgspec does that faster than Python looks at values.

NOT_JSON = (UnicodeEncodeError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)
"""What encoding a value that JSON cannot hold raises."""

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_encode = msgspec.json.Encoder(order="deterministic").encode


_Frame = msgspec.defstruct(
    "Frame",
    [("body", msgspec.Raw)],
    bases=(Record,),
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
_decode_frame: Callable[[bytes], Any] = msgspec.json.Decoder(_Frame).decode

BodyDecoder = Callable[[bytes | msgspec.Raw], Body]


@cache
def decoder_of(kind: str) -> BodyDecoder | None:
    """Reads bodies of a kind in its current schema version; None for an unknown kind."""
    body = BODY_TYPES.get(kind)
    return None if body is None else msgspec.json.Decoder(body).decode


class _Checked(NamedTuple):
    """What is checked of bodies of one kind, once they are decoded.

    Attributes:
        numbers: fields that may hold integers, at any depth; free-form JSON is not among them.
        times: fields that hold nanoseconds since the epoch.
    """

    numbers: tuple[str, ...]
    times: tuple[str, ...]


_NUMBERLESS = regex(r"(?:\b(?:str|bool|None|tuple|dict|Any)\b|Literal\[[^\]]*\]|[\[\],.| ])*")
"""A type, as it is written, that holds no integer; names of other types may stand for some."""


@cache
def _checked_of(body: type[Body]) -> _Checked:
    written: dict[str, str] = {}
    for base in reversed(body.__mro__):
        written |= vars(base).get("__annotations__", {})
    names = body.__struct_fields__
    return _Checked(
        tuple(name for name in names if not _NUMBERLESS.fullmatch(written[name])),
        tuple(name for name in names if name.endswith("ts_ns")),
    )


def _fits(value: object) -> bool:
    """Integers as wide as the ledger's readers have them."""
    if type(value) is int:
        return _INT_MIN <= value <= _INT_MAX
    if isinstance(value, tuple):
        return all(map(_fits, value))
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return not isinstance(value, msgspec.Struct) or _fits(msgspec.structs.astuple(value))


def body_flaw(body: Body) -> str | None:
    """Why a record of this body could not be read back from a ledger; None when it could."""
    try:
        encoded = _encode(body)
    except NOT_JSON as error:
        return f"{body.kind} cannot be written as JSON: {error}"
    return _flaw_of_json(body.kind, encoded) or _flaw_of_fields(body)


def _flaw_of_json(kind: str, encoded: bytes | msgspec.Raw) -> str | None:
    decode = decoder_of(kind)
    if decode is None:
        return f"unknown kind {kind!r}"
    try:
        decode(encoded)
    except (msgspec.MsgspecError, RecursionError) as error:
        return f"{kind} could not be read back: {error}"
    return None


def flaw_of_encoded(record: Record, encoded: bytes, *, is_sound: bool = False) -> str | None:
    """Why a record could not be read back, whose JSON this is; None when it could.

    Args:
        is_sound: :func:`body_flaw` found none in its body.
    """
    try:
        body = _decode_frame(encoded).body
    except (msgspec.MsgspecError, RecursionError) as error:
        return f"{record.kind} could not be read back: {error}"
    if is_sound:
        return _flaw_of_frame(record)
    return _flaw_of_json(record.kind, body) or flaw_of_values(record)


def flaw_of_values(record: Record) -> str | None:
    """Why a record of a known kind, whose types are right, could not be shown or used."""
    return _flaw_of_frame(record) or _flaw_of_fields(record.body)


def _flaw_of_frame(record: Record) -> str | None:
    if not is_storable(record.ts_ns):
        return f"{record.kind} could not be shown: its time is not in {YEARS}"
    for place in record.evidence:
        if not (_fits(place.line) and _fits(place.offset)):
            return f"{record.kind} could not be shown: its evidence does not fit into 64 bits"
    return None


def _flaw_of_fields(body: Body) -> str | None:
    checked = _checked_of(type(body))
    for name in checked.numbers:
        value = getattr(body, name)
        if type(value) is int:
            is_wide = not _INT_MIN <= value <= _INT_MAX
        else:
            is_wide = value is not None and not _fits(value)
        if is_wide:
            return f"{body.kind} could not be shown: {name} does not fit into 64 bits"
    for name in checked.times:
        ts_ns = getattr(body, name)
        if ts_ns is not None and not is_storable(ts_ns):
            return f"{body.kind} could not be shown: {name} is not in the years {YEARS}"
    return None
