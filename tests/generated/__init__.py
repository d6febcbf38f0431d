"""What is written from the code, by ``just docs`` and ``just schemas``: pages and schemas."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def stale(path: str, made: str, recipe: str = "just docs") -> str:
    """Where a generated file is not what would be written now, and the remedy; empty if it is."""
    kept, lines = (ROOT / path).read_text(encoding="utf-8").splitlines(), made.splitlines()
    pairs = enumerate(zip(kept, lines, strict=False), start=1)
    number = next((at for at, (old, new) in pairs if old != new), min(len(kept), len(lines)) + 1)
    return "" if kept == lines else f"{path}: line {number} is another now: run `{recipe}`"
