"""An image that no decision is about: who uses it."""

from __future__ import annotations

import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import Answer, explain, find_target
from tests.verify.container_scenes import began, listed
from tests.verify.histories import reader, scene

ID = "sha256:" + "ab" * 32
STATUS = {
    "containerStatuses": [
        {"name": "app", "image": "registry.lab/app:1", "imageID": f"registry.lab/app@{ID}"},
        {"name": "new", "image": "registry.lab/app:1", "imageID": ""},
    ]
}


@pytest.mark.parametrize("asked", ["registry.lab/app:1", "app:1", ID, "abababab"])
def test_who_uses_it(asked: str) -> None:
    """Each container whose status names its ID, since when; a pod that waits for it does not."""
    shown = msgspec.structs.replace(listed(), status=STATUS)
    records = scene(*began(), (1, listed()), (4, shown), (9, shown))
    history = history_of_reader("node-t", "node-t", reader(records))
    target = find_target(asked, [history])
    answer = explain(history, target)
    assert type(answer) is Answer
    assert answer.sentence == (
        "no deletion of image registry.lab/app:1 is recorded; 1 container has used it, first "
        "default/p/app (1970-01-01T00:16:44Z), last default/p/app (1970-01-01T00:16:49Z)."
    )
    (step,) = answer.steps
    assert (step.count, step.text) == (2, "default/p/app uses it")
    assert explain(history, target, upto_ts_ns=records[-3].ts_ns) is None
