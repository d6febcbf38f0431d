"""Rows of log stores: the same records as from the plain log, whatever they are wrapped in."""

import bz2
import codecs
import json
import lzma
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.pipeline import Pipeline
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.envelope.json_rows import TOP, json_rows
from kubeledger.ingest.sources.envelope.lines import EnvelopeLines
from kubeledger.ingest.sources.envelope.rows import export_rows
from kubeledger.ingest.sources.items import Finding
from kubeledger.ingest.sources.packing import JOURNAL_MAGIC
from kubeledger.ingest.sources.prefix import is_entry
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.standing import Coverage
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import FindingReported, SourceAccount
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Body
from tests.fuzz.seeds import members, to_json_log
from tests.ingest.node_files import log_text
from tests.ingest.plans import plan_sources
from tests.ingest.sources.wrapping import (
    FORMS,
    NESTED,
    Line,
    in_time_order,
    journal_export,
    journal_json,
    lines_of,
    loki_text,
    talos,
)
from tests.tools import tool

_LINES = 500

Pack = Callable[[bytes], bytes]

_BROKEN = (b'{"MESS', b'{"a": "b\n', b"}}", b"\x00\xff\n", b'"', b"[{")


class Read(NamedTuple):
    """What was read of a node: records but for those about the import, places, the account."""

    records: list[tuple[int, Body]]
    places: list[tuple[int, str]]
    account: SourceAccount
    format: str
    findings: list[Finding]
    reported: list[FindingReported]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Kinds and messages of what was reported."""
        return [(each.finding, each.message) for each in self.reported]

    @property
    def counts(self) -> tuple[int, int]:
        """Lines understood and not understood."""
        return self.account.understood, self.account.not_understood


def read(path: Path) -> dict[str, Read]:
    found = {}
    spool = path.with_name(f"{path.name}.spool")
    for plan in plan_sources([str(path)], spool, ImportOptions()):
        pipeline = Pipeline(plan, Coverage({}))
        every = [*pipeline.facts()]
        facts = [fact for fact in every if not fact.body.kind.startswith("ledger.")]
        places = [
            (piece.line, piece.text)
            for fact in facts
            for piece in fact.evidence[:1]
            if piece.line is not None and piece.text is not None
        ]
        found[plan.context.node] = Read(
            [(fact.ts_ns, fact.body) for fact in facts],
            places,
            pipeline.totals()[0],
            plan.sources[0].format,
            plan.findings,
            [fact.body for fact in every if isinstance(fact.body, FindingReported)],
        )
    return found


def read_one(path: Path, content: bytes) -> Read:
    path.write_bytes(content)
    (only,) = read(path).values()
    return only


@cache
def log_of(node: str) -> str:
    """A recorded node's log: its beginning, and a part in which much happens."""
    (data,) = (
        data
        for name, data in members().items()
        if name.startswith(f"{node}-v") and name.endswith("/kubelet.log")
    )
    lines = data.decode().split("\n")
    begin = {"node-a": 900, "node-b": 5400}[node]
    return "".join(f"{line}\n" for line in lines[:200] + lines[begin : begin + _LINES - 200])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    """Node -> what is read of its log as the kubelet wrote it."""
    found = {}
    for node in ("node-a", "node-b"):
        path = tmp_path_factory.mktemp(node) / "kubelet.log"
        found[node] = read_one(path, log_of(node).encode())
        assert len(found[node].records) > 10
    return found


def rows_of(node: str, host: str = "") -> list[Line]:
    """The lines of a recorded node on their way into a store."""
    return lines_of(log_of(node), host or node)


@pytest.mark.parametrize(("number", "file"), [*enumerate(FORMS)])
def test_records_are_those_of_the_plain_log(
    number: int, file: str, tmp_path: Path, plain: dict[str, Read]
) -> None:
    """Each form gives the records, times and counts of the plain log, and names its rows."""
    form, wrap = FORMS[file]
    node = ("node-a", "node-b")[number % 2]
    newest_first = number % 4 > 1 and file != "docker.log"  # that is written line by line
    lines = in_time_order(rows_of(node), newest_first=newest_first)
    found = read_one(tmp_path / file, wrap(lines))
    assert found.format == form
    assert found.records == plain[node].records
    assert found.counts == plain[node].counts
    assert found.account.lines == plain[node].account.lines
    host = "localhost" if file == "docker.log" else node
    assert all(f" {host} kubelet" in text for _, text in found.places)
    content = (tmp_path / file).read_text(errors="replace").split("\n")
    for number, text in found.places:
        message = text.partition(": ")[2]
        if len(message) < 100 and '"' not in message:
            assert message in "\n".join(content[number - 1 : number + 25])


