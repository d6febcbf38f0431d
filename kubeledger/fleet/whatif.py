"""What-if over a fleet: what would have become of each node's evictions, kills and refusals."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kubeledger.analyze.histories.history import History, histories_of_ledger
from kubeledger.analyze.whatif import Change, Outlook, becomes, outlook, parse_variants
from kubeledger.analyze.whatif.variants import ConfigFile, parse_setting, variants_for
from kubeledger.fleet.engines.engine import Again, Engine
from kubeledger.fleet.generation import fetch_ledger
from kubeledger.fleet.lake import Lake, in_turns
from kubeledger.fleet.run import failure_of_loss, whether_again
from kubeledger.fleet.sealed import scratch_directory
from kubeledger.fleet.task import failure_of, refuse_other_rules
from kubeledger.fleet.types import Failure, NodeSpec
from kubeledger.ledger.ledger import Ledger
from kubeledger.verify import Variant
from kubeledger.verify.finding import Fields

S = TypeVar("S")
R = TypeVar("R")


def on_ledger(task: NodeSpec, answer: Callable[[Path, str], R]) -> R | Failure:
    """What a worker does: fetch a node's ledger, and ask it.

    Args:
        task: of a node of the lake.
        answer: gets the ledger's directory, which is gone afterwards, and the node's name in it.

    Returns:
        its answer, or why there is none.

    Raises:
        OtherRulesError: this worker is of another version than the run, which concerns all tasks.
    """
    refuse_other_rules(task.rules)
    try:
        with scratch_directory(task.scratch) as scratch:
            return in_turns(partial(_asked, task, answer), scratch)
    except Exception as error:  # the fleet continues with the other nodes
        return failure_of(task, error)


def _asked(task: NodeSpec, answer: Callable[[Path, str], R], scratch: Path) -> R:
    assert task.node is not None
    lake = Lake.open(task.lake)
    head = lake.node(task.node)
    fetch_ledger(lake, head, scratch / "ledger")
    return answer(scratch / "ledger", head.summary.name)


def ask_nodes(
    engine: Engine,
    question: Callable[[S], R | Failure],
    specs: Iterable[S],
    task_of: Callable[[S], NodeSpec],
    *,
    attempts: int,
    timeout_s: float | None,
) -> Generator[tuple[S, R | Failure], None, None]:
    """Ask all nodes; the answers come in any order.

    Args:
        question: what a worker does, by ``on_ledger``.
        task_of: the node's task that a spec is about.
        timeout_s: longest time of an attempt; None: none.

    Raises:
        KubeledgerError: no task can run.
    """
    for ended in engine.run(
        question, specs, attempts=attempts, timeout_s=timeout_s, again=_whether_again
    ):
        if ended.lost is not None:
            task = task_of(ended.spec)
            yield ended.spec, failure_of_loss(task, ended.lost, ended.attempts, engine)
        else:
            assert ended.result is not None
            yield ended.spec, ended.result


def _whether_again(answer: object) -> Again:
    return whether_again(answer if isinstance(answer, Failure) else None)


_HARM_OF_KIND = {
    "lifecycle.PodEvicted": "evicted",
    "oom.ProcessKilled": "oom_killed",
    "lifecycle.ContainerKilled": "probe_killed",
    "preemption.PodPreempted": "preempted",
    "lifecycle.PodRejected": "refused",
    "images.ImageDeleted": "deleted",
}
HARMS = tuple(_HARM_OF_KIND.values())
"""What is counted: pods evicted, processes killed for memory, containers killed by liveness and
startup probes, pods preempted, pods refused, images deleted."""

_PROBES = ("liveness_probe", "startup_probe")


class HarmCount(msgspec.Struct, kw_only=True):
    """Decisions of one harm, on one node or several.

    Attributes:
        recorded: that were taken.
        gone: of them, that surely would not have been.
        added: that surely would have been taken besides.
        other: recorded ones that surely would have hit or said something else.
        untrusted: changes of any of these three kinds after an earlier change, where the node
            would have observed something else; they are in none of the three.
    """

    recorded: int = 0
    gone: int = 0
    added: int = 0
    other: int = 0
    untrusted: int = 0

    @property
    def under_variant(self) -> int:
        """As many as there would have been, by what is sure."""
        return self.recorded - self.gone + self.added


class NodeVariant(msgspec.Struct, kw_only=True):
    """What a variant makes of a node, or of several.

    Attributes:
        harms: by ``HARMS``.
        decisions, same, changed, untrusted, unknown: as of ``whatif.Outlook``.
        missing: inputs that are not known -> decisions that lack them.
    """

    harms: dict[str, HarmCount]
    decisions: int = 0
    same: int = 0
    changed: int = 0
    untrusted: int = 0
    unknown: int = 0
    missing: dict[str, int] = {}

    @property
    def harm_changes(self) -> int:
        """How many harms would surely not have been, or have come besides."""
        return sum(count.gone + count.added for count in self.harms.values())


class WhatifSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One task.

    Attributes:
        settings, versions, configs: as of ``variants_for``.
    """

    task: NodeSpec
    settings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    configs: tuple[ConfigFile, ...] = ()


