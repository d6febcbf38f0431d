"""Values of structured lines: every form klog writes them in, text and JSON alike."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.ingest.klog.cut_lines import CutLineError, CutValues
from kubeledger.ingest.klog.values import (
    json_values,
    split_structured,
    text_values,
    unquote,
    without_masks,
)

TEXT_ROWS: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    (' pod="ns/a" count=3', {"pod": "ns/a", "count": 3}),
    (' a="x \\"y\\" \\\\ \\t" b=true', {"a": 'x "y" \\ \t', "b": True}),
    (" pi=2.5 none=null no=false", {"pi": 2.5, "none": None, "no": False}),
    (' event={"ID":"u","Type":"ContainerDied"}', {"event": {"ID": "u", "Type": "ContainerDied"}}),
    (' pods=["ns/a","ns/b"] source="api"', {"pods": ["ns/a", "ns/b"], "source": "api"}),
    (" pods=[ns/a ns/b] n=1", {"pods": "[ns/a ns/b]", "n": 1}),
    (" containerID={Type:containerd ID:60da} err=<nil>",
     {"containerID": "{Type:containerd ID:60da}", "err": "<nil>"}),
    (' hint={NUMANodeAffinity:01 Preferred:true} pod="ns/a"',
     {"hint": "{NUMANodeAffinity:01 Preferred:true}", "pod": "ns/a"}),
    (" m=map[a:1 b:[x y]] n=2", {"m": "map[a:1 b:[x y]]", "n": 2}),
    (" time=2021-12-15 19:22:59.46 +0800 CST m=+7 x=1",
     {"time": "2021-12-15 19:22:59.46 +0800 CST", "m": "+7", "x": 1}),
    (' podUID=bc17fe76-a3c2 k="v"', {"podUID": "bc17fe76-a3c2", "k": "v"}),
    (' out=<\n\tline 1\n\t\tline 2\n > next="x"', {"out": "line 1\n\tline 2", "next": "x"}),
    (" out=<\n\tcut off here", {"out": "cut off here"}),
    (" out=<\n\t> not the end\n >", {"out": "> not the end"}),
    (" out=<\n        a\n            b\n > k=1", {"out": "a\n    b", "k": 1}),
    (" out=<\n        > not the end\n        b\n >", {"out": "> not the end\nb"}),
    (" out=<\n    a\n      b\n >", {"out": "a\n  b"}),
    (" out=<\n\t  a\n\t    b\n >", {"out": "  a\n    b"}),
    (" out=<\n\t\n >", {"out": ""}),
    (" out=<\n\ta\n > k=<\n\tb\n >", {"out": "a", "k": "b"}),
    (" k=1 out=<", {"k": 1, "out": None}),
    (" k=1 out=<\n >", {"k": 1, "out": None}),
    (' out="<"', {"out": "<"}),
    (' text="ends with a newline\\n"', {"text": "ends with a newline"}),
    (' spec={"a":"} b=c","n":[1,{}]} z=1', {"spec": {"a": "} b=c", "n": [1, {}]}, "z": 1}),
    (" open={never closed k=1", {"open": "{never closed", "k": 1}),
    (" big=36893488147419103232", {"big": 36893488147419103232}),
    (f" huge={'9' * 5000}", {"huge": "9" * 5000}),
    (" leading=007", {"leading": "007"}),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "values"), TEXT_ROWS)
def test_text_values(rest: str, values: dict[str, Any]) -> None:
    assert text_values(rest) == values


@pytest.mark.parametrize(
    "text",
    ["plain", '"pod" is not structured', '"unclosed', '"a"b=1', "", 'Exec probe response: ""'],
)
def test_free_text_is_not_taken_for_structured(text: str) -> None:
    assert split_structured(text) is None


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"\a\b\f\n\r\t\v\\\"", '\a\b\f\n\r\t\v\\"'),
        (r"\u00e9\U0001f600", "é😀"),
        (r"\x07", "\x07"),
        (r"\xff", "\ufffd"),
        (r"\U00110000", "\ufffd"),
    ],
)
def test_unquote(escaped: str, text: str) -> None:
    """Escapes of Go's strconv.Quote."""
    assert unquote(escaped) == text


