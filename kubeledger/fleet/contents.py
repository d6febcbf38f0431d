"""What a source holds: its nodes, by what each can be told apart, and a ledger of each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Protocol

from kubeledger.analyze.histories.sources import is_ledger, is_recording
from kubeledger.fleet.layout import LAKE
from kubeledger.fleet.sealed import copy_node, is_sealed_ledger, unseal_ledger
from kubeledger.ingest.ingest import history_of, ingest
from kubeledger.ingest.pieces import options_of_kept, plan_of_kept
from kubeledger.ingest.planning.bundle import ImportOptions, find_bundles
from kubeledger.ingest.planning.node_split import split_by_node
from kubeledger.ingest.planning.plan import Plan, make_plan
from kubeledger.ingest.sources.collect import INCOMPLETE, Collected, collect
from kubeledger.ingest.sources.documents import read_document
from kubeledger.ingest.sources.items import NodeObject
from kubeledger.ingest.standing import known_lengths
from kubeledger.ledger.kept import KeptSources
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.errors import BadInputError

_MACHINE = re.compile(rb"\bMachineID:([0-9a-fA-F]{32})\b")
_POD = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A UID that the API server drew: those of static pods may be the same on two nodes."""

_POD_FIELD = re.compile(rb'"pod_uid":"(%b)"' % _POD.pattern)
_OVERLAP = 128
_BATCH = 1000


class Content(Protocol):
    """A source that was read as far as to know whose it is.

    Attributes:
        names: (n,) names of its nodes, each once.
    """

    names: tuple[str, ...]

    def machines(self, name: str) -> tuple[str, ...]:
        """IDs of a node's machines as the source gives them, the latest last; often none."""

    def tells_of(self, name: str, pods: frozenset[str]) -> bool:
        """Whether it holds the UID of one of these pods."""

    def add_to(self, name: str, directory: Path) -> None:
        """Bring what it has of a node into the ledger at a directory, made where there is none.

        Raises:
            BadInputError: it cannot be used, or does not go together with that ledger.
            KubeledgerError: the ledger cannot be read or written.
        """


def content_of(path: Path, scratch: Path, options: ImportOptions) -> Content:
    """Look at a source.

    Args:
        path: a bundle, archive, recording or ledger, sealed or not.
        scratch: an empty directory; it must last as long as the content.
        options: overrides of detection; a ledger or recording has no use for them.

    Raises:
        BadInputError: nothing of it can be used.
        KubeledgerError: of a ledger.
    """
    if (path / LAKE).is_file():
        raise BadInputError(
            "is a lake, not a source", advice="import what it was made from", file=str(path)
        )
    if path.is_dir() and is_ledger(path):
        return _LedgerContent(Ledger.open(path), str(path))
    if path.is_file() and is_sealed_ledger(path):
        unseal_ledger(path, scratch / "ledger")
        return _LedgerContent(Ledger.open(scratch / "ledger"), str(path))
    if path.is_file() and is_recording(path):
        return _LedgerContent(_ledger_of_recording(path, scratch / "recording"), str(path))
    return BundleContent(path, scratch / "unpacked", options)


def options_of(given: Mapping[str, str], name: str | None) -> ImportOptions:
    """How to read a source, by ``SourceSeen.options``; all of it is a node's, if one is named."""
    return ImportOptions(
        node=name,
        kubelet_version=given.get("kubelet-version"),
        year=int(given["year"]) if "year" in given else None,
    )


def chain_of_node(ledger: Ledger, name: str) -> str:
    """Chain digest of a node's last record, 64 hex digits; empty where it has none.

    Raises:
        KubeledgerError: the ledger cannot be read.
    """
    if name not in ledger.nodes():
        return ""
    digest = ledger.digest_at(name, ledger.info(name).last_seq)
    return "" if digest is None else digest.hex()


def pods_of_ledger(ledger: Ledger, name: str) -> frozenset[str]:
    """UIDs of the pods in a ledger.

    Raises:
        KubeledgerError: the ledger cannot be read.
    """
    lines = (raw.line for raw in ledger.raw_lines(name, verify="crc"))
    return frozenset(pod.decode() for line in lines for pod in _POD_FIELD.findall(line))


