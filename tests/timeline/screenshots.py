"""Pictures of the timeline page for the documentation: ``just screenshots``."""

from __future__ import annotations

import sys
import tempfile
from base64 import b64decode
from pathlib import Path

from kubeledger.cli.timeline import write_timeline
from kubeledger.query.api import connect
from tests.recordings import import_recording
from tests.timeline.browser import CHROMIUM, DRIVER, open_browser

_SIZE = {"width": 1360, "height": 850, "deviceScaleFactor": 1, "mobile": False}
_VICTIM = "SELECT seq FROM preemptions WHERE victim_pod = 'filler-c'"


def main(directory: Path) -> None:
    """Write ``timeline-light.png`` and ``timeline-dark.png``: node-a, a preemption opened."""
    if CHROMIUM is None or DRIVER is None:
        sys.exit("no chromium and chromedriver here: no pictures are taken")
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kubeledger-screenshots-") as scratch:
        ledger, page = Path(scratch) / "ledger", Path(scratch) / "page.html"
        import_recording("node-a", ledger)
        write_timeline(ledger, page)
        with connect(ledger) as queryable:
            ((seq,),) = queryable.sql(_VICTIM).fetchall()
        with open_browser() as browser:
            browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", _SIZE)
            for name in ("light", "dark"):
                browser.dark(name == "dark")
                browser.open(page, f"#seq={seq}")
                browser.wait("return document.querySelector('#pane h2') !== null")
                browser.frame()
                taken = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {})
                (directory / f"timeline-{name}.png").write_bytes(b64decode(taken["data"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
