"""Names and lines that would like to be HTML, scripts or the end of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from kubeledger.analyze.headlines import Headline
from kubeledger.timeline.drawing import Drawing, Row, Section
from kubeledger.timeline.page import Block, write_page
from tests.timeline.browser import Browser

pytestmark = pytest.mark.xdist_group("browser")

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
