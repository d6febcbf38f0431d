"""What an import tells of stages agrees with a second reading of the same text."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.replay.episodes.pod_stages import StageEpisode
from tests.ingest import against_raw_text
from tests.ingest.feeding import DATA
from tests.ingest.independent_stages import SyncErrors, sync_errors
from tests.replay.episodes.stages import stage_episodes

OWN = ("kubelet/liveness-1.20.2.log", "kubelet/startup-1.36.2.log")

ERRORS = {
    "image": (r'failed to "StartContainer" for "{c}" with ErrImagePull: "no image \"{c}:{n}\""',
              r'failed to "StartContainer" for "{c}" with ImagePullBackOff: "Back-off pulling '
              r'image \"{c}:1\""',
              r'failed to "StartContainer" for "{c}" with ErrImageNeverPull: "no image \"{c}\""'),
    "create": (r'failed to "StartContainer" for "{c}" with CreateContainerConfigError: "secret '
               r'\"x\" not found"',
               r'failed to "StartContainer" for "{c}" with CreateContainerError: "name is in use '
               r'by {n}"'),
    "start": (r'failed to "StartContainer" for "{c}" with RunContainerError: "no such file"',),
    "hook": (r'failed to "StartContainer" for "{c}" with PostStartHookError: "exited with {n}"',),
    "run": (r'failed to "StartContainer" for "{c}" with CrashLoopBackOff: "back-off 5m0s '
            r'restarting failed container={c} pod={pod}"',),
    "sandbox": (r'failed to "CreatePodSandbox" for "{pod}" with CreatePodSandboxError: "Failed to '
                r'create sandbox for pod \"{pod}\": no address {n}"',
                r'failed to "CreatePodSandbox" for "{pod}" with CreatePodSandboxError: '
                r'"CreatePodSandbox for pod \"{pod}\" failed: no address {n}"'),
    "stop": (r'[failed to "KillContainer" for "{c}" with KillContainerError: "gone", failed to '
             r'"KillPodSandbox" for "{uid}" with KillPodSandboxError: "gone"]',),
    "network": ("network is not ready: container runtime network not ready",),
    "volumes": (
        "unmounted volumes=[{c}], unattached volumes=[x {c}], failed to process volumes=[]: late",
        'Unable to mount volumes for pod "{pod}": timeout: list of unmounted volumes=[{c}]',
    ),
    "resources": ("prepare dynamic resources: ResourceClaim {c}: no driver",),
    "config": ("rpc error: code = Unavailable desc = EOF",),
}  # fmt: skip
"""Stage -> errors of it; ``{n}`` is another number each time."""

WAY = ("config", "network", "volumes", "resources", "sandbox", "image", "create", "start", "stop")
TAIL = "-0000-4000-8000-000000000000"
Wording = Callable[[str, str, str], str]


def structured(error: str, pod: str, uid: str) -> str:
    """Since 1.21."""
    quoted = error.replace("\\", "\\\\").replace('"', '\\"')
    return f'"Error syncing pod, skipping" err="{quoted}" pod="shop/{pod}" podUID="{uid}"'


def free_text(error: str, pod: str, uid: str) -> str:
    """Up to 1.20."""
    return f'Error syncing pod {uid} ("{pod}_shop({uid})"), skipping: {error}'


def told(lines: Iterable[str]) -> Iterator[str]:
    """Lines of a log, a second apart."""
    for second, line in enumerate(lines):
        clock = f"{10 + second // 3600}:{second // 60 % 60:02}:{second % 60:02}"
        yield f"E0303 {clock}.000001    2000 pod_workers.go:190] {line}\n"


def ours(log: Path, tmp_path: Path) -> list[StageEpisode]:
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger, ImportOptions(node="n"))
    return stage_episodes(ledger.records())


def check(found: Iterable[StageEpisode], expected: dict[tuple[str, str], SyncErrors]) -> None:
    """The last stage of each pod, and how often each was tried in vain."""
    last: dict[tuple[str | None, str | None], StageEpisode] = {}
    tries: dict[tuple[str | None, str | None, str], dict[str | None, int]] = defaultdict(dict)
    for each in found:
        pod = each.namespace, each.pod
        if pod not in last or each.last_ts_ns >= last[pod].last_ts_ns:
            last[pod] = each
        of_stage = tries[*pod, each.stage]
        of_stage[each.container] = of_stage.get(each.container, 0) + each.attempts
    assert expected
    assert {pod: last[pod].stage for pod in expected} == {
        pod: errors.last for pod, errors in expected.items()
    }
    for pod, errors in expected.items():
        for stage, count in errors.tries.items():
            assert max(tries[*pod, stage].values()) == max(count, 1), (pod, stage)


@pytest.mark.parametrize("wording", [structured, free_text])
def test_sync_errors_of_all_stages(wording: Wording, tmp_path: Path) -> None:
    """Pods in each stage, tried three times; and one that goes the whole way."""
    lines, kinds = [], [(stage, each) for stage, errors in ERRORS.items() for each in errors]
    way = [next(each for s, each in kinds if s == stage) for stage in WAY]
    for number, (_, error) in enumerate(kinds):
        uid = f"{number:08x}{TAIL}"
        lines += [_said(wording, error, f"pod-{number}", uid, n) for n in range(3)]
    lines += [_said(wording, each, "way", f"ffffffff{TAIL}", 7) for each in way]
    log = tmp_path / "kubelet.log"
    log.write_text("".join(told(lines)))
    expected = sync_errors(lines)
    assert expected["shop", "way"].tries.keys() == set(WAY)
    assert len(expected) == len(kinds) + 1
    check(ours(log, tmp_path), expected)


def _said(wording: Wording, error: str, pod: str, uid: str, number: int) -> str:
    full = f"{pod}_shop({uid})"
    text = error.replace("{c}", "c").replace("{pod}", full).replace("{uid}", uid)
    return wording(text.replace("{n}", str(4000 + number)), pod, uid)


@pytest.mark.parametrize("name", OWN)
def test_recorded_logs(name: str, tmp_path: Path) -> None:
    log = DATA / name
    expected = sync_errors(log.read_text().splitlines())
    stages = {pod: errors.last for pod, errors in expected.items()}
    assert set(stages.values()) == {"run"}
    found = ours(log, tmp_path)
    assert stages == {(e.namespace, e.pod): e.stage for e in found if e.stage == "run"}


def test_a_corpus_is_held_against_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod's last stage, a change of Ready, and silence about errors; what differs is said."""
    network = ERRORS["network"][0]
    turn = 'Recording event message for node" node="n" event="NodeNotReady"'
    logs = {
        "told": [structured(network, "web", f"0{TAIL[1:]}"), f'"{turn}'],
        "quiet": ['"SyncLoop ADD" source="api" pods=["shop/web"]'],
    }
    for name, lines in logs.items():
        (tmp_path / name).mkdir()
        text = "".join(told(lines))
        (tmp_path / name / "kubelet.log").write_text(text if name == "told" else f"I{text[1:]}")
    assert against_raw_text.main([str(tmp_path)]) == 0
    counted = "{'bundles': 2, 'changes of Ready': 1, 'quiet nodes': 1, 'pods': 1} 0 differences"
    assert counted in capsys.readouterr().out
    monkeypatch.setattr(against_raw_text, "stage_episodes", lambda records: [])
    monkeypatch.setattr(against_raw_text, "ready_changes", lambda lines: [])
    monkeypatch.setattr(against_raw_text, "_PROBLEM", re.compile("SyncLoop"))
    assert against_raw_text.main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "told: shop/web ends in network, not known" in said
    assert "told: Ready changes [], not [False]" in said
    assert "quiet: 1 errors are untold" in said
