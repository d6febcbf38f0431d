"""Texts that are no JSON, and values of another type: Go's words for them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.gotexts import syntax_error
from kubeledger.kubelet.kube.gotypes import (
    CHECKSUM,
    INT,
    STRING,
    Map,
    Pointer,
    Slice,
    Struct,
    UnmarshalError,
    checksum,
    unmarshal,
)

INNER = Struct("pkg.Inner", {"Ints": ("ints", Slice(INT)), "Name": ("name", STRING)})
OUTER = Struct(
    "pkg.Outer",
    {"By": ("by", Map(INT, Pointer(INNER), "pkg.Names")), "Checksum": ("checksum", CHECKSUM)},
    {"By": {}},
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("1 2", "invalid character '2' after top-level value"),
        ("[-]", "invalid character ']' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ('"a\n"', "invalid character '\\n' in string literal"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        ('"\\', "unexpected end of JSON input"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("[" * 10_001, "invalid character '[' exceeded max depth"),
    ],
)
def test_what_is_no_json(text: str, error: str) -> None:
    assert syntax_error(text) == error


@given(st.text(alphabet='{}[]":,\\ 0123.eE+-truefalsnu\n', max_size=20))
def test_it_finds_faults_where_python_does(text: str) -> None:
    """Both read the same texts."""
    try:
        json.loads(text)
    except ValueError:
        assert syntax_error(text)
    else:
        assert syntax_error(text) == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[]", "array into Go value of type pkg.Outer"),
        ('{"by":[]}', "array into Go struct field Outer.by of type pkg.Names"),
        ('{"by":{"x":{}}}', "number x into Go struct field Outer.by of type int"),
        (
            '{"by":{"1":{"ints":[1.5]}}}',
            "number 1.5 into Go struct field Inner.by.ints of type int",
        ),
        ('{"by":{"1":{"name":{}}}}', "object into Go struct field Inner.by.name of type string"),
        ('{"CHECKSUM":true}', "bool into Go struct field Outer.checksum of type checksum.Checksum"),
    ],
)
def test_what_is_of_another_type(text: str, error: str) -> None:
    """The inmost struct, the path of keys, and the type."""
    with pytest.raises(UnmarshalError) as caught:
        unmarshal(text, OUTER)
    assert str(caught.value) == f"json: cannot unmarshal {error}"


def test_what_null_and_absence_leave() -> None:
    """A map that was made stays without its key and is nil by null; a number stays."""
    assert unmarshal("{}", OUTER) == {"By": {}, "Checksum": 0}
    assert unmarshal('{"by":null,"checksum":null}', OUTER) == {"By": None, "Checksum": 0}
    assert unmarshal('{"by":{"1":null,"2":{}}}', OUTER)["By"] == {
        1: None,
        2: {"Ints": None, "Name": ""},
    }


def test_a_checksum_leaves_itself_out() -> None:
    value = unmarshal('{"by":{"1":{"ints":[1]}}}', OUTER)
    assert checksum(value, OUTER) == checksum(value | {"Checksum": 7}, OUTER)
    assert checksum(value, OUTER) != checksum(value, OUTER, "pkg.Other")
