"""Changes to inputs: bytes, lines, tokens and JSON values, drawn from one source of chance.

Every change takes its choices from a ``Random``. The fuzzer gives one made of a number, so that
the number is the input; hypothesis gives its own, so that it can shrink what it found.
"""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutator = Callable[[Random, bytes, Sequence[bytes]], bytes]
"""From (chance, input, all seeds) to another input."""

SIZE_MAX = 64 << 10
"""Bytes of an input: what grows without end is a matter of its own tests."""

_INTEGER_MAX = 10**40  # Python itself refuses to write those of thousands of digits

ODD_TEXTS: tuple[str, ...] = (
    "", " ", "\t", "\r", "\n", "\0", "\x1b[2J", "\x9b31m", "\x7f", "\u202e", "\u2028", "\ufeff",
    "\ufffd", "é", "日本", "😀", "e\u0301", "İ", "ﬁ", "<script>alert(1)</script>", "&lt;", "'", '"',
    "\\", "\\u0000", "\\ud800", "\\x", "%s", "{}", "../..", "/", "//", "null", "true", "NaN",
    "Infinity", "-0", "0", "1", "-1", "00", "1e309", "1e-400", "0x10", "1_000", "٣", "²",
    "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "18446744073709551616", "9" * 400, "1" + "0" * 5000, "1Ei", "9E", "1e3", "100m", "0.5", "1.5Gi",
    "1h", "-1ns", "9999999h", "1m0.000000001s", "2026-11-21T03:00:00Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z", "2026-02-30T00:00:00Z", "1677-09-21T00:12:43Z", "*", "?",
    "[", "]", "{", "}", "(", ")", "&{", "[]", "{}", "<", ">", "=<", " >", ":", ",", "=", "a=b", "|",
    "&a", "*a", "!!python/object:os.system", "<<", "---", "pod", "kube-system", "default",
    "x" * 300, "A" * 5000,
)  # fmt: skip
"""Texts that parsers stumble over."""

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 63, 64, 65, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63,
    2**64, -(2**63) - 1, 10**30, 0.0, -0.0, 0.5, 1e300, 1e-300, "", [], {}, [[]], [None],
    {"": None}, {"a": {"b": [1]}}, [1, "a", None], *ODD_TEXTS,
)  # fmt: skip
"""JSON values that are not what a field should hold."""

_TOKEN = re.compile(rb"[A-Za-z0-9_.-]+|\s+|[^\sA-Za-z0-9_.-]")
_DIGITS = re.compile(rb"\d+")


def _odd(random: Random) -> bytes:
    return random.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")


def _span(random: Random, data: bytes, most: int = 200) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.randint(0, most))