def variant_names(
    settings: Sequence[str], versions: Sequence[str], configs: Sequence[ConfigFile]
) -> list[str]:
    """Names of the variants, in the order in which every node's come.

    Raises:
        BadQuestionError: on no node they are any: an unknown setting, a value that no kubelet
            takes, nothing that changes. What depends on the node's own settings is not asked yet.
    """
    # A flag is known where a node has it.
    flags = {text.partition("=")[0] for text in settings if text.startswith("--")}
    parsed = [parse_setting(text, flags) for text in settings]
    files: list[tuple[str, dict[str, Any]]] = [(Path(config.name).name, {}) for config in configs]
    return [variant.name for variant in parse_variants(parsed, versions, files)]


def whatif_node(spec: WhatifSpec) -> list[NodeVariant] | Failure:
    """What a worker does: replay a node's ledger under each variant.

    Returns:
        one a variant, in the order of ``variant_names``; or why there is none.
    """
    return on_ledger(spec.task, partial(_variants, spec))


def _variants(spec: WhatifSpec, directory: Path, name: str) -> list[NodeVariant]:
    (history,) = histories_of_ledger(Ledger.open(directory), name)
    variants = variants_for(history, spec.settings, spec.versions, spec.configs)
    recorded = dict.fromkeys(HARMS, 0)
    for record in history.read(set(_HARM_OF_KIND)):
        harm = _harm(record.body.kind, getattr(record.body, "reason", None))
        if harm is not None:
            recorded[harm] += 1
    return [_outlook(history, variant, recorded) for variant in variants]


def _outlook(history: History, variant: Variant, recorded: dict[str, int]) -> NodeVariant:
    harms = {harm: HarmCount(recorded=count) for harm, count in recorded.items()}
    result = Outlook(variant=variant.name)
    for change in outlook(history.read, variant, result, recorded=history.verify()):
        harm, outcome = _harm_of_change(change)
        if harm is not None:
            count = harms[harm]
            field = outcome if change.untrusted_since is None else "untrusted"
            setattr(count, field, getattr(count, field) + 1)
    counts = {name: getattr(result, name) for name in _COUNTS}
    return NodeVariant(harms=harms, missing=result.missing, **counts)


_COUNTS = ("decisions", "same", "changed", "untrusted", "unknown")


def _harm_of_change(change: Change) -> tuple[str | None, str]:
    """Whom a change spares or hits, and how."""
    instead = change.instead or {}
    if change.kind == "lifecycle.PodAdmitted" and instead.get("admit") is False:
        return "refused", "added"
    fields: Fields = change.recorded if change.recorded is not None else instead
    return _harm(change.kind, fields.get("reason")), becomes(change)


def _harm(kind: str, reason: Any) -> str | None:  # noqa: ANN401 # a field of any body
    if kind == "lifecycle.ContainerKilled" and reason not in _PROBES:
        return None
    return _HARM_OF_KIND.get(kind)


def added_up(nodes: Sequence[NodeVariant]) -> NodeVariant:
    """One variant of several nodes."""
    total = NodeVariant(harms={harm: HarmCount() for harm in HARMS}, missing={})
    for node in nodes:
        for name in _COUNTS:
            setattr(total, name, getattr(total, name) + getattr(node, name))
        for what, count in node.missing.items():
            total.missing[what] = total.missing.get(what, 0) + count
        for harm, each in node.harms.items():
            sum_ = total.harms[harm]
            for name in HarmCount.__struct_fields__:
                setattr(sum_, name, getattr(sum_, name) + getattr(each, name))
    return total
