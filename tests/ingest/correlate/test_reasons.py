import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.correlate.context import BundleContext, IndexedEvent, KnownPod
from kubeledger.ingest.correlate.reasons import ReasonAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.items import ApiEvent, Fact, LogLine
from kubeledger.ingest.sources.shapes import COMBINED, ApiReason
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.record import Evidence
from kubeledger.model.units import format_ts, parse_ts
from tests.ingest.feeding import listening
from tests.ingest.pieces import feed_items, feed_log, klog, klog_json

MESSAGE = "Liveness probe failed: cat: can't open '/tmp/l': No such file or directory"
LINE = (
    '"Event occurred" object="default/web" kind="Pod" apiVersion="v1" type="Warning" '
    f'reason="Unhealthy" message="{MESSAGE}"'
)
SECOND = "2026-11-21T02:52:41Z"


def event(
    count: int,
    *,
    first: str = SECOND,
    last: str = SECOND,
    message: str = MESSAGE,
    uid: str = "e1",
    **changes: Any,  # noqa: ANN401  (any JSON value)
) -> dict[str, Any]:
    """An event object as the API server lists it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"uid": uid, "name": f"web.{uid}", "namespace": "default"},
        "involvedObject": {
            "kind": "Pod",
            "namespace": "default",
            "name": "web",
            "uid": "pod-uid",
            "fieldPath": "spec.containers{app}",
        },
        "source": {"component": "kubelet", "host": "n"},
        "type": "Warning",
        "reason": "Unhealthy",
        "message": message,
        "count": count,
        "firstTimestamp": first,
        "lastTimestamp": last,
        **changes,
    }


def listed(*events: dict[str, Any]) -> tuple[BundleContext, list[ApiEvent]]:
    """A context that knows the events, and the items they come as."""
    context = BundleContext(node="n")
    items = []
    for number, each in enumerate(events, 1):
        evidence = Evidence(file="events.json", line=number)
        obj, read = each["involvedObject"], ApiReason.read(each)
        key = (obj["kind"], obj.get("namespace", ""), obj["name"], each["reason"], each["message"])
        first, last = parse_ts(each["firstTimestamp"]), parse_ts(each["lastTimestamp"])
        known = context.events.setdefault(key, IndexedEvent(read, 0, first, last, ()))
        known.count = max(known.count, each["count"])
        known.last_ts_ns = max(known.last_ts_ns, last)
        known.evidence += (evidence,)
        items.append(ApiEvent(last, read, evidence))
    return context, items


def reasons(facts: list[Fact]) -> list[KubernetesEvent]:
    bodies = [fact.body for fact in facts]
    assert all(isinstance(body, KubernetesEvent) for body in bodies)
    return [body for body in bodies if isinstance(body, KubernetesEvent)]


@pytest.mark.parametrize(
    "line",
    [
        klog("event.go", LINE),
        klog("event.go", LINE.replace(' kind="Pod"', ' fieldPath="" kind="Pod"')),
        klog_json("record/event.go:389", "Event occurred",
                  object={"name": "web", "namespace": "default"}, fieldPath="", kind="Pod",
                  apiVersion="v1", type="Warning", reason="Unhealthy", message=MESSAGE),
        klog("event.go",
             'Event(v1.ObjectReference{Kind:"Pod", Namespace:"default", Name:"web", UID:"", '
             'APIVersion:"v1", ResourceVersion:"7", FieldPath:""}): '
             f"type: 'Warning' reason: 'Unhealthy' {MESSAGE}"),
    ],
    ids=["1.20", "1.36", "1.36 JSON", "1.19"],
)  # fmt: skip
def test_every_form_of_the_line(line: str) -> None:
    (fact,) = feed_log(ReasonAssembler(Registers(BundleContext(node="n"))), line)
    assert fact.body == KubernetesEvent(
        object_kind="Pod",
        namespace="default",
        pod="web",
        pod_uid=None,
        type="Warning",
        reason="Unhealthy",
        message=MESSAGE,
    )
    assert [evidence.line for evidence in fact.evidence] == [1]


@pytest.mark.parametrize(
    ("field_path", "message", "container"),
    [
        ("spec.containers{app}", "x", "app"),
        ("spec.containers{a pp}", "Started container app", "app"),
        ("spec.initContainers{setup}", "x", "setup"),
        ("spec.ephemeralContainers{debug}", "x", "debug"),
        ("", "Started container app-2", "app-2"),
        ("", "Stopping container app", "app"),
        ("", "Container app failed liveness probe, will be restarted", "app"),
        ("", "Container image already present", None),
    ],
)
def test_container(field_path: str, message: str, container: str | None) -> None:
    """From the field path, or from the kubelet's own words."""
    line = (
        f'"Event occurred" object="default/web" fieldPath="{field_path}" kind="Pod" '
        f'apiVersion="v1" type="Normal" reason="R" message="{message}"'
    )
    (body,) = reasons(
        feed_log(ReasonAssembler(Registers(BundleContext(node="n"))), klog("event.go", line))
    )
    assert body.container == container


