"""What the site has beside docs/: front page, Python reference, and files that pages link to."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_BESIDE = ("schemas/*.json", "recordings/cases/*.jsonl", "recordings/golden/README.md")
_REFERENCE = """# Python reference

`import kubeledger`; [Python](python.md) shows how it is used.

::: kubeledger.open

::: kubeledger.api.opened.OpenLedger

::: kubeledger.api.results
"""
_SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme would fetch to search in pages that are opened from disk."""
_WORKER = "assets/worker.js"
_LIVE = (
    "\n[The same page, to be used](demo.html): the recording of that node, imported and verified.\n"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them."""
    made = {"reference.md": _REFERENCE, "schemas/index.md": _schemas()}
    for source, page in _PAGES.items():
        made[page] = _as_page((ROOT / source).read_text(encoding="utf-8"))
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    for pattern in _BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            uri = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    files.append(File.generated(config, "demo.html", content=_demo()))
    files.append(
        File.generated(config, _WORKER, abs_src_path=str(Path(__file__).parent / "worker.js"))
    )
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links out of docs/ lead to the copies."""
    inside = re.sub(r"\]\(\.\./(schemas|recordings)/", r"](\1/", markdown)
    return inside.replace("](../schemas)", "](schemas/index.md)").replace(
        "](../CONTRIBUTING.md", "](contributing.md"
    )


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Search needs nothing from elsewhere."""
    above = "../" * page.file.dest_uri.count("/")
    return output.replace(_SHIM, f"{above}{_WORKER}")


def on_post_template(output_content: str, **_: object) -> str:
    """The same, of the page for what is not there."""
    return output_content.replace(_SHIM, f"/{_WORKER}")


def _as_page(text: str) -> str:
    """A page of the repository's root as one of docs/."""
    text = text.replace("](docs/README.md#internals)", "](internals/architecture.md)")
    text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md", "](contributing.md")
    text = text.replace("](CHANGELOG.md", "](changelog.md").replace("](SECURITY.md", "](limits.md")
    return text.replace("\nThe kubelet decides alone", f"{_LIVE}\nThe kubelet decides alone", 1)


def _schemas() -> str:
    """A list of the schemas."""
    names = sorted(path.name for path in (ROOT / "schemas").glob("*.json"))
    return "# Schemas\n\n" + "".join(f"* [{name}]({name})\n" for name in names)


def _demo() -> str:
    """The timeline of the recording that the demo shows."""
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "demo.html"
        command = [
            sys.executable,
            "-m",
            "kubeledger",
            "timeline",
            str(ROOT / "recordings/node-a.tar.zst"),
        ]
        subprocess.run([*command, "--out", str(page)], check=True, capture_output=True)
        return page.read_text(encoding="utf-8")
