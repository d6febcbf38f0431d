"""Holds what imports tell against a second reading of the raw text, for each bundle of a corpus.

As a command it takes directories of bundles: ``python -m tests.ingest.against_raw_text DIR...``.
It prints every difference and how much was compared, and exits with 1 where something differs.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from kubeledger.analyze.headlines import in_a_sentence, incidents
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.problems.told import told_by
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.node import NodeConditionChanged
from kubeledger.model.errors import KubeledgerError
from kubeledger.model.record import Record
from tests.ingest.independent_conditions import ready_changes
from tests.ingest.independent_stages import sync_errors
from tests.replay.episodes.stages import stage_episodes

_PROBLEM = re.compile(r"(?:^|\]: |[\"|>`\t])(?:kubelet )?[EWF]\d{4} [\d:]{8}\.\d+ +(?P<pid>\d+) ")
_HARMLESS = re.compile(r"; ([\d,]+) (?:warnings?|errors?|warnings and errors) (?:is|are) harmless")
_QUIET = "nothing that went wrong"


def differences(bundle: Path, compared: Counter[str]) -> list[str]:
    """What an import of a bundle tells otherwise than its text; ``compared`` is counted up."""
    files = sorted(each for each in bundle.rglob("*") if each.is_file())
    lines = [
        line
        for file in files
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    with TemporaryDirectory() as room:
        ledger = Ledger.create(Path(room) / "ledger")
        try:
            import_sources([str(bundle)], ledger)
        except KubeledgerError:
            compared["refused"] += 1
            return []
        compared["bundles"] += 1
        nodes = ledger.nodes()
        records = {node: list(ledger.records(node)) for node in nodes}
        found = [*_stages(lines, records.values(), compared)]
        for node in nodes:
            own = lines if len(nodes) == 1 else _of_node(lines, node)
            found += _ready(own, records[node], compared)
            (history,) = histories_of_ledger(ledger, node)
            found += _silence(own, in_a_sentence(incidents(told_by(history))), compared)
    return found


def _of_node(lines: Iterable[str], node: str) -> list[str]:
    """Those that name the node, or its process where nothing else tells nodes apart."""
    _, _, pid = node.partition("-process-")
    named = re.compile(rf" {pid} \S+:\d+\]" if pid else re.escape(node))
    return [line for line in lines if named.search(line)]


def _stages(
    lines: list[str], nodes: Iterable[list[Record]], compared: Counter[str]
) -> Iterable[str]:
    last: dict[tuple[str | None, str | None], tuple[int, set[str]]] = {}
    episodes = (each for records in nodes for each in stage_episodes(records))
    for each in (each for each in episodes if each.stage != "ready"):  # by probes, not by syncs
        pod = each.namespace, each.pod
        at_ns, stages = last.get(pod, (0, set()))
        if each.last_ts_ns >= at_ns:
            same = stages if each.last_ts_ns == at_ns else set()
            last[pod] = each.last_ts_ns, {*same, each.stage}
    for pod, errors in sync_errors(lines).items():
        compared["pods"] += 1
        stages = last.get(pod, (0, set()))[1]
        if errors.last not in stages:
            yield f"{'/'.join(pod)} ends in {errors.last}, not {' or '.join(stages) or 'known'}"


def _ready(lines: list[str], records: list[Record], compared: Counter[str]) -> Iterable[str]:
    told = [
        record.body.status == "True"
        for record in records
        if isinstance(record.body, NodeConditionChanged)
        and record.body.condition == "Ready"
        and any(piece.line is not None for piece in record.evidence)
    ]
    said = [change.is_ready for change in ready_changes(lines)]
    compared["changes of Ready"] += len(said)
    if told != said:
        yield f"Ready changes {said}, not {told}"


def _silence(lines: list[str], sentence: str, compared: Counter[str]) -> Iterable[str]:
    if not sentence.startswith(_QUIET):
        return
    compared["quiet nodes"] += 1
    harmless = sum(int(each.replace(",", "")) for each in _HARMLESS.findall(sentence))
    problems = {line for line in lines if _PROBLEM.search(line)}
    if len(problems) > harmless:
        yield f"{len(problems) - harmless} errors are untold: {sorted(problems)[0][:150]}"


def main(corpora: Iterable[str]) -> int:
    compared, differ = Counter[str](), 0
    for corpus in corpora:
        for bundle in sorted(each for each in Path(corpus).iterdir() if each.is_dir()):
            for words in differences(bundle, compared):
                differ += 1
                print(f"{bundle.name}: {words}")
    print(dict(compared), differ, "differences")
    return min(differ, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
