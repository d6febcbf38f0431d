"""Whose a line is: IDs as the kubelet's versions write them."""

from typing import Any

import pytest

from kubeledger.ingest.messages.podref import bare_container_id


@pytest.mark.parametrize(
    ("value", "bare"),
    [
        ("containerd://4f2a", "4f2a"),
        ('{"containerd" "4f2a"}', "4f2a"),
        ("{Type:containerd ID:4f2a}", "4f2a"),
        ({"Type": "containerd", "ID": "4f2a"}, "4f2a"),
        ("containerd://<id>", None),  # a tool masked it
        ({"Type": "containerd", "ID": "<id>"}, None),
        ({"Type": "containerd"}, None),
        ("", None),
    ],
)
def test_a_container_id_without_its_runtime(value: Any, bare: str | None) -> None:  # noqa: ANN401 # any form
    assert bare_container_id(value) == bare
