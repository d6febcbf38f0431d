"""Who gets how much CPU: the model of shares.

CPU is divided from the root down. At each level the children that want any divide what
their parent got in the ratio of their shares. Nobody gets more than it wants or than its
quota allows; what one leaves goes to the others in the same ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec


class CPUGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A cgroup as the scheduler sees it.

    Attributes:
        shares: against its siblings.
        limit: cores that its quota allows; None is no limit.
        demand: cores that its own processes want; None is as many as there are. Groups
            with children want what those want.
        children: name -> group.
    """

    shares: int
    limit: Fraction | None = None
    demand: Fraction | None = None
    children: dict[str, CPUGroup] = {}


def cpu_allocation(root: CPUGroup, cores: Fraction | int) -> dict[str, Fraction]:
    """Divide the cores of a machine.

    Args:
        root: the root cgroup; its own shares do not matter.
        cores: of the machine.

    Returns:
        Path (names joined by ``/``) -> cores, exact, for all groups below the root.
    """
    allocation: dict[str, Fraction] = {}
    _divide(root, Fraction(cores), Fraction(cores), "", allocation)
    return allocation


def _divide(
    group: CPUGroup, amount: Fraction, cores: Fraction, path: str, allocation: dict[str, Fraction]
) -> None:
    wanted = {name: _wanted(child, cores) for name, child in group.children.items()}
    for name, part in _in_ratio(amount, group.children, wanted).items():
        child_path = f"{path}/{name}" if path else name
        allocation[child_path] = part
        _divide(group.children[name], part, cores, child_path, allocation)


def _wanted(group: CPUGroup, cores: Fraction) -> Fraction:
    """Cores that a group can use, were it alone."""
    if group.children:
        wanted = sum((_wanted(child, cores) for child in group.children.values()), Fraction(0))
    else:
        wanted = cores if group.demand is None else group.demand
    return min(wanted, cores) if group.limit is None else min(wanted, cores, group.limit)


def _in_ratio(
    amount: Fraction, groups: Mapping[str, CPUGroup], wanted: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """Divide by shares; who is satisfied with less leaves the rest to the others."""
    parts = {name: Fraction(0) for name in groups}
    open_names = [name for name in groups if wanted[name] > 0]
    while open_names and amount > 0:
        total = sum(groups[name].shares for name in open_names)
        fair = {name: amount * groups[name].shares / total for name in open_names}
        content = [name for name in open_names if wanted[name] <= fair[name]]
        if not content:
            return parts | fair
        for name in content:
            parts[name] = wanted[name]
            amount -= wanted[name]
        open_names = [name for name in open_names if name not in content]
    return parts
