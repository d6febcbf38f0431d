"""``kubeledger probe``."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.units import NS_PER_S
from tests.certificates import make_certificate
from tests.cli.nodes import run
from tests.probe.pods import pod, pod_list
from tests.probe.servers import Habit, answers, closed_port, says, serve


def probed(
    *arguments: str, given: dict[str, Any] | None = None, exits: int | None = None
) -> Result:
    text = None if given is None else json.dumps(given)
    source = () if given is None else ("--pods", "-")
    return run("probe", *arguments, *source, input=text, exits=exits)


def web(port: int) -> dict[str, Any]:
    return pod_list(pod({"name": "app", "livenessProbe": {"httpGet": {"port": port}}}))


def test_table() -> None:
    with serve(answers("503 Busy", b"no")) as server:
        result = probed("default/web", "--kubelet-version", "1.28.0", given=web(server.port))
    assert result.exit_code == 1, result.output
    text = " ".join(result.stdout.split())
    assert "pod default/web at 127.0.0.1, as kubelet 1.28.0 probes it (-)" in text
    assert f"GET / HTTP/1.1 | Host: 127.0.0.1:{server.port} | User-Agent: kube-probe/1.28" in text
    assert "result failure: HTTP probe failed with statuscode: 503" in text
    assert "3 like this in a row, within 20s: killed with 30 s of grace (liveness probe)" in text
    assert "status: 503 fails the probe; curl ends with 0 unless -f" in text


def test_json_and_repeat() -> None:
    with serve(answers("200 OK", b"fine")) as server:
        result = probed(
            "default/web/app", "--kubelet-version", "1.36.2", "--repeat", "3", "--period", "0",
            "-o", "json", given=web(server.port),
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["probes"]
    assert (found["container"], found["probe_type"], found["handler"]) == (
        "app",
        "liveness",
        "http",
    )
    assert [tick["run"] for tick in found["ticks"]] == [1, 2, 3]
    (exchange,) = found["ticks"][0]["attempts"][0]["exchanges"]
    assert all(isinstance(ns, int) for ns in exchange["phases_ns"].values())
    assert result.stderr.splitlines() == ["app liveness: success: fine"] * 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("default/web", "--kubelet-version", "9.9"), 2, "9.9"),
        (("default/web",), 2, "--kubelet-version V"),
        (("default/other", "--kubelet-version", "1.36.2"), 2, "there are: default/web"),
        (("web", "--kubelet-version", "1.36.2"), 2, "is not NS/POD"),
        (("default/web/side", "--kubelet-version", "1.36.2"), 2, "no container 'side'"),
        (
            ("default/web", "--kubelet-version", "1.36.2", "--probe", "startup"),
            2,
            "no startup probe",
        ),
    ],
)
def test_questions_that_have_no_answer(arguments: tuple[str, ...], code: int, message: str) -> None:
    result = probed(*arguments, given=web(1), exits=code)
    assert message in result.stderr


def test_lists_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    result = probed("default/web", "--pods", str(path))
    assert (result.exit_code, str(path) in result.stderr) == (3, True)
    path.write_text('{"kind": "List", "items": []}')
    result = probed("default/web", "--pods", str(path))
    assert (result.exit_code, "holds no pods" in result.stderr) == (3, True)
    path.write_text('{"kind": ')
    assert probed("default/web", "--pods", str(path)).exit_code == 3
    path.write_text("kind: [")
    assert probed("default/web", "--pods", str(path)).exit_code == 3


def test_a_list_in_yaml(tmp_path: Path) -> None:
    """As ``kubectl get pods -o yaml`` writes it."""
    path = tmp_path / "pods.yaml"
    path.write_text(yaml.safe_dump(web(closed_port())))
    result = probed("default/web", "--pods", str(path), "--kubelet-version", "1.36.2")
    assert (result.exit_code, "connection refused" in result.stdout) == (1, True)


def test_a_list_from_a_url() -> None:
    """As a kubelet's read-only port or kubectl proxy gives it."""
    port = closed_port()
    body = json.dumps(web(port)).encode()
    with serve(answers("200 OK", body)) as server:
        url = f"http://127.0.0.1:{server.port}/pods"
        result = probed("default/web", "--pods", url, "--kubelet-version", "1.36.2")
    assert (result.exit_code, "connection refused" in result.stdout) == (1, True)
    with serve(says(b"")) as server:
        result = probed("default/web", "--pods", f"http://127.0.0.1:{server.port}/pods")
    assert (result.exit_code, "cannot be read" in result.stderr) == (3, True)


