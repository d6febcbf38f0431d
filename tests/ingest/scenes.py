"""Scenes of a small node, written as text: lines of a kubelet in, records out.

    a deleted pod kills its containers
        ~ spec c
        0 sandbox 0 | 1 started 1 | 2 delete {A} | 2.1 grace 1 30
        = ContainerKilled container=c reason=pod_deleted <PodConfigChanged

A title, and below it, indented, what files show (``~``), the log, and the records (``=``).

* The log is a row of events, apart by `` | `` or line ends: seconds after ten o'clock, a word of
  :data:`WORDS` (or the kubelet's file, and the line as it stands), and what the line shows.
  ``{A}`` is ``a_shop(UID)``, ``{a}`` the UID alone, ``{1}`` the ID of a container or sandbox; a
  word alone is one of the scenes' own beginnings.
* A record is its body's name, some fields, ``@SECONDS``, ``<NAME`` of the cause, ``lines=`` of the
  evidence. Of a kind that is named there is no other record; ``!NAME``: there is none.
* Files: ``spec`` names the containers of pod ``a``, or is JSON; ``probe TYPE JSON`` is that of its
  container ``c``; ``status`` is JSON, or follows from ``ran NAME ID [LAST] JSON``; ``pod NAME
  JSON`` is what lists show of another pod; ``version``; ``id ID NAME`` names a container.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext, ContainerRef
from kubeledger.ingest.sources.items import ApiEvent, Fact, PodsState
from kubeledger.ingest.sources.shapes import ApiReason
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S
from tests.ingest.feeding import at, feed, log_line
from tests.ingest.pod_world import Shown, ingest_lines, klog, know_pod, pod_list, world
from tests.kubelet.allocation.test_allocation import packed as pods_file

A, B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
UIDS = {"a": A, "b": B}
IDS = {digit: digit * 64 for digit in "0123456789"}
_NAMES = {
    **UIDS,
    "A": f"a_shop({A})",
    "B": f"b_shop({B})",
    **IDS,
    "LOW": "The node was low on resource: memory. ",
    "EPOCH": "1970-01-01T00:00:00Z",
    "WAITED": str(at("09:59:50.1")),
    "PROBED": "Container c failed liveness probe, will be restarted",
    "KILLED": f'pod="shop/b" podUID="{B}" containerName="c" containerID="containerd://{IDS["1"]}"',
}
_SHORT = {text: name for name, text in (*UIDS.items(), *IDS.items())}
_POD = f'pod="shop/a" podUID="{A}"'
_KILL = (
    f'{_POD} containerName="c" containerID="containerd://{{id}}" gracePeriod={{2}}',
    'kuberuntime_container.go "Killing container with a grace period',
)
_BACK_OFF = f"restarting failed container=c pod=a_shop({A})"
_PLEG = '&pleg.PodLifecycleEvent{ID:"{a}", Type:"Container%s", Data:"{id}"}'


def _event(kind: str, path: str = "") -> str:
    keys = f'object="shop/{{1}}"{path} kind="Pod" apiVersion="v1" type="{kind}" reason="{{2}}"'
    return f'event.go "Event occurred" {keys} message="{{*}}"'


WORDS: Mapping[str, str] = {
    # The sync loop and its pods.
    "loop": "kubelet.go Starting kubelet main sync loop.",
    "turn": "kubelet.go SyncLoop (housekeeping)",
    "add": 'kubelet.go SyncLoop (ADD, "api"): "{*}"',
    "addfile": 'kubelet.go SyncLoop (ADD, "file"): "{*}"',
    "delete": 'kubelet.go SyncLoop (DELETE, "api"): "{*}"',
    "Add": 'kubelet.go "SyncLoop ADD" source="{1}" pods=["shop/a"]',
    "Remove": 'kubelet.go "SyncLoop REMOVE" source="{1}" pods=["shop/a"]',
    "sync": 'kuberuntime_manager.go computePodActions got {KillPod:false} for pod "{*}"',
    "enter": f'kubelet.go "SyncPod enter" {_POD}',
    "failed": "predicate.go Predicate failed on Pod: {A}, for reason: {*}",
    "status": 'status_manager.go Status Manager: adding pod: "{a}", with status: (1, {Failed [] {*}'
    "    [] 2026-11-21 03:00:17 +0000 UTC [] []  []}) to podStatusChannel",
    # Events: of a reason, with a message.
    "warn": _event("Warning"),
    "event": _event("Normal"),
    "event:c": _event("Normal", ' fieldPath="spec.containers{c}"'),
    # Containers.
    "sandbox": 'kuberuntime_manager.go Created PodSandbox "{id}" for pod "{A}"',
    "nosandbox": 'util.go "No sandbox for pod can be found. Need to start a new one" pod="shop/a"',
    "started": f'kubelet.go SyncLoop (PLEG): "{{A}}", event: {_PLEG % "Started"}',
    "died": f'kubelet.go SyncLoop (PLEG): "{{A}}", event: {_PLEG % "Died"}',
    "why": 'kuberuntime_manager.go Container "c" ({"containerd" "{id}"}) of pod {A}: {*}',
    "grace": 'kuberuntime_container.go Killing container "containerd://{id}" with a {2} second '
    "grace period",
    "kill": f'{_KILL[1]}" {_KILL[0]}',
    "override": f'{_KILL[1]} override" {_KILL[0]}',
    "hook": 'kuberuntime_container.go Running preStop hook for container "containerd://{id}"',
    "backoff": f"kuberuntime_manager.go back-off {{1}} {_BACK_OFF}",
    "worker": 'pod_workers.go Error syncing pod {a} ("{A}"), skipping: failed to "StartContainer"'
    f' for "c" with CrashLoopBackOff: "back-off {{1}} {_BACK_OFF}"',
    # The eviction manager.
    "evict": "eviction_manager.go eviction manager: {*}",
    "Evict": 'eviction_manager.go "Eviction manager: {*}',
    "Evicting": f'eviction_manager.go "Evicting pod" {_POD} message="{{*}}"',
}
"""Word -> file and line: ``{1}``, ``{2}`` are the words after it, ``{*}`` the rest; ``{id}`` is the
ID that the first one stands for."""


Play = Callable[[list[str], list[str], Mapping[str, str]], list[Fact]]


def played_out(
    text: str, words: Mapping[str, str], play: Play | None = None
) -> Callable[[str], None]:
    """The test of all scenes of a text.

    ``words``: further ones, and beginnings of logs; ``play``: what makes facts of the rows about
    files and of the log, instead of the assemblers of pods.
    """
    scenes = re.split(r"\n(?=\S)", text.strip())
    titles = [scene.partition("\n")[0] for scene in scenes]
    assert len(set(titles)) == len(titles)

    @pytest.mark.parametrize("scene", scenes, ids=titles)
    def test(scene: str) -> None:
        rows = [row.lstrip() for row in scene.splitlines()[1:]]
        files = [row.removeprefix("~ ") for row in rows if row.startswith("~ ")]
        log = [row for row in rows if row and row[:2] not in ("~ ", "= ")]
        facts = (play or _played)(files, log, {**WORDS, **words})
        check(facts, [_named(row.removeprefix("= ")) for row in rows if row.startswith("= ")])

    return test


def _context(files: Iterable[str]) -> BundleContext:
    known: dict[str, dict[str, Any]] = {}
    context = world()
    for row in files:
        word, rest = row.split(" ", 1)
        if word == "version":
            context.kubelet_version = rest
        elif word == "pod":
            known[rest[0]] = json.loads(rest[2:])
        elif word == "id":
            context.containers[IDS[rest[0]]] = ContainerRef(A, rest[2:])
        elif word == "probe":
            kind, probe = rest.split(" ", 1)
            container = {"name": "c", f"{kind}Probe": json.loads(probe)}
            known.setdefault("a", {})["spec"] = {"containers": [container]}
        elif word == "spec":
            names = {"containers": [{"name": name} for name in rest.split()]}
            known.setdefault("a", {})["spec"] = json.loads(rest) if rest[0] == "{" else names
        else:
            rest = _named(rest)
            status = _ran(rest) if word == "ran" else json.loads(rest)
            known.setdefault("a", {}).setdefault("statuses", []).append(status)
    for name, shown in known.items():
        know_pod(context, name, UIDS[name], namespace="shop", **shown)
    return context


def _ran(text: str) -> dict[str, Any]:
    words, _, more = text.partition("{")
    name, current, *last = words.split()
    before = IDS[last[0]] if last else None
    return ran_status(name, IDS[current], before, **json.loads(f"{{{more or '}'}"))


def ran_status(
    name: str,
    container_id: str,
    before: str | None = None,
    ended: Mapping[str, Any] | None = None,
    **more: object,
) -> dict[str, Any]:
    """A status that shows a container, and how the instance before it ended."""
    status = {"name": name, "containerID": f"x://{container_id}", **more}
    if before is not None:
        status["lastState"] = {"terminated": {"containerID": f"x://{before}", **(ended or {})}}
    return {"containerStatuses": [status]}


def events_of(rows: Iterable[str], words: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Time, word and rest of each event; beginnings that have a name are spelled out."""
    for event in " | ".join(words.get(row, row) for row in rows).split(" | "):
        seconds, word, *rest = event.lstrip().split(" ", 2)
        yield clock(float(seconds)), word, " ".join(rest)


