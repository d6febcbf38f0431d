"""Archives and directories that are damaged, hostile or closed to the reader."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ingest.sources import unpack as unpacking
from kubeledger.ingest.sources.collect import Collected, collect
from kubeledger.ingest.sources.packing import spool_directory
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.sources.unpack import unpack
from kubeledger.model.errors import BadInputError
from tests.ingest.node_files import log_text
from tests.ingest.planning.test_bundle import one, write

Member = tuple[str, bytes]

WRITTEN = 1_795_230_000
"""2026-11-21, as the log."""


def tar(
    path: Path, *members: Member, change: Callable[[tarfile.TarInfo], None] | None = None
) -> Path:
    """An archive of regular files; the last one's header may be changed."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), WRITTEN
            if change is not None and name == members[-1][0]:
                change(info)
            archive.addfile(info, io.BytesIO(data))
    return path


def collected(tmp_path: Path, path: Path) -> Collected:
    with tempfile.TemporaryDirectory(dir=tmp_path) as spool:
        (found,) = collect([str(path)], Path(spool))
    return found


LOG: Member = ("n/kubelet.log", log_text().encode())


def names_of(plan: Plan) -> list[str]:
    """Of the files that an import reads."""
    return [file.source.name for file in plan.bundle.files]


def names(found: Collected) -> list[str]:
    return [source.name for source in found.files]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ((("n", b"x"), LOG), ["n", "n/kubelet.log"]),
        ((LOG, ("n", b"x")), ["n", "n/kubelet.log"]),
        ((LOG, ("n/" + "x" * 300, b"x")), ["kubelet.log", "x" * 300]),
        ((LOG, ("n/kubelet.log", b"the last one counts")), ["kubelet.log"]),
        ((("./n/kubelet.log", b"x"),), ["kubelet.log"]),
        ((LOG, (".", b"x")), ["kubelet.log"]),
        ((LOG, ("n/a\udcffb", b"x")), ["a\ufffdb", "kubelet.log"]),
    ],
)
def test_names_do_no_harm(tmp_path: Path, members: tuple[Member, ...], expected: list[str]) -> None:
    """A file and a directory of one name, no name, too long a name, bytes that are no text."""
    assert names(collected(tmp_path, tar(tmp_path / "a.tar", *members))) == expected


@pytest.mark.parametrize("mtime", [float("nan"), float("inf"), 1e30, -1e30])
def test_a_time_that_is_none(tmp_path: Path, mtime: float) -> None:
    def change(info: tarfile.TarInfo) -> None:
        info.pax_headers = {"mtime": repr(mtime)}

    path = tar(tmp_path / "a.tar", LOG, ("n/pods.json", b"{}"), change=change)
    assert names(collected(tmp_path, path)) == ["kubelet.log", "pods.json"]


def test_of_two_members_with_one_name_the_earlier_is_named(tmp_path: Path) -> None:
    """As when files are added to an archive again; what is left out is said."""
    older = ("n/kubelet.log", b"an older one\n")
    plan = one(tmp_path, tar(tmp_path / "a.tar", older, LOG))
    assert names_of(plan) == ["kubelet.log"]
    assert plan.bundle.skipped == {
        "n/kubelet.log (an earlier one)": "the archive holds a later one of this name"
    }


def sparse_tar(path: Path) -> Path:
    """A few bytes that stand for many."""
    info = tarfile.TarInfo("n/kubelet.log")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.name": "n/kubelet.log",
        "GNU.sparse.size": str(5 << 30),
        "GNU.sparse.numblocks": "1",
        "GNU.sparse.map": "0,1",
    }
    info.size = 1
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b"x"))
    return path


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    found = collected(tmp_path, sparse_tar(tmp_path / "a.tar"))
    assert names(found) == []
    assert "sparse" in found.skipped["n/kubelet.log"]


def test_an_archive_unpacks_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all members say of their sizes is added up before they are unpacked."""
    monkeypatch.setattr(unpacking, "RATIO_FLOOR", 1000)
    monkeypatch.setattr(unpacking, "RATIO_MAX", 0)
    path = tar(tmp_path / "a.tar", ("a", b"x" * 600), ("b", b"x" * 600))
    with pytest.raises(BadInputError, match="unpacks to more"):
        collected(tmp_path, path)


@pytest.mark.parametrize("damage", ["cut", "cut at a member", "flipped header"])
def test_what_is_whole_in_a_damaged_archive_is_read(tmp_path: Path, damage: str) -> None:
    """And the reader is told that more may have been there."""
    path = tar(tmp_path / "a.tar", LOG, ("n/pods.json", b"{}" * 5000))
    data = bytearray(path.read_bytes())
    second = data.index(b"n/pods.json")
    if damage == "cut":
        del data[second + 1000 :]
    elif damage == "cut at a member":
        del data[second:]
    else:
        data[second] ^= 1
    path.write_bytes(data)
    plan = one(tmp_path, path)
    assert names_of(plan) == ["kubelet.log"]
    assert "truncated" in {found.finding for found in plan.findings}
    assert ("n/pods.json" in plan.bundle.skipped) == (damage == "cut")


def test_a_damaged_extended_header_ends_an_archive(tmp_path: Path) -> None:
    """Its character set is told in bytes that are no text."""

    def other_charset(info: tarfile.TarInfo) -> None:
        info.pax_headers = {"hdrcharset": "BINARY"}

    path = tar(tmp_path / "a.tar", LOG, ("n/pods.json", b"{}"), change=other_charset)
    path.write_bytes(path.read_bytes().replace(b"hdrcharset=BINARY", b"hdrcharset=\xff" + b"INARY"))
    plan = one(tmp_path, path)
    assert names_of(plan) == ["kubelet.log"]
    assert "truncated" in {found.finding for found in plan.findings}


def test_nothing_whole_is_an_error(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", LOG)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(BadInputError, match="damaged archive") as caught:
        collected(tmp_path, path)
    assert caught.value.file == str(path)


def test_an_archive_inside_is_named(tmp_path: Path) -> None:
    """It may be another node's, so it is not opened; the reader is told."""
    root = tmp_path / "n"
    write(root / "kubelet.log", log_text())
    tar(root / "old.tar", LOG)
    plan = one(tmp_path, root)
    assert [found.file for found in plan.findings if found.finding == "archive_inside"] == [
        "old.tar"
    ]
    assert "by itself" in plan.bundle.skipped["old.tar"]