def test_uid_from_other_files() -> None:
    """The log of no structured form holds the UID; the bundle's pod lists do."""
    context = BundleContext(node="n")
    context.pods["u1"] = KnownPod("default", "web", "u1", 0, "api", Evidence(file="pods.json"))
    context.uids_by_name["default", "web"] = ["u1"]
    (body,) = reasons(feed_log(ReasonAssembler(Registers(context)), klog("event.go", LINE)))
    assert body.pod_uid == "u1"


UID = "9c33f1d1-63ea-4975-bb32-0d0e6ceed50d"


@pytest.mark.parametrize(
    ("known", "is_disputed"),
    [
        ({"web": UID}, False),
        ({"web": "u1", "db": UID}, True),
        ({"db": UID}, False),  # no list calls a pod so
        ({"web": "u1"}, False),  # whose UID that is nobody knows
    ],
)
def test_an_event_of_another_pod_than_its_words(known: dict[str, str], is_disputed: bool) -> None:
    context = BundleContext(node="n")
    for name, uid in known.items():
        context.pods[uid] = KnownPod("default", name, uid, 0, "api", Evidence(file="pods.json"))
        context.uids_by_name["default", name] = [uid]
    words = f"Back-off restarting failed container app in pod web_default({UID})"
    line = LINE.replace(MESSAGE, words)
    facts = feed_log(ReasonAssembler(Registers(context)), klog("event.go", line))
    assert disputes(facts) == is_disputed


@pytest.mark.parametrize(
    ("made_ms", "changes", "is_disputed"),
    [
        (-1, {}, False),
        (-1, {"reason": "Killing"}, True),
        (-1, {"type": "Normal"}, True),
        (-900, {"reason": "Killing"}, False),  # of another occurrence
        (1, {"reason": "Killing"}, False),
        (-1, {"reason": "Killing", "message": "Stopping container app"}, False),
    ],
)
def test_an_event_object_beside_its_line(
    made_ms: int, changes: dict[str, Any], is_disputed: bool
) -> None:
    """Its name has the time at which the kubelet made it."""
    line = klog("event.go", LINE)
    (fact,) = feed_log(ReasonAssembler(Registers(BundleContext(node="n"))), line)
    name = f"web.{fact.ts_ns + made_ms * 1_000_000:x}"
    context, _ = listed(event(1, **changes) | {"metadata": {"uid": "e1", "name": name}})
    assert disputes(feed_log(ReasonAssembler(Registers(context)), line)) == is_disputed


def disputes(facts: list[Fact]) -> bool:
    return any(isinstance(fact.body, FindingReported) for fact in facts)


def test_long_messages_are_cut_by_the_api_server() -> None:
    """The API holds 1024 bytes; the log holds all."""
    long = "é" * 800
    context, _ = listed(event(1, message="é" * 512))
    line = LINE.replace(MESSAGE, long)
    (body,) = reasons(feed_log(ReasonAssembler(Registers(context)), klog("event.go", line)))
    assert (body.message, body.api_count) == (long, 1)


