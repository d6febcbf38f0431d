"""Messages of protobuf, read as protobuf's own library reads them."""

from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.record.sources.grpc_call import Field, decode
from kubeledger.record.sources.pod_resources import _MESSAGES as MESSAGES
from tests.record.podresources_pb import message_type

_NAMES = st.text(max_size=5)
_NUMBERS = st.integers(-(2**63), 2**63 - 1).map(str)
_TOPOLOGY = st.fixed_dictionaries(
    {"nodes": st.lists(st.fixed_dictionaries({"ID": _NUMBERS}), max_size=3)}
)


def _all_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=fields)


_DEVICES = _all_of(resourceName=_NAMES, deviceIds=st.lists(_NAMES, max_size=3), topology=_TOPOLOGY)
_MEMORY = _all_of(memoryType=_NAMES, size=st.integers(0, 2**63 - 1).map(str), topology=_TOPOLOGY)
_CONTAINER = _all_of(
    name=_NAMES,
    devices=st.lists(_DEVICES, max_size=2),
    cpuIds=st.lists(_NUMBERS, max_size=4),
    memory=st.lists(_MEMORY, max_size=2),
)
_ANSWER = _all_of(
    podResources=st.lists(
        _all_of(name=_NAMES, namespace=_NAMES, containers=st.lists(_CONTAINER, max_size=2)),
        max_size=3,
    )
)


@given(_ANSWER)
def test_as_the_library_does(answer: dict[str, Any]) -> None:
    """Defaults and 64-bit numbers included."""
    message = ParseDict(answer, message_type("ListPodResourcesResponse")())
    expected = MessageToDict(message, always_print_fields_with_no_presence=True)
    data = message.SerializeToString()
    assert decode(MESSAGES, "ListPodResourcesResponse", data) == expected


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    """Never anything else."""
    with suppress(ValueError):
        assert decode(MESSAGES, "PodResources", data).keys() == {"name", "namespace", "containers"}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x08\x01\x08\x02", ["1", "2"]),  # one by one
        (b"\x0a\x02\x01\x02", ["1", "2"]),  # packed
        (b"\x10\x07\x1d\x00\x00\x00\x00\x21" + bytes(8) + b"\x08\x03", ["3"]),  # others' fields
    ],
)
def test_forms_of_numbers(data: bytes, found: list[str]) -> None:
    """Writers may choose; what a newer version adds is left out."""
    assert decode({"M": (Field(1, "n", "int", repeated=True),)}, "M", data) == {"n": found}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a\x05abc", "a field ends after its message"),
        (b"\x0a", "in the middle of a number"),
        (b"\x08" + b"\xff" * 10, "more than 64 bits"),
        (b"\x0b", "unknown form 3"),
        (b"\x0a\x01\xff", "utf-8"),
    ],
)
def test_what_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode(MESSAGES, "PodResources", data)


def test_depth_is_bounded() -> None:
    """A message may hold itself, but not for ever."""
    data = b""
    for _ in range(20):
        data = b"\x0a" + bytes((len(data),)) + data
    with pytest.raises(ValueError, match="too deep"):
        decode({"M": (Field(1, "m", "M"),)}, "M", data)
