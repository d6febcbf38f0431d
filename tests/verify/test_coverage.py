"""Where lines of a log may be missing."""

import msgspec
import pytest

from kubeledger.kubelet.lifecycle.disputes import (
    CLOCK_UNKNOWN,
    LINES_MIXED,
    LISTS_MASKED,
    LISTS_PRUNED,
)
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.ledger import (
    FindingReported,
    GapObserved,
    ImportCompleted,
    RecordsLost,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerStarted,
    KubernetesEvent,
    PodConfigChanged,
    PodEvicted,
)
from kubeledger.model.bodies.node import KubeletExited, LogThinned
from kubeledger.model.record import Body, Evidence
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.evidence.sync_loop import PeriodicActivity
from tests.verify.container_scenes import listed
from tests.verify.histories import kubelet_of, scene

Steps = list[tuple[float, Body]]


def start(*, whole: bool = True, restart: bool = False) -> Body:
    return kubelet_of(from_start=whole, restart=restart)


def signals(first: int, last: int) -> Steps:
    body = EvictionSignalObserved(signal="memory.available", available=1, capacity=2)
    return [(second, body) for second in range(first, last + 1, 10)]


def events(first: int, last: int) -> Steps:
    body = KubernetesEvent(
        namespace="d", pod="a", pod_uid="u", object_kind="Pod", container=None, type="Normal",
        reason="Pulled", message="", count=1,
    )  # fmt: skip
    return [(second, body) for second in range(first, last + 1, 10)]


def exited() -> Body:
    return KubeletExited(pid=1, reason="stopped", message="Stopped kubelet.service")


def evicted() -> Body:
    return PodEvicted(
        namespace="d", pod="a", pod_uid=None, resource="memory", message=None, evicted=True
    )


def thinned(first: int, last: int, missing: int) -> Body:
    from_ns, to_ns = first * NS_PER_S, last * NS_PER_S
    return LogThinned(from_ts_ns=from_ns, to_ts_ns=to_ns, beats_expected=100, beats_missing=missing)


def lost(first: int, last: int) -> Body:
    return RecordsLost(
        first_seq=1, last_seq=2, chain="00" * 32, first_ts_ns=first * NS_PER_S,
        last_ts_ns=last * NS_PER_S, imports=(), others=True, found_ts_ns=0,
    )  # fmt: skip


def unread(since: int, until: int | None, stream: str = "kubelet.log") -> Body:
    return GapObserved(
        stream=stream,
        reason="9 messages were suppressed",
        since_ts_ns=since * NS_PER_S,
        until_ts_ns=None if until is None else until * NS_PER_S,
    )


def coverage(steps: Steps) -> Coverage:
    found = Coverage()
    for record in scene(*sorted(steps, key=lambda step: step[0]), start_s=0):
        found.note(record)
    found.settle()
    return found


SERVED = listed()
"""By a kubelet, so that one ran."""
WHOLE: Steps = [(0, start()), *signals(5, 305)]


@pytest.mark.parametrize(
    ("steps", "span", "phrase"),
    [
        (WHOLE, (0, 300), None),
        (WHOLE, (-50, 10), None),  # no kubelet line was written before
        ([(-60, SERVED), *WHOLE], (-50, 10), "the kubelet's log before its first line"),
        (WHOLE, (300, 306), "the kubelet's log after its last line"),
        ([(0, start(whole=False)), *signals(5, 305)], (-1, 10),
         "the kubelet's log before its first line"),
        ([(0, start()), *signals(5, 95), *signals(200, 305)], (100, 110),
         "the lines of the log's hole"),
        ([(0, start()), *signals(5, 95), *signals(200, 305)], (205, 300), None),
        # Rounds are late on a slow node: the other lines show that the log goes on.
        ([(0, start()), *signals(5, 95), *events(100, 195), *signals(200, 305)], (100, 110), None),
        ([*WHOLE, (306, exited()), (400, start(restart=True)), *signals(410, 500)],
         (320, 330), None),
        # A round that evicts takes its time.
        ([(0, start()), *signals(5, 95), (96, evicted()), *signals(180, 305)], (100, 110), None),
        ([(0, start()), *signals(5, 95), (96, evicted()), *signals(210, 305)], (100, 110),
         "the lines of the log's hole"),
        # A process has no signals at first; one that a log shows from its middle lost its first.
        ([*WHOLE, (310, start(restart=True)), *signals(320, 400)], (0, 390), None),
        ([*WHOLE, (310, start(whole=False)), *signals(320, 400)], (0, 390),
         "the kubelet's log before its first line"),
        ([*WHOLE, (290, thinned(100, 120, 5))], (105, 106),
         "the lines that the log lost (5 of 100 periodic lines are missing)"),
        ([*WHOLE, (290, thinned(100, 120, 5))], (150, 200), None),
        ([*WHOLE, (290, lost(100, 120))], (110, 111), "records 1 to 2, which the ledger lost"),
        ([*WHOLE, (290, unread(100, 120))], (110, 111),
         "the log's lines that were not recorded (9 messages were suppressed)"),
        ([*WHOLE, (290, unread(100, 120))], (130, 140), None),
        ([*WHOLE, (100, unread(100, None)), (290, unread(100, 120))], (130, 140), None),
        ([*WHOLE, (290, unread(100, None))], (130, 140),
         "the log's lines that were not recorded (9 messages were suppressed)"),
        ([*WHOLE, (290, unread(100, 120, "kernel.log"))], (110, 111), None),
        ([], (0, 1), "the kubelet's log"),
    ],
)  # fmt: skip
def test_whether_a_line_may_be_missing(
    steps: Steps, span: tuple[int, int], phrase: str | None
) -> None:
    found = coverage(steps)
    loss = found.missing(span[0] * NS_PER_S, span[1] * NS_PER_S)
    assert (loss and loss.phrase) == phrase
    # From the time on that it tells, no part is silent.
    for end_s in (span[1], 300):
        end_ns = end_s * NS_PER_S
        from_ns = found.unbroken_from(end_ns)
        assert from_ns > end_ns or found.silent(from_ns, end_ns) is None


