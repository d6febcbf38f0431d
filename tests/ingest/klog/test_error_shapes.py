"""Messages without their values: what one call writes has one shape."""

import pytest

from kubeledger.ingest.klog.account import error_shape
from tests.ingest.feeding import log_line

HEAD = "E1121 02:00:00.000001 1 kubelet.go:1] "


def shape(message: str) -> str:
    return error_shape(log_line(HEAD + message))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('Pod "web_default(1-a)": image "a.example/b:1" gone', "Pod *: image * gone"),
        ("Pod web_default(1-a) failed after 3m2.5s", "Pod * failed after *"),
        ("dial tcp 10.0.0.1:6443: connect: refused", "dial tcp *: connect: refused"),
        ("Get https://h/api?x=1: no route", "Get * no route"),
        ('desc = "dial unix /r.sock: refused" x="y"', "desc = dial unix *: refused x=*"),
        ("mount /var/lib/x of default/web", "mount * of *"),
        ("unmounted volumes=[data token], waits", "unmounted volumes=*, waits"),
        ("[not ready yet, no network at all]", "[not ready yet, no network at all]"),
        ("[cpumanager] failed: [1 2]", "[cpumanager] failed: *"),
        ("container &C{Name:a,Env:[]E{E{N:b,},},} start failed", "container &C* start failed"),
        ("container &C{Name:a,Env:[]E{E{N:b", "container &C*"),
        ("until 2026-11-21 02:00:00.5 +0000 UTC m=+0.5 (wait)", "until * (wait)"),
        ("Failed to list *v1.Pod and *v1beta1.Node", "Failed to list *v1.Pod and *v1beta1.Node"),
        ("couldn't do it; can't go on with 'this' one", "couldn't do it; can't go on with * one"),
        ("unrecognized feature gate: NoSuchGate", "unrecognized feature gate: *"),
        ("Setting GA feature gate Some=true. It will", "Setting GA feature gate *. It will"),
        ("failed to get task 0a1b2c3d4e5f: gone\nwith more 1", "failed to get task *: gone"),
    ],
)  # fmt: skip
def test_values_are_left_out(message: str, expected: str) -> None:
    """Names, numbers, times, places, Go's structs; words stay."""
    assert shape(message).removeprefix(" ") == expected


def test_a_structured_message_is_its_shape() -> None:
    """It says what failed, the error how."""
    error = 'err="rpc error: code = Unknown desc = no \\"x\\" at 1.2.3.4" pod="default/web"'
    for said in ("Failed to create sandbox for pod", "Unhandled Error"):
        expected = f"{said}: rpc error: code = Unknown desc = no * at *"
        assert shape(f'"{said}" {error}') == expected
    assert shape('"Unhandled Error" logger="x"') == "Unhandled Error"


def test_each_try_has_the_shape_of_the_first() -> None:
    """Whatever grows with each: the wait, the times, the counts."""
    said = {
        shape(
            f'"Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"web{n}\\" '
            f'with CrashLoopBackOff: \\"back-off {n}s restarting failed container=web{n}\\""'
        )
        for n in range(10, 400, 70)
    }
    assert said == {"Error syncing pod, skipping: failed to * for * with CrashLoopBackOff: *"}


def test_it_is_short_and_found_in_little_time() -> None:
    """A word, a quote or a bracket of a megabyte."""
    for long in ("a" * 1_000_000, '"' + "a" * 1_000_000, "[" * 1_000_000, "a_b(" * 250_000):
        assert len(shape(long)) <= 240


def test_of_a_line_that_is_cut_the_message_is_left() -> None:
    """It is a constant, though it stands in quotes; a name in quotes is none."""
    assert shape('"Error syncing pod, skipping" er>') == "Error syncing pod, skipping"
    assert shape('"web" is not a pod') == "* is not a pod"
