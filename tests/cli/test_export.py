"""``kubeledger export``."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from kubeledger.analyze.histories.history import histories_of_ledger, histories_of_recording
from kubeledger.analyze.sql.exports import event_lines
from kubeledger.analyze.sql.listing import body_of
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording
from kubeledger.model.record import Evidence, Record
from tests.cli.conftest import Run
from tests.cli.nodes import run
from tests.ledger.making import append, batch, import_of, ledger_of


def exported(ask: Run, tmp_path: Path, *args: str) -> list[Record]:
    out = tmp_path / "out.ledger.jsonl"
    result = ask("export", *args, "--out", str(out), exits=0)
    records = list(read_recording(out))
    assert f"{len(records)} record" in result.stderr
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    return records


def test_the_ledger_s_own_lines(ask: Run, query_ledger: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(query_ledger)
    own = b"".join(raw.line for raw in ledger.raw_lines("node-a"))
    assert ask("export", "--format", "jsonl").stdout_bytes == own
    for name in ("a.ledger.jsonl", "a.ledger.jsonl.zst"):
        assert ask("export", "--out", str(tmp_path / name)).exit_code == 0
        assert list(read_recording(tmp_path / name)) == list(ledger.records("node-a"))
    assert (tmp_path / "a.ledger.jsonl").read_bytes() == own


def test_several_nodes(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 5))
    append(ledger, batch(0, 2), node="other")
    arguments = ["export", "--ledger", str(ledger.path)]
    all_ = run(*arguments)
    assert len(all_.stdout.splitlines()) == 7
    one = run(*arguments, "--node", "other")
    assert one.stdout.splitlines() == all_.stdout.splitlines()[5:]


def test_a_filter_keeps_what_readers_need(ask: Run, query_ledger: Path, tmp_path: Path) -> None:
    """The kubelet, its settings and pod lists stay; numbers and causes are given anew."""
    records = exported(ask, tmp_path, "--kind", "preemption.*")
    kinds = [record.kind.split(".")[1] for record in records]
    assert kinds.count("PodPreempted") + kinds.count("PreemptionFailed") == 2
    assert {"KubeletStarted", "SettingsObserved", "PodListed"} < set(kinds)
    assert "ProbeExecuted" not in kinds
    whole = {record.seq: record for record in Ledger.open(query_ledger).records("node-a")}
    kept = exported(ask, tmp_path, "--kind", "prober.*")
    linked = [record for record in kept if record.cause is not None]
    assert linked
    for record in linked:
        assert record.cause is not None
        (original,) = (
            one for one in whole.values()
            if (one.ts_ns, one.body) == (record.ts_ns, record.body)
        )  # fmt: skip
        assert original.cause is not None
        assert kept[record.cause - 1].body == whole[original.cause].body


def test_a_filter_that_nothing_passes(ask: Run) -> None:
    """What every reader needs is written all the same, and said to be all."""
    result = ask("export", "--pod", "default/trian", exits=0)
    assert 0 < len(result.stdout.splitlines()) < 10
    assert result.stderr == (
        "warning: no matching records; is it pod default/train? (what was written is what every "
        "reader needs)\n"
    )
    assert ask("export", "--pod", "default/train").stderr == ""
    assert ask("export", "--kind", "Nope*").stderr.startswith("warning: no matching records")


def test_a_pod_and_a_time(ask: Run, tmp_path: Path) -> None:
    """Only that pod's lists; nothing after the end, but the kubelet's start before it."""
    records = exported(ask, tmp_path, "--pod", "default/train", "--since", "2026-11-21T03:00:05Z")
    names = {getattr(record.body, "pod", None) or "train" for record in records}
    assert names == {"train"}
    early = exported(ask, tmp_path, "--until", "2026-11-21T03:00:02Z")
    assert [record.kind for record in early] == ["node.KubeletStarted"]


def test_imports_that_overlap(tmp_path: Path) -> None:
    """A recording is read line by line: it stands in the order of replay, numbered anew."""
    ledger = ledger_of(tmp_path / "l", import_of([10, 30], "a"), import_of([5, 20], "b"))
    out = tmp_path / "out.ledger.jsonl"
    run("export", "--ledger", ledger.path, "--out", out, exits=0)
    (of_file,), (of_ledger,) = histories_of_recording(out), histories_of_ledger(ledger)
    bodies = [record.body for record in of_file.read(None)]
    assert bodies == [record.body for record in of_ledger.read(None)]
    times = [record.ts_ns for record in of_file.read(None)]
    assert times == sorted(times)


def test_a_key_that_nothing_is_redacted_with(
    ask: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives one believes the records redacted: none is written."""
    out = tmp_path / "x.ledger.jsonl"
    result = ask("export", "--redact-key", "secret", "--out", str(out), exits=2)
    assert "hint: give --redact, too" in result.stderr
    assert (result.stdout, out.exists()) == ("", False)
    monkeypatch.setenv("KUBELEDGER_REDACT_KEY", "secret")  # stands there for all exports
    assert ask("export", "--out", str(out)).exit_code == 0
    assert out.read_bytes() == ask("export").stdout_bytes


