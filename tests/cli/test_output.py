"""Rows as text: what programs read stays exact, what people read is safe to show."""

import csv
import datetime
import io
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from kubeledger.cli.output import FORMATS, counted, printable, write_rows


def written(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    format_: str,
    types: Sequence[str] = (),
    width_max: int | None = None,
) -> str:
    out = io.StringIO()
    write_rows(columns, rows, format_, out, types=types, width_max=width_max)
    return out.getvalue()


VALUES: list[tuple[object, object, str]] = [
    (None, None, ""),
    (True, True, "true"),
    (7, 7, "7"),
    (2**100, 2**100, str(2**100)),
    (1.5, 1.5, "1.5"),
    (float("nan"), None, "nan"),
    (Decimal("1.50"), 1.5, "1.50"),
    (Decimal("3"), 3, "3"),
    ("text", "text", "text"),
    (["a", None], ["a", None], '["a", null]'),
    ({"k": [1]}, {"k": [1]}, '{"k": [1]}'),
    (datetime.datetime(2026, 11, 21, 3, 0, 6), "2026-11-21T03:00:06.000000Z",
     "2026-11-21T03:00:06.000000Z"),
    (datetime.datetime(2026, 11, 21, 3, 0, 6,
                       tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
     "2026-11-21T02:00:06.000000Z", "2026-11-21T02:00:06.000000Z"),
    (datetime.date(2026, 11, 21), "2026-11-21", "2026-11-21"),
    (datetime.timedelta(seconds=90), "0:01:30", "0:01:30"),
    (UUID(int=1), str(UUID(int=1)), str(UUID(int=1))),
    (b"\x00\xff", "00ff", "00ff"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "in_json", "in_text"), VALUES)
def test_values(value: object, in_json: object, in_text: str) -> None:
    assert json.loads(written(["a"], [[value]], "json")) == [{"a": in_json}]
    assert json.loads(written(["a"], [[value]], "jsonl")) == {"a": in_json}
    rows = list(csv.reader(io.StringIO(written(["a", "b"], [[value, 1]], "csv"))))
    assert rows == [["a", "b"], [in_text, "1"]]
    table = written(["a", "b"], [[value, 1]], "wide").splitlines()
    assert table[2].split() == [*in_text.split(), "1"]


def test_json_columns_are_json_in_json() -> None:
    """A column of type JSON is what it stands for, and text elsewhere."""
    body = '{"x":[1,null],"huge":1e999}'
    loaded = json.loads(written(["body"], [[body]], "json", ["JSON"]))
    assert loaded == [{"body": {"x": [1, None], "huge": None}}]
    assert json.loads(written(["body"], [[body]], "json", ["VARCHAR"])) == [{"body": body}]
    assert next(csv.reader(io.StringIO(written([body], [], "csv")))) == [body]


@pytest.mark.parametrize(
    ("format_", "text"),
    [("json", "[]\n"), ("jsonl", ""), ("csv", "a,b\n"), ("table", "a  b\n-  -\n")],
)
def test_no_rows(format_: str, text: str) -> None:
    assert written(["a", "b"], [], format_) == text


def test_columns_of_one_name_are_all_kept_in_json() -> None:
    assert json.loads(written(["a", "a", "a_2"], [[1, 2, 3]], "jsonl")) == {
        "a": 1,
        "a_2": 2,
        "a_2_2": 3,
    }


def test_table_aligns_numbers_right_and_wide_characters() -> None:
    text = written(["name", "n"], [["日本", 5], ["abc", 123]], "table")
    assert text.splitlines() == ["name    n", "----  ---", "日本    5", "abc   123"]


def test_tables_show_bytes_in_units_and_lists_without_brackets() -> None:
    """By the column's name, or the row's signal; other forms have what the record has."""
    columns = ["signal", "threshold", "observed", "used_bytes", "names", "bytesize"]
    rows: list[list[object]] = [
        ["memory.available", 332398592, 57344, 1 << 30, ["a", None, "b"], 1024],
        ["nodefs.inodesFree", 332398592, 57344, None, [], -1],
        ["pid.available", 2048, 1024, 9223372036854771712, [1024], 1024],
        [None, 2048, 1024, -1, None, 1024],
    ]
    lines = written(columns, rows, "table").splitlines()[2:]
    assert [re.split(" {2,}", line) for line in lines] == [
        ["memory.available", "317Mi", "56Ki", "1Gi", "a, b", "1024"],
        ["nodefs.inodesFree", "332398592", "57344", "-1"],
        ["pid.available", "2048", "1024", "9223372036854771712", "1024", "1024"],
        ["", "2048", "1024", "-1", "1024"],
    ]
    assert all("332398592" in written(columns, rows[:1], each) for each in FORMATS[1:])


WIDE: tuple[list[str], list[list[object]]] = (
    ["seq", "pod", "image", "what it says", "count"],
    [[7, "kube-system/node-agent-node-e", f"sha256:{'0123456789abcdef' * 4}", "so " * 20, 10**12],
     [123456, "default/日本日本", "busybox", "no", None]],
)  # fmt: skip


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_tables_fit_the_screen(width: int) -> None:
    """Numbers are whole, names keep both ends, sentences their beginning; all room is used."""
    lines = written(*WIDE, "table", width_max=width).splitlines()
    assert max(map(_columns, lines)) <= width
    assert max(map(_columns, lines)) > width - 20
    assert "123456" in lines[3]
    assert ("1000000000000" in lines[2]) == (width > 60)
    if width == 80:
        assert lines[2].split()[:3] == ["7", "kube-system…ent-node-e", "sha256:0…9abcdef"]
        assert "  so so so so so…  1000000000000" in lines[2]
    if width == 200:
        assert "…" not in "".join(lines)
    assert len(lines) == 4 + (width <= 60)
    if width == 40:
        assert lines[4] == "(1 of 5 columns left out; -o wide has t…"


def test_nothing_is_cut_without_a_screen() -> None:
    assert "…" not in written(*WIDE, "table")
    assert written(*WIDE, "wide", width_max=40) == written(*WIDE, "table")


def _columns(line: str) -> int:
    return len(line) + sum(character in "日本" for character in line)


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[2J", "\x9b2J", "a\rb", "a\nb", "a\tb", "\x00", "\x7f", "\u202eabc", "\u2028", "\ud800"],
)
def test_tables_hold_no_control_characters(hostile: str) -> None:
    text = written([hostile], [[hostile], [[hostile]]], "table")
    assert hostile not in text
    assert text.count("\n") == 4
    assert all(character == "\n" or character.isprintable() for character in text)


def test_heads_take_several_lines_before_a_cell_is_cut() -> None:
    rows = [["cpu-manager-state", 43, datetime.datetime(2026, 11, 21, 3, 0, 7, 125)]]
    assert written(["format", "not understood", "from"], rows, "table", width_max=52) == (
        "                          not\n"
        "format             understood  from\n"
        "-----------------  ----------  --------------------\n"
        "cpu-manager-state          43  2026-11-21T03:00:07Z\n"
    )


@pytest.mark.parametrize("width", [20, 40])
def test_wrapped_texts_are_whole(width: int) -> None:
    """In as many lines as they need; rows without a text keep theirs."""
    out = io.StringIO()
    rows = [["a", "one two three four five six"], ["b", ""]]
    write_rows(["n", "text"], rows, "table", out, width_max=width, wrapped=True)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines[2:]).split()) == "a one two three four five six b"


@pytest.mark.parametrize("width", [40, 50, 80])
def test_a_time_keeps_its_seconds(width: int) -> None:
    """Where there is no room, the fraction goes, and rather another column's text."""
    rows = [["n" * 30, datetime.datetime(2026, 11, 21, 3, 0, 7, 125), "t" * 30]]
    text = written(["name", "time", "text"], rows, "table", width_max=width)
    assert max(map(len, text.splitlines())) <= width
    assert "2026-11-21T03:00:07" in text
    assert "…" in text


def test_printable_names_what_it_replaces() -> None:
    assert printable("a\x1b[0m\n\u202eé日") == "a\\x1b[0m\\n\\u202eé日"


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_are_written_as_they_come(format_: str) -> None:
    out = io.StringIO()
    seen: list[int] = []

    def rows() -> Iterator[tuple[str]]:
        for _ in range(20_000):
            seen.append(out.tell())
            yield ("x" * 100,)

    write_rows(["a"], rows(), format_, out)
    assert 0 < seen[15_000] < out.tell()


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1234, "1,234 files")]
)
def test_counted(count: int, words: str) -> None:
    assert counted(count, "file") == words
    assert counted(count, "entry", "entries").endswith("entry" if count == 1 else "entries")
