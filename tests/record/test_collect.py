"""``collect.sh`` on a made node, and what becomes of its archive."""

import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.record.collecting import Request, script_of
from tests.ingest.layouts import Slice, iso_precise, journal, plain, slices, write
from tests.ingest.test_layouts import runtime_answers, told
from tests.tools import tool

NODE = "node-e"
SECRETS = (
    "BEGIN PRIVATE KEY",
    "client-certificate-data",
    "s3cr3t-of-a-pod",
    "Bearer of-a-manifest",
)
STATE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
CONFIGZ = '{"kubeletconfig":{"kind":"KubeletConfiguration","maxPods":40}}'


def node_slice() -> Slice:
    return slices()[NODE]


def make_root(root: Path) -> None:
    """The files of a node: those that are taken, and beside them those that never are."""
    kubelet = root / "var" / "lib" / "kubelet"
    write(kubelet / "cpu_manager_state", STATE)
    write(kubelet / "config.yaml", "kind: KubeletConfiguration\nmaxPods: 40\n")
    write(kubelet / "pki" / "kubelet-client-current.pem", SECRETS[0])
    write(kubelet / "kubeconfig", SECRETS[1])
    write(kubelet / "pods" / "0adae995" / "volumes" / "kubernetes.io~secret" / "x", SECRETS[2])
    write(root / "etc" / "kubernetes" / "kubelet.conf", SECRETS[1])
    pod = root / "sys" / "fs" / "cgroup" / "kubepods" / "burstable" / "pod0adae995"
    write(root / "sys" / "fs" / "cgroup" / "cgroup.controllers", "cpu memory pids\n")
    write(pod / "cpu.max", "max 100000\n")
    write(pod / "cpu.weight", "1\n")
    write(pod / "memory.current", "4096\n")


