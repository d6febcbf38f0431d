"""Names that would take over a terminal or a page: no command shows them as they are."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.nodes import run
from tests.ingest.node_files import log_text, pod

EVIL = "web\x1b[2J\x1b]0;owned\x07\u202egnp\u2066.exe\x9b31m\r\b<script>alert(1)</script>"
UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node whose pods, images, devices and cgroups bear such names."""
    root = tmp_path_factory.mktemp("evil")
    node = root / "node-x"
    node.mkdir()
    quoted = json.dumps(f"default/{EVIL}")
    uid = pod()["metadata"]["uid"]
    lines = [
        f'"Probe failed" probeType="Liveness" pod={quoted} podUID="{uid}" '
        f'containerName={json.dumps(EVIL)} probeResult="failure" output={json.dumps(EVIL)}',
        f'"Removing image to free bytes" imageID={json.dumps(EVIL)} size=7',
        f'"Never heard of this" x={json.dumps(EVIL)}',
        f'"SyncLoop (PLEG): event for pod" pod={quoted} event={{"ID":"{uid}",'
        f'"Type":"ContainerStarted","Data":{json.dumps(EVIL)}}}',
    ]
    log = log_text(seconds=3) + "".join(
        f"I1121 03:01:1{n}.000000    8337 {caller}] {line}\n"
        for n, (caller, line) in enumerate(
            zip(("prober.go:113", "image_gc_manager.go:565", "x.go:1", "kubelet.go:2450"), lines,
                strict=True)
        )
    )  # fmt: skip
    (node / "kubelet.log").write_text(log + f"{EVIL}\n")
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod(EVIL)]}
    (node / "pods.json").write_text(json.dumps(listed))
    (node / f"{EVIL.replace('/', '')}.txt").write_text("x")
    result = run(
        "import", node, "--ledger", root / "l", "--node", "node-x", "--year", "2026", exits=0
    )
    _is_safe(result.stdout + result.stderr)
    return root / "l"


def _is_safe(text: str) -> None:
    found = UNSAFE.search(text)
    assert found is None, repr(text[max(0, found.start() - 60) : found.end() + 20])


@pytest.mark.parametrize(
    "command",
    [
        ["ls"],
        ["ls", "--pod", EVIL],
        ["show", "{seq}"],
        ["state"],
        ["sql", "SELECT * FROM events"],
        ["sql", "SELECT * FROM probe_ticks"],
        ["sql", "SELECT * FROM evidence"],
        ["sql", "SELECT * FROM not_understood"],
        ["sql", f'SELECT nothing AS "{EVIL}" FROM events'],
        ["verify", "--all"],
        ["why", f"pod/default/{EVIL}"],
        ["why", f"image/{EVIL}"],
        ["whatif", "--set", "imageGCHighThresholdPercent=10"],
        ["whatif", "--set", f"{EVIL}=1"],
        ["completeness"],
        ["audit"],
        ["export", "--format", EVIL],
        ["ls", "--node", EVIL],
        ["ls", "--since", EVIL],
        ["ls", "--ledger", EVIL],
    ],
    ids=lambda words: re.sub(r"\W+", "-", " ".join(words))[:40],
)
def test_nothing_acts_on_the_terminal(ledger: Path, command: list[str]) -> None:
    """Tables and messages hold text that can be printed, whatever was logged."""
    listed = run("ls", "--ledger", ledger, "-o", "jsonl").stdout
    rows = [json.loads(line) for line in listed.splitlines()]
    seqs = [row["seq"] for row in rows if "Probe" in row["kind"]] or [1]
    words = [word.replace("{seq}", str(seqs[-1])) for word in command]
    given = [] if "--ledger" in words else ["--ledger", str(ledger)]
    result = run(*words, *given)
    assert result.exit_code in (0, 1, 2, 3, 4), result.output
    _is_safe(result.stdout)
    _is_safe(result.stderr)


def test_a_scenario_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps({"kubeletVersion": EVIL, EVIL: 1}))
    result = run("simulate", path, "--check", exits=3)
    _is_safe(result.stdout + result.stderr)


def test_a_case_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"id": EVIL, "kubelet": EVIL, "input": {EVIL: 1}}) + "\n")
    for words in (["decide", "qos"], ["judge", "qos"], ["decide", "qos", "--keep-going"]):
        result = run(*words, path)
        _is_safe(result.stderr)
