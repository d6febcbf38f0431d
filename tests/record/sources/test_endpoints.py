"""The kubelet's endpoints, against a stand-in that serves a recording over HTTPS."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kubeledger.ingest.sources.detect import detect
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.record.observations import Document, Gap, Observation
from kubeledger.record.sources.endpoints import KubeletClient, KubeletEndpoints
from kubeledger.replay.node.state import time_in_name
from tests.certificates import Certificate, make_certificate
from tests.record.standin import Asked, Standin, answers_of, serve_kubelet
from tests.recordings import extract
from tests.waiting import PATIENCE_S

BEGIN_NS = parse_ts("2026-11-21T03:01:00Z")
ROUND_NS = 15 * NS_PER_S
ALL = ["/metrics/probes", "/pods", "/stats/summary", "/metrics", "/configz"]


class _PodList(msgspec.Struct):
    items: list[msgspec.Raw]


CONFIGZ = b'{"kubeletconfig":{"maxPods":110}}'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a real kubelet answered."""
    node = extract("node-b", tmp_path_factory.mktemp("node-b"))
    answers = answers_of(node / "snapshots" / "20261121T030735Z")
    return {**answers, "/metrics": (node / "metrics.txt").read_bytes(), "/configz": CONFIGZ}


@pytest.fixture
def kubelet(recorded: dict[str, bytes], certificate: Certificate) -> Iterator[Standin]:
    with serve_kubelet(Standin(recorded), certificate) as standin:
        yield standin


def endpoints(standin: Standin, certificate: Certificate, **options: object) -> KubeletEndpoints:
    """The source, trusting the stand-in's certificate unless it is asked for something else."""
    settings = {"ca_file": certificate.file, "silence_s": PATIENCE_S, **options}
    return KubeletEndpoints(KubeletClient(standin.url, **settings))  # type: ignore[arg-type]


def round_of(source: KubeletEndpoints, now_ns: int) -> list[Observation]:
    first = list(source.poll(now_ns))
    source.wait(PATIENCE_S)
    return [*first, *source.poll(now_ns)]


def names(observations: list[Observation]) -> list[str]:
    """Of documents, without their directories; of gaps their streams."""
    return [
        each.name.rpartition("/")[2] if isinstance(each, Document) else each.stream
        for each in observations
    ]


def test_what_is_served_is_what_an_import_reads(
    kubelet: Standin, certificate: Certificate, tmp_path: Path
) -> None:
    """Byte for byte, but for the metrics that tell of nothing."""
    given = round_of(endpoints(kubelet, certificate), BEGIN_NS)
    assert kubelet.paths() == ALL
    assert len(given) == 5
    for path, document in zip(ALL, given, strict=True):
        assert isinstance(document, Document)
        if path != "/metrics":
            assert document.data == kubelet.answers[path]
        file = tmp_path / document.name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document.data)
        assert detect(SourceFile(document.name, file)).format == document.format
        assert 0 <= document.ts_ns - BEGIN_NS < 20 * NS_PER_S
        assert time_in_name(document.name) == document.ts_ns // 1_000_000 * 1_000_000


def test_metrics_that_tell_of_decisions_are_kept(
    kubelet: Standin, certificate: Certificate
) -> None:
    """Their lines are whole; histograms of durations are left out."""
    given = round_of(endpoints(kubelet, certificate), BEGIN_NS)
    (metrics,) = (each for each in given if names([each]) == ["metrics.txt"])
    assert isinstance(metrics, Document)
    lines = metrics.data.decode().splitlines()
    assert any(line.startswith("process_start_time_seconds ") for line in lines)
    assert any(line.startswith("kubelet_started_pods_total ") for line in lines)
    assert not any("_bucket{" in line for line in lines)
    assert set(lines) <= set(kubelet.answers["/metrics"].decode().splitlines())
    assert len(metrics.data) < len(kubelet.answers["/metrics"]) / 5


