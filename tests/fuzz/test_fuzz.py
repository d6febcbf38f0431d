"""A short run of every target, always the same; and inputs that once did harm."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.lineage import grown, input_of
from tests.fuzz.lines import Lines
from tests.fuzz.loop import HangError, attempt_within, fuzz
from tests.fuzz.target import InvariantError, Target
from tests.fuzz.targets import TARGETS

SLOW = frozenset(
    {"import", "parquet", "snapshot", "sql", "history-index", "manifest", "sealed-lines"}
)
"""Those that write a ledger, or ask DuckDB, for each input."""

FOUND: tuple[tuple[str, bytes], ...] = (
    ("log-runtime", b'{"log":"I1121 02:52:44.127\xea 1 a.go:1] x\\n","time":"x"}\n'),
    ("log-runtime", b'{"log":"I1121 02:52:44.127126 1 a.go:1] x\\n","time":"\\ud800"}\n'),
    ("log-runtime", b'{"log":"x","a":' + b"[" * 3000 + b"}\n"),
    ("log-runtime", b'{"log":"I1121 02:52:44.127126 1 iptables.go:1] running"}\n'),
    ("setting", b"maxPods=" + b"[" * 3000),
    ("setting", b"cgroupRoot=\xed\xa0\x80"),
    ("log-text", b"I1121 02:52:44.127126 " + b"9" * 5000 + b" a.go:1] x\n"),
    ("log-text", b"I1121 02:52:44.127126 1 a.go:" + b"9" * 5000 + b"] x\n"),
    ("log-json", b'{"ts":1.0,"caller":"a.go:' + b"9" * 5000 + b'","msg":"x","v":0}\n'),
    ("values", b'"m" a=' + b"[" * 3000 + b"]" * 3000),
    ("scenario", b'{"\\ud83d": 1}'),
    ("box", b"SELECT now()"),
    (
        "request",
        b"POST /api/sql HTTP/1.1\r\nHost: {host}\r\nX-Kubeledger-Token: {token}\r\n"
        b'Content-Length: 11\r\n\r\n{"query":"\xfb',
    ),
    ("scenario", b'{"node": {"\\ud83d": 1}, "pods": [{"\\ud83d": 1}]}'),
    (
        "log-text",
        b'I1119 11:58:39.741412 4390 event.go:291] "Event occurred" object="localhost" kind="Node" '
        b'apiVersion="" type="Normal" reason={} message="Starting kubelet."\n',
    ),
    (
        "log-text",
        b'E1029 17:23:15.839100 2978 controller.go:146] "Failed to ensure lease exists, will '
        b'retry" err="namespaces\\ud800 not found" interval="200ms"\n',
    ),
    (
        "log-text",
        b"I0120 11:42:15.343260    9223372036854775808 plugins.go:631] Loaded volume plugin "
        b'"kubernetes.io/azure-file"\n',
    ),
    (
        "log-text",
        b"I0510 20:26:56.833148 2689 flags.go:64] FLAG: "
        b'--container-runtime-endpoint="/var/\\ud800/crio.sock"\n'
        b'I0510 20:26:56.833151 2689 flags.go:64] FLAG: --containerd="/run/containerd.sock"\n',
    ),
)
"""(target, input) that led to a traceback."""


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_their_changes(name: str) -> None:
    """Some seeds as they are, and a few inputs made of them, numbered from one on."""
    target = TARGETS[name]
    for data in target.seeds()[:2]:
        target.attempt(data)
    for number in range(3 if name in SLOW else 8):
        target.attempt(input_of(target, (number, number)))


@pytest.mark.parametrize(
    "name", ["log-text", "values", "pods", "ledger-line", "recording", "quantity", "table"]
)
def test_changes_that_hypothesis_draws(name: str) -> None:
    """The same changes, drawn so that what fails is shrunk."""
    target = TARGETS[name]

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(random=st.randoms(use_true_random=False))
    def run(random: Random) -> None:
        seeds = target.seeds()
        target.attempt(target.mutate(random, random.choice(seeds), seeds))

    run()


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_inputs_that_once_did_harm(name: str, data: bytes) -> None:
    assert TARGETS[name].attempt(data) in {"read", "refused"}


def test_a_lineage_is_its_input() -> None:
    target = TARGETS["pods"]
    assert input_of(target, (7, 8)) == grown(target, input_of(target, (7,)), 8)
    assert input_of(target, (7, 8)) == input_of(target, (7, 8))


def _bad(data: bytes) -> None:
    if data.startswith(b"b"):
        raise ValueError("no KubeledgerError")
    if data.startswith(b"c"):
        raise InvariantError("lines are lost")
    while data.startswith(b"d"):
        pass


def test_failures_are_told_with_the_command_that_shows_them() -> None:
    """A harness that found nothing would be no harness."""
    target = Target(
        "bad", lambda: (b"x",), lambda random, *_: random.choice((b"a", b"b", b"c")), _bad
    )
    tally = fuzz([target], 40, 5)
    assert len(tally.failures) == 2
    assert sum(tally.inputs.values()) == 40
    failure = next(iter(tally.failures.values()))
    with pytest.raises((ValueError, InvariantError)):
        target.attempt(input_of(target, failure.lineage))
    assert failure.again.startswith("python -m tests.fuzz bad ")
    with pytest.raises(HangError):
        attempt_within(target, b"d", cpu_s=0.05)


def test_inputs_that_reach_new_lines_are_kept() -> None:
    """Tracing sees the lines of the package, each once."""
    lines = Lines()
    target = TARGETS["duration"]
    for data in (b"1h", b"1h", b"x"):
        before = lines.reached
        with lines.watched():
            target.attempt(data)
        if data == b"1h" and before:
            assert lines.reached == before
    assert lines.reached > 10
