"""The eviction manager against the recorded kubelet; version boundaries; what is chance."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines

LINES = Lines("eviction")
GIB = 1 << 30
MIB = 1 << 20

Json = dict[str, Any]


# -- scenes ----------------------------------------------------------------------------------------


def pod(name: str = "p0", **spec: object) -> Json:
    """A pod of one container ``c`` that requests 100 MiB of memory."""
    container = {"name": "c", "resources": {"requests": {"memory": "100Mi"}}}
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 30} | spec,
    }


def pod_stats(name: str = "p0", memory: int = 200 * MIB, disk: int = 0, **more: object) -> Json:
    used = {"workingSetBytes": memory}
    layers = {"usedBytes": disk, "inodesUsed": 0}
    logs = {"usedBytes": 0, "inodesUsed": 0}
    return {
        "podRef": {"name": name, "uid": name},
        "memory": used,
        "containers": [{"name": "c", "memory": used, "rootfs": layers, "logs": logs}],
        "ephemeral-storage": {"usedBytes": disk},
    } | more


def filesystem(available: int, capacity: int = 100 * GIB) -> Json:
    return {
        "availableBytes": available,
        "capacityBytes": capacity,
        "inodesFree": 1000,
        "inodes": 2000,
    }


def summary(
    *pods: Json,
    memory: int = 4 * GIB,
    nodefs: int = 50 * GIB,
    imagefs: int = 50 * GIB,
    containerfs: int | None = None,
) -> Json:
    """Statistics of a node of 8 GiB."""
    containers = imagefs if containerfs is None else containerfs
    return {
        "node": {
            "memory": {"availableBytes": memory, "workingSetBytes": 8 * GIB - memory},
            "fs": filesystem(nodefs),
            "runtime": {"imageFs": filesystem(imagefs), "containerFs": filesystem(containers)},
        },
        "pods": list(pods),
    }


def case(
    *summaries: Json,
    pods: list[Json] | None = None,
    **config: Any,  # noqa: ANN401  # any setting
) -> Json:
    """Rounds ten seconds apart."""
    steps = [
        {"at": f"2026-01-05T08:{at // 6:02}:{at % 6}0Z", "summary": each}
        for at, each in enumerate(summaries)
    ]
    settings: Json = {
        "evictionHard": {},
        "evictionSoft": {},
        "evictionSoftGracePeriod": {},
        "evictionMinimumReclaim": {},
        "enforceNodeAllocatable": [],
        "pressureTransitionPeriod": "15s",
        "maxPodGracePeriodSeconds": 60,
        "dedicatedImageFs": False,
        "splitContainerFs": False,
        "localStorageCapacityIsolation": True,
    }
    found = [pod()] if pods is None else pods
    return {"config": settings | config, "pods": found, "steps": steps}


def steps(version: str, case_input: Json) -> list[Json]:
    found: list[Json] = LINES.decided(version, case_input)["steps"]
    return found


def evicted(version: str, case_input: Json) -> list[list[str]]:
    return [[each["pod"] for each in step["evicted"]] for step in steps(version, case_input)]


HARD: Json = {"evictionHard": {"memory.available": "1Gi"}}
SOFT: Json = {
    "evictionSoft": {"memory.available": "1Gi"},
    "evictionSoftGracePeriod": {"memory.available": "20s"},
}
SHORT = summary(pod_stats(), memory=512 * MIB)
FINE = summary(pod_stats())


# -- version boundaries ----------------------------------------------------------------------------

OLD_TEXT = (
    "The node was low on resource: memory. "
    "Container c was using 200Mi, which exceeds its request of 100Mi. "
)
NEW_TEXT = (
    "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. "
    "Container c was using 200Mi, request is 100Mi, has larger consumption of memory. "
)


@pytest.mark.parametrize(
    ("version", "hard_s", "soft_s", "text", "condition"),
    [
        ("1.19.0", 0, 60, OLD_TEXT, ""),
        ("1.25.0", 0, 60, OLD_TEXT, ""),
        ("1.26.7", 0, 60, NEW_TEXT, NEW_TEXT),
        ("1.30.1", 0, 60, NEW_TEXT, NEW_TEXT),
        ("1.31.0", 1, 60, NEW_TEXT, NEW_TEXT),
        ("1.32.0", 1, 30, NEW_TEXT, NEW_TEXT),
        ("1.36.2", 1, 30, NEW_TEXT, NEW_TEXT),
    ],
)
def test_grace_and_texts(version: str, hard_s: int, soft_s: int, text: str, condition: str) -> None:
    """Of a hard eviction; a soft one comes when its grace period is over, and not before."""
    (step,) = steps(version, case(SHORT, **HARD))
    (gone,) = step["evicted"]
    assert gone == {
        "pod": "p0",
        "gracePeriodSeconds": hard_s,
        "reason": "Evicted",
        "message": text,
        "conditionMessage": condition,
    }
    assert step["nodeConditions"] == ["MemoryPressure"]
    assert step["events"] == [
        "Warning EvictionThresholdMet Attempting to reclaim memory",
        f"Warning Evicted {text} map[offending_containers:c offending_containers_usage:200Mi "
        "starved_resource:memory]",
    ]
    waits = steps(version, case(SHORT, SHORT, SHORT, **SOFT))
    assert [len(each["evicted"]) for each in waits] == [0, 0, 1]
    assert waits[0]["nodeConditions"] == ["MemoryPressure"]
    assert waits[2]["evicted"][0]["gracePeriodSeconds"] == soft_s


@pytest.mark.parametrize(("version", "spared"), [("1.21.3", True), ("1.22.3", False)])
def test_reclaim_has_to_reach_the_minimum(version: str, spared: bool) -> None:
    """Since 1.22, on top of the threshold."""
    short = summary(pod_stats(), nodefs=5 * GIB)
    settings: Json = {
        "evictionHard": {"nodefs.available": "10Gi"},
        "evictionMinimumReclaim": {"nodefs.available": "5Gi"},
    }
    case_input = case(short, **settings)
    case_input["steps"][0]["after"] = summary(pod_stats(), nodefs=12 * GIB)
    (step,) = steps(version, case_input)
    assert step["nodeLevelReclaim"] == ["containers", "images"]
    assert bool(step["evicted"]) is not spared


@pytest.mark.parametrize(
    ("version", "reclaimed"),
    [("1.28.0", None), ("1.29.0", []), ("1.31.0", []), ("1.32.0", ["containers", "images"])],
)
def test_a_threshold_of_containerfs(version: str, reclaimed: list[str] | None) -> None:
    """It is that of imagefs, comes with the second round, and reclaims since 1.32."""
    short = summary(pod_stats(), imagefs=50 * GIB, containerfs=5 * GIB)
    settings: Json = {"evictionHard": {"imagefs.available": "10Gi"}, "dedicatedImageFs": True}
    first, second = steps(version, case(short, short, **settings))
    assert not first["nodeConditions"]
    assert not first["evicted"]
    assert bool(second["evicted"]) is (reclaimed is not None)
    assert second["nodeLevelReclaim"] == (reclaimed or [])
    configured = case(short, **settings)
    configured["config"]["evictionHard"]["containerfs.available"] = "1Gi"
    if reclaimed is None:
        error = LINES.decided(version, configured)["configError"]
        assert error == "unsupported eviction signal containerfs.available"
    else:
        # What was configured is replaced at once.
        assert evicted(version, configured) == [["p0"]]


@pytest.mark.parametrize(
    ("version", "nodefs", "conditions"),
    [
        ("1.28.0", [], [["DiskPressure"], ["DiskPressure"]]),  # taken for a dedicated disk
        ("1.29.0", [], [[], ["DiskPressure"]]),  # the first round fails, later ones rank nobody
        ("1.30.1", [], [[], ["DiskPressure"]]),
        ("1.31.0", ["containers"], [["DiskPressure"], ["DiskPressure"]]),
        ("1.36.2", ["containers"], [["DiskPressure"], ["DiskPressure"]]),
    ],
)
def test_split_disks(version: str, nodefs: list[str], conditions: list[list[str]]) -> None:
    """Since 1.31 pressure on the kubelet's own disk removes containers there."""
    critical = pod(priority=2_000_000_000)
    short = summary(nodefs=5 * GIB)
    settings: Json = {"dedicatedImageFs": True, "splitContainerFs": True}
    limits: Json = {"evictionHard": {"nodefs.available": "10Gi"}}
    found = steps(version, case(short, short, pods=[critical], **limits, **settings))
    assert [step["nodeConditions"] for step in found] == conditions
    assert found[1]["nodeLevelReclaim"] == nodefs
    others = evicted(version, case(short, short, **limits, **settings))
    assert others == ([[], []] if version in ("1.29.0", "1.30.1") else [["p0"], []])


