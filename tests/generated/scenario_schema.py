"""JSON Schema of a scenario, and the reference of its keys for the docs.

``python -m tests.generated.scenario_schema [DIRECTORY]`` writes
``scenario.schema.json`` (default ``schemas/``); with ``--reference`` it prints the keys as
Markdown instead.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.simulate.scenario.models import Scenario

FILE = "scenario.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> bytes:
    """The schema, as it is in the file."""
    made = Scenario.model_json_schema(by_alias=True)
    made = {"$schema": _DIALECT, "$id": FILE, **_plain(made)}
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"


def _plain(node: Any) -> Any:  # noqa: ANN401  (any JSON value)
    """Without pydantic's titles and defaults in nanoseconds, texts in one line."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key in {"title", "default"} and not isinstance(value, dict):
            continue
        if key == "default":
            continue
        if key == "description" and isinstance(value, str):
            made[key] = " ".join(value.split())
        elif key in {"properties", "$defs"}:
            made[key] = {name: _plain(each) for name, each in value.items()}
        else:
            made[key] = _plain(value)
    return made


def reference() -> str:
    """All keys as Markdown: a table for each object, the scenario's own first."""
    made = msgspec.json.decode(schema())
    parts = ["\n".join(_table("Scenario", made))]
    parts += ["\n".join(_table(name, made["$defs"][name])) for name in _order(made)]
    return "\n\n".join(parts) + "\n"


def _order(made: dict[str, Any]) -> list[str]:
    """Names of objects as they are met from the top on."""
    found: list[str] = []
    todo = [made["properties"]]
    while todo:
        for name in _references(todo.pop(0)):
            if name not in found:
                found.append(name)
                todo.append(made["$defs"][name].get("properties", {}))
    return found


def _references(node: Any) -> Iterator[str]:  # noqa: ANN401  (any JSON value)
    if isinstance(node, list):
        for each in node:
            yield from _references(each)
    elif isinstance(node, dict):
        if isinstance(target := node.get("$ref"), str):
            yield target.rpartition("/")[2]
        for each in node.values():
            yield from _references(each)


def _table(name: str, made: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield made.get("description", "")
    yield ""
    yield "| key | value | meaning |"
    yield "|---|---|---|"
    needed = made.get("required", ())
    for key, field in made.get("properties", {}).items():
        mark = " (required)" if key in needed else ""
        yield f"| `{key}`{mark} | {_value(field)} | {field.get('description', '')} |"


def _value(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    for union in ("anyOf", "oneOf", "allOf"):
        if union in field:
            return " or ".join(_value(each) for each in field[union] if each.get("type") != "null")
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    if "const" in field:
        return f"`{str(field['const']).lower()}`"
    if field.get("type") == "array":
        return f"list of {_value(field['items'])}"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"mapping to {_value(field['additionalProperties'])}"
    if field.get("examples"):
        return f"e.g. `{field['examples'][0]}`"
    types = field.get("type", "any")
    return {
        "integer": "number",
        "string": "text",
        "boolean": "true or false",
        "object": "mapping",
    }.get(types, str(types))


def main(arguments: list[str]) -> int:
    """Write the schema, or print the reference; exit code 2 on a wrong call."""
    if arguments == ["--reference"]:
        sys.stdout.write(reference())
        return 0
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        sys.stderr.write(
            "usage: python -m tests.generated.scenario_schema [--reference | DIRECTORY]\n"
        )
        return 2
    directory = Path(arguments[0] if arguments else "schemas")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FILE).write_bytes(schema())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
