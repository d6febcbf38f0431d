"""Quantities: named rows, and properties against an oracle of fractions."""

import re
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.quantity import ZERO, Format, Quantity, QuantityError, parse, value_of

FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC_WRONG = "unable to parse numeric part of quantity"
SUFFIX_WRONG = "unable to parse quantity's suffix"
INT64_MAX = 9223372036854775807
INT64_MIN = -9223372036854775808

SI, BIN, EXP = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT

# --- an oracle that shares nothing with the code: a table of factors and fractions -----

FACTORS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(1024), "Mi": Fraction(1024**2), "Gi": Fraction(1024**3),
    "Ti": Fraction(1024**4), "Pi": Fraction(1024**5), "Ei": Fraction(1024**6),
}  # fmt: skip
TEXT = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPEKi]*))")


def away_from_zero(amount: Fraction) -> int:
    """The next integer that is not nearer to zero."""
    return ceil(amount) if amount >= 0 else -ceil(-amount)


def oracle(text: str) -> Fraction:
    """The amount that a well-formed text stands for, rounded to nano and capped."""
    match = TEXT.fullmatch(text)
    assert match is not None
    sign, number, power, suffix = match.groups()
    factor = Fraction(10) ** int(power) if power else FACTORS[suffix or ""]
    amount = Fraction(number.rstrip(".")) * factor
    amount = Fraction(away_from_zero(amount * 10**9), 10**9)
    if suffix and suffix.endswith("i"):
        amount = min(amount, Fraction(INT64_MAX))
    return -amount if sign == "-" else amount


def amount_of(quantity: Quantity) -> Fraction:
    return quantity.unscaled * Fraction(10) ** quantity.exponent


digits = st.text("0123456789", min_size=1, max_size=14)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, st.text("0123456789", max_size=12)),
    st.builds(".{}".format, digits),
)
suffixes = st.one_of(
    st.sampled_from(sorted(FACTORS)),
    st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]),
              st.integers(0, 14)),
)  # fmt: skip
texts = st.builds("{}{}{}".format, st.sampled_from(["", "", "+", "-"]), numbers, suffixes)
unsigned = st.builds("{}{}".format, numbers, suffixes)


# --- reading ---------------------------------------------------------------------------

