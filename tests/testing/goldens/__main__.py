"""Write ``recordings/golden`` anew: ``python -m tests.testing.goldens [DIR]``."""

import sys
from pathlib import Path

from tests.recordings import RECORDINGS
from tests.testing.goldens.files import files


def main(directory: Path) -> None:
    """Write all files, and remove recordings that nobody makes any more."""
    made = files()
    for old in directory.rglob("*.ledger.jsonl"):
        if str(old.relative_to(directory)) not in made:
            old.unlink()
    for name, data in made.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDINGS / "golden")
