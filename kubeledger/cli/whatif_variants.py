"""From the options of ``kubeledger whatif`` to variants of one node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kubeledger.errors import BadInputError
from kubeledger.importers.plain import plain
from kubeledger.importers.settings import SettingsSources, Statement, effective_settings
from kubeledger.importers.settings_flags import FLAGS, minor_version
from kubeledger.importers.sources import DOCUMENT_MAX
from kubeledger.importers.yaml_text import load_yaml
from kubeledger.ledger.regular import read_regular
from kubeledger.machine import Evidence
from kubeledger.node.records import KubeletStarted, Setting, SettingsObserved
from kubeledger.replay.histories import History
from kubeledger.verify import Variant
from kubeledger.verify.settings import UNKNOWN
from kubeledger.whatif.refusals import refusal
from kubeledger.whatif.variants import parse_setting, parse_variants

__all__ = ["variants_for"]

_Recorded = dict[str, Setting]


def variants_for(
    history: History,
    settings: tuple[str, ...],
    versions: tuple[str, ...],
    configs: tuple[Path, ...],
) -> list[Variant]:
    """All combinations that the options ask for.

    Raises:
        BadQuestionError: as ``parse_setting`` and ``parse_variants``.
        BadInputError: a configuration file is none, or one that no kubelet takes.
    """
    recorded, version = _recorded(history)
    values = _values(recorded)
    # A file's defaults are those of the version that it is given to.
    reading = versions[0] if len(versions) == 1 else version if not versions else None
    return parse_variants(
        [parse_setting(text, values.keys()) for text in settings],
        versions,
        [(path.name, _config(path, reading, recorded)) for path in configs],
        values,
    )


def _recorded(history: History) -> tuple[_Recorded, str | None]:
    """The node's last settings, and the version of its kubelet."""
    settings: _Recorded = {}
    version = None
    for record in history.read({KubeletStarted.kind, SettingsObserved.kind}):
        if isinstance(record.body, SettingsObserved):
            settings = record.body.settings
        elif isinstance(record.body, KubeletStarted):
            version = record.body.kubelet_version or version
    return settings, version


def _values(settings: _Recorded) -> dict[str, Any]:
    return {name: msgspec.json.decode(setting.value) for name, setting in settings.items()}


def _config(path: Path, version: str | None, recorded: _Recorded) -> dict[str, Any]:
    """Settings of a node that is given another configuration file.

    What the file leaves out has its default, and not the value of the file before. The
    command line stays, and goes over the file; so does what the kubelet learned elsewhere.
    """
    statement = Statement(value=_document(path), evidence=Evidence(file=str(path)))
    minor = minor_version(version)
    flags = {
        row.flag: Statement(value=row.default(minor or 0), evidence=statement.evidence)
        for row in FLAGS
        if (minor is not None and minor >= row.since) or len(row.defaults) == 1
    }
    observed = effective_settings(SettingsSources(minor=minor, files=[statement], flags=flags))
    fields = {n: v for n, v in _values(observed.settings).items() if not n.startswith("--")}
    if reason := refusal(fields, {}):
        raise BadInputError(reason, advice="no kubelet starts with it", file=str(path))
    values = _values(recorded)
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


def _document(path: Path) -> dict[str, Any]:
    flaws: list[str] = []
    try:
        documents = load_yaml(read_regular(path, DOCUMENT_MAX, links=True))
        document = plain(documents[0], flaws) if documents else None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or " ".join(
            str(error).split()
        )
        raise BadInputError(f"cannot be read as YAML: {reason}", file=str(path)) from error
    if flaws:
        raise BadInputError(f"holds what no configuration can: {flaws[0]}", file=str(path))
    if not isinstance(document, dict) or document.get("kind") != "KubeletConfiguration":
        raise BadInputError("is no KubeletConfiguration", advice="its kind says so", file=str(path))
    return {str(name): value for name, value in document.items()}
