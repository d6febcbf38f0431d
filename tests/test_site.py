import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]


class _Links(HTMLParser):
    """What a page loads, where its links lead, and which places it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        elif tag in {"script", "img", "iframe", "source"} and "src" in given:
            self.loads.append(given["src"])
        elif tag == "link" and given.get("rel") in {"stylesheet", "icon"}:
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, _Links]:
    """The pages of the site, built without a warning."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", "deploy/site/mkdocs.yml"]
    done = subprocess.run(
        [*command, "-d", str(directory)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr  # strict: a warning is an error
    pages = [page for page in sorted(directory.rglob("*.html")) if page.name != "404.html"]
    return {page: _Links(page) for page in pages}


@pytest.mark.slow
def test_all_docs_are_pages_that_load_nothing_from_elsewhere(site: dict[Path, _Links]) -> None:
    names = {page.stem for page in site}
    assert {page.stem for page in (ROOT / "docs").rglob("*.md")} - {"README"} <= names
    loads = {url for links in site.values() for url in links.loads}
    assert not [url for url in loads if urlsplit(url).netloc]


@pytest.mark.slow
def test_no_link_is_dead(site: dict[Path, _Links]) -> None:
    dead = []
    for page, links in site.items():
        if page.name == "demo.html":  # it makes its own
            continue
        for url in links.leads + links.loads:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            places = site[target].places if target in site else set()
            is_there = target.is_file() and (not parts.fragment or target not in site)
            if not is_there and unquote(parts.fragment) not in places:
                dead.append((page.name, url))
    assert not dead


@pytest.mark.slow
def test_python_reference_has_each_method(site: dict[Path, _Links]) -> None:
    (reference,) = (page for page in site if page.name == "reference.html")
    methods = re.findall(
        r"^    def ([a-z]\w+)", (ROOT / "kubeledger/api/opened.py").read_text(), re.M
    )
    shown = site[reference].places
    assert not [name for name in methods if f"kubeledger.api.opened.OpenLedger.{name}" not in shown]
