"""HTTP on loopback for the one person who started it: who may ask what, and how it is answered.

Every request needs the token of this run, a Host that is this server's, and, where a browser
says which page asks, this server's Origin. Only the paths of a table are known. Whatever fails
is answered in a sentence; tracebacks stay here.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from kubeledger.analyze.sql.loader import require_room
from kubeledger.model.errors import BadQuestionError, KubeledgerError, reason_of

HOST = "127.0.0.1"
TOKEN_HEADER = "X-Kubeledger-Token"  # its name
_BODY_MAX = 1 << 20
_SECONDS_PER_READ = 30
_FIELDS_MAX = 20
_AT_ONCE_MAX = 64


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be answered.

    Attributes:
        values: of the URL's query, or the JSON object of the body.
        etag: of the answer that the page holds already; empty: it holds none.
    """

    values: Mapping[str, Any]
    etag: str = ""

    def text(self, name: str) -> str:
        """A value that is a text; empty where there is none.

        Raises:
            BadQuestionError: it is something else.
        """
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise BadQuestionError(f"{name} is not a text")
        return value

    def whole(self, name: str) -> int | None:
        """A value that is a whole number, which the URL writes as text; None where there is none.

        Raises:
            BadQuestionError: it is something else.
        """
        text = str(self.values.get(name, ""))
        if not text:
            return None
        if not _WHOLE.fullmatch(text):
            raise BadQuestionError(f"{name} is not a whole number")
        return int(text)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent back."""

    content: bytes
    media: str = "application/json"
    status: int = HTTPStatus.OK
    etag: str = ""


Answer = Callable[[Asked], Reply]

_NO_ROOM = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: application/json\r\n\r\n"
    b'{"error":"there is not enough memory","advice":"ask for less, or later"}'
)
"""Where there is none for a thread that would hear the question."""

_WHOLE = re.compile(r"-?[0-9]{1,19}")


def json_reply(value: object, status: int = HTTPStatus.OK) -> Reply:
    """A value as JSON."""
    return Reply(content=json.dumps(value, separators=(",", ":")).encode(), status=status)


class Server(ThreadingHTTPServer):
    """Serves on loopback until it is interrupted, a thread for each request.

    Attributes:
        routes: (method, path) -> what answers it; ``("GET", "/")`` is the page.
        on_bug: called with what should not have happened.
    """

    daemon_threads = True

    def __init__(
        self,
        port: int,
        routes: Mapping[tuple[str, str], Answer],
        on_bug: Callable[[Exception], None],
    ) -> None:
        """Listen.

        Args:
            port: 0 takes a free one.

        Raises:
            BadQuestionError: the port cannot be used.
        """
        self.routes = routes
        self.on_bug = on_bug
        self.token = secrets.token_urlsafe(24)
        self._free = BoundedSemaphore(_AT_ONCE_MAX)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = reason_of(error).lower()
            raise BadQuestionError(
                f"port {port} cannot be used: {reason}", advice="leave --port out for a free one"
            ) from error

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the library's
        """As the library's, for so many at once, where there is memory; others are sent away."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            require_room()
            super().process_request(request, client_address)
        except BaseException:  # no thread can be started; the library sends it away
            self._free.release()
            with suppress(OSError):
                request.sendall(_NO_ROOM)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the library's
        """As the library's."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        """As the library's, but the network is not asked for this machine's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What may be in Host: a name that an attacker made point here may not."""
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away is not reported."""


class _Refused(Exception):  # an answer
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.reply = json_reply({"error": message, "advice": ""}, status)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "kubeledger"
    sys_version = ""
    timeout = _SECONDS_PER_READ

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        try:
            reply = self._reply(method)
        except _Refused as refusal:
            reply = refusal.reply
        except KubeledgerError as error:
            place = f"{error.place}: " if error.place else ""
            answer = {"error": f"{place}{error.message}", "advice": error.advice}
            reply = json_reply(answer, HTTPStatus.BAD_REQUEST)
        except MemoryError:
            answer = {"error": "there is not enough memory", "advice": "ask for less, or later"}
            reply = json_reply(answer, HTTPStatus.SERVICE_UNAVAILABLE)
        except Exception as error:
            self.server.on_bug(error)
            answer = {"error": "bug in kubeledger", "advice": "the terminal shows more"}
            reply = json_reply(answer, HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(reply)

    def _reply(self, method: str) -> Reply:
        try:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query, max_num_fields=_FIELDS_MAX))
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "this is not a URL") from None
        self._check_sender(query.get("token", "") if url.path == "/" else "")
        answer = self.server.routes.get((method, url.path))
        if answer is None:
            known = any(path == url.path for _, path in self.server.routes)
            if known:
                raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "not with this method")
            raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing at this path")
        values = query if method == "GET" else self._body()
        etag = self.headers.get("If-None-Match", "").strip('"')
        return answer(Asked(values=values, etag=etag))

    def _check_sender(self, token: str) -> None:
        host = self.headers.get("Host", "")
        if host not in self.server.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, "this is not a host of this server")
        if self.headers.get("Origin", f"http://{host}") != f"http://{host}":
            raise _Refused(HTTPStatus.FORBIDDEN, "another page may not ask")
        token = token or self.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _Refused(
                HTTPStatus.FORBIDDEN, "the token is missing or of another run: open the URL again"
            )

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > len(str(_BODY_MAX)):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "the length is missing, or too large")
        if int(length) > _BODY_MAX:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "this is too long")
        try:
            body = msgspec.json.decode(self.rfile.read(int(length)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "this is not a JSON object")
        return body

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        html = reply.media.startswith("text/html")
        self.send_header("Content-Type", reply.media)
        self.send_header("Content-Length", str(len(reply.content)))
        # The page brings its own policy besides; who may frame it can only stand in a header.
        policy = "frame-ancestors 'none'" if html else "default-src 'none'; frame-ancestors 'none'"
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        if reply.etag:
            self.send_header("ETag", f'"{reply.etag}"')
        self.end_headers()
        self.wfile.write(reply.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no HTTP, or a method that nobody uses: refused as all else is."""
        self.close_connection = True
        self._send(json_reply({"error": "this cannot be answered", "advice": ""}, code))

    def log_message(self, format: str, *args: object) -> None:  # the library's
        """The terminal is for what matters."""