def line_of(time: str, word: str, text: str, words: Mapping[str, str]) -> str:
    line = f"{word} {text}" if word.endswith(".go") else _line(words[word], text)
    return klog(time, *_named(line).split(" ", 1))


def played_by(assembler_of: Callable[[list[str]], Assembler]) -> Play:
    """What one assembler makes of the log; it is made by what files show."""

    def play(files: list[str], rows: list[str], words: Mapping[str, str]) -> list[Fact]:
        events = enumerate(events_of(rows, words), 1)
        log = [log_line(line_of(*event, words), number) for number, event in events]
        return feed(assembler_of(files), log)

    return play


def _played(files: list[str], rows: list[str], words: Mapping[str, str]) -> list[Fact]:
    log: list[str] = []
    items: list[Shown] = []
    for time, word, text in events_of(rows, words):
        if word in ("list", "api", "actuated"):
            items.append(_item(word, time, _named(text)))
        else:
            log.append(line_of(time, word, text, words))
    return ingest_lines(_context(files), log or "", items)


def clock(seconds: float) -> str:
    """``10:00:01.500000`` of 1.5 seconds."""
    whole, micros = divmod(round((36_000 + seconds) * 1_000_000), 1_000_000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}.{micros:06}"


def _line(template: str, rest: str) -> str:
    words = rest.split(" ")
    slots = re.findall(r"\{(id|\d)\}", template)
    given = max((1 if slot == "id" else int(slot) for slot in slots), default=0)

    def fill(found: re.Match[str]) -> str:
        match found[1]:
            case "*":
                return " ".join(words[given:])
            case "id":
                return IDS[words[0]]
            case number:
                return words[int(number) - 1]

    return re.sub(r"\{(id|[\d*])\}", fill, template)


