"""A client that asks a server in this process, or one that it starts."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from kubeledger.analyze.sql.api import connect
from kubeledger.mcp.server import server_of
from kubeledger.mcp.sources import LedgerSource, Source
from kubeledger.mcp.tools import Tools

Call = tuple[str, dict[str, Any]]


class Answer(NamedTuple):
    """What came back: the typed result, its text, whether it is an error."""

    value: Any
    text: str
    is_error: bool


def ask(source: Source, calls: Sequence[Call], *, is_redacted: bool = False) -> list[Answer]:
    """Ask a server in this process one thing after the other."""
    tools = Tools(source, memory_bytes=1 << 30)

    async def asked() -> list[Answer]:
        async with Client(server_of(tools, is_redacted=is_redacted)) as client:
            return [_answer(await client.call_tool(name, args)) for name, args in calls]

    return anyio.run(asked)


def ask_ledger(ledger: Path, calls: Sequence[Call], key: bytes | None = None) -> list[Answer]:
    """Ask about a ledger, with pseudonyms if there is a key."""
    with ExitStack() as stack:
        source = LedgerSource(ledger, key, connect, stack)
        return ask(source, calls, is_redacted=key is not None)


def ask_command(args: Sequence[str], calls: Sequence[Call]) -> list[Answer]:
    """Start ``kubeledger mcp``, and ask it over its standard input."""

    async def asked() -> list[Answer]:
        started = StdioServerParameters(
            command=sys.executable, args=["-m", "kubeledger", "mcp", *args]
        )
        async with Client(started) as client:
            return [_answer(await client.call_tool(name, given)) for name, given in calls]

    return anyio.run(asked)


def _answer(result: CallToolResult) -> Answer:
    (content,) = result.content
    assert isinstance(content, TextContent)
    value = result.structured_content
    if not result.is_error:
        assert value == json.loads(content.text)
    return Answer(value, content.text, bool(result.is_error))