def make_programs(directory: Path) -> None:
    """Stand-ins of the programs that a node and a cluster answer with."""
    node, answers = node_slice(), runtime_answers(node_slice())
    data = directory / "data"
    write(data / "journal", plain(journal(node, iso_precise)))
    write(data / "kernel", node.documents["kernel.log"])
    for name in ("images", "ps", "pods"):
        write(data / f"crictl-{name}", json.dumps(answers[name]))
    write(data / "node", node.documents["node.json"])
    write(data / "proxy-pods", node.documents["pods.json"])
    write(data / "proxy-configz", CONFIGZ)
    programs = {
        "journalctl": f"""
            case " $* " in
            *" -k "*) exit 1 ;;
            *" --unit kubelet "*) cat {data}/journal ;;
            *" --unit "*) ;;
            *) echo entry ;;
            esac""",
        "dmesg": f"cat {data}/kernel",
        "crictl": f'cat "{data}/crictl-$1"',
        "curl": 'echo "curl: (7) Failed to connect" >&2; exit 7',
        "kubelet": "echo Kubernetes v1.30.14",
        "kubectl": f"""
            case "$*" in
            "get node {NODE} -o json") cat {data}/node ;;
            "get --raw /api/v1/nodes/{NODE}/proxy/pods") cat {data}/proxy-pods ;;
            "get --raw /api/v1/nodes/{NODE}/proxy/configz") cat {data}/proxy-configz ;;
            debug*) echo "Creating debugging pod x"; shift 7; exec "$@" ;;
            *) echo "Error from server (Forbidden)" >&2; exit 1 ;;
            esac""",
        "ssh": 'shift 4; exec sh -c "$*"',
        "sudo": 'shift; exec "$@"',
        "chroot": 'shift; exec "$@"',
    }
    for name, text in programs.items():
        write(directory / name, f"#!/bin/sh\n{text}\n")
        (directory / name).chmod(0o755)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node and its programs, which commands find first."""
    make_root(tmp_path / "root")
    make_programs(tmp_path / "bin")
    monkeypatch.setenv("ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def run_script(request: Request, parts: str = "node api") -> bytes:
    """What the script writes, run by the system's shell from its standard input."""
    done = subprocess.run(
        ["sh", "-s"], input=script_of(request, parts).encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def contents(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar)
        return {name.removeprefix("./"): file.read() for name, file in files if file}


def manifest_of(found: dict[str, bytes]) -> dict[str, dict[str, str]]:
    """``taken`` and ``absent``: file -> detail; the time of the snapshot taken out."""
    lines: dict[str, dict[str, str]] = {"taken": {}, "absent": {}}
    for line in found["manifest.txt"].decode().splitlines():
        what, name, detail = line.split("\t")
        lines[what][name.rpartition("/")[2] if name.startswith("snapshots/") else name] = detail
    return lines


def test_the_bundle_is_read_whole(made: Path) -> None:
    """It imports to what the plain files import to, and nothing of it is left unread."""
    archive = run_script(Request(NODE, "none"))
    write(made / "bundle.tar", archive)
    found = contents(archive)
    lines = manifest_of(found)
    assert set(lines["taken"]) == {
        *("journal/kubelet.log", "config/config.yaml", "kubelet--version.txt", "kernel.log"),
        *("cpu_manager_state", "cgroupfs.txt", "crictl_images.json", "crictl_ps.json"),
        *("crictl_pods.json", "node.json", "pods.json", "configz.json"),
    }
    assert (
        lines["absent"]["memory_manager_state"] == "no file /var/lib/kubelet/memory_manager_state"
    )
    assert lines["absent"]["metrics.txt"] == "Error from server (Forbidden)"
    ledger = Ledger.create(made / "ledger")
    (report,) = import_sources([str(made / "bundle.tar")], ledger).bundles
    assert (report.node, report.kubelet_version) == (NODE, "1.30.14")
    assert set(report.skipped) == {"manifest.txt"}
    assert not {each.finding for each in report.findings} & {"year_guessed", "version_unknown"}
    for name, content in found.items():
        if name.startswith("snapshots/") or name in ("config/config.yaml", "kernel.log"):
            write(made / "plain" / name, content)
    write(made / "plain" / "kubelet.log", "".join(f"{line}\n" for line in node_slice().lines))
    plainly = Ledger.create(made / "plain.ledger")
    import_sources([str(made / "plain")], plainly)
    assert told(ledger, NODE) == told(plainly, NODE)


def test_the_kernel_log_holds_reports_of_the_oom_killer_only(made: Path) -> None:
    """All of them, and nothing else of what the kernel wrote."""
    write(
        made / "bin" / "data" / "kernel", node_slice().documents["kernel.log"] + b"usb 1-1: new\n"
    )
    kernel = contents(run_script(Request(NODE, "none"), "node"))["kernel.log"]
    whole = node_slice().documents["kernel.log"]
    assert kernel.count(b"Killed process") == whole.count(b"Killed process") > 0
    assert b"usb" not in kernel


def test_secrets_are_not_taken(made: Path) -> None:
    """Neither keys and tokens, nor volumes of pods, nor a configuration that holds one."""
    config = (
        f"kind: KubeletConfiguration\nstaticPodURLHeader: {{Authorization: ['{SECRETS[3]}']}}\n"
    )
    write(made / "root" / "var" / "lib" / "kubelet" / "config.yaml", config)
    found = contents(run_script(Request(NODE, "none")))
    text = b"".join(found.values())
    assert not [secret for secret in SECRETS if secret.encode() in text]
    assert manifest_of(found)["absent"]["config/config.yaml"].startswith("not taken")


def test_a_machine_with_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each absent part is a line, and no failure."""
    names = ("cat", "sh", "date", "mktemp", "mkdir", "rm", "tr", "wc", "head", "cut", "dirname")
    for name in (*names, "hostname", "grep", "awk", "find", "sort", "tar", "gzip"):
        program = shutil.which(name)
        assert program is not None, name
        (tmp_path / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROOT", str(tmp_path / "nothing"))
    script = script_of(Request("bare", "none")).replace('PATH="$PATH:', 'OLD="$PATH:')
    done = subprocess.run(["sh", "-s"], input=script.encode(), capture_output=True, check=True)
    found = contents(done.stdout)
    assert set(found) == {"manifest.txt", "node-name.txt", "collected-at.txt"}
    lines = manifest_of(found)
    assert not lines["taken"]
    assert lines["absent"]["kubelet.log"].startswith("no journal of a kubelet's unit")
    assert lines["absent"]["api"] == "no kubectl here"
    assert lines["absent"]["crictl_images.json"] == "no crictl here"


@pytest.mark.parametrize("via", ["ssh", "kubectl-debug", "raw"])
def test_the_ways(made: Path, via: str) -> None:
    """The node's part and the cluster's become one archive; a debug pod's noise is passed over."""
    out = made / "out.tar.gz"
    result = CliRunner().invoke(cli, ["collect", NODE, "--via", via, "--out", str(out)])
    assert result.exit_code == 0, result.output
    found = contents(out.read_bytes())
    assert found["node-name.txt"] == b"node-e\n"
    on_node = "journal/kubelet.log" in found
    assert on_node is (via != "raw")
    assert {"node.json", "configz.json"} <= set(manifest_of(found)["taken"])
    assert "absent: " in result.stdout
    assert result.stdout.startswith(f"{out}: {len(manifest_of(found)['taken'])} files, ")


def test_where_it_goes(made: Path) -> None:
    """Standard output alone, a file that is whole or not there, and nowhere."""
    words = ["collect", NODE, "--via", "raw", "--out"]
    piped = CliRunner().invoke(cli, [*words, "-"])
    assert (piped.exit_code, "absent: " in piped.stderr) == (0, True)
    assert "node.json" in manifest_of(contents(piped.stdout_bytes))["taken"]
    nowhere = CliRunner().invoke(cli, [*words, str(made / "none" / "x.tar.gz")])
    assert (nowhere.exit_code, "make the directory first" in nowhere.stderr) == (2, True)
    script = made / "script.sh"
    printed = CliRunner().invoke(cli, ["collect", NODE, "--out", str(script)])
    assert (printed.exit_code, "run it as root" in printed.stderr) == (0, True)
    assert script.read_text() == script_of(Request(NODE, "none"))


def test_what_would_be_run(made: Path) -> None:
    """``--dry-run`` and ``--via none`` run nothing."""
    for name in ("ssh", "kubectl", "journalctl"):
        (made / "bin" / name).write_text("#!/bin/sh\nexit 99\n")
    dry = CliRunner().invoke(cli, ["collect", NODE, "--via", "ssh", "--host", "me@h", "--dry-run"])
    assert dry.exit_code == 0
    assert dry.stdout.startswith("ssh -o BatchMode=yes -- me@h ")
    assert dry.stdout.count("#!/bin/sh\nNODE=node-e\nPARTS=") == 2
    printed = CliRunner().invoke(cli, ["collect", NODE, "--since", "-2h ago"])
    assert printed.stdout == script_of(Request(NODE, "none", since="-2h ago"))
    assert "SINCE='-2h ago'" in printed.stdout


TROUBLE = {
    "a way that fails": ("ssh", "echo 'Permission denied' >&2; exit 255", 3, "Permission denied"),
    "no archive": ("ssh", "echo hello", 3, "not a complete archive"),
    "nothing to take": ("kubectl", "echo no >&2; exit 1", 3, "nothing of node node-e could be"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble(made: Path, name: str) -> None:
    program, text, code, words = TROUBLE[name]
    write(made / "bin" / program, f"#!/bin/sh\n{text}\n")
    via = "raw" if program == "kubectl" else program
    out = made / "out.tar.gz"
    result = CliRunner().invoke(cli, ["collect", NODE, "--via", via, "--out", str(out)])
    assert result.exit_code == code
    assert words in result.stderr
    assert not out.exists()


def test_a_name_that_is_none() -> None:
    """Nothing that a command would take for an option."""
    result = CliRunner().invoke(cli, ["collect", "--via", "raw", "--", "-oProxyCommand=x"])
    assert result.exit_code == 2


def test_shellcheck_has_nothing_to_say(tmp_path: Path) -> None:
    """POSIX sh, without a finding."""
    script = tmp_path / "collect.sh"
    write(script, script_of(Request(NODE, "none")))
    done = subprocess.run(
        [tool("shellcheck"), "-s", "sh", script], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")