def test_rounds_are_15_seconds_apart_and_give_what_changed(
    kubelet: Standin, certificate: Certificate
) -> None:
    """The order of the pods is no change; the configuration is asked for once."""
    source = endpoints(kubelet, certificate)
    round_of(source, BEGIN_NS)
    kubelet.paths()
    assert not round_of(source, BEGIN_NS + 14 * NS_PER_S)
    assert not kubelet.paths()
    pods = msgspec.json.decode(kubelet.answers["/pods"], type=_PodList).items
    assert len(pods) > 1
    kubelet.answers["/pods"] = b'{"items":[' + b",".join(map(bytes, reversed(pods))) + b"]}"
    assert not round_of(source, BEGIN_NS + ROUND_NS)
    assert kubelet.paths() == ALL[:4]
    kubelet.answers["/pods"] = b'{"items":[' + b",".join(map(bytes, pods[1:])) + b"]}"
    assert names(round_of(source, BEGIN_NS + 2 * ROUND_NS)) == ["pods.json"]


def test_another_process_is_asked_for_its_configuration(
    kubelet: Standin, certificate: Certificate
) -> None:
    """Also when it is the same: it is what that process runs with."""
    source = endpoints(kubelet, certificate)
    round_of(source, BEGIN_NS)
    for path in ("/metrics/probes", "/metrics"):
        lines = kubelet.answers[path].splitlines(keepends=True)
        kubelet.answers[path] = b"".join(
            b"process_start_time_seconds 1.8e+09\n"
            if line.startswith(b"process_start_time_seconds")
            else line
            for line in lines
        )
    given = round_of(source, BEGIN_NS + ROUND_NS)
    assert names(given) == ["metrics-probes.txt", "metrics.txt", "configz.json"]


def test_the_token_is_read_for_each_request(
    kubelet: Standin, certificate: Certificate, tmp_path: Path
) -> None:
    """One that expired is a gap that ends with the next."""
    token = tmp_path / "token"
    token.write_text("first\n")
    kubelet.token = "second"
    source = endpoints(kubelet, certificate, token_file=token)
    given = round_of(source, BEGIN_NS)
    assert names(given) == [f"kubelet {path}" for path in ALL]
    assert {each.reason for each in given if isinstance(each, Gap)} == {
        "answered 401 Unauthorized: Unauthorized"
    }
    assert not round_of(source, BEGIN_NS + ROUND_NS)
    token.write_text("second\n")
    kubelet.asked.clear()
    given = round_of(source, BEGIN_NS + 2 * ROUND_NS)
    assert kubelet.asked == [Asked(path, "second") for path in ALL]
    assert sum(isinstance(each, Document) for each in given) == 5
    ends = [each.until_ns for each in given if isinstance(each, Gap)]
    assert len(ends) == 5
    assert None not in ends


def test_a_forbidden_endpoint_costs_only_itself(kubelet: Standin, certificate: Certificate) -> None:
    """Asked once a round, and the configuration until it comes."""
    kubelet.statuses["/configz"] = 403
    source = endpoints(kubelet, certificate)
    given = round_of(source, BEGIN_NS)
    assert names(given)[4:] == ["kubelet /configz"]
    assert isinstance(given[4], Gap)
    assert given[4].reason == "answered 403 Forbidden: Forbidden (user=recorder)"
    kubelet.paths()
    assert not round_of(source, BEGIN_NS + ROUND_NS)
    assert kubelet.paths() == ALL


