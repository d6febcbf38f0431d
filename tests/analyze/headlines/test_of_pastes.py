"""What is said of a few lines that somebody copied: no more than stands in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kubeledger
from kubeledger.analyze.headlines import in_a_sentence, incidents
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.problems.told import told_by
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from tests.ingest.node_files import pod

J = "Nov 21 10:00:0{0} node-a kubelet[7]: {1}1121 10:00:0{0}.000001       7 {2}"
NEVER = (
    "PLEG is not healthy: pleg was last seen active 2562047h47m16.854775807s ago; threshold is 3m0s"
)
ASKED = "container runtime status check may not have completed yet"
ONCE = "Image garbage collection failed once. Stats initialization may not have completed yet"
AGAIN = "Image garbage collection failed multiple times in a row"
NO_STATS = "failed to get imageFs info: unable to find data in memory cache"
SHUTDOWN = (
    'nodeshutdown_manager_linux.go:1] "Shutdown manager detected new shutdown event, '
    'isNodeShuttingDownNow" event=true'
)
DONE = (
    'nodeshutdown_manager_linux.go:1] "Shutdown manager completed processing shutdown event, '
    'node will shutdown shortly"'
)
UID = "0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe"
SYNC = f'pod_workers.go:1] Error syncing pod {UID} ("web_default({UID})"), skipping: '
PULL = 'failed to "StartContainer"{0}for{0}"c" with ErrImagePull: "not found"'
CONDITION = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:no CNI plugin is there"
)
STATUS = (
    "Runtime Conditions: RuntimeReady=true reason: message:, NetworkReady=false "
    "reason:NetworkPluginNotReady message:no CNI plugin is there"
)
TOLD = "default/web has not started: its image cannot be pulled (ErrImagePull: not found)"


def _said(directory: Path, text: str) -> tuple[str, str, list[str]]:
    """The node's name, what its import says, and the texts of what went wrong."""
    (directory / "paste.log").write_text(text)
    ledger = Ledger.create(directory / "ledger")
    (bundle,) = import_sources([str(directory / "paste.log")], ledger).bundles
    (history,) = histories_of_ledger(ledger)
    found = incidents(told_by(history))
    return (
        bundle.node,
        in_a_sentence(found),
        [each.text for each in found if each.severity and each.kind != "finding"],
    )


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        # A kubelet that has just started has not asked its runtime, nor any statistics.
        ([J.format(1, "I", f"kubelet.go:1] skipping pod synchronization - [{NEVER}]")],
         []),
        ([J.format(1, "E", f'kubelet.go:1] "Skipping pod synchronization" err="{ASKED}"')], []),
        ([J.format(1, "E", f'kubelet.go:1] "{ONCE}" err="{NO_STATS}"')], []),
        ([J.format(1, "E", f'kubelet.go:1] "{ONCE}" err="{NO_STATS}"'),
          J.format(2, "E", f'kubelet.go:1] "{AGAIN}" err="{NO_STATS}"')],
         ["image GC failed 2×: failed to get imageFs info: unable to find data in memory cache"]),
        ([J.format(1, "I", SHUTDOWN)], ["the node was told to shut down"]),
        ([J.format(1, "I", SHUTDOWN), J.format(2, "I", DONE)], ["the node was shut down"]),
        # What is left of a line that was cut says no more than its headline.
        ([J.format(1, "I", "kubelet.go:1] skipping pod synchronization - PLEG is not healthy")],
         ["PLEG is not healthy"]),
        # A page of the web has eaten the blanks.
        ([J.format(1, "E", SYNC + PULL.format(" "))], [TOLD]),
        ([J.format(1, "E", SYNC + PULL.format(""))], [TOLD]),
        # What the runtime says of its condition is the cause, not the condition's name.
        ([J.format(1, "E", f"{SYNC}network is not ready: {CONDITION}")],
         ["default/web has not started: the node's network is not ready (NetworkNotReady: no CNI "
          "plugin is there)"]),
        ([J.format(1, "I", f'kubelet.go:1] "Container runtime status" status="{STATUS}"')],
         ["the node's network is not ready: no CNI plugin is there"]),
    ],
)  # fmt: skip
def test_no_more_is_said(tmp_path: Path, lines: list[str], texts: list[str]) -> None:
    """Of each a few lines of one node."""
    assert _said(tmp_path, "\n".join(lines) + "\n")[2] == texts


