"""The lives of one pod, from the signs of it in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.evidence.endings import READ_NS, inherited, ran_out
from kubeledger.verify.evidence.podlife import PodHistory, PodLife
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.processes import Process, Processes
from kubeledger.verify.evidence.restarting import Restarting
from kubeledger.verify.evidence.signs import POD_ENDS, Sign
from kubeledger.verify.evidence.turns import SETTLING_NS, Turns

__all__ = ["LifeBuilder", "Surroundings"]

_LATE_NS: Final = NS_PER_S
"""The kubelet acts on an end within this time of the line that shows it."""
_TOLD_NS: Final = NS_PER_S // 10
"""The worker that shows its pod's end ends itself at once."""
_NOTICED_NS: Final = 2 * NS_PER_S
"""What the kubelet takes at most to notice that the containers of a pod are down."""


class Surroundings(msgspec.Struct, frozen=True):
    """What a life depends on besides the pod's own signs; all of it is settled.

    Attributes:
        configured: process -> its first config line.
    """

    processes: Processes
    turns: Turns
    coverage: Coverage
    specs: PodRegister
    configured: Mapping[int, int]


class LifeBuilder:
    """Takes the signs of one pod in the order of time."""

    def __init__(self, history: PodHistory, signs: Sequence[Sign], around: Surroundings) -> None:
        self._history = history
        self._signs = signs
        self._around = around
        self._lives: list[PodLife] = []
        self._life: PodLife | None = None
        self._counted_ns = 0
        self._settled_ns: int | None = None
        self._died_ns: int | None = None
        self._running: dict[str, str | None] = {}
        self._static = any(sign.word in ("file", "http") for sign in signs if sign.what == "add")
        self._mirrored = any(sign.shown is not None and sign.shown.mirror for sign in signs)
        self._final_ns = min(
            (s.ts_ns for s in signs if s.shown is not None and s.shown.final), default=None
        )
        self._restarting: Restarting | None = None
        self._last: dict[str, Sign | None] = {}
        self._until_ns: int | None = None

    def lives(self) -> list[PodLife]:
        """All stays of the pod, in order; none of a mirror, which is no pod of its own."""
        if self._mirrored and not self._static:
            return self._lives
        for sign in self._signs:
            process = self._around.processes.at(sign.ts_ns)
            number = 0 if process is None else process.number
            known_ns = 0 if process is None else process.known_from_ns
            # Snapshots may show a process that ran before the first whose start is told.
            until_ns = known_ns if sign.ts_ns < known_ns else None
            at = (number, until_ns)
            if self._life is not None and (self._life.process, self._until_ns) != at:
                self._end_process()
            self._until_ns = until_ns
            handle = _HANDLERS[sign.what]
            if not self._is_of_mirror(sign):
                handle(self, sign, process)
        self._finish()
        untold = inherited(self._lives, self._signs, self._around.processes)
        return sorted((*self._lives, *untold), key=lambda life: life.process)

    def _is_of_mirror(self, sign: Sign) -> bool:
        """Whether a config line is about the API's image of a static pod."""
        config = sign.what in ("add", "update", "delete", "remove")
        if not (config and sign.word == "api" and self._static):
            return False
        return sign.what != "add" if self._life is None else self._life.source in ("file", "http")

    def _end_process(self) -> None:
        self._finish()
        self._life = None

    def _begin(self, sign: Sign, process: Process | None) -> PodLife:
        """A stay begins with its first sign."""
        self._finish()
        before = self._life
        last = self._lives[-1] if self._lives else None
        history = self._history
        life = PodLife(
            key=history.key,
            uid=history.uid,
            namespace=history.namespace,
            name=history.name,
            source=None,
            process=0 if process is None else process.number,
            seq=sign.seq,
            since_ns=sign.ts_ns,
        )
        self._lives.append(life)
        self._life, self._counted_ns = life, 0
        self._settled_ns = self._died_ns = None
        if sign.what == "add":
            life.add_seq, life.added_ns, life.add_line = sign.seq, sign.ts_ns, sign.number
            life.source = sign.word or None
            # It counts by the end of the turn, if it turns out not to have ended long before.
            self._settled_ns = self._around.turns.over_by(sign.ts_ns)
            if before is None and last is not None:
                self._return(life, last, sign)
            elif last is None and self._final_ns is not None and self._final_ns <= sign.ts_ns:
                life.ending_ns = life.ended_ns = sign.ts_ns
                life.returned = True
        else:
            self._come_untold(life, sign, process)
        return life

    def _return(self, life: PodLife, last: PodLife, sign: Sign) -> None:
        """A process is given a pod that a former one had: one that had ended may count no more.

        What had ended of a static pod each process finds out anew, and no line says that it did.
        """
        if last.ending_ns is None and last.admitted is not False:
            return
        life.returned, life.ending_ns = True, sign.ts_ns
        final = self._final_ns is not None and self._final_ns <= sign.ts_ns
        if life.source == "api" and (final or last.admitted is False):
            # The API holds its final phase, so it does not count unless it is admitted.
            life.ended_ns = sign.ts_ns

    def _come_untold(self, life: PodLife, sign: Sign, process: Process | None) -> None:
        """No line showed that it came: it may have been there since the process began."""
        life.since_ns = 0 if process is None or self._until_ns else process.known_from_ns
        if self._history.created_ns is not None:
            life.since_ns = min(max(life.since_ns, self._history.created_ns), sign.ts_ns)
        told = process is not None and process.number in self._around.configured
        life.start_time_unknown = told
        is_over = sign.shown is not None and not sign.shown.alive
        if process is not None and process.from_start and told and not is_over:
            lost = self._around.coverage.missing(process.started_ns, sign.ts_ns)
            if lost is None:  # it was heard of soon after it came
                life.since_ns = max(life.since_ns, sign.ts_ns - SETTLING_NS)

    # Signs -------------------------------------------------------------------------------

    def add(self, sign: Sign, process: Process | None) -> None:
        """A config source brings it."""
        life = self._life
        if life is None or life.removed_ns is not None or life.ended_ns is not None:
            self._begin(sign, process)
        elif life.add_seq is None:
            life.add_seq, life.added_ns, life.add_line = sign.seq, sign.ts_ns, sign.number
            life.start_time_unknown = False
            life.source = sign.word or None

    def _current(self, sign: Sign, process: Process | None) -> PodLife:
        return self._begin(sign, process) if self._life is None else self._life

    def update(self, sign: Sign, process: Process | None) -> None:
        """A config source changes it, perhaps the status of one that has ended."""
        self._current(sign, process)

    def delete(self, sign: Sign, process: Process | None) -> None:
        """The API server wants it gone."""
        life = self._current(sign, process)
        life.deleted_ns = life.deleted_ns or sign.ts_ns
        self._doom(life, sign.ts_ns)

    def remove(self, sign: Sign, process: Process | None) -> None:
        """No config source has it any more."""
        life = self._current(sign, process)
        life.removed_ns = life.removed_ns or sign.ts_ns
        self._over(life, sign.ts_ns + _LATE_NS)

    def admitted(self, sign: Sign, process: Process | None) -> None:
        """Let in; what had ended in a former process counts again, if only until it is synced."""
        life = self._current(sign, process)
        life.decided_ns, life.admitted = sign.ts_ns, True
        self._is_there(life, sign)
        if life.returned:
            life.returned, life.ended_ns = False, None
            life.ending_ns = None if self._policy(sign.ts_ns).always else sign.ts_ns

    def rejected(self, sign: Sign, process: Process | None) -> None:
        """Refused: until then it may have counted.

        One of which containers run from before counts as long as it is being torn down.
        """
        life = self._current(sign, process)
        life.decided_ns, life.admitted = sign.ts_ns, False
        life.ending_ns = life.since_ns
        if not self._running:
            self._over(life, sign.ts_ns)

    def doomed(self, sign: Sign, process: Process | None) -> None:
        """The kubelet decided to kill it, which then counted: it is chosen among active pods."""
        if self._life is None and sign.what == "preempted":
            return  # a choice alone shows no pod
        life = self._current(sign, process)
        if sign.what in ("evicted", "preempted"):
            life.ending_ns = None
            self._counted_ns = sign.ts_ns
        self._doom(life, sign.ts_ns)
        survives = sign.what == "ending_event" or sign.word == "survived"
        at_once = self._while_terminating(process) is False and not survives
        if at_once and sign.what != "preempted":
            self._over(life, sign.ts_ns + _NOTICED_NS)  # its phase is final at once
        elif sign.what == "preempted" and (at_once or sign.word == "gone"):
            # Its kill, and those of the victims before it, were waited for.
            over_ns = self._around.turns.over_by(sign.ts_ns)
            if over_ns is not None:
                self._over(life, over_ns)

    def aligned(self, sign: Sign, process: Process | None) -> None:
        """The topology manager is asked about it, as its admission does."""
        if self._life is not None and self._life.aligned_seq is None:
            self._life.aligned_seq = sign.seq

    def killed(self, sign: Sign, process: Process | None) -> None:
        """The kubelet kills a container, perhaps for the end of its pod."""
        life = self._current(sign, process)
        if life.admitted is False:
            life.ended_ns = None  # containers of it ran nevertheless
        if not sign.word or sign.word in POD_ENDS:
            self._doom(life, sign.ts_ns, orphaned=sign.word == "orphaned")
        life.seen_ns = max(life.seen_ns, sign.ts_ns)

    def terminating(self, sign: Sign, process: Process | None) -> None:
        """The kubelet began to stop it."""
        life = self._current(sign, process)
        ended = sign.word == "ended"
        begin_ns = self._around.turns.earliest(sign.ts_ns) if ended else sign.ts_ns
        self._doom(life, begin_ns, orphaned=sign.word == "orphaned")

    def terminated(self, sign: Sign, process: Process | None) -> None:
        """All of it is down for good."""
        life = self._current(sign, process)
        life.terminated_ns = life.terminated_ns or sign.ts_ns
        self._running.clear()
        self._over(life, sign.ts_ns + _TOLD_NS)

    def started(self, sign: Sign, process: Process | None) -> None:
        """The kubelet works with it."""
        life = self._current(sign, process)
        if sign.container_id is not None and not sign.sandbox:
            if sign.container is not None:
                for other in [i for i, name in self._running.items() if name == sign.container]:
                    del self._running[other]
            self._running[sign.container_id] = sign.container
        if sign.container is None or sign.sandbox:
            return
        self._last[sign.container] = None
        self._is_there(life, sign)
        if life.ended_ns is None and life.doomed_ns is None:
            life.ending_ns = None

    def died(self, sign: Sign, process: Process | None) -> None:
        """One less; the last one may be the end of a pod that is not restarted."""
        life = self._current(sign, process)
        self._running.pop(sign.container_id or "", None)
        if sign.sandbox:
            return  # a sandbox may outlive its pod
        if sign.container is not None:
            self._last[sign.container] = sign
        self._died_ns = self._around.turns.earliest(sign.ts_ns)
        if life.ending_ns is not None or not self._goes_on(sign):
            self._begin_end(life, self._died_ns)
        life.seen_ns = max(life.seen_ns, sign.ts_ns - _NOTICED_NS)

    def listed(self, sign: Sign, process: Process | None) -> None:
        """A list shows it, or no longer."""
        shown = sign.shown
        assert shown is not None
        if not shown.alive:
            created_ns = self._history.created_ns
            whole_life = process is not None and (created_ns or 0) >= process.started_ns
            if self._life is None and shown.by == "kubelet" and shown.final and whole_life:
                self._begin(sign, process)  # it came and ended since, and no line shows so
            self._unlisted(sign)
            return
        if self._life is None:
            told = process is not None and process.number in self._around.configured
            if shown.by == "api" and told:
                return  # config lines show the pods that come
            self._begin(sign, process)
        life = self._life
        assert life is not None
        if shown.by == "kubelet":
            self._is_sure(life, sign.ts_ns + READ_NS)
            life.start_time_unknown = False
        if shown.running and life.ended_ns is None:
            life.seen_ns = max(life.seen_ns, sign.ts_ns)
            if life.doomed_ns is None and life.admitted is not False and not life.returned:
                life.ending_ns = None  # another container of it died

    def _unlisted(self, sign: Sign) -> None:
        life, shown = self._life, sign.shown
        if life is None or shown is None:
            return
        if shown.by == "api" and not shown.final and self._running:
            return
        self._begin_end(life, max(life.since_ns, min(life.seen_ns, sign.ts_ns)))
        if not self._running or (shown.by == "kubelet" and not shown.final):
            self._over(life, sign.ts_ns + READ_NS)

    # What they mean ----------------------------------------------------------------------

    def _is_there(self, life: PodLife, sign: Sign) -> None:
        life.seen_ns = max(life.seen_ns, sign.ts_ns)
        self._is_sure(life, sign.ts_ns)

    def _is_sure(self, life: PodLife, by_ns: int) -> None:
        times = [ts_ns for ts_ns in (by_ns, self._settled_ns, life.sure_ns) if ts_ns is not None]
        life.sure_ns = min(times)

    def _doom(self, life: PodLife, ts_ns: int, *, orphaned: bool = False) -> None:
        """Its end is decided; an orphan was never handed to this process."""
        if orphaned and life.add_seq is None:
            ts_ns, life.start_time_unknown, life.returned = life.since_ns, True, True
        life.doomed_ns = ts_ns if life.doomed_ns is None else min(life.doomed_ns, ts_ns)
        self._begin_end(life, ts_ns)

    def _begin_end(self, life: PodLife, ts_ns: int) -> None:
        ts_ns = max(ts_ns, self._counted_ns)
        life.ending_ns = ts_ns if life.ending_ns is None else min(life.ending_ns, ts_ns)

    def _over(self, life: PodLife, by_ns: int) -> None:
        """It is over by then."""
        self._begin_end(life, by_ns)
        life.ended_ns = by_ns if life.ended_ns is None else min(life.ended_ns, by_ns)

    def _goes_on(self, sign: Sign) -> bool:
        """Whether a pod goes on after the death of a container: others run, or it runs again."""
        policy, name = self._policy(sign.ts_ns), sign.container
        if policy.always or any(other is not None for other in self._running.values()):
            return True
        return name is not None and policy.again(name, sign.number) is True

    def _while_terminating(self, process: Process | None) -> bool | None:
        return None if process is None else process.counts_while_terminating

    def _policy(self, ts_ns: int) -> Restarting:
        """Whether its containers are started again, as lists show its spec."""
        if self._restarting is None:
            pod = self._history
            listed = self._around.specs.at(ts_ns, pod.uid, pod.namespace, pod.name)
            self._restarting = Restarting(listed)
        return self._restarting

    # By itself ---------------------------------------------------------------------------

    def _finish(self) -> None:
        """Nothing more is shown of a life."""
        life, died_ns = self._life, self._died_ns
        if life is not None and self._until_ns is not None:
            self._over(life, self._until_ns)
        processes = self._around.processes.all
        if life is None:
            return
        self._finish_by_itself()
        counts = bool(processes) and self._while_terminating(processes[life.process])
        was_let_in = life.admitted is not False and not life.returned
        if life.ending_ns is not None and died_ns is not None and counts and was_let_in:
            # It counts until all of it is down.
            bounds = (died_ns, life.removed_ns, life.ended_ns)
            life.ending_ns = max(life.ending_ns, min(ns for ns in bounds if ns is not None))

    def _finish_by_itself(self) -> None:
        """A pod has ended with the last of its containers, if none of them is started again.

        Only where no line about it can be lost: one that nobody saw start may still run.
        """
        life = self._life
        if life is None or life.ended_ns is not None or self._running or not self._last:
            return
        ends = {name: sign for name, sign in self._last.items() if sign is not None}
        last_ns = max((sign.ts_ns for sign in ends.values()), default=life.since_ns)
        lost = self._around.coverage.missing(max(life.since_ns, 0), last_ns)
        if len(ends) < len(self._last) or lost is not None:
            return
        if life.deleted_ns is not None:
            self._over(life, max(life.deleted_ns, last_ns) + _NOTICED_NS)
        elif ran_out(ends, self._policy(last_ns)):
            began_ns = max(last_ns, life.since_ns + SETTLING_NS if life.returned else 0)
            self._over(life, began_ns + _NOTICED_NS)


Handler = Callable[[LifeBuilder, Sign, Process | None], None]

_HANDLERS: Mapping[str, Handler] = {
    "add": LifeBuilder.add,
    "update": LifeBuilder.update,
    "delete": LifeBuilder.delete,
    "remove": LifeBuilder.remove,
    "admitted": LifeBuilder.admitted,
    "rejected": LifeBuilder.rejected,
    "evicted": LifeBuilder.doomed,
    "preempted": LifeBuilder.doomed,
    "ending_event": LifeBuilder.doomed,
    "terminating": LifeBuilder.terminating,
    "terminated": LifeBuilder.terminated,
    "started": LifeBuilder.started,
    "died": LifeBuilder.died,
    "killed": LifeBuilder.killed,
    "listed": LifeBuilder.listed,
    "aligned": LifeBuilder.aligned,
}
