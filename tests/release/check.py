"""Try a release where nothing else is: ``python -m tests.release.check ENVIRONMENT DIST``.

The environment is a new one. Packages that the wheel needs are fetched into a directory first, and
installed from there alone, without compilers: what has no wheel fails here.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

_ASK = """
import anyio, sys
from mcp import Client, StdioServerParameters

async def main():
    started = StdioServerParameters(command=sys.argv[1], args=["mcp", "--ledger", sys.argv[2]])
    async with Client(started) as client:
        assert [t.name for t in (await client.list_tools()).tools][:2] == ["overview", "why"]
        answer = await client.call_tool("why", {"target": "filler-c"})
        assert "was preempted" in answer.content[0].text

anyio.run(main)
"""


def check(environment: Path, dist: Path) -> None:
    """All of it.

    Raises:
        AssertionError, subprocess.CalledProcessError: something is not as it should be.
    """
    (wheel,) = dist.glob("*.whl")
    (sdist,) = (path for path in dist.glob("kubeledger-*.tar.gz") if "-man." not in path.name)
    (man,) = dist.glob("*-man.tar.gz")
    _check_contents(wheel, sdist, man)
    _check_digests(dist)
    python = environment / "bin" / "python"
    with tempfile.TemporaryDirectory() as scratch:
        house = Path(scratch) / "wheels"
        get: list[str | Path] = [
            python,
            "-m",
            "pip",
            "download",
            "-q",
            "--only-binary",
            ":all:",
            "-d",
            house,
        ]
        _run(*get, f"{wheel}[mcp]", cwd=Path(scratch))
        put: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--find-links",
            house,
        ]
        _run(*put, f"{wheel}[mcp]", cwd=Path(scratch))
        _check_commands(environment / "bin", Path(scratch))


def _check_contents(wheel: Path, sdist: Path, man: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names), "the wheel has no licence"
    assert "kubeledger/py.typed" in names, "the wheel does not say that it has types"
    assert not [name for name in names if name.startswith("tests/")], "tests are in the wheel"
    with tarfile.open(sdist) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "docs/limits.md"} <= inside
    with tarfile.open(man) as packed:
        assert "man/kubeledger-why.1" in {name.removeprefix("./") for name in packed.getnames()}, (
            "no page"
        )


def _check_digests(dist: Path) -> None:
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest, name


def _check_commands(programs: Path, scratch: Path) -> None:
    own = programs / "kubeledger"
    version = _run(own, "--version", cwd=scratch)
    assert version.startswith("kubeledger, version "), version
    _run(own, "demo", cwd=scratch)
    assert (scratch / "kubeledger-demo.html").stat().st_size > 100_000
    package = next((programs.parent / "lib").glob("python*/site-packages/kubeledger"))
    recording = package / "_recordings" / "node-a.tar.zst"
    _run(own, "import", recording, "--ledger", scratch / "ledger", cwd=scratch)
    rows = _run(own, "sql", "--run", "preemptions", "--ledger", scratch / "ledger", cwd=scratch)
    assert "filler-c" in rows
    shell = _run(own, cwd=scratch, _KUBELEDGER_COMPLETE="bash_source")
    assert "_kubeledger_completion" in shell
    assert "why" in _run(programs / "kubectl_complete-kubeledger", "wh", cwd=scratch)
    why = _run(
        programs / "kubectl-kubeledger", "why", "pod/filler-c", "-n", "default",
        "--ledger", scratch / "ledger", cwd=scratch,
    )  # fmt: skip
    assert "was preempted" in why
    _run(programs / "python", "-c", _ASK, own, scratch / "ledger", cwd=scratch)


def _run(*command: str | Path, cwd: Path, **env: str) -> str:
    """What a command prints; it may not see this environment."""
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env=bare | env, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout


if __name__ == "__main__":
    check(Path(sys.argv[1]), Path(sys.argv[2]).resolve())
