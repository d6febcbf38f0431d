"""Variants as users write them, ``KEY=VALUE`` or a file, and checked against what was recorded."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.whatif.settings import PodChange, is_of_pod, parse_pod_setting, refusal
from kubeledger.ingest.correlate.settings import SettingsSources, Statement, effective_settings
from kubeledger.ingest.messages.settings_flags import FLAGS, minor_version
from kubeledger.ingest.sources.plain import plain
from kubeledger.ingest.sources.yaml_text import load_yaml
from kubeledger.kubelet.kube.configuration import FIELDS, problem
from kubeledger.kubelet.kube.containermanager import parse, text_of
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved, Setting, SettingsObserved
from kubeledger.model.bodies.resourcemanagers import CpuManagerStarted
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.record import Evidence
from kubeledger.verify import PodFieldChange, ProbeChange, Reader, ResourceChange, Variant
from kubeledger.verify.variant import UNKNOWN

Alternatives = tuple[str, list[tuple[str, Any]]]
"""A setting's name, and (text, value) of each alternative."""

_SUGGESTIONS = 3
_NO_START = "no kubelet starts with it"


def parse_setting(text: str, recorded: Collection[str] = ()) -> Alternatives:
    """Read ``KEY=VALUE`` or ``KEY=VALUE|VALUE``.

    Args:
        text: the key is a KubeletConfiguration field, or ``field.entry`` for one entry of a
            map (``evictionHard.memory.available=5%``, ``featureGates.MemoryQoS=true``). A
            value is JSON; what is not JSON is taken as text. Or what pods ask for, as
            :func:`kubeledger.analyze.whatif.settings.parse_pod_setting` reads it.
        recorded: names of settings that the node has besides the fields that are known.

    Raises:
        BadQuestionError: it has another form, there is no such field, or no kubelet takes
            that value for it.
    """
    key, equals, values = text.partition("=")
    if not equals or not key:
        wrong = "is given no value" if key else "names no setting"
        raise BadQuestionError(f"{text!r} {wrong}", advice="write KEY=VALUE")
    if is_of_pod(key):
        return key, [(value, parse_pod_setting(key, value)) for value in values.split("|")]
    field, dot, entry = key.partition(".") if not key.startswith("--") else (key, "", "")
    known = FIELDS.keys() | recorded
    if field not in known:
        close = difflib.get_close_matches(field, sorted(known), _SUGGESTIONS)
        advice = f"is it {' or '.join(close)}?" if close else "names are KubeletConfiguration's"
        raise BadQuestionError(f"there is no setting {field!r}", advice=advice)
    if dot and (not entry or (field in FIELDS and not _has_entries(field))):
        raise BadQuestionError(f"{field} has no entry {entry!r}", advice=f"write {field}=VALUE")
    alternatives = [(value, _value(field, entry, value)) for value in values.split("|")]
    for written, value in alternatives:
        if reason := problem(field, {entry: value} if entry else value):
            raise BadQuestionError(f"{key}={written}: {field} {reason}", advice=_NO_START)
    return key, alternatives


def _has_entries(field: str) -> bool:
    return FIELDS[field].shape in {"table", "texts"}


def _value(field: str, entry: str, text: str) -> Any:  # noqa: ANN401 # any JSON value
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    known = FIELDS.get(field)
    is_text = field.startswith("--") or (
        known is not None and known.shape == ("texts" if entry else "text")
    )
    if is_text and not isinstance(value, str):
        return text  # 1 is "1" there
    return {} if value is None and known is not None and _has_entries(field) else value


def parse_variants(
    settings: Sequence[Alternatives],
    versions: Sequence[str] = (),
    configs: Sequence[tuple[str, dict[str, Any]]] = (),
    recorded: dict[str, Any] | None = None,
    version: str | None = None,
) -> list[Variant]:
    """All combinations of the alternatives.

    Args:
        settings: alternatives of each setting; later ones go over earlier ones.
        configs: (name, fields) of configuration files, below the settings.
        recorded: settings of the node, of which an entry of a map is replaced.
        version: of its kubelet; None where it is not known.

    Raises:
        BadQuestionError: a version is not known, nothing at all is changed, or no kubelet
            starts with one of the combinations.
    """
    if not settings and not versions and not configs:
        raise BadQuestionError(
            "nothing is changed", advice="give --set KEY=VALUE, --kubelet-version or --config"
        )
    for each in versions:
        resolve(each)
    choices = [[(key, text, value) for text, value in values] for key, values in settings]
    chosen_versions: list[str | None] = list(versions) or [None]
    chosen_configs: list[tuple[str, dict[str, Any]] | None] = list(configs) or [None]
    return [
        _variant(other, config, chosen, recorded or {}, version)
        for other, config, chosen in product(chosen_versions, chosen_configs, product(*choices))
    ]


