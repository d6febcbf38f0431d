"""Gathering a node's files for an import: one script, run where they are, and one archive.

``collect.sh`` knows what is taken and where it lies. It runs on the node (``ssh``, or in the node's
root by ``kubectl debug``), and once more where kubectl is, for what only the API server and the
kubelet's endpoints hold; ``raw`` needs the latter alone. What each part gave becomes one archive.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Literal

import msgspec

from kubeledger.model.errors import BadInputError

Via = Literal["none", "raw", "ssh", "kubectl-debug"]

_GZIP = b"\x1f\x8b\x08"
_NOISE_MAX = 64 << 10
"""Bytes that a debug pod's start may print before the archive."""
_MANIFEST = "manifest.txt"
_AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec sh -s; else exec sudo -n sh -s; fi'


class Request(msgspec.Struct, frozen=True):
    """What to gather, and by which way.

    Attributes:
        node: its name in the cluster.
        host: what ssh is given, where that is another name.
        since: oldest log, as ``journalctl --since`` takes it; empty: all.
        image: of the debug pod.
        context: of the kubeconfig; empty: the current one.
    """

    node: str
    via: Via
    host: str = ""
    since: str = ""
    image: str = "busybox:stable"
    context: str = ""


class Part(msgspec.Struct, frozen=True):
    """One run of the script.

    Attributes:
        command: what reads the script on its standard input.
        script: with its settings.
    """

    command: tuple[str, ...]
    script: str


class Collected(msgspec.Struct):
    """What came of it, as the manifests say.

    Attributes:
        taken: file -> bytes.
        absent: file -> why.
    """

    taken: dict[str, int]
    absent: dict[str, str]


def script_of(request: Request, parts: str = "node api") -> str:
    """The script with its settings, for ``sh``.

    Args:
        parts: ``node``, ``api``, or both.
    """
    body = files("kubeledger.record").joinpath("collect.sh").read_text(encoding="utf-8")
    settings = {"NODE": request.node, "PARTS": parts, "SINCE": request.since}
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items() if value]
    if request.context:
        lines.append(f'kubectl() {{ command kubectl {shlex.join(_context(request))} "$@"; }}')
    first, rest = body.split("\n", 1)
    return "\n".join([first, *lines, rest])


def parts_of(request: Request) -> list[Part]:
    """What is run, in this order; nothing where the script is only printed."""
    on_node = script_of(request, "node")
    api = Part(("sh", "-s"), script_of(request, "api"))
    match request.via:
        case "none":
            return []
        case "raw":
            return [api]
        case "ssh":
            host = request.host or request.node
            return [Part(("ssh", "-o", "BatchMode=yes", "--", host, _AS_ROOT), on_node), api]
        case "kubectl-debug":
            kubectl = ("kubectl", *_context(request))
            debug = (*kubectl, "debug", f"node/{request.node}", "--stdin", "--quiet")
            options = ("--profile=sysadmin", f"--image={request.image}")
            inside = ("--", "chroot", "/host", "sh", "-s")
            return [Part((*debug, *options, *inside), on_node), api]


def _context(request: Request) -> tuple[str, ...]:
    return ("--context", request.context) if request.context else ()


def collect_into(request: Request, out: IO[bytes]) -> Collected:
    """Run the parts, and write what they give as one tar.gz.

    Raises:
        BadInputError: a part cannot be run, gave no archive, or all of them gave nothing.
        OSError: the archive cannot be written.
    """
    with TemporaryDirectory(prefix="kubeledger-collect-") as directory:
        archives = []
        for number, part in enumerate(parts_of(request)):
            archives.append(Path(directory) / f"{number}.tar.gz")
            _run(part, archives[-1])
        collected = _join(archives, out)
        if not collected.taken:
            reasons = "; ".join(f"{file}: {why}" for file, why in collected.absent.items())
            raise BadInputError(f"nothing of node {request.node} could be taken: {reasons[:500]}")
    return collected


def _run(part: Part, target: Path) -> None:
    program = part.command[0]
    try:
        with target.open("wb") as stream:
            done = subprocess.run(
                part.command,
                input=part.script.encode(),
                stdout=stream,
                stderr=subprocess.PIPE,
                check=False,
            )
    except FileNotFoundError:
        raise BadInputError(
            f"{program} is not installed on this machine",
            advice="--via none prints the script, to be run on the node by other means",
        ) from None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        why = f": {said[-1]}" if said else ""
        raise BadInputError(
            f"{program} ended with {done.returncode}{why}",
            advice="--dry-run shows the command; --via none prints the script",
        )


def _join(archives: Sequence[Path], out: IO[bytes]) -> Collected:
    """One archive of several; their manifests become one."""
    collected = Collected({}, {})
    manifest = b""
    seen: set[str] = set()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as target:
        for archive in archives:
            for member, content in _members(archive):
                if member.name == _MANIFEST:
                    manifest += content.read()
                elif member.name not in seen:
                    seen.add(member.name)
                    target.addfile(member, content)
        summary = tarfile.TarInfo(_MANIFEST)
        summary.size = len(manifest)
        target.addfile(summary, io.BytesIO(manifest))
    for line in manifest.decode("utf-8", "replace").splitlines():
        what, name, detail = (*line.split("\t"), "", "")[:3]
        size = detail.partition(" ")[0]
        if what == "taken":
            collected.taken[name] = int(size) if size.isascii() and size.isdigit() else 0
        else:
            collected.absent[name] = detail
    return collected


def _members(archive: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """The regular files of a part's archive, with plain names and nobody's rights."""
    with archive.open("rb") as stream:
        begin = stream.read(_NOISE_MAX).find(_GZIP)
        stream.seek(max(begin, 0))
        try:
            with tarfile.open(fileobj=stream, mode="r:gz") as source:
                for member in source:
                    content = source.extractfile(member) if member.isreg() else None
                    if content is not None:
                        plain = tarfile.TarInfo(member.name.removeprefix("./"))
                        plain.size, plain.mtime, plain.mode = member.size, member.mtime, 0o600
                        yield plain, content
        except (tarfile.TarError, EOFError, OSError) as error:
            raise BadInputError(
                f"what came back is not a complete archive: {error}",
                advice="--dry-run shows the command; run it by hand to see what it prints",
            ) from None
