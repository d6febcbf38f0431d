"""JSON Schema of every kind of record and of cases, made from the types and their docstrings.

``python -m tests.generated.record_schemas [DIRECTORY]`` writes them (default ``schemas/``). Files
of old schema versions are history: they are listed in the index and never written again.
"""

import fnmatch
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.kubelet.cases.registry import SUBSYSTEMS, input_type
from kubeledger.model.record import Body, Record
from kubeledger.model.wire.catalogue import BODY_TYPES, UPCASTERS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"([\w*]+(?:, [\w*]+)*): (.+)")


def schema_files() -> dict[str, bytes]:
    """File name -> content of every schema that today's types give, index included."""
    files = {f"{kind}.v{body.v}.json": _body_schema(body) for kind, body in BODY_TYPES.items()}
    files |= {f"cases.{subsystem}.json": _case_schema(subsystem) for subsystem in SUBSYSTEMS}
    files["record.json"] = _record_schema()
    files["index.json"] = _index()
    return {name: _to_bytes(files[name]) for name in sorted(files)}


def _to_bytes(schema: dict[str, Any]) -> bytes:
    encoded = msgspec.json.encode(schema)
    return msgspec.json.format(encoded, indent=2) + b"\n"


def _body_schema(body: type[Body]) -> dict[str, Any]:
    components = _described(body)
    schema: dict[str, Any] = components.pop(body.__name__)
    head = {"$schema": _DIALECT, "$id": f"{body.kind}.v{body.v}.json"}
    tail = {"$defs": dict(sorted(components.items()))} if components else {}
    return {**head, **schema, "title": body.kind, **tail}


def _case_schema(subsystem: str) -> dict[str, Any]:
    """A line of ``decide`` and ``judge``, with what is in its ``input``."""
    case_input = input_type(subsystem)
    return {
        "$schema": _DIALECT,
        "$id": f"cases.{subsystem}.json",
        "title": f"cases.{subsystem}",
        "description": f"A line that `kubeledger decide {subsystem}` reads; other keys of it, as "
        "`outcome`, are passed over.",
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "Names the case in the answer."},
            "kubelet": {
                "type": "string",
                "description": "Version of the kubelet that decides.",
                "examples": ["1.36.2"],
            },
            "input": {"$ref": f"#/$defs/{case_input.__name__}"},
        },
        "required": ["id", "kubelet", "input"],
        "$defs": dict(sorted(_described(case_input).items())),
    }


def _described(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Name -> schema of a struct and of all below it, with what their docstrings say."""
    _, components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    for each in (struct, *_structs_below(struct)):
        if each.__name__ in components:
            _describe(components[each.__name__], each)
    return components


def _record_schema() -> dict[str, Any]:
    """The envelope: kind and v select ``body``, see the index."""
    components = _described(Record)
    schema: dict[str, Any] = components.pop("Record")
    components.pop("Body")
    properties = schema["properties"]
    properties["seq"]["minimum"] = 1
    properties["v"]["minimum"] = 1
    properties["body"] = {
        "type": "object",
        "description": "The fact; its schema is <kind>.v<v>.json.",
    }
    properties["chain"] = {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
        "description": "BLAKE2b-256 over the previous record's chain and this line before it.",
    }
    properties["crc"] = {
        "type": "string",
        "pattern": "^[0-9a-f]{8}$",
        "description": "CRC-32 over the line before it.",
    }
    schema["required"] = [*schema["required"], "chain", "crc"]
    return {"$schema": _DIALECT, "$id": "record.json", **schema, "$defs": components}


def _index() -> dict[str, Any]:
    versions = {(kind, body.v) for kind, body in BODY_TYPES.items()} | set(UPCASTERS)
    return {
        "record": "record.json",
        "bodies": [
            {
                "kind": kind,
                "v": v,
                "role": BODY_TYPES[kind].role,
                "current": v == BODY_TYPES[kind].v,
                "schema": f"{kind}.v{v}.json",
            }
            for kind, v in sorted(versions)
        ],
        "cases": [
            {"subsystem": subsystem, "schema": f"cases.{subsystem}.json"}
            for subsystem in SUBSYSTEMS
        ],
    }


def _structs_below(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Structs that the fields of ``struct`` name, at any depth."""
    seen: set[type[msgspec.Struct]] = {struct}
    todo: list[Any] = [field.type for field in msgspec.structs.fields(struct)]
    while todo:
        hint = todo.pop()
        todo.extend(getattr(hint, "__args__", ()))
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in seen:
            seen.add(hint)
            todo.extend(field.type for field in msgspec.structs.fields(hint))
            yield hint


def _describe(schema: dict[str, Any], struct: type[msgspec.Struct]) -> None:
    """Put the docstring's text on the schema and its ``Attributes`` on the properties."""
    text, attributes = _docstring_parts(inspect.getdoc(struct) or "")
    schema["description"] = text
    fields = msgspec.structs.fields(struct)
    if struct.__struct_config__.array_like:
        parts = dict(zip((field.name for field in fields), schema["prefixItems"], strict=True))
    else:
        parts = {field.name: schema["properties"][field.encode_name] for field in fields}
    for pattern, description in attributes.items():
        for name in fnmatch.filter(parts, pattern):  # docstrings say ``preemptor_*`` for many
            parts[name].setdefault("description", description)


def _docstring_parts(doc: str) -> tuple[str, dict[str, str]]:
    text, _, section = doc.partition("\nAttributes:\n")
    attributes: dict[str, str] = {}
    current: list[str] = []
    for line in section.splitlines():
        entry = _ATTRIBUTE.fullmatch(line.removeprefix("    "))
        if entry and line.startswith("    ") and not line.startswith("     "):
            current = entry[1].split(", ")
            attributes.update(dict.fromkeys(current, entry[2]))
        elif line.strip():
            for name in current:
                attributes[name] += " " + line.strip()
    return _plain(text), {name: _plain(value) for name, value in attributes.items()}


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def main(arguments: list[str]) -> int:
    """Write the schemas; exit code 2 on a wrong call."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        sys.stderr.write("usage: python -m tests.generated.record_schemas [DIRECTORY]\n")
        return 2
    directory = Path(arguments[0] if arguments else "schemas")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in schema_files().items():
        (directory / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
