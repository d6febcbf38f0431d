"""Where the log lost lines, what is missing in it proves nothing."""

from pathlib import Path

import msgspec
import pytest

from kubeledger.analyze.histories.sources import open_histories
from kubeledger.kubelet.lifecycle.disputes import LINES_DISAGREE, stamp_dispute
from kubeledger.model.bodies.ledger import FindingReported, ImportCompleted, RecordsLost
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.bodies.node import KubeletStarted, LogThinned
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.belief import Judgement, RuleVerifier
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.debts import Missed
from kubeledger.verify.evidence.sync_loop import PodsWithoutAdd
from kubeledger.verify.finding import Contradiction, Finding, Outcome
from tests.recordings import extract
from tests.verify.histories import kubelet_of, outcomes, recorded, scene

MINUTE_S = 60


def start(pid: int = 1) -> KubeletStarted:
    return kubelet_of(pid=pid)


def thinned(from_min: int, to_min: int, missing: int = 3) -> LogThinned:
    return LogThinned(
        from_ts_ns=from_min * MINUTE_S * NS_PER_S,
        to_ts_ns=to_min * MINUTE_S * NS_PER_S,
        beats_expected=600,
        beats_missing=missing,
    )


def lost(from_min: int | None, to_min: int | None, **changes: object) -> RecordsLost:
    reported = RecordsLost(
        first_seq=7,
        last_seq=9,
        chain="00" * 32,
        first_ts_ns=None if from_min is None else from_min * MINUTE_S * NS_PER_S,
        last_ts_ns=None if to_min is None else to_min * MINUTE_S * NS_PER_S,
        imports=("d",),
        others=False,
        found_ts_ns=0,
    )
    return msgspec.structs.replace(reported, **changes)


def bench_with(*bodies: tuple[int, Body]) -> VerifyContext:
    context = VerifyContext()
    for record in scene(*bodies, start_s=0):
        context.coverage.note(record)
    context.coverage.settle()
    return context


def ask(
    context: VerifyContext, minute: int, *, certain: bool = False
) -> tuple[Finding, list[Outcome]]:
    """An impossible decision at a minute, and one that is missing then."""
    record: Record = scene((0, start()), (minute * MINUTE_S, start()), start_s=0)[-1]
    context.pending.enter(record)
    no = Judgement(verdict="impossible", why="no", expected={"a": 1}, certain=certain)
    RuleVerifier(context).conclude(record, "node", no, rule="f")
    missed = Missed(since=record, kind="k", subject="node", why="not there")
    context.absent(missed, certain=certain)
    sides = ((1, "a"), (2, "b"))
    context.contradict(record.ts_ns, "node", "absent", *sides, by_absence=True)
    context.contradict(record.ts_ns, "node", "two values", *sides)
    finding, *others = context.pending.ready()
    assert isinstance(finding, Finding)
    return finding, others


TOLD_MIN = 18


@pytest.mark.parametrize(
    ("reported", "impossible", "open_"),
    [
        # from a little before its first sign to the end of the process
        pytest.param(thinned(18, 25), (5, 60, 70), (15, 20, 30, 59), id="a loss"),
        # it may have gone on all the time, also in the next process
        pytest.param(thinned(18, 18, 1), (), (1, 59, 70), id="one missing beat"),
        # a beat is lost every ten minutes: the half hour behind the last one may lack lines
        pytest.param(thinned(20, 50), (81,), (79,), id="rare losses"),
        pytest.param(lost(20, 30), (14, 60), (15, 59), id="records that the ledger lost"),
        pytest.param(lost(None, None), (), (1, 90), id="lost records of unknown times"),
    ],
)
def test_a_loss(reported: Body, impossible: tuple[int, ...], open_: tuple[int, ...]) -> None:
    """In it nothing rests on absence; outside of it nothing changes."""
    history = ((0, start()), (TOLD_MIN * MINUTE_S, reported), (60 * MINUTE_S, start(2)))
    for minute in impossible:
        finding, others = ask(bench_with(*history), minute)
        assert (finding.verdict, finding.expected, len(others)) == ("impossible", {"a": 1}, 3)
    for minute in open_:
        finding, others = ask(bench_with(*history), minute)
        assert (finding.verdict, finding.expected, finding.inputs) == ("unverifiable", None, (2,))
        assert [o.why for o in others if isinstance(o, Contradiction)] == ["two values"]
        assert len(others) == len(finding.missing) == 1
    for minute in open_:  # what is certain rests on values of this very record
        finding, others = ask(bench_with(*history), minute, certain=True)
        assert (finding.verdict, len(others)) == ("impossible", 2)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "impossible"),
        ({"others": True}, "unverifiable"),
        ({"imports": ("d", "e")}, "unverifiable"),
        ({"imports": ()}, "unverifiable"),
    ],
)
def test_lost_records_that_were_imported_again(changes: dict[str, object], verdict: str) -> None:
    """Nothing is missing then; unless there were others."""
    end = ImportCompleted(digest="d", accounts=())
    history = ((0, start()), (18 * MINUTE_S, lost(20, 30, **changes)), (70 * MINUTE_S, end))
    assert ask(bench_with(*history), 25)[0].verdict == verdict


