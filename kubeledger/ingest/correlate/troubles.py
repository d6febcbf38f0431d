"""What keeps the node from being ready, and its graceful shutdown.

Sources: pkg/kubelet/kubelet.go (updateRuntimeUp, syncLoop), runtime.go (runtimeErrors),
kubelet_node_status.go, nodestatus/setters.go, component-helpers/apimachinery/lease/controller.go,
client-go/util/certificate/certificate_manager.go, certificate/transport.go of 1.19 to 1.36.
"""

from __future__ import annotations

import re
from typing import Any

from kubeledger.ingest.correlate.assembler import Assembler, ends, reads
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Repeated, Waiting, shown
from kubeledger.ingest.correlate.node import condition_in
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.messages.noise import HEARTBEAT
from kubeledger.ingest.sources.times import go_time
from kubeledger.model.bodies.node import NodeTrouble, NodeTroubled, ShutdownProgressed
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.node_conditions import APART_NS

_OF_CONDITION: tuple[tuple[NodeTrouble, re.Pattern[str]], ...] = (
    (
        "pleg_unhealthy",
        regex(
            r"PLEG is not healthy(?!: pleg has yet|: pleg was last seen active 2562047h)"
            r"(?:: pleg was last seen active \S+ ago; threshold is [\w.]+)?"
        ),
    ),
    ("network_not_ready", regex(r"runtime network not ready: (?P<words>[^\]]*)")),
    (
        "runtime_down",
        regex(r"container runtime is down|[Cc]ontainer runtime not ready: (?P<words>[^\]]*)"),
    ),
    (
        "storage_not_ready",
        regex(r"CSINode is not yet initialized|[Ff]ailed to initialize CSINode: [^\]]*"),
    ),
)
"""Troubles that errors of the runtime's state name (``runtimeState``)."""

_UNREACHABLE = regex(
    r"https?://.*(?:connection refused|no route to host|network is unreachable|no such host"
    r"|i/o timeout|TLS handshake timeout|connection reset by peer|connection lost|\bEOF\b"
    r"|deadline exceeded|Client\.Timeout|request canceled|server is currently unable)",
    re.DOTALL,
)
_NOBODY_LISTENS = regex(r"\bdial\w* .*(?:connection refused|no such file|cannot find the file)")
_X509 = regex(r"x509: .*", re.DOTALL)
_CONDITION = regex(
    r"(Network|Runtime)Ready=false reason:\S* message:.*?(?=, [A-Z]\w+(?:=\w+ reason:|\W*\Z)|\Z)"
)
_OF_RUNTIME = regex(r"(?:Network|Runtime)Ready=\w+ reason:\S* message:")
_URL = regex(r".*\b(?:Get|Put|Post|Patch|Delete) \"?https?://\S+: ", re.DOTALL)
_VALUE = regex(r"[0-9a-fA-F]*\d[\w.]*")

_WHY_NOT_FOUND: tuple[NodeTrouble, ...] = ("registration_failed", "api_unreachable", "certificate")
_SYNCING: tuple[NodeTrouble, ...] = ("sync_skipped", "pleg_unhealthy", "runtime_down")
_ASKED_NS = 5 * NS_PER_S
"""A runtime of which so long nothing is said answers: the PLEG asks it every second."""
_READY: tuple[NodeTrouble, ...] = (*_SYNCING, "network_not_ready", "storage_not_ready")


