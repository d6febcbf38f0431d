"""What the page says it drew, in a real browser: rows, headlines, keys, hostile names, paper."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from kubeledger.analyze.headlines import Headline
from kubeledger.analyze.sql.api import connect
from kubeledger.timeline.drawing import Drawing, Row, Section
from kubeledger.timeline.page import Block, write_page
from tests.marks import slow
from tests.timeline.browser import Browser

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.parametrize("name", ["node-a", *slow("node-b", "node-e-evictions")])
def test_a_page_is_drawn_without_a_request_or_a_complaint(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    """Every page opens from disk, clean, and every problem's mark is a record of the ledger."""
    browser.open(pages[name])
    drawn = browser.ask("kubeledger.drawn()")
    assert drawn
    assert browser.complaints() == []
    assert browser.requests() == []
    assert all(item["end_ns"] >= item["start_ns"] for item in drawn)


def test_what_is_drawn_is_what_the_views_say(
    browser: Browser, pages: dict[str, Path], ledgers: dict[str, Path]
) -> None:
    """Each preemption, refusal and probe kill of node-a stands on the page, at its time."""
    browser.open(pages["node-a"])
    drawn = {
        (item["kind"], item["seq"]): item["start_ns"] for item in browser.ask("kubeledger.drawn()")
    }
    wanted = (
        ("preempted", "SELECT seq, epoch_ns(ts) FROM preemptions"),
        ("refused", "SELECT seq, epoch_ns(ts) FROM admissions WHERE NOT admitted"),
        ("killed", "SELECT seq, epoch_ns(ts) FROM container_kills WHERE reason = 'liveness_probe'"),
    )
    with connect(ledgers["node-a"]) as queryable:
        for kind, query in wanted:
            rows = queryable.sql(query).fetchall()
            assert rows
            for seq, ts_ns in rows:
                assert abs(drawn[kind, seq] - ts_ns) < 2000


def test_headlines_say_what_went_wrong(browser: Browser, pages: dict[str, Path]) -> None:
    """Preemptions before probes, no more than eight, and each opens the record it names."""
    browser.open(pages["node-a"])
    headlines = browser.ask("kubeledger.headlines()")
    assert len(headlines) <= 8
    assert headlines[0].startswith("kube-system/critical-1 preempted filler-c, gpu-a")
    assert "default/live-fail/app killed 9× by its liveness probe, back-off 80 s" in headlines
    browser.driver.find_elements(By.CSS_SELECTOR, "#headlines button")[0].click()
    browser.wait("return document.querySelector('#pane h2')?.textContent.includes('PodPreempted')")


def test_a_record_shows_its_verdict_cause_and_evidence(
    browser: Browser, pages: dict[str, Path], ledgers: dict[str, Path]
) -> None:
    with connect(ledgers["node-a"]) as queryable:
        ((seq, line),) = queryable.sql(
            "SELECT p.seq, min(source_line) FROM preemptions p JOIN evidence USING (node, seq)"
            " WHERE victim_pod = 'filler-c' GROUP BY p.seq"
        ).fetchall()
    browser.open(pages["node-a"], f"#seq={seq}")
    browser.wait("return document.querySelector('#pane h2') !== null")
    text = browser.driver.find_element(By.ID, "pane").text
    assert text.startswith(f"#{seq} preemption.PodPreempted")
    assert "match" in text
    assert "pkg/kubelet/preemption getPodsToPreempt" in text
    assert f"kubelet.log:{line}" in text
    assert browser.ask("kubeledger.goto(arguments[0])", 1_000_000) is False


OPEN = "document.querySelector('#pane h2')?.textContent.split(' ')[0]"


@pytest.mark.parametrize("name", ["node-a", *slow("node-b")])
def test_n_and_p_step_through_all_that_went_wrong(
    browser: Browser, pages: dict[str, Path], ledgers: dict[str, Path], name: str
) -> None:
    """Each once, in the order of time, and back; a rejected pod has a bar and a mark of it."""
    with connect(ledgers[name]) as queryable:
        rows = queryable.sql(
            "SELECT seq FROM problems WHERE severity > 0"
            " UNION ALL SELECT seq FROM verdicts WHERE verdict = 'impossible' AND NOT inferred"
        ).fetchall()
    browser.open(pages[name])
    listed = browser.ask("kubeledger.problems()")
    assert {seq for (seq,) in rows} <= {each["seq"] for each in listed}
    assert [each["ns"] for each in listed] == sorted(each["ns"] for each in listed)
    seen = []
    for each in listed[:25]:
        browser.press("n")
        browser.wait(f"return {OPEN} === '#{each['seq']}'")
        seen.append(browser.ask("kubeledger.cursor_ns()"))
    assert all(abs(ns - each["ns"]) < 2000 for ns, each in zip(seen, listed, strict=False))
    for each in listed[:24][::-1]:
        browser.press("p")
        browser.wait(f"return {OPEN} === '#{each['seq']}'")
    browser.press("p")
    browser.frame()
    assert browser.ask(OPEN) == f"#{listed[0]['seq']}"


