"""Texts as Go's library reads them, with its errors."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.gotexts import parse_duration, parse_float32, sprintf_without_arguments


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
