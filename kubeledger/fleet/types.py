"""What fleets take and give: plain data, the same on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class SourceSeen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source that is in a node's ledger.

    Attributes:
        url: where it was, absolute (``/data/a.tar.gz``, ``s3://bucket/a.tar.gz``).
        stamp: shows without reading it whether it is as it was: sizes and entity tags of objects,
            or the content's digest.
        digest: of its content, 32 hex digits.
        size_bytes: of its files as they lay there.
        nodes: how many nodes it has; all of it is in the lake when so many have it.
        options: ``NodeSpec.options`` under which it was read; None for one that is not read by
            any, for it holds records.
    """

    url: str
    stamp: str
    digest: str
    size_bytes: int
    nodes: int = 1
    options: dict[str, str] | None = {}

    def is_read_as(self, options: Mapping[str, str]) -> bool:
        """Whether these options read nothing else from it; one that is not given stays as it is."""
        return self.options is None or options.items() <= self.options.items()

    @property
    def identity(self) -> str:
        """The same for the same content, read in the same way."""
        return " ".join([self.digest, *map("=".join, sorted((self.options or {}).items()))])


class LakeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the lake.

    Attributes:
        path: below the lake's URL.
        size_bytes: of the file.
        digest: BLAKE2b of its bytes, 32 hex digits.
        rows: of a Parquet file; None for others.
    """

    path: str
    size_bytes: int
    digest: str
    rows: int | None = None


class NodeSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The row of ``nodes/N/ID.parquet``. What the sources do not say is None.

    Attributes:
        node: its key in the lake; every table of the lake calls it so.
        name: as it calls itself.
        cluster: as given to the import.
        pool: as given to the import, or by the labels that cloud providers put on nodes.
        machine_id: of the machine, as the node object or the log has it.
        kubelet_versions: (n,) that ran, in the order of their first start.
        first_ts_ns, last_ts_ns: span of the records.
        records: without superseded ones.
        decisions, match, admissible, impossible, unverifiable: counts of verdicts; the first is
            the sum of the others.
        inferred: verdicts on decisions that an import inferred, in no other count.
        contradictions: between witnesses.
        lines, lines_not_understood: of the logs.
        source_bytes: of all sources, as they lay there.
        lake_bytes: of the node's files in the lake, this row's apart.
        import_cpu_ms, verify_cpu_ms, write_cpu_ms: processor time of the run that made them.
        chain: chain digest of the last record, 64 hex digits.
        rules: version of the rules that verified.
    """

    node: str
    name: str
    cluster: str | None = None
    pool: str | None = None
    machine_id: str | None = None
    kubelet_versions: tuple[str, ...] = ()
    first_ts_ns: int | None = None
    last_ts_ns: int | None = None
    records: int = 0
    decisions: int = 0
    match: int = 0
    admissible: int = 0
    impossible: int = 0
    unverifiable: int = 0
    inferred: int = 0
    contradictions: int = 0
    lines: int = 0
    lines_not_understood: int = 0
    source_bytes: int = 0
    lake_bytes: int = 0
    import_cpu_ms: int = 0
    verify_cpu_ms: int = 0
    write_cpu_ms: int = 0
    chain: str = ""
    rules: str = ""


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A marker ``done/N/ID.json``: one generation of a node, whole.

    Attributes:
        layout: version of the lake's layout.
        id: see ``docs/fleet.md``.
        generation: 1 for a node's first; each next one is one higher.
        sources: (n,) in the order of their import.
        files: (n,) all files of this generation, by path; files that did not change may carry the
            ID of an earlier one.
        summary: the node's row.
    """

    layout: int
    id: str
    generation: int
    sources: tuple[SourceSeen, ...]
    files: tuple[LakeFile, ...]
    summary: NodeSummary

    @property
    def node(self) -> str:
        """The node's key."""
        return self.summary.node


class Compacted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that holds the rows of many nodes' files of a date, sorted by kind, node and seq.

    Attributes:
        file: ``compact/records/date=D/ID.parquet`` or ``compact/verdicts/date=D/ID.parquet``.
        nodes: key of each node in it -> path of the file whose rows they are. Where the node's
            head does not name that file any more, they do not count.
    """

    file: LakeFile
    nodes: dict[str, str]


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task: bring a source into a lake, or verify a node of the lake again.

    Attributes:
        lake: its URL.
        source: URL of a bundle, archive, recording or ledger; None: verify ``node`` again.
        node: key of the node to verify again, or to repair; None for a source.
        repair: repair what is damaged of the node; ``partly``: also if not all of its sources
            are as they were.
        rules: version of the rules; a worker of another version refuses.
        cluster, pool: what the caller knows of the node; None: not known.
        name: of the node all of the source is from, or, with the machine's digits, its key in the
            lake or the cluster; None: find out.
        kubelet_version, year: overrides of detection, as ``kubeledger import`` has them.
        started_ns: when the fleet's run began, ns since the epoch; failures are stamped with it.
        scratch: directory for the work, which is on the machine of the worker; None: its default.
    """

    lake: str
    rules: str
    source: str | None = None
    node: str | None = None
    repair: Literal["wholly", "partly"] | None = None
    cluster: str | None = None
    pool: str | None = None
    name: str | None = None
    kubelet_version: str | None = None
    year: int | None = None
    started_ns: int = 0
    scratch: str | None = None

    @property
    def subject(self) -> str:
        """What the task is about, for people."""
        return self.source if self.source is not None else f"node {self.node}"

    @property
    def node_name(self) -> str | None:
        """How the node calls itself, as the caller says it."""
        return None if self.name is None else self.name.partition("@")[0]

    @property
    def options(self) -> dict[str, str]:
        """What else is read from a source under other values: option -> value, of those given."""
        given = {"kubelet-version": self.kubelet_version, "year": self.year}
        return {option: str(value) for option, value in given.items() if value is not None}

    def labelled(self, summary: NodeSummary) -> NodeSummary:
        """A node's row with what the caller knows of the node."""
        return msgspec.structs.replace(
            summary, cluster=summary.cluster or self.cluster, pool=self.pool or summary.pool
        )


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a source is not in the lake; a row of the view ``failures``.

    Attributes:
        source: its URL, or ``node KEY`` where a node was to be verified again.
        kind: ``input`` (the source cannot be used), ``storage`` (it, or the lake, cannot be read
            or written), ``resources`` (disk or memory of the worker), ``lost`` (the worker died),
            ``timeout``, ``bug``.
        reason: one sentence.
        advice: what to do about it; may be empty.
        attempts: how often it was tried in the run.
        ts_ns: when the run began that failed.
    """

    source: str
    kind: Literal["input", "storage", "resources", "lost", "timeout", "bug"]
    reason: str
    advice: str = ""
    attempts: int = 1
    ts_ns: int = 0


class NodeResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a task.

    Attributes:
        spec: the task.
        heads: (n,) the nodes of the source as they now stand in the lake; empty where it failed.
        changed: (n,) keys of the nodes that got a new generation; the others had all of it.
        failure: None where all went well.
        wall_ms, cpu_ms: of the task, its last attempt.
    """

    spec: NodeSpec
    heads: tuple[Head, ...] = ()
    changed: tuple[str, ...] = ()
    failure: Failure | None = None
    wall_ms: int = 0
    cpu_ms: int = 0


def columns_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Columns of a table that holds structs: names of the fields -> types in SQL."""
    types = {int: "BIGINT", int | None: "BIGINT", tuple[str, ...]: "VARCHAR[]"}
    return {f.name: types.get(f.type, "VARCHAR") for f in msgspec.structs.fields(struct)}
