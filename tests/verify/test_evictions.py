"""Evictions: thresholds, whose turn it was, grace periods and words, by what the records hold."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.eviction import (
    NodeConditionsChanged,
    PodSpared,
    PodUsage,
    PodUsageObserved,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodEvicted,
    PodListed,
    PodTerminated,
)
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Finding, Variant
from tests.verify.histories import findings, kubelet_of, scene
from tests.verify.image_scenes import settings

MI = 2**20
GI = 2**30
CAPACITY = 8 * GI
HARD: dict[str, str] = {"memory.available": "1Gi"}
SOFT: dict[str, Any] = {
    "evictionSoft": {"memory.available": "2Gi"},
    "evictionSoftGracePeriod": {"memory.available": "1m"},
    "evictionMaxPodGracePeriod": 7,
}
LOW = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 900Mi. "
BIG_SAID = "Container c was using 500Mi, request is 100Mi, has larger consumption of memory. "


def pod(name: str, request_mi: int | None = None, **spec: Any) -> PodListed:  # noqa: ANN401 # JSON
    container: dict[str, Any] = {"name": "c"}
    if request_mi is not None:
        container["resources"] = {"requests": {"memory": f"{request_mi}Mi"}}
    return PodListed(
        namespace="default",
        pod=name,
        pod_uid=name,
        listed_by="kubelet",
        annotations={"kubernetes.io/config.source": "api"},
        spec={"containers": [container], "terminationGracePeriodSeconds": 30, **spec},
        status=None,
    )


def running(name: str) -> ContainerStarted:
    return ContainerStarted(
        namespace="default", pod=name, pod_uid=name, container="c", container_id=f"id-{name}"
    )


def memory(available: int) -> EvictionSignalObserved:
    return EvictionSignalObserved(
        signal="memory.available", available=available * MI, capacity=CAPACITY
    )


def usage(at_s: float, **used_mi: int) -> PodUsageObserved:
    return PodUsageObserved(
        pods=tuple(
            PodUsage(
                namespace="default",
                pod=name,
                pod_uid=name,
                memory_bytes=used * MI,
                memory_ts_ns=round((1000 + at_s) * NS_PER_S),
            )
            for name, used in used_mi.items()
        )
    )


def reclaim(*ranked: str, **changes: Any) -> ReclaimAttempted:  # noqa: ANN401 # any field
    """For memory, at 900 Mi under a hard threshold of 1 Gi."""
    fields: dict[str, Any] = {
        "resource": "memory",
        "signal": "memory.available",
        "threshold": GI,
        "threshold_kind": "hard",
        "observed": 900 * MI,
        "outcome": "evicting",
        "ranked": tuple(RankedPod(namespace="default", pod=name, pod_uid=name) for name in ranked),
    }
    return ReclaimAttempted(**fields | changes)


def evicted(name: str, **changes: Any) -> PodEvicted:  # noqa: ANN401 # any field
    """The eviction that goes with ``reclaim``."""
    fields: dict[str, Any] = {
        "namespace": "default",
        "pod": name,
        "pod_uid": name,
        "resource": "memory",
        "signal": "memory.available",
        "threshold": GI,
        "threshold_kind": "hard",
        "observed": 900 * MI,
        "rank": 1,
        "grace_period_s": 30,
        "message": LOW,
        "evicted": True,
    }
    return PodEvicted(**fields | changes)


def story(
    *steps: tuple[float, Body],
    version: str = "1.30.1",
    **changes: Any,  # noqa: ANN401
) -> list[Record]:
    """Pods ``big`` (500 of 100 Mi), ``small`` (50 of 100 Mi) and ``vital``, which is critical."""
    known: list[tuple[float, Body]] = [
        (0, kubelet_of(version)),
        (
            0.1,
            settings(evictionPressureTransitionPeriod="5m0s", **{"evictionHard": HARD} | changes),
        ),
    ]
    pods = pod("big", 100), pod("small", 100), pod("vital", priority=2_000_000_000)
    known += [(0.2, each) for each in pods]
    known += [(0.3, running(each.pod)) for each in pods]
    known += [(at_s, memory(4000)) for at_s in (10, 20, 30)]
    known += [(38.0, usage(36, big=500, small=50, vital=10)), (40, memory(4000))]
    records = scene(*known, *steps)
    seqs = {type(record.body): record.seq for record in records}
    cause = seqs.get(ReclaimAttempted)
    caused = (PodEvicted, PodSpared)
    return [
        msgspec.structs.replace(r, cause=cause) if isinstance(r.body, caused) else r
        for r in records
    ]


def found(records: list[Record], kind: type[Body] = PodEvicted, **variant: Any) -> Finding:  # noqa: ANN401
    given = Variant(settings=variant) if variant else Variant()
    (one,) = findings(records, given, kind.kind)
    return one


def scene_of(eviction: PodEvicted, *ranked: str, **changes: Any) -> list[Record]:  # noqa: ANN401
    """Memory falls to 900 Mi; a sample before and one after."""
    return story(
        (50, memory(900)),
        (50.1, reclaim(*(ranked or ("big", "vital", "small")))),
        (50.2, eviction),
        (53, usage(52, big=500, small=50, vital=10)),
        (60, memory(4000)),
        **changes,
    )


def test_an_eviction_as_it_has_to_be() -> None:
    """A threshold was met, the pod stood first, and everything was said so."""
    one = found(scene_of(evicted("big", message=LOW + BIG_SAID)))
    assert one.verdict == "match"
    assert "memory.available is 900Mi, below the 1Gi of evictionHard" in one.why
    assert "pod default/big used 500Mi of a request of 100Mi (priority 0)" in one.why
    assert found(scene_of(evicted("big")), ReclaimAttempted).verdict == "match"


@pytest.mark.parametrize(
    ("lie", "reported"),
    [
        ({"pod": "small", "pod_uid": "small"}, "pod default/big was before it"),
        ({"rank": 2}, "was at place 1"),
        ({"signal": "allocatableMemory.available"}, "no hard threshold of allocatableMemory"),
        ({"threshold": 2 * GI}, "no hard threshold of memory.available"),
        ({"threshold_kind": "soft"}, "no soft threshold"),
        ({"observed": 800 * MI}, "no hard threshold of memory.available"),
        ({"resource": "pids", "signal": None}, "no hard threshold of pids"),
        ({"grace_period_s": 29}, "gives it 30 s, not 29 s"),
        ({"message": LOW.replace("900Mi", "901Mi")}, "the kubelet's message is"),
        ({"message": LOW + BIG_SAID.replace("100Mi", "200Mi")}, "the kubelet's message is"),
        ({"pod": "vital", "pod_uid": "vital"}, "is critical"),
    ],
)
def test_a_lie_about_an_eviction_is_impossible(lie: dict[str, Any], reported: str) -> None:
    one = found(scene_of(evicted("big", **lie)))
    assert one.verdict == "impossible"
    assert reported in one.why


@pytest.mark.parametrize("blank", ["", "\t", " \t "])
def test_a_message_that_was_wrapped_says_the_same(blank: str) -> None:
    """Wherever that was: blanks come or go."""
    for word in ("c was", "was using", "500Mi, request", "request is"):
        wrapped = BIG_SAID.replace(word, blank.join(word.split()))
        assert found(scene_of(evicted("big", message=LOW + wrapped))).verdict != "impossible"


@pytest.mark.parametrize("mark", ["", "..."])
@pytest.mark.parametrize("length", range(len(LOW) - 14, len(LOW + BIG_SAID), 9))
def test_a_message_that_was_cut_is_the_one_that_it_begins(length: int, mark: str) -> None:
    """Stores cut long texts, some without a mark; what is left may still be a lie."""
    said = (LOW + BIG_SAID)[:length]
    assert found(scene_of(evicted("big", message=said + mark))).verdict == "match"
    lie = said.replace("1Gi", "2Gi")
    assert found(scene_of(evicted("big", message=lie + mark))).verdict == "impossible"


def test_nobody_goes_only_where_all_are_critical() -> None:
    """A pod that is not critical, and was ranked, had to be evicted."""
    for ranked, why in (
        (("vital",), "had to be ranked"),
        (("big", "small", "vital"), "had to be evicted"),
    ):
        reported = reclaim(*ranked, outcome="nothing")
        records = story((50, memory(900)), (50.1, reported), (60, memory(4000)))
        finding = found(records, ReclaimAttempted)
        assert finding.verdict == "impossible"
        assert why in finding.why


@pytest.mark.parametrize(
    ("signal", "outcome", "left_mi", "why"),
    [
        ("memory.available", "node_level", 950, "nothing is deleted for memory.available"),
        ("nodefs.available", "node_level", 950, "cannot have sufficed: nodefs.available stayed"),
        ("nodefs.available", "evicting", 4000, "had to suffice, and no pod was to be evicted"),
    ],
)
def test_whether_what_was_unused_sufficed(
    signal: str, outcome: str, left_mi: int, why: str
) -> None:
    """Only disks are freed so, and what is read again after it says whether it was enough."""
    resource = "memory" if signal.startswith("memory") else "ephemeral-storage"
    read = [msgspec.structs.replace(memory(mi), signal=signal) for mi in (900, left_mi)]
    said = reclaim("big", resource=resource, signal=signal, outcome=outcome)
    steps = [(50, read[0]), (50.1, said), (50.5, read[1]), (60, memory(4000))]
    one = found(story(*steps, evictionHard={signal: "1Gi"}), ReclaimAttempted)
    assert one.verdict == "impossible"
    assert why in one.why


def test_a_reclaim_is_of_the_process_that_made_it() -> None:
    """Another one starts before it is judged, and has met no threshold yet."""
    disk = "nodefs.available"
    read = msgspec.structs.replace(memory(900), signal=disk)
    said = reclaim("big", resource="ephemeral-storage", signal=disk)
    steps = [(50, read), (50.1, said), (50.5, read), (52, kubelet_of("1.30.1"))]
    one = found(story(*steps, evictionHard={disk: "1Gi"}), ReclaimAttempted)
    assert (one.verdict, one.why.count("left nodefs.available short")) == ("match", 1)


@pytest.mark.parametrize(
    ("seen", "ended_s", "why"),
    [(True, 75, "the eviction manager waits for 10 s"), (False, 52, "so it was seen to end")],
)
def test_whether_an_evicted_pod_was_seen_to_end(seen: bool, ended_s: float, why: str) -> None:
    of = {"namespace": "default", "pod": "big", "pod_uid": "big"}
    boxed: dict[str, Any] = {**of, "container": None, "container_id": "sandbox", "sandbox": True}
    own: dict[str, Any] = {**of, "container": "c", "container_id": "id-big"}
    records = story(
        (45, ContainerStarted(**boxed)),
        (50, memory(900)),
        (50.1, reclaim("big", "vital", "small")),
        (50.2, evicted("big", evicted=seen, message=LOW + BIG_SAID)),
        (ended_s, ContainerDied(**own)),
        (ended_s, ContainerDied(**boxed)),
        (100, memory(4000)),
    )
    one = found(records)
    assert one.verdict == "impossible"
    assert why in one.why


def test_usage_between_samples_may_be_anything_that_a_pod_can_use() -> None:
    """A pod that samples put last may have stood first, unless no sample was missed."""
    first = evicted("small", rank=1)
    assert found(scene_of(first, "small", "big", "vital")).verdict == "impossible"
    far_apart = story(
        (50, memory(900)),
        (50.1, reclaim("small", "big", "vital")),
        (50.2, first),
        (60, memory(4000)),
        (90, usage(80, big=500, small=50, vital=10)),
    )
    one = found(far_apart)
    assert one.verdict == "unverifiable"
    assert one.missing == (
        "what pods default/small and default/big used of memory at 1970-01-01T00:17:30.2Z",
    )


@pytest.mark.parametrize(
    ("ranked_s", "samples", "verdict"),
    [
        (50.1, ((44, 50), (75, 50)), "impossible"),  # no other is younger than ten seconds
        (50.1, ((75, 50),), "unverifiable"),
        (50.1, ((50, 50),), "impossible"),  # of this very second: it was this one, or that of 36
        (56.1, ((56, 50),), "unverifiable"),  # or another between them
        (50.1, ((50, 950),), "match"),
        (50.1, ((50.1, 50), (75, 50)), "impossible"),  # stamped finer than that: it was this one
        (50.1, (*((51.0 + n, 50) for n in range(9)), (75, 50)), "impossible"),  # read each second
    ],
)
def test_what_the_kubelet_saw_lies_between_its_samples(
    ranked_s: float, samples: tuple[tuple[float, int], ...], verdict: str
) -> None:
    """Samples are ten seconds apart at least, and most stamps are cut to whole seconds."""
    steps: list[tuple[float, Body]] = [
        (ranked_s - 0.1, memory(900)),
        (ranked_s, reclaim("small", "big", "vital")),
        *((at_s + 8, usage(at_s, big=500, small=mi)) for at_s, mi in samples),
        *((at_s, memory(4000)) for at_s in (66, 76, 86)),
    ]
    records = story(*sorted(steps, key=lambda step: step[0]))
    assert found(records, ReclaimAttempted).verdict == verdict


def test_a_pod_that_runs_for_long_has_statistics() -> None:
    """Though the first reading that shows it comes later; unless the kubelet had just begun."""
    for begins_s, verdict in ((0, "impossible"), (30, "unverifiable")):
        steps: list[tuple[float, Body]] = [
            (0.2, pod("long", priority=1000)),
            (0.3, running("long")),
            (50, memory(900)),
            (50.1, reclaim("long", "big", "vital", "small")),
            (54, usage(50, long=50, big=500, small=50)),
            (60, memory(4000)),
        ]
        steps += [(begins_s, kubelet_of("1.30.1"))] if begins_s else []
        assert found(story(*sorted(steps, key=lambda s: s[0])), ReclaimAttempted).verdict == verdict


def test_a_container_that_was_killed_may_have_ended_untold() -> None:
    killed = ContainerKilled(
        namespace="default",
        pod="vital",
        pod_uid="vital",
        container="c",
        container_id="id-vital",
        reason="liveness_probe",
        message="",
        grace_period_s=None,
    )
    steps: list[tuple[float, Body]] = [
        (50, memory(900)),
        (50.1, reclaim("vital", "big", "small")),
        (54, usage(48, big=500, small=50, vital=10)),
        (60, memory(4000)),
    ]
    assert found(story(*steps), ReclaimAttempted).verdict == "impossible"
    assert found(story((45, killed), *steps), ReclaimAttempted).verdict == "unverifiable"


@pytest.mark.parametrize(
    ("dies_s", "verdict"), [(44, "match"), (60, "unverifiable"), (None, "impossible")]
)
def test_a_young_container_may_have_statistics(dies_s: float | None, verdict: str) -> None:
    """It had none before the ranking's time, it may have had, or it runs on and had them."""
    reported: list[tuple[float, Body]] = [(42, pod("late", 100)), (42, running("late"))]
    died = ContainerDied(
        namespace="default", pod="late", pod_uid="late", container="c", container_id="id-late"
    )
    reported += [] if dies_s is None else [(dies_s, died)]
    reported += [
        (50, memory(900)),
        (50.1, reclaim("late", "big", "small")),
        (50.2, evicted("late")),
        (56, usage(45, late=50, big=500, small=50)),
        *((at_s, memory(4000)) for at_s in (61, 71, 81)),
        (83, usage(55, late=50, big=500, small=50)),
    ]
    assert found(story(*sorted(reported, key=lambda step: step[0]))).verdict == verdict