def kubelet(paths: dict[str, bytes], token: str) -> Habit:
    """Answers what it has at these paths to whoever has the token; one connection, two requests."""

    def habit(connection: socket.socket, head: bytes, over: threading.Event) -> None:
        for _ in range(2):
            body = paths.get(head.split(b" ")[1].decode())
            known = f"Authorization: Bearer {token}\r\n".encode() in head
            status = "200 OK" if body is not None else "404 Not Found"
            answers(status if known else "401 Unauthorized", body or b"")(connection, head, over)
            head = connection.recv(65536)
            if not head:
                return

    return habit


def test_a_kubelet_is_asked(tmp_path: Path) -> None:
    """Its list and its version, with a token and its authority's certificate or --insecure."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    metrics = b'kubernetes_build_info{build_date="x",git_version="v1.28.5-eks-5e0fdde"} 1\n'
    with serve(answers("200 OK")) as app:
        paths = {"/pods": json.dumps(web(app.port)).encode(), "/metrics": metrics}
        with serve(kubelet(paths, "secret"), context=make_certificate(tmp_path).context) as server:
            url = f"https://127.0.0.1:{server.port}"
            asked = ("default/web", "--kubelet", url, "-o", "json")
            result = probed(*asked, "--insecure", "--token", str(token))
            refused = probed(*asked, "--insecure")
            distrusted = probed(*asked, "--token-file", str(token))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["kubelet_version"] == "v1.28.5-eks-5e0fdde"
    assert b"User-Agent: kube-probe/1.28+\r\n" in app.heads[0]
    assert (refused.exit_code, "answered 401" in refused.stderr) == (3, True)
    assert (distrusted.exit_code, "certificate" in distrusted.stderr) == (3, True)


def listed(at_s: int, ip: str, uid: str = "36aa", *, gone: bool = False) -> Draft:
    raw = pod({"name": "app", "livenessProbe": {"tcpSocket": {"port": closed_port()}}}, ip=ip)
    body = PodListed(
        namespace="default",
        pod="web",
        pod_uid=uid,
        spec=None if gone else raw["spec"],
        status=None if gone else raw["status"],
        listed_by="kubelet",
        gone=gone,
    )
    return Draft(at_s * NS_PER_S, body)


def started(version: str) -> Draft:
    return Draft(1, KubeletStarted(pid=1, kubelet_version=version, version_source="log"))


@pytest.mark.parametrize(
    ("node_a", "node_b", "found"),
    [
        ([listed(9, "127.0.0.1")], [], ("127.0.0.1", "1.28.0")),
        ([listed(9, "127.0.0.1")], [listed(5, "127.0.0.2", "37bb")], ("127.0.0.1", "1.28.0")),
        ([listed(5, "127.0.0.1")], [listed(9, "127.0.0.2", "37bb")], ("127.0.0.2", "1.30.4")),
        (
            [listed(5, "127.0.0.1")],
            [listed(7, "127.0.0.2", "37bb"), listed(9, "", "37bb", gone=True)],
            ("127.0.0.1", "1.28.0"),
        ),
        ([listed(5, "127.0.0.1"), listed(9, "", gone=True)], [], None),
    ],
    ids=["one node", "older elsewhere", "moved", "moved and gone there", "gone"],
)
def test_the_last_list_of_a_ledger(
    node_a: list[Draft], node_b: list[Draft], found: tuple[str, str] | None, tmp_path: Path
) -> None:
    """The pod as it was listed last, with the version of that node's kubelet."""
    ledger = Ledger.create(tmp_path / "ledger")
    with ledger.writer() as writer:
        writer.append("node-a", [started("1.28.0"), *node_a])
        writer.append("node-b", [started("1.30.4"), *node_b])
    result = probed("default/web", "--ledger", str(ledger.path), "-o", "json")
    if found is None:
        assert result.exit_code == 2
        assert "any more: it was gone at 1970-01-01T00:00:09" in result.stderr
    else:
        document = json.loads(result.stdout)
        assert (document["address"], document["kubelet_version"]) == found
        assert document["source"] == str(ledger.path)
    result = probed("default/other", "--ledger", str(ledger.path))
    assert (result.exit_code, "shows default/other" in result.stderr) == (2, True)
