"""One fact told twice: what is a contradiction, and what may be two accounts of one thing."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.eviction import PodPreempted, ReclaimAttempted
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    KubernetesEvent,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Contradiction, verify
from kubeledger.verify.evidence.gather import are_unjoined
from kubeledger.verify.evidence.history_entries import HistoryEntry, Listing
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.rules.disputes import SourceDisputes
from tests.verify.histories import reader, scene

POD: dict[str, Any] = {"namespace": "ns", "pod": "web", "pod_uid": "uid-1"}
EVENT = '"Event occurred" object="{}" kind="Pod" type="Warning" reason="{}" message="{}"'
STATUS = (
    'status_manager.go:443] Status Manager: adding pod: "uid-1", with status: (1, {{Failed [] {} {}'
    "    [] 2026-11-21 03:00:17 +0000 UTC [] []  []}}) to podStatusChannel"
)
DENIED = "Pod admission denied"
PREEMPTED = "Preempted in order to admit critical pod"


def disputes(records: list[Record]) -> list[Contradiction]:
    found = verify(reader(records), verifiers=[SourceDisputes])
    return [outcome for outcome in found if isinstance(outcome, Contradiction)]


def told_by(body: Body, *lines: str) -> list[Record]:
    (record,) = scene((0, body))
    evidence = tuple(
        Evidence(file="kubelet.log", line=number, offset=0, text=text)
        for number, text in enumerate(lines, start=1)
    )
    return [msgspec.structs.replace(record, evidence=evidence)]


@pytest.mark.parametrize(
    ("line", "is_disputed"),
    [
        (EVENT.format("ns/web", "OutOfcpu", "used: 1450"), False),
        (EVENT.format("ns/web", "OutOfcpu", "used: 1350"), True),
        (EVENT.format("ns/web", "OutOfmemory", "used: 1450"), True),
        (EVENT.format("ns/web", "OutOfcpu", "used: 1450")[:-3], False),  # it is cut
        (STATUS.format("Pod used: 1450", "OutOfcpu"), False),
        (STATUS.format("Pod was rejected: used: 1450", "OutOfcpu"), False),
        (STATUS.format("Pod used: 1450", "OutOfmemory"), True),
        (EVENT.format("ns/web", "OutOfcpu", 'used: \\"145 0'), False),  # wrapped at a quote
        ('"Predicate failed on Pod" pod="ns/web" err="used: 1450"', False),
        ('"Predicate failed on Pod" pod="ns/web" err="used: 1350"', True),
        ('"SyncLoop ADD" source="api" pods=["ns/web"]', False),
    ],
)
def test_refusal(line: str, is_disputed: bool) -> None:
    body = PodRejected(**POD, reason="OutOfcpu", message="used: 1450")
    assert bool(disputes(told_by(body, line))) == is_disputed


@pytest.mark.parametrize(
    ("text", "made_s", "other_s", "is_disputed"),
    [
        (DENIED, 40, 0, True),
        (DENIED, 2, 0, False),
        ("Predicate failed on Pod", 40, 0, False),  # perhaps another pod of that name
        (DENIED, 40, 40, False),  # the clocks are apart
        (DENIED, 40, -40, False),  # of which nobody knows
    ],
)
def test_refused_before_it_was_made(
    text: str, made_s: int, other_s: int, is_disputed: bool
) -> None:
    other = {**POD, "pod": "db", "pod_uid": "uid-2"}
    added = (PodConfigChanged(**pod, operation="ADD", source="api") for pod in (other, POD))
    made = (1_000 + at_s for at_s in (other_s, made_s))
    lists = [msgspec.structs.replace(listed({}), **pod, created_ts_ns=at_s * NS_PER_S)
             for pod, at_s in zip((other, POD), made, strict=True)]  # fmt: skip
    refused = PodRejected(**POD, reason="OutOfcpu", message="used: 1450")
    records = scene(*zip((0, 0, 0, 90, 90), (*added, refused, *lists), strict=True))
    evidence = (msgspec.structs.replace(records[2].evidence[0], text=text),)
    records[2] = msgspec.structs.replace(records[2], evidence=evidence)
    assert bool(disputes(records)) == is_disputed


@pytest.mark.parametrize(("word", "is_disputed"), [("Infeasible", False), ("Deferred", True)])
def test_words_of_a_resize(word: str, is_disputed: bool) -> None:
    event = KubernetesEvent(**POD, object_kind="Pod", type="Warning", reason="ResizeInfeasible",
                            message=f"Pod resize {word}: {{}}")  # fmt: skip
    assert bool(disputes(scene((0, event)))) == is_disputed


@pytest.mark.parametrize(
    ("line", "is_disputed"),
    [
        (EVENT.format("ns/web", "Preempting", PREEMPTED), False),
        (EVENT.format("ns/other", "Preempting", PREEMPTED), True),
        (EVENT.format("ns/web", "Evicted", PREEMPTED), True),
        (EVENT.format("ns/ot", "Preempting", PREEMPTED)[:22], False),  # it is cut
        (STATUS.format(PREEMPTED, "Preempting"), False),
        (STATUS.format(PREEMPTED, "Evicted"), True),
        ('"Pod evicted successfully" pod="ns/web"', False),
        ('"Pod evicted successfully" pod="ns/other"', True),
        ("preemption: pod web_ns(uid-1) evicted successfully", False),
        ("preemption: pod other_ns(uid-1) evicted successfully", True),
    ],
)
def test_victim(line: str, is_disputed: bool) -> None:
    assert bool(disputes(told_by(victim(), line))) == is_disputed


@pytest.mark.parametrize(
    ("reason", "message", "is_disputed"),
    [
        ("Preempting", PREEMPTED, False),
        ("Preempting", "The node was low on resource: memory", True),
        ("Evicted", PREEMPTED, True),
        ("Evicted", "The node was low on resource: memory", False),  # somebody else set it
    ],
)
def test_status_of_a_victim(reason: str, message: str, is_disputed: bool) -> None:
    status = {"phase": "Failed", "reason": reason, "message": message}
    assert bool(disputes(scene((0, victim()), (9, listed(status))))) == is_disputed


LOW = "The node was low on resource: memory. Threshold quantity: 14Gi, available: {}Ki. "

LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 15Mi. "


def evicted(message: str | None) -> PodEvicted:
    return PodEvicted(**POD, resource="memory", message=message, evicted=True)


def watched(*told: tuple[float, Body]) -> list[Record]:
    """What is told in a log without a hole."""
    start = KubeletStarted(pid=1, kubelet_version=None, version_source=None)
    signal = EvictionSignalObserved(signal="memory.available", available=8, capacity=9)
    rounds = [(float(at_s), signal) for at_s in range(0, 500, 10)]
    return scene((0, start), *sorted([*rounds, *told], key=lambda each: each[0]))


@pytest.mark.parametrize(
    ("messages", "shown", "is_disputed"),
    [
        ([LOW.format(1)], LOW.format(1), False),
        ([LOW.format(1)], LOW.format(2), True),
        ([LOW.format(1)], LOW.format(1).replace("memory", "pids"), True),
        ([LOW.format(1), LOW.format(2)], LOW.format(1), False),
        ([LOW.format(1), LOW.format(2)], LOW.format(3), True),
        ([LOW.format(1), None], LOW.format(3), False),  # it may be that one's
        ([LOW.format(1)], LOW.format(1).replace(" ", " \t"), False),  # wrapped
        ([LIMIT], LIMIT, False),
        ([LIMIT], LIMIT.replace("15Mi", "25Mi"), True),
        ([LOW.format(1)], "The node had condition: [MemoryPressure]. ", False),  # a refusal
        ([LOW.format(1)], "Pod was preempted by Kubelet to accommodate a critical pod.", False),
    ],
)
def test_messages_of_evictions(messages: list[str | None], shown: str, is_disputed: bool) -> None:
    event = KubernetesEvent(**POD, object_kind="Pod", type="Warning", reason="Evicted",
                            message=shown)  # fmt: skip
    ended = {"phase": "Failed", "reason": "Evicted", "message": shown}
    condition = {"type": "DisruptionTarget", "message": shown}
    succeeded = {"phase": "Succeeded", "conditions": [condition]}
    for told in (event, listed(ended), listed(succeeded)):
        evictions = [(300.0 + n, evicted(each)) for n, each in enumerate(messages)]
        assert bool(disputes(watched(*evictions, (310, told)))) == is_disputed
        assert not disputes(scene(*evictions, (310, told)))  # of a log that has holes


@pytest.mark.parametrize(("rounds", "is_disputed"), [(1, True), (2, False)])
def test_lines_of_two_rounds(rounds: int, is_disputed: bool) -> None:
    """The line between them was lost: the second message is of the same record."""
    event = KubernetesEvent(**POD, object_kind="Pod", type="Warning", reason="Evicted",
                            message=LOW.format(2))  # fmt: skip
    records = watched((300, evicted(LOW.format(1))), (301, event))
    at = next(n for n, each in enumerate(records) if isinstance(each.body, PodEvicted))
    lines = told_by(records[at].body, *['"Evicting pod" pod="ns/web"'] * rounds)[0].evidence
    records[at] = msgspec.structs.replace(records[at], evidence=lines)
    assert bool(disputes(records)) == is_disputed


@pytest.mark.parametrize(
    ("line", "is_disputed"),
    [
        ('"Eviction manager: must evict pod(s) to reclaim" resourceName="memory"', False),
        ('"Eviction manager: must evict pod(s) to reclaim" resourceName="pids"', True),
        ("eviction manager: must evict pod(s) to reclaim memory", False),
        ("eviction manager: attempting to reclaim inodes", True),
        ('"Eviction manager: must evict pod(s) to reclaim" resourc', False),  # it is cut
        ('"Eviction manager: must evict pod(s) to reclaim" resourceName="me mory"', False),
    ],
)
def test_lines_of_one_round(line: str, is_disputed: bool) -> None:
    assert bool(disputes(told_by(ReclaimAttempted(resource="memory"), line))) == is_disputed


@pytest.mark.parametrize(("awaited", "is_disputed"), [(None, True), (True, False)])
def test_the_end_of_another_pod(awaited: bool | None, is_disputed: bool) -> None:
    chosen = msgspec.structs.replace(evicted(LOW.format(1)), rank=1, evicted=awaited)
    end = msgspec.structs.replace(evicted(None), pod="db", pod_uid="uid-2")
    assert bool(disputes(watched((1, chosen), (3, end)))) == is_disputed


@pytest.mark.parametrize(
    ("machine", "again", "is_disputed"), [(8, None, False), (9, None, True), (9, 8, False)]
)
def test_memory_of_the_machine(machine: int, again: int | None, is_disputed: bool) -> None:
    bodies: list[Body] = [NodeObserved(memory_capacity_bytes=machine)]
    if again is not None:
        bodies += [START, NodeObserved(memory_capacity_bytes=again)]
    bodies += [EvictionSignalObserved(signal="memory.available", available=1, capacity=8)] * 3
    assert bool(disputes(scene(*enumerate(bodies)))) == is_disputed


@pytest.mark.parametrize(
    ("container_id", "code", "reason", "is_disputed"),
    [
        ("c-1", 1, "Error", False),
        ("c-1", 2, "Error", True),
        ("c-2", 2, "Error", False),  # another run
        ("c-1", 137, "ContainerStatusUnknown", False),  # the kubelet did not find it
    ],
)
def test_exit_code(container_id: str, code: int, reason: str, is_disputed: bool) -> None:
    died = ContainerDied(**POD, container="app", container_id="c-1", exit_code=1)
    ended = {"containerID": f"containerd://{container_id}", "exitCode": code, "reason": reason}
    status = {"containerStatuses": [{"name": "app", "lastState": {"terminated": ended}}]}
    assert bool(disputes(scene((0, died), (9, listed(status))))) == is_disputed


def listed(status: dict[str, Any]) -> PodListed:
    return PodListed(**POD, spec={"containers": []}, status=status, listed_by="kubelet")


RUNS = {"running": {"startedAt": "2026-11-21T03:00:00Z"}}
START = KubeletStarted(pid=2, kubelet_version=None, version_source=None)
AGAIN = {"running": {"startedAt": "2026-11-21T03:00:01Z"}}
ENDED = {"containerID": "x://c-1", "exitCode": 1, "finishedAt": "2026-11-21T03:01:00Z"}
EARLY, LATER = "2026-11-21T03:00:00Z", "2026-11-21T03:00:01Z"
WAITS = {"waiting": {"reason": "CrashLoopBackOff"}}


def one(
    state: dict[str, Any], count: int = 3, of: str = "c-1", image: str = "", **status: object
) -> PodListed:
    """A pod of one container, in a list."""
    shown = {"name": "app", "containerID": f"x://{of}", "restartCount": count, "state": state}
    every = [{**shown, "imageID": image}]
    return listed({"containerStatuses": every, "startTime": "t", **status})


def ended(**fields: object) -> PodListed:
    return one({"terminated": ENDED | fields})


def static(phase: str) -> PodListed:
    annotations = {"kubernetes.io/config.source": "file"}
    return anew(one(RUNS, phase=phase), annotations=annotations)


def anew(body: PodListed, **fields: object) -> PodListed:
    return msgspec.structs.replace(body, **fields)


@pytest.mark.parametrize(
    ("first", "later", "what"),
    [
        (one(RUNS), ended(), None),
        (ended(), one(RUNS), "a container to run after it had ended: c-1, by the kubelet"),
        (ended(), anew(one(RUNS), listed_by="api"), None),  # which is behind
        (ended(exitCode=255), one(RUNS), None),  # the runtime had lost it
        (one(WAITS), one(RUNS), "a container to run after it had ended"),
        (one({"waiting": {}}), one(RUNS), None),  # it was made, and had not begun
        (ended(), one(RUNS, 4, "c-2"), None),
        (ended(), one(WAITS), None),
        (ended(), ended(finishedAt="2026-11-21T03:01:01Z"), "different ends of the same"),
        (ended(), ended(exitCode=2), "different exit codes of the same container c-1"),
        (ended(), ended(exitCode=137, reason="ContainerStatusUnknown"), None),
        (one(RUNS), one(RUNS, 2, "c-2"), "fewer restarts than before"),
        (one(RUNS), one(RUNS, 0, "c-2"), None),  # counted anew
        (one(RUNS), one(RUNS, of="c-2"), "two containers for one start: uid-1, restart 3"),
        (one(RUNS), one(AGAIN, of="c-2"), None),  # which the kubelet counted before it saw it
        (one(RUNS), one(RUNS, 4, "c-2"), None),  # they start within a second
        (one(RUNS, image="sha256:1"), one(RUNS, image="sha256:2"), "images of the same container"),
        (one(RUNS, image="web@sha256:1"), one(RUNS, image="sha256:2"), None),  # lost its name
        (one(RUNS, image="sha256:1"), one(AGAIN, 4, "c-2", image="sha256:2"), None),
        (one(RUNS), anew(one(RUNS, 2, "c-2", startTime="u")), None),  # the pod came anew
        (one(RUNS, startTime=LATER), one(RUNS, startTime=EARLY), "to have begun earlier"),
        (one(RUNS, startTime=EARLY), one(RUNS, startTime=LATER), None),
        (one(RUNS, phase="Failed"), one(RUNS, phase="Running"), "a pod to go on after it had"),
        (one(RUNS, phase="Failed"), one(RUNS), None),  # what is left of a list does not say
        (static(phase="Failed"), static(phase="Running"), None),  # another process runs it
        (one(RUNS, phase="Pending"), one(RUNS, phase="Succeeded"), None),
        # A list without the start of a static pod does not tell one life from the next.
        (listed({"phase": "Failed"}), listed({"phase": "Running"}), None),
        (anew(one(RUNS), deletion_ts_ns=1), one(RUNS), "a pod that is no more to be deleted"),
        (one(RUNS), anew(one(RUNS), deletion_ts_ns=1), None),
        (anew(one(RUNS), created_ts_ns=1), anew(one(RUNS), created_ts_ns=2), "the pod was made"),
    ],
)
def test_lists_of_one_source_go_on(first: PodListed, later: PodListed, what: str | None) -> None:
    found = disputes(scene((0, first), (9, later), (18, later)))
    assert [what is not None and what in each.why for each in found] == [True] * (what is not None)


def test_a_status_that_denies_itself_is_told_once() -> None:
    said = {"spec": {"containers": [{"name": "app"}]}}
    lists = [anew(one(RUNS, phase="Succeeded", startTime=at), **said) for at in (EARLY, LATER)]
    (found,) = disputes(scene(*enumerate(lists)))
    assert (found.subject, "does not write together" in found.why) == ("container/ns/web/app", True)


@pytest.mark.parametrize(
    ("began", "others", "is_disputed"),
    [
        ("1970-01-01T00:18:20Z", (), True),
        ("1970-01-01T00:18:20Z", ((150, START),), False),  # the API had not got the pod's start
        ("1970-01-01T00:15:00Z", (), False),  # before the log
    ],
)
def test_a_container_begins_before_its_pod(
    began: str, others: tuple[tuple[float, Body], ...], is_disputed: bool
) -> None:
    """Where a clock may have been set back nothing is said."""
    runs = one({"running": {"startedAt": began}}, startTime="1970-01-01T00:20:00Z")
    runs = anew(runs, spec={"containers": [{"name": "app"}]})
    found = disputes(watched(*others, (250, runs)))
    assert [each.why.partition(" one ")[0] for each in found] == (
        ["by the times in a status"] if is_disputed else []
    )


@pytest.mark.parametrize(
    ("annotations", "found"), [({}, 1), ({"kubernetes.io/config.source": "file"}, 0)]
)
def test_what_is_set_once(annotations: dict[str, str], found: int) -> None:
    """A static pod may come anew under its UID."""
    lists = [anew(one(RUNS), spec={"containers": [], "priority": n}, annotations=annotations)
             for n in (5, 7)]  # fmt: skip
    assert len(disputes(scene(*enumerate(lists)))) == found


@pytest.mark.parametrize(
    ("made_s", "others", "is_disputed"),
    [(40, 1, True), (2, 1, False), (40, 2, False)],  # another of that name came, too
)
def test_added_before_it_was_made(made_s: int, others: int, is_disputed: bool) -> None:
    other = {**POD, "pod": "db", "pod_uid": "uid-2"}
    added = [PodConfigChanged(**pod, operation="ADD", source="api") for pod in (other, POD)]
    made = [anew(listed({}), **pod, created_ts_ns=at_s * NS_PER_S)
            for pod, at_s in ((other, 1_000), (POD, 1_000 + made_s))]  # fmt: skip
    again = PodConfigChanged(**POD | {"pod_uid": "uid-3"}, operation="ADD", source="api")
    told: list[tuple[float, Body]] = [(0.1, each) for each in added]
    told += [(0.2, again)] * (others - 1) + [(90, each) for each in made]
    assert bool(disputes(watched(*told))) == is_disputed


@pytest.mark.parametrize("later", [one(RUNS), one(RUNS, 2, "c-2"), one(WAITS)])
def test_one_api_server_is_behind_another(later: PodListed) -> None:
    newest = anew(ended(), listed_by="api", deletion_ts_ns=1)
    assert not disputes(scene((0, newest), (9, anew(later, listed_by="api")), (18, newest)))


def test_two_containers_of_one_id() -> None:
    names = ("app", "log")
    status = [{"name": name, "containerID": "x://c-1", "state": RUNS} for name in names]
    (found,) = disputes(scene((0, listed({"containerStatuses": status[:1]})),
                              (9, listed({"containerStatuses": status[1:]}))))  # fmt: skip
    assert "two containers with the same ID c-1" in found.why


@pytest.mark.parametrize(("pod", "is_disputed"), [("web", False), ("db", True)])
def test_one_container_of_two_pods(pod: str, is_disputed: bool) -> None:
    started = ContainerStarted(**POD, container="app", container_id="c-1", sandbox=False)
    again = msgspec.structs.replace(started, pod=pod, pod_uid="uid-2")
    assert bool(disputes(scene((0, started), (9, again)))) == is_disputed


def victim() -> PodPreempted:
    return PodPreempted(
        victim_namespace="ns", victim_pod="web", victim_uid="uid-1", preemptor_namespace=None,
        preemptor_pod=None, preemptor_uid=None, insufficient=(), evicted=True,
    )  # fmt: skip


# Sources that hide names: ordinary nodes and single lies do not look like them.

Pod = dict[str | None, Sequence[HistoryEntry]]


def _logged(at_s: int, container_id: str | None = None, container: str = "c") -> HistoryEntry:
    return HistoryEntry(at_s * NS_PER_S, 1, "started", container=container,
                        container_id=container_id)  # fmt: skip


def _listed(at_s: int, created_s: int, *, mirror: bool = False) -> HistoryEntry:
    listing = Listing(by="api", alive=True, created_ns=created_s * NS_PER_S, mirror=mirror)
    return HistoryEntry(at_s * NS_PER_S, 1, "listed", listing=listing)


@pytest.mark.parametrize(
    ("of_name", "hidden"),
    [
        pytest.param({"x": [_logged(110)], "u": [_listed(300, 99)]}, True, id="two UIDs at once"),
        pytest.param({"x": [_logged(100)], "u": [_logged(200), _listed(300, 190)]}, False,
                     id="recreated under one name"),
        pytest.param({"x": [_logged(100)], "u": [_listed(9000, 8000)]}, False,
                     id="lists of hours later"),
        pytest.param({"x": [_logged(200)], "u": [_listed(50, 10)]}, False, id="lists from before"),
        pytest.param({"x": [_logged(200)], "u": [_listed(300, 101, mirror=True)]}, False,
                     id="a static pod and its mirror"),
    ],
)  # fmt: skip
def test_uids_of_lists_and_log(of_name: Pod, hidden: bool) -> None:
    several = dict[str, Pod]()
    for n in range(2):
        several[f"d/p-{n}"] = {f"{uid}-{n}": entries for uid, entries in of_name.items()}
    assert are_unjoined(several, PodRegister()) is hidden
    assert not are_unjoined({"d/p": of_name}, PodRegister()), (
        "a single line that is wrong hides nothing"
    )


def test_one_container_id() -> None:
    """One line is wrong by itself; an ID that is several pods', or a mask, stands for others."""
    pod: Pod = {"u": [_logged(1, "a"), _logged(2, "a", "b"), _logged(3, "<id>", "e")]}
    assert not are_unjoined({"d/p": pod, "d/q": {"v": [_logged(4, "a")]}}, PodRegister())
    assert are_unjoined({f"d/{n}": {n: [_logged(1, "a")]} for n in "pqr"}, PodRegister())
    assert are_unjoined(
        {"d/p": {"u": [_logged(1, "<id>"), _logged(2, "<id>", "b")]}}, PodRegister()
    )


def test_names_that_were_cut() -> None:
    """Names that stand without a UID begin others, in lines whose names were cut."""
    whole: dict[str, Pod] = {f"d/{name}-1": {name: [_listed(300, 99)]} for name in "pqr"}
    cut: dict[str, Pod] = {f"d/{name}": {None: [_logged(1)]} for name in "pqr"}
    assert are_unjoined(whole | cut, PodRegister())
    assert not are_unjoined(whole | {"d/p": cut["d/p"]}, PodRegister())
    others: dict[str, Pod] = {f"d/{name}": {None: [_logged(1)]} for name in "abc"}
    assert not are_unjoined(whole | others | {"d/p": cut["d/p"]}, PodRegister())
