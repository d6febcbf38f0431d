"""Lines that a terminal or a pager cut: what they still show is told."""

from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.node import ErrorsLogged, KubeletExited, PodStageFailed
from kubeledger.model.record import Body

UID = "ca0d5836-1435-497e-9a41-547fbcc10484"
SYNC = (
    r'E1121 03:00:01.000001    7 pod_workers.go:1294] "Error syncing pod, skipping" err="failed to '
)
START = SYNC + r"\"StartContainer\" for \"app\" with "
BOX = SYNC + rf"\"CreatePodSandbox\" for \"web_shop({UID})\" with CreatePodSandboxError: \"no net"
BACK_OFF = rf"\"back-off 5m0s restarting failed container=app pod=web_shop({UID})\""
OLD_SYNC = (
    f'E1121 03:00:01.000001    7 pod_workers.go:191] Error syncing pod {UID} ("web_shop({UID})"), '
    'skipping: failed to "StartContainer" for "app" with '
)
OLD_MOUNT = (
    "E1121 03:00:01.000001    7 nestedpendingoperations.go:301] Operation for "
    '"{volumeName:x podName: nodeName:}" failed. No retries permitted until 2026-11-21 03:01:01 '
    '+0000 UTC m=+1 (durationBeforeRetry 1m0s). Error: "MountVolume.MountDevice failed for volume '
    rf"\"data\" (UniqueName: \"x\") pod \"web\" (UID: \"{UID}\") : the driver is not the"
)
REFUSED = 'I1121 03:00:01.000001    7 predicate.go:143] "Predicate failed on Pod" pod="'


def told(directory: Path, line: str) -> list[Body]:
    """Of a log that ends with the line, which nothing ends."""
    log = directory / "kubelet.log"
    log.write_text(
        f'I1121 03:00:00.000001    7 kubelet.go:1] "Starting kubelet main sync loop"\n{line}\n'
    )
    ledger = Ledger.create(directory / "ledger")
    import_sources([str(log)], ledger)
    return [record.body for record in ledger.records()]


@pytest.mark.parametrize(
    ("line", "pod", "stage", "reason"),
    [
        (BOX, ("shop", "web", UID), "sandbox", "CreatePodSandboxError"),
        (f'{START}CrashLoopBackOff: {BACK_OFF}" pod="sho', ("shop", "web", UID), "run", "Crash"),
        (f"{START}CrashLoopBackOff: {BACK_OFF[:-10]}", (None, None, None), "", ""),
        (rf"{START}ErrImagePull: \"rpc error: code = Not", (None, None, None), "", ""),
        (rf'{START}ErrImagePull: \"gone\"" pod="shop/web" podUID="ca', ("shop", "web", None),
         "image", "Err"),
        (f"{REFUSED}web-1_sho", (None, "web-1", None), "admission", "Predicate failed"),
        (f'{OLD_SYNC}ErrImagePull: "rpc error: code = Unk', ("shop", "web", UID), "image", "Err"),
        (OLD_MOUNT, (None, "web", UID), "volumes", "FailedMount"),
        (f"{REFUSED}web-1", (None, None, None), "", ""),
        (f"{REFUSED}shop/web-1", (None, None, None), "", ""),
    ],
)  # fmt: skip
def test_what_names_its_pod_is_told(
    tmp_path: Path, line: str, pod: tuple[str | None, ...], stage: str, reason: str
) -> None:
    """By the name that is whole; what does not is counted as a line that is not understood."""
    bodies = told(tmp_path, line)
    found = [body for body in bodies if isinstance(body, PodStageFailed)]
    names = [(each.namespace, each.pod, each.pod_uid) for each in found]
    assert names == ([pod] if stage else [])
    assert all(each.stage == stage and each.reason.startswith(reason) for each in found)
    assert any(body.kind == "ledger.LinesNotUnderstood" for body in bodies) == (not stage)
    errors = [body.recorded for body in bodies if isinstance(body, ErrorsLogged)]
    assert errors == ([bool(stage)] if line.startswith("E") else [])


def test_a_kubelet_that_gives_up_says_why_as_far_as_it_goes(tmp_path: Path) -> None:
    """Its end is an end, and not one without a word."""
    line = 'server.go:294] "Failed to run kubelet" err="failed to run Kubelet: no reserved CPU re'
    bodies = told(tmp_path, f"E1121 03:00:01.000001    7 {line}")
    (found,) = [body for body in bodies if isinstance(body, KubeletExited)]
    assert (found.pid, found.reason) == (7, "error")
    assert found.message == "Failed to run kubelet: failed to run Kubelet: no reserved CPU re…"