def test_what_a_process_never_logs_is_no_evidence() -> None:
    """Where files were imported; each process of them counts alone."""
    pod = PodConfigChanged(namespace="d", pod="a", pod_uid=None, operation="ADD", source="api")
    runs = ContainerStarted(namespace="d", pod="a", pod_uid=None, container="c", container_id="1")
    told = [*WHOLE, (1, pod), (2, runs), (200, start(restart=True)), (210, runs)]
    read = (310, ImportCompleted(digest="00" * 32, accounts=()))
    kind, lines = "lifecycle.PodAdmitted", "the sync loop's lines about pods"
    for steps, at_s, phrase in [(told, 250, None), ([*told, read], 100, None),
                                ([*told, read], 250, lines)]:  # fmt: skip
        found = coverage(steps)
        loss = found.at(at_s * NS_PER_S, kind)
        assert (loss and loss.phrase) == phrase
        assert found.at(at_s * NS_PER_S) is None  # what rests on no class is as it was
    assert coverage([*told, read]).at(NS_PER_S, "lifecycle.PodRejected", owed=True) is not None


def test_no_order_is_believed_of_lines_that_were_turned() -> None:
    """All that a rule makes of it may be otherwise, whatever is certain besides."""
    turned = FindingReported(finding=LINES_MIXED, file="kubelet.log", message="")
    found = coverage([*WHOLE, (100, turned)])
    loss = found.at(300 * NS_PER_S)
    assert loss is not None
    assert loss.phrase.startswith("the order in which")
    assert found.is_apart(5 * NS_PER_S)
    assert found.missing(0, 300 * NS_PER_S) is None
    assert not coverage(WHOLE).is_apart(5 * NS_PER_S)


def test_what_is_beside_the_log_may_go_by_another_clock() -> None:
    """Lines go by one all the same."""
    named = FindingReported(finding=CLOCK_UNKNOWN, file=None, message="")
    found = coverage([*WHOLE, (100, named)])
    loss = found.at(300 * NS_PER_S)
    assert (loss and loss.phrase) == "by which clock the lists beside the log are named"
    assert found.at(300 * NS_PER_S, by_lines=True) is None
    assert found.is_apart(5 * NS_PER_S)
    assert not found.is_apart(5 * NS_PER_S, by_lines=True)
    assert found.missing(0, 300 * NS_PER_S) is None


@pytest.mark.parametrize("finding", [LISTS_MASKED, LISTS_PRUNED])
def test_lists_that_were_changed_deny_nothing(finding: str) -> None:
    """No clock is in doubt: even what lists say of themselves is not theirs."""
    changed = FindingReported(finding=finding, file=None, message="")
    found = coverage([*WHOLE, (100, changed)])
    assert found.at(300 * NS_PER_S, by_lines=True) is not None
    assert found.is_apart(5 * NS_PER_S, timeless=True)
    assert found.missing(0, 300 * NS_PER_S) is None
    mixed = FindingReported(finding=LINES_MIXED, file="kubelet.log", message="")
    assert not coverage([*WHOLE, (100, mixed)]).is_apart(5 * NS_PER_S, timeless=True)


def test_the_log_ends_with_its_last_line() -> None:
    body = ContainerStarted(namespace="d", pod="a", pod_uid=None, container="c", container_id="1")
    (shown,) = scene((400, body), start_s=0)
    for evidence, is_past in ((shown.evidence, False), ((Evidence(file="pods.json"),), True)):
        found = Coverage()
        for record in scene(*WHOLE, start_s=0):
            found.note(record)
        found.note(msgspec.structs.replace(shown, evidence=evidence))
        found.settle()
        assert (found.last_line_ns < 350 * NS_PER_S) == is_past


def test_a_periodic_activity() -> None:
    """Late by half a period, or by 15 seconds, it is still the next one."""
    for period_s, seen_s, gaps, is_regular in (
        (10, (0, 25), 0, True), (10, (0, 26), 1, False), (60, (0, 90), 0, True),
        (60, (0, 91), 1, False), (10, (0, 10, 100, 200, 300), 3, False), (10, (0,), 0, False),
    ):  # fmt: skip
        found = PeriodicActivity("rounds", period_s * NS_PER_S)
        for at_s in seen_s:
            found.note(at_s * NS_PER_S)
        assert (len(found.gaps()), found.is_regular) == (gaps, is_regular)
