"""Pieces of kubelet logs, in all forms, and items: fed to one assembler by the real reader."""

import json
from collections.abc import Iterable

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.klog.account import Account, LogEntry
from kubeledger.ingest.klog.reader import KlogReader
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.sources.items import Fact, Item
from tests.ingest.feeding import items_of, listening

YEAR = 2026


def feed_log(assembler: Assembler, text: str) -> list[Fact]:
    reader = KlogReader(Account("kubelet.log"), router(listening(assembler)), Clock(YEAR))
    facts: list[Fact] = []
    for output in reader.read(iter([text.encode()])):
        if isinstance(output, LogEntry):
            for handler in output.handlers:
                facts += handler(output.line) or ()
    return facts


def not_understood(assembler: Assembler, text: str) -> int:
    """Lines of a log that neither the assembler nor the noise tables know."""
    reader = KlogReader(Account("kubelet.log"), router(listening(assembler)), Clock(YEAR))
    list(reader.read(iter([text.encode()])))
    return reader.account.not_understood


def feed_items(assembler: Assembler, items: Iterable[Item]) -> list[Fact]:
    """Facts that the assembler makes of items other than log lines."""
    handlers = items_of(assembler)
    return [fact for item in items for fact in handlers[type(item)](item) or ()]


def klog(file: str, message: str, *, pid: int = 8337, time: str = "02:52:41.549548") -> str:
    """One line of klog's text form."""
    return f"I1121 {time} {pid:7d} {file}:1] {message}\n"


def klog_json(caller: str, message: str, /, **values: object) -> str:
    """One line of klog's JSON form, as the logr back end of the kubelet writes it."""
    entry = {"ts": 1795229561549.548, "caller": caller, "msg": message, "v": 0, **values}
    return json.dumps(entry, separators=(",", ":")) + "\n"
