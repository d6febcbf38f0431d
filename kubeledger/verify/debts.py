"""What the kubelet owes: decisions that had to come, each in an interval, and were not recorded.

What the kubelet does at once or every round is owed from the record that it follows on, until
a time by which no delay that the log does not show explains that it is not there. A debt is paid
by what it asked for, or by anything that makes it void; what says that the kubelet could not
yet do it (a failure, a back-off) defers it.

Absence convicts only where the log provably shows that class of lines at that time: this process
has logged one of them, and, of what is owed to a pod, a line that is about this pod alone (the log
may have been filtered by pod), and no line of the interval can be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.model.bodies.cgroups import CgroupObserved, CgroupRemoved, CgroupUpdated
from kubeledger.model.bodies.eviction import OutOfMemory, ProcessKilled
from kubeledger.model.bodies.lifecycle import ContainerDied, ContainerStarted
from kubeledger.model.bodies.node import ClockStepped, ErrorsLogged, PodStageFailed
from kubeledger.model.bodies.prober import ProbeCountersRead
from kubeledger.model.record import Body, Record
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.finding import Fields

Key = tuple[str, ...]
"""What owes, from the whole to the part: ``("sync", pod, container)``."""
_NEVER: Final = 1 << 63
_OF_PODS: Final = ("pod", "container")
"""What subjects begin with that name a pod: ``pod/NAMESPACE/NAME``."""
_OTHER_LINES: Final = (
    *(CgroupObserved, CgroupRemoved, CgroupUpdated, ErrorsLogged, ProbeCountersRead),
    *(OutOfMemory, PodStageFailed, ProcessKilled),  # a kernel has a clock of its own
)
"""Lines of other files, or told at the end: they do not show that the kubelet's log goes on."""


class Missed(msgspec.Struct, kw_only=True):
    """A decision that had to come.

    Attributes:
        since: the record that it follows on.
        kind, subject, expected, why, rule, inputs: of the finding, see
            :class:`~kubeledger.verify.finding.Finding`.
        by_lines: it follows on lines, and would show in lines of the same clock.
    """

    since: Record
    subject: str
    why: str
    kind: str = ""
    expected: Fields = {}
    rule: str = ""
    inputs: tuple[int, ...] = ()
    by_lines: bool = False


class Debt(Missed, kw_only=True):
    """One obligation, in an interval that begins with the record that it follows on.

    Attributes:
        due_ns: when the interval ends.
        shown_by: kind of records that would show it.
        of_pod: void where the pod that ``since`` is about begins to end first.
    """

    due_ns: int
    shown_by: type[Body]
    of_pod: bool = False


class Debts:
    """All that one kubelet process owes."""

    def __init__(self, coverage: Coverage, convict: Callable[[Debt], None]) -> None:
        """``convict`` says that a debt was not paid."""
        self._coverage = coverage
        self._convict = convict
        self._owed: dict[Key, Debt] = {}
        self._logged: set[type[Body]] = set()
        self._pods: set[str] = set()
        self._next_ns = _NEVER
        self._line_ns = self._now_ns = 0

    def restart(self) -> None:
        self._owed.clear()
        self._logged.clear()
        self._pods.clear()
        self._next_ns = _NEVER

    def observe(self, record: Record) -> None:
        """Time goes on to a record, which is not yet taken in."""
        body = record.body
        self._logged.add(type(body))
        self._now_ns = record.ts_ns
        of_log = record.evidence and not isinstance(body, _OTHER_LINES)
        if of_log and record.evidence[0].line is not None:
            self._line_ns = record.ts_ns
            if isinstance(body, ContainerStarted | ContainerDied):
                self._pods.add(f"{body.namespace}/{body.pod}")
        if isinstance(body, ClockStepped):
            self.void()
        if record.ts_ns <= self._next_ns:
            return
        due = [key for key, debt in self._owed.items() if debt.due_ns < record.ts_ns]
        for debt in map(self._owed.pop, due):
            self.call(debt)
        self._next_ns = min((debt.due_ns for debt in self._owed.values()), default=_NEVER)

    def call(self, debt: Debt) -> None:
        """A debt is due: convict, if the records would show that it was paid."""
        start_ns, end_ns = debt.since.ts_ns, debt.due_ns
        if self._line_ns >= end_ns:
            end_ns = min(end_ns, self._coverage.last_line_ns)  # the log goes on in any case
        whole = end_ns < start_ns or self._coverage.missing(start_ns, end_ns) is None
        # Lines stand in the log that a filter by another pod would have held back.
        whose, *names = debt.subject.split("/")
        of_any = whose not in _OF_PODS or "/".join(names[:2]) in self._pods
        if whole and debt.shown_by in self._logged and (of_any or not self._coverage.is_of_log):
            self._convict(debt)

    def owe(self, key: Key, debt: Debt) -> None:
        """Owe something; what is owed under that key already stays as it is."""
        if debt.due_ns < self._now_ns:
            self.call(debt)
            return
        self._owed.setdefault(key, debt)
        self._next_ns = min(self._next_ns, debt.due_ns)

    def owed(self, key: Key) -> Debt | None:
        return self._owed.get(key)

    def pay(self, key: Key) -> Debt | None:
        """What was owed under a key was done; None where nothing was owed."""
        return self._owed.pop(key, None)

    def _under(self, whole: Key) -> list[Key]:
        return [key for key in self._owed if key[: len(whole)] == whole]

    def fall_due(self, *whole: str, now_ns: int) -> None:
        """What is owed under a key's beginning had to be paid by now."""
        for key in self._under(whole):
            self.call(replace(self._owed.pop(key), due_ns=now_ns))

    def void(self, *whole: str) -> None:
        """Nothing under a key's beginning is owed any more."""
        for key in self._under(whole):
            del self._owed[key]

    def defer(self, *whole: str, due_ns: int) -> None:
        """What is owed under a key's beginning is due no earlier than that."""
        for debt in map(self._owed.__getitem__, self._under(whole)):
            debt.due_ns = max(debt.due_ns, due_ns)