SIDECAR = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"memory": "300Mi"}}}
AS_A_WHOLE = {"requests": {"memory": "150Mi"}}


@pytest.mark.parametrize(
    ("version", "spec", "first"),
    [
        # p0 uses 350Mi and requests 100Mi in its container, p1 uses 150Mi and requests 100Mi.
        ("1.33.1", {"initContainers": [SIDECAR]}, ["p0", "p1"]),
        ("1.34.1", {"initContainers": [SIDECAR]}, ["p1", "p0"]),
        ("1.33.1", {"resources": {"requests": {"memory": "400Mi"}}}, ["p0", "p1"]),
        ("1.34.1", {"resources": {"requests": {"memory": "400Mi"}}}, ["p1", "p0"]),
        ("1.36.2", {"overhead": {"memory": "240Mi"}}, ["p1", "p0"]),
        ("1.36.2", {"priority": 1}, ["p1", "p0"]),
        ("1.36.2", {"priority": -1}, ["p0", "p1"]),
    ],
)
def test_what_a_pod_requests(version: str, spec: Json, first: list[str]) -> None:
    """In the ranking sidecars, and what is requested as a whole, count since 1.34."""
    stats = [pod_stats("p0", 350 * MIB), pod_stats("p1", 150 * MIB)]
    (step,) = steps(version, case(summary(*stats), pods=[pod("p0", **spec), pod("p1")], **HARD))
    assert [uid for group in step["rank"]["memory"] for uid in group] == first


