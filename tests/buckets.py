"""Where objects of tests are stored: an S3 server on loopback, a directory or a bucket."""

import http.client
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from kubeledger.remote.store import Store

_CREDENTIALS = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request"


class Place:
    """A directory or a bucket.

    Attributes:
        url: of it.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def put(self, name: str, path: Path) -> str:
        """Copy a file or a directory there; returns its URL."""
        store = Store(self.url, make=True)
        files = sorted(file for file in path.rglob("*") if file.is_file()) or [path]
        for file in files:
            below = "" if file == path else f"/{file.relative_to(path).as_posix()}"
            store.replace(f"{name}{below}", file.read_bytes())
        return f"{self.url}/{name}"


def put_odd(place: Place, names: Iterable[str]) -> None:
    """Objects as nobody makes them by a path: of a bucket ``a//b`` and ``..``, or no Unicode."""
    for name in names:
        if "://" in place.url:
            bucket = place.url.partition("://")[2]
            address = os.environ["AWS_ENDPOINT_URL"].partition("://")[2]
            connection = http.client.HTTPConnection(address, timeout=10)
            path = f"/{bucket}/{quote(name)}"
            connection.request("PUT", path, b"odd", headers={"Authorization": _CREDENTIALS})
            assert connection.getresponse().status == 200
            connection.close()
        else:
            folder, _, _ = name.partition("/")
            (Path(place.url) / folder).mkdir(parents=True, exist_ok=True)
            (Path(place.url) / folder / "odd\udcff").write_bytes(b"odd")


class Killed(BaseException):
    """The process ends here; nothing of it can be caught by the code under test."""


class DyingStore(Store):
    """A store of a process that dies before its n-th write."""

    writes_left = 1 << 30

    def _spend(self) -> None:
        if self.writes_left == 0:
            raise Killed
        self.writes_left -= 1

    def create(self, path: str, content: bytes | Path) -> bool:
        self._spend()
        return super().create(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._spend()
        super().replace(path, content)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove one after the other, or die."""
        for path in paths:
            self._spend()
            super().delete([path])


@contextmanager
def s3_at_work() -> Iterator[tuple[str, int]]:
    """Host and port of an S3 server on loopback."""
    server_module = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()
    finally:
        server.stop()


def new_bucket(server: tuple[str, int], name: str) -> Place:
    connection = http.client.HTTPConnection(*server, timeout=10)
    connection.request("PUT", f"/{name}", headers={"Authorization": _CREDENTIALS})
    assert connection.getresponse().status == 200
    connection.close()
    return Place(f"s3://{name}")


def name_storage(server: tuple[str, int], patch: pytest.MonkeyPatch) -> None:
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
