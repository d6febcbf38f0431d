"""What stands before a klog header, when something else carried or wrote the line.

journald and syslog, the container runtimes' log files, ``kubectl logs --prefix`` and
tables of log viewers put their own text first. ``Unwrapper`` takes it off, line by line,
and keeps the full times it holds: klog's own have no year.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from kubeledger.model.patterns import regex

HEADER = regex(
    rb"([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) +(\d{1,18}) ([^\s:\]]+):(\d{1,9})\] ?", re.DOTALL
)
"""klog's text header: severity, stamp, pid, file, line."""

JSON_START = b'{"ts":'

ANY_ENTRY = regex(
    rb"[IWEF{](?:(?<=[IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d{1,18} [^\s:\]]+:\d{1,9}\]"
    rb'|(?<=\{)\\?"ts\\?":)'
)
"""A klog entry of either form, anywhere in a text; one class of first letters is searched fast."""

_OTHER = b"microshift"
"""What a component of MicroShift that is not the kubelet is called here."""

_PREFIX_MAX = 1024
"""Bytes of a line in which a carrier's prefix and the header after it end."""

_HOST = rb"(?P<host>\S++) "
_TAG = rb"(?P<tag>[\w.@/:-][\w.@/-]*+)(?:\[\d+\])?: ?"
_LEVEL = rb"(?:debug|info|notice|warn(?:ing)?|err(?:or)?|crit|alert|emerg) "
_CLOCK = rb"\d\d:\d\d:\d\d"
_ISO = rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?) "
_SHORT = rb"(?:<\d{1,3}>)? ?(?P<time>[^\s:]{2,20} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) " + _HOST
_ALONE = (
    rb"\[?(?P<time>(?:\d{4}([-/])\d\d\2\d\d[T ]|\d\d/[A-Z][a-z]{2}/\d{4}:)"
    + _CLOCK
    + rb"(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)"
)
_DATED = regex(
    rb"(?:<\d{1,3}>)? ?(?P<time>"
    # journald short-full, and with dates of its verbose form: Mon 2026-11-21 02:52:41 CET
    rb"[^\s:\d]{2,5} \d{4}-\d\d-\d\d " + _CLOCK + rb"(?:\.\d+)? [A-Z][\w+-]{0,5}"
    # journald short-unix: 1795229561.296376
    rb"|\d{9,10}\.\d{3,9}"
    # syslog with a year: 2026 Nov 21 02:52:41; Sat Nov 21 02:52:41 2026
    rb"|\d{4} [A-Za-z]{3} [ \d]\d " + _CLOCK + rb"(?:\.\d+)?"
    rb"|[A-Za-z]{3},? [A-Za-z]{3} [ \d]?\d " + _CLOCK + rb"(?:\.\d+)? (?:[A-Z]{3,4} )?\d{4}"
    rb"|\d{4}-\d\d-\d\d " + _CLOCK + rb"(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
    rb") " + _HOST + _TAG
)
_NODE = regex(rb"(?!\d+ )(?P<host>[A-Za-z\d][\w.-]*) (?=[IWEF]\d{4} |\{\"ts\":)")
"""``oc adm node-logs`` of several nodes: node-a text. Other words may stand before other lines."""
_PREFIXES = (
    # MicroShift runs all components: Nov 21 02:52:41 host microshift[4052]: kubelet text
    regex(_SHORT + rb"microshift\[\d+\]: (?:(?P<tag>kubelet)|(?P<other>[a-z][\w-]*)) "),
    # journald short, short-precise, syslog: Nov 21 02:52:41(.296376) host kubelet[4052]:
    # The month is what the machine's language calls it.
    regex(_SHORT + _TAG),
    _DATED,
    # journald short-monotonic: [  100.803095] host kubelet[4052]:
    regex(rb"\[ *\d+\.\d{6}\] " + _HOST + _TAG),
    # The same, or the next, with the message's level: host kubelet[4052]: info text
    regex(rb"(?:" + _ISO + rb"|[^\s:]{2,20} [ \d]\d \S+ )" + _HOST + _TAG + _LEVEL),
    # journald short-iso(-precise), RFC 5424-like: 2026-11-21T02:52:41+0000 host kubelet[4052]:
    regex(_ISO + _HOST + _TAG),
    # RFC 5424: <30>1 2026-11-21T02:52:41.296376Z host kubelet 4052 - - text
    regex(
        rb"(?:<\d{1,3}>)?1 "
        + _ISO
        + _HOST
        + rb"(?P<tag>\S+) \S+ \S+ (?:-|(?:\[[^\]]*\])+) (?:\xef\xbb\xbf)?"
    ),
    # CRI log files: 2026-11-21T02:52:41.296376000Z stderr F text
    regex(
        rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))"
        rb" (?:stdout|stderr) (?P<partial>[FP]) "
    ),
    # kubectl logs --timestamps, docker logs -t; with a comma as ISO 8601 writes it
    regex(rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)) "),
    # viewers' tables, CI, web servers: 2018-05-20 15:34:05.000 | text, [2018-05-20 15:34:05] text,
    # and alone: 2018-05-20 15:34:05,000 text, 2018/05/20 15:34:05 text
    regex(_ALONE + rb"(?: \||\])? "),
    # Python's loggers: 2018-05-20 15:34:05,000 - kubelet - INFO - text
    regex(_ALONE + rb" (?:(?:-|kubelet|[A-Z]{4,8}:?) )+"),
    # grep -H, grep -n, cat -n, less -N: /var/log/syslog:120:text, 120:text,    120 text
    regex(rb"[^\s:|\[\]]*(?:/|\.log|\.txt)[^\s:|\[\]]*:(?:\d{1,9}:)?(?=\S)"),
    regex(rb" *\d{1,9}(?:[:\t]| +(?:\| ?)?)"),
    # quotes, lists, tables and code of Markdown and mail: > text, * text, | text, `text
    regex(rb"[ \t]*(?:(?:[>|*+-]|\xe2\x80\xa2)[ \t]*)+(?:[ \t]|(?=`))`*|`+|  +|\t+(?=\S)"),
    # docker compose, pdsh: server_1  | text
    regex(rb"(?P<host>[A-Za-z][\w.-]*) +\| "),
    # kubelet[2298]: text, kubelet: text, 172.20.0.2: text, [pod/x/y] text
    regex(
        rb"\[[\w./-]+\] |(?P<tag>[\w.@/:-]*(?:kube|k[38]s|rke2)[\w.@/:-]*|[\w.@/:-]+?(?=\[))"
        rb"(?:\[\d+\])?: ?|(?!\d{4}-\d\d-\d\dT|\d+:)(?P<host>[\w.:-]+?): ?"
    ),
    # a program alone: kubelet text
    re.compile(rb"(?P<tag>kubel(?:et|ite)|kubenswrapper|hyperkube) (?=[IWEF]\d{4} |\{\"ts\":)"),
    _NODE,
    # stern, kail: namespace pod container text, namespace pod › text; PowerShell: Message : text
    regex(rb"(?:(?:[a-z\d][\w./-]* +){2,3}(?:\xe2\x80\xba +)?|[A-Z]\w* +: )(?=[IWEF]\d{4} )"),
)
_ANY_PROGRAM = regex(
    rb".{0,200}?(?:(?<!\S)(?P<host>[A-Za-z\d][\w.-]*) )?"
    rb"(?P<tag>[^\s\[\]:]{1,64})\[\d+\]: "
)
"""Whatever a program and its process ID end: [  12.3] h kubelet[1]:"""
_NESTED_MAX = 3
"""Carriers carry each other: a quoted ``grep -n`` of a journal."""


