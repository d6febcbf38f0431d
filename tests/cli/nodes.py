"""The bundled recordings in every form that commands take, each made once."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner, Result

from kubeledger.cli.main import cli
from kubeledger.ledger.standalone import write_recording
from kubeledger.model.record import Record
from tests.recordings import RECORDINGS, import_recording
from tests.verify.histories import recorded

WORLDS: tuple[dict[str, str], ...] = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4242", "TZ": "Pacific/Chatham", "LC_ALL": "C.UTF-8"},
)
"""Processes whose output must be the same bytes."""


class Nodes:
    """Places of ``node-a`` and ``node-b``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ledger = cache(self._ledger)
        self.recording = cache(self._recording)

    def _ledger(self, name: str) -> str:
        path = self._directory / name
        import_recording(name, path)
        return str(path)

    def _recording(self, name: str, suffix: str = "") -> str:
        """Its ledger as ``*.ledger.jsonl``."""
        path = self._directory / f"{name}.ledger.jsonl{suffix}"
        run("export", "--ledger", self.ledger(name), "--out", path, exits=0)
        return str(path)

    @staticmethod
    def raw(name: str) -> str:
        return str(RECORDINGS / f"{name}.tar.zst")


def run(
    *words: object,
    input: str | bytes | None = None,
    env: Mapping[str, str | None] | None = None,
    exits: int | None = None,
) -> Result:
    """Run a command; with ``exits`` it has to end so, and without a traceback."""
    result = CliRunner().invoke(cli, [str(word) for word in words], input=input, env=env)
    assert exits in (None, result.exit_code), result.output
    assert exits is None or "Traceback" not in result.output
    return result


def answer(*args: str | Path, exit_code: int = 0) -> Any:  # noqa: ANN401 # any JSON value
    """The JSON that a command writes with ``-o json``."""
    return json.loads(run(*args, "-o", "json", exits=exit_code).stdout)


def output_in(world: dict[str, str], *args: str) -> bytes:
    """What a command writes in a process of that world, whatever it exits with."""
    command = [sys.executable, "-m", "kubeledger", *args]
    done = subprocess.run(command, env=os.environ | world, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert done.stdout, done.stderr
    return done.stdout


def seq_of(name: str, kind: str, **fields: object) -> int:
    """First record of a kind whose body has these values."""
    return next(
        record.seq
        for record in recorded(name)
        if record.kind == kind
        and all(getattr(record.body, field) == value for field, value in fields.items())
    )


def lied(name: str, path: Path, seq: int, **fields: object) -> str:
    """A recording in which the body of one record is changed."""

    def change(record: Record) -> Record:
        if record.seq != seq:
            return record
        return msgspec.structs.replace(record, body=msgspec.structs.replace(record.body, **fields))

    records = sorted(recorded(name), key=lambda record: record.seq)
    write_recording(path, map(change, records))
    return str(path)