@pytest.mark.parametrize("file", NESTED)
def test_rows_in_rows(file: str, tmp_path: Path, plain: dict[str, Read]) -> None:
    """A message that is a row, or a line of syslog, itself; several answers in one file."""
    form, wrap = NESTED[file]
    found = read_one(tmp_path / file, wrap(rows_of("node-b")))
    assert found.format == form
    assert found.records == plain["node-b"].records
    assert found.counts == plain["node-b"].counts
    assert all(" node-b kubelet" in text for _, text in found.places)


@pytest.mark.parametrize("prefix", ["", "172.20.0.2: "])
def test_talos(prefix: str, tmp_path: Path) -> None:
    """What Talos' sender makes of klog's JSON, and what ``talosctl logs`` shows of it."""
    texts = to_json_log(log_of("node-b").encode()).decode().split("\n")
    entries = [text for text in texts if text.startswith('{"ts":')]
    assert any('"err"' in text for text in entries)
    bare = read_one(tmp_path / "kubelet.log", "".join(f"{text}\n" for text in entries).encode())
    if prefix:
        content = "".join(f"{prefix}{text}\n" for text in entries).encode()
    else:
        content = talos(lines_of("\n".join(entries), "node-b"))
    found = read_one(tmp_path / "talos.log", content)
    assert found.format == ("klog-json" if prefix else "talos")
    assert found.records == bare.records
    assert found.counts == bare.counts


def test_lines_of_a_row_are_told_by_its_place(tmp_path: Path, plain: dict[str, Read]) -> None:
    """Rows of a line each: a record stands in the line in which its message does."""
    found = read_one(tmp_path / "journal.json", journal_json(rows_of("node-a")))
    assert [line for line, _ in found.places] == [line for line, _ in plain["node-a"].places]
    turned = in_time_order(rows_of("node-a"), newest_first=True)
    found = read_one(tmp_path / "journal.json", journal_json(turned))
    assert [_LINES + 1 - line for line, _ in found.places] == [
        line for line, _ in plain["node-a"].places
    ]


@pytest.mark.parametrize(
    "file",
    [
        "journal.json",
        "journal.export",
        "loki.json",
        "logcli.txt",
        "otlp.json",
        "log-analytics.json",
        "search.json",
    ],
)
def test_nodes_and_units_are_told_apart(file: str, tmp_path: Path, plain: dict[str, Read]) -> None:
    """Two nodes' lines, newest first, with other programs between: each node has its own."""
    noise = [
        Line(line.ts_ns + 1, "node-a", unit, "E1121 02:52:41.296376 1 x.go:1] not the kubelet's")
        for line, unit in zip(rows_of("node-a")[::50], ["containerd", "sshd"] * 5, strict=True)
    ]
    lines = in_time_order(rows_of("node-a"), rows_of("node-b"), noise, newest_first=True)
    path = tmp_path / file
    path.write_bytes(FORMS[file][1](lines))
    found = read(path)
    assert sorted(found) == ["node-a", "node-b"]
    for node, each in found.items():
        assert each.records == plain[node].records
        assert each.counts == plain[node].counts
    assert found["node-a"].account.lines == _LINES + len(noise)
    assert found["node-b"].account.lines == _LINES
    message = f"{len(noise)} rows of other programs left out"
    assert ("other_programs", message) in found["node-a"].told


def test_kept_sources_hold_one_nodes_rows(tmp_path: Path, plain: dict[str, Read]) -> None:
    """What the ledger keeps of a file of two nodes is read again as the node's."""
    path = tmp_path / "journal.json"
    lines = in_time_order(rows_of("node-a"), rows_of("node-b"), newest_first=True)
    path.write_bytes(journal_json(lines))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(path)], ledger)
    assert not any(each.added for each in import_sources([str(path)], ledger).bundles)
    pods = tmp_path / "pods.json"
    pods.write_text('{"kind": "PodList", "apiVersion": "v1", "items": []}')
    (again,) = import_sources([str(pods)], ledger, ImportOptions(node="node-a")).bundles
    assert again.added
    own = [each for each in ledger.records("node-a") if not each.kind.startswith("ledger.")]
    assert [(each.ts_ns, each.body) for each in own] == plain["node-a"].records
    content = path.read_bytes().split(b"\n")
    for line in (each.evidence[0].line for each in own if each.evidence):
        assert line is not None
        assert b'"node-a"' in content[line - 1]


