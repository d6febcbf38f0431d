"""How a node fared: each end of a kubelet process, pressure, and what else befell it."""

from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import Answer, explain_node, parse_target
from kubeledger.analyze.why.pieces import HEADLINE_MAX
from kubeledger.model.bodies.eviction import NodeCondition, NodeConditionsChanged, ProcessKilled
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.model.bodies.node import ClockStepped, KubeletExited, KubeletStarted, LogThinned
from kubeledger.model.record import Body, Record
from tests.verify.histories import reader, scene


def _began(pid: int, **fields: Any) -> KubeletStarted:  # noqa: ANN401 # any field
    return KubeletStarted(pid=pid, kubelet_version="1.30.14", version_source="log", **fields)


def _ended(reason: Any, pid: int | None = 7) -> KubeletExited:  # noqa: ANN401 # a literal
    return KubeletExited(pid=pid, reason=reason, message="no cgroup v1")


def _reports(*conditions: NodeCondition) -> NodeConditionsChanged:
    return NodeConditionsChanged(conditions=conditions, observed=conditions)


OOM = ProcessKilled(
    namespace=None, pod=None, pod_uid=None, container=None, container_id=None, reason="node",
    process="kubelet",
)  # fmt: skip
SHUTDOWN = PodTerminating(namespace="a", pod="b", pod_uid="u", reason="shutdown", grace_period_s=10)
CLOCK = ClockStepped(from_ts_ns=1_002 * 10**9, to_ts_ns=1_001 * 10**9)
THIN = LogThinned(from_ts_ns=10**9, to_ts_ns=2 * 10**9, beats_expected=9, beats_missing=3)


def _answer(*bodies: Body, target: str = "node", upto_s: float | None = None) -> Answer | None:
    records: list[Record] = scene(*[(float(n), body) for n, body in enumerate(bodies)])
    history = history_of_reader("node-t", "node-t", reader(records))
    upto_ts_ns = None if upto_s is None else round((1_000 + upto_s) * 1e9)
    answer = explain_node(history, parse_target(target), upto_ts_ns=upto_ts_ns)
    if answer is not None:
        assert [step.seq for step in answer.history] == [piece.seq for piece in answer.evidence]
        assert len(answer.headline) <= HEADLINE_MAX
    return answer


def _sentence(*bodies: Body, target: str = "node", upto_s: float | None = None) -> str | None:
    answer = _answer(*bodies, target=target, upto_s=upto_s)
    return None if answer is None else answer.sentence


@pytest.mark.parametrize(
    ("between", "says"),
    [
        ([_ended("error")], "gave up at 1970-01-01T00:16:41Z: no cgroup v1"),
        ([_ended("panic"), _ended("signal")], "crashed at 1970-01-01T00:16:41Z: no cgroup v1"),
        ([_ended("signal")], "was killed at 1970-01-01T00:16:41Z: no cgroup v1"),
        ([_ended("stopped")], "was told to stop at 1970-01-01T00:16:41Z"),
        ([OOM], "was killed by the kernel's OOM killer at 1970-01-01T00:16:41Z"),
        ([], "left no record of its end, after 1970-01-01T00:16:40Z"),
        ([_ended("error", None)], "left no record of its end"),
        ([_ended("fatal", 3)], "left no record of its end"),
    ],
)
def test_how_a_process_ended(between: list[Body], says: str) -> None:
    """By what it, systemd or the kernel says; not by what one that logged nothing says."""
    sentence = _sentence(_began(7), *between, _began(8, restart=True))
    assert sentence is not None
    assert "process 8 (1.30.14) started at" in sentence
    assert f"process 7 (1.30.14) started at 1970-01-01T00:16:40Z and {says}" in sentence


def test_a_process_of_which_only_the_end_is_recorded() -> None:
    """A fatal end, or an error in the flags: one process each, and no end of the one before."""
    alone = [_ended("fatal", 3), _ended("error", None), _ended("error", None)]
    answer = _answer(_began(7), *alone)
    assert answer is not None
    assert (
        "kubelet process 3, whose start is not in the log, gave up at 1970-01-01T00:16:41Z"
        in answer.sentence
    )
    assert answer.sentence.count("the kubelet gave up at") == 2
    assert "the kubelet died 3 times between 1970-01-01T00:16:41Z and 00:16:43Z" in answer.headline


