"""Which files and lines are which node's: one bundle a node.

Logs come first. Two of them are one node's if their lines, or the hosts that carried them, name
the same machine; logs that name none belong to what lies in or around their directory. Then the
documents: statistics and the kubelet's own lists say whose they are, a file that lies beside the
logs of one node only is that node's, and lists of the API server are everybody's: each node takes
out of them what is its own (``survey``, ``pipeline``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from os.path import commonpath

import msgspec

from kubeledger.ingest.klog.log_survey import survey_log
from kubeledger.ingest.planning.bundle import Bundle, FoundFile, ImportOptions
from kubeledger.ingest.planning.plan import NamesInside, name_of_bundle, names_inside
from kubeledger.ingest.sources.collect import node_of_place
from kubeledger.ingest.sources.items import Finding
from kubeledger.ingest.sources.node_lines import NodeLines, Writers, is_local, same_machine
from kubeledger.ingest.sources.packing import CHUNK
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.errors import BadInputError

_SHARED = ("collected-at", "events", "kernel-log", "node", "pod-list")
_NAMES_MAX = 200
_LISTED_MAX = 100
"""Each node reads the lists again."""


class _Node(msgspec.Struct):
    """What is known to be of one node.

    Attributes:
        node_names: names that its kubelet's own lines or documents show -> how often.
        hosts: names in what carried the lines.
        writers: in logs of several nodes, what tells its lines apart.
        objects: the nodes whose objects its documents hold.
        listed: node -> pods on it, by lists and events of the API server.
        others: document -> all nodes that it names.
        noted: names by its collection: of directories, and in files of their own.
    """

    node_names: Counter[str] = msgspec.field(default_factory=Counter)
    hosts: list[str] = []
    writers: list[Writers] = []
    files: list[FoundFile] = []
    objects: set[str] = set()
    listed: dict[str, set[str]] = {}
    others: dict[str, set[str]] = {}
    noted: list[str] = []

    def is_called(self, name: str) -> bool:
        return any(same_machine(name, known) for known in (*self.node_names, *self.hosts))

    @property
    def is_nameless(self) -> bool:
        return not self.node_names and not self.hosts

    @property
    def parents(self) -> set[str]:
        """Directories that hold its logs."""
        return {_parent(file.source.name) for file in self.files if file.survey is not None}


def split_by_node(bundles: Sequence[Bundle], options: ImportOptions) -> list[Bundle]:
    """The bundles, each with the files and lines of one node, and that node's name.

    Raises:
        BadInputError: the node of a file is not known, or ``options.node`` is none of them.
    """
    return [part for bundle in bundles for part in _split(bundle, options)]


def _split(bundle: Bundle, options: ImportOptions) -> list[Bundle]:
    nodes = _nodes_of_logs(bundle)
    _add_documents(bundle, nodes)
    nodes = [node for node in nodes if node.files]
    if options.node is not None:
        nodes = [_chosen(bundle, nodes, options.node)]
    elif len(nodes) == 1 and nodes[0].is_nameless and not bundle.logs:
        nodes = _nodes_of_lists(bundle, nodes[0])
    tops = _own_directories([node.parents for node in nodes]) if bundle.is_tree else {}
    parts = [
        _part_of(
            bundle, node.files, tops.get(index), [top for at, top in tops.items() if at != index]
        )
        for index, node in enumerate(nodes)
    ]
    for part, node in zip(parts, nodes, strict=True):
        known = _name(part, node, options)
        part.node, part.is_node_guessed = known or _last_resort(part, node), known is None
        part.findings += _findings(part, node, len(nodes), options)
    return parts


# -- logs ---------------------------------------------------------------------------------


def _nodes_of_logs(bundle: Bundle) -> list[_Node]:
    nodes: list[_Node] = []
    nameless: list[FoundFile] = []
    for file in [file for file in bundle.files if file.survey is not None]:
        fresh = _of_log(file, bundle.name)
        if fresh.is_nameless and not fresh.writers:
            nameless.append(file)
            continue
        for node in [node for node in nodes if any(map(node.is_called, _names(fresh)))]:
            nodes.remove(node)
            fresh = _merged(node, fresh)
        nodes.append(fresh)
    for file in nameless:
        _place(file, nodes, bundle)
    places: dict[str, int] = {}
    for place, file in enumerate(bundle.files):
        places.setdefault(file.source.name, place)
    nodes.sort(key=lambda node: places[node.files[0].source.name])
    return nodes


def _of_log(file: FoundFile, directory: str) -> _Node:
    survey = file.survey
    assert survey is not None
    writers = file.source.writers if isinstance(file.source, NodeLines) else Writers()
    hosts = [host for host in survey.writers.hosts if not is_local(host)]
    placed = node_of_place(f"{directory}/{file.source.name}")
    return _Node(
        node_names=Counter(survey.nodes),
        hosts=hosts,
        writers=[writers] if isinstance(file.source, NodeLines) else [],
        files=[file],
        noted=[] if placed is None else [placed],
    )


def _names(node: _Node) -> Iterable[str]:
    return (*node.node_names, *node.hosts)


def _merged(node: _Node, other: _Node) -> _Node:
    """One node's logs; lines of one file under two names of a machine become one log."""
    files = {file.source.name: file for file in node.files}
    for file in other.files:
        known = files.get(file.source.name)
        files[file.source.name] = file if known is None else _joined(known, file)
    return _Node(
        node_names=node.node_names + other.node_names,
        hosts=list(dict.fromkeys((*node.hosts, *other.hosts))),
        writers=node.writers + other.writers,
        files=list(files.values()),
        noted=node.noted + other.noted,
    )


