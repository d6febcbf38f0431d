"""What Go's encoding/json says of a text that it does not take."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.gojson import GoJSONError, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "unexpected end of JSON input"),
        (" \n", "unexpected end of JSON input"),
        ('{"a": ', "unexpected end of JSON input"),
        ("[1, 2", "unexpected end of JSON input"),
        ('"abc', "unexpected end of JSON input"),
        ("tru", "unexpected end of JSON input"),
        ("1.", "unexpected end of JSON input"),
        ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": 1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("nil", "invalid character 'i' in literal null (expecting 'u')"),
        ("truE", "invalid character 'E' in literal true (expecting 'e')"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.e", "invalid character 'e' after decimal point in numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        ('"a\nb"', "invalid character '\\n' in string literal"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("[" * 10_001, "exceeded max depth"),
    ],
)
def test_the_first_thing_that_is_wrong(text: str, error: str) -> None:
    """Named by its character and what was read then."""
    with pytest.raises(GoJSONError) as caught:
        loads(text.encode())
    assert str(caught.value) == error


@given(VALUES, st.integers(0, 200), st.characters(max_codepoint=0x2FF))
def test_what_is_json_is_read_and_all_else_refused(value: object, at: int, odd: str) -> None:
    """Also a text that is nearly right."""
    text = json.dumps(value)
    assert loads(text.encode()) == value
    changed = text[:at] + odd + text[at + 1 :]
    try:
        expected = json.loads(changed)
    except ValueError:
        with pytest.raises(GoJSONError):
            loads(changed.encode())
    else:
        assert loads(changed.encode()) == expected or "nan" in repr(expected)