@pytest.mark.parametrize(
    ("version", "named"),
    [("1.31.0", ["c"]), ("1.32.0", ["c", "s"]), ("1.34.1", ["Pod p0", "c", "s"])],
)
def test_who_is_named_in_the_message(version: str, named: list[str]) -> None:
    """Init containers since 1.32, the pod itself since 1.34."""
    stats = pod_stats()
    stats["containers"].append({"name": "s", "memory": {"workingSetBytes": 400 * MIB}})
    asking = pod(initContainers=[SIDECAR], resources=AS_A_WHOLE)
    (step,) = steps(version, case(summary(stats, memory=1), pods=[asking], **HARD))
    (gone,) = step["evicted"]
    sentences = gone["message"].split(". ")[2:-1]
    assert [s.partition(" was")[0].removeprefix("Container ") for s in sentences] == named
    assert ("offending_pod:p0 offending_pod_usage:200Mi" in step["events"][1]) is (
        version == "1.34.1"
    )


@pytest.mark.parametrize(("version", "gone"), [("1.20.2", False), ("1.21.3", True)])
def test_use_of_storage_by_a_pod(version: str, gone: bool) -> None:
    """Before 1.21 the parts were added up; then the summary's own number counts."""
    limited = pod()
    limited["spec"]["containers"][0]["resources"]["limits"] = {"ephemeral-storage": "1Gi"}
    stats = pod_stats(disk=512 * MIB)
    stats["ephemeral-storage"] = {"usedBytes": 2 * GIB}
    assert evicted(version, case(summary(stats), pods=[limited])) == [["p0"] if gone else []]


