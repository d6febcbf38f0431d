"""Restarts, OOM kills, kills and refusals of the recordings, counted a second time from their text.

Nothing here is shared with the importer: regular expressions over the log's lines, and the JSON of
pod lists.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from kubeledger.model.record import Record
from tests.recordings import extract, import_recording

RECORDINGS = {
    "node-a": (8, 0, 13, 2),
    "node-b": (12, 0, 14, 2),
    "node-e-evictions": (84, 20, 91, 31),
    "node-e-oom": (7, 36, 3, 1),
}
"""Recording -> restarts, processes that the kernel killed, containers that the kubelet killed, and
pods that it refused."""

_EVENT = re.compile(
    r'"Event occurred" object="(?P<pod>[^"]+)"(?: fieldPath="spec\.\w+\{(?P<name>[^}]+)\}")? .*'
    r'reason="Started" message="(?:Started container (?P<old>[\w-]+)|Container started)'
)
_PLEG = re.compile(
    r'event for pod" pod="(?P<pod>[^"]+)" event=\{"ID":"(?P<uid>[^"]+)"|'
    r'\(PLEG\): "(?P<name>[^_]+)_(?P<namespace>[^(]+)\((?P<old>[^)]+)\)"'
)
_KILLING = re.compile(
    r'Killing container "containerd://(\w{64})" with a|'
    r'"Killing container with a grace period" .*containerID="containerd://(\w{64})"'
)
_REFUSED = re.compile(
    r'"Pod admission denied" podUID="[^"]+" pod="([^"]+)"|'
    r"Predicate failed on Pod: (?P<name>[^_]+)_(?P<namespace>[^(]+)\("
)
_ADMISSION = re.compile(
    r"(?:OutOf|Unexpected|Topology|NodeAff|NodePorts|PodOS|Sysctl)\w* |Evicted .*had condition"
)
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


@cache
def _source(recording: str) -> Path:
    return extract(recording, Path(mkdtemp()))


@cache
def _records(recording: str) -> tuple[Record, ...]:
    ledger = import_recording(recording, Path(mkdtemp()) / "ledger")[0]
    return tuple(ledger.records(ledger.nodes()[0]))


def _bodies(recording: str, kind: str) -> list[Any]:
    return [record.body for record in _records(recording) if record.kind == kind]


def _log(recording: str) -> list[str]:
    return (_source(recording) / "kubelet.log").read_text().splitlines()


def _pods(recording: str) -> Iterator[dict[str, Any]]:
    for path in sorted(_source(recording).rglob("pods.json")):
        yield from json.loads(path.read_text()).get("items") or ()


def _statuses(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (status for key in _STATUSES for status in pod["status"].get(key) or ())


def _uid(pod: dict[str, Any]) -> str:
    """Of a static pod the hash, as the log has it."""
    metadata = pod["metadata"]
    return str(
        (metadata.get("annotations") or {}).get("kubernetes.io/config.hash", metadata["uid"])
    )


def _runs(recording: str) -> dict[tuple[str, str], list[float]]:
    """(UID, container) -> when it began to run each time, by events and by lists, in order.

    An event shows no UID: the next line of the PLEG about the pod does.
    """
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for pod in _pods(recording):
        for status in _statuses(pod):
            for state in (status.get("state") or {}, status.get("lastState") or {}):
                for shown in state.values():
                    if (shown.get("startedAt") or "").startswith("20"):
                        found[_uid(pod), status["name"]].append(_seconds(shown["startedAt"]))
    waiting: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for line in _log(recording):
        if event := _EVENT.search(line):
            waiting[event["pod"]].append((event["name"] or event["old"], _written(line)))
        elif relisted := _PLEG.search(line):
            whose = relisted["pod"] or f"{relisted['namespace']}/{relisted['name']}"
            for name, seconds in waiting.pop(whose, []):
                found[relisted["uid"] or relisted["old"], name].append(seconds)
    return {key: _apart(sorted(times)) for key, times in found.items()}


def _apart(times: list[float]) -> list[float]:
    """Lists have whole seconds, and the event comes a moment after the start."""
    return [at for before, at in zip([0.0, *times], times, strict=False) if at - before > 2]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _written(line: str) -> float:
    """The log has no year: that of the recordings is in their lists."""
    month, day, clock = line[1:3], line[3:5], line.split(maxsplit=2)[1]
    return _seconds(f"2026-{month}-{day}T{clock}+00:00")


@pytest.mark.parametrize("recording", RECORDINGS)
def test_restarts(recording: str) -> None:
    """Of each container all runs but its first, of those that began in the log."""
    begin = _written(next(line for line in _log(recording) if line[0] in "IWE"))
    truth = {
        key: again
        for key, times in _runs(recording).items()
        if (again := sum(at >= begin for at in times[1:]))
    }
    rows = _bodies(recording, "lifecycle.ContainerRestarted")
    found = Counter((row.pod_uid, row.container) for row in rows)
    if recording == "node-e-evictions":  # without events, and with a part of the lists only
        assert {key: n for key, n in truth.items() if n > found[key]} == {}
    else:
        assert found == truth
    assert len(rows) == RECORDINGS[recording][0]
    ids = [row.container_id for row in rows]
    assert len(ids) == len(set(ids))
    assert all(row.previous_container_id != row.container_id for row in rows)


@pytest.mark.parametrize("recording", RECORDINGS)
def test_kills_of_the_kernel(recording: str) -> None:
    """The kernel's lines and the kubelet's, each kill once; and what statuses alone show."""
    kernel = _source(recording) / "kernel.log"
    text = kernel.read_text() if kernel.exists() else ""
    killed = {(name[-64:], int(pid)) for name, pid in re.findall(
        r"oom-kill:.*task_memcg=(\S+?),task=\S+?,pid=(\d+)", text)}  # fmt: skip
    rows = _bodies(recording, "oom.ProcessKilled")
    assert {(row.container_id, row.pid) for row in rows if row.pid is not None} == killed
    seen = {
        match.groups()
        for line in _log(recording)
        if (match := re.search(r'OOM event in container "[^"]*/(\w{64})" at \S+ ([\d:]+)', line))
    }
    of_lists = {
        str(shown["containerID"])[-64:]
        for pod in _pods(recording)
        for status in _statuses(pod)
        for state in (status.get("state") or {}, status.get("lastState") or {})
        if (shown := state.get("terminated") or {}).get("reason") == "OOMKilled"
    }
    of_both = {container_id for container_id, _ in (*killed, *seen)}
    assert len(rows) == max(len(seen), len(killed)) + len(of_lists - of_both)
    assert len(rows) == RECORDINGS[recording][1]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_kills_of_the_kubelet(recording: str) -> None:
    """The containers that lines name are those of the records."""
    found = (_KILLING.search(line) for line in _log(recording))
    truth = {match[1] or match[2] for match in found if match}
    assert {row.container_id for row in _bodies(recording, "lifecycle.ContainerKilled")} == truth
    assert len(truth) == RECORDINGS[recording][2]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_refusals(recording: str) -> None:
    """The pods that lines name, and those that lists show to have failed for such a reason.

    Of one that had run, when the next kubelet process refuses it, lists do not tell how it ended.
    """
    found = (_REFUSED.search(line) for line in _log(recording))
    truth = {match[1] or f"{match['namespace']}/{match['name']}" for match in found if match}
    ran = {uid for uid, _ in _runs(recording)}
    for pod in _pods(recording):
        why = f"{pod['status'].get('reason')} {pod['status'].get('message')}"
        if _ADMISSION.match(why) and _uid(pod) not in ran:
            truth.add(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    rows = _bodies(recording, "lifecycle.PodRejected")
    assert {f"{row.namespace}/{row.pod}" for row in rows} == truth
    assert len(truth) == RECORDINGS[recording][3]
