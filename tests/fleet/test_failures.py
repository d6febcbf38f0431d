"""What goes wrong with one source is told, leaves the lake as it was, and leaves no scratch."""

import errno
import gzip
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kubeledger.fleet import contents, sources
from kubeledger.fleet import task as task_module
from kubeledger.fleet.lake import Lake
from tests.buckets import Place, put_odd
from tests.cli.nodes import run
from tests.fleet.places import head_of, log_lines, task, write_bundle
from tests.marks import nightly


def failed(place: Place, source: str, tmp_path: Path, kind: str) -> str:
    """The reason and advice of a task that must fail so; nothing of it is left anywhere."""
    lake = f"{place.url}/lake"
    result = task(lake, source, scratch=str(tmp_path / "scratch"), started_ns=7)
    assert result.failure is not None
    assert (result.failure.source, result.failure.ts_ns) == (source, 7)
    assert result.failure.kind == kind, result.failure
    assert list((tmp_path / "scratch").iterdir()) == []
    assert Lake.open(lake).heads() == {}
    text = f"{result.failure.reason} ({result.failure.advice})"
    assert "scratch" not in text
    return text


def test_a_source_that_is_none(place: Place, tmp_path: Path) -> None:
    """Nothing there, nothing useful in it, an archive that is cut off."""
    assert "nothing with that name" in failed(place, f"{place.url}/in/none", tmp_path, "input")
    text = tmp_path / "letter.txt"
    text.write_text("dear mother\n" * 100)
    assert "holds nothing" in failed(place, place.put("letter.txt", text), tmp_path, "input")
    archive = tmp_path / "x.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(write_bundle(tmp_path / "x"), "node-a")
    archive.write_bytes(archive.read_bytes()[:2000])
    assert "x.tar.gz" in failed(place, place.put("in/x.tar.gz", archive), tmp_path, "input")


