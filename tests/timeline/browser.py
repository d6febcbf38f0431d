"""A real Chromium, where there is one, for tests and benchmarks of the page."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from tests.tools import find
from tests.waiting import PATIENCE_S

CHROMIUM = find("chromium")
DRIVER = find("chromedriver")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1600,1000")


class Browser:
    """One window; asks the page what it drew, and keeps what it requested."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a page from disk and wait until it is drawn; earlier complaints are forgotten."""
        self.driver.get("about:blank")
        self.complaints()
        self.driver.get(f"{page.as_uri()}{fragment}")
        self.wait("return Boolean(window.kubeledger && window.kubeledger.ready)")

    def ask(self, script: str, *arguments: object) -> Any:  # noqa: ANN401 # whatever JavaScript gives
        """Run ``return SCRIPT`` in the page; a promise is waited for."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def wait(self, script: str) -> None:
        """Wait until a script gives something true."""
        WebDriverWait(self.driver, PATIENCE_S, 0.05).until(
            lambda driver: driver.execute_script(script)
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def frame(self) -> None:
        """Wait until the page has drawn what was asked of it."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def dark(self, on: bool) -> None:
        value = "dark" if on else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.frame()

    def complaints(self) -> list[str]:
        """What the page wrote to the console: errors, refused requests, policies broken."""
        log = self.driver.execute("getLog", {"type": "browser"})["value"]
        return [entry["message"] for entry in log]

    def requests(self) -> list[str]:
        return [entry["name"] for entry in self.ask("performance.getEntriesByType('resource')")]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start a browser without a screen; needs ``CHROMIUM`` and ``DRIVER``."""
    assert CHROMIUM
    assert DRIVER
    os.environ.update(SE_OFFLINE="true", SE_AVOID_STATS="true")
    options = Options()
    options.binary_location = CHROMIUM
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
