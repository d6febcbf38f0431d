"""A variant that changes nothing changes nothing: over every recording, with every setting."""

from typing import Any

import pytest

from kubeledger.analyze.whatif import Outlook, outlook
from kubeledger.analyze.whatif.variants import effective, setting_values
from kubeledger.kubelet.kube.configuration import FIELDS
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.verify import Finding, Reader, Variant, verify
from tests.marks import slow
from tests.verify.histories import reader, recorded
from tests.verify.properties.truths import RECORDED

UNREAD = {"containerLogMaxFiles": 7, "registryPullQPS": 3, "streamingConnectionIdleTimeout": "2h"}
"""Fields on which no decision rests."""


NODES = [name for name in RECORDED if name != "node-f"] + slow("node-f")


def settings_of(read: Reader) -> list[dict[str, Any]]:
    bodies = (record.body for record in read({SettingsObserved.kind}))
    return [setting_values(body.settings) for body in bodies if isinstance(body, SettingsObserved)]


def wrong_by(read: Reader, variant: Variant) -> set[tuple[int, str, str]]:
    """What a kubelet with these settings cannot have done, or left undone."""
    return {
        (outcome.seq, outcome.kind, outcome.why)
        for outcome in verify(read, variant)
        if isinstance(outcome, Finding) and outcome.verdict == "impossible"
    }


@pytest.mark.parametrize("name", NODES)
def test_settings_that_nothing_rests_on(name: str) -> None:
    assert UNREAD.keys() <= FIELDS.keys()
    result = Outlook(variant="unread")
    changes = outlook(reader(recorded(name)), Variant(name="unread", settings=UNREAD), result)
    assert list(changes) == []
    assert (result.changed, result.untrusted) == (0, 0)


@pytest.mark.parametrize("name", NODES)
def test_settings_as_they_were(name: str) -> None:
    """All that every process had, in one variant, so that every rule decides under one."""
    read = reader(recorded(name))
    first, *others = settings_of(read)
    same = {k: v for k, v in first.items() if all(v == other.get(k) for other in others)}
    assert len(same) > len(FIELDS) / 2
    assert wrong_by(read, Variant(name="same", settings=same)) <= wrong_by(read, Variant())


@pytest.mark.parametrize("name", NODES)
def test_what_every_process_had_is_left_out(name: str) -> None:
    read = reader(recorded(name))
    processes = settings_of(read)
    for field in dict.fromkeys(field for each in processes for field in each):
        for value in [each[field] for each in processes if field in each]:
            variant = Variant(name="one", settings={field: value})
            left = effective(read, variant).settings
            alike = all(field in each and each[field] == value for each in processes)
            assert left == ({} if alike else {field: value})


def test_entries_of_a_map() -> None:
    """One entry is compared alone: each process keeps the others of its own map."""
    read = reader(recorded("node-e-evictions"))
    hard = [each["evictionHard"] for each in settings_of(read)]
    (signal, value), *_ = [
        each for each in hard[0].items() if all(each in other.items() for other in hard)
    ]
    for text, left in ((value, {}), ("7%", {"evictionHard": {signal: "7%"}})):
        entries = {"evictionHard": {signal: text}}
        variant = Variant(settings={"evictionHard": {**hard[0], signal: text}}, entries=entries)
        assert effective(read, variant).entries == left
        assert bool(effective(read, variant).settings) == bool(left)