def _cut_end(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _cut_start(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[random.randrange(len(data) + 1) :]


def _cut_out(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[end:]


def _double(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:end] + data[start:end] * random.choice((1, 2, 40)) + data[end:]


def _flip(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return bytes([random.randrange(256)])
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _overwrite(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data, 8)
    return data[:start] + bytes(random.randrange(256) for _ in range(end - start)) + data[end:]


def _insert_odd(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + _odd(random) + data[at:]


def _splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others) if others else b""
    start, end = _span(random, other, 400)
    at = random.randrange(len(data) + 1)
    return data[:at] + other[start:end] + data[at:]


def _cross(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others) if others else b""
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def _token(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One token in place of another: an odd one, or one of the same or another input."""
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return _odd(random)
    at = random.choice(tokens)
    match random.randrange(3):
        case 0:
            new = _odd(random)
        case 1:
            new = random.choice(tokens)[0]
        case _:
            found = _TOKEN.findall(random.choice(others)) if others else []
            new = random.choice(found) if found else b""
    return data[: at.start()] + new + data[at.end() :]


def _swap_tokens(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    tokens = _TOKEN.findall(data)
    if len(tokens) < 2:
        return data
    i, j = random.randrange(len(tokens)), random.randrange(len(tokens))
    tokens[i], tokens[j] = tokens[j], tokens[i]
    return b"".join(tokens)


def _number(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    numbers = list(_DIGITS.finditer(data))
    if not numbers:
        return data
    at = random.choice(numbers)
    length = min(len(at[0]), 400)
    new = random.choice(
        (
            str(random.randrange(10**length)).zfill(length),
            str(int(at[0][:18]) + random.choice((-1, 1))),
            str(random.choice((0, 2**31, 2**63, 2**64, 10**30))),
            "-" + at[0].decode(),
            "9" * length,
            "0" * length,
        )
    )
    return data[: at.start()] + new.encode() + data[at.end() :]


def _nest(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    opening, closing = random.choice(
        ((b"[", b"]"), (b"{", b"}"), (b'{"a":', b"}"), (b"(", b")"), (b"&{A:", b"}"), (b'"', b'"'))
    )
    start, end = _span(random, data)
    depth = random.choice((1, 2, 10, 300, 3000))
    return data[:start] + opening * depth + data[start:end] + closing * depth + data[end:]


def _lines(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Drop, double, swap, join or move whole lines, or take one from elsewhere."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    i, j = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(6):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case 3:
            lines[i] = lines[i].rstrip(b"\r\n")
        case 4:
            lines[i] = lines[i].rstrip(b"\n") + b"\r\n"
        case _:
            found = random.choice(others).splitlines(keepends=True) if others else []
            lines.insert(j, random.choice(found) if found else b"\n")
    return b"".join(lines)


_TEXT_CHANGES: tuple[Mutator, ...] = (
    _cut_end, _cut_start, _cut_out, _double, _flip, _overwrite, _insert_odd, _splice, _cross,
    _token, _token, _token, _swap_tokens, _number, _number, _nest, _lines, _lines,
)  # fmt: skip


def mutate_text(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One to five changes that know of bytes, tokens, numbers and lines, and of no grammar."""
    for _ in range(random.choice((1, 1, 2, 3, 5))):
        data = random.choice(_TEXT_CHANGES)(random, data, others)[:SIZE_MAX]
    return data


def mutate_json(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change values inside JSON, so that what comes out is JSON again; now and then, bytes.

    Of several lines of JSON one is changed.
    """
    if random.randrange(5) == 0:
        return mutate_text(random, data, others)
    lines = data.split(b"\n")
    try:
        return _dumped(mutate_value(random, json.loads(data), others))[:SIZE_MAX]
    except (ValueError, RecursionError):
        pass
    at = random.randrange(len(lines))
    try:
        lines[at] = _dumped(mutate_value(random, json.loads(lines[at]), others))
    except (ValueError, RecursionError):
        return mutate_text(random, data, others)
    return b"\n".join(lines)[:SIZE_MAX]


def _dumped(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def mutate_value(random: Random, value: Any, others: Sequence[bytes]) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value with one to five changes somewhere in it."""
    for _ in range(random.choice((1, 1, 2, 3, 5))):
        value = _changed(random, value, others)
    return value


def mutate_alike(random: Random, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value of the same form, with a few other texts and numbers: a schema takes it."""
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        return {**value, key: mutate_alike(random, value[key])}
    if isinstance(value, list) and value:
        at = random.randrange(len(value))
        changed = [mutate_alike(random, value[at])]
        match random.randrange(6):
            case 0:
                changed = []
            case 1:
                changed = [value[at], *changed]
            case _:
                pass
        return [*value[:at], *changed, *value[at + 1 :]]
    match value:
        case bool():
            return not value
        case int():
            value = value if abs(value) < _INTEGER_MAX else 1
            return random.choice((0, 1, -1, value + 1, value - 1, -value, value * 1000, 2**63 - 1))
        case float():
            return random.choice((0.0, -1.0, value * 2, 1e300))
        case str():
            return random.choice((*ODD_TEXTS, value + "x", value[:-1], value * 2))
        case _:
            return value


def _changed(random: Random, value: Any, others: Sequence[bytes]) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict) and value and random.randrange(8):
        key = random.choice(list(value))
        match random.randrange(14):
            case 0:
                return {name: member for name, member in value.items() if name != key}
            case 1:
                return {
                    (random.choice(ODD_TEXTS) if name == key else name): member
                    for name, member in value.items()
                }
            case 2:
                return {**value, key: value[random.choice(list(value))]}
            case 3:
                return {**value, random.choice(ODD_TEXTS): random.choice(ODD_VALUES)}
            case _:
                return {**value, key: _changed(random, value[key], others)}
    if isinstance(value, list) and value and random.randrange(8):
        at = random.randrange(len(value))
        match random.randrange(10):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return value[:at] + [value[at]] * random.choice((2, 3, 70)) + value[at:]
            case 2:
                return [*value, random.choice(ODD_VALUES)]
            case _:
                return [*value[:at], _changed(random, value[at], others), *value[at + 1 :]]
    return _leaf(random, value, others)


def _leaf(random: Random, value: Any, others: Sequence[bytes]) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str) and random.randrange(2):
        data = value.encode("utf-8", "surrogatepass")
        return mutate_text(random, data, others)[:2000].decode("utf-8", "replace")
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _INTEGER_MAX
    if whole and random.randrange(2):
        return value + random.choice((-1, 1, 10, -10, 2**31, -value, -2 * value, value * 10**9))
    if random.randrange(12) == 0:
        for _ in range(random.choice((1, 5, 200))):
            value = [value] if random.randrange(2) else {"a": value}
        return value
    return random.choice(ODD_VALUES)