def test_a_format_of_a_directory_is_that_of_some_files(tmp_path: Path) -> None:
    root = tmp_path / "n"
    write(root / "kubelet.log", log_text())
    write(root / "node.json", '{"kind":"Node","metadata":{"name":"node-x"}}')
    plan = one(tmp_path, root, options=ImportOptions(format="klog-text"))
    assert names_of(plan) == ["kubelet.log"]
    assert plan.bundle.skipped == {"node.json": "not klog-text: node"}


def test_no_room_to_unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the archive and TMPDIR."""
    path = tar(tmp_path / "a.tar", LOG)
    real = Path.open

    def full(self: Path, mode: str = "r") -> object:
        if "w" in mode:
            raise OSError(28, "No space left on device")
        return real(self, mode)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(BadInputError, match="No space left") as caught:
        unpack(SourceFile("a.tar", path), tmp_path / "spool", "a.tar")
    assert caught.value.file == "a.tar"
    assert "TMPDIR" in caught.value.advice


def test_no_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the input kind, not a traceback."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(BadInputError, match="no temporary directory"), spool_directory():
        pytest.fail("there is none")


def test_sigterm_leaves_nothing_behind(tmp_path: Path) -> None:
    """The process ends with 143 and its temporary directory is gone."""
    code = (
        "import sys, time\n"
        "from kubeledger.ingest.sources.packing import spool_directory\n"
        "with spool_directory() as spool:\n"
        "    (spool / 'x').write_text('x')\n"
        "    print(spool, flush=True)\n"
        "    time.sleep(60)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        spool = Path(process.stdout.readline().strip())
        assert spool.is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert not spool.exists()


def test_closed_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadInputError, match="closed"):
        collect(["-"], tmp_path)


# --- what may not be read -----------------------------------------------------------


def test_an_unreadable_file_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of its directory is imported; named by itself, it is an error with advice."""
    root = tmp_path / "n"
    write(root / "kubelet.log", log_text())
    secret = write(root / "secret.log", log_text())
    real = Path.open

    def denied(self: Path, mode: str = "r") -> object:
        if self.name == secret.name:
            raise PermissionError(13, "Permission denied")
        return real(self, mode)

    monkeypatch.setattr(Path, "open", denied)
    plan = one(tmp_path, root)
    assert names_of(plan) == ["kubelet.log"]
    unreadable = [found.file for found in plan.findings if found.finding == "unreadable"]
    assert unreadable == ["secret.log"]
    with pytest.raises(BadInputError, match="Permission denied") as caught:
        one(tmp_path, secret)
    assert "may read" in caught.value.advice


def test_an_unreadable_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below what was named it is a finding, else an error."""
    root = tmp_path / "n"
    write(root / "kubelet.log", log_text())
    write(root / "secret" / "pods.json", "{}")
    real = os.scandir

    def denied(path: str | int) -> object:
        if isinstance(path, str) and Path(path).name == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    closed = "secret"
    (found,) = collect([str(root)], tmp_path / "spool")
    assert names(found) == ["kubelet.log"]
    assert [(each.finding, each.file) for each in found.findings] == [("unreadable", "secret")]
    closed = "n"
    with pytest.raises(BadInputError, match="Permission denied"):
        collect([str(root)], tmp_path / "spool")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_path_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError):
        collect([str(tmp_path / name)], tmp_path)


def test_a_path_behind_a_closed_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_dir", denied)
    with pytest.raises(BadInputError, match="cannot be looked at") as caught:
        collect([str(tmp_path / "a")], tmp_path)
    assert caught.value.advice


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_archive_is_a_directory(tmp_path: Path, packing: int) -> None:
    """A stored one is no log, though log lines stand in it as they are."""
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.mkdir("n")
        archive.writestr(zipfile.ZipInfo(LOG[0], (2026, 11, 21, 3, 0, 0)), LOG[1], packing)
    plan = one(tmp_path, path)
    assert names_of(plan) == ["kubelet.log"]
    assert plan.timing.year == 2026


def test_a_damaged_or_hostile_zip(tmp_path: Path) -> None:
    """What is whole is read; no member leads out, and a file that only begins like one is told."""
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(LOG[0], LOG[1])
        archive.writestr("n/other.log", b"damage me")
    path.write_bytes(path.read_bytes().replace(b"damage me", b"damaged!!", 1))
    assert names(collected(tmp_path, path)) == ["kubelet.log"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../kubelet.log", LOG[1])
    with pytest.raises(BadInputError, match="leads out"):
        collected(tmp_path, path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadInputError, match="damaged archive"):
        collected(tmp_path, path)