def test_n_begins_where_one_looks(browser: Browser, pages: dict[str, Path]) -> None:
    """At the first in the window, or after the cursor; p at the last in it."""
    browser.open(pages["node-a"])
    listed = browser.ask("kubeledger.problems()")
    browser.press("p")
    browser.wait(f"return {OPEN} === '#{listed[-1]['seq']}'")
    browser.open(pages["node-a"])
    browser.press("+", "+")
    browser.frame()
    begin = browser.ask("kubeledger.window_ns()[0]")
    first = next(each for each in listed if each["ns"] >= begin)
    assert first != listed[0]
    browser.press("n")
    browser.wait(f"return {OPEN} === '#{first['seq']}'")


@pytest.mark.parametrize("name", ["node-a", *slow("node-b", "node-e-evictions")])
def test_a_headline_opens_the_moment_that_it_names(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name])
    buttons = browser.driver.find_elements(By.CSS_SELECTOR, "#headlines button")
    for button in buttons:
        button.click()
        browser.frame()
        (named,) = re.findall(r"\d\d:\d\d:\d\d", button.text)[:1]
        base = "new Date(kubeledger.cursor_ns() / 1e6).toISOString().slice(11, 19)"
        assert browser.ask(base) == named


def test_keys_move_zoom_and_step(browser: Browser, pages: dict[str, Path]) -> None:
    """Plus zooms in, 0 shows all, n steps through what went wrong, slash searches."""
    browser.open(pages["node-a"])
    everything = len(browser.ask("kubeledger.drawn()"))
    browser.press("+", "+", "+", "+", Keys.ARROW_RIGHT)
    browser.frame()
    assert len(browser.ask("kubeledger.drawn()")) < everything
    browser.press("0")
    browser.frame()
    assert len(browser.ask("kubeledger.drawn()")) == everything
    browser.press("n")
    browser.wait("return document.querySelector('#pane h2') !== null")
    first = browser.ask("location.hash")
    browser.press("n")
    browser.wait(f"return location.hash !== '{first}'")
    browser.press("/")
    browser.press(*"gpu-2")
    browser.wait("return document.querySelectorAll('#found button').length > 0")
    assert browser.ask("document.activeElement.id") == "search"
    assert browser.ask("kubeledger.find('gpu-2')")[0]["row"] == "gpu-2"
    found = [(item["kind"], item["row"]) for item in browser.ask("kubeledger.find('gpu')")]
    kinds = [kind if kind in {"row", "headline"} else "item" for kind, _ in found]
    assert kinds == sorted(kinds, key=["row", "headline", "item"].index)
    assert len(set(kinds)) == 3


def test_the_cursor_shows_each_rows_state(browser: Browser, pages: dict[str, Path]) -> None:
    """Records in view stand in a table for those who cannot see the canvas."""
    browser.open(pages["node-a"])
    browser.wait("return document.querySelectorAll('#listed tr').length > 20")
    assert "preempted" in browser.ask("document.getElementById('listed').textContent")
    label = browser.driver.find_element(By.ID, "rows").get_attribute("aria-label")
    assert label is not None
    assert "arrows" in label


def test_dark_colours_differ_and_complain_of_nothing(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["node-a"])
    canvas = "document.getElementById('rows').toDataURL()"
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.dark(False)
    light = browser.ask(canvas)
    assert browser.ask(paper) == "rgb(255, 255, 255)"
    browser.dark(True)
    assert browser.ask(paper) == "rgb(13, 17, 23)"
    assert browser.ask(canvas) != light
    browser.dark(False)
    assert browser.ask(canvas) == light
    assert browser.complaints() == []