def test_a_critical_pod_is_passed_over() -> None:
    lost = found(scene_of(evicted("big", rank=2), "vital", "big", "small"))
    assert lost.verdict == "match"
    ranked = reclaim("vital", "big", "small")
    steps: list[tuple[float, Body]] = [(50, memory(900)), (50.1, ranked)]
    for name, verdict in (("vital", "match"), ("small", "impossible")):
        spared = PodSpared(namespace="default", pod=name, pod_uid=name)
        records = story(*steps, (50.15, spared), (50.2, evicted("big", rank=2)))
        assert found(records, PodSpared).verdict == verdict
    # The samples put the other one first, but it is critical.
    records = story(
        *steps,
        (50.15, PodSpared(namespace="default", pod="vital", pod_uid="vital")),
        (50.2, evicted("big", rank=2)),
        (53, usage(52, big=500, small=50, vital=10)),
    )
    assert found(records).verdict == "match"


def _every_ten_seconds(reads: list[tuple[float, int]]) -> list[tuple[float, Body]]:
    """Rounds that read these amounts, and between them the one before."""
    filled = dict(reads)
    for (at_s, available), (next_s, _) in pairwise(reads):
        filled |= {float(s): available for s in range(int(at_s) + 10, int(next_s), 10)}
    return [(at_s, memory(available)) for at_s, available in sorted(filled.items())]