class Unwrapped(msgspec.Struct, frozen=True, gc=False):
    """A line without its carrier's prefix.

    Attributes:
        body: the rest of the line.
        wrapped: there was a prefix.
        time: the carrier's own time (``times.carrier_time``, ``times.without_year``).
        tag: the program that syslog or journald names.
        partial: the carrier says that the line goes on in its next one.
        host: the machine that the carrier names.
    """

    body: bytes
    wrapped: bool = False
    time: bytes | None = None
    tag: bytes | None = None
    partial: bool = False
    host: bytes | None = None


class Unwrapper:
    """Takes prefixes off; remembers the last one that fitted and tries it first.

    A prefix counts only when a klog header or JSON entry was seen after one of its form,
    so that lines of a bare log are never cut.
    """

    def __init__(self) -> None:
        self._known: list[_Form | _Nested] = []
        self._nodes: set[bytes] = set()

    def body(self, line: bytes) -> bytes:
        """The line without its prefix."""
        return line if is_entry(line) else self.unwrap(line).body

    def host(self, line: bytes) -> bytes | None:
        """Whom the prefix names; as :meth:`unwrap`, of which most lines need no more."""
        first = self._known[0] if self._known else None
        if type(first) is _Form and first is not _NODE_FIRST:
            match = first.match(line)
            if match is not None:
                return match[first.host] if first.host else None
        return self.unwrap(line).host

    def unwrap(self, line: bytes) -> Unwrapped:
        """The line without its prefix; as it is when it has none that is known."""
        for form in self._known:
            found = form.read(line)
            if found is not None:
                if form is _NODE_FIRST and found.host is not None:
                    # It stands alone before its lines: it does so before all of them.
                    self._nodes.add(found.host)
                return found
        if self._nodes:
            node, space, rest = line.partition(b" ")
            if space and node in self._nodes:
                return Unwrapped(rest, True, host=node)
        # Saves many tries for each line of an object's dump.
        if ANY_ENTRY.search(line, 0, _PREFIX_MAX) is None:
            return Unwrapped(line)
        carrier = _carrier_of(line)
        if carrier is None:
            return Unwrapped(line)
        if carrier not in self._known:
            self._known.insert(0, carrier)
        return self.unwrap(line)


