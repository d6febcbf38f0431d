"""A ledger as one file and back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubeledger.fleet.sealed import seal_ledger, unseal_ledger
from kubeledger.model.errors import DamagedLedgerError
from tests.fleet.places import log_lines, write_bundle
from tests.fleet.test_task import facts, imported


def test_a_ledger_survives_being_sealed_and_goes_on(tmp_path: Path) -> None:
    """The same bytes however often, whatever clocks say; what it kept is still read again."""
    part = write_bundle(tmp_path / "part", log=log_lines(0, 1000))
    ledger = imported(tmp_path / "ledger", part)
    (ledger.path / "history").mkdir()
    (ledger.path / "history" / "copy.parquet").write_bytes(b"made again")
    seal_ledger(ledger.path, tmp_path / "1")
    os.utime(ledger.path / "ledger.json", (1, 1))
    unseal_ledger(tmp_path / "1", tmp_path / "unsealed")
    seal_ledger(tmp_path / "unsealed", tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert not (tmp_path / "unsealed" / "history").exists()
    whole = write_bundle(tmp_path / "whole")
    for directory in (ledger.path, tmp_path / "unsealed"):
        imported(directory, whole)
    assert facts(type(ledger).open(tmp_path / "unsealed")) == facts(ledger)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_damage_is_told(damage: str, tmp_path: Path) -> None:
    ledger = imported(tmp_path / "ledger", write_bundle(tmp_path / "in", log=log_lines(0, 600)))
    sealed = tmp_path / "x.tar.zst"
    seal_ledger(ledger.path, sealed)
    content = bytearray(sealed.read_bytes())
    content[len(content) // 2] ^= 0xFF
    cut = sealed.read_bytes()[: len(content) // 2]
    sealed.write_bytes({"cut": cut, "changed": bytes(content), "empty": b""}[damage])
    with pytest.raises(DamagedLedgerError, match=r"x\.tar\.zst"):
        unseal_ledger(sealed, tmp_path / "unsealed")
