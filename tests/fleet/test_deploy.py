"""What ``deploy`` and the fleet's page tell people to run is what there is."""

import re
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.nodes import run
from tests.cli.parsing import parse
from tests.ledger.making import batch, ledger_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = ("kuberay/rayjob.yaml", "job/indexed-job.yaml")


def _documents(name: str) -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / name).read_text())}


def _pods(value: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 # YAML
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for inner in value.values():
            yield from _pods(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _pods(inner)


def _commands() -> Iterator[Any]:
    job = _documents(MANIFESTS[1])["Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    args = [arg.replace("$(JOB_COMPLETION_INDEX)", "3") for arg in container["args"]]
    yield pytest.param(["kubeledger", *args], id="indexed-job")
    yield pytest.param(shlex.split(_documents(MANIFESTS[0])["RayJob"]["spec"]["entrypoint"]))
    text = (ROOT / "docs" / "fleet.md").read_text().replace("\\\n", " ")
    for line in re.findall(r"^(?:\$ |    )?(kubeledger fleet .*)$", text, re.MULTILINE):
        yield pytest.param(shlex.split(line.partition(" #")[0]))


@pytest.mark.parametrize("words", list(_commands()))
def test_commands_are_real(words: list[str]) -> None:
    assert words[0] == "kubeledger"
    parse([re.sub(r"\$\{?\w+\}?", "3", word) for word in words[1:]])


@pytest.mark.parametrize("name", MANIFESTS)
def test_pods_hold_no_secret_and_are_bounded(name: str) -> None:
    """Credentials come by the service account; memory and scratch have limits; nobody is root."""
    documents = _documents(name)
    account = documents["ServiceAccount"]["metadata"]["name"]
    pods = [pod for document in documents.values() for pod in _pods(document)]
    assert pods
    for pod in pods:
        assert pod["serviceAccountName"] == account
        assert pod["securityContext"]["runAsNonRoot"] is True
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert not {"env", "envFrom"} & container.keys()
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert volumes[mounts["/scratch"]]["emptyDir"]["sizeLimit"]
    text = (DEPLOY / name).read_text().lower()
    assert not re.search(r"secret_?access|secretkeyref|password|akia|session_token", text)


def test_shards_are_as_many_as_pods() -> None:
    job = _documents(MANIFESTS[1])["Job"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (shard,) = [arg for arg in container["args"] if arg.startswith("--shard=")]
    assert int(shard.rpartition("/")[2]) == job["completions"]


def test_manifests_and_image_have_one_ray() -> None:
    (ray,) = re.findall(r"^ray==(\S+)", (DEPLOY / "locks" / "fleet.txt").read_text(), re.MULTILINE)
    assert _documents(MANIFESTS[0])["RayJob"]["spec"]["rayClusterSpec"]["rayVersion"] == ray


# Nothing secret is printed, whatever storage answers and wherever credentials were written.

SECRET = "HUSH"


class _Refuses(BaseHTTPRequestHandler):
    status = 0

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_HEAD = do_DELETE = do_POST = do_GET

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(params=[400, 401, 403, 404])
def _storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An S3 server that refuses all, and an environment full of credentials."""
    handler = type("Handler", (_Refuses,), {"status": request.param})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    for variable, value in {
        "AWS_ENDPOINT_URL": f"http://user:{SECRET}@127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": f"{SECRET}-key",
        "AWS_SECRET_ACCESS_KEY": f"{SECRET}-secret",
        "AWS_SESSION_TOKEN": f"{SECRET}-token",
    }.items():
        monkeypatch.setenv(variable, value)
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("_storage")
@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/lake",
        f"s3://bucket/lake?X-Amz-Signature={SECRET}",
        f"s3://key:{SECRET}@bucket/lake",
        f"https://user:{SECRET}@host/lake?X-Amz-Signature={SECRET}",
    ],
)
def test_errors_hold_no_credentials(url: str, tmp_path: Path) -> None:
    """Of the environment, of the endpoint, of the URL: as a lake, a source, a shipped ledger."""
    ledger = str(ledger_of(tmp_path / "l", batch(0, 4), segment_bytes=1000).path)
    for arguments in (
        ["fleet", "sql", "SELECT 1", "--lake", url],
        ["fleet", "compact", "--lake", url],
        ["fleet", "import", f"{url}/x", f"{url}/*", "--lake", str(tmp_path / "lake")],
        ["fleet", "import", str(tmp_path), "--lake", url],
        ["ship", "--once", "--ledger", ledger, "--to", url],
        ["restore", "--from", url, "--ledger", str(tmp_path / "back")],
    ):
        result = run(*arguments)
        assert result.exit_code in (2, 3, 4), result.output
        assert "error: " in result.stderr
        assert SECRET not in result.output