class _Form:
    """A prefix's pattern, and which of its groups holds what; 0 for none."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self.match = pattern.match
        names = ("time", "tag", "other", "partial", "host")
        self._places = tuple(pattern.groupindex.get(name, 0) for name in names)
        self.host = self._places[-1]

    def read(self, line: bytes) -> Unwrapped | None:
        """The line without its prefix; None where it has none of this form."""
        match = self.match(line)
        if match is None:
            return None
        time, tag, other, partial, host = self._places
        name = match[tag] if tag else None
        return Unwrapped(
            line[match.end() :],
            True,
            match[time] if time else None,
            _OTHER if other and match[other] else name,
            bool(partial) and match[partial] == b"P",
            match[host] if host else None,
        )


class _Nested(NamedTuple):
    """A carrier's line inside another one's."""

    outer: _Form
    inner: _Form | _Nested

    def read(self, line: bytes) -> Unwrapped | None:
        """As of a form; what the inner one says goes first."""
        without = self.outer.read(line)
        found = None if without is None else self.inner.read(without.body)
        if without is None or found is None:
            return None
        return Unwrapped(
            found.body,
            True,
            found.time or without.time,
            found.tag or without.tag,
            found.partial or without.partial,
            found.host or without.host,
        )


_form = cache(_Form)
_NODE_FIRST = _form(_NODE)


def _carrier_of(line: bytes) -> _Form | _Nested | None:
    """What carries the entry in a line: as few carriers as possible."""
    for depth in range(1, _NESTED_MAX + 1):
        if (form := _nested(line, depth)) is not None:
            return form
    found = _form(_ANY_PROGRAM).read(line)
    return _form(_ANY_PROGRAM) if found is not None and is_entry(found.body) else None


def _nested(line: bytes, depth: int) -> _Form | _Nested | None:
    """So many carriers, one inside the other."""
    for form in map(_form, _PREFIXES):
        found = form.read(line)
        if found is None:
            continue
        if depth == 1:
            if is_entry(found.body):
                return form
        elif (inner := _nested(found.body, depth - 1)) is not None:
            return _Nested(form, inner)
    return None


def is_entry(body: bytes) -> bool:
    """Whether a line without its carrier's prefix begins an entry of klog, text or JSON."""
    return HEADER.match(body) is not None or body.startswith(JSON_START)


# Other programs than the kubelet that write klog lines, by what names them.

_OWN = frozenset(
    b"""
allocation_manager cgroup_manager_linux cgroup_v1_manager_linux cgroup_v2_manager_linux cni_windows
container_gc container_log_manager container_manager_linux container_manager_windows cpu_assignment
cpu_manager eviction_manager evented fs_resource_analyzer generic image_gc_manager image_manager
image_pull_manager kube_docker_client memory_manager memory_threshold_notifier mirror_client
network_stats node_container_manager_linux nodelease oom_watcher_linux plugin_watcher pod_devices
pod_startup_latency_tracker pod_workers predicate prober qos_container_manager_linux
reconciler_common resource_metrics safe_sysctls scope scope_container scope_pod setters
state_checkpoint state_mem status_manager summary_sys_containers swap_util threshold_notifier_linux
token_manager topology_hints topology_manager userns_manager volume_manager
volume_stat_calculator watchdog_linux
""".split()
)
_OWN_BEGIN = regex(
    rb"kubelet|kuberuntime_|docker_s|cri_stats_|cadvisor_|nodeshutdown_|pod_container_"
    rb"|policy_(?:static|none|best_effort|restricted|single_numa)"
    rb"|prober_|patch_prober|hostport|reconstruct|dra_plugin"
)
"""Source files that log in a kubelet and in no other program, without ``.go``: by their whole
names, or by how they begin."""

_SHARED = frozenset(
    b"""
actual_state_of_world apiserver cache client cni common config controller csi_attacher csi_mounter
csi_plugin desired_state_of_world_populator dns endpoint event exec feature_gate file flags handler
helpers http log logs manager nestedpendingoperations operation_executor operation_generator plugin
reconciler remote_image remote_runtime run runtime server state_file tcp worker
""".split()
)
"""Those that log what concerns pods in a kubelet, and log elsewhere, too."""

