"""What the kubelet says with numbers in it, and which of them are its own.

A number in a message may be anything: the kubelet passes on what runtimes, plugins, hooks and
applications said. It stays only in a sentence that the kubelet itself fills in, of which
verification compares each word.

Source: v1.20.2 to v1.36.2 pkg/kubelet/eviction/helpers.go evictionMessage;
    pkg/kubelet/lifecycle/predicate.go; pkg/kubelet/cm/{devicemanager,cpumanager,memorymanager};
    pkg/kubelet/images; pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff;
    pkg/kubelet/pleg/generic.go; pkg/kubelet/allocation
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from kubeledger.analyze.redaction.forms import SINCE

_AMOUNT = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:[numkKMGTPE]i?|%)?"
_HOLES = {
    "{n}": rf"({_AMOUNT})",
    "{d}": r"((?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+)",
    "{r}": r"((?:\(res: [\w./-]+, q: [0-9]+\), ?)*)",
    "{b}": r"([KMGTPE]?i?B)",
    "{c}": r"([0-9]{1,4}(?:[-,][0-9]{1,4})*)",
    "{t}": rf"({SINCE}T\d\d:\d\d:\d\d(?:\.\d{{1,9}})?Z)",
    "{w}": r"([^\n]*?)",
}
"""Amounts, durations, amounts of resources, units, CPUs, times: kept, but for resources' names.
``{w}`` is for the words of others."""

_WORDS = "{w}"
_RESOURCES = "{r}"

_SENTENCES = (
    "Pod ",
    "Pod was rejected: ",
    "Error: ",
    "(combined from similar events): ",
    # kills and ends
    "Stopping container {w}",
    "Container {w} failed liveness probe",
    "Container {w} failed startup probe",
    "Container {w} definition changed",
    "Container {w} resize requires restart",
    ", will be restarted",
    "Preempted in order to admit critical pod",
    "Pod was preempted by Kubelet to accommodate a critical pod.",
    "Pod was rejected as the node is shutting down.",
    "Pod was terminated in response to imminent node shutdown.",
    # evictions
    "The node was low on resource: {w}. ",
    "Threshold quantity: {n}, available: {n}. ",
    "Container {w} was using {n}, which exceeds its request of {n}. ",
    "Container {w} was using {n}, request is {n}, has larger consumption of {w}. ",
    "Pod {w} was using {n}, request is {n}, has larger consumption of {w}. ",
    'Container {w} exceeded its local ephemeral storage limit "{n}". ',
    "Pod ephemeral local storage usage exceeds the total limit of containers {n}. ",
    'Usage of EmptyDir volume "{w}" exceeds the limit "{n}". ',
    # admission
    "Predicate {w} failed",
    ": node(s) didn't match Pod's node affinity/selector",
    ": node(s) didn't match the requested node name",
    ": node(s) didn't have free ports for the requested pod ports",
    ": node(s) had taints that the pod didn't tolerate",
    "The node had condition: [{w}]. ",
    "Resources cannot be allocated with Topology locality",
    "Node didn't have enough resource: {w}, requested: {n}, used: {n}, capacity: {n}",
    "Node didn't have enough capacity: {w}, requested: {n}, capacity: {n}",
    "Allocate failed due to ",
    "requested number of devices unavailable for {w}. Requested: {n}, Available: {n}",
    "SMT Alignment Error: requested {n} cpus not multiple cpus per core = {n}",
    "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {n}, "
    "requested CPUs = {n}, CPUs per core = {n}",
    "not enough cpus available to satisfy request: requested={n}, available={n}",
    "not enough cpus available to satisfy request: {n} requested, only {n} available",
    'pod "{w}" container "{w}" changed request for resource "{w}" from {n} to {n}',
    'some of strictly reserved cpus: "{c}" are present in defaultCpuSet: "{c}"',
    'not all reserved cpus: "{c}" are present in defaultCpuSet: "{c}"',
    'pod: {w}, container: {w} cpuset: "{c}" overlaps with default cpuset "{c}"',
    'current set of available CPUs "{c}" doesn\'t match with CPUs in state "{c}"',
    ", which is unexpected",
    ".",
    "Unexpected error while attempting to recover from admission failure: ",
    "preemption: error finding a set of pods to preempt: "
    "no set of running pods found to reclaim resources: [{r}]",
    # containers and images
    "back-off {d} restarting failed container={w} pod={w}",
    'Successfully pulled image "{w}" in {d}',
    " ({d} including waiting)",
    ". Image size: {n} bytes.",
    "wanted to free {n} bytes, but freed {n} bytes space with errors in image deletion: {w}",
    "wanted to free images older than {d}, encountered errors in image deletion: {w}",
    "Failed to garbage collect required amount of images. Wanted to free {n} bytes, "
    "but freed {n} bytes",
    "failed to garbage collect required amount of images. Wanted to free {n} bytes, "
    "but freed {n} bytes",
    "Failed to garbage collect required amount of images. Attempted to free {n} bytes, "
    "but only found {n} bytes eligible to free.",
    "Insufficient free disk space on the node's image filesystem ({n} of {n} {b} used). ",
    "Failed to free sufficient space by deleting unused images (freed {n} bytes). "
    "Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
    # the node
    "PLEG is not healthy: pleg was last seen active {d} ago; threshold is {d}",
    "invalid capacity {n} on image filesystem",
    "System OOM encountered, victim process: {w}, pid: {n}",
    # an import's own
    "node: the stamp of one line does not go with those above and below it, and is not believed: "
    "this says {w}: {t}, others say {t} and {t}",
)


class _Sentence(NamedTuple):
    pattern: re.Pattern[str]
    holes: tuple[str, ...]


def _read(sentence: str) -> _Sentence:
    """A sentence that ends with the words of others goes on to the end of the text."""
    parts = re.split(r"(\{[bcndrtw]\})", sentence)
    pattern = "".join(_HOLES.get(part) or re.escape(part) for part in parts)
    end = "$" if sentence.endswith(_WORDS) else ""
    return _Sentence(re.compile(pattern + end), tuple(part for part in parts if part in _HOLES))


_READ = tuple(map(_read, sorted(_SENTENCES, key=len, reverse=True)))
"""The longest first: several begin with the same word."""


def in_own_words(text: str, others: Callable[[str], str]) -> str | None:
    """A text that consists of such sentences alone; None for any other.

    Args:
        text: a message.
        others: what becomes of the words of others in it.
    """
    parts, at = [], 0
    while at < len(text):
        for sentence in _READ:
            if match := sentence.pattern.match(text, at):
                break
        else:
            return None
        for number, hole in enumerate(sentence.holes, 1):
            start, end = match.span(number)
            said = match[number]
            if hole == _WORDS:
                said = others(said)
            elif hole == _RESOURCES:
                said = re.sub(r"(?<=res: )[^,]+", lambda name: others(name[0]), said)
            parts += [text[at:start], said]
            at = end
        parts.append(text[at : match.end()])
        at = match.end()
    return "".join(parts)
