"""Hypothesis strategies for every body type there is, made from the types themselves."""

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from kubeledger.model.bodies.node import Setting
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.wire.catalogue import BODY_TYPES, TS_NS_MAX, TS_NS_MIN

INTEGERS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(TS_NS_MIN, TS_NS_MAX)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - any type hint
    plain = {str: TEXTS, int: INTEGERS, bool: st.booleans(), type(None): st.none(), Any: JSON}
    if hint in plain:
        return plain[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if origin is tuple:
        assert arguments[1:] == (...,), hint
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    assert issubclass(hint, msgspec.Struct), hint
    return structs(hint)


def structs(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Instances with every field given."""
    hints = get_type_hints(struct)
    fields = {field.name: values(hints[field.name]) for field in msgspec.structs.fields(struct)}
    for name in fields:
        if name.endswith("ts_ns"):
            fields[name] = TIMES if hints[name] is int else st.none() | TIMES
    if struct is Setting:
        fields["value"] = JSON.map(lambda value: msgspec.json.encode(value).decode())
    return st.builds(struct, **fields)


def bodies() -> st.SearchStrategy[Body]:
    return st.sampled_from(list(BODY_TYPES.values())).flatmap(structs)


def records() -> st.SearchStrategy[Record]:
    """Records of all kinds; seq and times anywhere in their range."""
    return st.builds(
        _record,
        body=bodies(),
        node=TEXTS,
        seq=st.integers(1, 2**62),
        ts_ns=TIMES,
        cause=st.none() | st.integers(1, 2**62),
        evidence=st.lists(structs(Evidence), max_size=2).map(tuple),
    )


def _record(body: Body, **envelope: Any) -> Record:  # noqa: ANN401 - passed on as it is
    return Record(role=body.role, kind=body.kind, v=body.v, body=body, **envelope)