class TroublesAssembler(Assembler):
    """Troubles of the node; of each cause a run of its own, however many kinds of lines tell it."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._pid: int | None = None
        self._down_ns = 0
        self._said = Repeated[tuple[NodeTrouble, str]](self.queue, quiet_ns=APART_NS)

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What a process says ends with it."""
        if pid is not None and pid != self._pid:
            self._said.end(ts_ns)
            self._pid = pid
        self._said.pass_time(ts_ns)

    def is_quiet(self) -> bool:
        """Whether nothing is wrong."""
        return not self._said and self.queue.is_empty

    def end(self, ts_ns: int) -> None:
        """The last counts."""
        self._said.end(ts_ns)

    @reads("Kubelet version")
    def _starts(self, entry: Entry) -> None:
        self._said.end(entry.ts_ns)

    # -- what does not work ---------------------------------------------------------------

    @reads("Container runtime network not ready")
    def _network(self, entry: Entry) -> None:
        self._say("network_not_ready", entry.told("networkReady"), entry)

    @reads("Container runtime not ready")
    def _runtime(self, entry: Entry) -> None:
        self._say("runtime_down", entry.told("runtimeReady"), entry)

    @reads("Container runtime status")
    def _conditions(self, entry: Entry) -> None:
        """All conditions, the good ones too: at ``-v=4``, or where they are bad."""
        for condition in _CONDITION.finditer(entry.told("status")):
            trouble: NodeTrouble = "runtime_down"
            if condition[1] == "Network":
                trouble = "network_not_ready"
            self._say(trouble, condition[0], entry)

    @reads("Container runtime sanity check failed", "Container runtime status is nil")
    def _insane(self, entry: Entry) -> None:
        self._say("runtime_down", entry.told("err") or entry.message, entry)

    @reads("Container runtime did not answer")
    def _unanswered(self, entry: Entry) -> None:
        """A kubelet that starts asks for its version before all else, and ends without it."""
        if _NOBODY_LISTENS.search(error := entry.told("err")):
            self._say("runtime_down", error, entry)

    @reads("Skipping pod synchronization")
    def _skipped(self, entry: Entry) -> None:
        words = entry.told("err").strip("[]")
        self._say("sync_skipped", words, entry)
        self._named_in(words, entry)

    @reads("Node became not ready")
    def _not_ready(self, entry: Entry) -> None:
        told = condition_in(entry.values["condition"])
        self._named_in((told and told.message) or "", entry)

    def _named_in(self, errors: str, entry: Entry) -> None:
        for trouble, pattern in _OF_CONDITION:
            match = pattern.search(errors)
            if match is not None:
                self._say(trouble, match.groupdict().get("words") or match[0], entry)

    @reads("Failed to initialize CSINode")
    def _storage(self, entry: Entry) -> None:
        self._say("storage_not_ready", entry.told("err"), entry)

    @reads("Error getting node")
    def _unknown(self, entry: Entry) -> None:
        """It is not registered: its object is asked for many times a second until it is."""
        error = entry.text("err")
        if not error.endswith("not found"):
            return
        own = self._not_found()
        said = [trouble for trouble, _ in self._said.keys() if trouble in _WHY_NOT_FOUND]  # noqa: SIM118 - no dict
        if len(said) > len(own):
            entry.line.is_told = True
        else:
            self._say("registration_failed", error, entry)

    def _not_found(self) -> list[tuple[NodeTrouble, str]]:
        """What is said of the node's object alone."""
        return [each for each in self._said.keys() if each[1].startswith('node "')]  # noqa: SIM118 - it is no dict

    @reads("Unable to register node with API server")
    def _unregistered(self, entry: Entry) -> None:
        for key in self._not_found():  # from now on it is known why
            self._said.over(key, entry.ts_ns)
        self._say("registration_failed", entry.told("err") or entry.line.message, entry)

    @reads("Error updating node status, will retry", "Unable to update node status")
    def _status(self, entry: Entry) -> None:
        self._say("status_update_failed", entry.told("err"), entry)

    @reads("Failed to ensure lease exists, will retry")
    def _lease(self, entry: Entry) -> None:
        self._say("lease_update_failed", entry.told("err"), entry)

    @reads("Failed to watch", "Unhandled Error")
    def _unreachable(self, entry: Entry) -> None:
        """Only what says so: the server may also answer that it has no such thing, or refuse."""
        error = entry.told("err")
        if "_manager.go" in entry.line.file or entry.line.file == "bootstrap.go":
            if "ertificate" in error:
                self._say("certificate", error, entry)
        elif entry.message == "Failed to watch" or entry.line.file == "reflector.go":
            if _UNREACHABLE.search(error):
                self._say("api_unreachable", error, entry)
            elif _X509.search(error):
                self._say("certificate", error, entry)

    @reads("Failed while requesting a signed certificate from the control plane")
    def _certificate(self, entry: Entry) -> None:
        error, message = entry.told("err"), entry.line.message
        is_text = error in message
        self._say("certificate", message if is_text else f"{message}: {error}", entry)

    @reads("The kubelet gives up")
    def _gave_up(self, entry: Entry) -> None:
        message = entry.line.message
        if message.startswith("Failed to start ContainerManager"):
            self._say("container_manager_failed", entry.told("err") or message, entry)
        elif entry.line.file == "transport.go":
            self._say("certificate", message, entry)

    # -- what shows that it works again ----------------------------------------------------

    @ends("Successfully registered node")
    def _registered(self, entry: Entry) -> None:
        self._pass(("registration_failed", "api_unreachable"), entry)

    @ends("Caches populated", "Status for pod updated successfully")
    def _answered(self, entry: Entry) -> None:
        self._pass(("api_unreachable",), entry)

    @ends("SyncLoop ADD", "SyncLoop RECONCILE", "SyncLoop (PLEG): event for pod", *HEARTBEAT)
    def _loops(self, entry: Entry) -> None:
        """The sync loop takes no turn while the runtime's state has errors.

        A runtime that was away for a moment only is not in that state.
        """
        said = {trouble for trouble, _ in self._said.keys()}  # noqa: SIM118 - it is no dict
        if "sync_skipped" in said:
            self._pass(_SYNCING, entry)
        elif "runtime_down" in said and entry.ts_ns - self._down_ns > _ASKED_NS:
            self._pass(("runtime_down",), entry)

    @ends("Recording event message for node", "Fast updating node status as it just became ready")
    def _ready(self, entry: Entry) -> None:
        if entry.get("event") in (None, "NodeReady"):
            self._pass(_READY, entry)

    @ends("Certificate rotation deadline determined")
    def _renewed(self, entry: Entry) -> None:
        if go_time(entry.text("expiration")) > entry.ts_ns:
            self._pass(("certificate",), entry)

    # -- the facts --------------------------------------------------------------------------

    def _say(self, trouble: NodeTrouble, words: str, entry: Entry) -> None:
        words = _URL.sub("", _OF_RUNTIME.sub("", words)) if trouble != "certificate" else words
        ts_ns = entry.ts_ns
        if trouble == "runtime_down":
            self._down_ns = ts_ns
        body = NodeTroubled(trouble=trouble, message=words, first_ts_ns=ts_ns, last_ts_ns=ts_ns)
        cause = "" if trouble in ("pleg_unhealthy", "runtime_down") else _VALUE.sub("#", words)
        self._said.say((trouble, cause), None, body, entry.message, entry)

    def _pass(self, troubles: tuple[NodeTrouble, ...], entry: Entry) -> None:
        """A certificate that nobody was there to sign is asked for again, and fails anew or not."""
        is_there = "api_unreachable" in troubles
        for key in self._said.keys():  # noqa: SIM118 - it is no dict
            unsigned = is_there and key[0] == "certificate" and _UNREACHABLE.search(key[1])
            if unsigned or key[0] in troubles:
                self._said.over(key, entry.ts_ns, entry.evidence, passed_ts_ns=entry.ts_ns)


