"""``kubeledger why`` as users call it, and its answers to real questions."""

from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.testing.scene import Scene
from tests.cli.nodes import Nodes, answer, run

BURSTABLE = "kubepods/burstable/pod50de8d34-c6b6-4560-94f6-8112cb42465b"
REMOVED = "sha256:5e3c775663b8edad90449cb2bf53ca9c503e3dc8bd8babe5bc984b8b6575c5a0"
KEPT_IN_USE = "sha256:68d8e9110ca497ee3eb8e1264b28f47fa97dec63cbd657b2e38fe65b5e404236"
KEPT_YOUNG = "sha256:2cf000c66ba5a7627abd2b39aa1f8c91bb027284cfb79dde302bd73003e7b27e"

QUESTIONS: dict[str, tuple[str, str, tuple[str, ...], tuple[tuple[str, int, str], ...]]] = {
    "why was gpu-a preempted": ("pod/default/gpu-a", "preemption.PodPreempted",
                                ("at 2026-11-21T03:00:32.028018Z default/gpu-a (Burstable, "
                                 "priority 0, 50m of cpu) was killed because "
                                 "kube-system/critical-1", "priority 2000001000", "450m of cpu",
                                 "with default/filler-c gone this pod and default/filler-a (300m "
                                 "of cpu) both free enough for the missing 50m of cpu, but this "
                                 "one asks for less memory (32Mi against 64Mi)"),
                                (("kubelet.log", 10660,
                                  'SyncLoop (ADD, "api"): "critical-1_kube-system'),
                                 ("kubelet.log", 10672, "preemption: attempting to evict pods"))),
    "why did live-fail restart": (
        "container/default/live-fail/app",
        "lifecycle.ContainerRestarted",
        ("container default/live-fail/app was started again at 2026-11-21T03:04:27.926314Z: "
         "container app was killed at 2026-11-21T03:04:24.918836Z because its liveness probe "
         "failed, and restart policy Always starts it again for the 8th time",
         "liveness failed 3 times in a row (threshold 3), last at 2026-11-21T03:04:24.743673Z",
         "since that restart, container default/live-fail/app was killed by its liveness probe at "
         "2026-11-21T03:04:54.740432Z",
         "after that, container default/live-fail/app was not restarted yet (back-off 40 s) at "
         "2026-11-21T03:04:57.009247Z"),
        (("kubelet.log", 17124, "can't open '/tmp/ok'"), ("kubelet.log", 17179, "Liveness probe"),
         ("kubelet.log", 17221, "Liveness probe"), ("kubelet.log", 17336, "Started container app"),
         ("kubelet.log", 17344, "ContainerDied"),
         ("kubelet.log", 17913, "Liveness probe"),
         ("kubelet.log", 17921, "failed liveness probe, will be restarted"),
         ("kubelet.log", 18023, "ContainerDied"), ("kubelet.log", 18038, "back-off 40s")),
    ),
    "why was this image deleted": (f"image/{REMOVED}", "images.ImageDeleted",
                                   (f"image {REMOVED} was deleted (40Mi) at "
                                    f"2026-11-21T03:02:42.155387Z",
                                    "before that, at 2026-11-21T03:02:42.136198Z the image "
                                    "filesystem was 72 % used", "image 5e3c775663b8 was not in use",
                                    "is older than 10s", "72 % used", "high threshold of 5 %",
                                    "183647269519 bytes are to be freed", "down to 4 %"),
                                   (("kubelet.log", 13983, "Trying to free 183647269519 bytes"),
                                    ("kubelet.log", 14058, REMOVED))),
    "why was that image kept": (f"image/{KEPT_IN_USE}", "images.GarbageCollected",
                                (f"image {KEPT_IN_USE} was kept at 2026-11-21T03:02:42.176981Z: it "
                                 f"is in use",
                                 f"earlier, image {KEPT_IN_USE} was deleted (8791Ki) at "
                                 f"2026-11-21T02:57:42.092544Z",
                                 "before that, at 2026-11-21T02:57:42.061702Z the image filesystem "
                                 "was 72 % used", "so 183562994319 bytes are to be freed"),
                                (("kubelet.log", 6283, KEPT_IN_USE),
                                 ("kubelet.log", 13983, "Trying to free 183647269519 bytes"))),
    "why was gpu-c refused": ("pod/default/gpu-c", "lifecycle.PodRejected",
                              ("pod default/gpu-c was refused (UnexpectedAdmissionError) at "
                               "2026-11-21T03:00:17.808491Z",
                               "container default/gpu-c/train was refused example.com/gpu",
                               "requested number of devices unavailable for example.com/gpu",
                               "Requested: 3, Available: 1", "1 free healthy device: gpu-3",
                               "gpu-0 held by default/gpu-a/warmup and default/gpu-a/train",
                               "gpu-1 held by default/gpu-b/train"),
                              (("kubelet.log", 9954, "gpu-c"),
                               ("kubelet.log", 9957, "requested: 3, available: 1"))),
    "why was too-big refused": ("pod/default/too-big", "lifecycle.PodRejected",
                                ("pod default/too-big was refused (OutOfcpu) at "
                                 "2026-11-21T03:00:32.009328Z: the pod does not fit: 900m of cpu "
                                 "requested, 1450m of 1700m in use by 12 pods",),
                                (("kubelet.log", 10650,
                                  "requested: 900, used: 1450, capacity: 1700"),)),
    "why does this cgroup have 256 shares": (f"cgroup/{BURSTABLE}", "cgroups.CgroupUpdated",
                                             (f"cgroup {BURSTABLE} at 2026-11-21T02:54:16Z: ",
                                              "pod default/burstable-1 is Burstable", "256 shares",
                                              "a quota of 40000 us", "335544320 bytes"),
                                             (("snapshots/20261121T025416Z/cgroupfs.txt", 30,
                                               "cpu.shares 256"),)),
}  # fmt: skip
"""Question -> target, kind of the decision, facts of the sentence, lines of evidence."""