@pytest.mark.parametrize(("version", "uids"), [("1.20.2", ["p0", "p1"]), ("1.21.3", ["p1", "p0"])])
def test_volumes_in_huge_pages(version: str, uids: list[str]) -> None:
    """Up to 1.20 they counted as files on the node's disk."""
    volumes = [{"name": "v", "emptyDir": {"medium": "HugePages-2Mi"}}]
    stats = [
        pod_stats("p0", volume=[{"name": "v", "usedBytes": 9 * GIB}]),
        pod_stats("p1", disk=GIB),
    ]
    (step,) = steps(version, case(summary(*stats), pods=[pod("p0", volumes=volumes), pod("p1")]))
    assert [uid for group in step["rank"]["nodefs"] for uid in group] == uids


@pytest.mark.parametrize(
    ("version", "shown"), [("1.35.0", "50%!o(MISSING)ff"), ("1.36.2", "50%off")]
)
def test_a_percent_sign_in_an_event(version: str, shown: str) -> None:
    """The message was a format; the status is not touched."""
    volumes = [{"name": "50%off", "emptyDir": {"sizeLimit": "1Mi"}}]
    stats = pod_stats(volume=[{"name": "50%off", "usedBytes": 2 * MIB}])
    (step,) = steps(version, case(summary(stats), pods=[pod(volumes=volumes)]))
    assert (
        step["evicted"][0]["message"]
        == 'Usage of EmptyDir volume "50%off" exceeds the limit "1Mi". '
    )
    assert f'volume "{shown}" exceeds' in step["events"][0]


# -- what all versions do --------------------------------------------------------------------------


def test_minimum_reclaim_keeps_a_threshold_met() -> None:
    """Until the minimum is there on top, a pod a round goes although the signal is above."""
    between = summary(pod_stats("p0"), pod_stats("p1"), memory=GIB + 256 * MIB)
    short = summary(pod_stats("p0"), pod_stats("p1"), memory=512 * MIB)
    enough = summary(pod_stats("p0"), pod_stats("p1"), memory=GIB + 512 * MIB)
    settings: Json = HARD | {"evictionMinimumReclaim": {"memory.available": "512Mi"}}
    three = [pod("p0"), pod("p1"), pod("p2")]
    found = evicted("1.36.2", case(between, short, between, enough, pods=three, **settings))
    assert found == [[], ["p2"], ["p0"], []]


def test_a_signal_that_was_not_measured_anew() -> None:
    """It raises the condition, but nobody goes for it a second time."""
    short = summary(pod_stats("p0"), pod_stats("p1"), memory=512 * MIB)
    short["node"]["memory"]["time"] = "2026-01-05T08:00:00Z"
    found = steps("1.36.2", case(short, short, pods=[pod("p0"), pod("p1")], **HARD))
    assert [len(step["evicted"]) for step in found] == [1, 0]
    assert [step["nodeConditions"] for step in found] == [["MemoryPressure"]] * 2


@pytest.mark.parametrize(("period", "held"), [("15s", 2), ("10s", 1), ("0s", 0), ("1h", 4)])
def test_a_condition_stays(period: str, held: int) -> None:
    """For less than the transition period after it was seen; with none it never shows."""
    case_input = case(SHORT, FINE, FINE, FINE, pods=[], **HARD, pressureTransitionPeriod=period)
    found = [bool(step["nodeConditions"]) for step in steps("1.36.2", case_input)]
    assert found == [True] * held + [False] * (4 - held)