def _variant(
    version: str | None,
    config: tuple[str, dict[str, Any]] | None,
    chosen: Sequence[tuple[str, str, Any]],
    recorded: dict[str, Any],
    recorded_version: str | None,
) -> Variant:
    names = [f"{key}={text}" for key, text, _ in chosen]
    names += [f"kubelet {version}"] if version else []
    names += [config[0]] if config else []
    fields = dict(config[1]) if config else {}
    entries: dict[str, dict[str, Any]] = {}
    for key, _, value in chosen:
        if is_of_pod(key):
            continue
        field, dot, entry = key.partition(".")
        if dot and not key.startswith("--") and (field in entries or field not in fields):
            entries.setdefault(field, {})[entry] = value
        else:
            entries.pop(field, None)
        _put(fields, key, value, recorded)
    name = " ".join(names)
    if reason := refusal(fields, recorded, version or recorded_version):
        raise BadQuestionError(f"{name}: {reason}", advice=_NO_START)
    values = [value for _, _, value in chosen]
    return Variant(
        name=name,
        settings=fields,
        entries=entries,
        pods=tuple(v for v in values if isinstance(v, ResourceChange)),
        probes=tuple(v for v in values if isinstance(v, ProbeChange)),
        pod_fields=tuple(v for v in values if isinstance(v, PodFieldChange)),
        kubelet_version=version,
    )


def _put(fields: dict[str, Any], key: str, value: Any, recorded: dict[str, Any]) -> None:  # noqa: ANN401 # any JSON value
    field, dot, entry = key.partition(".")
    if not dot or key.startswith("--"):
        fields[key] = value
        return
    before = fields.get(field, recorded.get(field))
    fields[field] = {**(before if isinstance(before, dict) else {}), entry: value}


def variants_of(
    history: History,
    settings: Sequence[str],
    versions: Sequence[str] = (),
    configs: Sequence[tuple[str, dict[str, Any]]] = (),
) -> list[Variant]:
    """All combinations of settings, versions and configurations for a node.

    Args:
        settings: each ``KEY=VALUE`` or ``KEY=A|B``, see :func:`parse_setting`.
        versions: of the kubelet; none: the recorded one.
        configs: (name, fields) of configurations, below the settings.

    Raises:
        BadQuestionError: as ``parse_setting`` and ``parse_variants``; a container that no list
            of pods shows, or a request above its limit.
    """
    recorded, version = recorded_settings(history)
    values = setting_values(recorded)
    parsed = [parse_setting(text, values.keys()) for text in settings]
    variants = parse_variants(parsed, versions, configs, values, version)
    for variant in variants:
        _check_pods(history, variant)
        _check_cpus(history, variant)
    return variants


def recorded_settings(history: History) -> tuple[dict[str, Setting], str | None]:
    """The node's last settings, and the version of its kubelet."""
    settings: dict[str, Setting] = {}
    version = None
    for record in history.read({KubeletStarted.kind, SettingsObserved.kind}):
        if isinstance(record.body, SettingsObserved):
            settings = record.body.settings
        elif isinstance(record.body, KubeletStarted):
            version = record.body.kubelet_version or version
    return settings, version


def effective(read: Reader, variant: Variant) -> Variant:
    """A variant without what each kubelet process of a node had anyway: that changes nothing."""
    recorded = [
        setting_values(record.body.settings)
        for record in read({SettingsObserved.kind})
        if isinstance(record.body, SettingsObserved)
    ]

    def holds(field: str, value: Any) -> bool:  # noqa: ANN401 # any JSON value
        entries = variant.entries.get(field)
        return bool(recorded) and all(
            _has(own.get(field), entries) if entries else field in own and own[field] == value
            for own in recorded
        )

    idle = {field for field, value in variant.settings.items() if holds(field, value)}
    return msgspec.structs.replace(
        variant,
        settings={name: value for name, value in variant.settings.items() if name not in idle},
        entries={name: value for name, value in variant.entries.items() if name not in idle},
    )


def _has(own: object, entries: dict[str, Any]) -> bool:
    return isinstance(own, dict) and {**own, **entries} == own


def setting_values(settings: dict[str, Setting]) -> dict[str, Any]:
    """Name -> value of recorded settings."""
    return {name: msgspec.json.decode(setting.value) for name, setting in settings.items()}


def _check_pods(history: History, variant: Variant) -> None:
    """Every change is about a listed container, and no request goes above its limit."""
    of_containers: tuple[ResourceChange | ProbeChange, ...] = (*variant.pods, *variant.probes)
    unused: set[PodChange] = {*of_containers, *variant.pod_fields}
    for record in history.read({PodListed.kind}) if unused else ():
        body = variant.of(record).body
        assert isinstance(body, PodListed)
        unused -= {
            change for change in variant.pod_fields if change.concerns(body.namespace, body.pod)
        }
        for container in _containers(body):
            for change in of_containers:
                if change.means(body, container):
                    unused.discard(change)
                    if isinstance(change, ResourceChange):
                        _check_resources(container, change)
    if unused:
        raise BadQuestionError(min(map(_not_shown, unused)))


