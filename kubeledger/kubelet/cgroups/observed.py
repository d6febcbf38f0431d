"""Which files of a cgroup no decision about it sets."""

from __future__ import annotations

import re
from collections.abc import Mapping

_OBSERVED = re.compile(
    r"tasks|cgroup\.(?:procs|threads)|cpuacct\..+|cpuset\..+|blkio\.(?:throttle\.)?io_.+"
    r"|.+\.(?:(?:max_)?usage_in_bytes|failcnt|oom_control"
    r"|current|peak|events(?:\.local)?|(?:numa_)?stat|stat\.local|pressure)"
)
"""Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of the kernel"""


def observed_in(files: Mapping[str, str]) -> dict[str, str]:
    """Of the files of a cgroup, with their text, those that are only looked at.

    The kernel counts in them; or they are CPU sets, which follow from what the CPU and the memory
    manager gave to containers.
    """
    return {name: text for name, text in files.items() if _OBSERVED.fullmatch(name)}
