"""Pictures of the timeline page for the documentation: ``just screenshots``."""

import sys
import tempfile
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubeledger.analyze.sql.api import connect
from kubeledger.cli.timeline import write_timeline
from tests.recordings import import_recording
from tests.timeline.browser import CHROMIUM, DRIVER, Browser, open_browser

_SIZE = {"width": 1400, "height": 980, "deviceScaleFactor": 1, "mobile": False}
_VICTIM = "SELECT seq FROM preemptions WHERE victim_pod = 'filler-c'"


_PIXELS = """
const [picture, done] = arguments;
const image = new Image();
image.onload = () => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const url = new FileReader();
  url.onload = () => done(url.result.split(",")[1]);
  url.readAsDataURL(new Blob([pen.getImageData(0, 0, image.width, image.height).data]));
};
image.src = `data:image/png;base64,${picture}`;
"""


def small_png(pixels: bytes, width: int) -> bytes:
    """A picture with a palette: less than half as large as the browser's.

    Args:
        pixels: red, green, blue and alpha of each, row by row.
        width: of the picture.
    """
    colours = [pixels[at : at + 3] for at in range(0, len(pixels), 4)]
    counts = Counter(colours)
    palette = [colour for colour, _ in counts.most_common(256)]
    places = {colour: _nearest(colour, palette) for colour in counts}
    indexed = bytes(places[colour] for colour in colours)
    rows = b"".join(b"\0" + indexed[at : at + width] for at in range(0, len(indexed), width))
    header = width.to_bytes(4) + (len(indexed) // width).to_bytes(4) + bytes((8, 3, 0, 0, 0))
    chunks = (
        (b"IHDR", header),
        (b"PLTE", b"".join(palette)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)
        for name, data in chunks
    )


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    def distance(place: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(colour, palette[place], strict=True))

    return min(range(len(palette)), key=distance)


@contextmanager
def camera() -> Iterator[Browser]:
    """A browser whose window has the size of the pictures; without one the program ends."""
    if CHROMIUM is None or DRIVER is None:
        sys.exit("no chromium and chromedriver here: no pictures are taken")
    with open_browser() as browser:
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", _SIZE)
        yield browser


def take(browser: Browser, file: Path) -> None:
    """Write a picture of what the browser shows; the page is gone afterwards."""
    browser.frame()
    taken = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {})
    browser.driver.get("about:blank")
    pixels = b64decode(browser.driver.execute_async_script(_PIXELS, taken["data"]))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(small_png(pixels, _SIZE["width"]))


def main(directory: Path) -> None:
    """Write ``timeline-light.png`` and ``timeline-dark.png``: node-a, a preemption opened."""
    with (
        camera() as browser,
        tempfile.TemporaryDirectory(prefix="kubeledger-screenshots-") as scratch,
    ):
        ledger, page = Path(scratch) / "ledger", Path(scratch) / "page.html"
        import_recording("node-a", ledger)
        write_timeline(ledger, page)
        with connect(ledger) as queryable:
            ((seq,),) = queryable.sql(_VICTIM).fetchall()
        for name in ("light", "dark"):
            browser.dark(name == "dark")
            browser.open(page, f"#seq={seq}")
            browser.wait("return document.querySelector('#pane h2') !== null")
            take(browser, directory / f"timeline-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
