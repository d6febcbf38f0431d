# ruff: noqa: ANN401, E501 # results are any JSON; rows of a table stay on one line
"""Questions that people ask of the recorded nodes, answered from results of tools alone.

What is expected stands in the recordings' README, their logs and their lists of pods.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.marks import slow
from tests.mcp.asking import Call, ask_ledger
from tests.mcp.conftest import Recorded


class Question(NamedTuple):
    words: str
    call: Call
    found: Callable[[Any], object]
    expected: object


def _problems(value: Any) -> str:
    return "\n".join(each["text"] for each in value["nodes"][0]["problems"])


def _says(*words: str) -> Callable[[Any], object]:
    """Whether the answer of ``why`` has all the words."""
    return lambda value: [word for word in words if word not in value["answers"][0]["answer"]]


def _sql(query: str) -> Call:
    return "sql", {"query": query}


def _why(target: str, **more: object) -> Call:
    return "why", {"target": target, **more}


def _rows(value: Any) -> Any:
    return value["rows"]


QUESTIONS: dict[str, list[Question]] = {
    "node-a": [
        Question("which kubelet?", ("overview", {}), lambda v: v["nodes"][0]["kubelet"], "1.20.2"),
        Question(
            "what was the worst?", ("overview", {}),
            lambda v: "critical-1 preempted filler-c, gpu-a" in _problems(v), True,
        ),
        Question("why did filler-c go?", _why("filler-c"), _says("preempted", "critical-1", "450m"), []),
        Question(
            "could the kubelet have done so?", _why("filler-c"),
            lambda v: v["answers"][0]["verdict"] in {"match", "admissible"}, True,
        ),
        Question(
            "who made room for whom?",
            _sql("SELECT DISTINCT victim_pod, preemptor_pod FROM preemptions ORDER BY ALL"), _rows,
            [["filler-c", "critical-1"], ["gpu-a", "critical-1"]],
        ),
        Question(
            "which pods were refused?",
            _sql("SELECT pod, reason FROM admissions WHERE NOT admitted ORDER BY ALL"), _rows,
            [["gpu-c", "UnexpectedAdmissionError"], ["too-big", "OutOfcpu"]],
        ),
        Question("why was gpu-c refused?", _why("gpu-c"), _says("example.com/gpu", "3"), []),
        Question(
            "which GPUs did gpu-a's train get?",
            _sql(
                "SELECT device_ids FROM device_allocations "
                "WHERE container = 'train' AND pod = 'gpu-a' AND resource = 'example.com/gpu'"
            ), _rows, [[["gpu-0", "gpu-2"]]],
        ),
        Question("who has gpu-0?", _why("example.com/gpu/gpu-0"), _says("gpu-a/train", "gpu-0"), []),
        Question(
            "how often did live-fail restart?",
            _sql("SELECT count(*) FROM container_restarts WHERE pod = 'live-fail'"), _rows, [[8]],
        ),
        Question("why does it restart?", _why("live-fail"), _says("liveness"), []),
        Question(
            "did image GC reach its aim?",
            _sql("SELECT outcome, count(*) FROM image_gc_runs GROUP BY ALL"), _rows, [["failed", 4]],
        ),
        Question(
            "how often did readiness of ready-flap turn?",
            _sql("SELECT count(*) FROM probe_transitions WHERE pod = 'ready-flap'"), _rows, [[26]],
        ),
        Question(
            "did the kubelet restart?", _sql("SELECT pid, restart FROM kubelet_starts ORDER BY seq"),
            _rows, [[8337, False], [26468, True]],
        ),
        Question("why was the node not ready?", _why("node"), lambda v: [
            word for word in ("not ready", "03:03:25", "runtime status check")
            if word not in v["answers"][0]["in_full"]
        ], []),
        Question(
            "would a threshold of 80 % have kept the images?",
            ("whatif", {"settings": ["imageGCHighThresholdPercent=80"]}),
            lambda v: v["variants"][0]["summary"][0].startswith("Would not have happened: 8× image"),
            True,
        ),
        Question(
            "what if nothing is changed?", ("whatif", {"settings": ["imageGCHighThresholdPercent=5"]}),
            lambda v: v["variants"][0]["changed"], 0,
        ),
        Question(
            "who runs at the end?", ("state", {"parts": ["pods"], "max_tokens": 20_000}),
            lambda v: "guaranteed-1" in {pod["name"] for pod in v["state"]["pods"].values()}, True,
        ),
    ],
    "node-b": [Question("which kubelet?", ("overview", {}), lambda v: v["nodes"][0]["kubelet"],
                        "1.36.2"),
               Question("who was preempted, for how much?",
                        _sql("SELECT victim_pod, preemptor_pod, insufficient FROM preemptions"),
                        _rows, [["filler-a-node-b", "critical-1-node-b", "cpu=270"]]),
               Question("why does startup-never not run?", _why("startup-never"),
                        _says("startup probe"), []),
               Question("which NICs has train?",
                        _sql("SELECT device_ids FROM device_allocations WHERE resource = "
                             "'vendor.io/nic'"), _rows, [[["nic-0", "nic-2"]]]),
               Question("does the sidecar have a GPU of its own?",
                        _sql("SELECT device_ids FROM device_allocations WHERE container = 'side'"),
                        _rows, [[["gpu-0"]]]),
               Question("how many images did GC delete?",
                        _sql("SELECT count(*) FROM image_gc_deletions"), _rows, [[3]]),
               Question("why was too-big refused?", _why("too-big"), _says("too-big", "1470"), [])],
    "node-e-evictions": [Question("who preempted?",
                                  _sql("SELECT DISTINCT preemptor_pod FROM preemptions ORDER BY 1"),
                                  _rows, [["crit-1"], ["crit-2"]]),
                         Question("why was be-1 evicted?", _why("be-1"),
                                  _says("evicted", "memory.available"), []),
                         Question("which pods fell to nodefs?",
                                  _sql("SELECT pod FROM evictions WHERE evicted AND signal = "
                                       "'nodefs.available' ORDER BY 1"), _rows,
                                  [["bad-hook"], ["disk-a"]]),
                         Question("how often was the disk under pressure?",
                                  _sql("SELECT count(*) FROM node_conditions WHERE condition = "
                                       "'DiskPressure' AND status = 'True'"), _rows, [[3]]),
                         Question("hard or soft?",
                                  _sql("SELECT kind FROM evictions WHERE pod = 'hog-high' AND "
                                       "evicted"), _rows, [["soft"]]),
                         Question("what about disk-limit?", _why("disk-limit"),
                                  _says("disk-limit", "limit"), [])],
    "node-f": [Question("when was the node told to shut down?", _why("node"),
                        _says("shut down", "2026-11-23T17:06:53Z"), []),
               Question("how many pods did that stop?", _why("node"),
                        lambda v: "15 pods were stopped" in v["answers"][0]["in_full"], True),
               Question("how long did pods of each priority have?",
                        _sql("SELECT pod, grace_period_s FROM container_kills WHERE pod IN "
                             "('late-be', 'late-mid', 'late-crit') ORDER BY pod"), _rows,
                        [["late-be", 17], ["late-crit", 5], ["late-mid", 9]]),
               Question("what does rs-deferred wait for?", _why("rs-deferred"),
                        _says("deferred", "cpu", "2500", "1950", "3500"), []),
               Question("what became of each resize?",
                        _sql("SELECT outcome, count(DISTINCT pod) FROM resizes WHERE outcome <> "
                             "'actuated' GROUP BY ALL ORDER BY ALL"), _rows,
                        [["allocated", 3], ["deferred", 1], ["infeasible", 1]]),
               Question("which kubelets ran?", _sql("SELECT pid FROM kubelet_starts ORDER BY seq"),
                        _rows, [[2479], [11265], [11851], [1629]]),
               Question("how did 11265 end?", _why("node"),
                        _says("11265", "16:53:17", "status=9/KILL"), []),
               Question("why did never-pull not start?", _why("never-pull"),
                        _says("not on the node", "Never"), []),
               Question("why was port-2 refused?", _why("port-2"), _says("NodePorts", "16:49:15"),
                        []),
               Question("could the kubelet have refused it?", _why("port-2"),
                        lambda v: v["answers"][0]["verdict"], "match")],
}  # fmt: skip


@pytest.mark.parametrize(
    "recording", [name for name in QUESTIONS if name != "node-f"] + slow("node-f")
)
def test_each_question_is_answered_by_results_alone(recording: str, recorded: Recorded) -> None:
    questions = QUESTIONS[recording]
    answers = ask_ledger(recorded(recording), [each.call for each in questions])
    found = {
        each.words: answer.text if answer.is_error else each.found(answer.value)
        for each, answer in zip(questions, answers, strict=True)
    }
    assert found == {each.words: each.expected for each in questions}


def test_these_are_forty_questions() -> None:
    assert sum(map(len, QUESTIONS.values())) >= 40
