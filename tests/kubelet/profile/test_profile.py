"""Versions resolve, facts start where they say, the parity page is current."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.kubelet.profile.facts import NEWEST, OLDEST, Fact, KubeletVersion, parse_version
from kubeledger.kubelet.profile.parity import render
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadQuestionError

PARITY = Path(__file__).parents[3] / "docs" / "parity.md"


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_every_known_version_resolves(minor: int) -> None:
    """With and without patch level, prefix and vendor suffix."""
    assert resolve(f"1.{minor}").version == KubeletVersion(minor=minor)
    assert resolve(f"v1.{minor}.3-gke.100").version == KubeletVersion(minor=minor, patch=3)


@pytest.mark.parametrize(
    "text", ["", "1.18.0", "1.37.0", "2.1.0", "latest", "1", "v0.0.0-master+x"]
)
def test_other_versions_are_refused_with_the_known_range(text: str) -> None:
    """The message says which are known."""
    with pytest.raises(BadQuestionError) as caught:
        resolve(text)
    assert f"1.{OLDEST} to 1.{NEWEST}" in caught.value.advice


@pytest.mark.parametrize(
    ("version", "holds"),
    [("1.27.9", False), ("1.28.0", True), ("1.26.4", False), ("1.26.5", True), ("1.33.0", False)],
)
def test_a_fact_knows_backports_and_its_end(version: str, holds: bool) -> None:
    """Since, backports, until."""
    fact = Fact(since=28, backports={26: 5}, until=33, text="s", source="o", proof="source")
    assert fact.holds(parse_version(version)) is holds


def test_the_parity_page_is_current() -> None:
    """Rewrite it with ``just docs``."""
    assert PARITY.read_text(encoding="utf-8") == render()
