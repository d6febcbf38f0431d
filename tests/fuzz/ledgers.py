"""Targets: ledgers, recordings and their parts, as someone else may have made them."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from zlib import crc32

import zstandard

from kubeledger.analyze.histories.history import histories_of_recording
from kubeledger.analyze.why import explain, parse_target
from kubeledger.ledger.audit import audit
from kubeledger.ledger.audit_walk import audit_recording
from kubeledger.ledger.history.history import History as ParquetHistory
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.sealing import compress
from kubeledger.ledger.standalone import read_recording
from kubeledger.model.errors import BadInputError, KubeledgerError
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import (
    GENESIS,
    BadLineError,
    chained,
    check_line,
    decode_envelope,
    decode_line,
    encode_line,
)
from kubeledger.replay import state_at
from kubeledger.replay.node.state import PARTS, canonical_json
from kubeledger.replay.snapshotting import refresh_snapshots
from tests.fuzz import seeds
from tests.fuzz.importing import stored_ledger
from tests.fuzz.mutators import Mutator, mutate_alike, mutate_json, mutate_text, mutate_value
from tests.fuzz.target import Target, contents, holds, scratch

_ENVELOPE = ("node", "seq", "ts_ns", "role", "kind", "v", "cause", "evidence", "body")
_TARGETS = ("pod/default/web", "container/default/web/app", "image/sha256:1", "cgroup/kubepods")


def _reframed(lines: Sequence[bytes]) -> bytes:
    """Lines with CRC and chain made to fit: what a hostile author would do."""
    out, digest = [], GENESIS
    for line in lines:
        payload = line.partition(b',"chain":"')[0].rstrip(b"\n")
        frame, digest = chained(payload, digest)
        out.append(payload + frame)
    return b"".join(out)


def _mutated_lines(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Bodies and envelopes changed, then framed anew; now and then only bytes are changed."""
    if random.randrange(4) == 0:
        return mutate_text(random, data, others)
    lines = data.splitlines()
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(lines)) if lines else 0
        try:
            record = json.loads(lines[at])
        except (IndexError, ValueError, RecursionError):
            return mutate_text(random, data, others)
        if not isinstance(record, dict):
            return mutate_text(random, data, others)
        match random.randrange(12):
            case 0:
                record = mutate_value(random, record, others)
            case 1:
                record["body"] = mutate_value(random, record.get("body"), others)
            case 2:
                record = mutate_alike(random, record)
            case _:
                record["body"] = mutate_alike(random, record.get("body"))
        match random.randrange(12):
            case 0:
                lines.insert(random.randrange(len(lines)), lines[at])
            case 1:
                del lines[at]
                continue
            case _:
                pass
        if isinstance(record, dict):
            plain = {key: record[key] for key in _ENVELOPE if key in record}
            text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
            lines[min(at, len(lines) - 1)] = text.encode("utf-8", "surrogatepass")[:-1]
    return _reframed(_numbered(lines) if random.randrange(2) else lines)[: 256 << 10]


def _numbered(lines: list[bytes]) -> list[bytes]:
    pattern = re.compile(rb'"seq":-?\d+')
    return [
        pattern.sub(b'"seq":%d' % number, line, count=1) for number, line in enumerate(lines, 1)
    ]


def _line(data: bytes) -> None:
    """One line: refused as what it is, or a record that says the same when written again."""
    line = data[: data.find(b"\n") + 1] or data
    with suppress(BadLineError):
        decode_envelope(line)
    with suppress(BadLineError):
        check_line(line, GENESIS)
    try:
        record = decode_line(line)
    except BadLineError:
        return
    with suppress(BadLineError):
        again = decode_line(encode_line(record)[0])
        holds(again == record, "a record changed on its way through a line")


def _recording(data: bytes) -> None:
    """A recording: audited, read, folded, decided again, explained."""
    with scratch() as root:
        path = Path(root) / "x.ledger.jsonl"
        path.write_bytes(data)
        with suppress(BadInputError):
            findings = audit_recording(path).findings
            sound = all(finding.is_loss for finding in findings)
            holds(not sound or _is_readable(path), "an audit passed what no reader takes")
        for _ in read_recording(path):
            pass
        for history in histories_of_recording(path):
            for _ in history.verify():
                pass
            for target in _TARGETS:
                explain(history, parse_target(target))


def _is_readable(path: Path) -> bool:
    try:
        for _ in read_recording(path):
            pass
    except BadInputError:
        return False
    return True


def _ledger_of(data: bytes) -> None:
    """The same lines as the segment of a ledger: state, snapshots, audit, Parquet."""
    first = data.partition(b"\n")[0]
    try:
        node = decode_envelope(first).node
    except BadLineError:
        node = "node-x"
    with scratch() as root:
        ledger = Ledger.create(Path(root) / "ledger")
        safe = "".join(c if c in "abcdefghijklmnopqrstuvwxyz0123456789-" else "" for c in node)
        segments = ledger.path / "nodes" / (safe or "n") / "segments"
        segments.mkdir(parents=True)
        (segments / f"{1:020d}.jsonl").write_bytes(data)
        _use(Ledger.open(ledger.path))


def _use(ledger: Ledger) -> list[Record]:
    """Every way of reading a ledger; each may refuse, none may fail."""
    audit(ledger)
    records = list(ledger.records())
    for node in ledger.nodes():
        canonical_json(state_at(ledger, node), list(PARTS))
        refresh_snapshots(ledger, node, every=3)
        canonical_json(state_at(ledger, node), list(PARTS))
    return records


# --- parts of a directory -----------------------------------------------------------