def _check_cpus(history: History, variant: Variant) -> None:
    """The CPUs that are reserved are some of the machine's, by its topology or their number.

    Source: v1.36.2 cmd/kubelet/app/server.go getReservedCPUs
    """
    text = variant.settings.get("reservedSystemCPUs")
    reserved = parse(text) if isinstance(text, str) else 0
    for record in history.read({CpuManagerStarted.kind, NodeObserved.kind}) if reserved else ():
        count = record.body.cpus if isinstance(record.body, NodeObserved) else None
        named = record.body.cpus if isinstance(record.body, CpuManagerStarted) else None
        beyond = named is not None and reserved & ~sum(1 << int(cpu) for cpu in named)
        if beyond or (count is not None and reserved.bit_count() > count):
            has = f"no CPU {text_of(beyond)}" if beyond else f"{count} CPUs"
            raise BadQuestionError(
                f"reservedSystemCPUs={text}: the machine has {has}", advice=_NO_START
            )


def _not_shown(change: PodChange) -> str:
    place = f"{change.namespace}/{change.pod}"
    if isinstance(change, PodFieldChange):
        return f"no list of pods shows pod/{place}"
    place = f"container/{place}/{change.container}"
    if isinstance(change, ProbeChange):
        return f"no list of pods shows a {change.probe_type} probe of {place}"
    return f"no list of pods shows {place}"


def _containers(body: PodListed) -> list[dict[str, Any]]:
    spec = body.spec or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _check_resources(container: dict[str, Any], change: ResourceChange) -> None:
    """As the API server does: a request is at most the limit."""
    resources = container.get("resources") or {}
    asked, limit = (
        (resources.get(part) or {}).get(change.resource) for part in ("requests", "limits")
    )
    if asked is None or limit is None:
        return
    if Quantity.from_api(asked) > Quantity.from_api(limit):
        raise BadQuestionError(
            f"container {container.get('name')} requests {asked} of {change.resource}, more than "
            f"its limit of {limit}",
            advice=f"set resources.requests.{change.resource} as well",
        )


# Variants of a node that may be given another configuration file.


class ConfigFile(NamedTuple):
    """A KubeletConfiguration as it is written.

    Attributes:
        name: as the user gave it.
        fields: of the document.
    """

    name: str
    fields: dict[str, Any]


def config_of(name: str, data: bytes) -> ConfigFile:
    """The configuration that a file holds.

    Raises:
        BadInputError: it cannot be read, or is none.
    """
    flaws: list[str] = []
    try:
        documents = load_yaml(data)
        document = plain(documents[0], flaws) if documents else None
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise BadInputError(f"cannot be read as YAML: {reason}", file=name) from error
    if flaws:
        raise BadInputError(f"holds what no configuration can: {flaws[0]}", file=name)
    if not isinstance(document, dict) or document.get("kind") != "KubeletConfiguration":
        raise BadInputError("is no KubeletConfiguration", advice="its kind says so", file=name)
    return ConfigFile(name, {str(key): value for key, value in document.items()})


def variants_for(
    history: History,
    settings: Sequence[str],
    versions: Sequence[str],
    configs: Sequence[ConfigFile],
) -> list[Variant]:
    """All combinations that the options ask for.

    Raises:
        BadQuestionError: as ``variants_of``.
        BadInputError: a configuration file is one that no kubelet takes.
    """
    recorded, version = recorded_settings(history)
    # A file's defaults are those of the version that it is given to.
    reading = versions[0] if len(versions) == 1 else version if not versions else None
    read = [(Path(file.name).name, _config(file, reading, recorded)) for file in configs]
    return variants_of(history, settings, versions, read)


def _config(file: ConfigFile, version: str | None, recorded: dict[str, Setting]) -> dict[str, Any]:
    """Settings of a node that is given another configuration file.

    What the file leaves out has its default, and not the value of the file before. The
    command line stays, and goes over the file; so does what the kubelet learned elsewhere.
    """
    statement = Statement(value=file.fields, evidence=Evidence(file=file.name))
    minor = minor_version(version)
    flags = {
        row.flag: Statement(value=row.default(minor or 0), evidence=statement.evidence)
        for row in FLAGS
        if (minor is not None and minor >= row.since) or len(row.defaults) == 1
    }
    observed = effective_settings(SettingsSources(minor=minor, files=[statement], flags=flags))
    fields = {n: v for n, v in setting_values(observed.settings).items() if not n.startswith("--")}
    if reason := refusal(fields, {}, version):
        raise BadInputError(reason, advice="no kubelet starts with it", file=file.name)
    values = setting_values(recorded)
    for name, setting in recorded.items():
        if name.startswith("--"):
            continue
        if setting.source == "flag" or _was_learned(name, setting, fields):
            fields[name] = values[name]
        elif name not in fields and setting.source != "default":
            fields[name] = UNKNOWN
    return fields


def _was_learned(name: str, setting: Setting, fields: dict[str, Any]) -> bool:
    """Whether the kubelet replaces the setting of any file by what it finds on the node."""
    if setting.source != "log":
        return False
    return name == "cgroupDriver" or (name == "cgroupRoot" and not fields.get(name))
