"""What fails outside of the kubelet, so that pods do not start or the node is not ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from kubeledger.simulate.engine.plan import Failing
from kubeledger.simulate.scenario.faults import rule
from kubeledger.simulate.scenario.models_base import Model
from kubeledger.simulate.scenario.problems import Fault
from kubeledger.simulate.scenario.values import Duration, Span

_NODE_WIDE = ("network", "runtime", "apiServer")
UNNAMED = (*_NODE_WIDE, "cgroup", "sandbox")


class Failure(Model):
    """Something fails for a while, and the kubelet tries again until it does not.

    What waits for it, and how the kubelet says so, follows from the version and from pods' specs.
    """

    what: Failing
    """`network` is not ready for pods; a pod's `cgroup` cannot be made; a `volume` is not mounted;
    a `secret` or `configMap` is not there, for volumes and environments; a `claim` of
    `resourceClaims` is not prepared, or its `driver` is not registered; a `sandbox` is not
    started; an `image` cannot be pulled; a
    container cannot be made (`create`) or run (`start`), or its post-start `hook` fails; the
    container `runtime` is down; the `apiServer` is gone."""
    of: Annotated[str, Field(min_length=1)] | None = None
    """Its name: of an image, secret, config map, volume or claim as pods' specs name it, of the
    driver, or of the container; left out: each (an image has to be named)."""
    pods: list[str] = []
    """For these pods alone, `namespace/name`, or `name` in namespace `default`."""
    from_: Annotated[Duration, Field(alias="from")] = 0
    """From when on."""
    for_: Annotated[Span | None, Field(alias="for")] = None
    """How long; left out: for good."""
    words: str = ""
    """What the runtime, the registry, the driver or the network says; left out: the usual words."""

    @rule
    def _is_named(self) -> Iterator[Fault]:
        if self.what == "image" and self.of is None:
            yield (), "names no image", "give its name as `of`"
        if self.what in UNNAMED and self.of is not None:
            yield ("of",), f"{self.what} has no name", "leave it out"
        if self.what in _NODE_WIDE and self.pods:
            yield ("pods",), f"{self.what} fails for the whole node", "leave it out"
