"""Processes that are killed, storage that fails: nothing is lost, doubled or half there."""

import http.client
import http.server
import multiprocessing
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import obstore
import pytest
from obstore.store import ObjectStore

from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import ROW_ROOMS, done_path
from kubeledger.fleet.types import Head
from kubeledger.remote.store import StorageError, Store, digest_of_file
from tests.buckets import Place
from tests.cli.nodes import run
from tests.fleet.places import head_of, log_lines, task, task_elsewhere, write_bundle
from tests.fleet.test_task import rows
from tests.marks import nightly
from tests.waiting import PATIENCE_S

BUCKETS = pytest.mark.parametrize("place", ["s3", *nightly("local")], indirect=True)

LATER_NS = 1 << 62
SPAWN = multiprocessing.get_context("forkserver")
"""Not a fork of this process: threads of the storage's client would be missing in it."""

SPAWN.set_forkserver_preload(["kubeledger.fleet.task", "tests.fleet.places"])


def ours() -> dict[str, str]:
    """By which a child finds storage: it has the environment of the first of them."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


def check_whole(lake: str, tmp_path: Path) -> Head | None:
    """Whatever the marker of the node names is there, as it was written."""
    head = Lake.open(lake).heads().get("node-a")
    for number, file in enumerate(head.files if head is not None else ()):
        path = tmp_path / f"check-{number}"
        path.unlink(missing_ok=True)
        Lake.open(lake).store.download(file.path, path)
        assert (path.stat().st_size, digest_of_file(path)) == (file.size_bytes, file.digest)
    return head


@pytest.mark.slow
@BUCKETS
def test_a_task_may_be_killed_at_any_moment(place: Place, tmp_path: Path) -> None:
    """The lake has the generation before, or the new one; the next task goes on from there."""
    lake = f"{place.url}/lake"
    log = log_lines()
    lengths = [log.index(b"\n", len(log) * part // 8) + 1 for part in range(4, 8)]
    draw = random.Random(14)
    began_s = time.monotonic()
    url = place.put("in/node-a", write_bundle(tmp_path / "0", log=log[: lengths[0]]))
    head = head_of(task(lake, url, scratch=str(tmp_path / "scratch")))
    usual_s = time.monotonic() - began_s
    for number, length in enumerate(lengths[1:], 1):
        url = place.put("in/node-a", write_bundle(tmp_path / f"{number}", log=log[:length]))
        scratch = str(tmp_path / "scratch")
        process = SPAWN.Process(
            target=task_elsewhere, args=(ours(), lake, url), kwargs={"scratch": scratch}
        )
        process.start()
        process.join(draw.uniform(0.2, 1.2) * usual_s)
        process.kill()
        process.join(PATIENCE_S)
        found = check_whole(lake, tmp_path)
        assert found is not None
        assert found == head or found.generation == head.generation + 1
        again = head_of(task(lake, url, scratch=str(tmp_path / "scratch")))
        assert again.generation == head.generation + 1
        assert again.sources[-1].url == url
        assert list((tmp_path / "scratch").iterdir()) == []
        head = again
    assert check_whole(lake, tmp_path) == head
    kept = {file.path for file in head.files}
    Lake.open(lake).sweep(LATER_NS)
    rooms = (*(f"{room}/" for room in ROW_ROOMS), "nodes/", "ledgers/")
    left = [each.path for room in rooms for each in Lake.open(lake).store.list(room)]
    assert sorted(left) == sorted(kept)
    undisturbed = str(tmp_path / "undisturbed")
    for number in range(len(lengths)):
        bundle = tmp_path / str(number)
        other = head_of(task(undisturbed, str(bundle), name="node-a"))
    columns = "kind, ts_ns, pod, container, body"
    tables = [
        Counter(row for row in rows(*at, "records/", tmp_path, columns) if "ledger." not in row[0])
        for at in ((lake, head), (undisturbed, other))
    ]
    assert tables[0] == tables[1]


@pytest.mark.slow
@BUCKETS
def test_tasks_of_one_node_at_once_all_count(place: Place, tmp_path: Path) -> None:
    lake = f"{place.url}/lake"
    log = log_lines()
    parts = [log.index(b"\n", len(log) * part // 8) + 1 for part in (4, 6, 7)]
    urls = [
        place.put(f"in-{number}/node-a", write_bundle(tmp_path / f"{number}", log=log[:length]))
        for number, length in enumerate(parts)
    ]
    processes = [SPAWN.Process(target=task_elsewhere, args=(ours(), lake, url)) for url in urls]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode == 0
    head = check_whole(lake, tmp_path)
    assert head is not None
    assert head.sources[-1].nodes == 1
    for url in urls:
        again = task(lake, url)
        assert (head_of(again), again.changed) == (head, ())


@pytest.mark.slow
@BUCKETS
def test_a_repair_and_an_import_at_once_both_count(place: Place, tmp_path: Path) -> None:
    """Whichever is first: what was damaged is sound, what is new is there, nothing is left over."""
    lake = Lake.open_or_create(f"{place.url}/lake")
    log = log_lines()
    cut = log.index(b"\n", len(log) // 2) + 1
    first, second = (
        place.put(f"in-{number}/node-a", write_bundle(tmp_path / f"{number}", log=part))
        for number, part in enumerate((log[:cut], log[cut:]))
    )
    before = head_of(task(lake.store.url, first))
    for file in before.files:
        if file.path.startswith(("records", "verdicts")):
            lake.store.replace(file.path, b"x" * file.size_bytes)
    processes = [
        SPAWN.Process(target=task_elsewhere, args=(ours(), lake.store.url), kwargs=what)
        for what in ({"node": "node-a", "repair": "wholly"}, {"source": second})
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode == 0
    head = check_whole(lake.store.url, tmp_path)
    assert head is not None
    assert [each.url for each in head.sources] == [first, second]
    undisturbed = str(tmp_path / "undisturbed")
    for url in (first, second):
        alone = head_of(task(undisturbed, url))
    assert (head.summary.chain, head.summary.match) == (alone.summary.chain, alone.summary.match)
    rooms = (*ROW_ROOMS, "nodes", "ledgers", "done")
    left = {each.path for room in rooms for each in lake.store.list(room)}
    assert left == {file.path for file in head.files} | {done_path("node-a", head.id)}


class _Moody(http.server.BaseHTTPRequestHandler):
    """In front of an S3 server: every other request fails, and bodies end early."""

    protocol_version = "HTTP/1.1"
    behind: tuple[str, int] = ("127.0.0.1", 0)
    seen: Counter[str] = Counter()
    always = False
    refusals = 1
    lock = threading.Lock()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = f"{self.command} {self.path}"
        with self.lock:
            self.seen[key] += 1
            time_of_asking = self.seen[key]
        if self.always or time_of_asking <= self.refusals:
            self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
            return
        connection = http.client.HTTPConnection(*self.behind, timeout=PATIENCE_S)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        is_body = self.command == "GET" and len(content) > 1
        if is_body and time_of_asking == self.refusals + 1:
            self._answer(answer.status, answer.getheaders(), content, half=True)
            self.close_connection = True
        else:
            self._answer(answer.status, answer.getheaders(), content)
        connection.close()

    do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = _pass_on

    def _answer(
        self, status: int, headers: list[tuple[str, str]], content: bytes, *, half: bool = False
    ) -> None:
        self.send_response(status)
        left_out = {"connection", "transfer-encoding", "date", "server"}
        if self.command != "HEAD":
            left_out.add("content-length")
            self.send_header("Content-Length", str(len(content)))
        for name, value in headers:
            if name.lower() not in left_out:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if half else content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def moody(
    bucket: Place, s3_server: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> Iterator[type[_Moody]]:
    handler = type("Handler", (_Moody,), {"behind": s3_server, "seen": Counter(), "always": False})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE_S)


@pytest.mark.slow
def test_storage_that_fails_now_and_then_only_costs_time(
    moody: type[_Moody], bucket: Place, tmp_path: Path
) -> None:
    """Each request is answered by 503 first, and the first body of each object ends early."""
    bundle = write_bundle(tmp_path / "node-a")
    lake = f"{bucket.url}/lake"
    head = head_of(task(lake, bucket.put("in/node-a", bundle)))
    assert head == check_whole(lake, tmp_path)
    assert min(count for key, count in moody.seen.items() if key.startswith("PUT")) >= 2
    local = head_of(task(str(tmp_path / "lake"), str(bundle)))
    assert head.summary.chain == local.summary.chain


def test_not_how_often_but_how_long_storage_fails_decides(
    moody: type[_Moody], bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty refusals in a row are nothing, when the twenty-first request comes in time."""
    monkeypatch.setattr("kubeledger.remote.store._PAUSES_S", (0.001, 0.02))
    moody.refusals = 20
    store = Store(bucket.url)
    store.replace("x", b"content")
    assert store.get("x") == b"content"
    assert moody.seen == {f"PUT /{bucket.url[5:]}/x": 21, f"GET /{bucket.url[5:]}/x": 22}
    monkeypatch.setattr("kubeledger.remote.store.RETRY_S", 0.3)
    moody.seen.clear()
    moody.always = True
    with pytest.raises(StorageError, match="503"):
        Store(bucket.url).get("x")


