"""Binary journal files, read by systemd's own ``journalctl``.

Their format changes with systemd; the export format, which it writes, does not.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator

from kubeledger.ingest.sources.packing import CHUNK
from kubeledger.ingest.sources.spool import forget_pages, mapped
from kubeledger.model.errors import BadInputError

JOURNAL_MAGIC = b"LPKSHHRH"

_FIELDS = (
    *("MESSAGE", "SYSLOG_IDENTIFIER", "_COMM", "_HOSTNAME", "_SYSTEMD_UNIT", "_PID", "_TRANSPORT"),
    *("_LINE_BREAK", "_SOURCE_REALTIME_TIMESTAMP"),
)


class JournalFile:
    """A journal file as ``journalctl -o export`` writes it, in a temporary file without a name."""

    def __init__(self, name: str, first: bytes, rest: Iterator[bytes]) -> None:
        """Read the journal.

        Args:
            name: of the file, for errors.
            rest: what follows.

        Raises:
            BadInputError: there is no ``journalctl``, or it cannot read the file.
            OSError: there is no room.
        """
        program = shutil.which("journalctl")
        if program is None:
            raise _unread(name, "is a binary journal, and this machine has no journalctl")
        import subprocess  # few imports hold one

        with (
            tempfile.NamedTemporaryFile(prefix="kubeledger-", suffix=".journal") as journal,
            tempfile.TemporaryFile(prefix="kubeledger-journal-") as export,
        ):
            journal.write(first)
            for chunk in rest:
                journal.write(chunk)
            journal.flush()
            command = [program, "--quiet", "--no-pager", "--output=export"]
            command += [f"--output-fields={','.join(_FIELDS)}", f"--file={journal.name}"]
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=export,
                stderr=subprocess.PIPE,
                check=False,
            )
            self._export = mapped(export)
        if done.returncode != 0 and not self._export:
            words = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise _unread(name, f"is a binary journal that journalctl cannot read: {words[:200]}")

    def chunks(self) -> Iterator[bytes]:
        export = self._export
        for at in range(0, len(export), CHUNK):
            yield export[at : at + CHUNK]
            forget_pages(export)


def _unread(name: str, why: str) -> BadInputError:
    last = name.rpartition("/")[2]
    return BadInputError(
        why,
        file=name,
        advice=f"run `journalctl --file {last} -o export > {last}.export` where that works, and "
        "import what it writes",
    )