def _joined(file: FoundFile, other: FoundFile) -> FoundFile:
    ours, theirs = file.source, other.source
    assert isinstance(ours, NodeLines)
    assert isinstance(theirs, NodeLines)
    writers = Writers(
        ours.writers.hosts + theirs.writers.hosts, ours.writers.pids + theirs.writers.pids
    )
    lines = ours.of(writers)
    survey = survey_log(lines, list(file.digests.prefixes))
    return FoundFile(lines, file.format, survey.digests, survey)


def _place(file: FoundFile, nodes: list[_Node], bundle: Bundle) -> None:
    """A log that names no node belongs to the one in, above or below whose directory it lies."""
    parent = _parent(file.source.name)
    near = [
        node
        for node in nodes
        if not bundle.is_tree or any(_related(parent, other) for other in node.parents)
    ]
    if len(near) == 1:
        near[0].files.append(file)
    elif not near:
        nodes.append(_of_log(file, bundle.name))
    else:
        raise _unclear(file, {name for node in near for name in _names(node)})


def _unclear(file: FoundFile, names: Iterable[str]) -> BadInputError:
    return BadInputError(
        f"lies beside files of more than one node ({', '.join(sorted(names)[:5])}), and does not "
        "say whose it is",
        file=file.source.name,
        advice="import each node's files on their own, or say whose they are with --node",
    )


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _is_below(path: str, other: str) -> bool:
    """Whether a path lies inside a directory; the empty one holds all."""
    return path != other and (not other or path.startswith(f"{other}/"))


def _related(path: str, other: str) -> bool:
    return path == other or _is_below(path, other) or _is_below(other, path)


# -- documents ----------------------------------------------------------------------------


def _add_documents(bundle: Bundle, nodes: list[_Node]) -> None:
    documents = [file for file in bundle.files if file.survey is None]
    inside = {file.source.name: names_inside(file, bundle.contents) for file in documents}
    # What names its own node goes first: it may name a log's that names none.
    documents.sort(key=lambda file: not inside[file.source.name].own)
    logs = list(nodes)
    own = set().union(*(names.own for names in inside.values()))
    if len(own) > 1 and len(nodes) == 1 and nodes[0].is_nameless:
        raise _unclear(nodes[0].files[0], own)
    for file in documents:
        names = inside[file.source.name]
        owners = _owners(file, names, nodes, logs)
        if not owners:
            bundle.skipped[file.source.name] = "it does not name its node, and there are several"
            bundle.findings.append(Finding("node_unknown", file.source.name, _UNKNOWN))
        for node in owners:
            node.node_names.update(names.own)
            node.objects |= names.objects
            node.noted += [names.host] if names.host else []
            node.files.append(file)
            for name, pods in names.listed.items():
                node.listed.setdefault(name, set()).update(pods)
            node.others[file.source.name] = {*names.own, *names.objects, *names.listed}


