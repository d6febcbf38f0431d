"""The served page: who is let in, and what it says of SQL, why, state, what-if and growth."""

import http.client
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from kubeledger.analyze.sql.api import connect, lingering
from kubeledger.cli.service import SharedBound
from kubeledger.cli.ui_answers import ROWS_MAX, Answers, Snapshot
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.timeline.page import payload_of
from kubeledger.timeline.server import HOST, Answer, Reply, Server, json_reply
from tests.analyze.sql.fixture_ledger import Story, write_ledger
from tests.recordings import extract
from tests.timeline.browser import Browser
from tests.timeline.test_page import EVIL, hostile_drawings
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.xdist_group("browser")

READY = "return Boolean(window.kubeledger && window.kubeledger.overlay)"


@contextmanager
def served(ledger: Path, more: dict[tuple[str, str], Answer] | None = None) -> Iterator[Server]:
    """A server of this process, until it is let go."""
    bugs: list[Exception] = []
    with (
        Answers(
            ledger, partial(connect, timeout_s=20, is_fixed=True), SharedBound(1 << 30, lingering)
        ) as answers,
        Server(0, {**answers.routes(), **(more or {})}, bugs.append) as server,
    ):
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(PATIENCE_S)
    assert all(isinstance(bug, ZeroDivisionError) for bug in bugs)


@pytest.fixture(scope="module")
def node_a(ledgers: dict[str, Path]) -> Iterator[Server]:
    with served(ledgers["node-a"], {("GET", "/api/bug"): broken}) as server:
        yield server


def broken(_: object) -> Reply:
    """An answer with a bug."""
    raise ZeroDivisionError("a secret of the program")