def test_inodes_are_ranked_with_the_request_of_bytes() -> None:
    """The kubelet takes off what is requested of ephemeral storage, whatever is short."""
    stats = [pod_stats("p0"), pod_stats("p1")]
    stats[0]["containers"][0]["rootfs"]["inodesUsed"] = 900
    pods = [pod("p0"), pod("p1")]
    pods[0]["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "1Mi"
    case_input = case(summary(*stats), pods=pods, evictionHard={"nodefs.inodesFree": "99%"})
    # p0 is over its request of no inodes, p1 uses none.
    assert evicted("1.36.2", case_input) == [["p0"]]
    stats[1]["containers"][0]["rootfs"]["inodesUsed"] = 1
    assert evicted("1.36.2", case_input) == [["p1"]]


@pytest.mark.parametrize(
    ("settings", "errors"),
    [
        ({"evictionHard": {"memory.free": "1"}}, ["unsupported eviction signal memory.free"]),
        ({"evictionHard": {"memory.available": "x%"}},
         ['strconv.ParseFloat: parsing "x": invalid syntax']),
        ({"evictionHard": {"memory.available": "1e99%"}},
         ['strconv.ParseFloat: parsing "1e99": value out of range']),
        ({"evictionHard": {"memory.available": "-1%", "nodefs.available": "101%"}},
         ["eviction percentage threshold memory.available must be >= 0%: -1%",
          "eviction percentage threshold nodefs.available must be <= 100%: 101%"]),
        ({"evictionHard": {"memory.available": "0"}},
         ["eviction threshold memory.available must be positive: 0"]),
        ({"evictionSoft": {"memory.available": "5%", "pid.available": "5%"}},
         ["grace period must be specified for the soft eviction threshold memory.available",
          "grace period must be specified for the soft eviction threshold pid.available"]),
        ({"evictionSoftGracePeriod": {"memory.available": "10"}},
         ['time: missing unit in duration "10"']),
        ({"evictionSoftGracePeriod": {"memory.available": "1d"}},
         ['time: unknown unit "d" in duration "1d"']),
        ({"evictionSoftGracePeriod": {"memory.available": "-1s"}},
         ["invalid eviction grace period specified: -1s, must be a positive value"]),
        ({"evictionMinimumReclaim": {"memory.available": "0%"}},
         ["eviction percentage minimum reclaim memory.available must be positive: 0%"]),
        ({"evictionMinimumReclaim": {"memory.available": "-1"}},
         ["negative eviction minimum reclaim specified for memory.available"]),
    ],
)  # fmt: skip
def test_settings_that_are_refused(settings: Json, errors: list[str]) -> None:
    """In the kubelet's words; of several any comes first."""
    case_input = case(FINE, **settings)
    assert LINES.decided("1.36.2", case_input) == {"configError": errors[0], "steps": []}
    for error in errors:
        claim = {"configError": error, "steps": []}
        verdict, _ = LINES.judged("1.36.2", case_input, claim)
        assert verdict == ("match" if error == errors[0] else "admissible")
    verdict, why = LINES.judged("1.36.2", case_input, {"configError": "", "steps": []})
    assert verdict == "impossible"
    assert why.startswith('configError: the claim has "", ')


def test_more_than_a_hundred_percent() -> None:
    """Up to 1.20 the fraction was compared with 100: it then is always met."""
    case_input = case(FINE, evictionHard={"memory.available": "150%"})
    assert evicted("1.20.2", case_input) == [["p0"]]
    assert "must be <= 100%" in LINES.decided("1.21.3", case_input)["configError"]


# -- chance ----------------------------------------------------------------------------------------


def evicting(outcome: Json, uid: str) -> Json:
    """A one-round outcome in which another of several equal pods goes."""
    (step,) = outcome["steps"]
    (gone,) = step["evicted"]
    return {"configError": "", "steps": [step | {"evicted": [gone | {"pod": uid}]}]}


@pytest.mark.parametrize(
    ("version", "count", "verdict"),
    [
        ("1.36.2", 12, "impossible"),
        ("1.36.2", 13, "admissible"),
        ("1.25.0", 12, "impossible"),
        ("1.24.0", 7, "admissible"),  # built with a Go whose sort moves equals in short lists
        ("1.24.0", 6, "impossible"),
    ],
)
def test_equal_pods(version: str, count: int, verdict: str) -> None:
    """In a long list any of them may go; in a short one the first listed."""
    names = [f"p{n}" for n in range(count)]
    stats = [pod_stats(name) for name in names]
    pods = [pod(name) for name in names[:-1]] + [pod(names[-1], priority=2_000_000_000)]
    case_input = case(summary(*stats, memory=1), pods=pods, **HARD)
    outcome = LINES.decided(version, case_input)
    assert outcome["steps"][0]["evicted"][0]["pod"] == "p0"
    assert LINES.judged(version, case_input, evicting(outcome, "p3"))[0] == verdict
    critical, why = LINES.judged(version, case_input, evicting(outcome, names[-1]))
    assert critical == "impossible"
    assert names[-1] in why


def test_thresholds_that_are_met_together() -> None:
    """Memory comes first; of several for memory, and of the rest, any may be acted on."""
    short = summary(pod_stats(), memory=1, nodefs=1)
    hard: Json = {"memory.available": "1Gi", "nodefs.available": "1Gi"}
    case_input = case(
        short,
        evictionHard=hard,
        evictionSoft={"memory.available": "2Gi"},
        evictionSoftGracePeriod={"memory.available": "0s"},
    )
    outcome = LINES.decided("1.36.2", case_input)
    text = outcome["steps"][0]["evicted"][0]["message"]
    assert "Threshold quantity: 2Gi" in text
    other = LINES.decided("1.36.2", case(short, evictionHard=hard))
    assert LINES.judged("1.36.2", case_input, other)[0] == "admissible"
    disks = case(summary(pod_stats(), nodefs=1), evictionHard={"nodefs.available": "1Gi"})
    wrong = LINES.decided("1.36.2", disks)
    wrong["steps"][0]["nodeConditions"] = outcome["steps"][0]["nodeConditions"]
    verdict, why = LINES.judged("1.36.2", case_input, wrong)
    assert verdict == "impossible"
    assert why.startswith("steps[0].")


# -- amounts, and what is observed -----------------------------------------------------------------

FULL_DISK: Json = {"evictionHard": {"nodefs.available": "10Gi"}}
HALF: Json = {"limits": {"ephemeral-storage": "512Mi"}}
ONE_GIB: Json = {"limits": {"ephemeral-storage": "1Gi"}}


@pytest.mark.parametrize(
    ("version", "inits", "overhead", "limit"),
    [
        ("1.36.2", [], None, "512Mi"),
        ("1.36.2", [HALF], None, "512Mi"),
        ("1.36.2", [{}, ONE_GIB, HALF], None, "1Gi"),
        ("1.36.2", [HALF | {"restartPolicy": "Always"}], None, "1Gi"),
        ("1.27.0", [HALF | {"restartPolicy": "Always"}], None, "512Mi"),
        ("1.36.2",
         [HALF | {"restartPolicy": "Always"}, HALF | {"restartPolicy": "Always"}, ONE_GIB], None,
         "2Gi"),
        ("1.36.2", [HALF | {"restartPolicy": "Always"}, {}], None, "1Gi"),
        ("1.36.2", [], "256Mi", "768Mi"),
        ("1.36.2", [ONE_GIB], "256Mi", "1280Mi"),
    ],
)  # fmt: skip
def test_the_storage_limit_of_a_pod(
    version: str, inits: list[Json], overhead: str | None, limit: str
) -> None:
    """Containers and sidecars together, or the largest init container; overhead on top."""
    limited = pod()
    limited["spec"]["containers"][0]["resources"] |= HALF
    limited["spec"]["initContainers"] = [
        {"name": f"i{at}", "resources": {k: v for k, v in init.items() if k == "limits"}}
        | {k: v for k, v in init.items() if k != "limits"}
        for at, init in enumerate(inits)
    ]
    if overhead is not None:
        limited["spec"]["overhead"] = {"ephemeral-storage": overhead}
    stats = pod_stats()
    stats["ephemeral-storage"] = {"usedBytes": 4 * GIB}
    (step,) = steps(version, case(summary(stats), pods=[limited]))
    (gone,) = step["evicted"]
    assert f"exceeds the total limit of containers {limit}. " in gone["message"]


@pytest.mark.parametrize(
    ("volume", "gone"),
    [
        ({"emptyDir": {}}, ["p0"]),
        ({"configMap": {"name": "m"}}, ["p0"]),
        ({"gitRepo": {"repository": "r"}}, ["p0"]),
        ({"emptyDir": {"medium": "Memory"}}, []),
        ({"hostPath": {"path": "/h"}}, []),
        ({"persistentVolumeClaim": {"claimName": "c"}}, []),
    ],
)
def test_volumes_that_were_added_up(volume: Json, gone: list[str]) -> None:
    """Up to 1.20, against the limit of the pod: those on the node's own disk."""
    limited = pod(volumes=[volume | {"name": "v"}])
    limited["spec"]["containers"][0]["resources"] |= ONE_GIB
    stats = pod_stats(volume=[{"name": "v", "usedBytes": 2 * GIB}])
    assert evicted("1.20.2", case(summary(stats), pods=[limited])) == [gone]


def measured(place: str) -> Json:
    """Statistics in which all of a kind is short, and was measured at eight o'clock."""
    short = summary(pod_stats("p0"), pod_stats("p1"), memory=1, nodefs=1)
    node = short["node"]
    node["fs"] |= {"inodesFree": 1}
    node["rlimit"] = {"maxpid": 100, "curproc": 99}
    node["systemContainers"] = [
        {"name": "kubelet", "memory": {"availableBytes": 4 * GIB, "workingSetBytes": 1}},
        {"name": "pods", "memory": {"availableBytes": 1, "workingSetBytes": GIB}},
    ]
    of = node["systemContainers"][1]["memory"] if place == "pods" else node[place]
    of["time"] = "2026-01-05T08:00:00Z"
    return short


@pytest.mark.parametrize(
    ("place", "signal"),
    [
        ("memory", "memory.available"),
        ("fs", "nodefs.available"),
        ("fs", "nodefs.inodesFree"),
        ("rlimit", "pid.available"),
    ],
)
def test_every_signal_is_starved_until_it_is_measured_anew(place: str, signal: str) -> None:
    """And wholly: what is free says nothing without the capacity."""
    both = [pod("p0"), pod("p1")]
    stale, unknown, part = measured(place), measured(place), measured(place)
    unknown["node"][place]["time"] = None
    part["node"][place] = dict(list(part["node"][place].items())[:1])
    for again, gone in ((stale, 0), (unknown, 1), (part, 0)):
        found = evicted("1.36.2", case(stale, again, pods=both, evictionHard={signal: "50%"}))
        assert [len(each) for each in found] == [1, gone]


@pytest.mark.parametrize(("enforced", "gone"), [([], []), (["pods"], ["p0"])])
def test_memory_that_all_pods_may_use(enforced: list[str], gone: list[str]) -> None:
    """A threshold of memory holds for the cgroup of all pods, too, where it is enforced."""
    short = measured("pods")
    short["node"]["memory"] = {"availableBytes": 4 * GIB, "workingSetBytes": 4 * GIB}
    case_input = case(short, pods=[pod()], **HARD, enforceNodeAllocatable=enforced)
    (step,) = steps("1.36.2", case_input)
    assert [each["pod"] for each in step["evicted"]] == gone
    if gone:
        assert "The node was low on resource: memory." in step["evicted"][0]["message"]


@pytest.mark.parametrize(("version", "first"), [("1.28.0", "p1"), ("1.36.2", "p0")])
def test_what_lies_on_the_nodes_disk_of_a_split(version: str, first: str) -> None:
    """The layers of containers since 1.29; a split was a dedicated disk before."""
    stats = [pod_stats("p0", disk=9 * GIB), pod_stats("p1")]
    stats[1]["containers"][0]["logs"]["usedBytes"] = GIB
    short = summary(*stats, nodefs=5 * GIB)
    settings = FULL_DISK | {"dedicatedImageFs": True, "splitContainerFs": True}
    case_input = case(short, pods=[pod("p0"), pod("p1")], **settings)
    assert evicted(version, case_input) == [[first]]


def test_the_minimum_reclaim_of_a_soft_threshold() -> None:
    between = summary(pod_stats("p0"), memory=GIB + 256 * MIB)
    settings = SOFT | {"evictionMinimumReclaim": {"memory.available": "512Mi"}}
    case_input = case(SHORT, SHORT, SHORT, between, pods=[pod("p0"), pod("p1")], **settings)
    assert evicted("1.36.2", case_input) == [[], [], ["p1"], ["p0"]]