_UNKNOWN = "is not read: it does not name its node, and there are several"


def _owners(
    file: FoundFile, names: NamesInside, nodes: list[_Node], logs: Sequence[_Node]
) -> list[_Node]:
    """The nodes that a document is of: one, all for lists of the API server, or none."""
    if names.own:
        named = [node for node in nodes if any(map(node.is_called, names.own))]
        if not named and len(nodes) == 1 and nodes[0].is_nameless:
            named = nodes
        if not named:
            nodes.append(_Node(node_names=Counter(names.own)))
            named = nodes[-1:]
        return named
    if not nodes:
        nodes.append(_Node())
    if len(nodes) == 1:
        return nodes
    called = [node for node in nodes if names.host and node.is_called(names.host)]
    beside = called[0] if called else _beside(file.source.name, logs)
    if beside is not None:
        return [beside]
    if file.format not in _SHARED:
        return []
    node_names = names.objects | names.listed.keys()
    return [
        node for node in nodes if not node_names or any(map(node.is_called, node_names))
    ] or nodes[:1]


def _nodes_of_lists(bundle: Bundle, node: _Node) -> list[_Node]:
    """Each node that lists of the API server name, where there is nothing else."""
    names = sorted(node.objects | node.listed.keys())
    if len(names) > _LISTED_MAX:
        raise BadInputError(
            f"lists pods, events or objects of {len(names)} nodes, and nothing else",
            file=bundle.label,
            advice="import them together with logs, or name a node with --node",
        )
    if len(names) < 2:
        return [node]
    return [msgspec.structs.replace(node, node_names=Counter([name])) for name in names]


def _beside(name: str, logs: Sequence[_Node]) -> _Node | None:
    """The only node that has logs in the nearest directory around a file that holds any."""
    parent = _parent(name)
    while True:
        near = [
            node
            for node in logs
            if any(path == parent or _is_below(path, parent) for path in node.parents)
        ]
        if len(near) == 1 and (parent or len(logs) == 1):
            return near[0]
        if near or not parent:
            return None
        parent = _parent(parent)


# -- one bundle a node --------------------------------------------------------------------


def _chosen(bundle: Bundle, nodes: list[_Node], name: str) -> _Node:
    """The node that the user names; files of a single node are that node's."""
    called = [node for node in nodes if node.is_called(name)]
    if not called and len(nodes) > 1:
        names = sorted({known for node in nodes for known in _names(node)})
        raise BadInputError(
            f"holds files of {len(nodes)} nodes, and {name} is none of them: "
            f"{', '.join(names[:5])}",
            file=bundle.label,
            advice="name one of them with --node, or none to import each as its own",
        )
    return (called or nodes)[0]


def _name(bundle: Bundle, node: _Node, options: ImportOptions) -> str | None:
    """What the user, the lines or the documents call the node."""
    if options.node is not None:
        return options.node
    if node.node_names:
        names = [name for name, _ in node.node_names.most_common()]
        unlike = [name for name in names if not same_machine(name, names[0])]
        if unlike:
            raise BadInputError(
                f"holds files of more than one node: {names[0]} and {unlike[0]}",
                file=bundle.label,
                advice="import each node's files on their own, or say whose they are with --node",
            )
        return names[0]
    if len(node.objects) == 1:
        return next(iter(node.objects))
    listed = [name for name, pods in node.listed.items() if _mentions(bundle, pods)]
    if len(listed) == 1 and (not node.hosts or node.is_called(listed[0])):
        return listed[0]
    if node.hosts or node.noted:
        return [*node.hosts, *node.noted][0]
    return None


