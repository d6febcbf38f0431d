"""Wrong calls: a sentence and perhaps a hint, the exit code of the contract, and no answer."""

import shlex
from pathlib import Path

import pytest

from tests.cli.nodes import Nodes, run

FIRST = Path(__file__).parents[2] / "recordings" / "scenarios" / "first.yaml"
NO_TIME, NO_SIZE = "is not a valid time", "is not a size of memory"
PERCENT = "imageGCHighThresholdPercent"

WRONG: dict[str, tuple[tuple[str, str], ...]] = {
    "ls {q}": (("--since soon", NO_TIME), ("--node nope", "nope"), ("--limit -1", "-1")),
    "show {q}": (
        ("99", "99"), ("0", "0"), ("x", "'x'"), ("1 --node nope", "nope"),
    ),
    "export {q}": (("--since soon", NO_TIME), ("--node nope", "nope"), ("--format x", "x")),
    "completeness --ledger {a}": (
        ("--since soon", NO_TIME), ("--since now --until -1h", ""), ("--node other", "other"),
    ),
    "state {q}": (
        ("--at noon", f"'noon' {NO_TIME}"),
        ("--only pods,nodes", "no such part of the state: nodes"),
        ("--only ,", "no such part of the state"), ("--node node-z", "no node 'node-z'"),
        ("--seq 999", "no record 999"), ("--seq 1 --at now", "cannot both be asked for"),
    ),
    "get {q}": (("nodes", ""), ("pods nope", "error: pods 'nope' not found\n")),
    "sql {q}": (
        ("'SELEC 1'", "syntax error"), ("'SELECT nope FROM events'", "nope"),
        ("'DROP VIEW events'", "only queries that read"),
        ("\"SELECT * FROM read_text('/etc/passwd')\"", "not allowed"),
        ("--run nope", "there is no shipped query"),
        ("--run eviction", "hint: did you mean evictions"),
        ("'selct 1'", "hint: write one SELECT; `SHOW TABLES`"),
        ("'FROM spared'", "spared does not exist\nhint: `DESCRIBE view`"),
        ("--run pod_timeline", "needs --param pod="), ("--run around --param at=noon", NO_TIME),
        ("--run settings --param setting", "is not NAME=VALUE"),
        ("--run settings --list", "give one of"), ("'SELECT 1' --list", "give one of"),
        ("-", "empty"), ("'SELECT 1' --memory lots", f"'lots' {NO_SIZE}"),
        ("'SELECT 1' --memory 0B", f"'0B' {NO_SIZE}"),
        ("'SELECT 1' --memory -1GB", f"'-1GB' {NO_SIZE}"),
        ("'SELECT 1' --memory 99999999999999TB", f"TB' {NO_SIZE}"),
        ("'SELECT 1' --memory 1B", "hint: give it more with --memory"),
        ("'SELECT * FROM events' --memory 300kB", "hint: give it more with --memory"),
        ("'SELECT * FROM events' --memory 3MB", "error: Out of Memory Error: failed to"),
    ),
    "diff": (
        ("{a}@now {a}", "one side has an instant"), ("{a} {a}@5", "one side has an instant"),
        ("{a}@soon {a}@soon", f"'soon' {NO_TIME}"), ("{a}@ {a}@5", f"'' {NO_TIME}"),
        ("{a}@5 {a}@999999", "has no record 999999"), ("'' {a}", "a source has no name"),
        ("--node node-z {a} {a}", "holds no node 'node-z'"),
    ),
    "verify": (
        ("''", "a source has no name"), ("-o xml", "xml"), ("--junit .", "is a directory"),
        ("--ledger {a} --node node-z", "'node-z'"), ("{recording} --node node-z", "'node-z'"),
    ),
    "whatif {a}": (
        (f"--set {PERCENT}=abc", "must be a whole number"),
        (f"--set {PERCENT}=true", "must be a whole number"),
        (f"--set {PERCENT}=300", "must be between 0 and 100, inclusive"),
        (f"--set {PERCENT}=-1", "must be between 0 and 100, inclusive"),
        (f"--set '{PERCENT}=80|300'", f"=300: {PERCENT} must be"),
        (f"--set {PERCENT}=3", "imageGCLowThresholdPercent 4 must be less than"),
        ("--set maxPods=-1", "must not be a negative number"),
        ("--set maxPods=4.5", "must be a whole number"),
        ("--set evictionHard.memory.available", "is given no value"),
        ("--set =5", "names no setting"), ("--set maxPods.x=5", "maxPods has no entry 'x'"),
        ("--set imageGCHighTresholdPercent=80", "there is no setting 'imageGCHighTresholdPercent'"),
        ("--set imageGCHighTresholdPercent=80", f"is it {PERCENT}"),
        ("--set evictionHard.memory=5%", "has no entry 'memory': there are"),
        ("--set evictionHard.memory.available=lots", "must be a quantity"),
        ("--set topologyManagerPolicy=strict", "must be one of none, best-effort"),
        ("--set featureGates.MemoryQoS=on", "must be true or false"), ("", "nothing is changed"),
        ("--kubelet-version 1.99.0", "1.99.0"),
    ),
    "why --ledger {a}": (
        ("node/default/gpu-a", "'node/default/gpu-a' is not of the form node or node/NAME"),
        ("''", "nothing is known as ''"),
        ("app", "ask for one of: container/default/live-fail/app "),
        ("pod/default/gpu-a/train", "is it pod/default/gpu-a or "),
        ("device/gpu-9", "is it device/example.com/gpu/gpu-"),
        ("image/", "is not of the form image/ID"), ("cgroup//", "is not of the form cgroup/PATH"),
        ("container/default/gpu-a/nope", "pod default/gpu-a has no container nope"),
        ("container/default/gpu-a/nope", "container/default/gpu-a/warmup"),
        ("container/default/gpu-c/nope", "one of: container/default/gpu-c/train"),
        ("container/default/never/nope", "no decision is about container/default/never/nope"),
        ("pod/default/never", "no decision is about pod/default/never"),
        ("pod/default/never", "hint: `kubeledger ls` shows"),
        ("pod/default/gpu-aa", "hint: is it pod/default/gpu-a or "),
        ("pod/kube-system/gpu-a", "hint: is it pod/default/gpu-a or "),
        ("container/kube-system/gpu-a/train", "hint: is it pod/default/gpu-a or "),
        ("pod/default/\x1b[2J", "\\x1b[2J"),
        ("pod/default/gpu-a --at 2026-11-21T02:53:00Z", "no decision is about pod/default/gpu-a"),
    ),
    "simulate": (
        ("", "Missing argument 'SCENARIO'"),
        ("{first} --duration soon", "'soon' is not a duration"),
        ("{first} --duration 0s", "'0s' is not a duration"),
    ),
    "audit --expect": (
        *((digest, "is not a chain digest")
          for digest in ("''", "dead", "node-a=", "x" * 64, "0" * 66)),
    ),
    "": (("frobnicate", "No such command"),),
}  # fmt: skip
"""Command -> what follows it, and what is said of it."""


@pytest.mark.parametrize(
    ("call", "message"),
    [(f"{command} {more}", says) for command, rows in WRONG.items() for more, says in rows],
)
def test_a_wrong_call(nodes: Nodes, query_ledger: Path, call: str, message: str) -> None:
    words = call.format(
        a=nodes.ledger("node-a"),
        recording=nodes.recording("node-a"),
        q=f"--ledger {query_ledger}",
        first=FIRST,
    )
    result = run(*shlex.split(words), input="", exits=2)
    assert message in result.stderr
    assert result.stdout == ""
    assert "\x1b" not in result.stderr
    assert result.stderr.startswith("Usage: ") or len(result.stderr.splitlines()) <= 2
