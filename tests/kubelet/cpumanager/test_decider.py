"""Which CPUs may be given, and what becomes of the shared pool."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.cpumanager.decider import (
    assignable,
    exclusive_cpus,
    released_pool,
    reusable,
    state_error,
)
from kubeledger.kubelet.kube.cpuset import cpus_of
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.profile.resolve import resolve

OLD, NEW = (resolve(version).resourcemanagers for version in ("1.23.0", "1.36.0"))


def container(cpu: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """A container whose requests are its limits."""
    amounts = {"cpu": cpu, "memory": "64Mi"}
    return {"name": "c", "resources": {"requests": amounts, "limits": amounts}, **more}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> Pod:  # noqa: ANN401
    """A pod as the API server shows it."""
    data = {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}
    return msgspec.convert(data, Pod)


@pytest.mark.parametrize(
    ("made", "count"),
    [
        (pod(container("2")), 2),
        (pod(container("2000m")), 2),
        (pod(container("1500m")), 0),
        (pod(container("2"), {"name": "d"}), 0),
        (pod({"name": "c", "resources": {"requests": {"cpu": "2"}}}), 0),
        (pod(container("2"), resources={"limits": {"cpu": "4", "memory": "1Gi"}}), 0),
    ],
)
def test_whole_cpus_of_guaranteed_pods(made: Pod, count: int) -> None:
    """Other classes, fractions and pods with resources of their own run in the shared pool."""
    assert made.spec.containers is not None
    assert exclusive_cpus(made, made.spec.containers[0], NEW) == count


def test_what_init_containers_leave() -> None:
    """Later containers may have their CPUs; since 1.29 not those of sidecars."""
    init = (
        container("2", name="init"),
        container("1", name="side", restartPolicy="Always"),
    )
    made = pod(container("1", name="a"), container("1", name="b"), init=init)
    held = {"init": cpus_of("2-3"), "side": cpus_of("4")}
    assert reusable(made, "a", held, NEW) == cpus_of("2-3")
    assert reusable(made, "a", held, OLD) == cpus_of("2-4")
    assert reusable(made, "init", held, NEW) == frozenset()
    assert reusable(made, "b", held | {"a": cpus_of("2")}, NEW) == cpus_of("3")
    assert reusable(made, "a", held | {"side": cpus_of("2")}, NEW) == cpus_of("3")


def test_the_shared_pool() -> None:
    """Reserved CPUs are spared; what another container of the pod has as well stays (1.24)."""
    assert assignable(cpus_of("0-3"), cpus_of("0"), cpus_of("5")) == cpus_of("1-3,5")
    pool, cpus, siblings = cpus_of("0"), cpus_of("2-3"), cpus_of("3")
    assert released_pool(pool, cpus, siblings, NEW) == cpus_of("0,2")
    assert released_pool(pool, cpus, siblings, OLD) == cpus_of("0,2-3")


@pytest.mark.parametrize(
    ("pool", "held", "strict", "error"),
    [
        ("0-3", {}, False, None),
        ("0-1,3", {("u", "c"): "2"}, False, None),
        ("1-3", {}, True, None),
        ("", {}, False, None),
        ("", {("u", "c"): "2"}, False, "default cpuset cannot be empty"),
        ("1-3", {}, False, 'not all reserved cpus: "0" are present in defaultCpuSet: "1-3"'),
        ("0-3", {}, True,
         'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-3"'),
        ("0-3", {("u", "c"): "2"}, False,
         'pod: u, container: c cpuset: "2" overlaps with default cpuset "0-3"'),
        ("0-2", {}, False,
         'current set of available CPUs "0-3" doesn\'t match with CPUs in state "0-2"'),
    ],
)  # fmt: skip
def test_state_files(
    pool: str, held: dict[tuple[str, str], str], strict: bool, error: str | None
) -> None:
    """Those that do not fit the machine or the settings, with the kubelet's words."""
    cpus = {holder: cpus_of(text) for holder, text in held.items()}
    found = state_error(cpus_of(pool), cpus, cpus_of("0"), cpus_of("0-3"), strict=strict)
    assert found == error