@pytest.mark.parametrize(
    ("reads", "verdict"),
    [
        ([(50, 1800), (109, 1800), (112, 1800)], "match"),
        ([(50, 1800), (100, 1800)], "impossible"),
        ([(50, 1800), (60, 3000), (70, 1800), (112, 1800)], "impossible"),
    ],
)
def test_a_soft_threshold_acts_after_its_grace_period(
    reads: list[tuple[float, int]], verdict: str
) -> None:
    at = reads[-1][0]
    soft = {"threshold": 2 * GI, "threshold_kind": "soft", "observed": 1800 * MI}
    records = story(
        *_every_ten_seconds(reads),
        (at + 0.1, reclaim("big", "small", **soft)),
        (at + 0.2, evicted("big", grace_period_s=7, message=None, **soft)),
        **SOFT,
    )
    assert found(records, ReclaimAttempted).verdict == verdict
    assert found(records).verdict == "match"
    lone = [record for record in records if not isinstance(record.body, ReclaimAttempted)]
    assert found(lone).verdict == ("unverifiable" if verdict == "match" else verdict)


@pytest.mark.parametrize(("most_s", "verdict"), [(0, "match"), (30, "impossible")])
def test_the_wait_for_an_end_follows_from_what_was_asked_for(most_s: int, verdict: str) -> None:
    """The pod worker takes the pod's own grace period in the place of 0, the wait does not."""
    soft = {"threshold": 2 * GI, "threshold_kind": "soft", "observed": 1800 * MI}
    records = story(
        *_every_ten_seconds([(50, 1800), (109, 1800), (112, 1800)]),
        (112.1, reclaim("big", "small", **soft)),
        (112.2, evicted("big", evicted=False, message=None, **soft)),
        (132, PodTerminated(namespace="default", pod="big", pod_uid="big")),
        **SOFT | {"evictionMaxPodGracePeriod": most_s},
    )
    assert found(records).verdict == verdict