def test_paper_gets_every_row_as_svg(browser: Browser, pages: dict[str, Path]) -> None:
    """Printing draws all unfolded rows, also those below the screen, at paper width."""
    browser.open(pages["node-e-evictions"])
    pdf = browser.driver.execute_cdp_cmd("Page.printToPDF", {"landscape": True})
    assert len(pdf["data"]) > 20_000
    texts = browser.ask(
        "[...document.querySelectorAll('#paper svg text')].map((each) => each.textContent)"
    )
    rows = browser.ask(
        "JSON.parse(document.getElementById('drawing').textContent).nodes[0].rows.length"
    )
    assert len(texts) > rows / 2
    boxes = browser.ask(
        "[...document.querySelectorAll('#paper svg')].map((each) => each.getAttribute('viewBox'))"
    )
    sizes = [tuple(map(float, box.split()[2:])) for box in boxes]
    assert len(sizes) > 1
    assert {width for width, _ in sizes} == {1100}
    assert max(height for _, height in sizes) <= 740


def test_keys_walk_along_a_row(browser: Browser, pages: dict[str, Path]) -> None:
    """Brackets go from record to record of the row, and f folds its section."""
    browser.open(pages["node-a"])
    kills = [item for item in browser.ask("kubeledger.drawn()") if item["kind"] == "killed"]
    first, second = [item["seq"] for item in kills if item["row"] == "default/live-fail/app"][:2]
    browser.ask("kubeledger.goto(arguments[0])", first)
    seen = set()
    for _ in range(8):
        browser.press("]")
        seen.add(int(browser.ask("location.hash.slice(5)")))
    assert second in seen
    browser.press("f")
    browser.frame()
    assert not [item for item in browser.ask("kubeledger.drawn()") if item["kind"] == "killed"]


def test_a_narrow_window_scrolls(browser: Browser, pages: dict[str, Path]) -> None:
    """Chart and pane stand below one another, neither over the other."""
    size = {"width": 880, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open(pages["node-a"])
        places = browser.ask(
            "['headlines', 'chart', 'pane', 'legend'].map((id) => {"
            " const box = document.getElementById(id).getBoundingClientRect();"
            " return [box.top, box.bottom]; })"
        )
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for (_, above), (below, _) in pairwise(places):
        assert above <= below + 1
    assert places[1][1] - places[1][0] >= 300


# Names and lines that would like to be HTML, scripts or the end of one.


EVIL = "</script><img src=x onerror='document.title=1'><!--<script>${drawing}"
TURNED = "web\u202egpj.exe\u0007"


def hostile_drawings(nodes: int = 1) -> list[Drawing]:
    row = Row(label=EVIL, note=TURNED)
    row.bar("running", 0, None, EVIL, 1)
    row.mark("killed", 10**9, TURNED, 2)
    ticks = Row(label=EVIL, shape="ticks")
    ticks.mark("tick_failure", 5 * 10**8, EVIL, 3)
    return [
        Drawing(
            node=f"{EVIL}{index or ''}",
            versions=[EVIL],
            start_ns=0,
            end_ns=2 * 10**9,
            verdict_counts={"match": 1},
            verdicts={2: "impossible"},
            sections=[Section(id="problems", title=EVIL, rows=[row, ticks])],
            arrows=[],
            headlines=[Headline(kind=EVIL, severity=5, text=EVIL, ts_ns=10**9, seq=2)],
        )
        for index in range(nodes)
    ]


def hostile_page(path: Path, nodes: int = 1) -> Path:
    with path.open("w", encoding="utf-8") as file:
        write_page(hostile_drawings(nodes), [list[Block]()] * nodes, file)
    return path


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    """Nothing is run, nothing is loaded, and what turns text around is shown as an escape."""
    browser.open(hostile_page(tmp_path / "evil.html"))
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.driver.find_elements(By.TAG_NAME, "img") == []
    assert browser.driver.title.startswith("</script><img")
    assert browser.driver.find_element(By.ID, "node").text == EVIL
    assert browser.ask("kubeledger.headlines()") == [EVIL]
    assert {item["label"] for item in browser.ask("kubeledger.drawn()")} == {EVIL, TURNED}
    browser.wait("return document.getElementById('listed').textContent.includes('\\\\u202e')")


def test_several_nodes_have_a_switch(browser: Browser, tmp_path: Path) -> None:
    browser.open(hostile_page(tmp_path / "one.html"))
    assert not browser.driver.find_element(By.ID, "nodes").is_displayed()
    browser.open(hostile_page(tmp_path / "two.html", nodes=2))
    switch = browser.driver.find_element(By.ID, "nodes")
    assert switch.is_displayed()
    switch.find_elements(By.TAG_NAME, "option")[1].click()
    assert browser.driver.find_element(By.ID, "node").text == f"{EVIL}1"