READ = {
    # name: text, value, milli value, canonical form, as logged, notation
    "zero": ("0", 0, 0, "0", "0", SI),
    "zero of bytes": ("0Ki", 0, 0, "0", "0", BIN),
    "zero with a fraction of bytes": ("0.0Gi", 0, 0, "0", "0", BIN),
    "negative zero": ("-0", 0, 0, "0", "0", SI),
    "one core": ("1", 1, 1000, "1", "1", SI),
    "millicores": ("100m", 1, 100, "100m", "100m", SI),
    "whole cores in millicores": ("2000m", 2, 2000, "2", "2", SI),
    "half a core": ("0.5", 1, 500, "500m", "500m", SI),
    "no digit before the point": (".5", 1, 500, "500m", "500m", SI),
    "no digit after the point": ("5.", 5, 5000, "5", "5.", SI),
    "a point before a suffix": ("1.G", 10**9, 10**12, "1G", "1.G", SI),
    "micro rounds up": ("100u", 1, 1, "100u", "100u", SI),
    "nano rounds up": ("1n", 1, 1, "1n", "1n", SI),
    "below nano becomes nano": ("0.1n", 1, 1, "1n", "1n", SI),
    "far below nano becomes nano": ("1e-100", 1, 1, "1e-9", "1e-9", EXP),
    "beyond any power of ten": ("1e-1000000", 1, 1, "1e-9", "1e-9", EXP),
    "half a milli": ("0.0005", 1, 1, "500u", "500u", SI),
    "kilo is small": ("1k", 1000, 10**6, "1k", "1k", SI),
    "exa, no exponent": ("1E", 10**18, 0, "1E", "1E", SI),
    "exponent": ("1e3", 1000, 10**6, "1e3", "1e3", EXP),
    "capital exponent is kept": ("1E3", 1000, 10**6, "1e3", "1E3", EXP),
    "signed exponent": ("12e-3", 1, 12, "12e-3", "12e-3", EXP),
    "exponent off by one": ("999e1", 9990, 9990000, "9990", "9990", EXP),
    "exponent cut to 32 bits": ("1e4294967299", 1000, 10**6, "1e3", "1e4294967299", EXP),
    "mebibytes": ("128Mi", 2**27, 2**27 * 1000, "128Mi", "128Mi", BIN),
    "one kibibyte": ("1Ki", 1024, 1024000, "1Ki", "1Ki", BIN),
    "kibibytes that are a mebibyte": ("1024Ki", 2**20, 2**20 * 1000, "1Mi", "1Mi", BIN),
    "gibibytes and a half": ("1.5Gi", 1610612736, 1610612736000, "1536Mi", "1536Mi", BIN),
    "a byte fraction": ("0.1Ki", 103, 102400, "102400m", "102400m", BIN),
    "less than a kibibyte": ("0.5Ki", 512, 512000, "512", "512", BIN),
    "less than a byte": ("0.0001Ki", 1, 103, "102400u", "102400u", SI),
    "plus sign is kept": ("+1", 1, 1000, "1", "+1", SI),
    "leading zeros are kept": ("0010", 10, 10000, "10", "0010", SI),
    "trailing zeros are kept": ("1.500", 2, 1500, "1500m", "1.500", SI),
    "a suffix alone": ("m", 0, 0, "0", "0", SI),
    "a sign alone": ("-", 0, 0, "0", "0", SI),
    "a point alone": (".", 0, 0, "0", "0", SI),
    "negative rounds away": ("-1.5", -2, -1500, "-1500m", "-1500m", SI),
    "negative bytes, wide, round up": ("-0.1Ki", -101, -102400, "-102400m", "-102400m", BIN),
    # Limits: what the kubelet's own code answers, wrapped or given up.
    "capped": ("9Ei", INT64_MAX, -1000, str(INT64_MAX), str(INT64_MAX), BIN),
    "negative cap": ("-9Ei", -INT64_MAX, 1000, str(-INT64_MAX), str(-INT64_MAX), BIN),
    "below the cap": ("7Ei", 7 * 2**60, INT64_MIN, "7Ei", "7Ei", BIN),
    "no cap without a binary suffix": ("9223372036854775808", INT64_MIN, 0,
                                       "9223372036854775808", "9223372036854775808", SI),
    "exa of exa": ("10E", 0, 0, "10E", "10E", SI),
    "suffix beyond the last": ("1000E", 0, 0, "1", "1", SI),
    "exponent beyond 64 bits": ("1e30", 0, 0, "1e30", "1e30", EXP),
    "21 digits": ("123456789012345678901", -5670419503621182411, -7269072992350064888,
                  "123456789012345678901", "123456789012345678901", SI),
    "negative, wide, far from zero": ("-1.5Ti", -7507219102, -7507219103848,
                                      "-1536Gi", "-1536Gi", BIN),
    "largest exponent": ("1e2147483647", 0, 0, "10e2147483646", "10e2147483646", EXP),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "milli", "canonical", "logged", "format"), READ.values(), ids=list(READ)
)
def test_read(
    text: str, value: int, milli: int, canonical: str, logged: str, format: Format
) -> None:
    """Amount, roundings and both written forms."""
    quantity = parse(text)
    assert quantity.value() == value
    assert quantity.milli_value() == milli
    assert quantity.canonical() == canonical
    assert str(quantity) == logged
    assert quantity.format is format
    assert value_of(text) == value


REFUSED = {
    "empty": ("", FORMAT_WRONG),
    "blank before": (" 1", FORMAT_WRONG),
    "newline after": ("1\n", FORMAT_WRONG),
    "two points": ("1.1.M", FORMAT_WRONG),
    "two signs": ("--1", SUFFIX_WRONG),
    "a sum": ("1+1.0M", FORMAT_WRONG),
    "a word": ("aoeu", FORMAT_WRONG),
    "digits of another script": ("\u0661", FORMAT_WRONG),
    "other letters after": ("0.1am", FORMAT_WRONG),
    "lower-case mebi": ("0.1mi", SUFFIX_WRONG),
    "i alone": ("1i", SUFFIX_WRONG),
    "capital K": ("1K", SUFFIX_WRONG),
    "bytes": ("1MiB", FORMAT_WRONG),
    "suffix with a digit": ("1Mi5", SUFFIX_WRONG),
    "exponent of nothing": ("1e", SUFFIX_WRONG),
    "signed exponent of nothing": ("-3.01e-", SUFFIX_WRONG),
    "minus in the middle": ("5-3", SUFFIX_WRONG),
    "exponent beyond 64 bits": ("1e9223372036854775808", SUFFIX_WRONG),
    "a large binary suffix of nothing": ("Pi", NUMERIC_WRONG),
    "a small exponent of nothing": ("e-10", NUMERIC_WRONG),
    "a smaller exponent of a sign": ("+.e-10", NUMERIC_WRONG),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=list(REFUSED))