def ask(
    server: Server,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and content of one request, with the token unless ``headers`` say else."""
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=PATIENCE_S)
    try:
        connection.request(
            method or ("GET" if body is None else "POST"),
            path,
            None if body is None else json.dumps(body),
            {"X-Kubeledger-Token": server.token, **(headers or {})},
        )
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def answer(server: Server, path: str, body: object = None) -> Any:  # noqa: ANN401 # JSON
    status, _, content = ask(server, path, body)
    assert status == 200, content
    return json.loads(content)


def test_who_finds_no_room_for_a_thread_is_told(
    node_a: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("kubeledger.timeline.server.require_room", full)
        status, _, content = ask(node_a, "/api/queries")
    assert (status, json.loads(content)["error"]) == (503, "there is not enough memory")
    assert ask(node_a, "/api/queries")[0] == 200


def test_only_who_has_the_token_is_let_in(node_a: Server) -> None:
    """No token, another one, another host or page: refused before anything is read."""
    assert node_a.server_address[0] == "127.0.0.1"
    refused: list[tuple[str, dict[str, str]]] = [
        ("/", {"X-Kubeledger-Token": ""}),
        ("/?token=guessed", {"X-Kubeledger-Token": ""}),
        ("/api/drawing", {"X-Kubeledger-Token": ""}),
        (f"/api/drawing?token={node_a.token}", {"X-Kubeledger-Token": ""}),
        ("/api/drawing", {"X-Kubeledger-Token": "é"}),
        ("/api/drawing", {"Host": "node-a.example.com"}),
        ("/api/drawing", {"Host": f"evil.example.com:{node_a.server_port}"}),
        ("/api/drawing", {"Origin": "http://evil.example.com"}),
        ("/api/drawing", {"Origin": "null"}),
    ]
    for path, headers in refused:
        status, _, content = ask(node_a, path, headers=headers)
        assert status == 403, (path, headers)
        assert node_a.token.encode() not in content
    assert ask(node_a, f"/?token={node_a.token}", headers={"X-Kubeledger-Token": ""})[0] == 200


def test_only_known_paths_and_methods_are_answered(node_a: Server) -> None:
    """No directory, no file, no method but the one of the table, no body without end."""
    for path in ("/etc/passwd", "/../README.md", "/api/", "/api", "//x", "/static/page.css"):
        assert ask(node_a, path)[0] == 404, path
    assert ask(node_a, "/api/sql")[0] == 405
    assert ask(node_a, "/api/drawing", {})[0] == 405
    assert ask(node_a, "/api/drawing", method="DELETE")[0] == 501
    assert ask(node_a, "/?" + "a=1&" * 99)[0] == 400
    assert ask(node_a, "/api/sql", {}, {"Content-Length": "99999999999"})[0] in {411, 413}
    assert ask(node_a, "/api/sql", ["no object"])[0] == 400


def test_what_is_sent_may_not_be_framed_guessed_or_kept(node_a: Server) -> None:
    """Headers for every answer, and the page's own policy: it may ask its server only."""
    for path in (f"/?token={node_a.token}", "/api/queries", "/nothing"):
        _, headers, _ = ask(node_a, path)
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
    page = ask(node_a, f"/?token={node_a.token}")[2].decode()
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy


def test_errors_are_sentences(node_a: Server) -> None:
    """A bad question is refused as on the command line; of a bug the browser learns no more."""
    questions: list[tuple[str, object, str]] = [
        ("/api/sql", {"query": "DROP TABLE events"}, "only queries that read are allowed"),
        ("/api/sql", {"query": "SELECT * FROM read_csv('/etc/passwd')"}, "is not allowed"),
        ("/api/sql", {"query": " "}, "the query is empty"),
        ("/api/sql", {"query": 1}, "query is not a text"),
        ("/api/why?node=node-a&target=pod/default/none", None, "none"),
        ("/api/why?node=elsewhere&target=node", None, "no node 'elsewhere'"),
        *(
            (f"/api/state?node=node-a&at={at}", None, "at is not a whole number")
            for at in ("noon", "--1", "-", "1" * 20)
        ),
        ("/api/whatif", {"node": "node-a", "set": "maxPods=1|2"}, "several variants"),
        ("/api/whatif", {"node": "node-a", "set": "'"}, "cannot be split into words"),
        ("/api/whatif", {"node": "node-a", "set": "mxPods=1"}, "maxPods"),
        ("/api/whatif", {"node": "node-a", "set": "--set"}, "--set has no value"),
    ]
    for path, body, words in questions:
        status, _, content = ask(node_a, path, body)
        reported = json.loads(content)
        assert status == 400, path
        assert words in f"{reported['error']} {reported['advice']}"
    status, _, content = ask(node_a, "/api/bug")
    assert status == 500
    assert json.loads(content)["error"] == "bug in kubeledger"
    assert b"secret" not in content


def test_rows_are_limited_and_exact(node_a: Server) -> None:
    """A long result is cut, and says so; a large number is no float; NULL is not text."""
    rows = answer(node_a, "/api/sql", {"query": "SELECT 9007199254740993, NULL, 'x' FROM range(2)"})
    assert rows["rows"] == [["9007199254740993", None, "x"]] * 2
    assert not rows["truncated"]
    long = answer(node_a, "/api/sql", {"query": "FROM range(100000)"})
    assert len(long["rows"]) == ROWS_MAX
    assert long["truncated"]
    around = answer(
        node_a,
        "/api/sql",
        {
            "query": next(q for q in answer(node_a, "/api/queries") if q["name"] == "around")[
                "sql"
            ],
            "name": "around",
            "params": {"at": "2026-11-21T03:00:32Z", "seconds": ""},
        },
    )
    assert around["rows"]


@pytest.mark.skipif(sys.platform != "linux", reason="the operating system limits nothing")
def test_a_query_takes_no_more_memory_than_it_may(node_a: Server) -> None:
    """Also where DuckDB does not count it: 300 million numbers, folded while it plans."""
    status, _, content = ask(node_a, "/api/sql", {"query": "SELECT range(300000000)"})
    assert status == 400
    assert "Out of Memory" in json.loads(content)["error"]
    assert answer(node_a, "/api/sql", {"query": "SELECT 1"})["rows"] == [["1"]]


def open_page(browser: Browser, server: Server, fragment: str = "") -> None:
    """Open the served page and wait until it is drawn."""
    browser.driver.get("about:blank")
    browser.complaints()  # of a page whose server had ended
    browser.driver.get(server.url + fragment)
    browser.wait(READY)


def test_the_page_is_the_timelines_and_asks_its_server_only(
    browser: Browser, node_a: Server, pages: dict[str, Path]
) -> None:
    """The same picture as the file's; every request goes to the server, without complaints."""
    browser.open(pages["node-a"])
    drawn, headlines = browser.ask("kubeledger.drawn()"), browser.ask("kubeledger.headlines()")
    open_page(browser, node_a)
    assert browser.ask("kubeledger.headlines()") == headlines
    assert browser.complaints() == []
    assert all(
        name.startswith(f"http://{HOST}:{node_a.server_port}/") for name in browser.requests()
    )
    seen = {(each["kind"], each["seq"]) for each in browser.ask("kubeledger.drawn()")}
    assert seen <= {(each["kind"], each["seq"]) for each in drawn}
    assert len(seen) > len(drawn) / 4  # the dock's line makes the chart lower


def test_a_record_is_fetched_when_it_is_asked_for(
    browser: Browser, node_a: Server, ledgers: dict[str, Path]
) -> None:
    """A link to a record opens it; one click more explains it, as of the cursor."""
    with connect(ledgers["node-a"]) as queryable:
        ((seq,),) = queryable.sql(
            "SELECT seq FROM preemptions WHERE victim_pod = 'gpu-a'"
        ).fetchall()
    open_page(browser, node_a, f"#seq={seq}")
    browser.wait("return document.querySelector('#pane h2 button') !== null")
    assert f"#{seq} preemption.PodPreempted" in browser.driver.find_element(By.ID, "pane").text
    assert browser.ask("kubeledger.goto(arguments[0])", 10**6) is False
    browser.ask("kubeledger.goto(arguments[0])", seq)
    browser.driver.find_element(By.CSS_SELECTOR, "#pane h2 button").click()
    browser.wait("return document.querySelector('#panel-why .evidence') !== null")
    text = browser.driver.find_element(By.ID, "panel-why").text
    assert "as of 2026-11-21 03:00:32" in text
    assert "critical-1" in text
    assert "kubelet.log:" in text


def test_the_state_is_that_of_the_cursor(
    browser: Browser, node_a: Server, ledgers: dict[str, Path]
) -> None:
    """Before the preemption gpu-a runs and holds its devices; the table follows the cursor."""
    with connect(ledgers["node-a"]) as queryable:
        ((before, after),) = queryable.sql(
            "SELECT (SELECT max(seq) FROM admissions WHERE pod = 'gpu-a'), max(seq)"
            " FROM preemptions"
        ).fetchall()
    open_page(browser, node_a)
    browser.ask("kubeledger.goto(arguments[0])", before)
    browser.driver.find_element(By.ID, "tab-state").click()
    browser.wait("return document.querySelector('#panel-state table') !== null")
    first = browser.driver.find_element(By.ID, "panel-state").text
    assert "critical-1" not in first
    browser.ask("kubeledger.goto(arguments[0])", after)
    browser.wait("return document.querySelector('#panel-state').textContent.includes('critical-1')")


def test_sql_is_run_and_refused_in_the_page(browser: Browser, node_a: Server) -> None:
    """A shipped query by a choice, a row's record by its link, a refusal in its own words."""
    open_page(browser, node_a)
    browser.driver.find_element(By.ID, "tab-sql").click()
    browser.wait("return document.querySelectorAll('#panel-sql option').length > 10")
    browser.driver.find_element(By.CSS_SELECTOR, "#panel-sql option[value=preemptions]").click()
    browser.wait("return document.querySelectorAll('#panel-sql tbody tr').length === 2")
    browser.driver.find_element(By.CSS_SELECTOR, "#panel-sql tbody a").click()
    browser.wait("return document.querySelector('#pane h2')?.textContent.includes('PodPreempted')")
    box = browser.driver.find_element(By.CSS_SELECTOR, "#panel-sql textarea")
    box.clear()
    box.send_keys("DELETE FROM events", Keys.CONTROL, Keys.ENTER)
    browser.wait("return document.querySelector('#panel-sql [role=alert]') !== null")
    reported = browser.driver.find_element(By.CSS_SELECTOR, "#panel-sql [role=alert]").text
    assert "only queries that read are allowed" in reported
    assert "write one SELECT" in reported
    (refusal,) = browser.complaints()  # the browser's own words
    assert "400" in refusal


def test_the_address_holds_a_query_and_a_moment(browser: Browser, node_a: Server) -> None:
    """Whoever is sent it sees the same; what is asked next takes its place."""
    query = "SELECT DISTINCT victim_pod FROM preemptions WHERE victim_pod LIKE '%-%' ORDER BY 1"
    open_page(browser, node_a, f"#at=2026-11-21T03:00:32Z&sql={quote(query)}")
    browser.wait("return document.querySelectorAll('#panel-sql tbody tr').length === 2")
    browser.driver.find_element(By.ID, "tab-why").click()
    assert "as of 2026-11-21 03:00:32" in browser.driver.find_element(By.ID, "panel-why").text
    browser.driver.find_element(By.ID, "tab-sql").click()
    box = browser.driver.find_element(By.CSS_SELECTOR, "#panel-sql textarea")
    box.clear()
    box.send_keys("SELECT 7 AS n", Keys.CONTROL, Keys.ENTER)
    browser.wait(
        "return new URLSearchParams(location.hash.slice(1)).get('sql') === 'SELECT 7 AS n'"
    )


def test_rows_are_taken_as_csv(browser: Browser, node_a: Server) -> None:
    open_page(browser, node_a)
    browser.ask("(HTMLAnchorElement.prototype.click = () => {})")  # nothing is saved
    browser.ask("(URL.createObjectURL = (blob) => { window.saved = blob; return '#'; })")
    browser.driver.find_element(By.ID, "tab-sql").click()
    box = browser.driver.find_element(By.CSS_SELECTOR, "#panel-sql textarea")
    query = "SELECT 'say \"x\", y' AS a, NULL AS b, '=1+1' AS c, -5 AS d, '-x' AS e"
    box.send_keys(query, Keys.CONTROL, Keys.ENTER)
    browser.wait("return document.querySelector('#panel-sql .hint .ask') !== null")
    browser.driver.find_element(By.CSS_SELECTOR, "#panel-sql .hint .ask").click()
    browser.wait("return window.saved !== undefined")
    assert browser.ask("window.saved.text()") == ('a,b,c,d,e\r\n"say ""x"", y",,\'=1+1,-5,\'-x\r\n')


def test_what_would_not_have_been_is_crossed_out(browser: Browser, node_a: Server) -> None:
    """Under a higher threshold no image would have been deleted: each deletion's mark says so."""
    open_page(browser, node_a)
    browser.driver.find_element(By.ID, "tab-whatif").click()
    box = browser.driver.find_element(By.CSS_SELECTOR, "#panel-whatif input")
    box.send_keys("imageGCHighThresholdPercent=95", Keys.ENTER)
    browser.wait("return kubeledger.overlay().length > 0")
    gone = [each for each in browser.ask("kubeledger.overlay()") if each["change"] == "gone"]
    deleted = [each for each in gone if each["kind"] == "images.ImageDeleted"]
    assert len(deleted) == 8
    rows = {each["seq"]: each["row"] for each in browser.ask("kubeledger.find('del')")}
    assert {each["seq"]: each["row"] for each in deleted} == {
        each["seq"]: rows[each["seq"]] for each in deleted
    }
    text = browser.driver.find_element(By.ID, "panel-whatif").text
    assert "Would not have happened: 8× image deleted" in text
    legend = browser.driver.find_element(By.ID, "legend").text
    assert "what if: would not have happened" in legend
    browser.driver.find_element(By.XPATH, "//button[text()='Clear']").click()
    assert browser.ask("kubeledger.overlay()") == []


def test_what_cannot_be_decided_is_marked_and_named(node_a: Server) -> None:
    """Another version needs inputs that a log of this one does not hold: named mark by mark."""
    reported = answer(node_a, "/api/whatif", {"node": "node-a", "set": "--kubelet-version 1.34.1"})
    marks = [each for each in reported["marks"] if each["change"] == "undecided"]
    assert marks
    assert len(marks) == reported["unknown"]
    named = " ".join(reported["summary"])
    assert "Not decided, because it is not known: " in named
    for each in marks:
        assert any(what in named for what in each["why"].removeprefix("not known: ").split(", "))


@pytest.mark.slow
def test_what_would_not_have_followed_is_crossed_out_too(
    browser: Browser, ledgers: dict[str, Path]
) -> None:
    """An eviction that would not have been ends no container; what cannot be decided is named."""
    with served(ledgers["node-e-evictions"]) as server:
        reported = answer(
            server, "/api/whatif", {"node": "node-e", "set": "evictionHard.memory.available=5%"}
        )
        changes = {each["seq"]: each for each in reported["marks"]}
        evicted = [
            seq
            for seq, each in changes.items()
            if (each["kind"], each["change"]) == ("lifecycle.PodEvicted", "gone")
        ]
        killed = answer(
            server,
            "/api/sql",
            {
                "query": "SELECT seq FROM events WHERE kind = 'lifecycle.ContainerKilled'"
                " AND list_contains($evicted::BIGINT[], cause_seq)",
                "params": {"evicted": str(evicted)},
            },
        )["rows"]
        assert evicted
        assert killed
        assert {changes[int(seq)]["change"] for (seq,) in killed} == {"follows"}
        assert sum(each["change"] == "follows" for each in reported["marks"]) >= len(killed)
        open_page(browser, server)
        browser.driver.find_element(By.ID, "tab-whatif").click()
        box = browser.driver.find_element(By.CSS_SELECTOR, "#panel-whatif input")
        box.send_keys("evictionHard.memory.available=5%", Keys.ENTER)
        browser.wait("return kubeledger.overlay().length > 0")
        drawn = {
            (each["seq"], each["change"]): each["row"]
            for each in browser.ask("kubeledger.overlay()")
        }
        doubted = {each["seq"] for each in browser.ask("kubeledger.overlay()") if each["untrusted"]}
        assert doubted == {seq for seq, each in changes.items() if each.get("untrusted_since")}
        rows = [drawn[seq, changes[seq]["change"]] for seq in evicted]
        assert all(rows)


@pytest.mark.slow
def test_a_ledger_that_grows_is_followed(browser: Browser, tmp_path: Path) -> None:
    """What is imported while the page is open is drawn; where one looks and the record stay."""
    whole = extract("node-a", tmp_path / "whole")
    early = tmp_path / "early"
    shutil.copytree(whole, early)
    log = next(early.rglob("kubelet.log"))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(early)], ledger)
    with served(ledger.path) as server:
        open_page(browser, server)
        etag = ask(server, "/api/drawing")[1]["ETag"]
        assert ask(server, "/api/drawing", headers={"If-None-Match": etag})[::2] == (304, b"")
        browser.press("+", "+")
        browser.ask("kubeledger.goto(5)")
        browser.wait("return document.querySelector('#pane h2') !== null")
        shown = browser.driver.find_element(By.CSS_SELECTOR, "#pane h2").text
        count = len(browser.ask("kubeledger.find('liveness')"))
        import_sources([str(whole)], ledger)
        browser.wait(
            "return document.getElementById('following').textContent.includes('has grown')"
        )
        browser.frame()
        assert len(browser.ask("kubeledger.find('liveness')")) > count
        assert browser.driver.find_element(By.CSS_SELECTOR, "#pane h2").text == shown
        assert ask(server, "/api/drawing", headers={"If-None-Match": etag})[0] == 200


