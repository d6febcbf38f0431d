"""The assemblers there are: one of each module ``assemble_*.py`` in this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import kubeledger.ingest
from kubeledger.ingest.assembler import Assembler

__all__ = ["assembler_types"]

_PREFIX = "assemble_"


@cache
def assembler_types() -> tuple[type[Assembler], ...]:
    """All assembler classes, in the order of their modules' names."""
    found: list[type[Assembler]] = []
    for module in pkgutil.iter_modules(kubeledger.ingest.__path__):
        if module.name.startswith(_PREFIX):
            loaded = importlib.import_module(f"{kubeledger.ingest.__name__}.{module.name}")
            found += [
                member
                for name, member in sorted(vars(loaded).items())
                if isinstance(member, type)
                and issubclass(member, Assembler)
                and member.__module__ == loaded.__name__
                and not name.startswith("_")
            ]
    return tuple(found)