def test_a_threshold_stays_met_until_the_minimum_is_reclaimed() -> None:
    def records(reclaimed_mi: int) -> list[Record]:
        return story(
            (50, memory(900)),
            (50.1, reclaim("big", "small")),
            (50.2, evicted("big")),
            (60, memory(reclaimed_mi)),
            (60.1, reclaim("small", observed=reclaimed_mi * MI)),
            evictionMinimumReclaim={"memory.available": "200Mi"},
        )

    for reclaimed_mi, verdict in ((1200, "match"), (1230, "impossible")):
        later = findings(records(reclaimed_mi), kind=ReclaimAttempted.kind)[-1]
        assert later.verdict == verdict
        assert "(minimum reclaim 200Mi)" in later.why


def test_what_the_log_does_not_show_from_the_start_is_open() -> None:
    records = story(
        (50, memory(1800)),
        (50.1, reclaim("big", threshold=2 * GI, threshold_kind="soft", observed=1800 * MI)),
        **SOFT,
    )
    late = [
        msgspec.structs.replace(r, body=msgspec.structs.replace(r.body, from_start=False))
        if isinstance(r.body, KubeletStarted)
        else r
        for r in records
        if not (isinstance(r.body, EvictionSignalObserved) and r.ts_ns < 1045 * NS_PER_S)
    ]
    one = found(late, ReclaimAttempted)
    assert one.verdict == "unverifiable"
    assert one.missing == ("what the eviction manager saw before the log begins",)


