"""The version of the rules, and what a change of it does to a lake."""

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from kubeledger.fleet import generation, identity
from kubeledger.fleet import task as failing
from kubeledger.fleet.identity import ROOMS, digest_of_code, rules_version
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.task import OtherRulesError
from tests.fleet.places import head_of, log_lines, task, write_bundle
from tests.test_tidy import MODULES, path_of

_IMPORTED = re.compile(r"^\s*from kubeledger\.(\w+)", re.MULTILINE)


def test_the_rooms_are_all_on_which_an_import_and_verification_rest() -> None:
    """So that no change of them goes unnoticed, and no other one counts."""
    needs: dict[str, set[str]] = {}
    for module in MODULES:
        room = path_of(module).split("/")[0]
        needs.setdefault(room, set()).update(_IMPORTED.findall(module.read_text()))
    reached, todo = set[str](), ["ingest", "replay", "verify"]
    while todo:
        room = todo.pop()
        if room not in reached:
            reached.add(room)
            todo += needs.get(room, ())
    modules = {path_of(module).removesuffix(".py") for module in MODULES}
    problems = {name for name in modules if name.startswith("analyze/problems/")}
    words = {"analyze/problems/__init__", "analyze/problems/sentences"}
    assert set(ROOMS) == reached | (problems - words)


def test_the_version_changes_with_any_file_that_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = rules_version()
    package = Path(identity.__file__).parent.parent
    shutil.copytree(package, tmp_path / "copy", ignore=shutil.ignore_patterns("fleet", "*.pyc"))
    monkeypatch.setattr(identity, "_PACKAGE", tmp_path / "copy")
    digest_of_code.cache_clear()
    assert rules_version() == here
    with (tmp_path / "copy" / "verify" / "finding.py").open("a") as file:
        file.write("#")
    digest_of_code.cache_clear()
    assert rules_version() != here
    digest_of_code.cache_clear()


def test_new_rules_verify_again_what_the_lake_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the sealed ledger, without the source; records stay the files that they were."""
    lake = str(tmp_path / "lake")
    bundle = write_bundle(tmp_path / "in")
    old = head_of(task(lake, str(bundle)))
    bundle.rename(tmp_path / "gone")
    for module in (failing, generation):
        monkeypatch.setattr(module, "rules_version", lambda: "2+new")
    new = head_of(task(lake, node="node-a", rules="2+new"))
    assert (new.generation, new.summary.rules, new.sources) == (2, "2+new", old.sources)
    assert {file for file in new.files if file.path.startswith(("records/", "ledgers/"))} == {
        file for file in old.files if file.path.startswith(("records/", "ledgers/"))
    }
    costs = {"rules": "", "verify_cpu_ms": 0, "write_cpu_ms": 0}
    assert msgspec.structs.replace(new.summary, **costs) == msgspec.structs.replace(
        old.summary, **costs
    )
    again = task(lake, node="node-a", rules="2+new")
    assert (again.heads, again.changed) == ((new,), ())
    assert Lake.open(lake).heads() == {"node-a": new}


def test_verifying_again_by_the_same_rules_proves_the_lake(tmp_path: Path) -> None:
    """Each file is as it was written, and tells what the ledger tells."""
    lake = str(tmp_path / "lake")
    head = head_of(task(lake, str(write_bundle(tmp_path / "in", log=log_lines(0, 600)))))
    assert head_of(task(lake, node="node-a")) == head
    rooms = {"conditions", "ledgers", "nodes", "records", "troubles", "verdicts"}
    assert {file.path.partition("/")[0] for file in head.files} == rooms
    for path in (file.path for file in head.files):
        file = tmp_path / "lake" / path
        written = file.read_bytes()
        middle = len(written) // 2
        file.write_bytes(written[:middle] + bytes([written[middle] ^ 1]) + written[middle + 1 :])
        failure = task(lake, node="node-a").failure
        assert failure is not None
        assert (failure.source, failure.kind) == ("node node-a", "storage")
        assert path in failure.reason
        file.write_bytes(written)
    assert task(lake, node="node-a").failure is None


def test_a_worker_of_other_rules_refuses(tmp_path: Path) -> None:
    with pytest.raises(OtherRulesError, match=r"0\.0\.1\+other"):
        task(str(tmp_path / "lake"), str(tmp_path), rules="0.0.1+other")
    assert not (tmp_path / "lake").exists()