def test_similar_events_are_combined() -> None:
    """Once the recorder merges similar events, other words count too."""
    context, _ = listed(event(12, message=f"{COMBINED}something else"))
    (body,) = reasons(feed_log(ReasonAssembler(Registers(context)), klog("event.go", LINE)))
    assert (body.message, body.api_count) == (MESSAGE, 12)


def test_api_events_that_the_log_lacks() -> None:
    """They are facts of their own, at their own time, and say how many they stand for."""
    later = "2026-11-21T02:53:00Z"
    context, items = listed(event(2), event(5, last=later), event(5, last=later))
    assembler = ReasonAssembler(Registers(context))
    facts = [*feed_items(assembler, items), *assembler.finish(0)]
    assert [fact.ts_ns for fact in facts] == [parse_ts(SECOND), parse_ts(later)]
    assert [(body.count, body.api_count) for body in reasons(facts)] == [(2, 2), (3, 5)]


def test_list_after_the_lines() -> None:
    """A list shows the last state only: the lines before it are covered by its count."""
    context, items = listed(event(2, last="2026-11-21T02:52:43Z"))
    assembler = ReasonAssembler(Registers(context))
    facts = []
    for time in ("02:52:41.2", "02:52:42.6"):
        facts += feed_log(assembler, klog("event.go", LINE, time=f"{time}00000"))
    facts += [*feed_items(assembler, items), *assembler.finish(0)]
    assert [(body.count, body.api_count) for body in reasons(facts)] == [(1, 2), (1, 2)]


def test_lines_cover_counts_only_once() -> None:
    context, items = listed(
        event(2, last="2026-11-21T02:52:43Z"), event(4, last="2026-11-21T02:53:20Z")
    )
    assembler = ReasonAssembler(Registers(context))
    times = ("02:52:41.549548", "02:52:41.549549")
    feed_log(assembler, "".join(klog("event.go", LINE, time=time) for time in times))
    facts = [*feed_items(assembler, items), *assembler.finish(0)]
    assert [(body.count, body.api_count) for body in reasons(facts)] == [(2, 4)]


@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({}, True),
        ({"source": {"component": "default-scheduler"}}, False),
        ({"source": {"component": "kubelet", "host": "another"}}, False),
        ({"source": {}, "reportingComponent": "kubelet", "reportingInstance": "n"}, True),
        ({"source": {}, "reportingComponent": "default-scheduler"}, False),
        ({"source": {}}, True),
    ],
)
def test_only_this_kubelets_events(changes: dict[str, Any], ours: bool) -> None:
    """The list holds those of schedulers, controllers and other nodes as well."""
    context, (item,) = listed(event(1, **changes))
    assert item.event.may_be_of(context.node) is ours


def test_events_of_the_newer_api() -> None:
    """``events.k8s.io/v1`` has other names for the same."""
    new = {
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"uid": "e9"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "pod-uid"},
        "reportingController": "kubelet",
        "reportingInstance": "n",
        "type": "Normal",
        "reason": "Pulled",
        "note": "done",
        "deprecatedCount": 4,
    }
    assembler = ReasonAssembler(Registers(BundleContext(node="n")))
    item = ApiEvent(parse_ts(SECOND), ApiReason.read(new), Evidence(file="events.json"))
    (body,) = reasons([*feed_items(assembler, [item]), *assembler.finish(0)])
    assert (body.message, body.count, body.pod_uid) == ("done", 4, "pod-uid")


def test_line_that_lacks_its_values() -> None:
    """A line cut short is still an event, of an unknown object."""
    line = LogLine(1, "I", 1, "event.go", 1, "Event occurred", None, "kubelet.log", 1, 0, "text")
    assembler = ReasonAssembler(Registers(BundleContext(node="n")))
    facts = list(listening(assembler)["Event occurred"][0](line) or ())
    assert reasons(facts)[0].object_kind == ""


PAUSE = "registry.k8s.io/pause:3.9"


