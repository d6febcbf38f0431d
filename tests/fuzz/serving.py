"""Targets: requests to the server of the page, and SQL in its box, over a socket as a browser's."""

import atexit
import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread

from kubeledger.analyze.sql.api import connect, lingering
from kubeledger.cli.service import SharedBound
from kubeledger.cli.ui_answers import Answers
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.timeline.server import HOST, Server
from tests.fuzz.mutators import ODD_TEXTS, ODD_VALUES, mutate_text
from tests.fuzz.queries import query_text
from tests.fuzz.target import Target, holds
from tests.ingest.node_files import log_text

_NODE = "node-x"
_TIMEOUT_S = 2.0
_PATIENCE_S = 60.0
"""Until an answer must be there, on a machine with other work."""

_GET = ("/", "/api/drawing", "/api/records", "/api/queries", "/api/why", "/api/state", "/nothing")
_POST = ("/api/sql", "/api/whatif")
_TARGETS = (
    "node", "pod/default/web", "container/default/web/app", "image/sha256:0", "device/gpu/0",
    "cgroup//kubepods", "pod/", "pod//", "/", "process/1", "seq/1", "web", "pod/default/web/",
)  # fmt: skip
_SETTINGS = (
    "maxPods=1", "maxPods=1|2", "evictionHard.memory.available=5%", "imageGCHighThresholdPercent=1",
    "--set", "--kubelet-version 1.31.0", "--kubelet-version=9.9", "pods[0].x=1", "=", "a=b=c",
    "imageMinimumGCAge=9999999999999h", "evictionHard=", "maxPods=-1", "maxPods=1e400",
)  # fmt: skip
_CONFIGS = (
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 1\n",
    "a: &a [*a]\n", "{", "- " * 500, "a: !!python/object:os.system x", "\x00", "maxPods: 1e999\n",
)  # fmt: skip
_HEAVY = (
    "range(300000000)", "repeat('x', 900000000)", "format('{:>900000000}', 'x')",
    "list_sort(range(9000000))", "lpad('x', 100000000, 'y')", "unnest(range(9000000))",
    "list(repeat('x', 10000000)) OVER ()", "{'a': range(30000000)}", "bitstring('1', 900000000)",
    "levenshtein(repeat('a', 20000 + seq), repeat('b', 20000))",
)  # fmt: skip
_HEADERS = (
    "If-None-Match: x", "Origin: null", "Content-Length: 5", "Content-Length: -1", "Host: evil",
    "Transfer-Encoding: chunked", "Expect: 100-continue", "X-Kubeledger-Token: \xff", "Range: x",
    "Content-Length: 1048577", "Connection: keep-alive", "a" * 70_000 + ": x", ": x", "x",
)  # fmt: skip


def _odd(random: Random, usual: Sequence[str]) -> object:
    text = random.choice(usual if random.randrange(3) else ODD_TEXTS)
    return text if random.randrange(12) else random.choice(ODD_VALUES)


def _quoted(value: object) -> str:
    text = str(value).encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in text)


def _fields(random: Random) -> dict[str, object]:
    fields = {
        "node": _odd(random, (_NODE, _NODE, "other")),
        "target": _odd(random, _TARGETS),
        "at": _odd(random, ("1795230060000000000", "0")),
        "seq": _odd(random, ("1", "2", "99")),
        "query": query_text(random) if random.randrange(4) else _odd(random, ("SELECT 1",)),
        "name": _odd(random, ("", "around", "impossible", "restarts")),
        "params": {str(_odd(random, ("at", "seconds"))): _odd(random, ("1",))},
        "set": _odd(random, _SETTINGS),
        "config": {"name": _odd(random, ("c.yaml",)), "text": _odd(random, _CONFIGS)},
        "token": _odd(random, ("x",)),
    }
    return {name: fields[name] for name in random.sample(sorted(fields), random.randrange(10))}


def _request(random: Random) -> bytes:
    """One that is nearly right: whom nobody lets in reaches little."""
    method, paths = random.choice((("GET", _GET), ("POST", _POST)))
    path, fields, body = random.choice(paths), _fields(random), b""
    if random.randrange(3):
        fields |= {"node": _NODE}
    if method == "GET":
        path += "?" + "&".join(f"{name}={_quoted(value)}" for name, value in fields.items())
    else:
        body = json.dumps(fields).encode()
        body = mutate_text(random, body, (body,)) if not random.randrange(6) else body
    lines = [f"{method} {path} HTTP/1.1", "Host: {host}", "X-Kubeledger-Token: {token}"]
    lines += [f"Content-Length: {len(body)}"] if body else []
    lines += [random.choice(_HEADERS)] if not random.randrange(4) else []
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def _mutated(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    data = _request(random) if random.randrange(8) else data
    return mutate_text(random, data, others) if not random.randrange(6) else data


class _Page:
    """A served ledger, and what the server did not expect."""

    def __init__(self) -> None:
        self.bugs: list[Exception] = []
        with ExitStack() as held:
            root = Path(held.enter_context(TemporaryDirectory(prefix="fuzz-ui-")))
            (root / "kubelet.log").write_text(log_text(seconds=3))
            ledger = Ledger.create(root / "ledger")
            import_sources(
                [str(root / "kubelet.log")], ledger, ImportOptions(node=_NODE, year=2026)
            )
            opened = partial(connect, timeout_s=_TIMEOUT_S, memory_limit="300MB", is_fixed=True)
            answers = held.enter_context(
                Answers(ledger.path, opened, SharedBound(300 << 20, lingering))
            )
            self.server = held.enter_context(Server(0, answers.routes(), self.bugs.append))
            Thread(target=self.server.serve_forever, daemon=True).start()
            held.callback(self.server.shutdown)
            atexit.register(held.pop_all().close)

    def send(self, request: bytes) -> bytes:
        """What is answered; the sender says that this is all."""
        host = f"{HOST}:{self.server.server_port}".encode()
        request = request.replace(b"{token}", self.server.token.encode()).replace(b"{host}", host)
        with socket.create_connection((HOST, self.server.server_port), _PATIENCE_S) as connection:
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: connection.recv(1 << 16), b""))
            except TimeoutError:
                raise
            except OSError:  # it was refused before all of it was read
                return b""


@cache
def _page() -> _Page:
    return _Page()


def _asked(request: bytes) -> None:
    page = _page()
    answer = page.send(request)
    for bug in page.bugs:
        page.bugs.clear()
        raise bug
    holds(b"Traceback" not in answer and b"bug in kubeledger" not in answer, "a bug shows")


def _boxed(query: bytes) -> None:
    body = json.dumps({"query": query.decode("utf-8", "surrogateescape")}).encode()
    head = f"POST /api/sql HTTP/1.1\r\nHost: {{host}}\r\nContent-Length: {len(body)}\r\n"
    _asked(head.encode() + b"X-Kubeledger-Token: {token}\r\n\r\n" + body)


def _box_query(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not random.randrange(30):
        return f"SELECT {random.choice(_HEAVY)} FROM events".encode()
    data = query_text(random).encode() if random.randrange(4) else data
    return mutate_text(random, data, others)[:4000] if not random.randrange(3) else data


TARGETS: tuple[Target, ...] = (
    Target("request", lambda: (b"GET / HTTP/1.1\r\n\r\n",), _mutated, _asked, 3),
    Target("box", lambda: (b"SELECT 1", b"FROM events"), _box_query, _boxed, 2),
)