class BundleContent:
    """Files that are imported."""

    def __init__(self, path: Path, spool: Path, options: ImportOptions) -> None:
        spool.mkdir()
        self._options = options
        self._collected = collect([str(path)], spool)
        self._plans = self._planned()
        for tree in self._collected:
            _refuse_damaged(tree)
        self._used: set[str] = set()
        self.names = tuple(dict.fromkeys(plan.context.node for plan in self._plans))

    def _planned(self, lengths: Iterable[int] = ()) -> list[Plan]:
        bundles = find_bundles(self._collected, self._options, list(lengths))
        parts = split_by_node(bundles, self._options)
        return [make_plan(part, self._options) for part in parts]

    def _of(self, name: str) -> list[Plan]:
        return [plan for plan in self._plans if plan.context.node == name]

    def machines(self, name: str) -> tuple[str, ...]:
        found: list[str] = []
        for plan in self._of(name):
            for log in plan.bundle.logs:
                found += (
                    machine.decode().lower() for machine in _in(log.source.chunks(), _MACHINE)
                )
            for document in plan.timing.documents:
                if document.format == "node":
                    items, _ = read_document(document)
                    found += (
                        _machine_of(item.node)
                        for item in items
                        if isinstance(item, NodeObject)
                        and (item.node.get("metadata") or {}).get("name") == name
                    )
        return _latest_last(found)

    def tells_of(self, name: str, pods: frozenset[str]) -> bool:
        return any(
            uid.decode() in pods
            for plan in self._of(name)
            for file in plan.bundle.files
            for uid in _in(file.source.chunks(), _POD)
        )

    def add_to(self, name: str, directory: Path) -> None:
        ledger = Ledger.open_or_create(directory)
        with ledger.writer() as writer:
            lengths = known_lengths(history_of(ledger, writer, name).imported)
            # A plan is used once, for an import fills what it knows; and beginnings of logs are
            # asked for with their lengths.
            if lengths or name in self._used:
                self._plans = self._planned(lengths)
                self._used = set()
            self._used.add(name)
            for plan in self._of(name):
                ingest(plan, ledger, writer, self._options)

    def add_anew(self, name: str, old: Path, directory: Path, options: ImportOptions) -> None:
        """Bring it into a new ledger by other options, after all else that is in an old one.

        Args:
            old: a ledger that holds it as it was read by the options before.
            directory: where nothing is yet.
            options: by which it is read from now on.

        Raises:
            BadInputError: the old ledger does not hold what else it was made from.
            KubeledgerError: a ledger cannot be read or written.
        """
        self._options = options
        before = Ledger.open(old)
        with before.writer() as writer:
            history = history_of(before, writer, name)
        self._plans = self._planned(known_lengths(history.imported))
        files = [file.digests for plan in self._of(name) for file in plan.bundle.files]
        read = {digest for each in files for digest in (each.digest, *each.prefixes.values())}
        store = KeptSources(old, name)
        kept = store.imports(history.completed)
        others = [each for each in kept if not read.issuperset(s.digest for s in each.sources)]
        plans = [plan_of_kept(each, store, name) for each in others]
        if len(kept) < len(history.completed) or None in plans:
            raise BadInputError(
                f"the lake has {name} read by other options, and not all that it was made from",
                advice="import all its sources into a new lake",
                file=self._collected[0].label,
            )
        ledger = Ledger.create(directory)
        with ledger.writer() as writer:
            for plan, known in zip(plans, others, strict=True):
                assert plan is not None
                ingest(plan, ledger, writer, options_of_kept(known, name))
        self.add_to(name, directory)


class _LedgerContent:
    """Records that somebody imported already."""

    def __init__(self, ledger: Ledger, label: str) -> None:
        self._ledger = ledger
        self._label = label
        self.names = tuple(ledger.nodes())
        if not self.names:
            raise BadInputError("the ledger holds no records yet", file=label)

    def machines(self, name: str) -> tuple[str, ...]:
        records = self._ledger.records(name, kinds=(NodeObserved.kind,))
        texts = ((each.text or "").encode() for record in records for each in record.evidence)
        return _latest_last(found.decode() for text in texts for found in _MACHINE.findall(text))

    def tells_of(self, name: str, pods: frozenset[str]) -> bool:
        return not pods.isdisjoint(pods_of_ledger(self._ledger, name))

    def add_to(self, name: str, directory: Path) -> None:
        if not directory.exists():
            copy_node(self._ledger, name, directory)
            return
        base = Ledger.open(directory)
        ours, theirs = (each.info(name).last_seq for each in (self._ledger, base))
        common = min(ours, theirs)
        at = [each.digest_at(name, common) for each in (self._ledger, base)]
        if at[0] is None or at[0] != at[1]:
            raise BadInputError(
                f"the lake has records of {name} already, and this ledger does not continue them",
                advice="import what the ledger was made from: its bundles are read together with "
                "those of the lake",
                file=self._label,
            )
        if ours > theirs:
            shutil.rmtree(directory)
            copy_node(self._ledger, name, directory)


def _refuse_damaged(tree: Collected) -> None:
    """Nobody reads an import's warnings in a fleet, where a part would pass for the whole."""
    found = [f"is a damaged archive: {tree.damage}"] if tree.damage else []
    cut = [each.file or "" for each in tree.findings if each.finding == INCOMPLETE]
    found += (f"{name}: {tree.skipped[name]}" for name in cut)
    if not tree.is_tree and any(file.truncated for file in tree.files):
        found.append("the compressed stream ends early")
    if found:
        raise BadInputError(
            "; ".join(found),
            advice="import a whole copy, or a ledger of what `kubeledger import` reads of it",
            file=tree.label,
        )


def _ledger_of_recording(path: Path, directory: Path) -> Ledger:
    ledger = Ledger.create(directory)
    with ledger.writer() as writer:
        for name, run in groupby(read_recording(path), key=lambda record: record.node):
            batch: list[Draft] = []
            for seq, record in enumerate(run, writer.next_seq(name)):
                if record.seq != seq:
                    raise BadInputError(
                        f"is an excerpt: it begins at record {record.seq} of {name}",
                        advice="import the whole recording",
                        file=str(path),
                    )
                batch.append(Draft(record.ts_ns, record.body, record.evidence, record.cause))
                if len(batch) == _BATCH:
                    writer.append(name, batch)
                    batch = []
            writer.append(name, batch)
    return ledger


def _in(chunks: Iterator[bytes], pattern: re.Pattern[bytes]) -> Iterator[bytes]:
    """All that matches in a content, however it is cut."""
    rest = b""
    for chunk in chunks:
        window = rest + chunk
        yield from pattern.findall(window)
        rest = window[-_OVERLAP:]


def _machine_of(node: dict[str, object]) -> str:
    status = node.get("status")
    info = status.get("nodeInfo") if isinstance(status, dict) else None
    given = info if isinstance(info, dict) else {}
    return str(given.get("machineID") or given.get("systemUUID") or "").lower()


def _latest_last(machines: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for machine in machines:
        if machine:
            found.pop(machine, None)
            found[machine] = None
    return tuple(found)