def test_nothing_half_written(ask: Run, tmp_path: Path) -> None:
    """A damaged ledger leaves the file as it was; a place that is not there is an error."""
    ledger = ledger_of(tmp_path / "l", batch(0, 5))
    (segment,) = (tmp_path / "l").rglob("*.jsonl")
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b'"seq":4', b'"seq":9'))
    out = tmp_path / "out.ledger.jsonl"
    out.write_text("before")
    arguments = ["export", "--ledger", str(ledger.path), "--out", str(out)]
    run(*arguments, exits=4)
    assert out.read_text() == "before"
    assert list(tmp_path.glob("out*")) == [out]
    assert ask("export", "--out", str(tmp_path / "no" / "x")).exit_code != 0


# --- CloudEvents --------------------------------------------------------------------

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_URI_REFERENCE = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_REQUIRED = {"id", "source", "specversion", "type"}
_OPTIONAL = {"subject", "time", "datacontenttype", "data"}
_EXTENSIONS = {"node", "seq", "role", "cause", "evidence"}


def checked(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Events of JSON lines, each as CloudEvents 1.0 and its JSON format have them."""
    events = [json.loads(line) for line in lines]
    for event in events:
        assert _REQUIRED <= event.keys() <= _REQUIRED | _OPTIONAL | _EXTENSIONS
        assert event["specversion"] == "1.0"
        assert _URI_REFERENCE.fullmatch(event["source"])
        assert re.fullmatch(r"io\.kubeledger\.\w+\.\w+\.v\d+", event["type"])
        assert _TIME.fullmatch(event["time"])
        assert event["datacontenttype"] == "application/json"
        for name, value in event.items():
            assert re.fullmatch("[a-z0-9]{1,20}", name)
            if name in {"seq", "cause"}:
                assert type(value) is int
                assert -(1 << 31) <= value < 1 << 31
            elif name != "data":
                assert isinstance(value, str)
                assert value
                assert not re.search("[\x00-\x1f\x7f-\x9f]", value)
    assert len({(event["source"], event["id"]) for event in events}) == len(events)
    return events


def test_cloudevents(ask: Run, query_ledger: Path, tmp_path: Path) -> None:
    """An event a record; the same ids at every export, of all or of some."""
    events = checked(ask("export", "--format", "cloudevents").stdout.splitlines())
    records = list(Ledger.open(query_ledger).records("node-a"))
    bodies = [json.loads(msgspec.json.encode(body_of(record))) for record in records]
    assert [event["data"] for event in events] == bodies
    for event, record in zip(events, records, strict=True):
        assert (event["seq"], event["role"], event.get("cause")) == (
            record.seq,
            record.role,
            record.cause,
        )
        assert event["type"] == f"io.kubeledger.{record.kind}.v{record.v}"
    out = tmp_path / "events.jsonl"
    result = ask("export", "--format", "cloudevents", "--pod", "default/train", "--out", str(out))
    assert f"in {out}" in result.stderr
    some = checked(out.read_text().splitlines())
    assert 0 < len(some) < len(events)
    assert all(event in events for event in some)
    assert {event["subject"].partition("/")[0] for event in some} <= {"default", "u-train"}


def test_cloudevents_of_others(ask: Run) -> None:
    command = ("export", "--format", "cloudevents", "--redact", "--pod", "default/train")
    result = ask(*command)
    events = checked(result.stdout.splitlines())
    assert len(events) > 1
    assert "train" not in result.stdout


def test_parquet(ask: Run, query_ledger: Path, tmp_path: Path) -> None:
    out = tmp_path / "node.parquet"
    ask("export", "--format", "parquet", "--out", str(out))
    with duckdb.connect() as connection:
        rows = connection.sql(
            f"SELECT seq, kind, len(evidence) FROM read_parquet('{out}')"
        ).fetchall()
    records = Ledger.open(query_ledger).records("node-a")
    assert rows == [(each.seq, each.kind, len(each.evidence)) for each in records]
    some = tmp_path / "some.parquet"
    ask("export", "--format", "parquet", "--kind", "prober.*", "--out", str(some))
    with duckdb.connect() as connection:
        kinds = connection.sql(f"SELECT DISTINCT kind FROM read_parquet('{some}')").fetchall()
    assert kinds
    assert all(kind.startswith("prober.") for (kind,) in kinds)


def test_a_hostile_record_as_an_event(query_ledger: Path) -> None:
    """No control character reaches an attribute; a document has no line."""
    record = next(Ledger.open(query_ledger).records("node-a"))
    place = (Evidence(file="a\nb\x1b.json"),)
    hostile = msgspec.structs.replace(record, node="n\x00 \u00e9", evidence=place)
    (event,) = checked([line.decode() for line in event_lines([hostile])])
    assert event["evidence"] == "a\ufffdb\ufffd.json"
    assert event["source"] == "node/n%00%20%C3%A9"
