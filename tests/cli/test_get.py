"""``get``: kubectl's columns over the state, and its habits."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubeledger.cli.get_rows import human_duration
from kubeledger.kubelet.lifecycle.printing import CREATING, PrintedPod, print_pod
from kubeledger.kubelet.lifecycle.state import ContainerState, PodState
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodListed,
)
from kubeledger.model.bodies.node import KubeletStarted, PodStageFailed
from tests.analyze.sql.fixture_ledger import START_NS, Story, of, write_ledger
from tests.cli.conftest import Run
from tests.cli.nodes import run

PODS = """\
NAMESPACE  NAME   READY      STATUS            RESTARTS
default    big    <unknown>  OutOfcpu          <unknown>
default    brief  0/1        Terminating       0
default    serve  <unknown>  Pending           <unknown>
default    slow   0/1        ImagePullBackOff  0
default    train  <unknown>  Pending           <unknown>
default    web    1/1        Running           1
"""


def test_pods_as_kubectl_lists_them(ask: Run) -> None:
    """Every namespace, by name; ages up to the last record, or the time asked for."""
    listed = ask("get", "pods").stdout
    assert listed == ask("get", "po", "-A", "-n", "x").stdout
    head, _, *rows = (line.split() for line in listed.splitlines())
    assert [head[:-1], *(row[:-1] for row in rows)] == [line.split() for line in PODS.splitlines()]
    assert all(re.fullmatch(r"\d+s", row[-1]) for row in rows)
    later = ask("get", "pods/web", "--at", "2026-11-21T03:05").stdout.split()
    assert later[-6:] == ["default", "web", "1/1", "Running", "1", "4m44s"]
    assert ask("get", "pods", "--at", "+0").stderr.startswith("No pod is known: ")


def test_each_resource(ask: Run) -> None:
    """Who holds a device, whether an image is used, what a probe says."""
    at = ("--at", "2026-11-21T03:01")
    rows = {
        name: ask("get", name, *at).stdout.splitlines() for name in ("devices", "images", "probes")
    }
    assert rows["devices"][2].split() == [
        "example.com/gpu", "gpu-2", "<unknown>", "default", "serve", "main", "52s",
    ]  # fmt: skip
    assert rows["images"][2].split() == ["aa", "500B", "true", "59s", "ago", "29s"]
    assert rows["probes"][2].split()[:6] == [
        "default", "web", "app", "liveness", "success", "failure",
    ]  # fmt: skip
    wide = ask("get", "images", "aa", "-o", "wide").stdout
    assert wide.split()[-2:] == ["<unknown>", "sha256:aa"]


def test_images_that_no_line_lists(ask: Run) -> None:
    """Before the first list of images it is not known what there was, which is not none."""
    asked = ask("get", "images", "--at", "+0")
    assert (asked.exit_code, asked.stdout) == (0, "")
    assert asked.stderr.startswith("No image list is known: ")


def test_objects(ask: Run) -> None:
    """One that is named stands alone, several are a List; YAML and JSON hold the same."""
    alone = json.loads(ask("get", "pod", "web", "-o", "json").stdout)
    assert (alone["name"], alone["status"], alone["ready"]) == ("web", "Running", "1/1")
    assert alone["containers"]["app"]["running"]
    listed = yaml.safe_load(ask("get", "pods", "-o", "yaml").stdout)
    assert listed == json.loads(ask("get", "pods", "-o", "json").stdout)
    assert listed["kind"] == "List"
    assert alone in listed["items"]


def test_what_is_not_there(ask: Run) -> None:
    """An unknown name is an error that names others; an empty list is none."""
    missing = ask("get", "pods", "nope", exits=2)
    assert missing.stderr.splitlines()[0] == "error: pods 'nope' not found"
    assert "web" in missing.stderr
    nothing = ask("get", "pods", "-n", "other", exits=0)
    assert nothing.stderr == "No resources found in other namespace.\n"
    assert ask("get", "nodes").exit_code == 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (150, "2m30s"), (600, "10m"), (10799, "179m"),
     (10800, "3h"), (12000, "3h20m"), (28800, "8h"), (172800, "2d"), (180000, "2d2h"),
     (691200, "8d")],
)  # fmt: skip
def test_ages(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def _container(**fields: object) -> ContainerState:
    return ContainerState(**{"container_id": "c", "init": False, **fields})  # type: ignore[arg-type] # by name


@pytest.mark.parametrize(
    ("status", "containers", "fields"),
    [
        ("Running", [_container(running=True)], {}),
        ("ContainerCreating", [ContainerState(init=False)], {"phase": "Pending"}),
        ("CrashLoopBackOff", [_container(exit_code=1, back_off_s=20)], {}),
        ("Error", [_container(exit_code=2)], {}),
        ("OOMKilled", [_container(exit_code=137, oom_killed_ts_ns=5, started_ts_ns=4)], {}),
        ("Error", [_container(exit_code=137, oom_killed_ts_ns=3, started_ts_ns=4)], {}),
        ("Completed", [_container(exit_code=0)], {"phase": "Succeeded"}),
        ("NotReady", [_container(exit_code=0), _container(running=True)], {}),
        ("Terminating", [_container(running=True)], {"deleting": True}),
        ("Evicted", [_container(exit_code=137)], {"reason": "Evicted", "phase": "Failed"}),
        ("Init:0/1", [_container(init=True, running=True), ContainerState(init=False)],
         {"phase": "Pending"}),
        ("Init:CrashLoopBackOff", [_container(init=True, exit_code=1, back_off_s=10),
                                   ContainerState(init=False)], {"phase": "Pending"}),
        ("PodInitializing", [_container(init=True, exit_code=0), ContainerState(init=False)],
         {"phase": "Pending"}),
    ],
)  # fmt: skip
def test_status(status: str, containers: list[ContainerState], fields: dict[str, object]) -> None:
    named = {f"c{number}": container for number, container in enumerate(containers)}
    shown: dict[str, object] = {"phase": "Running", **fields}
    pod = PodState(namespace="d", name="p", uid="u", since_ts_ns=0, containers=named, **shown)  # type: ignore[arg-type] # by name
    assert print_pod(pod, {}, named, ()).status == status


@pytest.mark.parametrize(
    ("printed", "containers", "waiting", "fields"),
    [
        (PrintedPod(0, 1, "ImagePullBackOff", 0), {"app": ContainerState(init=False)},
         {"app": "ImagePullBackOff"}, {}),
        (PrintedPod(0, 1, "ErrImagePull", 0), {"app": ContainerState()},
         {None: "ErrImagePull"}, {}),
        (PrintedPod(0, 0, CREATING, 0), {}, {None: CREATING}, {"phase": None}),
        (PrintedPod(0, 1, "Error", 0), {"app": _container(exit_code=1)}, {None: CREATING}, {}),
        # Of several the first by name has the last word; a container that runs has none.
        (PrintedPod(1, 3, "CreateContainerConfigError", 2),
         {"c": _container(running=True, restart_count=2), "b": ContainerState(init=False),
          "a": ContainerState(init=False)},
         {"a": "CreateContainerConfigError", "b": "ErrImagePull", "c": "CrashLoopBackOff"}, {}),
        (PrintedPod(0, 1, "Init:ErrImagePull", 0),
         {"i": ContainerState(init=True), "app": ContainerState(init=False)},
         {"i": "ErrImagePull"}, {}),
        (PrintedPod(0, 1, "Init:1/2", 3),
         {"i": _container(init=True, exit_code=0, restart_count=3),
          "j": _container(init=True, running=True), "app": ContainerState(init=False)}, {}, {}),
        # A sidecar counts, and the pod goes on without its end.
        (PrintedPod(1, 2, "PodInitializing", 1),
         {"s": _container(init=True, running=True, restart_count=1),
          "app": ContainerState(init=False)}, {}, {}),
        (PrintedPod(0, 1, "OutOfcpu", 0), {"app": ContainerState(init=False)},
         {}, {"phase": "Failed", "reason": "OutOfcpu", "admitted": False}),
        (PrintedPod(0, 1, "Error", 0), {"a": _container(exit_code=0), "b": _container(exit_code=2)},
         {}, {"phase": "Failed"}),
    ],
)  # fmt: skip
def test_print_pod(
    printed: PrintedPod,
    containers: dict[str, ContainerState],
    waiting: dict[str | None, str],
    fields: dict[str, object],
) -> None:
    shown: dict[str, object] = {"phase": "Pending", **fields}
    pod = PodState(namespace="d", name="p", uid="u", since_ts_ns=0, containers=containers, **shown)  # type: ignore[arg-type] # by name
    total = max(printed.total, len(containers))
    found = print_pod(pod, waiting, ("c", "s"), ("s",))
    assert found._replace(total=printed.total) == printed
    assert found.total <= total


def test_waiting_pods_and_their_ages(tmp_path: Path) -> None:
    """What the newest record says of each; a pod of which only an error is known; no new ages."""
    story = Story("node-a")
    story.add(PodAdmitted(**of("old")))
    started = ContainerStarted(**of("old", "app"), container_id="c", sandbox=False)
    story.add(started)
    failed = PodStageFailed(
        **of("web", "app"), stage="image", reason="ErrImagePull", message="not found",
        first_ts_ns=START_NS, last_ts_ns=START_NS,
    )  # fmt: skip
    story.add(failed)
    back_off = KubernetesEvent(
        **of("web", "app"), object_kind="Pod", type="Warning", reason="BackOff",
        message='Back-off pulling image "reg/web:1"',
    )  # fmt: skip
    story.add(back_off)
    story.add(
        PodListed(
            **of("listed"), spec={"containers": [{"name": "app"}]}, listed_by="kubelet",
            created_ts_ns=START_NS - 7200 * 10**9,
            status={"phase": "Pending", "containerStatuses": [
                {"name": "app", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}]},
        )
    )  # fmt: skip
    story.add(
        PodStageFailed(
            **of("mount"), stage="volumes", reason="FailedMount", message="timed out",
            first_ts_ns=START_NS, last_ts_ns=START_NS,
        )
    )  # fmt: skip
    for pid in (8, 9, 10):  # "old" is not spoken of, goes, and comes back
        story.add(KubeletStarted(pid=pid, kubelet_version="1.36.2", version_source="log"))
        later_ns = START_NS + len(story.records) * 10**9
        story.add(msgspec.structs.replace(failed, last_ts_ns=later_ns))
        story.add(
            msgspec.structs.replace(failed, **of("mount"), stage="volumes", reason="FailedMount")
        )
    story.add(PodAdmitted(**of("old")))
    story.add(started)
    story.add(ContainerDied(**of("old", "app"), container_id="c", sandbox=False, exit_code=3))
    ledger = write_ledger(tmp_path, story.records)

    def rows(*arguments: str) -> dict[str, list[str]]:
        asked = ["get", "pods", "--ledger", str(ledger), *arguments]
        lines = run(*asked).stdout.splitlines()[2:]
        return {line.split()[1]: line.split()[2:] for line in lines}

    now = rows()
    assert now["web"][:2] == ["0/1", "ErrImagePull"]
    assert now["mount"][:2] == ["0/1", "ContainerCreating"]
    assert now["old"] == ["0/1", "Error", "0", "17s"]
    before = rows("--at", "2026-11-21T03:00:05.5")
    assert before["web"][:2] == ["0/1", "ImagePullBackOff"]
    assert before["listed"] == ["0/1", "CreateContainerConfigError", "0", "120m"]


@pytest.mark.parametrize(
    ("printed", "containers", "ends", "fields"),
    [
        (PrintedPod(0, 1, "OOMKilled", 0), {"app": _container(exit_code=137)}, "OOMKilled", {}),
        (PrintedPod(0, 1, "ContainerStatusUnknown", 0), {"app": _container(exit_code=137)},
         "ContainerStatusUnknown", {"phase": "Failed", "reason": "Evicted"}),
        (PrintedPod(1, 2, "Init:1/2", 0),
         {"a": _container(init=True, running=True, container_id="a"),
          "s": _container(init=True, running=True), "app": ContainerState(init=False)}, "", {}),
    ],
)  # fmt: skip
def test_what_a_status_shows(
    printed: PrintedPod,
    containers: dict[str, ContainerState],
    ends: str,
    fields: dict[str, object],
) -> None:
    """The reason of an end, also where the pod has one; in which order init containers run."""
    shown: dict[str, object] = {"phase": "Pending", **fields}
    pod = PodState(namespace="d", name="p", uid="u", since_ts_ns=0, containers=containers, **shown)  # type: ignore[arg-type] # by name
    assert print_pod(pod, {}, "s", "s", order=("s", "a"), ends={"c": ends}) == printed


@pytest.mark.parametrize(
    ("row", "listed"),
    [
        (["0/1", "Terminating"], {"status": {"phase": "Running"}}),
        (["0/1", "Unknown"], {"status": {"phase": "Running", "reason": "NodeLost"}}),
        # One whose containers have ended is printed as it ended, but for a node that is lost.
        (["0/1", "Evicted"], {"status": {"phase": "Failed", "reason": "Evicted"}}),
        (["0/1", "Unknown"], {"status": {"phase": "Failed", "reason": "NodeLost"}}),
        (["0/0", "Pending", "0"],
         {"status": {"phase": "Pending"}, "spec": {"containers": []}, "deletion_ts_ns": None}),
    ],
)  # fmt: skip
def test_what_metadata_shows(tmp_path: Path, row: list[str], listed: dict[str, Any]) -> None:
    """A pod that is deleted, as its ``deletionTimestamp`` shows; one without containers."""
    story = Story("node-a")
    shown = {"spec": {"containers": [{"name": "app"}]}, "deletion_ts_ns": START_NS, **listed}
    story.add(PodListed(**of("web"), listed_by="kubelet", **shown))
    ledger = write_ledger(tmp_path, story.records)
    found = run("get", "pods", "--ledger", str(ledger)).stdout.splitlines()[2].split()
    assert found[2 : 2 + len(row)] == row