def test_refused(text: str, message: str) -> None:
    """What is not a quantity is refused in the kubelet's words, by every way in."""
    for read in (parse, value_of):
        with pytest.raises(QuantityError) as caught:
            read(text)
        assert str(caught.value) == message
        assert caught.value.text == text
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("text", ["1" * 1001, "0" * 100_000])
def test_absurdly_long_is_refused(text: str) -> None:
    """No text makes us work out numbers of a million digits."""
    with pytest.raises(QuantityError, match="more than 1000"):
        parse(text)


@given(st.text("+-.0123456789eEinumkKMGTPx ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else than a quantity or the kubelet's error comes out."""
    try:
        quantity = parse(text)
    except QuantityError as error:
        assert str(error) in {FORMAT_WRONG, NUMERIC_WRONG, SUFFIX_WRONG}  # noqa: PT017 - both ways
    else:
        assert INT64_MIN <= quantity.value() <= INT64_MAX
        assert value_of(text) == quantity.value()


@given(texts)
def test_amount_agrees_with_fractions(text: str) -> None:
    """Every well-formed text means what its factors say."""
    assert amount_of(parse(text)) == oracle(text)


@given(unsigned)
def test_roundings_agree_with_fractions(text: str) -> None:
    """Whole units and thousandths are rounded away from zero while they fit 64 bits."""
    amount, quantity = oracle(text), parse(text)
    assume(amount * 1000 <= INT64_MAX)
    assert quantity.value() == value_of(text) == away_from_zero(amount)
    assert quantity.milli_value() == away_from_zero(amount * 1000)
    assert quantity.scaled_value(3) == away_from_zero(amount / 1000)


# --- the short way in ------------------------------------------------------------------


@given(st.builds("{}{}".format, st.text("0123456789", min_size=1, max_size=20),
                 st.sampled_from(["", "m", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])))  # fmt: skip
def test_short_way_equals_the_long_one(text: str) -> None:
    """The common forms take a short cut that changes nothing, at any length."""
    assert value_of(text) == parse(text).value()


# --- writing ---------------------------------------------------------------------------


@given(texts)
def test_canonical_form_reads_back(text: str) -> None:
    quantity = parse(text)
    assume(abs(amount_of(quantity)) < 10**18)  # above, the kubelet runs out of suffixes
    again = parse(quantity.canonical())
    assert again == quantity
    assert again.canonical() == quantity.canonical()
    assert "." not in quantity.canonical()


@given(texts)
def test_logged_form_means_the_same(text: str) -> None:
    """A text that is kept is the text itself; otherwise the canonical form is logged."""
    quantity = parse(text)
    assert str(quantity) in {text, quantity.canonical()}


# --- comparing -------------------------------------------------------------------------


@given(texts, texts)
def test_order_is_that_of_the_amounts(left: str, right: str) -> None:
    """All comparisons agree with fractions, and equal amounts hash alike."""
    a, b = parse(left), parse(right)
    x, y = oracle(left), oracle(right)
    assert a.cmp(b) == (x > y) - (x < y)
    assert (a == b, a != b) == (x == y, x != y)
    assert (a < b, a <= b, a > b, a >= b) == (x < y, x <= y, x > y, x >= y)
    assert a.sign == (x > 0) - (x < 0)
    assert a.is_zero == (x == 0)


@given(texts, st.integers(0, 5))
def test_equal_amounts_hash_alike(text: str, zeros: int) -> None:
    """However an amount is held, a set keeps it once."""
    one = parse(text)
    other = Quantity(one.unscaled * 10**zeros, one.exponent - zeros, BIN, wide=True)
    assert len({one, other}) == 1


def test_huge_exponents_compare_at_once() -> None:
    """A comparison never writes out a power of ten that decides it anyway."""
    huge, small = parse("1e2147483646"), parse("999999999999999999E")
    assert huge > small > ZERO > parse("-1e2147483646")
    assert parse("10e2147483645") == huge
    assert parse("0e2147483646") == ZERO
    with pytest.raises(QuantityError, match="more than 1000 digits"):
        huge.add(small)


def test_not_a_quantity_is_not_equal() -> None:
    """Comparing with a bare number is not equality by accident."""
    assert parse("1") != 1


# --- calculating -----------------------------------------------------------------------


@given(texts, texts)
def test_sums_agree_with_fractions(left: str, right: str) -> None:
    """No precision is lost, in 64 bits or beyond them."""
    a, b = parse(left), parse(right)
    assert amount_of(a.add(b)) == oracle(left) + oracle(right)
    assert amount_of(a.sub(b)) == oracle(left) - oracle(right)
    assert amount_of(a.neg()) == -oracle(left)


@given(texts, texts)
def test_adding_and_taking_away_returns(left: str, right: str) -> None:
    assert parse(left).add(parse(right)).sub(parse(right)) == parse(left)


def test_zero_takes_the_notation_even_of_zero() -> None:
    """So a sum that starts from nothing is written like its first term."""
    assert ZERO.add(parse("0Ki")).add(parse("2048")).format is SI
    assert ZERO.add(parse("0Ki")).format is BIN


def test_most_negative_has_no_negative_in_64_bits() -> None:
    """Negating and subtracting it wraps, as in the kubelet, unless the sum turns wide."""
    lowest = Quantity.of(INT64_MIN)
    assert lowest.neg().value() == INT64_MIN
    assert ZERO.sub(lowest).value() == INT64_MIN
    assert Quantity.of(-1).sub(lowest).value() == INT64_MAX


SCALED = {
    # name: quantity, power of ten, result; beyond 64 bits each row is another rule
    "narrow, one step wraps": (Quantity.of(INT64_MAX), -3, -1000),
    "narrow, lowest gives up": (Quantity.of(INT64_MIN), -3, 0),
    "narrow, many steps give up": (Quantity.of(INT64_MAX), -4, 0),
    "narrow, rounded to nothing but one": (Quantity.of(-1), 40, -1),
    "narrow zero": (Quantity.of(0), -40, 0),
    "wide, wraps": (Quantity(INT64_MAX, 0, BIN, wide=True), -3, -1000),
    "wide, beyond a 64-bit power": (Quantity(3, 20, wide=True), 0, INT64_MIN),
    "wide, even, beyond a 64-bit power": (Quantity(2, 20, wide=True), 0, 0),
    "wide, big, rounds up": (Quantity(10**21 + 1, -9, wide=True), 0, 10**12 + 1),
    "wide, small, rounds up": (Quantity(10**9 + 1, -9, wide=True), 0, 2),
    "wide, negative, rounds up": (Quantity(-(10**9) - 1, -9, wide=True), 0, 0),
}


@pytest.mark.parametrize(("quantity", "power", "expected"), SCALED.values(), ids=list(SCALED))
def test_scaled_value(quantity: Quantity, power: int, expected: int) -> None:
    """The corners that decide whether a log can be explained."""
    assert quantity.scaled_value(power) == expected


# --- from objects ----------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, [], {}, b"1", "\x1c1", float("inf")])
def test_from_api_refuses(value: object) -> None:
    """Nothing else is taken for a number."""
    with pytest.raises(QuantityError, match="regular expression"):
        Quantity.from_api(value)


@pytest.mark.parametrize("value", [INT64_MAX + 1, INT64_MIN - 1])
def test_whole_units_fit_64_bits(value: int) -> None:
    """A number that the kubelet cannot hold is refused, not wrapped."""
    for make in (Quantity.of, Quantity.of_milli):
        with pytest.raises(QuantityError, match="64 bits"):
            make(value)


def test_immutable() -> None:
    """States may share quantities."""
    with pytest.raises(AttributeError):
        parse("1").unscaled = 2  # type: ignore[misc]  # what the test is about