@pytest.mark.parametrize(("name", "first", "count"), [("node-a", 1059, 400), ("node-b", 422, 400)])
def test_no_verdict_rests_on_records_that_are_lost(name: str, first: int, count: int) -> None:
    """The recorded nodes with a hole in their ledgers: nothing is impossible or contradicts."""
    records = recorded(name)
    before, gone, behind = records[:first], records[first:][:count], records[first + count :]
    body = msgspec.structs.replace(
        lost(None, None),
        first_ts_ns=max(record.ts_ns for record in before),
        last_ts_ns=max(record.ts_ns for record in gone),
    )
    reported = msgspec.structs.replace(
        gone[0], role=body.role, kind=body.kind, v=body.v, cause=None, evidence=(), body=body
    )
    found = outcomes([*before, reported, *behind])
    verdicts = [outcome.verdict for outcome in found if isinstance(outcome, Finding)]
    assert len(verdicts) == len(found)
    assert "unverifiable" in verdicts
    assert "impossible" not in verdicts


@pytest.fixture(scope="module")
def in_a_lossy_log() -> list[Record]:
    records = recorded("node-a")
    lost = LogThinned(
        from_ts_ns=records[0].ts_ns,
        to_ts_ns=records[-1].ts_ns,
        beats_expected=600,
        beats_missing=3,
    )
    last = records[-1]
    reported = msgspec.structs.replace(
        last, seq=last.seq + 1, role=lost.role, kind=lost.kind, cause=None, body=lost
    )
    return [*records, reported]


def verdict_with(records: list[Record], kind: str, **changes: object) -> set[str]:
    """Verdicts on the last record of a kind with other values in it."""
    found = max(i for i, record in enumerate(records) if record.kind == kind)
    body = msgspec.structs.replace(records[found].body, **changes)
    lied = msgspec.structs.replace(records[found], body=body)
    out = outcomes([*records[:found], lied, *records[found + 1 :]])
    assert not [
        f for f in out if isinstance(f, Finding) and f.seq != lied.seq and f.verdict == "impossible"
    ]
    return {f.verdict for f in out if isinstance(f, Finding) and f.seq == lied.seq}


def test_lies_about_settings_and_specs_are_caught_in_a_lossy_log(
    in_a_lossy_log: list[Record],
) -> None:
    """No lost line can explain them; what rests on other lines is not told."""
    started = "images.GarbageCollectionStarted"
    assert verdict_with(in_a_lossy_log, started, high_threshold_percent=6) == {"impossible"}
    assert verdict_with(in_a_lossy_log, started, usage_percent=3) == {"impossible"}
    assert verdict_with(in_a_lossy_log, "images.ImageDeleted", size_bytes=7) == {"impossible"}
    assert verdict_with(in_a_lossy_log, started, bytes_to_free=7) == {"unverifiable"}
    assert verdict_with(in_a_lossy_log, "lifecycle.PodRejected", reason="Nothing") == {
        "unverifiable"
    }