def _named(text: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: _NAMES.get(found[1], found[0]), text)


def _item(word: str, time: str, text: str) -> Shown:
    """``list a STATUS``: a list of the kubelet that shows a pod; ``api a REASON MESSAGE``.

    ``actuated a RESOURCES`` is the file that shows what the runtime was told of container ``c``.
    """
    name, rest = text.split(" ", 1)
    if word == "list":
        metadata = {"name": name, "namespace": "shop", "uid": UIDS[name]}
        return pod_list(time, {"metadata": metadata, "spec": {}, "status": json.loads(rest)})
    if word == "actuated":
        file = pods_file({"entries": {UIDS[name]: {"ContainerResources": {"c": json.loads(rest)}}}})
        return PodsState(at(time), file, Evidence(file="actuated_pods_state"))
    # As the API server holds it: in whole seconds, with the very time in its name.
    reason, message = rest.split(" ", 1)
    about = {"kind": "Pod", "namespace": "shop", "name": name, "uid": UIDS[name]}
    event = {"involvedObject": about, "reason": reason, "message": message, "count": 1}
    metadata = {"name": f"{name}.{at(time):x}", "uid": f"{time}/{message}"}
    read = ApiReason.read({"metadata": metadata, **event})
    return ApiEvent(at(time[:8]), read, Evidence(file="events.json"))


def check(facts: Iterable[Fact], rows: Iterable[str]) -> None:
    """Compare facts with the records that are expected of them."""
    facts = list(facts)
    wanted: dict[str, list[str]] = {}
    for row in rows:
        kind = row.split(" ")[0].removeprefix("!")
        wanted.setdefault(kind, []).extend([row] * (row[0] != "!"))
    assert wanted
    for kind, expected in wanted.items():
        found = [fact for fact in facts if type(fact.body).__name__ == kind]
        asked = [re.findall(r" (@|<|\w+=)", row) for row in expected]
        shown = [_shown(*each) for each in zip(found, asked, strict=False)]
        assert shown == [row.rstrip() for row in expected], "\n".join(shown)
        assert len(found) == len(expected), [fact.body for fact in found]


def _shown(fact: Fact, asked: Iterable[str]) -> str:
    fields = msgspec.structs.asdict(fact.body)
    shown = [type(fact.body).__name__]
    for each in asked:
        if each == "@":
            shown.append(f"@{round((fact.ts_ns - at('10:00:00')) / NS_PER_S, 6):g}")
        elif each == "<":
            shown.append(f"<{None if fact.cause is None else type(fact.cause.body).__name__}")
        elif each == "lines=":
            lines = ",".join(str(piece.line or piece.file) for piece in fact.evidence)
            shown.append(f"lines={lines}")
        elif each[:-1] in fields:
            value = fields[each[:-1]]
            text = _SHORT.get(value, value) if isinstance(value, str) else value
            shown.append(f"{each}{text}")
    return " ".join(shown).rstrip()
