"""An incident is one thing that went wrong; a headline is several that belong together."""

from __future__ import annotations

import msgspec

__all__ = ["Headline", "Incident"]


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong, or several of a kind about one subject.

    Attributes:
        kind: what happened: ``preempted``, ``evicted``, ``oom``, ``killed``, ``refused``,
            ``sandbox_failed``, ``crashed``, ``held_back``, ``unready``, ``gc_failed``, ``deleted``,
            ``kubelet_died``, ``kubelet_restarted``, ``pressure``, ``impossible``, or, of the
            evidence, ``log_lost``, ``clock_step`` and ``finding``.
        severity: 5 (the worst) to 1; 0: it happened, and is no headline.
        subject: whom it hit, as in ``default/web/app``; what headlines are put together by.
        text: the sentence.
        count: how many records it stands for.
        ts_ns: of the first of them.
        seq: the record that shows it best.
        target: what ``kubeledger why`` would be asked; None: nothing of it.
        late: of the pods that were evicted, those that took longer than the kubelet waited.
    """

    kind: str
    severity: int
    subject: str
    target: str | None
    text: str
    count: int
    ts_ns: int
    seq: int
    late: int = 0


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """A button of the page: an incident, or several of one kind.

    Attributes:
        kind, severity, text, ts_ns, seq: as of an incident; of several, those of the first one.
    """

    kind: str
    severity: int
    text: str
    ts_ns: int
    seq: int
