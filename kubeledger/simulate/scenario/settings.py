"""The kubelet's effective settings: a configuration as written, and its version's defaults."""

from __future__ import annotations

from typing import Any

from kubeledger.analyze.whatif.refusals import refusal
from kubeledger.ingest.correlate.settings import SettingsSources, Statement, effective_settings
from kubeledger.ingest.messages.settings_flags import FLAGS, minor_version
from kubeledger.kubelet.kube.configuration import FIELDS, problem
from kubeledger.model.record import Evidence
from kubeledger.simulate.scenario.models import Scenario
from kubeledger.simulate.scenario.problems import Path, Problems, suggestion
from kubeledger.simulate.scenario.version_fields import has_field, unflagged_defaults

_TYPE_FIELDS = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
_NO_START = "no kubelet starts with it"


def read_settings(
    scenario: Scenario, config: tuple[dict[str, Any], Path], problems: Problems
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is given, and what it comes to with defaults: field -> value.

    What no kubelet takes is noted and left out.
    """
    fields, at = config
    for name, expected in _TYPE_FIELDS.items():
        if fields.get(name, expected) != expected:
            problems.add((*at, name), f"must be {expected}", "give a KubeletConfiguration")
    sound: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _TYPE_FIELDS:
            continue
        if name not in FIELDS:
            advice = suggestion(name, FIELDS)
            problems.add((*at, name), "there is no such field of KubeletConfiguration", advice)
        elif value is not None and (reason := problem(name, value)):
            problems.add((*at, name), reason, _NO_START)
        else:
            sound[name] = value
    driver = scenario.node.cgroup_driver
    if driver is not None and sound.setdefault("cgroupDriver", driver) != driver:
        said = sound["cgroupDriver"]
        problems.add(
            ("node", "cgroupDriver"), f"is {driver}, the configuration says {said}", "keep one"
        )
    settings = effective(sound, minor_version(scenario.kubelet_version))
    if reason := refusal(settings, {}, scenario.kubelet_version):
        problems.add(at, reason, _NO_START)
    return sound, settings


def effective(fields: dict[str, Any], minor: int | None) -> dict[str, Any]:
    """With the defaults of a minor version.

    Args:
        fields: of KubeletConfiguration; null stands for a field that is left out.
        minor: None: only defaults that never changed.
    """
    evidence = Evidence(file="scenario")
    flags = {
        row.flag: Statement(value=row.default(minor or 0), evidence=evidence)
        for row in FLAGS
        if (minor is not None and minor >= row.since and has_field(row.field, minor))
        or (minor is None and len(row.defaults) == 1)
    }
    # Without any field there is a file all the same: kubelets are started with one.
    files = [Statement(value=fields, evidence=evidence)]
    observed = effective_settings(SettingsSources(minor=minor, files=files, flags=flags))
    found = {
        name: setting.decoded()
        for name, setting in observed.settings.items()
        if not name.startswith("--")
    }
    return found if minor is None else {**unflagged_defaults(minor, fields), **found}
