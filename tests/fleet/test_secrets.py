"""Nothing secret is printed, whatever storage answers and wherever credentials were written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.nodes import run
from tests.ledger.making import batch, ledger_of

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
