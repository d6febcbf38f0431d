"""Targets: logs, documents, bundles and archives on their way into a ledger."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random

import zstandard

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import explain, parse_target
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.pipeline import Pipeline
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ingest.sources.collect import collect
from kubeledger.ingest.standing import Coverage
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import RecordsSuperseded
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import decode_line, encode_line
from tests.fuzz import seeds
from tests.fuzz.mutators import mutate_json, mutate_text
from tests.fuzz.target import Target, account_holds, contents, holds, scratch
from tests.ingest.node_files import log_text, pod
from tests.ingest.plans import plan_sources
from tests.ingest.sources.wrapping import FORMS, NESTED, lines_of

_OPTIONS = ImportOptions(node="node-x", year=2026)
_LOG = log_text(seconds=4).encode()
_ASKED = (
    "node",
    "pod/default/web",
    "container/default/web/app",
    "image/sha256:1",
    "cgroup/kubepods",
)
_PODS_ASKED_MAX = 4
_SEPARATOR = b"\n%%%% "
"""Begins the name of the next file in an input that holds several."""


def judge(records: list[Record]) -> None:
    """All that is asked of records: every decision decided again, and why things are so."""

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return (record for record in records if kinds is None or record.kind in kinds)

    history = history_of_reader("node-x", "fuzz", read)
    for _ in history.verify():
        pass
    named = set()
    for record in records:
        namespace, pod = (getattr(record.body, name, None) for name in ("namespace", "pod"))
        if namespace and pod:
            named.add(f"pod/{namespace}/{pod}")
    for target in (*_ASKED, *sorted(named)[:_PODS_ASKED_MAX]):
        explain(history, parse_target(target))


def _as_facts(plan: Plan) -> None:
    """All that an import does but for the disk: each fact becomes a line and comes back."""
    pipeline = Pipeline(plan, Coverage({}))
    records: list[Record] = []
    for seq, fact in enumerate(pipeline.facts(), 1):
        record = Record(
            node="node-x",
            seq=seq,
            ts_ns=fact.ts_ns,
            role=fact.body.role,
            kind=fact.body.kind,
            v=fact.body.v,
            cause=None,
            evidence=fact.evidence,
            body=fact.body,
        )
        line, _ = encode_line(record)
        holds(decode_line(line) == record, "a record changed on its way through a line")
        records.append(record)
    for account in pipeline.accounts.values():
        account_holds(account)
    judge(records)


def _read(name: str, data: bytes, *, beside_log: bool = False) -> None:
    """A file, alone or beside a log that says what version it is of."""
    with scratch() as root:
        directory = Path(root) / "node-x"
        (directory / "snapshots/20261121T030105Z").mkdir(parents=True)
        (directory / "snapshots/20261121T030105Z" / name).write_bytes(data)
        if beside_log:
            (directory / "kubelet.log").write_bytes(_LOG)
        for plan in plan_sources([str(directory)], Path(root), _OPTIONS):
            _as_facts(plan)


def _document(name: str, file: str, pattern: str, *more: bytes, share: int = 1) -> Target:
    def found() -> Sequence[bytes]:
        return (*seeds.documents(pattern), *more)

    lines = name in ("metrics", "cgroups")
    mutate = mutate_text if lines else mutate_json
    return Target(name, found, mutate, partial(_read, file, beside_log=True), share)


def _log(name: str, wrap: Callable[[bytes], bytes] | None = None, share: int = 4) -> Target:
    def found() -> Sequence[bytes]:
        windows = seeds.log_windows()
        return windows if wrap is None else tuple(map(wrap, windows))

    mutate = mutate_json if name == "log-json" else mutate_text
    return Target(name, found, mutate, partial(_read, "kubelet.log"), share)


def _rows() -> Sequence[bytes]:
    """Pieces of logs in the forms of log stores, each piece in another one."""
    wraps = [wrap for _, wrap in (*FORMS.values(), *NESTED.values())]
    windows = seeds.log_windows()[:200]
    texts = (window.decode("utf-8", "replace") for window in windows)
    return tuple(
        wraps[index % len(wraps)](lines_of(text, "node-x")) for index, text in enumerate(texts)
    )


# --- several files ------------------------------------------------------------------


def _joined(files: dict[str, bytes]) -> bytes:
    return b"".join(_SEPARATOR + name.encode() + b"\n" + data for name, data in files.items())


def _parted(data: bytes) -> dict[str, bytes]:
    parts = data.split(_SEPARATOR)[1:]
    found = {}
    for number, part in enumerate(parts):
        name, _, content = part.partition(b"\n")
        safe = "".join(c for c in name.decode("ascii", "replace") if c.isalnum() or c in "._-")
        found[safe.strip(".")[:60] or f"f{number}"] = content
    return found


@cache
def _bundles() -> Sequence[bytes]:
    windows = seeds.log_windows()
    documents = {
        "pods.json": seeds.documents(r"v1.20.2/pods\.json")[0],
        "events.json": seeds.documents(r"events\.json")[0],
        "node.json": seeds.documents(r"node\.json")[0],
        "kubelet_internal_checkpoint": seeds.documents("internal_checkpoint")[-1],
        "stats-summary.json": seeds.documents("stats-summary")[-1],
        "cgroupfs.txt": seeds.documents("cgroupfs")[-1],
        "metrics-probes.txt": seeds.documents("metrics-probes")[-1],
        "config.yaml": seeds.documents(r"config\.yaml")[0],
    }
    names = list(documents)
    found = []
    for index in range(24):
        chosen = {name: documents[name] for name in (names[index % 8], names[index // 3])}
        log = b"".join(windows[index * 7 : index * 7 + 8])
        found.append(_joined({"kubelet.log": log, **chosen}))
    return found


@cache
def stored_ledger() -> dict[str, bytes]:
    with scratch() as root:
        log = Path(root) / "kubelet.log"
        log.write_bytes(_LOG)
        import_sources([str(log)], Ledger.create(Path(root) / "ledger"), _OPTIONS)
        return contents(Path(root) / "ledger")


def _into_ledger(data: bytes) -> None:
    """Import a bundle into a ledger that holds records already."""
    with scratch() as root:
        ledger = Path(root) / "ledger"
        for name, content in stored_ledger().items():
            (ledger / name).parent.mkdir(parents=True, exist_ok=True)
            (ledger / name).write_bytes(content)
        before = list(Ledger.open(ledger).records(superseded=True))
        directory = Path(root) / "node-x"
        directory.mkdir()
        for name, content in _parted(data).items():
            (directory / name).write_bytes(content)
        given = contents(directory)
        try:
            report = import_sources([str(directory)], Ledger.open(ledger), _OPTIONS)
            for bundle in report.bundles:
                for account in bundle.accounts:
                    total = account.understood + account.noise + account.not_understood
                    holds(account.lines == total, f"{account.file}: lines are unaccounted for")
        finally:
            after = list(Ledger.open(ledger).records(superseded=True))
            holds(after[: len(before)] == before, "stored records changed")
            _left_out_as_told(Ledger.open(ledger), after)
            holds(not audit(Ledger.open(ledger)).findings, "the ledger is damaged")
            holds(contents(directory) == given, "the source was changed")


def _left_out_as_told(ledger: Ledger, records: list[Record]) -> None:
    """Records hold unless an import says that it superseded them; it names earlier ones only."""
    reported = set()
    for record in records:
        if isinstance(record.body, RecordsSuperseded):
            for span in record.body.spans:
                holds(span.last_seq < record.seq, "a record superseded later ones")
                reported |= set(range(span.first_seq, span.last_seq + 1))
    holding = [record for record in records if record.seq not in reported]
    holds(list(ledger.records()) == holding, "other records hold than the ledger says")


# --- archives -----------------------------------------------------------------------

_TRICKS = (
    "../escaped", "/tmp/escaped", "a/../../escaped", "n/./kubelet.log", "n//kubelet.log", ".", "",
    "n/kubelet.log", "n/pods.json", "n/\udcff", "n/" + "x" * 300, "n\\..\\escaped", "~/escaped",
    "n/sub/kubelet.log.gz", "n/inner.tar",
)  # fmt: skip
_TYPES = (
    tarfile.REGTYPE, tarfile.REGTYPE, tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.SYMTYPE,
    tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
    tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, b"x", b"Z",
)  # fmt: skip


def _archive(random: Random) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=random.choice((0, 1, 2))) as archive:
        for _ in range(random.randint(1, 5)):
            info = tarfile.TarInfo(random.choice(_TRICKS))
            info.type = random.choice(_TYPES)
            info.linkname = random.choice(("/etc/passwd", "../../escaped", "n/kubelet.log", ""))
            info.mtime = random.choice((0, 1_795_000_000, 2**33))
            info.mode = random.choice((0o644, 0, 0o4777))
            content = random.choice((_LOG, json.dumps(pod()).encode(), b"", b"\0" * 5000))
            info.size = len(content) if info.isreg() else 0
            try:
                archive.addfile(info, io.BytesIO(content))
            except (ValueError, UnicodeError):  # this format cannot hold it
                continue
    return out.getvalue()


def _mutated_archive(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """An archive full of tricks, whole or damaged, inside one compression or another."""
    if random.randrange(3):
        data = _archive(random)
    if random.randrange(3) == 0:
        data = mutate_text(random, data, others)
    match random.randrange(4):
        case 0:
            data = gzip.compress(data, 1, mtime=0)
        case 1:
            data = zstandard.ZstdCompressor().compress(data)
        case _:
            return data
    return mutate_text(random, data, others) if random.randrange(3) == 0 else data


def _take_apart(data: bytes) -> None:
    with scratch() as root:
        path = Path(root) / "bundle.tar"
        path.write_bytes(data)
        spool = Path(root) / "spool"
        spool.mkdir()
        try:
            for tree in collect([str(path)], spool):
                for file in tree.files:
                    holds(not file.path.is_symlink(), "a link was unpacked")
                    holds(file.path.is_file(), "no regular file was unpacked")
                    file.head(1 << 20)
        finally:
            there = sorted(each.name for each in Path(root).iterdir())
            holds(there == ["bundle.tar", "spool"], f"something was written outside: {there}")
            odd = [p for p in spool.rglob("*") if p.is_symlink() or not (p.is_file() or p.is_dir())]
            holds(not odd, f"links or devices were unpacked: {odd}")


_MANIFEST = b"apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u}\nspec:\n  nodeName: node-x\n"

_LABELS = (
    b'"labels":{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"web",'
    b'"io.kubernetes.pod.namespace":"default","io.kubernetes.pod.uid":"u"}'
)
_CRICTL = (
    b'{"containers":[{"id":"4f","metadata":{"name":"app","attempt":0},"state":"CONTAINER_RUNNING",'
    b'"createdAt":"1795335076000000000",' + _LABELS + b"}]}",
    b'{"items":[{"id":"5a","metadata":{"attempt":0},"state":"SANDBOX_READY",' + _LABELS + b"}]}",
    b'{"images":[{"id":"sha256:c9","repoTags":["app:1"],"repoDigests":[],"size":"4261574"}]}',
    b'{"status":{"id":"4f","state":"CONTAINER_EXITED","metadata":{},' + _LABELS + b'},"info":{}}',
)  # fmt: skip

TARGETS: tuple[Target, ...] = (
    _log("log-text", share=10),
    _log("log-json", seeds.to_json_log),
    _log("log-journal", seeds.in_journal),
    _log("log-runtime", seeds.in_docker, 2),
    Target("log-rows", _rows, mutate_text, partial(_read, "kubelet.log"), 4),
    _document("checkpoint", "kubelet_internal_checkpoint", "internal_checkpoint"),
    _document("cpu-manager", "cpu_manager_state", "cpu_manager_state",
              b'{"policyName":"static","defaultCpuSet":"0,2-3","entries":{"u":{"c":"1"}},"checksum":1}'),
    _document("memory-manager", "memory_manager_state", "memory_manager_state",
              b'{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":'
              b'{"memory":{"total":9,"systemReserved":1,"allocatable":8,"reserved":2,"free":6}},'
              b'"cells":[0]}},"entries":{"u":{"c":[{"numaAffinity":[0],"type":"memory","size":2}]}'
              b'},"checksum":1}'),
    _document("crictl", "crictl_ps.json", "^$", *_CRICTL),
    _document("pods", "pods.json", r"/pods\.json", share=2),
    _document("manifests", "web.yaml", "manifests/", _MANIFEST),
    _document("events", "events.json", r"events(-watch)?\.json", share=2),
    _document("stats", "stats-summary.json", "stats-summary"),
    _document("node", "node.json", r"node\.json"),
    _document("config", "kubelet.yaml", r"config\.yaml"),
    _document("metrics", "metrics.txt", "metrics"),
    _document("cgroups", "cgroupfs.txt", "cgroupfs"),
    Target("import", _bundles, mutate_text, _into_ledger),
    Target("archive", lambda: (_archive(Random(1)),), _mutated_archive, _take_apart, 3),
)  # fmt: skip
