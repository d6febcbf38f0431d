import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubeledger.cli.kubectl import asked_of
from tests.recordings import extract


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("why pod/web -n prod", "why pod/prod/web"),
        ("why pod web --namespace=prod", "why pod/prod/web"),
        ("why -n prod po/web", "why pod/prod/web"),
        ("why web -n prod", "why prod/web"),
        ("why pods/web", "why web"),
        ("why pod/prod/web -n other", "why pod/prod/web"),
        ("why node/n1", "why node/n1"),
        ("why node n1", "why node/n1"),
        ("why node", "why node"),
        ("why node ./bundle", "why node ./bundle"),
        ("why node . -o json", "why node . -o json"),
        ("why container/a/b/c -n z", "why container/a/b/c"),
        ("why web ./bundle -o json", "why web ./bundle -o json"),
        ("get pods -n prod", "get pods --namespace prod"),
        ("verify ./bundle --context x", "verify ./bundle"),
        ("sql -- -n", "sql -- -n"),
        ("", ""),
    ],
)
def test_words_of_kubectl_become_ours(line: str, words: str) -> None:
    assert list(asked_of(line.split()).words) == words.split()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a ``kubectl`` that answers as node-a's API server does, in context `lab`."""
    directory = tmp_path_factory.mktemp("kubectl")
    node = extract("node-a", directory)
    kubectl = directory / "kubectl"
    kubectl.write_text(
        f"""#!/bin/sh
[ "$1" = --context ] && {{ [ "$2" = lab ] || {{ echo "error: context $2 is not there" >&2; exit 1; }}; shift 2; }}
case "$*" in
"get pod filler-c --namespace default -o jsonpath"*) echo node-a ;;
"get pod late -o jsonpath"*) ;;
"get pod "*) echo 'Error from server (NotFound): pods "x" not found' >&2; exit 1 ;;
"get node node-a -o json") cat {node}/node.json ;;
"get pods --all-namespaces"*) cat {node}/pods.json ;;
"get events --all-namespaces"*) cat {node}/events.json ;;
*"/logs/?query=kubelet") cat {node}/kubelet.log ;;
*) exit 1 ;;
esac
""",  # noqa: E501 # a script
        encoding="utf-8",
    )
    kubectl.chmod(0o755)
    return directory


def plugin(
    cluster: Path, *args: str, function: str = "run", **env: str
) -> subprocess.CompletedProcess[str]:
    code = f"from kubeledger.cli.kubectl import {function}; {function}()"
    environment = {**os.environ, "PATH": f"{cluster}:{os.environ['PATH']}", **env}
    environment.pop("KUBELEDGER", None)
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True, text=True, check=False, env=environment, cwd=cluster,
    )  # fmt: skip


def test_a_pods_node_is_asked_where_no_ledger_is_named(cluster: Path) -> None:
    done = plugin(cluster, "why", "pod/filler-c", "-n", "default", "--context", "lab")
    assert done.returncode == 0, done.stderr
    assert "asking node node-a through the API server" in done.stderr
    assert "pod default/filler-c was preempted" in done.stdout
    assert not (cluster / ".kubeledger").exists()


def test_a_ledger_or_a_bundle_is_not_fetched(cluster: Path) -> None:
    (bundle,) = cluster.glob("node-a-v*")
    done = plugin(cluster, "why", "pod", "filler-c", "-n", "default", str(bundle))
    assert "was preempted" in done.stdout
    assert "asking" not in done.stderr
    nowhere = plugin(cluster, "why", "filler-c", "--ledger", str(cluster / "none"))
    assert nowhere.returncode == 2
    assert "asking" not in nowhere.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["why", "pod/x", "-n", "default"], 'pods "x" not found'),
        (["why", "pod/late"], "pod late is on no node yet"),
        (["why", "pod/filler-c", "--context", "other"], "context other is not there"),
        (["verify"], "which node?"),
        (["why", "node/other"], "nothing of node other could be taken"),
        (["why", "web", "-n"], "-n has no value"),
    ],
)
def test_what_cannot_be_had_is_said(cluster: Path, args: list[str], words: str) -> None:
    done = plugin(cluster, *args)
    assert done.returncode in {2, 3}
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_help_asks_nobody(cluster: Path) -> None:
    done = plugin(cluster, "why", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: kubectl kubeledger why ")


def test_completion_as_kubectl_reads_it(cluster: Path) -> None:
    lines = plugin(cluster, "wh", function="complete").stdout.splitlines()
    assert [line.partition("\t")[0] for line in lines] == ["why", "whatif", ":4"]