def test_what_stands_around_a_paste_is_no_line_of_the_kubelet(tmp_path: Path) -> None:
    """Fences, prompts, and what ``journalctl -x`` explains; the first line may lack its carrier."""
    line = J.format(1, "I", "server.go:1] Started kubelet")
    around = (
        "<details>",
        "```console",
        "$ sudo journalctl -xeu kubelet",
        line.partition(": ")[2],
        "-- Subject: Unit kubelet.service has finished start-up",
        "--",
        "░░ The job identifier is 7.",
        "● kubelet.service - kubelet: The Kubernetes Node Agent",
        "     Loaded: loaded (/lib/systemd/system/kubelet.service; enabled; preset: enabled)",
        "    Drop-In: /etc/systemd/system/kubelet.service.d",
        "             └─10-kubeadm.conf",
        "     Active: active (running) since Sat 2026-11-21 10:00:00 UTC; 13min ago",
        "       Docs: https://kubernetes.io/docs/",
        "    Process: 7 ExecStartPre=/sbin/modprobe overlay (code=exited, status=0/SUCCESS)",
        "   Main PID: 7 (kubelet)",
        "     Memory: 167.8M (peak: 169.5M)",
        "     CGroup: /system.slice/kubelet.service",
        "             ├─7 /usr/bin/kubelet --config=/var/lib/kubelet/config.yaml",
        "[root@node-a ~]# journalctl -u kubelet",
        "user@node-a:~$ date",
        line.replace("0:01", "0:02"),
        "```",
        "</details>",
    )
    node, sentence, _ = _said(tmp_path, "\n".join(around) + "\n")
    assert (node, sentence) == ("node-a", "nothing that went wrong was recorded")


@pytest.mark.parametrize("program", ["kubelet", "kubelite"])
def test_a_program_before_a_line_is_no_node(tmp_path: Path, program: str) -> None:
    """A table of a log viewer: the time, a dash, the program."""
    entry = J.format(1, "I", "kubelet.go:1] Starting kubelet main sync loop").partition(": ")[2]
    text = f"2026-11-21T10:00:01.034032Z - {program} {entry}\n"
    assert _said(tmp_path, text)[0] != program


def test_a_kill_of_which_the_end_is_missing_is_told(tmp_path: Path) -> None:
    """An old kernel's report, from whose limit it was to the head of its table."""
    pod = "/kubepods/burstable/pod0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe"
    head = "Nov 21 10:00:02 node-a kernel: "
    lines = (
        f"Task in {pod}/c1 killed as a result of limit of {pod}/c1",
        "memory: usage 1048576kB, limit 1048576kB, failcnt 189",
        "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
    )
    _, sentence, texts = _said(tmp_path, "".join(f"{head}{line}\n" for line in lines))
    assert sentence == "1 shortage of memory"
    assert texts[0] == (
        "pod 0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe was out of memory; whom the kernel killed is not "
        "recorded"
    )


@pytest.mark.parametrize("is_above", [False, True])
def test_the_runtime_in_the_same_journal_shows_the_zone(tmp_path: Path, is_above: bool) -> None:
    """A kubelet's lines have none, and those of cri-o and containerd do."""
    entry = J.format(1, "E", "kubelet.go:1] Container garbage collection failed: no")
    crio = 'Nov 21 10:00:01 node-a crio: time="2026-11-21 10:00:01.12+08:00" level=info msg="x"'
    (tmp_path / "paste.log").write_text(
        "\n".join((crio, entry, "") if is_above else (entry, crio, ""))
    )
    ledger = Ledger.create(tmp_path / "ledger")
    (bundle,) = import_sources([str(tmp_path / "paste.log")], ledger).bundles
    (logged,) = (r for r in ledger.records(bundle.node) if r.body.kind == "node.ErrorsLogged")
    assert logged.ts_ns == 1_795_226_401_000_001_000


def test_what_systemd_says_is_of_its_own_time(tmp_path: Path) -> None:
    """Not of the kubelet's last words, which may be half a minute older."""
    lines = (
        J.format(1, "I", "server.go:1] Started kubelet"),
        "Nov 21 10:00:25 node-a systemd[1]: Stopping kubelet: The Kubernetes Node Agent...",
    )
    (tmp_path / "paste.log").write_text("".join(f"{line}\n" for line in lines))
    ledger = Ledger.create(tmp_path / "ledger")
    (bundle,) = import_sources([str(tmp_path / "paste.log")], ledger).bundles
    (ended,) = (r for r in ledger.records(bundle.node) if r.body.kind == "node.KubeletExited")
    assert ended.ts_ns // 10**9 % 60 == 25


def test_a_list_with_a_pod_that_failed_says_so(tmp_path: Path) -> None:
    """A job's: nothing but its status shows it."""
    failed = pod("job")
    failed["status"] = {
        "phase": "Failed",
        "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 42}}}],
    }
    _, sentence, texts = _said(tmp_path, json.dumps({"kind": "PodList", "items": [pod(), failed]}))
    assert (sentence, texts) == ("1 failed pod", ["default/job failed (exit code 42)"])
    with kubeledger.open(tmp_path / "ledger") as ledger:
        assert "as failed (exit code 42)" in str(ledger.why("pod/default/job"))


def test_and_one_with_a_pod_that_the_kubelet_ended_for_its_own_reason(tmp_path: Path) -> None:
    """Its deadline is over: no decision about the node tells that."""
    late = pod("job")
    late["status"] = {"phase": "Failed", "reason": "DeadlineExceeded", "message": "Too long"}
    _, sentence, texts = _said(tmp_path, json.dumps({"kind": "PodList", "items": [pod(), late]}))
    assert sentence == "1 failed pod"
    assert texts == ["default/job failed (DeadlineExceeded): Too long"]
