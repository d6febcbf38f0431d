"""How a difference between kubelet versions is written down: once, named, with its source.

A *fact* is a named behaviour that some versions have and others do not: a field of its
subsystem's facts, declared by :func:`fact`. Deciders and rules ask the
profile for facts and compare no versions: the tests of the profile name the few tables that do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, ParamSpec

import msgspec

from kubeledger.model.errors import BadQuestionError
from kubeledger.model.patterns import regex

Proof = Literal["conformance", "source"]
"""Decisions of the real kubelet, replayed; or its source, read on both sides of the change."""

_VERSION = regex(r"v?([0-9]+)\.([0-9]{1,3})(?:\.([0-9]{1,4}))?(?:[-+].*)?")


class KubeletVersion(msgspec.Struct, frozen=True, order=True):
    """A released kubelet version; a missing patch level counts as 0.

    Attributes:
        minor, patch: the major version is always 1.
    """

    minor: int
    patch: int = 0

    def __str__(self) -> str:
        """As the kubelet writes it, without the ``v``."""
        return f"1.{self.minor}.{self.patch}"

    @property
    def is_confirmed(self) -> bool:
        """Whether decisions of this minor version's kubelets, or of later ones, were compared."""
        return self.minor <= CONFIRMED


OLDEST = 19
NEWEST = 37
CONFIRMED = 36
"""The newest whose decisions were compared; what is newer is known by its source alone."""


def is_version(text: str) -> bool:
    """Whether it reads as a version of a kubelet, be its rules known or not: ``1.18.3``."""
    return _VERSION.fullmatch(text) is not None


def is_known_version(text: str) -> bool:
    """Whether it is a version whose rules are known."""
    match = _VERSION.fullmatch(text)
    return match is not None and match[1] == "1" and OLDEST <= int(match[2]) <= NEWEST


def parse_version(text: str) -> KubeletVersion:
    """Read ``1.28.0``, ``v1.28.0``, ``1.28`` or ``v1.28.3-gke.100``.

    Raises:
        BadQuestionError: no version, or one outside of what is known.
    """
    match = _VERSION.fullmatch(text)
    if match is None or not is_known_version(text):
        raise BadQuestionError(
            f"unknown kubelet version {text!r}",
            advice=f"versions 1.{OLDEST} to 1.{NEWEST} are known",
        )
    return KubeletVersion(minor=int(match[2]), patch=int(match[3] or 0))


def by_source(version: str) -> str:
    """Words for a version that is known by its source alone; empty for others, and for none."""
    if not is_known_version(version) or parse_version(version).is_confirmed:
        return ""
    minor = parse_version(version).minor
    return (
        f"1.{minor} is known by source: as 1.{CONFIRMED}, with the changes that were read in its "
        "source; no decision of such a kubelet was compared"
    )


class Fact(msgspec.Struct, frozen=True):
    """One behaviour and the versions that have it.

    Attributes:
        text: the behaviour, in one sentence.
        source: function and change of the kubelet it was read from.
        since: minor version whose first release has it; None: all known versions.
        backports: minor -> first patch release that has it, for minors before ``since``.
        until: minor version whose first release no longer has it; None: still there.
        gate: feature gate that is off by default, without which no version has it.
        proof: what proves it here.
        recorded: whether a recorded node shows it besides.
    """

    text: str
    source: str
    since: int | None = None
    backports: dict[int, int] = {}
    until: int | None = None
    gate: str = ""
    proof: Proof = "source"
    recorded: bool = False

    def holds(self, version: KubeletVersion) -> bool:
        """Whether ``version`` has it; not where a gate must be set for it."""
        if self.gate:
            return False
        if self.until is not None and version.minor >= self.until:
            return False
        if self.since is None or version.minor >= self.since:
            return True
        first = self.backports.get(version.minor)
        return first is not None and version.patch >= first


P = ParamSpec("P")


def _as_default(make: Callable[P, Fact]) -> Callable[P, Any]:
    """It stands as the default of a bool, which every profile fills."""
    return make


fact: Final = _as_default(Fact)
"""Declare a field of a subsystem's facts; arguments as of :class:`Fact`."""
proven: Final = _as_default(partial(Fact, proof="conformance"))
"""Declare one that decisions of the real kubelet prove."""


def declared(facts: type[msgspec.Struct]) -> dict[str, Fact]:
    """Field of a subsystem's facts -> what it was declared with, in the order of the fields."""
    return dict(zip(facts.__struct_fields__, facts.__struct_defaults__, strict=True))
