"""The timeline page in a real browser: until it is ready, and a frame while one moves in it.

DESIGN.md's goals at 100,000 items: ready in under 1.5 s, a median frame under 20 ms.
"""

import random
import tempfile
from pathlib import Path

from kubeledger.timeline.drawing import Drawing, Row, Section
from kubeledger.timeline.page import Block, write_page
from tests.timeline.browser import CHROMIUM, DRIVER, open_browser

ROWS = 500
ITEMS = 100_000
READY_GOAL_MS = 1500
FRAME_GOAL_MS = 20
_SPAN_NS = 24 * 3600 * 10**9
_MOVE = """
const done = arguments[arguments.length - 1];
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
let step = 0;
function move() {
  press(step % 40 < 8 ? "+" : step % 40 < 16 ? "-" : step % 40 < 28 ? "ArrowRight" : "ArrowLeft");
  if (step % 5 === 0) document.getElementById("scroll").scrollTop += 37;
  if (++step < 200) requestAnimationFrame(move);
  else done(kubeledger.timing());
}
requestAnimationFrame(move);
"""


def drawing(rows: int = ROWS, items: int = ITEMS) -> Drawing:
    """A node with that many rows and items: bars, marks and probe ticks at random times."""
    chance = random.Random(1)
    made: list[Row] = []
    seq = 0
    for index in range(rows // 2):
        lane = Row(label=f"default/pod-{index}/app")
        ticks = Row(label=lane.label, shape="ticks")
        for _ in range(items // rows):
            seq += 2
            start_ns = chance.randrange(_SPAN_NS)
            if chance.random() < 0.3:
                lane.mark("killed", start_ns, "liveness probe", seq)
            else:
                lane.bar("running", start_ns, start_ns + _SPAN_NS // 200, f"#{seq}", seq)
            kind = chance.choice(["tick_success", "tick_success", "tick_failure"])
            ticks.mark(kind, chance.randrange(_SPAN_NS), "liveness", seq + 1)
        made += [lane, ticks]
    return Drawing(
        node="bench",
        versions=["1.36.2"],
        start_ns=0,
        end_ns=_SPAN_NS,
        verdict_counts={"match": seq},
        verdicts={},
        sections=[Section(id="problems", title="Pods", rows=made)],
        arrows=[],
        headlines=[],
    )


def main() -> None:
    """Print both figures against their goals."""
    if CHROMIUM is None or DRIVER is None:
        print("no chromium and chromedriver here: left out")
        return
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        page = Path(scratch) / "page.html"
        with page.open("w", encoding="utf-8") as file:
            write_page([drawing()], [list[Block]()], file)
        with open_browser() as browser:
            browser.open(page)
            timing = browser.driver.execute_async_script(_MOVE)
    for name, value, goal in (
        ("ready", timing["ready_ms"], READY_GOAL_MS),
        ("median frame", timing["frame_median_ms"], FRAME_GOAL_MS),
    ):
        print(f"{name:<16}{value:8.1f} ms  {value / goal:6.2f} x of the goal ({goal} ms)")
