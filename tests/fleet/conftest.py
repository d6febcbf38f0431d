"""Lakes and sources on this machine and in a bucket, and a Ray cluster of several nodes."""

from __future__ import annotations

import http.client
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeledger.fleet.sealed import unseal_ledger
from tests.fleet.places import Place, head_of, task, write_bundle
from tests.recordings import RECORDINGS

_CREDENTIALS = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[tuple[str, int]]:
    """Host and port of an S3 server on loopback."""
    server_module = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()
    finally:
        server.stop()


@pytest.fixture
def bucket(s3_server: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty bucket, and the environment by which it is found."""
    host, port = s3_server
    name = f"fleet-{abs(hash(tmp_path)):x}"
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("PUT", f"/{name}", headers={"Authorization": _CREDENTIALS})
    assert connection.getresponse().status == 200
    connection.close()
    _name_storage(s3_server, monkeypatch)
    return Place(f"s3://{name}")


def _name_storage(server: tuple[str, int], patch: pytest.MonkeyPatch) -> None:
    """The environment by which a bucket is found."""
    host, port = server
    for variable, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }.items():
        patch.setenv(variable, value)


@pytest.fixture(scope="session")
def cluster(s3_server: tuple[str, int]) -> Iterator[Any]:
    """A head and two nodes, each a process with its workers, on loopback; they find the bucket."""
    from ray.cluster_utils import Cluster

    with (
        pytest.MonkeyPatch.context() as patch,
        # Paths of sockets are short; what Ray's processes still write does not matter.
        tempfile.TemporaryDirectory(prefix="kl", ignore_cleanup_errors=True) as home,
    ):
        for name in ("HOME", "RAY_TMPDIR"):
            patch.setenv(name, home)
        _name_storage(s3_server, patch)
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        small = {"object_store_memory": 80_000_000, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
        try:
            made.add_node(num_cpus=1, object_store_memory=80_000_000)
            made.add_node(num_cpus=1, object_store_memory=80_000_000)
            yield made
        finally:
            made.shutdown()


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A directory, and then a bucket."""
    if request.param == "local":
        return Place(str(tmp_path / "place"))
    found = request.getfixturevalue("bucket")
    assert isinstance(found, Place)
    return found


@pytest.fixture(scope="session")
def recorded_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded node, node-a, and the beginning of another one, node-z."""
    place = tmp_path_factory.mktemp("recorded")
    bundle = write_bundle(place / "node-z", node="node-z", machine="f" * 32)
    for source in (RECORDINGS / "node-a.tar.zst", bundle):
        head_of(task(str(place / "lake"), str(source)))
    return place / "lake"


@pytest.fixture(scope="session")
def recorded_ledger(recorded_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of node-a, as the lake has it."""
    directory = tmp_path_factory.mktemp("recorded") / "ledger"
    unseal_ledger(next(recorded_lake.glob("ledgers/node-a/*")), directory)
    return directory