_CALLER = regex(
    rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d{1,18} (?:[^\s:\]]*/)?([^\s:\]/]+)\.go:\d{1,9}\]"
    rb'|\{"ts":[^,]{1,40},"caller":"(?:[^"]*/)?([^"/]+)\.go:'
)
_KUBELETS_WORDS = regex(
    rb'"Kubelet version"|FLAG: --(?:pod-manifest-path|kubelet-cgroups|eviction-hard|max-pods)'
)

OTHER_COMPONENT = regex(
    r"kube-?(?:apiserver|proxy|scheduler|controller|router)|etcd|coredns|containerd|calico|cilium"
    r"|flannel|controller-manager|apiserver|microshift",
    re.IGNORECASE,
)
"""In the name of a file or program: it is none of the kubelet's."""

_OTHER_CALLER = regex(
    rb"(?:proxier|apf_controller|apiservice\w*|available_controller|garbagecollector|replica_set"
    rb"|leaderelection|controllermanager|deployment_controller|schedule_one|scheduler|daemon)\.go:\d"
)
"""Callers of the API server, the controllers, the scheduler, the proxy, and of programs that run
all of them in one process, the kubelet included."""

_KUBELETS_TAG = regex(rb"kubel(?:et|ite)|kubenswrapper|hyperkube|k3s|rke2")
_BEGINS_KUBELET = regex(rb'"Kubelet version"|FLAG: --')
_BEGINS_OTHER = regex(_OTHER_CALLER.pattern + rb"|\] Version: v1\.(?:2[1-9]|[3-9]\d)\.")
"""The kubelet shows its version in another form since 1.21."""
_ENTRY_HEAD = 200
_MAY_TELL = regex(rb"kube|hyper|k[38]s|rke|kernel", re.IGNORECASE)


class Callers:
    """The source files that a log's entries name, and whether a kubelet is among the writers.

    Attributes:
        others: files that are none of a kubelet's, in the order in which they were first seen.
        is_kubelets: an entry is of a file that only a kubelet has, or its carrier names one.
    """

    def __init__(self) -> None:
        """Nothing was seen."""
        self.others: dict[str, None] = {}
        self.is_kubelets = False

    def look(self, log: bytes) -> None:
        """Look at lines, up to the first that is a kubelet's."""
        unwrapper = Unwrapper()
        for line in log.split(b"\n"):
            body, tag = line, None
            if not is_entry(line):
                unwrapped = unwrapper.unwrap(line)
                body, tag = unwrapped.body, unwrapped.tag
            if is_kubelets(body) or (
                tag is not None and _KUBELETS_TAG.search(tag) and is_entry(body)
            ):
                self.is_kubelets = True
                return
            file = _file_of(body)
            if file is not None and not may_be_kubelets(body):
                self.others[f"{file.decode('utf-8', 'replace')}.go"] = None


@lru_cache(4096)
def _is_own(file: bytes) -> bool:
    return file in _OWN or _OWN_BEGIN.match(file) is not None


def _file_of(entry: bytes) -> bytes | None:
    caller = _CALLER.match(entry)
    return None if caller is None else caller[1] or caller[2]


def is_kubelets(entry: bytes) -> bool:
    """No other program writes such an entry."""
    file = _file_of(entry)
    if file is None:
        return False
    return _is_own(file) or _KUBELETS_WORDS.search(entry, 0, _ENTRY_HEAD) is not None


def may_be_kubelets(entry: bytes) -> bool:
    """A kubelet logs from the source file that the entry names."""
    file = _file_of(entry)
    return file is not None and (file in _SHARED or _is_own(file))


def begins_kubelet(entry: bytes) -> bool:
    """The entry can be none of another component's that runs in the kubelet's process."""
    return is_kubelets(entry) or _BEGINS_KUBELET.search(entry, 0, _ENTRY_HEAD) is not None


def begins_other_program(entry: bytes) -> bool:
    """The entry can be none of the kubelet's."""
    return _BEGINS_OTHER.search(entry, 0, _ENTRY_HEAD) is not None


@lru_cache(1024)
def is_other_program(tag: bytes | None) -> bool:
    """The program that syslog or journald names is a component of its own."""
    name = "" if tag is None else tag.decode("utf-8", "replace")
    return "kubel" not in name and OTHER_COMPONENT.search(name) is not None


@lru_cache(1024)
def is_neighbour(tag: bytes | None) -> bool:
    """The program that syslog or journald names neither is the kubelet nor the kernel."""
    return tag is not None and _MAY_TELL.search(tag) is None
