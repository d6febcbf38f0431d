"""Which pod a target means, where several had its name one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kubeledger.analyze.why.explanation import Namesake
from kubeledger.analyze.why.target import Target
from kubeledger.model.record import Record
from kubeledger.replay.episodes.subjects import pods_in, uid_of


class Scope(NamedTuple):
    """The pod that is meant.

    Attributes:
        pod_uid: its UID; None when no record names one, or the target is no pod or container.
        namesakes: the other pods of that name, oldest first.
        first_seqs: UID -> seq of the first record that names it, in this order.
    """

    pod_uid: str | None = None
    namesakes: tuple[Namesake, ...] = ()
    first_seqs: dict[str, int] = {}  # never changed

    def holds(self, record: Record, pod: tuple[str, ...]) -> bool:
        """Whether a record of the name is about the pod that is meant.

        One that names no UID is about the pod that had the name then.
        """
        if self.pod_uid is None or len(self.first_seqs) == 1:
            return True
        uid = _uid_in(record, pod)
        if uid is not None:
            return uid == self.pod_uid
        begun = [known for known, seq in self.first_seqs.items() if seq <= record.seq]
        return (begun or list(self.first_seqs))[-1] == self.pod_uid


def scope_of(target: Target, records: Sequence[Record], decisions: Sequence[Record]) -> Scope:
    """The pod whose UID is asked for, else the last one that something was decided about.

    Args:
        records: (n,) that name the target's pod, in the order of seq.
        decisions: (m,) those of them that are decisions about the target.
    """
    pod = target.parts[:2]
    spans: dict[str, list[Record]] = {}
    for record in records:
        if uid := _uid_in(record, pod):
            spans.setdefault(uid, []).append(record)
    if not spans:
        return Scope(target.pod_uid)
    chosen = target.pod_uid
    if chosen is None:
        decided = {_uid_in(record, pod) for record in decisions}
        known = [uid for uid in spans if uid in decided]
        chosen = (known or list(spans))[-1]
    namesakes = tuple(
        Namesake(pod_uid=uid, first_ts_ns=its[0].ts_ns, last_ts_ns=its[-1].ts_ns)
        for uid, its in spans.items()
        if uid != chosen
    )
    return Scope(chosen, namesakes, {uid: its[0].seq for uid, its in spans.items()})


def _uid_in(record: Record, pod: tuple[str, ...]) -> str | None:
    """UID that the record gives to the pod of this name."""
    body: Any = record.body
    found = list(pods_in(body))
    for named in found:
        if named.pod == pod:
            return named.uid
    return None if found else uid_of(body)