def test_without_signals_the_message_tells() -> None:
    """Below verbosity 3 the log holds no signals."""
    records = scene_of(evicted("big", threshold_kind=None, signal=None))
    dark = [r for r in records if not isinstance(r.body, EvictionSignalObserved)]
    assert found(dark).verdict == "match"
    high = scene_of(evicted("big", threshold_kind=None, signal=None, observed=1100 * MI))
    dark = [r for r in high if not isinstance(r.body, EvictionSignalObserved)]
    assert found(dark).verdict == "impossible"


@pytest.mark.parametrize(("grace_s", "verdict"), [(7, "unverifiable"), (9, "impossible")])
def test_without_signals_any_threshold_may_be_meant(grace_s: int, verdict: str) -> None:
    soft = SOFT | {"evictionSoft": {"memory.available": "25%"}}
    given = evicted("big", threshold_kind=None, signal=None, grace_period_s=grace_s)
    records = scene_of(given, evictionHard={"memory.available": "12%"}, **soft)
    dark = [r for r in records if not isinstance(r.body, EvictionSignalObserved)]
    assert found(dark).verdict == verdict


@pytest.mark.parametrize(
    ("version", "grace_s"), [("1.28.0", 30), ("1.30.1", 30), ("1.31.0", 1), ("1.36.2", 1)]
)
def test_the_grace_period_of_a_version(version: str, grace_s: int) -> None:
    """Up to 1.30 a hard eviction ends with the pod's own period."""
    for given, verdict in ((grace_s, "match"), (31 - grace_s, "impossible")):
        records = scene_of(evicted("big", grace_period_s=given), version=version)
        assert found(records).verdict == verdict