def _last_resort(bundle: Bundle, node: _Node) -> str:
    name = name_of_bundle(bundle)
    return f"{name}-{node.writers[0].name}" if node.writers else name


def _mentions(bundle: Bundle, pods: set[str]) -> bool:
    """A log names one of these pods: lists may be of another node. True without logs."""
    if not bundle.logs or not pods:
        return True
    names = [pod.encode() for pod in sorted(pods)[:_NAMES_MAX]]
    for log in bundle.logs:
        tail = b""
        for chunk in log.source.chunks():
            window = tail + chunk
            if any(name in window for name in names):
                return True
            tail = window[-(CHUNK >> 4) :]
    return False


def _findings(bundle: Bundle, node: _Node, nodes: int, options: ImportOptions) -> list[Finding]:
    """What a reader must know about whose the files are."""
    findings = [
        Finding("several_nodes", file.source.name, _of_several(file.source.writers))
        for file in bundle.files
        if isinstance(file.source, NodeLines)
    ]
    wrong = [name for name in node.node_names if not same_machine(name, bundle.node)]
    if options.node is not None and wrong:
        message = (
            f"its files are of node {wrong[0]}; they are read as {bundle.node}'s, as requested"
        )
        findings.append(Finding("node_renamed", None, message))
    for file, names in node.others.items():
        if nodes == 1 and names and not any(same_machine(name, bundle.node) for name in names):
            message = f"is of other nodes ({', '.join(sorted(names)[:3])}): nothing of it is taken"
            findings.append(Finding("other_node", file, message))
    return findings


def _of_several(writers: Writers) -> str:
    if writers.hosts:
        return f"holds lines of several nodes: those of {', '.join(writers.hosts)} are read"
    return (
        f"holds lines of several kubelets, and nothing shows their nodes: process {writers.pids[0]}"
        " is read as a node of its own"
    )


def _own_directories(parents: Sequence[set[str]]) -> dict[int, str]:
    """Node -> the directory that holds all its logs, and no other node's; of several nodes.

    Args:
        parents: (n,) the directories that hold logs of each node.
    """
    every = set().union(*parents)
    if len(parents) < 2 or not every:
        return {}
    common = commonpath(every)
    prefix = f"{common}/" if common else ""
    tops = [
        {path[len(prefix) :].partition("/")[0] for path in own if path != common} for own in parents
    ]
    found = {}
    for index, own in enumerate(tops):
        alone = not any(own & other for other in (*tops[:index], *tops[index + 1 :]))
        if len(own) == 1 and alone and common not in parents[index]:
            found[index] = prefix + next(iter(own))
    return found


def _part_of(
    bundle: Bundle, own: Sequence[FoundFile], top: str | None, others: Sequence[str]
) -> Bundle:
    """The bundle of one node; names are relative to its directory, if it has one."""

    def concerns(name: str) -> bool:
        return not any(_is_below(name, other) for other in others)

    def name_in(name: str) -> str:
        if top is None:
            return name
        return name[len(top) + 1 :] if _is_below(name, top) else f"../{name}"

    files = []
    for file in sorted(own, key=lambda file: file.source.name):
        source = _renamed(file.source, name_in(file.source.name))
        survey = file.survey
        if survey is not None:
            survey = msgspec.structs.replace(survey, source=source)
        files.append(FoundFile(source, file.format, file.digests, survey))
    return Bundle(
        bundle.label if top is None else f"{bundle.label.rstrip('/')}/{top}",
        bundle.name if top is None else top.rpartition("/")[2],
        files,
        {name_in(name): why for name, why in bundle.skipped.items() if concerns(name)},
        [
            msgspec.structs.replace(found, file=None if found.file is None else name_in(found.file))
            for found in bundle.findings
            if found.file is None or concerns(found.file)
        ],
        is_tree=bundle.is_tree,
        contents=bundle.contents,
    )


def _renamed(source: SourceFile, name: str) -> SourceFile:
    if source.name == name:
        return source
    renamed = copy(source)
    renamed.name = name
    return renamed
