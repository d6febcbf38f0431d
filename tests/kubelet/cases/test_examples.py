"""The example cases, the schemas of cases and what ``decide`` and ``judge`` do agree."""

import json
import re
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from kubeledger.kubelet.cases.registry import SUBSYSTEMS, decider_of, judge_of
from tests.kubelet.cases.conformance import RECORDED, canonical, impossible_claims, load
from tests.kubelet.cases.lines import Lines

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "recordings" / "cases"

_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def lines(subsystem: str) -> list[str]:
    return (EXAMPLES / f"{subsystem}.jsonl").read_text(encoding="utf-8").splitlines()


def faults(value: object, schema: dict[str, Any], defs: dict[str, Any], at: str) -> Iterator[str]:
    """Where a value is not as its schema says; of JSON Schema, what our schemas use of it."""
    if "$ref" in schema:
        yield from faults(value, defs[schema["$ref"].removeprefix("#/$defs/")], defs, at)
    if "anyOf" in schema and all([*faults(value, each, defs, at)] for each in schema["anyOf"]):
        yield f"{at}: none of the forms"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: not in {schema['enum']}"
    if "type" in schema:
        types = _TYPES[schema["type"]]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            yield f"{at}: no {schema['type']}"
            return
    if isinstance(value, list):
        of = chain(schema.get("prefixItems", []), repeat(schema.get("items") or {}))
        for index, each in enumerate(value):
            yield from faults(each, next(of), defs, f"{at}[{index}]")
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        yield f"{at}: too small"
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{at}: no {name}" for name in schema.get("required", ()) if name not in value)
        for name, each in value.items():
            if name in known:
                yield from faults(each, known[name], defs, f"{at}.{name}")
            elif others is False:
                yield f"{at}.{name}: not known"
            elif isinstance(others, dict):
                yield from faults(each, others, defs, f"{at}.{name}")


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_an_example_is_what_its_schema_says(subsystem: str) -> None:
    """And a line that lacks any required key, or has another in its input, is not."""
    schema = json.loads((ROOT / "schemas" / f"cases.{subsystem}.json").read_bytes())
    defs = schema["$defs"]
    needed = defs[schema["properties"]["input"]["$ref"].rpartition("/")[2]]["required"]
    for line in lines(subsystem):
        case = json.loads(line)
        assert list(faults(case, schema, defs, "$")) == []
        for name in needed:
            fewer = {key: value for key, value in case["input"].items() if key != name}
            assert list(faults(case | {"input": fewer}, schema, defs, "$")) == [
                f"$.input: no {name}"
            ]
        more = case | {"input": case["input"] | {"other": 1}}
        assert list(faults(more, schema, defs, "$")) == ["$.input.other: not known"]


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_an_example_is_decided_and_matches(subsystem: str) -> None:
    """Several kubelet versions, each case named once, its outcome as it is stored."""
    decide, judge = decider_of(subsystem), judge_of(subsystem)
    cases = [json.loads(line) for line in lines(subsystem)]
    assert len({case["id"] for case in cases}) == len(cases)
    assert len({case["kubelet"] for case in cases}) > 1
    for case in cases:
        asked = json.dumps({name: case[name] for name in ("id", "kubelet", "input")}).encode()
        answer = json.loads(decide(asked))
        assert answer == {"id": case["id"], "outcome": case["outcome"]}
        verdict = json.loads(judge(json.dumps(case).encode()))
        assert verdict["verdict"] == "match", verdict


def test_every_subsystem_has_its_example_and_the_pages_name_it() -> None:
    """No file too many; the docs name schema and example, the README of recordings all."""
    assert {path.name for path in EXAMPLES.iterdir()} == {f"{name}.jsonl" for name in SUBSYSTEMS}
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    readme = (ROOT / "recordings" / "README.md").read_text(encoding="utf-8")
    for name in SUBSYSTEMS:
        assert f"(../schemas/cases.{name}.json)" in page
        assert f"(../recordings/cases/{name}.jsonl)" in page
        assert f"`{name}`" in readme


# -- Every kind of case against what the real kubelet decided, and against what it never did -------

_JUDGED_MAX = 10
"""Of the outcomes of one case."""

recorded = pytest.mark.parametrize(("version", "subsystem"), RECORDED)


@recorded
def test_decides_as_the_real_kubelet(version: str, subsystem: str) -> None:
    """One of the recorded outcomes, for each case; that one is the match, others are possible."""
    lines, cases = Lines(subsystem), load(version, subsystem)
    assert len(cases) >= 20
    for case in cases:
        decided = canonical(lines.decided(version, case["input"]))
        assert decided in map(canonical, case["outcomes"]), case["id"]
        for outcome in case["outcomes"][:_JUDGED_MAX]:
            verdict, why = lines.judged(version, case["input"], outcome)
            expected = "match" if canonical(outcome) == decided else "admissible"
            assert verdict == expected, (case["id"], why)


@recorded
def test_what_the_real_kubelet_never_did_is_impossible(version: str, subsystem: str) -> None:
    """Changed outcomes, and those of other cases; each with what differs."""
    lines = Lines(subsystem)
    for case, wrong in impossible_claims(load(version, subsystem), seed=5):
        verdict, why = lines.judged(version, case["input"], wrong)
        assert verdict == "impossible", case["id"]
        assert re.search(": the claim has .*, the kubelet gives |is no outcome", why), case["id"]