def why(nodes: Nodes, target: str, *args: str) -> Any:  # noqa: ANN401 # any JSON value
    return answer("why", target, nodes.ledger("node-a"), *args)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_true_answers(nodes: Nodes, question: str) -> None:
    target, kind, facts, places = QUESTIONS[question]
    found = why(nodes, target)
    assert found["target"] == target
    assert found["finding"]["kind"] == kind
    assert found["finding"]["verdict"] == "match"
    assert found["finding"]["rule"].startswith("pkg/kubelet/")
    for fact in facts:
        assert fact in found["sentence"]
    there = {(piece["file"], piece["line"]): piece["text"] for piece in found["evidence"]}
    for file, line, text in places:
        assert text in there[file, line]


@pytest.mark.parametrize("question", QUESTIONS)
def test_evidence_is_numbered_in_the_order_of_time(nodes: Nodes, question: str) -> None:
    found = why(nodes, QUESTIONS[question][0])
    evidence = found["evidence"]
    assert [piece["number"] for piece in evidence] == list(range(1, len(evidence) + 1))
    assert [p["ts_ns"] for p in evidence] == sorted(p["ts_ns"] for p in evidence)
    seqs = {piece["seq"] for piece in evidence}
    assert set(found["finding"]["inputs"]) | {found["finding"]["seq"]} <= seqs
    assert all(piece["file"] for piece in evidence)


def test_what_is_inferred_says_so(nodes: Nodes) -> None:
    """The log names no preemptor: it is the pod that was admitted then."""
    (preempted,) = (p for p in why(nodes, "pod/default/gpu-a")["evidence"]
                    if p["kind"] == "preemption.PodPreempted")  # fmt: skip
    assert preempted["inferred"] is True
    text = run("why", "pod/default/gpu-a", nodes.ledger("node-a")).stdout
    assert "preempted for kube-system/critical-1 (inferred)" in text
    full = run("why", "pod/default/gpu-a", nodes.ledger("node-a"), "--full").stdout
    assert "preempted for kube-system/critical-1 (inferred)" in full


def test_the_text(nodes: Nodes) -> None:
    """Headline, steps, evidence and verdict within a screen; with --full all there is."""
    found = why(nodes, "pod/default/gpu-a")
    short = run("why", "gpu-a", nodes.ledger("node-a")).stdout
    lines = short.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[:3]).startswith("pod default/gpu-a was preempted for kube-system/criti")
    assert "What happened on 2026-11-21 (UTC, " in short
    assert "Evidence on node-a (" in short
    assert lines[-1].endswith("(PodPreempted): match; --full prints everything")
    full = run("why", "gpu-a", nodes.ledger("node-a"), "--full").stdout.splitlines()
    assert full[0] == found["headline"]
    assert f"In full: {found['sentence']}" in full
    for step in found["steps"]:
        assert any(step["text"] in line for line in full[: full.index("Evidence on node-a:")])
    assert sum(line.startswith("  [") for line in full) == len(found["evidence"])
    assert "Rule:     pkg/kubelet/preemption getPodsToPreempt" in full
    assert "All 19 decisions about pod/default/gpu-a:" in full