def test_storage_that_does_not_answer_is_told(
    moody: type[_Moody], bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = bucket.put("in/node-a", write_bundle(tmp_path / "node-a"))
    monkeypatch.setattr("kubeledger.remote.store.RETRY_S", 0.3)
    moody.always = True
    failure = task(f"{bucket.url}/lake", url).failure
    assert failure is not None
    assert failure.kind == "storage"
    assert "503" in failure.reason
    assert "Signature" not in failure.reason


def test_storage_that_takes_long_is_told_of_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits knows for what, and for how long; the end is told without the client's limits."""
    told, echo, get = threading.Event(), click.echo, obstore.get

    def tells(text: str, *, err: bool) -> None:
        echo(text, err=err)
        told.set()

    def fails_then(store: ObjectStore, path: str) -> "obstore.GetResult":
        try:
            return get(store, path)
        finally:
            assert told.wait(PATIENCE_S)

    monkeypatch.setattr("kubeledger.cli.fleet.click.echo", tells)
    monkeypatch.setattr(obstore, "get", fails_then)
    with socket.socket() as nobody:  # bound, and not listening: nobody else does
        nobody.bind(("127.0.0.1", 0))
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{nobody.getsockname()[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "hidden",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("kubeledger.remote.store.RETRY_S", 1.0)
        monkeypatch.setattr("kubeledger.cli.fleet._AFTER_S", 0.2)
        monkeypatch.setattr("kubeledger.cli.fleet._LOOK_S", 0.05)
        words = ["fleet", "sql", "--lake", "s3://bucket/lake", "SELECT 1"]
        result = run(*words)
    assert result.exit_code == 4
    reported = result.stderr.splitlines()
    assert [line for line in reported if line.startswith("waiting")] == [reported[0]]
    assert reported[0].endswith("s3://bucket/lake/lake.json; what fails is retried for 1 s")
    assert "max_retries" not in result.stderr
    assert result.stdout == ""