def test_rows_that_are_there_twice(tmp_path: Path, plain: dict[str, Read]) -> None:
    """A store that delivers at least once: rows count once."""
    rows = [*journal_json(rows_of("node-b")).splitlines(keepends=True)]
    doubled = rows[: _LINES // 2] + rows[_LINES // 4 :]
    found = read_one(tmp_path / "journal.json", b"".join(doubled))
    assert found.records == plain["node-b"].records
    assert found.account.repeated == _LINES // 2 - _LINES // 4
    assert ("delivered_twice", f"{_LINES // 4} rows stand in it once more: read once") in found.told
    assert found.account.lines == len(doubled)


def _in_blocks(log: bytes) -> list[list[Line]]:
    """The entries of a log, each with the lines that follow it, at its time."""
    blocks: list[list[Line]] = []
    for line in lines_of(log.decode(), "node-b"):
        if is_entry(line.text.encode()):
            blocks.append([line])
        else:
            blocks[-1].append(line._replace(ts_ns=blocks[-1][0].ts_ns))
    return blocks


def _without_ids(*blocks: list[Line]) -> bytes:
    """Rows of a store that gives them no identifier."""
    rows = (
        {"MESSAGE": line.text, "__REALTIME_TIMESTAMP": f"{line.ts_ns // 1000}"}
        | {"_HOSTNAME": line.host, "SYSLOG_IDENTIFIER": "kubelet"}
        for block in blocks
        for line in block
    )
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("later_ns", "cut", "repeated"), [(0, 0, 0), (0, 0, None), (0, 90, 90), (1000, 0, None)]
)
def test_rows_of_one_entry(later_ns: int, cut: int, repeated: int | None, tmp_path: Path) -> None:
    """What follows an entry (``},``) is read as often as it stands there, however delivered."""
    (log,) = (d for n, d in members().items() if re.fullmatch(r"node-b-v.*/kubelet.log", n))
    plain = read_one(tmp_path / "kubelet.log", b"".join(log.splitlines(keepends=True)[:900]))
    blocks = [
        [first, *(line._replace(ts_ns=line.ts_ns + later_ns) for line in rest)]
        for first, *rest in _in_blocks((tmp_path / "kubelet.log").read_bytes())
    ]
    long = max(range(len(blocks)), key=lambda at: len(blocks[at]))
    assert len({line.text for line in blocks[long]}) < len(blocks[long])
    again = blocks[long] if repeated is None else blocks[long][:cut]
    rows = _without_ids(*blocks[:long], again, *blocks[long:])
    found = read_one(tmp_path / "journal.json", rows)
    assert found.records == plain.records
    assert found.account.repeated == len(again)


@pytest.mark.parametrize(
    "file",
    [
        "journal.json",
        "journal-pretty.json",
        "cloud-logging.json",
        "journal.export",
        "get-log-events.json",
    ],
)
def test_broken_rows_cost_themselves_only(
    file: str, tmp_path: Path, plain: dict[str, Read]
) -> None:
    """Bytes that are no row, before rows in the middle: all others are read."""
    content = FORMS[file][1](rows_of("node-a"))
    begins = {"get-log-events.json": b'{"timestamp"', "cloud-logging.json": b"  {\n"}
    begin = begins.get(file, b"{" if content.startswith(b"{") else b"__CURSOR")
    end = b"\n" if b"\n" in content else b""
    for number, broken in enumerate(_BROKEN, 1):
        near = len(content) * number // (len(_BROKEN) + 1)
        place = content.find(end + begin, near) + len(end)
        content = content[:place] + broken + content[place:]
    found = read_one(tmp_path / file, content)
    assert plain["node-a"].account.lines - found.account.lines <= len(_BROKEN)
    missing = [each for each in plain["node-a"].records if each not in found.records]
    assert len(missing) <= 2 * len(_BROKEN)  # a line may make two records
    assert found.account.not_understood <= 2 * len(_BROKEN)
    assert found.account.lines > plain["node-a"].account.lines - len(_BROKEN)


def test_versions_of_several_kubelets_newest_first(tmp_path: Path) -> None:
    """Each process has the version that it states itself, in whatever order rows stand."""
    logs = [
        log_text(pid=10, seconds=5).replace("v1.36.2", "v1.35.1"),
        log_text(pid=20, seconds=5, first=10),
    ]
    lines = lines_of("".join(logs), "node-x")
    path = tmp_path / "journal.json"
    path.write_bytes(journal_json(in_time_order(lines, newest_first=True)))
    (found,) = read(path).values()
    started = [body for _, body in found.records if isinstance(body, KubeletStarted)]
    assert [(each.pid, each.kubelet_version) for each in started] == [
        (10, "1.35.1"),
        (20, "1.36.2"),
    ]


