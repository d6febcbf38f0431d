"""IDs of containers that one line tells and nothing else, where another one must be meant.

Looked for only in a log that tells every other container more than once: where several are
told once, lines are missing, or the log is terse, and nothing is concluded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from sys import intern
from typing import NamedTuple

from kubeledger.importers.klog_prefix import HEADER
from kubeledger.importers.klog_time import stamp_ns
from kubeledger.units import NS_PER_S

__all__ = ["Telling", "stray_ids", "telling_of"]

_KINDS = (
    (b"ContainerStarted", "started"),
    (b"ContainerDied", "died"),
    (b"container finished", "ending"),
    (b"Killing container ", "kill"),
    (b'"}) of pod ', "kill"),
)
_POD = re.compile(
    rb'(?:"ID":"|[{ ]ID:"|pod(?:U)?ID="|(?:of|for) pod "?[^\s(]+\(|/pod)'
    rb'([0-9a-f]{8}[0-9a-f-]{24,28})["),/]'
)
_SLICE = re.compile(rb"-pod([0-9a-f]{8}[0-9a-f_]{24,28})\.slice/")
_NAME = re.compile(rb'containerName="([^"]+)"')
_ENDINGS = frozenset({"died", "ending", "kill"})
_LEAP_YEAR = 2024
_ENDS_WITHIN_NS = 5 * NS_PER_S
_TWIN_WITHIN_NS = NS_PER_S
_ENOUGH = 3


class Telling(NamedTuple):
    """One line about one container: when, what of, whose (``pod`` is a UID), by which kubelet."""

    ts_ns: int
    kind: str
    container_id: str
    pod: str
    name: str
    pid: str = ""


def telling_of(body: bytes, container_id: str) -> Telling | None:
    """What a klog line tells of the container; None for klog JSON."""
    header = HEADER.match(body)
    if header is None:
        return None
    try:
        ts_ns = stamp_ns(header[2], _LEAP_YEAR)
    except ValueError:
        return None
    kind = next((kind for words, kind in _KINDS if words in body), "other")
    pod, name = _POD.search(body) or _SLICE.search(body), _NAME.search(body)
    told = ["" if match is None else intern(match[1].decode()) for match in (pod, name)]
    pid = intern(header[3].decode())
    return Telling(ts_ns, kind, container_id, told[0].replace("_", "-"), told[1], pid)


def stray_ids(tellings: Iterable[Telling], listed: Collection[str]) -> dict[str, str]:
    """The one ID that is told once, if another container of its pod must be meant -> that."""
    told = sorted(set(tellings))
    pods = {each.container_id: each.pod for each in told if each.pod}
    told = [each._replace(pod=pods.get(each.container_id, "")) for each in told]
    counts = Counter(telling.container_id for telling in told)
    single = [each for each in told if counts[each.container_id] == 1 and each.kind in _ENDINGS]
    times = [each.ts_ns for each in single]
    # The first relist of a kubelet process tells at once of all that had ended before.
    once = [
        each for each in single if sum(abs(each.ts_ns - ts_ns) <= NS_PER_S for ts_ns in times) == 1
    ]
    if len(once) != 1 or len(counts) <= _ENOUGH:
        return {}
    (stray,) = once
    if stray.container_id in listed or not stray.pod:
        return {}
    others = [each for each in told if each.pod == stray.pod and each is not stray]
    found = {"died": _ending, "kill": _killed}.get(stray.kind, _none)(stray, others)
    return {stray.container_id: found.pop()} if len(found) == 1 else {}


def _none(stray: Telling, others: list[Telling]) -> set[str]:
    return set()


def _ids(tellings: list[Telling], kind: str) -> set[str]:
    return {each.container_id for each in tellings if each.kind == kind}


def _ending(stray: Telling, others: list[Telling]) -> set[str]:
    """What was killed or ended just before, and of which no line tells that it died."""
    just = [each for each in others if 0 <= stray.ts_ns - each.ts_ns <= _ENDS_WITHIN_NS]
    return (_ids(just, "kill") | _ids(just, "ending")) - _ids(others, "died")


def _killed(stray: Telling, others: list[Telling]) -> set[str]:
    """What the other line of this kill names, or what died next though nobody killed it."""
    near = [
        each
        for each in others
        if each.name == stray.name and abs(each.ts_ns - stray.ts_ns) <= _TWIN_WITHIN_NS
    ]
    after = [each for each in others if 0 <= each.ts_ns - stray.ts_ns <= _ENDS_WITHIN_NS]
    ended = _ids(after, "ending") or _ids(after, "died")
    return _ids(near, "kill") or ended - _ids(others, "kill")
