"""Which engine runs tasks, by name; each is imported only where it is chosen."""

from __future__ import annotations

from kubeledger.fleet.engines.engine import ENGINES, Engine
from kubeledger.model.errors import BadQuestionError


def engine_of(name: str, *, workers: int | None = None, address: str | None = None) -> Engine:
    """An engine by its name; nothing is started yet.

    Args:
        name: one of ``ENGINES``, or ``ray=ADDRESS``.
        workers: most tasks at once; None: as many as there are processors.
        address: of a Ray cluster.

    Raises:
        BadQuestionError: no such engine, or it lacks what it needs.
    """
    kind, _, place = name.partition("=")
    if kind not in ENGINES or (place and kind != "ray"):
        raise BadQuestionError(f"there is no engine {name!r}", advice=" or ".join(ENGINES))
    if place and address and place != address:
        raise BadQuestionError("two addresses of a Ray cluster", advice="give one")
    if workers is not None and workers < 1:
        raise BadQuestionError(f"{workers} workers do nothing", advice="give 1 or more")
    if kind == "ray":
        from kubeledger.fleet.engines.ray import RayEngine

        return RayEngine(workers=workers, address=place or address)
    if address:
        raise BadQuestionError("only Ray has an address", advice="add --engine ray")
    from kubeledger.fleet.engines.local import LocalEngine

    return LocalEngine(workers=workers)