JSON_ROWS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"pod": {"name": "a", "namespace": "ns"}}, {"pod": "ns/a"}),
    ({"object": {"name": "node-1"}}, {"object": "node-1"}),
    ({"pod": "ns/a"}, {"pod": "ns/a"}),
    ({"pods": [{"name": "a", "namespace": "ns"}, "ns/b"]}, {"pods": ["ns/a", "ns/b"]}),
    ({"output": "a\nb\n"}, {"output": "a\nb"}),
    ({"event": {"ID": "u", "Type": "T"}}, {"event": {"ID": "u", "Type": "T"}}),
    ({"lastUsed": 1795229561296.376}, {"lastUsed": "2026-11-21 02:52:41.296376 +0000 UTC"}),
    ({"freeTime": -62135596800000}, {"freeTime": "0001-01-01 00:00:00 +0000 UTC"}),
    ({"time": "2026-11-21 02:52:41 +0000 UTC"}, {"time": "2026-11-21 02:52:41 +0000 UTC"}),
    ({"ts": 1, "caller": "a.go:1", "msg": "m", "v": 2, "err": "e"}, {"err": "e"}),
]


@pytest.mark.parametrize(
    ("name", "is_torn"),
    [
        ("default/probe -late", True), ("a=pp", True), ('="app"', True), ("<br>default/a", True),
        ("631d [cut] aee", True), ("default/a", False), ("a_default(1)", False), ("<id>", False),
        ("[masked]", False), ("", False),
    ],
)  # fmt: skip
def test_a_name_in_which_something_else_stands_is_none(name: str, is_torn: bool) -> None:
    """A word of whoever wrapped the line; a mask stands for a name."""
    values = {"pod": name, "containerName": name, "x": name}
    assert without_masks(dict(values)) == ({"x": name} if is_torn else values)


@pytest.mark.parametrize(("entry", "values"), JSON_ROWS)
def test_json_values(entry: dict[str, Any], values: dict[str, Any]) -> None:
    """The JSON form gives what the text form would."""
    assert json_values(entry) == values


_PLAIN = st.text(st.characters(codec="ascii", exclude_characters="\n\r"), max_size=20)
_VALUES = st.one_of(_PLAIN, st.integers(), st.booleans(), st.none(), st.lists(_PLAIN, max_size=3))


@given(st.dictionaries(st.from_regex(r"[a-zA-Z]\w{0,8}", fullmatch=True), _VALUES, max_size=5))
def test_text_and_json_agree(values: dict[str, Any]) -> None:
    """What klog writes as text and as JSON is read to the same values."""
    text = "".join(f" {key}={json.dumps(value)}" for key, value in values.items())
    entry = {key: value for key, value in values.items() if key not in {"ts", "msg", "v"}}
    assert {key: value for key, value in text_values(text).items() if key in entry} == json_values(
        entry
    )


@given(st.text(max_size=80))
def test_no_text_breaks_the_scanner(text: str) -> None:
    """Whatever stands in a line, values come out and nothing is raised."""
    assert isinstance(text_values(text), dict)


@pytest.mark.parametrize(("rest", "values"), TEXT_ROWS)
@pytest.mark.parametrize("how", [{"cut": True}, {"torn": True}])
def test_a_line_that_was_cut_tells_whole_values_or_none(
    rest: str, values: dict[str, Any], how: dict[str, bool]
) -> None:
    """Wherever it was cut; of others it does not even tell that they are not there."""
    whole = rest.partition("\n")[0] if "cut" in how else rest
    for end in range(len(whole)):
        found = text_values(whole[:end], **how)
        assert found.items() <= values.items(), rest[:end]
        if "cut" in how:
            assert isinstance(found, CutValues)
            for key in {*values, "other"} - found.keys():
                with pytest.raises(CutLineError):
                    found.get(key)
