import re
from pathlib import Path

import msgspec
import pytest

from kubeledger.model.wire.catalogue import BODY_TYPES, UPCASTERS
from tests.generated.record_schemas import main, schema_files

SCHEMAS = Path(__file__).parents[2] / "schemas"


def test_the_schemas_are_current() -> None:
    """``just schemas`` would change nothing."""
    made = schema_files()
    kept = {name: path.read_bytes() for name in made if (path := SCHEMAS / name).is_file()}
    stale = [name for name in made if kept.get(name) != made[name]]
    assert stale == [], f"missing in schemas/, or another now: {stale}: run `just schemas`"


def test_no_file_is_left_over_and_no_old_version_is_missing() -> None:
    """The directory holds today's schemas, those of old versions, and nothing else."""
    old = {f"{kind}.v{v}.json" for kind, v in UPCASTERS}
    others = {"scenario.schema.json"}
    assert {path.name for path in SCHEMAS.iterdir()} == set(schema_files()) | old | others


def test_the_index_names_every_schema() -> None:
    """Each kind and version once, and which one is current."""
    index = msgspec.json.decode((SCHEMAS / "index.json").read_bytes())
    rows = {(row["kind"], row["v"]): row for row in index["bodies"]}
    assert {kind for kind, _ in rows} == set(BODY_TYPES)
    for (kind, v), row in rows.items():
        schema = msgspec.json.decode((SCHEMAS / row["schema"]).read_bytes())
        assert schema["title"] == kind
        assert row["current"] == (v == BODY_TYPES[kind].v)
        assert row["role"] == BODY_TYPES[kind].role


def test_a_schema_tells_what_the_docstring_tells() -> None:
    """Text, attributes by pattern, names on disk, nested structs."""
    files = {name: msgspec.json.decode(data) for name, data in schema_files().items()}
    deleted = files["images.ImageDeleted.v1.json"]
    assert deleted["description"].startswith("The image manager removed an image;")
    assert deleted["properties"]["pass"]["description"].startswith("`space`, `age` or `all`")
    assert deleted["additionalProperties"] is False
    preempted = files["preemption.PodPreempted.v1.json"]
    named = {name for name, field in preempted["properties"].items() if "description" in field}
    assert {"preemptor_namespace", "preemptor_pod", "preemptor_uid", "evicted"} <= named
    assert "quantity" in preempted["$defs"]["InsufficientResource"]["properties"]
    assert {"chain", "crc", "seq"} <= set(files["record.json"]["required"])


def test_the_entry_point_writes_them(tmp_path: Path) -> None:
    target = tmp_path / "new" / "schemas"
    assert main([str(target)]) == 0
    assert {path.name: path.read_bytes() for path in target.iterdir()} == schema_files()


def test_a_wrong_call_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Usage, and exit code 2."""
    assert main(["a", "b"]) == 2
    assert main(["--help"]) == 2
    assert "usage:" in capsys.readouterr().err


# -- The example of ``docs/testing.md`` runs as it stands there ------------------------------------

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parent.parent.parent / "docs" / "testing.md"


def test_the_example_of_a_scene(pytester: pytest.Pytester) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    pytester.makepyfile(example)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