LIMITED: dict[str, Any] = {
    "volumes": [{"name": "d", "emptyDir": {"sizeLimit": "50Mi"}}],
    "containers": [{"name": "c", "resources": {"limits": {"ephemeral-storage": "10Mi"}}}],
}
EMPTY_DIR = 'Usage of EmptyDir volume "d" exceeds the limit "50Mi". '
ALL_OF_POD = "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. "
ONE_OF_POD = 'Container c exceeded its local ephemeral storage limit "10Mi". '


@pytest.mark.parametrize(
    ("signal", "message", "verdict"),
    [
        ("emptydirfs.limit", EMPTY_DIR, "unverifiable"),
        ("emptydirfs.limit", EMPTY_DIR.replace("50Mi", "60Mi"), "impossible"),
        ("emptydirfs.limit", EMPTY_DIR.replace('"d"', '"e"'), "impossible"),
        ("ephemeralpodfs.limit", ALL_OF_POD, "match"),
        ("ephemeralcontainerfs.limit", ONE_OF_POD, "unverifiable"),
        ("ephemeralcontainerfs.limit", ONE_OF_POD.replace("r c", "r x"), "impossible"),
    ],
)
def test_a_limit_of_local_storage(signal: str, message: str, verdict: str) -> None:
    """The pod must have that limit; a sample may show that it was exceeded."""
    row = PodUsage(namespace="default", pod="full", pod_uid="full", storage_bytes=20 * MI)
    one = evicted(
        "full", resource=None, signal=signal, threshold=None, threshold_kind="local_storage",
        observed=None, rank=None, message=message,
    )  # fmt: skip
    records = story((41, pod("full", **LIMITED)), (45, PodUsageObserved(pods=(row,))), (50, one))
    finding = found(records)
    assert finding.verdict == verdict
    if verdict == "match":
        assert "used 20Mi of local storage, more than its limit of 10Mi" in finding.why


def test_pressure_conditions_follow_from_thresholds_and_stay_for_a_while() -> None:
    """They are reported at once, and until the transition period is over."""
    pressure = NodeConditionsChanged(conditions=("MemoryPressure",), observed=("MemoryPressure",))
    none = NodeConditionsChanged(conditions=(), observed=())
    steps: list[tuple[float, Body]] = [(50, memory(900)), (50.05, pressure), (60, memory(4000))]
    for at, verdict in ((100, "impossible"), (360, "match")):
        quiet = [(float(at_s), memory(4000)) for at_s in range(70, at + 1, 10)]
        records = story(*steps, *quiet, (at + 0.05, none))
        first, second = findings(records, kind=NodeConditionsChanged.kind)
        assert first.verdict == "match"
        assert second.verdict == verdict


def test_under_other_thresholds_other_pods_go_or_none() -> None:
    records = scene_of(evicted("big"))
    assert found(records, evictionHard={"memory.available": "1500Mi"}).verdict == "match"
    assert found(records, evictionHard={"memory.available": "800Mi"}).verdict == "impossible"
    quiet = story((50, memory(1800)), (60, memory(1800)), (70, memory(1800)))
    assert findings(quiet, kind=PodEvicted.kind) == []
    one = found(quiet, evictionHard={"memory.available": "2Gi"})
    assert (one.recorded, one.subject, one.ts_ns) == (None, "pod/default/big", 1050 * NS_PER_S)
    assert one.expected is not None
    assert one.expected["threshold"] == 2 * GI
    reported = found(quiet, NodeConditionsChanged, evictionHard={"memory.available": "2Gi"})
    assert reported.expected == {"conditions": ["MemoryPressure"]}


