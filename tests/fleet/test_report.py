"""The fleet's page: the lake's numbers, what stands out, and what a real browser makes of it."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from selenium.webdriver.common.keys import Keys

from kubeledger.analyze.sql.api import connect
from kubeledger.cli.main import cli
from kubeledger.fleet.report.collect import FleetFacts, collect
from kubeledger.fleet.report.columns import EXCESS_MIN, POOL_MIN, outstanding
from kubeledger.fleet.report.page import fleet_page
from tests.fleet.fleets import made_up_fleet, node_facts
from tests.timeline.browser import Browser
from tests.timeline.test_page import EVIL, TURNED

# --- what stands out ----------------------------------------------------------------------

_NODES = st.lists(st.tuples(st.integers(0, 500), st.floats(0, 100)), min_size=1, max_size=40)


@given(_NODES)
def test_only_what_is_far_above_stands_out(nodes: list[tuple[int, float]]) -> None:
    """Never in a small pool, without exposure, or by one or two events; never half of a pool."""
    counts, exposures = [count for count, _ in nodes], [size for _, size in nodes]
    found = outstanding(counts, exposures)
    compared = sum(size > 0 for size in exposures)
    assert len(found) == len(nodes)
    assert sum(each is not None for each in found) * 2 <= compared
    assert compared >= POOL_MIN or not any(found)
    for count, size, each in zip(counts, exposures, found, strict=True):
        assert each is None or (size > 0 and count - each.expected >= EXCESS_MIN)


def test_chance_does_not_stand_out_and_trouble_does() -> None:
    """Counts of equal rates scatter; a node with five times as many does not belong to them."""
    counts = [16, 20, 25, 18, 22, 19, 21, 100, 40]
    found = outstanding(counts, [24.0] * 8 + [48.0])
    assert [each is not None for each in found] == [False] * 7 + [True, False]
    assert found[7] is not None
    assert found[7].expected == 20  # the median of 16, 18, 19, 20, 20, 21, 22, 25 and 100
    rare = outstanding([0, 0, 0, 0, 1, 2, 5], [24.0] * 7)
    assert [each is not None for each in rare] == [False] * 6 + [True]


# --- from a lake --------------------------------------------------------------------------


_BY_VIEWS = {
    "evictions": "(SELECT DISTINCT coalesce(pod_uid, pod) FROM evictions)",
    "oom_kills": "oom_kills",
    "probe_kills": "container_kills"
    " WHERE reason IN ('liveness_probe', 'startup_probe', 'post_start_hook')",
    "preempted": "preemptions WHERE evicted IS DISTINCT FROM false",
    "refused": "admissions WHERE NOT admitted",
    "restarts": "container_restarts",
    "deletions": "image_gc_deletions",
    "kubelet_restarts": "kubelet_starts WHERE restart",
    "kubelet_deaths": "kubelet_starts WHERE exit_reason <> 'stopped'",
    "impossible": "verdicts WHERE verdict = 'impossible'",
    "unverifiable": "verdicts WHERE verdict = 'unverifiable' AND NOT inferred",
    "stuck": "problems WHERE kind = 'stuck'",
    "crashes": "problems WHERE kind = 'crashed'",
    "shutdowns": "problems WHERE kind IN ('shutdown', 'rebooted')",
}
"""Column -> rows of a ledger's views; what has no view is of the list of what went wrong."""


@pytest.mark.slow
def test_the_counts_are_those_of_the_views(recorded_lake: Path, recorded_ledger: Path) -> None:
    """What one node's ledger says by its views, the page says of the node; hours add up."""
    facts = {node.node: node for node in collect(str(recorded_lake)).nodes}
    assert len(facts) == 2
    node = facts["node-a"]
    with connect(recorded_ledger) as queryable:
        for column, rows in _BY_VIEWS.items():
            ((count,),) = queryable.sql(f"SELECT count(*) FROM {rows}").fetchall()
            assert node.counts[column] == count, column
    assert node.counts["probe_kills"]
    assert node.counts["other_problems"]
    rest = {"contradictions", "lines_not_understood", "other_problems", "not_ready_min"}
    assert set(_BY_VIEWS) | rest == set(node.counts)
    with connect(recorded_ledger) as queryable:
        found = queryable.sql("SELECT kind FROM problems WHERE severity > 1").fetchall()
    assert node.problems == len(found)
    for each in facts.values():
        assert sum(problems for problems, _ in each.hours.values()) == each.problems
        assert sum(bad for _, bad in each.hours.values()) == each.counts["impossible"]


def _report(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["fleet", "report", *map(str, arguments)])
    return result.exit_code, result.output


def _links(page: Path) -> list[str]:
    return re.findall(r'"link":\[([^\]]*)\]', page.read_text("utf-8"))


def test_links_lead_to_pages_and_a_page_that_failed_has_none(
    recorded_lake: Path, tmp_path: Path
) -> None:
    """Without --pages there is no link; a node that cannot be drawn is told, and exit code 1."""
    bare, page, pages = tmp_path / "bare.html", tmp_path / "out.html", tmp_path / "of nodes"
    assert _report("--lake", recorded_lake, "--out", bare)[0] == 0
    assert _links(bare) == ["null,null"]
    ledger = next(recorded_lake.glob("ledgers/node-a/*.tar.zst"))
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:-100])
    try:
        code, said = _report(
            "--lake",
            recorded_lake,
            "--out",
            page,
            "--pages",
            pages,
            "--worst",
            "all",
            "--workers",
            1,
        )
    finally:
        ledger.write_bytes(whole)
    assert code == 1, said
    assert "node-a" in said
    assert [path.name for path in pages.iterdir()] == ["node-z.html"]
    assert sorted(_links(page)[0].split(",")) == ['"of%20nodes/node-z.html"', "null"]
    assert '"node":"node-z"' in (pages / "node-z.html").read_text("utf-8")
    assert _report("--lake", tmp_path / "none", "--out", page)[0] == 2