@cache
def _template() -> dict[str, bytes]:
    """A ledger with a sealed segment, an open one, snapshots and a Parquet history."""
    with scratch() as root:
        files = stored_ledger()
        for name, content in files.items():
            (Path(root) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(root) / name).write_bytes(content)
        ledger = Ledger.open(root)
        for node in ledger.nodes():
            refresh_snapshots(ledger, node, every=10)
        with scratch() as spill:
            ParquetHistory(ledger, Path(spill)).cover(grow_bytes=0)
        made = contents(Path(root))
    (segment,) = (name for name in made if name.endswith(".jsonl"))
    sealed = BytesIO()
    compress(BytesIO(made[segment]), sealed, 3)
    made["sealed"] = sealed.getvalue()
    return made


@cache
def _whole() -> tuple[Record, ...]:
    lines = next(data for name, data in _template().items() if name.endswith(".jsonl"))
    return tuple(decode_line(line) for line in lines.splitlines(keepends=True))


def _part(pattern: str) -> str:
    return next(name for name in _template() if re.search(pattern, name))


def _with_part(pattern: str, data: bytes, *, may_differ: bool = False) -> None:
    """A ledger of which one file is another's work: what is read is right, or refused.

    But for lines that were framed anew: only a digest kept elsewhere tells these.
    """
    changed = _part(pattern)
    with scratch() as root:
        for name, content in _template().items():
            if name == "sealed" and changed != name:
                continue
            path = Path(root) / name
            if changed == "sealed" and name.endswith(".jsonl"):
                continue
            if name == "sealed":
                path = Path(root) / _part(r"\.jsonl$").replace(".jsonl", ".jsonl.zst")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if name == changed else content)
        read: list[Record] = []
        ledger = Ledger.open(root)
        try:
            for record in ledger.records():
                read.append(record)
            _use(ledger)
            with scratch() as spill:
                ParquetHistory(ledger, Path(spill)).cover()
            with ledger.writer():
                pass
            read = list(ledger.records())
        finally:
            if not may_differ:
                holds(tuple(read) == _whole()[: len(read)], "other records were read")
            with suppress(KubeledgerError):
                audit(ledger)


def _with_crc(
    pattern: re.Pattern[bytes], frame: Callable[[bytes], bytes], end: bytes = b""
) -> Mutator:
    """Change a file's JSON, and now and then fit its CRC."""

    def mutate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        match = pattern.fullmatch(data)
        if match is None or random.randrange(4) == 0:
            return mutate_text(random, data, others)
        return frame(mutate_json(random, match[1] + end, others))

    return mutate


def _manifest(text: bytes) -> bytes:
    body = text.removesuffix(b"}")
    return body + b',\n  "crc": "%08x"\n}\n' % crc32(body)


_MANIFEST = re.compile(rb"(.*),\n  \"crc\": \"[0-9a-f]{8}\"\n\}\n", re.DOTALL)
_INDEX = re.compile(rb"(.*)\n[0-9a-f]{8}\n", re.DOTALL)


def _mutated_snapshot(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Header and state changed, CRC fitted."""
    head, newline, packed = data[:-9].partition(b"\n")
    if not newline or random.randrange(4) == 0:
        return mutate_text(random, data, others)
    if random.randrange(3) == 0:
        return _snapshot(mutate_json(random, head, others), packed)
    try:
        state = zstandard.ZstdDecompressor().decompress(packed, max_output_size=1 << 24)
    except zstandard.ZstdError:
        return mutate_text(random, data, others)
    state = mutate_json(random, state, others)
    header = re.sub(rb'"size_bytes":\d+', b'"size_bytes":%d' % len(state), head)
    return _snapshot(header, zstandard.ZstdCompressor().compress(state))


def _snapshot(head: bytes, packed: bytes) -> bytes:
    content = head + b"\n" + packed
    return content + b"%08x\n" % crc32(content)


def _mutated_sealed(random: Random, _: bytes, others: Sequence[bytes]) -> bytes:
    """Lines that were changed and framed anew, in sound compression."""
    lines = next(data for name, data in _template().items() if name.endswith(".jsonl"))
    out = BytesIO()
    compress(BytesIO(_mutated_lines(random, lines, others)), out, 1)
    return out.getvalue()


def _of_directory(name: str, pattern: str, mutate: Mutator, *, may_differ: bool = False) -> Target:
    def found() -> Sequence[bytes]:
        return (_template()[_part(pattern)],)

    return Target(
        name, found, mutate, lambda data: _with_part(pattern, data, may_differ=may_differ)
    )


TARGETS: tuple[Target, ...] = (
    Target("ledger-line", lambda: tuple(line + b"\n" for data in seeds.recordings()[::4]
                                        for line in data.splitlines()[::3]),
           _mutated_lines, _line, 10),
    Target("recording", seeds.recordings, _mutated_lines, _recording, 2),
    Target("ledger", seeds.recordings, _mutated_lines, _ledger_of),
    _of_directory("segment", r"segments/.*\.jsonl$", mutate_text),
    _of_directory("sealed", "^sealed$", mutate_text),
    _of_directory("sealed-lines", "^sealed$", _mutated_sealed, may_differ=True),
    _of_directory("manifest", r"ledger\.json$", _with_crc(_MANIFEST, _manifest, b"}")),
    _of_directory("snapshot", r"\.snapshot$", _mutated_snapshot),
    _of_directory("history-index", r"history/index\.json$",
                  _with_crc(_INDEX, lambda text: text + b"\n%08x\n" % crc32(text + b"\n"))),
    _of_directory("parquet", r"\.parquet$", mutate_text),
)  # fmt: skip
