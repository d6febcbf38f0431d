"""Resource claims of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from kubeledger.simulate.scenario.models_base import Model

DRIVER: Final = "dra.example.com"
"""Of claims that pods name and the scenario does not."""
_Text = Annotated[str, Field(min_length=1)]


class Claim(Model):
    """A resource claim that pods name in `resourceClaims`, or that is made for one of a template.

    One that pods name and that is not here is allocated one device of the driver `dra.example.com`.
    """

    name: _Text
    """Its name; of one that is made of a template: the pod's, a dash, and the name in its spec."""
    namespace: _Text = "default"
    """Its namespace."""
    drivers: Annotated[dict[_Text, list[_Text]], Field(min_length=1)]
    """Driver -> devices that are allocated to it."""
    reserved_for: list[_Text] | None = None
    """Names of pods that may use it; left out: all that name it."""


def claim_name(pod: str, claim: Mapping[str, Any]) -> str:
    """The name of a pod's claim; of one that is made of a template as here all are called."""
    return str(claim.get("resourceClaimName") or f"{pod}-{claim.get('name')}")
