"""Lies: one field of one decision says something else, or a decision that was taken is not there.

A lie is drawn by the type of its field, out of what the same history knows: another pod, another
device, a number beside the true one, another word of an enumeration. Fields that nothing
determines are named in ``UNDETERMINED`` with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from kubeledger.model.record import Decision, Record
from tests.verify.properties.reimported import numbered

UNDETERMINED: dict[str, str] = {
    "*.after_ts_ns": "worked out by the importer: how late a list of pods may show it",
    "*.inferred": "says how the record came to be, not what the kubelet did",
    "*.since_ts_ns": "worked out by the importer: no line of the kubelet says it",
    "*.told_by": "says which source told it",
    "cgroups.CgroupUpdated.created": "says what the reading before held",
    "cgroups.CgroupUpdated.changed": "says what the reading before held",
    "imagepull.PullEnded.error": "an error of the container runtime, in any words",
    "imagepull.PullEnded.size_bytes": "the runtime says it, and no other source",
    "images.GarbageCollected.error": "an error of the container runtime, in any words",
    "lifecycle.ContainerKilled.message": "words for people beside the reason",
    "oom.ProcessKilled.process": "the name of a process, which no other source tells",
    "oom.ProcessKilled.pid": "the number of a process, which no other source tells",
    "preemption.PodPreempted.preemptor_inferred": "says how the record came to be",
    "preemption.PodPreempted.cut": "says that its line was cut",
}
"""``kind.field`` (``*``: of any kind) -> why no rule can determine it."""

_POD_FIELDS: tuple[tuple[str, ...], ...] = (
    ("namespace", "pod", "pod_uid"),
    ("victim_namespace", "victim_pod", "victim_uid"),
    ("preemptor_namespace", "preemptor_pod", "preemptor_uid"),
)
"""Fields that name a pod together: a lie changes all of them."""


class Lie(msgspec.Struct, frozen=True):
    """One changed field.

    Attributes:
        seq: of the decision.
        field: what is changed; ``pod`` for the fields that name one.
        fields: field -> the lie.
    """

    seq: int
    field: str
    fields: dict[str, Any]


def lying(records: Sequence[Record], lie: Lie) -> list[Record]:
    """The history with the lie in it."""
    return [
        msgspec.structs.replace(r, body=msgspec.structs.replace(r.body, **lie.fields))
        if r.seq == lie.seq
        else r
        for r in records
    ]


def unreported(records: Sequence[Record], seq: int) -> list[Record]:
    """The history without one decision."""
    return numbered([record for record in records if record.seq != seq])


def lies_about(record: Record, records: Sequence[Record], random: Random) -> Iterator[Lie]:
    """One lie for each field of a decision that holds a value, and that something determines."""
    body: Any = record.body
    assert isinstance(body, Decision)
    hints = get_type_hints(type(body))
    seen: set[str] = set()
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if value is None or name in seen or _is_undetermined(record.kind, name):
            continue
        group = next((fields for fields in _POD_FIELDS if name in fields), None)
        if group is not None:
            seen.update(group)
            lie = _another_pod(body, group, records, random)
        else:
            lies = _others(name, value, hints[name], records, record.kind, random)
            lie = {name: random.choice(lies)} if lies else None
        if lie:
            yield Lie(record.seq, "pod" if group else name, lie)


def _is_undetermined(kind: str, field: str) -> bool:
    return f"{kind}.{field}" in UNDETERMINED or f"*.{field}" in UNDETERMINED


def _another_pod(
    body: Any,  # noqa: ANN401 - any decision
    group: tuple[str, ...],
    records: Sequence[Record],
    random: Random,
) -> dict[str, Any] | None:
    own = tuple(getattr(body, name, None) for name in group)
    pods = dict.fromkeys(
        (r.body.namespace, r.body.pod, r.body.pod_uid)  # type: ignore[attr-defined]
        for r in records
        if r.kind in ("lifecycle.PodConfigChanged", "lifecycle.PodListed")
    )
    others = [pod for pod in pods if pod[2] not in (None, own[2])]
    if not others:
        return None
    chosen = random.choice(others)
    return {
        name: value for name, value in zip(group, chosen, strict=True) if getattr(body, name, None)
    }


def _others(
    name: str,
    value: Any,  # noqa: ANN401 - any field's
    hint: Any,  # noqa: ANN401 - any type
    records: Sequence[Record],
    kind: str,
    random: Random,
) -> list[Any]:
    """Other values that such a field may have."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return _numbers(value)
    if words := _literals(hint):
        return [word for word in words if word != value]
    known = [
        other
        for r in records
        for other in (getattr(r.body, name, None),)
        if other is not None and other != value and type(other) is type(value)
    ]
    if isinstance(value, str):
        digits = list(re.finditer(r"\d+", value))
        if digits and name in ("message", "threshold", "error"):
            at = random.choice(digits)
            return [f"{value[: at.start()]}{n}{value[at.end() :]}" for n in _numbers(int(at[0]))]
        return known or [f"{value}-other"]
    if isinstance(value, tuple):
        return _tuples(name, value, known, random)
    if isinstance(value, dict):
        return _dicts(value, random)
    if isinstance(value, msgspec.Struct):
        return _structs(value)
    return known


def _numbers(value: int) -> list[int]:
    near = (value + 1, value - 1, value * 2, value // 2, value + 10, value * 10)
    return [other for other in dict.fromkeys(near) if other != value and other >= 0]


def _literals(hint: Any) -> list[Any]:  # noqa: ANN401 - any type
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [
        word for part in get_args(hint) if get_origin(part) is Literal for word in get_args(part)
    ]


def _tuples(name: str, value: tuple[Any, ...], known: list[Any], random: Random) -> list[Any]:
    """One element less, one more of those that others hold, or another in the place of one."""
    pool = list(dict.fromkeys(each for other in known for each in other if each not in value))
    done: list[Any] = []
    if value:
        at = random.randrange(len(value))
        done.append(value[:at] + value[at + 1 :])
        if pool:
            done.append((*value[:at], random.choice(pool), *value[at + 1 :]))
        if isinstance(value[at], msgspec.Struct):
            done += [(*value[:at], other, *value[at + 1 :]) for other in _structs(value[at])]
    if pool:
        done.append((*value, random.choice(pool)))
    return done


def _dicts(value: dict[Any, Any], random: Random) -> list[Any]:
    if not value:
        return []
    key = random.choice(sorted(value))
    old = value[key]
    done: list[Any] = [{k: v for k, v in value.items() if k != key}]
    if isinstance(old, str) and old.lstrip("-").isdigit():
        done = [{**value, key: str(other)} for other in _numbers(int(old))]
    elif isinstance(old, int):
        done = [{**value, key: other} for other in _numbers(old)]
    elif isinstance(old, tuple) and len(value) == 1:
        done = [{_other_key(key): old}]
    return done


def _other_key(key: str) -> str:
    return str(1 - int(key)) if key in ("0", "1") else f"{key}-other"


def _structs(value: msgspec.Struct) -> list[Any]:
    done = []
    for name in value.__struct_fields__:
        old = getattr(value, name)
        others: list[Any] = []
        if isinstance(old, bool):
            others = [not old]
        elif isinstance(old, int):
            others = list(_numbers(old))
        elif isinstance(old, tuple) and all(isinstance(each, int) for each in old):
            others = [(0,), (1,), (0, 1)]
        done += [
            msgspec.structs.replace(value, **{name: other}) for other in others if other != old
        ]
    return done