def test_a_ledger_that_grows_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the grown ledger is verified and drawn, the state before answers everything."""
    story = Story("node-a")
    story.add(KubeletStarted(pid=7, kubelet_version="1.36.2", version_source="log"))
    ledger = write_ledger(tmp_path, story.records)
    draw, begun, go_on = Snapshot.draw, Event(), Event()

    def slow(snapshot: Snapshot) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        draw(snapshot)

    with served(ledger) as server:

        def counted() -> str:
            query = {"query": "SELECT count(*) FROM events JOIN verdicts USING (node)"}
            return str(answer(server, "/api/sql", query)["rows"][0][0])

        def drawing() -> int:
            return ask(server, "/api/drawing", headers={"If-None-Match": etag})[0]

        etag = ask(server, "/api/drawing")[1]["ETag"]
        monkeypatch.setattr(Snapshot, "draw", slow)
        story.add(PodAdmitted(namespace="default", pod="web", pod_uid="uid-1"))
        write_ledger(tmp_path, story.records)
        until(lambda: drawing() == 304 and begun.is_set())
        assert (counted(), drawing()) == ("0", 304)
        assert answer(server, "/api/records?node=node-a&seq=1")
        go_on.set()
        until(lambda: drawing() == 200)
        assert counted() == "2"
        monkeypatch.setattr(Snapshot, "draw", broken)
        story.add(PodAdmitted(namespace="default", pod="web", pod_uid="uid-2"))
        write_ledger(tmp_path, story.records)
        etag = ask(server, "/api/drawing")[1]["ETag"]
        until(lambda: drawing() == 500)
        assert counted() == "2"


def test_what_if_takes_a_configuration(browser: Browser, node_a: Server, tmp_path: Path) -> None:
    """A file that the page sends along, judged as on the command line."""
    body = {"node": "node-a", "set": "", "config": {"name": "x.yaml", "text": "kind: Pod"}}
    status, _, content = ask(node_a, "/api/whatif", body)
    assert (status, b"is no KubeletConfiguration" in content) == (400, True)
    assert ask(node_a, "/api/whatif", {**body, "config": "x.yaml"})[0] == 400
    file = tmp_path / "other.yaml"
    file.write_text("kind: KubeletConfiguration\nimageGCHighThresholdPercent: 95\n")
    open_page(browser, node_a)
    browser.driver.find_element(By.ID, "tab-whatif").click()
    browser.driver.find_element(By.ID, "config").send_keys(str(file))
    browser.wait("return kubeledger.overlay().length > 0")
    kinds = {each["kind"] for each in browser.ask("kubeledger.overlay()")}
    assert "images.ImageDeleted" in kinds
    assert "other.yaml" in browser.driver.find_element(By.CSS_SELECTOR, "#panel-whatif h3").text
    browser.driver.find_element(By.XPATH, "//button[text()='Clear']").click()
    assert browser.ask("document.getElementById('config').value") == ""


def test_hostile_answers_stay_text(browser: Browser, ledgers: dict[str, Path]) -> None:
    """Whatever a ledger's texts hold, in every panel: nothing is run, nothing is loaded."""
    (node,) = hostile_drawings()
    record = {"seq": 2, "time": EVIL, "kind": EVIL, "role": EVIL, "about": EVIL, "why": EVIL}
    links = {"cause": [{"seq": 1, "text": EVIL}], "effects": [], "verdict": "match"}
    piece = {"number": 1, "seq": 1, "ts_ns": 1, "file": EVIL, "line": 1, "text": EVIL}
    mark = {"seq": 2, "ts_ns": "1", "subject": EVIL, "change": "gone", "instead": EVIL}
    pod = {"name": EVIL, "namespace": EVIL, "phase": EVIL, "containers": {}}
    answers: dict[tuple[str, str], object] = {
        ("GET", "/api/drawing"): payload_of([node]),
        ("GET", "/api/records"): [record | links | {"evidence": [piece]}],
        ("GET", "/api/queries"): [
            {"name": "q", "title": EVIL, "doc": EVIL, "parameters": [], "sql": EVIL}
        ],
        ("POST", "/api/sql"): {
            **{"columns": [EVIL], "types": ["VARCHAR"], "rows": [[EVIL]], "ms": 1},
            "truncated": False,
        },
        ("GET", "/api/why"): {
            "sentence": EVIL,
            "evidence": [piece | {"subject": EVIL, "summary": EVIL}],
        },
        ("GET", "/api/state"): {
            **{"seq": 1, "pods": {EVIL: pod}, "devices": {"holders": {}}, "probes": {}},
            "counts": {EVIL: 1},
        },
        ("POST", "/api/whatif"): {
            "variant": EVIL,
            "summary": [EVIL],
            "marks": [mark | {"kind": EVIL, "why": EVIL}],
        },
    }
    fixed = {route: fixed_answer(value) for route, value in answers.items()}
    with served(ledgers["node-a"], fixed) as server:
        open_page(browser, server, "#seq=2")
        browser.wait("return document.querySelector('#pane h2 button') !== null")
        for panel, act in (
            ("sql", "option[value=q]"),
            ("why", "button"),
            ("state", "table"),
            ("whatif", "button.primary"),
        ):
            browser.driver.find_element(By.ID, f"tab-{panel}").click()
            browser.wait(f"return document.querySelector('#panel-{panel} {act}') !== null")
            browser.driver.find_element(By.CSS_SELECTOR, f"#panel-{panel} {act}").click()
            browser.wait(
                f"return document.querySelector('#panel-{panel} .result').textContent"
                ".includes('</script><img')"
            )
        assert browser.driver.find_elements(By.TAG_NAME, "img") == []
        assert browser.driver.title.startswith("</script><img")
        assert browser.complaints() == []


def fixed_answer(value: object) -> Answer:
    return lambda _: json_reply(value)


@pytest.mark.slow
def test_the_command_ends_cleanly(ledgers: dict[str, Path]) -> None:
    """It says where it listens; Ctrl-C ends it, also while a query runs."""
    command = [sys.executable, "-m", "kubeledger", "ui", str(ledgers["node-a"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first, url = process.stdout.readline().decode(), process.stdout.readline().decode().strip()
        assert first.startswith("node-a: ")
        port, token = int(url.split(":")[2].split("/")[0]), url.partition("token=")[2]
        connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
        query = json.dumps({"query": "SELECT count(*) FROM range(1000000000000)"})
        connection.request("POST", "/api/sql", query, {"X-Kubeledger-Token": token})
        connection.sock.settimeout(2)
        with pytest.raises(TimeoutError):  # it runs
            connection.sock.recv(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""
        connection.close()
