"""Links of the Markdown files: each leads to a file of the repository, and to a heading of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_PAGES = ("*.md", "docs/**/*.md", "recordings/**/*.md", "deploy/**/*.md", "tests/**/*.md")
_CODE_IN = ("kubeledger/**/*.py", "tests/**/*.py", "deploy/**/*.py")
PAGES = sorted(path for pattern in _PAGES for path in ROOT.glob(pattern))

_FENCE = re.compile(r"^ *(`{3,})[^\n]*\n.*?^ *\1`*[ \t]*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\((?P<inline>[^()\s]+)\)|^\[[^\]]+\]: *(?P<below>\S+)", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_MODULE = re.compile(r"\b(?:\w+/)*\w+\.py\b")
_LINKED = re.compile(r"\[([^\]]*)\]\([^()]*\)")


def links(page: Path) -> Iterator[str]:
    """Those that lead to files beside it, or to a place in it."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    for match in _LINK.finditer(text):
        target = match["inline"] or match["below"]
        if not _ELSEWHERE.match(target):
            yield target


def anchors(text: str) -> set[str]:
    """As GitHub makes them of a page's headings."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"[^\w\- ]", "", _LINKED.sub(r"\1", heading).strip().lower())
        anchor = plain = words.replace(" ", "-")
        count = 0
        while anchor in found:
            count += 1
            anchor = f"{plain}-{count}"
        found.add(anchor)
    return found


def is_dead(page: Path, target: str) -> bool:
    """Nothing stands where a link of the page leads."""
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    if not file.exists():
        return True
    return file.suffix == ".md" and anchor != "" and anchor not in anchors(file.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_is_dead(page: Path) -> None:
    """Neither the file nor the heading that it names is missing."""
    assert [target for target in links(page) if is_dead(page, target)] == []


def test_anchors() -> None:
    """Of headings with code, links, signs, and of those that stand twice; not of code."""
    text = "# One `a/{b}.py`: two\n```\n# not one\n```\n## [Three](x.md)\n## Three\n"
    assert anchors(text) == {"one-abpy-two", "three", "three-1"}


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    """A missing file, a missing heading; not what is code, or leads elsewhere."""
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](#here) [b](#there) [c](no.md) [d](https://example.com/x) `[e](no.md)`\n"
        "```\n[f](no.md)\n```\n[g]: gone.md\n"
    )
    assert [each for each in links(page) if is_dead(page, each)] == ["#there", "no.md", "gone.md"]


def test_modules_that_pages_name_are_there() -> None:
    """Also in drawings, and those that are named by the end of their path alone."""
    modules = [f"/{path.relative_to(ROOT)}" for room in _CODE_IN for path in ROOT.glob(room)]
    gone = [
        f"{page.relative_to(ROOT)} names {name}, and no module's path ends so"
        for page in PAGES
        for name in sorted(set(_MODULE.findall(page.read_text(encoding="utf-8"))))
        if not any(module.endswith(f"/{name}") for module in modules)
    ]
    assert gone == []


def missing_commands(text: str) -> list[str]:
    """Recipes that the Justfile lacks, and modules of the tests that cannot be run."""
    recipes = re.findall(r"(?m)^([a-z]+)[^:\n]*:(?!=)", (ROOT / "Justfile").read_text("utf-8"))
    named = re.findall(r"`just ([a-z]+)", text)
    files = [
        (module, ROOT.joinpath(*module.split(".")))
        for module in re.findall(r"python -m (tests[\w.]*\w)", text)
    ]
    runs = (
        (path / "__main__.py").is_file()
        or (path.with_suffix(".py").is_file() and "__main__" in path.with_suffix(".py").read_text())
        for _, path in files
    )
    return [name for name in named if name not in recipes] + [
        module for (module, _), is_there in zip(files, runs, strict=True) if not is_there
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_names_exist(page: Path) -> None:
    assert missing_commands(page.read_text(encoding="utf-8")) == []


def test_a_missing_command_is_found() -> None:
    text = "`just test tests`, `just gone`, `python -m tests.fuzz`, `python -m tests.links`"
    assert missing_commands(text) == ["gone", "tests.links"]