def test_steps_in_json(nodes: Nodes) -> None:
    found = why(nodes, "live-fail/app")
    assert found["target"] == "container/default/live-fail/app"
    assert found["pod_uid"].startswith("e87c67ca")
    (kill,) = (step for step in found["steps"] if "killed by its liveness" in step["text"])
    assert kill["count"] == 9
    pieces = {piece["number"]: piece for piece in found["evidence"]}
    assert pieces[kill["evidence"]]["seq"] == kill["seq"]
    assert pieces[kill["evidence"]]["kind"] == "lifecycle.ContainerKilled"


def test_at_a_time(nodes: Nodes) -> None:
    found = why(nodes, "pod/default/gpu-a", "--at", "2026-11-21T02:55:00Z")
    assert found["finding"]["kind"] == "lifecycle.PodAdmitted"
    assert all(step["ts_ns"] <= 1795229700 * 10**9 for step in found["history"])
    early = run(
        "why", "pod/default/gpu-a", nodes.ledger("node-a"), "--at", "2026-11-21T02:53:00Z", exits=2
    )
    assert "no decision is about pod/default/gpu-a" in early.stderr


def test_times_before_now(nodes: Nodes) -> None:
    with freeze_time("2026-11-21T04:55:00Z"):
        ago = why(nodes, "pod/default/gpu-a", "--at", "-2h")
        assert ago == why(nodes, "pod/default/gpu-a", "--at", "2026-11-21T02:55:00Z")
        now = why(nodes, "pod/default/gpu-a", "--at", "now")
    assert now == why(nodes, "pod/default/gpu-a")


def test_a_young_image_is_kept_for_its_age(nodes: Nodes) -> None:
    kept = why(nodes, f"image/{KEPT_YOUNG}")
    assert "it was detected less than 1s before (minimum age 10s)" in kept["sentence"]
    before = why(nodes, f"image/{KEPT_YOUNG}", "--at", "2026-11-21T02:58:00Z")
    assert before["finding"]["kind"] == "images.ImageDeleted"
    deleted = f"image {KEPT_YOUNG} was deleted (13Mi) at 2026-11-21T02:57:42.063018Z"
    assert before["sentence"].startswith(deleted)
    assert f"; earlier, {deleted}" in kept["sentence"]


def test_several_nodes(nodes: Nodes) -> None:
    """A list of answers, and ``--node``."""
    both = (nodes.ledger("node-a"), nodes.ledger("node-b"))
    found = answer("why", "cgroup/kubepods", *both)
    assert [one["node"] for one in found] == ["node-a", "node-b"]
    assert answer("why", "cgroup/kubepods", *both, "--node", "node-b") == found[1]
    text = run("why", "cgroup/kubepods", *both).stdout
    assert "Evidence on node-a" in text
    assert "Evidence on node-b" in text


def test_recordings_answer_as_ledgers_do(nodes: Nodes) -> None:
    target = "container/default/live-fail/app"
    assert answer("why", target, nodes.recording("node-a")) == why(nodes, target)


def test_what_cannot_be_decided_again_says_why(tmp_path: Path) -> None:
    """The decision stands there as recorded, and the missing inputs are named."""
    scene = Scene()
    scene.at(1, PodAdmitted(namespace="default", pod="web\x1b[2J", pod_uid=None))
    scene.save(tmp_path / "a.ledger.jsonl")
    result = run("why", "pod/default/web\x1b[2J", str(tmp_path / "a.ledger.jsonl"), exits=0)
    assert ": unverifiable without " in result.stdout
    full = run("why", "pod/default/web\x1b[2J", str(tmp_path / "a.ledger.jsonl"), "--full")
    assert "not decided again" in full.stdout
    assert "\x1b" not in full.stdout
    assert "\x1b" not in result.stdout