@pytest.mark.parametrize(
    ("message", "sizes", "found"),
    [
        (f'rpc error: failed to get sandbox image "{PAUSE}": failed to pull', {PAUSE: 10}, True),
        (f'rpc error: failed pulling image "{PAUSE}": no such host', {PAUSE: 10}, True),
        (f"creating pod sandbox: initializing source docker://{PAUSE}: x", {PAUSE: 10}, True),
        (f'failed to get sandbox image "{PAUSE}"', {PAUSE: 11}, False),
        (f'failed to get sandbox image "{PAUSE}"', {PAUSE: 10, "other": 10}, False),
        (f'failed to get sandbox image "{PAUSE}"', {}, False),
        ("failed to set up the network", {PAUSE: 10}, False),
    ],
)
def test_a_failed_sandbox(message: str, sizes: dict[str, int], found: bool) -> None:
    """It goes back to the newest removal of an image of the size that the named one alone has."""
    now, file = parse_ts(SECOND), Evidence(file="kubelet.log")
    removals = [
        Fact(now + second, ImageDeleted(image_id=name, size_bytes=size), (file,))
        for second, name, size in ((-3, "a", 10), (-2, "b", 10), (-1, "c", 12), (10**9, "d", 10))
    ]
    registers = Registers(BundleContext(node="n", image_sizes=sizes))
    registers.removed_images += removals
    assembler = ReasonAssembler(registers)
    for reason, cause in (("FailedCreatePodSandBox", removals[1] if found else None), ("x", None)):
        line = LINE.replace("Unhealthy", reason).replace(MESSAGE, message.replace('"', '\\"'))
        (fact,) = feed_log(assembler, klog("event.go", line))
        assert fact.cause is cause


@pytest.mark.parametrize(("has_log", "count", "expected"), [
    (False, 14, [("T02:52:41Z", 1), ("T03:06:41Z", 13)]),
    (False, 1, [("T03:06:41Z", 1)]),
    (True, 14, [("T03:06:41Z", 14)]),
])  # fmt: skip
def test_a_list_without_a_log_shows_since_when(
    tmp_path: Path, has_log: bool, count: int, expected: list[tuple[str, int]]
) -> None:
    """A log's lines show more of that than the first and the last time."""
    (tmp_path / "in").mkdir()
    items = [event(count, last="2026-11-21T03:06:41Z")]
    events = {"apiVersion": "v1", "kind": "List", "items": items}
    (tmp_path / "in" / "events.json").write_text(json.dumps(events))
    if has_log:
        (tmp_path / "in" / "kubelet.log").write_text(
            klog("kubelet.go", "Starting kubelet main sync loop.")
        )
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(tmp_path / "in")], ledger, ImportOptions(node="n"))
    found = [each for each in ledger.records() if isinstance(each.body, KubernetesEvent)]
    assert [(format_ts(each.ts_ns)[10:], each.body.count) for each in found] == expected  # type: ignore[attr-defined] # its body is one


def test_a_pod_that_only_lines_name_came_before_the_one_that_lists_show() -> None:
    """A line that names neither is about the one that was made last by then."""
    seen = Evidence(file="kubelet.log")
    context = BundleContext(node="n")
    context.pods["new"] = KnownPod("shop", "a", "new", 50, "api", seen, created=True)
    context.uids_by_name["shop", "a"] = ["new"]
    context.learn_uid("shop", "a", "old", 10, seen)
    assert [context.uid_of("shop", "a", ts_ns) for ts_ns in (20, 60)] == ["old", "new"]


def test_a_line_names_a_pod_before_a_list_shows_it() -> None:
    """As with a static pod whose manifest was changed: its object has no time of creation."""
    seen = Evidence(file="kubelet.log")
    context = BundleContext(node="n")
    context.pods["new"] = KnownPod("shop", "a", "new", 50, "kubelet", seen)
    context.uids_by_name["shop", "a"] = ["new"]
    context.learn_uid("shop", "a", "old", 10, seen)
    context.learn_uid("shop", "a", "new", 20, seen)
    assert [context.uid_of("shop", "a", ts_ns) for ts_ns in (15, 30)] == ["old", "new"]