def test_the_zone_of_the_node(tmp_path: Path) -> None:
    """Rows tell UTC, the kubelet's stamps its node's clock: records are of UTC."""
    bare = read_one(tmp_path / "kubelet.log", log_text().encode())
    hours_ns = -3 * 3600 * 10**9 - 1800 * 10**9
    lines = [line._replace(ts_ns=line.ts_ns + hours_ns) for line in lines_of(log_text(), "node-x")]
    found = read_one(tmp_path / "journal.json", journal_json(lines))
    assert found.records == [(ts_ns + hours_ns, body) for ts_ns, body in bare.records]


def test_rows_without_a_time_or_a_message(tmp_path: Path, plain: dict[str, Read]) -> None:
    """A row without a time is of the time of the one above; one without a message is counted."""
    rows = [json.loads(row) for row in journal_json(rows_of("node-a")).splitlines()]
    for row in rows[10:40]:
        del row["__REALTIME_TIMESTAMP"]
    rows.insert(100, {**rows[100], "MESSAGE": None, "__CURSOR": "x"})
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    found = read_one(tmp_path / "journal.json", content)
    assert found.records == plain["node-a"].records
    assert found.account.not_understood == plain["node-a"].account.not_understood + 1


def test_rows_cut_at_16_kib(tmp_path: Path) -> None:
    """A message that a store cuts is told as any line that is cut."""
    head = 'I1121 02:52:41.296376    8337 prober.go:113] "Probe failed" probeType="Liveness" pod='
    text = f'{head}"default/web" output="{"x" * (16 << 10)}'[: 16 << 10]
    lines = lines_of(f"{text}\n{log_of('node-a')}", "node-a")
    (tmp_path / "kubelet.log").write_text("".join(f"{line.text}\n" for line in lines))
    (bare,) = read(tmp_path / "kubelet.log").values()
    found = read_one(tmp_path / "journal.json", journal_json(lines))
    assert found.records == bare.records
    assert found.counts == bare.counts


_NESTED = b'[{"message":"x"},' + b"[" * 5000


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"events": []}', b'{"events": [', b"{}\n{}\n", _NESTED]
)
def test_no_rows(content: bytes, tmp_path: Path) -> None:
    """A file without rows is refused with the reason."""
    path = tmp_path / "events.json"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match="holds nothing that can be imported"):
        read(path)


def test_an_unknown_form_is_refused_with_what_is_accepted(tmp_path: Path) -> None:
    """JSON of no known store: its keys are named, and the formats that would do."""
    path = tmp_path / "kubelet.json"
    path.write_text(json.dumps({"words": log_of("node-a")[:500], "when": 5}) + "\n")
    with pytest.raises(
        BadInputError, match=r"JSON \(keys: words, when\) that is neither"
    ) as caught:
        read(path)
    assert "docs/sources.md lists all formats" in str(caught.value.advice)


def test_rows_of_others_only(tmp_path: Path) -> None:
    """Rows of a known form of which none is a kubelet's are refused, and say so."""
    lines = [Line(10**18 + n * 1000, "n", "sshd", "Accepted publickey") for n in range(5)]
    path = tmp_path / "journal.json"
    path.write_bytes(journal_json(lines))
    with pytest.raises(BadInputError, match="none near the beginning is a kubelet's"):
        read(path)


# -- what files are packed in --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("kubelet.log.xz", lzma.compress),
        ("kubelet.log.lzma", lambda data: lzma.compress(data, lzma.FORMAT_ALONE)),
        ("kubelet.log.bz2", bz2.compress),
        ("kubelet.log", lambda data: codecs.BOM_UTF8 + data),
        ("utf16.log", lambda data: data.decode().encode("utf-16")),
        ("utf16le.log", lambda data: data.decode().encode("utf-16-le")),
        ("utf16be.log", lambda data: data.decode().encode("utf-16-be")),
        ("windows.log", lambda data: codecs.BOM_UTF8 + data.replace(b"\n", b"\r\n")),
        ("windows16.log", lambda data: data.decode().replace("\n", "\r\n").encode("utf-16")),
    ],
)
def test_packed(name: str, pack: Pack, tmp_path: Path, plain: dict[str, Read]) -> None:
    """However a log is packed or coded, its first line is not lost."""
    found = read_one(tmp_path / name, pack(log_of("node-a").encode()))
    assert found.records == plain["node-a"].records
    assert found.places[0][0] == plain["node-a"].places[0][0]
    assert found.counts == plain["node-a"].counts


