"""Histories for tests of verification: real recordings, changed copies, small scenes."""

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.model.bodies.node import KubeletStarted, Setting, SettingsObserved
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.verify import (
    RECORDED,
    Contradiction,
    Finding,
    Outcome,
    Reader,
    Variant,
    registry,
    verify,
)
from kubeledger.verify.context import Verifier, VerifyContext
from tests.recordings import import_recording


@cache
def recorded(name: str) -> tuple[Record, ...]:
    """Records of ``recordings/<name>.tar.zst``, imported once a process, in replay order."""
    with tempfile.TemporaryDirectory() as scratch:
        ledger, _ = import_recording(name, Path(scratch) / "ledger")
        return tuple(histories_of_ledger(ledger)[0].read(None))


def reader(records: Sequence[Record]) -> Reader:
    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return (record for record in records if kinds is None or record.kind in kinds)

    return read


def outcomes(records: Sequence[Record], variant: Variant = RECORDED) -> list[Outcome]:
    return list(verify(reader(records), variant))


def findings(
    records: Sequence[Record], variant: Variant = RECORDED, kind: str | None = None
) -> list[Finding]:
    """Findings without contradictions, of one kind if it is given."""
    return [
        outcome
        for outcome in outcomes(records, variant)
        if not isinstance(outcome, Contradiction) and kind in {None, outcome.kind}
    ]


def settled(records: Iterable[Record], variant: Variant = RECORDED) -> VerifyContext:
    context = VerifyContext(variant)
    for record in records:
        context.prescan(record)
    context.settle()
    return context


@contextmanager
def at_work(*verifiers: type[Verifier]) -> Iterator[None]:
    """No other verifiers are at work, so that scenes need hold no more than these look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "verifiers_for", lambda kinds: verifiers)
        yield


def nothing_but(*verifiers: type[Verifier]) -> Callable[[], Iterator[None]]:
    """A fixture for all tests of the module that has it."""

    @pytest.fixture(autouse=True, scope="module")
    def alone() -> Iterator[None]:
        with at_work(*verifiers):
            yield

    return alone


def kubelet_of(version: str | None = "1.36.2", pid: int = 1, **more: Any) -> KubeletStarted:  # noqa: ANN401 # any field
    return KubeletStarted(pid=pid, kubelet_version=version, version_source="log", **more)


def settings_told(
    values: Mapping[str, Any], source: Literal["config", "default", "flag"] = "config"
) -> SettingsObserved:
    """What a kubelet runs with; values as JSON has them."""
    return SettingsObserved(
        settings={
            name: Setting(value=msgspec.json.encode(value).decode(), source=source)
            for name, value in values.items()
        }
    )


def changed(records: Sequence[Record], seq: int, **fields: Any) -> list[Record]:  # noqa: ANN401 # any field
    """A copy in which fields of one record's body are others: a lie."""
    lied = []
    for record in records:
        if record.seq == seq:
            body = msgspec.structs.replace(record.body, **fields)
            record = msgspec.structs.replace(record, body=body)
        lied.append(record)
    return lied


def scene(*steps: tuple[float, Body], node: str = "node-t", start_s: int = 1_000) -> list[Record]:
    """Records of bodies at seconds after a start; each has a line of evidence."""
    return [
        Record(
            node=node,
            seq=seq,
            ts_ns=start_s * 1_000_000_000 + round(at_s * 1_000_000_000),
            role=body.role,
            kind=body.kind,
            v=body.v,
            cause=None,
            evidence=(Evidence(file="kubelet.log", line=seq, offset=seq * 100, text=body.kind),),
            body=body,
        )
        for seq, (at_s, body) in enumerate(steps, start=1)
    ]
