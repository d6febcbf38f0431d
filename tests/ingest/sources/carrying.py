"""What carries a log's lines to where they are read: each line made as tools and people do."""

import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

Carrier = Callable[[list[str]], list[str]]
_STAMP = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) +(\d+) ")


def _each(form: str) -> Carrier:
    """A form of one line: its number, and its time, where it has one or the line above it has."""

    def carry(lines: list[str]) -> list[str]:
        at, carried = datetime(2024, 6, 17, tzinfo=UTC), []
        for number, line in enumerate(lines, 46_001):
            if (found := _STAMP.search(line)) is not None:
                month, day, hour, minute, second, micros = map(int, found.groups()[:6])
                at = datetime(2024, month, day, hour, minute, second, micros, tzinfo=UTC)
            carried.append(form.format(line=line, number=number, t=at, unix=at.timestamp()))
        return carried

    return carry


def _written(change: Callable[[str], str]) -> Carrier:
    return lambda lines: [change(line) for line in lines]


def wrapped_at(width: int) -> Carrier:
    """Lines as a terminal of that width shows them."""
    return lambda lines: [
        line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)
    ]


DATED: dict[str, Carrier] = {
    "short-full": _each("{t:%a %Y-%m-%d %H:%M:%S} UTC n kubelet[7]: {line}"),
    "short-unix": _each("{unix:.6f} n kubelet[7]: {line}"),
    "short-iso": _each("{t:%Y-%m-%dT%H:%M:%S}+0000 n kubelet[7]: {line}"),
    "year first": _each("{t:%Y %b %e %H:%M:%S} n kubelet[7]: {line}"),
    "year last": _each("{t:%a %b %e %H:%M:%S %Y} n kubelet[7]: {line}"),
    "cri": _each("{t:%Y-%m-%dT%H:%M:%S.%f}000Z stderr F {line}"),
    "timestamps": _each("{t:%Y-%m-%dT%H:%M:%S.%f}Z {line}"),
    "bracketed": _each("[{t:%d/%b/%Y:%H:%M:%S} +0000] {line}"),
    "date alone": _each("{t:%Y-%m-%d %H:%M:%S},000 {line}"),
    "logger": _each("{t:%Y/%m/%d %H:%M:%S},000 - kubelet - INFO - {line}"),
}
"""What says the year."""

CARRIERS: dict[str, Carrier] = {
    **DATED,
    "short": _each("{t:%b %e %H:%M:%S} n kubelet[7]: {line}"),
    "syslog": _each("<30>{t:%b %e %H:%M:%S} n kubelet[7]: {line}"),
    "short-monotonic": _each("[  100.803095] n kubelet[7]: {line}"),
    "grep -n": _each("{number}:{line}"),
    "grep -H": _each("/var/log/kubelet.log:{line}"),
    "grep -Hn": _each("/var/log/syslog:{number}:{line}"),
    "cat -n": _each("{number:6}\t{line}"),
    "less -N": _each("{number} {line}"),
    "quote": _each("> {line}"),
    "list": _each("* {line}"),
    "code": _each("`{line}`"),
    "code in a sentence": _each("{number}. seen: `{line}` and more"),
    "table": _each("| {line} |"),
    "compose": _each("n  | {line}"),
    "colour": _each("\x1b[0;1;31m{line}\x1b[0m"),
    "caret colour": _each("^[[0;1;39m{line}^[[0m"),
    "html": _written(html.escape),
    "typographic": _written(lambda line: line.replace('"', "\u201d")),
    "string": _written(lambda line: line.replace("\\", "\\\\").replace('"', '\\"')),
    "element": lambda lines: [
        "=> {",
        *(f"  {json.dumps(each, ensure_ascii=False)}," for each in lines),
        "}",
    ],
    "no-break": _written(lambda line: line.replace(" ", "\N{NO-BREAK SPACE}")),
    "tabs": _written(lambda line: re.sub(r"(\d\.\d{6}) +(\d+ )", "\\1 \t\\2", line)),
    "crlf": _each("{line}\r"),
    "indented": _each("    {line}"),
    "trailing blank": _each("{line} "),
}