@pytest.mark.parametrize("pack", [lzma.compress, lambda data: bz2.compress(data, 1)])
def test_packed_and_cut(pack: Pack, tmp_path: Path) -> None:
    """What stands before the cut is read, and a finding says that there was more."""
    data = pack(log_of("node-b").encode() * 3)
    found = read_one(tmp_path / "kubelet.log", data[: len(data) * 2 // 3])
    assert found.records
    assert [each.finding for each in found.findings if each.finding == "truncated"]


@pytest.mark.parametrize("padding", [4, 6000])
def test_several_streams_of_xz(padding: int, tmp_path: Path, plain: dict[str, Read]) -> None:
    """Zero bytes stand between and behind streams, so many that blocks are full."""
    log, zeros = log_of("node-a").encode(), bytes(padding)
    streams = (lzma.compress(log[:20000]), lzma.compress(log[20000:]))
    found = read_one(tmp_path / "kubelet.log.xz", zeros.join((*streams, b"")))
    assert (found.records, found.findings) == (plain["node-a"].records, plain["node-a"].findings)


def test_rows_in_xz(tmp_path: Path, plain: dict[str, Read]) -> None:
    content = lzma.compress(journal_json(rows_of("node-b")))
    assert read_one(tmp_path / "x.json.xz", content).records == plain["node-b"].records


def test_a_journal_file(tmp_path: Path, plain: dict[str, Read]) -> None:
    boot = "_BOOT_ID=6c1e2b1f3a1d4c0f9d4a4d5e6f708192\n"
    rows = [
        each.decode().replace("__REALTIME", f"{boot}__REALTIME")
        for each in journal_export(rows_of("node-b")).split(b"\n\n")
        if each and b"MESSAGE\n" not in each
    ]
    export = "".join(
        "\n".join(line for line in row.split("\n") if not line.startswith("__CURSOR")) + "\n\n"
        for row in rows
    )
    journal = tmp_path / "system.journal"
    subprocess.run(
        [tool("systemd-journal-remote"), f"--output={journal}", "-"],
        input=export.encode(),
        check=True,
        capture_output=True,
    )
    assert journal.read_bytes().startswith(JOURNAL_MAGIC)
    (found,) = read(journal).values()
    expected = read_one(tmp_path / "x.export", export.encode())
    assert found.records == expected.records
    assert found.format == "journal-export"


def test_a_journal_without_journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "system.journal"
    path.write_bytes(JOURNAL_MAGIC + bytes(500))
    with pytest.raises(BadInputError, match="no journalctl") as caught:
        read(path)
    assert "journalctl --file system.journal -o export" in str(caught.value.advice)


# -- rows ----------------------------------------------------------------------------------


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_rows_do_not_depend_on_chunks(size: int) -> None:
    """Wherever the content is cut, the rows are the same."""
    lines = rows_of("node-a")[:12]
    for wrap in (journal_json, FORMS["journal-pretty.json"][1]):
        data = wrap(lines)[:-9]
        assert [*json_rows(_cut(data, size), TOP)] == [*json_rows(iter((data,)), TOP)]
    data = journal_export(lines)[:-9]
    assert [*export_rows(_cut(data, size))] == [*export_rows(iter((data,)))]


def test_labels_of_logcli(tmp_path: Path, plain: dict[str, Read]) -> None:
    """Labels that all lines share are told once; lines of an entry may follow bare."""
    content = loki_text(rows_of("node-b")).replace(b', node_name="node-b"', b"")
    found = read_one(tmp_path / "logcli.txt", b'Common labels: {node_name="node-b"}\n' + content)
    assert found.records == plain["node-b"].records


@pytest.mark.parametrize(
    ("order", "boots", "expected"),
    [
        ("1023", "aaab", "0123"),
        ("1023", "aab-", "2013"),
        ("1023", "----", "2013"),
        ("0123", "aaaa", "2013"),
    ],
)
def test_a_clock_that_is_set_back_moves_no_rows(
    order: str, boots: str, expected: str, tmp_path: Path
) -> None:
    """A journal goes by the time since the boot, where each of its rows tells it."""
    times = ((100, 7), (101, 8), (96, 9), (200, 2))
    rows = [
        {"MESSAGE": f"I0101 {at}", "__REALTIME_TIMESTAMP": f"{wall_s}000000"}
        | {"_BOOT_ID": boot.strip("-"), "__MONOTONIC_TIMESTAMP": f"{since_s}000000"}
        for at, ((wall_s, since_s), boot) in enumerate(zip(times, boots, strict=True))
    ]
    path = tmp_path / "journal.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in (rows[int(at)] for at in order)))
    lines = EnvelopeLines(SourceFile(path.name, path), "journal-json").chunks()
    assert "".join(line[-1] for line in b"".join(lines).decode().splitlines()) == expected