def test_silence_and_half_answers(
    kubelet: Standin, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are answered; each gap says what happened, and ends."""
    get = KubeletClient.get

    def impatient(client: KubeletClient, path: str) -> bytes:
        if path in kubelet.silent:
            client._connected().sock.settimeout(0.1)
        return get(client, path)

    monkeypatch.setattr(KubeletClient, "get", impatient)
    kubelet.silent.add("/pods")
    kubelet.half.add("/stats/summary")
    source = endpoints(kubelet, certificate)
    given = round_of(source, BEGIN_NS)
    assert names(given) == [
        "metrics-probes.txt",
        "kubelet /pods",
        "kubelet /stats/summary",
        "metrics.txt",
        "configz.json",
    ]
    reasons = [each.reason for each in given if isinstance(each, Gap)]
    assert reasons == ["no answer in time", "the answer ends in the middle"]
    kubelet.silent.clear()
    kubelet.half.clear()
    given = round_of(source, BEGIN_NS + ROUND_NS)
    assert names(given) == [
        *("kubelet /pods", "pods.json"),
        *("kubelet /stats/summary", "stats-summary.json"),
    ]


def test_a_kubelet_without_probes(kubelet: Standin, certificate: Certificate) -> None:
    """It answers nothing at all: neither a gap nor a document."""
    kubelet.answers["/metrics/probes"] = b""
    given = round_of(endpoints(kubelet, certificate), BEGIN_NS)
    assert names(given) == ["pods.json", "stats-summary.json", "metrics.txt", "configz.json"]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/pods", b'{"items":[{"metadata":'),
        ("/pods", b'{"items":{}}'),
        ("/metrics", b"kubelet_a 1"),
    ],
)
def test_content_that_is_not_whole(
    kubelet: Standin, certificate: Certificate, path: str, content: bytes
) -> None:
    """A proxy on the way may have ended it."""
    kubelet.answers[path] = content
    gaps = [
        each
        for each in round_of(endpoints(kubelet, certificate), BEGIN_NS)
        if isinstance(each, Gap)
    ]
    assert [gap.stream for gap in gaps] == [f"kubelet {path}"]
    assert gaps[0].reason.startswith("the answer is not whole: ")


def test_a_poll_does_not_wait(kubelet: Standin, certificate: Certificate) -> None:
    """While all are silent, no round begins before the last one has ended."""
    kubelet.silent.update(ALL)
    source = endpoints(kubelet, certificate)
    for index in range(20):
        assert not list(source.poll(BEGIN_NS + index * ROUND_NS))
    assert len(kubelet.paths()) <= 1
    kubelet.ended.set()
    source.wait(PATIENCE_S)


def test_a_certificate_that_is_not_trusted(
    kubelet: Standin, certificate: Certificate, tmp_path: Path
) -> None:
    """Nothing is asked, no token is shown, unless the check is switched off."""
    stranger = make_certificate(tmp_path)
    source = endpoints(kubelet, certificate, ca_file=stranger.file)
    (gap,) = round_of(source, BEGIN_NS)
    assert isinstance(gap, Gap)
    assert gap.stream == "kubelet endpoints"
    assert gap.reason == "its certificate is not accepted: self-signed certificate"
    assert not kubelet.asked
    assert len(round_of(endpoints(kubelet, certificate, insecure=True), BEGIN_NS)) == 5


def test_a_certificate_of_another_host(recorded: dict[str, bytes], tmp_path: Path) -> None:
    other = make_certificate(tmp_path, "127.0.0.2")
    with serve_kubelet(Standin(recorded), other) as standin:
        (gap,) = round_of(endpoints(standin, other), BEGIN_NS)
    assert isinstance(gap, Gap)
    assert "IP address mismatch" in gap.reason


def test_a_kubelet_that_is_away(recorded: dict[str, bytes], certificate: Certificate) -> None:
    """One gap for all endpoints; when it is back it is asked for its configuration again."""
    with serve_kubelet(Standin(recorded), certificate) as standin:
        source = endpoints(standin, certificate)
        round_of(source, BEGIN_NS)
        port = int(standin.url.rpartition(":")[2])
    (gap,) = round_of(source, BEGIN_NS + ROUND_NS)
    assert isinstance(gap, Gap)
    assert gap.reason == "no connection: Connection refused"
    assert gap.since_ns is not None
    assert not round_of(source, BEGIN_NS + 2 * ROUND_NS)
    with serve_kubelet(Standin(recorded), certificate, port) as standin:
        given = round_of(source, BEGIN_NS + 3 * ROUND_NS)
    assert names(given) == ["kubelet endpoints", "configz.json"]


def test_a_token_that_cannot_be_read(
    kubelet: Standin, certificate: Certificate, tmp_path: Path
) -> None:
    (gap,) = round_of(endpoints(kubelet, certificate, token_file=tmp_path / "token"), BEGIN_NS)
    assert isinstance(gap, Gap)
    assert gap.reason == f"{tmp_path}/token cannot be read: No such file or directory"
    assert not kubelet.asked


@pytest.mark.parametrize("url", ["http://127.0.0.1:10255", "127.0.0.1", "https://h/pods"])
def test_a_wrong_url(url: str) -> None:
    """Plain HTTP would show the token."""
    with pytest.raises(BadQuestionError, match="not a URL of a kubelet"):
        KubeletClient(url)


def test_a_clock_that_was_set_back(kubelet: Standin, certificate: Certificate) -> None:
    """The next round begins at once, and its documents have the new time."""
    source = endpoints(kubelet, certificate)
    round_of(source, BEGIN_NS)
    kubelet.answers["/stats/summary"] += b"\n"
    (given,) = round_of(source, BEGIN_NS - 3600 * NS_PER_S)
    assert isinstance(given, Document)
    assert given.name.startswith("snapshots/20261121T0201")