# The graceful shutdown of the node, step by step; what is killed in it, other records tell.
#
# Pods are killed in groups by priority, all of a group at once, and the next group when these have
# ended or their period is over (``podManager.killPods``; up to 1.22 the critical pods wait).
# Source: pkg/kubelet/nodeshutdown of 1.20 to 1.36.

_GROUP = regex(r"Priority:(\d+) ShutdownGracePeriodSeconds:(\d+)")
_DETECTED, _CANCELLED = ("true", "shutdown", "preshutdown"), ("false", "cancel")
_SECONDS = regex(r"(?:(\d+)m)?(\d+)s?")
_TOGETHER_NS = 5 * NS_PER_S
"""Within so long all pods of a group are told: each is killed by a goroutine of its own."""
_EVIDENCE_MAX = 4


class ShutdownAssembler(Assembler):
    """Steps of a shutdown."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._groups: list[tuple[int, int]] = []
        self._detected: Waiting[ShutdownProgressed] | None = None
        self._killing: dict[int | None, Waiting[ShutdownProgressed]] = {}

    @reads("Creating node shutdown manager")
    def _configured(self, entry: Entry) -> None:
        """Priority and period of each group; without them, of a kubelet that has only two."""
        text = entry.text("shutdownGracePeriodByPodPriority")
        self._groups = sorted((int(low), int(period)) for low, period in _GROUP.findall(text))
        self._detected = None

    @reads("Shutdown manager detected new shutdown event, isNodeShuttingDownNow")
    def _announced(self, entry: Entry) -> None:
        """Each is said in two lines, of which the older kubelets have the first."""
        event, known = entry.text("event"), self._detected
        if event in _CANCELLED:
            if known is not None:
                self._detected = None
                self._step(entry, step="cancelled")
        elif event in _DETECTED and known is None:
            self._detected = self._step(entry, step="detected")
            self._killing.clear()
        elif known is not None:
            known.join(entry.evidence)

    @reads("Shutdown manager processing shutdown event")
    def _processing(self, entry: Entry) -> None:
        if self._detected is None:
            self._detected = self._step(entry, step="detected")
        self._detected.join(entry.evidence)

    @reads("Pod is stopped")
    def _kill(self, entry: Entry) -> None:
        if entry.text("because") != "shutdown":
            return
        priority, period_s = self._group_of(entry)
        group = self._killing.get(priority)
        if group is not None:
            if group.is_open:
                group.learn(pods=(group.body.pods or 0) + 1)
            if len(group.fact.evidence) < _EVIDENCE_MAX:
                group.join(entry.evidence)
            return
        self._killing[priority] = self._step(
            entry, step="killing", priority=priority, grace_period_s=period_s, pods=1
        )
        self._killing[priority].due_ns = entry.ts_ns + _TOGETHER_NS

    def _group_of(self, entry: Entry) -> tuple[int | None, int | None]:
        """The group with the highest priority that the pod's is not below; the lowest for others.

        Of a pod that no list shows, the priority is not known.
        """
        subject = self.context.completed(entry.subject, entry.ts_ns)
        if subject.uid not in self.context.pods or not self._groups:
            return None, None
        own = self.context.spec_of(subject.uid).get("priority") or 0
        return max((group for group in self._groups if group[0] <= own), default=self._groups[0])

    @reads("Shutdown manager pod killing time out")
    def _late(self, entry: Entry) -> None:
        period = _SECONDS.match(entry.text("gracePeriod"))
        period_s = None if period is None else 60 * int(period[1] or 0) + int(period[2])
        priority = entry.number("priority")
        self._step(entry, step="timed_out", priority=priority, grace_period_s=period_s)

    @reads("Shutdown manager completed processing shutdown event, node will shutdown shortly")
    def _completed(self, entry: Entry) -> None:
        self._step(entry, step="completed")

    def _step(self, entry: Entry, **fields: Any) -> Waiting[ShutdownProgressed]:  # noqa: ANN401
        message = entry.line.message
        return self.queue.hold(shown(entry, ShutdownProgressed(message=message, **fields)))