def test_a_line_out_of_place_proves_nothing_near_it() -> None:
    """Its stamp is wrong, or it was moved: from one time to the other, and a minute around."""
    logged_ns, before_ns, after_ns = (minute * MINUTE_S * NS_PER_S for minute in (10, 14, 15))
    dispute = stamp_dispute("kubelet.log:7", logged_ns, before_ns, after_ns)
    said = FindingReported(finding=LINES_DISAGREE, file="kubelet.log", message=dispute.message)
    context = bench_with((14 * MINUTE_S, said))
    verdicts = {minute: ask(context, minute)[0].verdict for minute in (8, 9, 12, 15, 16, 17)}
    assert verdicts == {
        8: "impossible",
        9: "unverifiable",
        12: "unverifiable",
        15: "unverifiable",
        16: "impossible",
        17: "impossible",
    }
    assert ask(context, 12)[0].missing == (
        "the right time of a line whose stamp does not go with those around it",
    )


@pytest.mark.parametrize(
    "message",
    [
        "node: something else: this says kubelet.log:7: 1970-01-01T00:10:00Z, others say a and b",
        stamp_dispute("kubelet.log:7", 1, 2, 3).message.replace("1970", "year"),
        "no dispute",
    ],
)
def test_another_finding_is_no_line_out_of_place(message: str) -> None:
    said = FindingReported(finding=LINES_DISAGREE, file="kubelet.log", message=message)
    assert ask(bench_with((600, said)), 10)[0].verdict == "impossible"


# All lines about one pod are lost, and other sources still show it.


def began(*, whole: bool = True) -> KubeletStarted:
    return kubelet_of(from_start=whole)


def comes(pod: str, uid: str | None = None) -> PodConfigChanged:
    return PodConfigChanged(namespace="ns", pod=pod, pod_uid=uid, operation="ADD", source="api")


def shown(
    pod: str, uid: str | None = "u", phase: str = "Running", created_s: int | None = None
) -> PodListed:
    """The kubelet's own list shows a pod."""
    return PodListed(
        namespace="ns", pod=pod, pod_uid=uid, spec={}, status={"phase": phase},
        listed_by="kubelet", created_ts_ns=None if created_s is None else created_s * NS_PER_S,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([(0, began()), (1, comes("a")), (20, shown("a")), (20, shown("b"))], ["ns/b"]),
        ([(0, began()), (1, comes("a", "u")), (20, shown("a", "u")), (30, comes("b"))], []),
        ([(0, began()), (15, comes("a")), (20, shown("b", created_s=1_015))], ["ns/b"]),
        ([(0, began()), (15, comes("a")), (20, shown("b", created_s=1_016))], []),  # the log ends
        ([(0, began()), (20, shown("b"))], []),  # it tells of no pod: its verbosity is low
        ([(0, began(whole=False)), (1, comes("a")), (20, shown("b"))], []),
        ([(0, began()), (1, comes("a")), (20, shown("b", phase="Failed"))], []),
        ([(0, began()), (1, comes("a")), (40, shown("b")), (20, shown("b", phase="Failed"))],
         ["ns/b"]),  # imported in another order
        ([(0, began()), (1, comes("a")), (5, shown("b"))], []),  # of the process before
        ([(0, began()), (1, comes("b")), (50, began()), (51, comes("a")), (70, shown("b"))],
         ["ns/b"]),
    ],
)  # fmt: skip
def test_pods_of_which_a_log_does_not_tell(
    steps: list[tuple[float, Body]], found: list[str]
) -> None:
    """Only where the log begins with the process, and tells of others."""
    pods = PodsWithoutAdd()
    for record in scene(*steps):
        pods.note(record)
    assert [name for _, name, *_ in pods.found()] == found


@pytest.mark.parametrize(("node", "pod"), [("node-a", "gpu-a"), ("node-b", "filler-a-node-b")])
def test_without_the_lines_of_a_pod_nothing_is_impossible(
    node: str, pod: str, tmp_path: Path
) -> None:
    """Not the writes for it, nor what others were let in or killed for beside it."""
    root = extract(node, tmp_path)
    log = root / "kubelet.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if pod.encode() not in line))
    with open_histories([str(root)]) as histories:
        (history,) = histories
        outcomes = list(history.verify())
    findings = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    assert len(findings) == len(outcomes)
    assert [finding for finding in findings if finding.verdict == "impossible"] == []
    assert sum(finding.verdict == "match" for finding in findings) > 180
