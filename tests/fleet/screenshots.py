"""Pictures of the fleet's page for the documentation: ``just screenshots``."""

import sys
import tempfile
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from kubeledger.fleet.report.page import fleet_page, page_name
from tests.fleet.fleets import made_up_fleet
from tests.timeline.screenshots import camera, take

_NODES = 300
_CHOSEN = 5


def main(directory: Path) -> None:
    """Write ``fleet-light.png`` and ``fleet-dark.png``: a fleet that never was, a node chosen."""
    facts = made_up_fleet(_NODES)
    links = {each.node: f"nodes/{page_name(each.node)}" for each in facts.nodes[:20]}
    with (
        camera() as browser,
        tempfile.TemporaryDirectory(prefix="kubeledger-screenshots-") as scratch,
    ):
        page = Path(scratch) / "fleet.html"
        page.write_text(fleet_page(facts, links), encoding="utf-8")
        for name in ("light", "dark"):
            browser.dark(name == "dark")
            browser.open(page)
            browser.press(*[Keys.ARROW_DOWN] * _CHOSEN)
            take(browser, directory / f"fleet-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
