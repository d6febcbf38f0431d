"""Texts as Go's library reads them, with its errors."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.flowcontrol import TokenBucket
from kubeledger.kubelet.kube.gotexts import (
    parse_duration,
    parse_float32,
    sprintf_without_arguments,
    syntax_error,
)
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
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_comes_back(number: float) -> None:
    """Every single-precision number, from its shortest text and from its hexadecimal one."""
    assert parse_float32(repr(number)) == number
    assert parse_float32(number.hex()) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10", 10.0),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("1_0.5_0e+0_1", 105.0),
        ("0x_1p-2", 0.25),
        ("0.1", struct.unpack("f", struct.pack("f", 0.1))[0]),
        ("-Inf", float("-inf")),
        ("infinity", float("inf")),
    ],
)
def test_numbers(text: str, number: float) -> None:
    """Decimal, hexadecimal, special, with underscores between digits."""
    assert parse_float32(text) == number


@pytest.mark.parametrize(
    "text", ["", "x", " 1", "1 ", "_1", "1_", "1__0", "1_.5", "1._5", "1_e5", "1e_5", ".", "0x1",
             "+nan", "infi", "１", "1e", 'q"'],
)  # fmt: skip
def test_no_number(text: str) -> None:
    """What Go refuses, in its words; a hexadecimal number needs its exponent."""
    with pytest.raises(ValueError, match=r"strconv\.ParseFloat: parsing .*: invalid syntax"):
        parse_float32(text)


@pytest.mark.parametrize("text", ["1e39", "-1e400", "0x1p200"])
def test_a_number_that_is_too_large(text: str) -> None:
    with pytest.raises(ValueError, match=f'parsing "{text}": value out of range'):
        parse_float32(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("x", 'time: invalid duration "x"'),
        (".s", 'time: invalid duration ".s"'),
        ("10", 'time: missing unit in duration "10"'),
        ("1m10", 'time: missing unit in duration "1m10"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1h2x", 'time: unknown unit "x" in duration "1h2x"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("9" * 30 + "s", f'time: invalid duration "{"9" * 30}s"'),
    ],
)
def test_no_duration(text: str, error: str) -> None:
    """Number by number, as Go reads it."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 # the text is compared whole
        parse_duration(text)
    assert str(caught.value) == error


def test_durations() -> None:
    assert parse_duration("-1.5h") == -5_400_000_000_000
    assert parse_duration("9223372036854775807ns") == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("100%%", "100%"),
        ("100%", "100%!(NOVERB)"),
        ("%d and %+6.2f", "%!d(MISSING) and %!f(MISSING)"),
        ("5%)", "5%!)(MISSING)"),
    ],
)
def test_sprintf_without_arguments(text: str, written: str) -> None:
    assert sprintf_without_arguments(text) == written


# -- Texts that are no JSON, and values of another type: Go's words for them -----------------------

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


# -- Walks over maps in every order that Go can take -----------------------------------------------


def test_the_first_order_is_that_of_the_keys() -> None:
    assert FIRST_ORDER.of({"b": 1, "a": 2}) == ["b", "a"]


def test_every_slot_is_tried_of_every_map() -> None:
    """Also of maps that only some orders come to."""

    def walk(order: MapOrder) -> str:
        outer = order.of(["a", "b", "c"])
        return outer[0] + (order.of(["x", "y"])[0] if outer[0] == "b" else "")

    assert list(explore(walk)) == ["a", "bx", "by", "c"]


def test_orders_are_counted() -> None:
    assert len(list(explore(lambda order: order.of(range(8)), runs_max=5))) == 5


def test_orders_before_a_failure_are_taken_once_each() -> None:
    """What does not fail keeps its order, so each way to fail comes once."""

    def walk(order: MapOrder) -> str:
        walked = ""
        for key in order.until_failure("abXcY", "XY"):
            walked += key
            if key.isupper():
                break
        return walked

    found = list(explore(walk))
    assert len(found) == len(set(found)) == 16
    assert found[0] == walk(FIRST_ORDER) == "abX"
    assert {walked[-1] for walked in found} == {"X", "Y"}


# -- The rate limit; back-offs are in the tests of restarts and of image pulls ---------------------

S = 1_000_000_000


def test_a_bucket_is_full_at_first_and_fills_again() -> None:
    """A refusal takes nothing; more than the burst is not kept."""
    bucket = TokenBucket(0.5, 2)
    accepted = [bucket.try_accept(second * S) for second in (0, 0, 0, 1, 2, 3, 4, 100, 100, 100)]
    assert accepted == [True, True, False, False, True, False, True, True, True, False]


def test_what_lacks_less_than_a_nanosecond_is_there() -> None:
    """Go's wait is in whole nanoseconds; its rate is a float32."""
    for early_ns, accepted in ((1, True), (2, False)):
        bucket = TokenBucket(5, 1)
        assert bucket.try_accept(0)
        assert bucket.try_accept(S // 5 - early_ns) == accepted
    for early_ns, accepted in ((149, True), (151, False)):
        bucket = TokenBucket(0.1, 1)
        assert bucket.try_accept(0)
        assert bucket.try_accept(10 * S - early_ns) == accepted
    assert not TokenBucket(5, 0).try_accept(0)
