"""docs/internals/messages.md: the messages an import reads, by which versions, and as what.

Run: ``python -m tests.generated.messages_page > docs/internals/messages.md``
"""

import sys
from collections.abc import Iterator

from kubeledger.ingest.klog.rows import Row
from kubeledger.ingest.messages.catalogue import MESSAGES
from kubeledger.ingest.messages.noise import NOISE

_HEAD = """# Messages of the kubelet

Generated from the tables in `kubeledger/ingest/messages/tables/`: do not edit. Structured lines are
known by their whole message; free text by the caller's file and its words, in which `{key}` stands
for a value. Lines of old kubelets, and messages whose words changed, are *read as* another message,
with its keys. To teach the importer a new message add one line, as `kubeledger/ingest/klog/rows.py`
says.

*Logged by*: minor versions, as far as their sources show; empty where it is not known.
"""


def render() -> str:
    """The page."""
    return "\n".join([_HEAD, *_sections(), *_noise()])


def _sections() -> Iterator[str]:
    for subsystem, rows in MESSAGES.items():
        yield f"## {subsystem}\n"
        yield "| message | logged by | read as |"
        yield "|---|---|---|"
        yield from sorted(_line(row) for row in rows if row.to is not None)
        yield ""
        ignored = [row for row in rows if row.to is None]
        if ignored:
            yield "Understood, and nothing of it is recorded:\n"
            yield from sorted(f"* {_words(row)}" for row in ignored)
            yield ""


def _noise() -> Iterator[str]:
    yield "## Known to be irrelevant\n"
    yield (
        f"All lines of {len(NOISE.files)} callers (`noise_files.txt`), {len(NOISE.messages)} "
        "structured messages of other parts of the kubelet (`noise_messages.txt`), free text of "
        f"{len(NOISE.texts)} callers (`noise.py`).\n"
    )


def _line(row: Row) -> str:
    return f"| {_words(row)} | {_versions(row)} | {_reading(row)} |"


def _words(row: Row) -> str:
    callers = "".join(f"{file} " for file in row.files)
    return callers + _code(row.words.strip() or row.words)


def _versions(row: Row) -> str:
    match row.since, row.until:
        case None, None:
            return ""
        case None, until:
            return f"to {until}"
        case since, None:
            return f"{since} on"
        case since, until:
            return since if since == until else f"{since} to {until}"


def _reading(row: Row) -> str:
    assert row.to is not None
    constants = [f"{key}={value}" for key, value in sorted(row.constants.items())]
    constants += [f"{key} from {other}" for key, other in sorted(row.keys.items())]
    name = "" if row.to == row.words else _code(row.to)
    return ", ".join(filter(None, (name, *map(_code, constants))))


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    escaped = text.replace("|", "\\|").replace("\n", " ")
    return f"{fence} {escaped} {fence}" if fence == "``" else f"`{escaped}`"


if __name__ == "__main__":
    sys.stdout.write(render())
