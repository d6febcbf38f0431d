"""Lines of severity W, E and F, told by their shape."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Literal, cast

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext, Subject
from kubeledger.ingest.correlate.repeated import Repeated
from kubeledger.ingest.messages.podref import formatted_pod, structured_pod, structured_pods
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import LogLine
from kubeledger.kubelet.kube.names import UID
from kubeledger.model.bodies.stages import ErrorsLogged
from kubeledger.model.units import NS_PER_S

_EVERY_NS = 3600 * NS_PER_S
_SHAPES_MAX = 1000
"""Lines of more shapes than this are counted together: memory must stay flat."""
_OTHER_SHAPES = "(more shapes)"

_POD_AND_UID = re.compile(r'\bpod \\*"([^"\\]+)\\*" \(UID: \\*"([^"\\]+)\\*"\)')
_POD_DIRECTORY = re.compile(f"/pods/({UID})/")
_NODE = Subject()


class ErrorsAssembler(Assembler):
    """Counts them by shape, the pod that they name, and the kubelet process."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._said = Repeated[Hashable](self.queue, _EVERY_NS, wait_ns=0)
        self._shapes: set[tuple[str, str]] = set()

    def tell(self, line: LogLine, shape: str) -> Facts:
        """Take in a line that all others have read."""
        self.before(line.ts_ns)
        if (line.file, shape) not in self._shapes:
            if len(self._shapes) < _SHAPES_MAX:
                self._shapes.add((line.file, shape))
            else:
                shape = _OTHER_SHAPES
        pod = self._pod(line)
        key = (
            line.severity,
            line.file,
            shape,
            pod.namespace,
            pod.pod,
            pod.uid,
            line.pid,
            line.is_told,
        )
        if self._said.say_again(key, None, "log", line):
            return self.queue.release(line.ts_ns)
        body = ErrorsLogged(
            severity=cast(Literal["W", "E", "F"], line.severity),
            source=line.file,
            shape=shape,
            namespace=pod.namespace,
            pod=pod.pod,
            pod_uid=pod.uid,
            pid=line.pid,
            recorded=line.is_told,
            first_ts_ns=line.ts_ns,
            last_ts_ns=line.ts_ns,
        )
        self._said.say(key, None, body, "log", line)
        return self.queue.release(line.ts_ns)

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What goes on for long is recorded again."""
        self._said.pass_time(ts_ns)

    def end(self, ts_ns: int) -> None:
        """What was counted since."""
        self._said.end(ts_ns)

    def _pod(self, line: LogLine) -> Subject:
        """The pod that the line names, with what the bundle knows of it."""
        values = line.values or {}
        subject = _in_values(values) or _in_text(line.message) or _in_paths(line.message, values)
        return _NODE if subject is None else self.context.completed(subject, line.ts_ns)


def _in_values(values: dict[str, Any]) -> Subject | None:
    # A cut line refuses to say what is missing; here nothing has to be there.
    if dict.get(values, "kind", "Pod") != "Pod":  # an event about the node
        return None
    pod, uid, pods = (dict.get(values, key) for key in ("pod", "podUID", "pods"))
    named = [ref] if (ref := structured_pod(pod, uid)) is not None else structured_pods(pods)
    if len(named) == 1:
        return Subject(*named[0])
    return Subject(uid=uid) if isinstance(uid, str) and uid and not named else None


@lru_cache(1024)
def _in_text(message: str) -> Subject | None:
    if (ref := formatted_pod(message)) is not None:
        return Subject(*ref)
    named = _POD_AND_UID.search(message)
    return None if named is None else Subject(pod=named[1], uid=named[2])


def _in_paths(message: str, values: dict[str, Any]) -> Subject | None:
    """The pod whose directory, ``pods/UID`` under the kubelet's root, the line names alone."""
    texts = (message, *(text for text in dict.values(values) if isinstance(text, str)))
    uids = {uid for text in texts if "/pods/" in text for uid in _POD_DIRECTORY.findall(text)}
    return Subject(uid=uids.pop()) if len(uids) == 1 else None
