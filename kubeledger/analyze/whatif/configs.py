"""Variants of a node that may be given another configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.whatif.refusals import refusal
from kubeledger.analyze.whatif.variants import recorded_settings, setting_values, variants_of
from kubeledger.ingest.correlate.settings import SettingsSources, Statement, effective_settings
from kubeledger.ingest.messages.settings_flags import FLAGS, minor_version
from kubeledger.ingest.sources.plain import plain
from kubeledger.ingest.sources.yaml_text import load_yaml
from kubeledger.model.bodies.node import Setting
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Evidence
from kubeledger.verify import Variant
from kubeledger.verify.settings import UNKNOWN


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
