"""What ``kubectl cluster-info dump`` prints, taken apart as its ``--output-directory`` would be.

Lists of the API's objects, one below the other, then the logs of all containers between lines
``==== START`` and ``==== END``.
"""

from __future__ import annotations

import re
from pathlib import Path

from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.sources.unpack import Unpacked, spool_errors

_HEAD = 4 << 10
_BEGIN = re.compile(rb'\s*\{\s*(?:"apiVersion": ?"v1",\s*)?"kind": ?"NodeList"')
_END = re.compile(rb"\n\}\r?\n(?=\{|====)")
_CONTAINER = re.compile(rb"^==== START logs for container (\S+) of pod (\S+) ====", re.MULTILINE)
_KIND = re.compile(rb'"kind": ?"(\w+)List"')
_NAMESPACE = re.compile(rb'"namespace": ?"([\w.-]+)"')


def is_dump(source: SourceFile) -> bool:
    """Several lists stand in the file, that of the nodes first."""
    return (
        _BEGIN.match(source.head(_HEAD)) is not None and _END.search(source.content()) is not None
    )


def take_apart(source: SourceFile, spool: Path) -> Unpacked:
    """A file for each list, in ``spool``, which is made; logs of containers are left out.

    Raises:
        BadInputError: there is no room for them.
    """
    content = source.content()
    logs = list(_CONTAINER.finditer(content))
    skipped = {
        f"{pod.decode()}/{container.decode()}.log": "log of a container"
        for container, pod in (log.groups() for log in logs)
    }
    lists = content[: logs[0].start()] if logs else content
    files: dict[str, SourceFile] = {}
    with spool_errors(source.name):
        spool.mkdir(parents=True)
        begin = 0
        for end in [*(match.end() for match in _END.finditer(lists)), len(lists)]:
            text, begin = lists[begin:end], end
            if not text.strip():
                continue
            kind, namespace = _KIND.search(text), _NAMESPACE.search(text)
            name = f"{kind[1].decode().lower()}s.json" if kind else "rest.json"
            if namespace and kind and kind[1] != b"Node":
                name = f"{namespace[1].decode()}/{name}"
            path = spool / str(len(files))
            path.write_bytes(text)
            while name in files:  # lists that are empty do not say of which namespace
                name = f"other/{name}"
            files[name] = SourceFile(name, path, source.mtime_ns)
    return Unpacked([files[name] for name in sorted(files)], skipped)