def test_a_part_of_a_source_does_not_pass_for_the_whole(place: Place, tmp_path: Path) -> None:
    """What was whole of a cut off archive or log would hide that the rest is missing."""
    archive, log = tmp_path / "x.tar", tmp_path / "kubelet.log.gz"
    bundle = write_bundle(tmp_path / "x")
    with tarfile.open(archive, "w") as packed:
        packed.add(bundle / "kubelet.log", "node-a/a-part/kubelet.log")
        packed.add(bundle / "kubelet.log", "node-a/kubelet.log")
    size = (bundle / "kubelet.log").stat().st_size
    archive.write_bytes(archive.read_bytes()[: size + size // 2])
    text = failed(place, place.put("in/x.tar", archive), tmp_path, "input")
    assert f"{place.url}/in/x.tar: is a damaged archive: it ends early" in text
    assert "node-a/kubelet.log: cut off: the archive ends in it" in text
    assert "import a whole copy" in text
    log.write_bytes(gzip.compress(log_lines())[:-200])
    text = failed(place, place.put("in/kubelet.log.gz", log), tmp_path, "input")
    assert "kubelet.log.gz: the compressed stream ends early" in text


def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    place = Place(str(tmp_path / "place"))
    for source in (str(tmp_path / "pipe"), "/dev/zero"):
        assert "neither a regular file nor" in failed(place, source, tmp_path, "input")


def test_a_source_that_somebody_writes_to(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write_bundle(tmp_path / "node-a")
    url = place.put("in/node-a", bundle)
    look: Callable[..., contents.Content] = contents.content_of

    def grows(*args: object) -> contents.Content:
        (bundle / "kubelet.log").write_bytes(log_lines(0, 1201))
        place.put("in/node-a", bundle)
        return look(*args)

    monkeypatch.setattr(task_module, "content_of", grows)
    assert "changed while it was read" in failed(place, url, tmp_path, "input")
    monkeypatch.setattr(task_module, "content_of", look)
    assert head_of(task(f"{place.url}/lake", url)).generation == 1


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known before anything is fetched, or found out on the way: another worker may have it."""
    place = Place(str(tmp_path / "place"))
    url = place.put("in/node-a", write_bundle(tmp_path / "node-a"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert "1000 free" in failed(place, url, tmp_path, "resources")
    monkeypatch.undo()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for module, name in (("kubeledger.ledger.tail", "write_all"), ("tarfile", "copyfileobj")):
        with monkeypatch.context() as patch:
            patch.setattr(f"{module}.{name}", full)
            assert "pace" in failed(place, url, tmp_path, "resources")


def test_a_fault_of_the_program_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(str(tmp_path / "place"))
    url = place.put("in/node-a", write_bundle(tmp_path / "node-a"))

    def wrong(*_: object) -> None:
        raise KeyError("pod")

    monkeypatch.setattr(contents, "ingest", wrong)
    text = failed(place, url, tmp_path, "bug")
    assert "KeyError: 'pod' (test_failures.py:" in text
    assert "Traceback" not in text


def test_a_lake_that_is_damaged_is_told_as_storage(tmp_path: Path) -> None:
    """The source is not to blame, and nothing that was committed is lost by trying."""
    lake = str(tmp_path / "lake")
    head = head_of(task(lake, str(write_bundle(tmp_path / "in"))))
    (sealed,) = [file.path for file in head.files if file.path.startswith("ledgers/")]
    (tmp_path / "lake" / sealed).write_bytes(b"\x28\xb5\x2f\xfdnonsense")
    (tmp_path / "in" / "kubelet.log").write_bytes(log_lines(0, 1201))
    result = task(lake, str(tmp_path / "in"))
    assert result.failure is not None
    assert result.failure.kind == "storage"
    assert sealed in result.failure.reason
    assert Lake.open(lake).heads() == {"node-a": head}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.tar.gz", ["a.tar.gz", "b.tar.gz"]),
        ("*", ["a.tar.gz", "b.tar.gz", "deep", "node-x"]),
        ("*/node-*", ["deep/node-y", "deep/node-z"]),
        ("deep/node-y", ["deep/node-y"]),
    ],
)
def test_patterns_name_objects_and_bundles(
    place: Place, tmp_path: Path, pattern: str, found: list[str]
) -> None:
    """Each once; in a directory as in a bucket; hidden names are none."""
    file = tmp_path / "file"
    file.write_text("x")
    for name in ("a.tar.gz", "b.tar.gz", ".hidden", "node-x/kubelet.log"):
        place.put(f"in/{name}", file)
    for name in ("node-y/kubelet.log", "node-z/sub/kubelet.log"):
        place.put(f"in/deep/{name}", file)
    urls = sources.expand([f"{place.url}/in/{pattern}", f"{place.url}/in/{pattern}"])
    assert urls == [f"{place.url}/in/{name}" for name in found]


@pytest.mark.parametrize(
    ("odd", "pattern", "told"),
    [
        ("node-b/a//b", "*", "in/node-b/a"),
        ("../c", "node-*", "in"),
        *nightly(("node-b/../c", "node-*", "in/node-b"), (".", "*", "in")),
    ],
)
def test_an_odd_name_is_a_row_and_not_the_end(
    bucket: Place, tmp_path: Path, odd: str, pattern: str, told: str
) -> None:
    """The storage library refuses to list it; the sources beside it are imported."""
    source = write_bundle(tmp_path / "node-a")
    bucket.put("in/node-a", source)
    bucket.put("in/node-b/kubelet.log", source / "kubelet.log")
    put_odd(bucket, [f"in/{odd}"])
    lake, words = tmp_path / "lake", ["--year", "2026", "--workers", "1", "-o", "json"]
    command = ["fleet", "import", f"{bucket.url}/in/{pattern}", "--lake", str(lake), *words]
    run(*command, exits=1)
    assert "node-a" in Lake.open(str(lake)).heads()
    (failure,) = Lake.open(str(lake)).failures()
    assert failure.kind == "input"
    assert f"{bucket.url}/{told}: holds an object that cannot be a file" in failure.reason


def test_a_bundle_has_one_digest_wherever_it_lies(bucket: Place, tmp_path: Path) -> None:
    """Its stamp is of the place, and changes with any of its files."""
    bundle = write_bundle(tmp_path / "node-a")
    url = bucket.put("in/node-a", bundle)
    (tmp_path / "fetched").mkdir()
    local, remote = (sources.fetch(each, tmp_path / "fetched") for each in (str(bundle), url))
    assert local.path == bundle
    assert remote.path.name == "node-a"
    assert (local.seen.digest, local.seen.size_bytes) == (
        remote.seen.digest,
        remote.seen.size_bytes,
    )
    for each in (str(bundle), url):
        before = sources.stamp_of(each)
        assert sources.stamp_of(each) == before
        (bundle / "node.json").write_bytes(b"{}")
        bucket.put("in/node-a", bundle)
        assert sources.stamp_of(each) != before
        (bundle / "node.json").write_bytes(b"{ }")
        bucket.put("in/node-a", bundle)
