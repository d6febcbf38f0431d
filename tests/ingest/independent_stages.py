"""Sync errors of pods read from raw text: a second reading of what an import reads.

Nothing is shared with the package: lines are found by regular expressions, quotes and layers are
let be, a stage is told by the first of a few words. What the import makes of the same text must
agree with it.
"""

import re
from collections import Counter
from collections.abc import Iterable

import msgspec

_SYNC = re.compile(r"Error syncing pod.{0,250}?skipping(?P<rest>.*)", re.DOTALL)
_POD = (
    re.compile(r'pod=[\\"]*(?P<ns>[a-z0-9-]+)/(?P<pod>[a-z0-9.-]+)'),
    re.compile(
        r'pod[\\"]*:\s*\{[\\"]*name[\\"]*:[\\"]*(?P<pod>[a-z0-9.-]+)[\\",]*namespace[\\"]*:[\\"]*'
        r"(?P<ns>[a-z0-9-]+)"
    ),
    re.compile(r"Error syncing pod \S+ \(\W*(?P<pod>[a-z0-9.-]+)_(?P<ns>[a-z0-9-]+)\("),
)
_STAGES = (
    ("sandbox", r"CreatePodSandbox|SetupNetwork|for \W*POD\W"),
    ("run", r"CrashLoopBackOff"),
    ("image", r"ErrImage|ImagePullBackOff|InvalidImageName|ImageInspectError|RegistryUnavailable"),
    ("create", r"CreateContainer(?:Config)?Error"),
    ("hook", r"PostStartHookError"),
    ("start", r"RunContainerError"),
    ("", r"ResizePodInPlace"),
    ("stop", r"KillPodSandbox|KillContainer|error killing"),
    ("network", r"network is not ready"),
    ("volumes", r"unmounted volumes|mount volumes"),
    ("resources", r"[Rr]esource ?[Cc]laim|dynamic resources"),
    ("config", r""),
)
_WAITS = re.compile(r"CrashLoopBackOff|ImagePullBackOff")


class SyncErrors(msgspec.Struct):
    """Those of one pod.

    Attributes:
        last: the stage of the last.
        tries: stage -> lines that say that it was tried in vain.
    """

    last: str = ""
    tries: Counter[str] = msgspec.field(default_factory=Counter)


def sync_errors(lines: Iterable[str]) -> dict[tuple[str, str], SyncErrors]:
    """Namespace and name of each pod with a sync error -> what they say."""
    found: dict[tuple[str, str], SyncErrors] = {}
    for line in lines:
        sync = _SYNC.search(line)
        pod = next((match for each in _POD if (match := each.search(line))), None)
        if sync is None or pod is None:
            continue
        rest = sync["rest"]
        stage = next(name for name, words in _STAGES if re.search(words, rest))
        if stage:
            errors = found.setdefault((pod["ns"], pod["pod"]), SyncErrors())
            errors.last = stage
            errors.tries[stage] += not _WAITS.search(rest)
    return found
