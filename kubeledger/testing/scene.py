"""Small histories written by hand: what a node saw and did, a second at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.ledger.standalone import write_recording
from kubeledger.model.bodies.node import KubeletStarted, Setting, SettingsObserved
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.replay.instants import fold
from kubeledger.replay.node.state import NodeState
from kubeledger.verify import RECORDED, Finding, Variant, verify

_NS_PER_S = 1_000_000_000

CONFIG_PATH = "/var/lib/kubelet/config.yaml"
"""What the flag ``--config`` of every scene's kubelet names."""


class Scene:
    """A history under construction.

    Attributes:
        node: its name.
        records: so far.
    """

    def __init__(
        self,
        kubelet_version: str | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        node: str = "node-1",
        start_ts_ns: int = 1_700_000_000 * _NS_PER_S,
    ) -> None:
        """Begin a history.

        Args:
            kubelet_version: whose rules hold; None begins without a kubelet's start.
            settings: KubeletConfiguration field (or ``--flag``) -> value, as a kubelet that
                seen from its start logs them; None leaves them unknown.
            node: name of the node.
            start_ts_ns: the scene's second 0.
        """
        self.node = node
        self.records: list[Record] = []
        self._start_ts_ns = start_ts_ns
        if kubelet_version is not None:
            self.at(
                0, KubeletStarted(pid=1, kubelet_version=kubelet_version, version_source="option")
            )
        if settings is not None:
            self.at(0, _observed(settings))

    def at(self, seconds: float, *bodies: Body, cause: int | None = None) -> int:
        """Add records at a second of the scene; the last one's seq.

        Args:
            seconds: since the scene's start; may go back.
            bodies: observations and decisions, in order.
            cause: seq of the record that led to them.
        """
        for body in bodies:
            seq = len(self.records) + 1
            self.records.append(
                Record(
                    node=self.node,
                    seq=seq,
                    ts_ns=self._start_ts_ns + round(seconds * _NS_PER_S),
                    role=body.role,
                    kind=body.kind,
                    v=body.v,
                    cause=cause,
                    evidence=(Evidence(file="scene", line=seq, offset=None, text=body.kind),),
                    body=body,
                )
            )
        return len(self.records)

    def findings(self, variant: Variant = RECORDED) -> list[Finding]:
        """Every decision, decided again."""
        return [outcome for outcome in verify(self._read, variant) if isinstance(outcome, Finding)]

    def state(self) -> NodeState:
        """The node after the last record."""
        return fold(self.records)

    def save(self, path: str | Path) -> None:
        """Write the scene as a recording (``*.ledger.jsonl``)."""
        write_recording(path, self.records)

    def _read(self, kinds: Collection[str] | None) -> Iterator[Record]:
        return (record for record in self.records if kinds is None or record.kind in kinds)


def _observed(settings: Mapping[str, Any]) -> SettingsObserved:
    """All of a process whose start is seen: flags are logged, and name the file of the rest."""
    given = {"--config": CONFIG_PATH, **settings}
    return SettingsObserved(
        settings={
            name: Setting(
                value=msgspec.json.encode(value).decode(),
                source="flag" if name.startswith("--") else "config",
            )
            for name, value in sorted(given.items())
        }
    )