# --- the page -----------------------------------------------------------------------------

browsers = pytest.mark.xdist_group("browser")


def _written(path: Path, facts: FleetFacts, **links: str) -> Path:
    path.write_text(fleet_page(facts, links), encoding="utf-8")
    return path


@browsers
def test_rows_are_sorted_filtered_and_opened(browser: Browser, tmp_path: Path) -> None:
    """Worst first; a head sorts, words filter, arrows choose, and what stands out is named."""
    facts = made_up_fleet(200)
    browser.open(_written(tmp_path / "fleet.html", facts))
    rows = browser.ask("kubeledger.rows()")
    assert [row["node"] for row in rows] == [node.node for node in facts.nodes]
    assert [row["counts"] for row in rows] == [node.counts for node in facts.nodes]
    wanted = [set(node.outstanding) for node in facts.nodes]
    assert [set(row["out"]) for row in rows] == wanted
    assert any(wanted)
    assert browser.complaints() == []
    assert browser.requests() == []

    browser.ask("document.querySelector('[data-by=restarts]').click()")
    restarts = [row["counts"]["restarts"] for row in browser.ask("kubeledger.rows()")]
    assert restarts == sorted(restarts, reverse=True)
    assert browser.ask("document.querySelectorAll('[aria-sort=descending]').length") == 1

    browser.press("/", *"gpu 1.30.14", Keys.ARROW_DOWN)
    browser.wait("return document.querySelector('#rows [aria-selected=true]') !== null")
    found = browser.ask("kubeledger.rows()")
    expected = {n.node for n in facts.nodes if n.pool == "gpu" and "1.30.14" in n.versions}
    assert {row["node"] for row in found} == expected
    assert browser.ask("document.querySelector('#pane h2').textContent") == found[0]["node"]
    browser.press(Keys.ESCAPE)
    assert len(browser.ask("kubeledger.rows()")) == 200
    browser.ask("document.querySelector('#groups details button').click()")
    assert {row["pool"] for row in browser.ask("kubeledger.rows()")} == {"general"}


@browsers
def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    """Whatever nodes, pools, versions and failures are called, nothing is run or loaded."""
    node = node_facts(EVIL, TURNED, impossible=1)
    node.versions = (EVIL,)
    other = made_up_fleet(5)
    failures = [type(other.failures[0])(EVIL, EVIL, TURNED, (EVIL,), 1)]
    browser.open(_written(tmp_path / "evil.html", FleetFacts([node, *other.nodes], failures)))
    browser.press(Keys.ARROW_DOWN)
    browser.wait("return document.querySelector('#pane h2').textContent !== 'How to read this'")
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.ask("document.querySelectorAll('img').length") == 0
    assert browser.ask("document.querySelector('#pane h2').textContent") == EVIL
    assert "\\u202e" in browser.ask("document.getElementById('rows').textContent")
    assert not browser.ask("[...document.querySelectorAll('a')].length")


@browsers
def test_ten_thousand_rows_stay_quick(browser: Browser, tmp_path: Path) -> None:
    """Only what is in view is drawn, so that a frame costs the same as of ten rows."""
    facts = made_up_fleet(10_000)
    browser.open(_written(tmp_path / "large.html", facts))
    assert browser.ask("kubeledger.timing().ready_ms") < 5000
    assert len(browser.ask("kubeledger.drawn()")) < 100
    browser.press(Keys.END)
    browser.wait(f"return kubeledger.drawn().includes('{facts.nodes[-1].node}')")
    browser.frame()
    assert len(browser.ask("kubeledger.drawn()")) < 100
    frames = browser.ask("kubeledger.timing().frames_ms")
    assert max(frames) < 1000
    assert browser.complaints() == []


@browsers
def test_colours_print_and_narrow_windows(browser: Browser, tmp_path: Path) -> None:
    """Dark where the reader prefers it, all rows on paper, nothing over anything when narrow."""
    facts = made_up_fleet(60)
    browser.open(_written(tmp_path / "fleet.html", facts, **{facts.nodes[0].node: "a.html"}))
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.dark(True)
    assert browser.ask(paper) == "rgb(13, 17, 23)"
    browser.dark(False)
    assert browser.ask(paper) == "rgb(255, 255, 255)"
    assert browser.ask("document.querySelector('#rows a').getAttribute('href')") == "a.html"
    browser.ask(
        "addEventListener('beforeprint', () => { window.printed = kubeledger.drawn().length; })"
    )
    assert len(browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 20_000
    assert browser.ask("window.printed") == 60
    size = {"width": 480, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.frame()
        boxes = browser.ask(
            "['groups', 'list', 'pane', 'legend'].map((id) => {"
            " const box = document.getElementById(id).getBoundingClientRect();"
            " return [box.top, box.bottom, box.right]; })"
        )
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    for (_, above, right), (below, _, _) in pairwise(boxes):
        assert above <= below + 1
        assert right <= 481