@pytest.mark.parametrize(
    ("available", "gap_s", "reclaims", "absent"),
    [(100, 10, 0, 1), (1000, 10, 0, 0), (100, 40, 0, 0), (100, 10, 1, 0)],
    ids=["owed", "near the threshold", "rounds are missing", "something was done"],
)
def test_a_reclaim_that_was_owed(available: int, gap_s: int, reclaims: int, absent: int) -> None:
    """Far under a hard threshold in every round, and nothing was done."""
    steps: list[tuple[float, Body]] = [
        (200.0 + at, memory(available)) for at in range(0, 250, gap_s)
    ]
    steps += [(300.5, reclaim("big", observed=available * MI))] * reclaims
    steps.sort(key=lambda step: step[0])
    found = [f for f in findings(story(*steps)) if f.recorded is None]
    found = [f for f in found if f.kind == ReclaimAttempted.kind]
    assert [f.verdict for f in found] == ["impossible"] * absent
    assert all("had to be reclaimed, in one of the next rounds" in f.why for f in found)


def test_a_round_that_waits_for_a_pods_end() -> None:
    """What was owed before is paid once it acts, however long its pod takes to end."""
    low = {"observed": 100 * MI}
    short = [(float(at), memory(100)) for at in (50, 60, 72)]
    later = [(float(at), memory(4000)) for at in range(150, 260, 10)]
    acts = (72.1, reclaim("big", **low)), (72.2, evicted("big", **low))
    found = findings(story(*short, *acts, *later), kind=ReclaimAttempted.kind)
    assert [each.recorded is None for each in found] == [False]


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"evictionHard": None}, "the setting evictionHard"),
        ({"evictionMinimumReclaim": 5}, "the setting evictionMinimumReclaim"),
        ({"evictionHard": {"memory.available": "much"}}, "readable thresholds"),
        ({"version": "1.99.0"}, "the rules of kubelet 1.99.0"),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, Any], missing: str) -> None:
    records = scene_of(evicted("big"), **changes)
    for kind in (PodEvicted, ReclaimAttempted):
        assert found(records, kind).missing[0].startswith(missing)


def test_a_clock_that_steps_leaves_a_grace_period_open() -> None:
    soft = {"threshold": 2 * GI, "threshold_kind": "soft", "observed": 1800 * MI}
    step = ClockStepped(from_ts_ns=1_070 * NS_PER_S, to_ts_ns=1_071 * NS_PER_S)
    steps = [*_every_ten_seconds([(50, 1800), (100, 1800)]), (71.0, step)]
    steps += [(100.1, reclaim("big", "small", **soft))]
    one = found(story(*sorted(steps, key=lambda each: each[0]), **SOFT), ReclaimAttempted)
    assert one.missing == ("the time between rounds, around a step of the clock",)


def test_signals_that_are_read_again_after_a_reclaim_whose_line_is_lost() -> None:
    """The decision names what the round read first."""
    steps = (50, memory(900)), (52.5, memory(800)), (52.6, reclaim("big", "vital", "small"))
    later = (52.7, evicted("big", message=LOW + BIG_SAID)), (60, memory(4000))
    assert found(story(*steps, *later)).verdict == "match"


@pytest.mark.parametrize(("is_lost", "verdict"), [(False, "match"), (True, "unverifiable")])
def test_a_round_that_began_in_a_hole(is_lost: bool, verdict: str) -> None:
    """It read signals twice; of the first time, which the message shows, the lines may be lost."""
    before = [] if is_lost else [(at, memory(4000)) for at in (50, 60, 70, 80, 90)]
    first = [] if is_lost else [(105.0, memory(900))]
    steps: list[tuple[float, Body]] = [
        *before, *first, (105.8, memory(800)), (105.9, usage(104, big=500, small=50, vital=10)),
        (106, reclaim("big", "vital", "small")), (106.001, evicted("big")), (116, memory(800)),
    ]  # fmt: skip
    found = findings(story(*steps), kind=ReclaimAttempted.kind)
    assert [each.verdict for each in found] == [verdict]