LONG = KubeletExited(pid=7, reason="error", message="Failed to start: " + "very " * 50)


@pytest.mark.parametrize(
    ("bodies", "says"),
    [
        ([LONG, _began(8), _reports("DiskPressure")],
         "node node-t: kubelet process 7 died at 1970-01-01T00:16:41Z: very very "),
        ([LONG, _began(8), _ended("fatal", 8)],
         "node node-t: the kubelet died 2 times between 1970-01-01T00:16:41Z and 00:16:43Z: no "
         "cgroup v1; process 8 died at 1970-01-01T00:16:43Z"),
        ([OOM, _began(8, from_start=False)],
         "node node-t: kubelet process 7 died at 1970-01-01T00:16:41Z: killed by the kernel's OOM "
         "killer; process 8 is first seen at 1970-01-01T00:16:42Z."),
        ([_ended("stopped"), _began(8)],
         "node node-t: kubelet process 8 (1.30.14) started at 1970-01-01T00:16:42Z"),
    ],
)  # fmt: skip
def test_the_headline_names_deaths(bodies: list[Body], says: str) -> None:
    """Whatever else there is, and however much the process had said."""
    answer = _answer(_began(7), *bodies)
    assert answer is not None
    assert says in answer.headline


@pytest.mark.parametrize(
    ("bodies", "says"),
    [
        ([_reports("MemoryPressure")], "it reports MemoryPressure (since 1970-01-01T00:16:41Z)"),
        (
            [_reports("DiskPressure"), _reports()],
            "it reported DiskPressure 1970-01-01T00:16:41Z to 00:16:42Z",
        ),
        ([_reports("DiskPressure"), _began(8)], "it reported DiskPressure 1970-01-01T00:16:41Z"),
        ([SHUTDOWN, SHUTDOWN], "the node shut down: 2 pods were stopped from 1970-01-01T00:16:41Z"),
        ([CLOCK], "the clock went back from 1970-01-01T00:16:42Z to 1970-01-01T00:16:41Z"),
        ([THIN], "the log lost lines between"),
        ([msgspec.structs.replace(THIN, beats_missing=0, lines_cut=1)], "the log has cut lines"),
        ([msgspec.structs.replace(OOM, process="java")], "the kernel killed a process (java)"),
    ],
)
def test_what_befell_the_node(bodies: list[Body], says: str) -> None:
    """Pressure since when, a shutdown, the clock, and memory that ran out."""
    sentence = _sentence(_began(7), *bodies)
    assert sentence is not None
    assert says in sentence


def test_which_node_and_when() -> None:
    """Another node has no answer, and what came later is not reported."""
    assert _sentence(_began(7), target="node/node-t") is not None
    assert _sentence(_began(7), target="node/other") is None
    early = _sentence(_began(7), _ended("error"), _began(8), upto_s=0.5)
    assert early is not None
    assert "and is the last one recorded" in early
    assert "gave up" not in early


def test_a_log_that_begins_in_the_middle_shows_no_start() -> None:
    """The process is seen, its start is not; and nothing reports pressure."""
    answer = _answer(_began(7, from_start=False))
    assert answer is not None
    assert answer.steps == ()
    assert answer.sentence == (
        "node node-t: kubelet process 7 (1.30.14) ran before the log begins, is first seen "
        "at 1970-01-01T00:16:40Z and is the last one recorded."
    )


def test_a_process_without_an_end_has_a_step_that_says_so() -> None:
    answer = _answer(_began(7), CLOCK, _began(8, restart=True))
    assert answer is not None
    reported = [step.text for step in answer.steps]
    assert [text for text in reported if "no record of its end" in text] == [
        "kubelet process 7 left no record of its end"
    ]


def test_deaths_that_said_the_same_are_one_step() -> None:
    """Whichever process it was; another word is another step."""
    exits = [
        KubeletExited(pid=pid, reason="error", message=said)
        for pid, said in ((1, "no disk"), (2, "no disk"), (3, "no net"))
    ]
    found = _answer(*exits)
    assert found is not None
    steps = [step for step in found.steps if step.kind == KubeletExited.kind]
    assert [(step.text, step.count) for step in steps] == [
        ("kubelet ended (error): no disk", 2),
        ("kubelet 3 ended (error): no net", 1),
    ]
