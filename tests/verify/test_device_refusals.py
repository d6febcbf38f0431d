"""Refused containers, in small scenes."""

from __future__ import annotations

import pytest

from kubeledger.lifecycle.records import PodRejected
from tests.verify.device_world import GPU, IDS, Node

UNREGISTERED = f"cannot allocate unregistered device {GPU}"
NO_HEALTHY = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
HOLDERS = f"all holders of {GPU} at that time"
HINTS = "Unable to generate topology hints: requested number of devices unavailable"


def two_free(limit: int = 3, version: str = "1.36.2") -> Node:
    """Two of four devices are held; a pod asks."""
    node = Node(version)
    node.plugin()
    node.pod("h", ("c", 2, "app"))
    node.grant("h", "gpu-0", "gpu-1")
    node.pod("a", ("c", limit, "app"))
    return node


def test_too_few() -> None:
    """3 asked for, 2 free."""
    node = two_free()
    finding = node.finding(node.short("a", 3, 2))
    assert finding.verdict == "match"
    assert finding.why == (
        "container c needs 3 example.com/gpu, more than the 2 free healthy devices: gpu-2, "
        "gpu-3; gpu-0, gpu-1 held by ns/h/c"
    )


@pytest.mark.parametrize(("requested", "available"), [(3, 3), (2, 2), (4, 2)])
def test_wrong_counts(requested: int, available: int) -> None:
    """Word for word, or not at all."""
    node = two_free()
    finding = node.finding(node.short("a", requested, available, needed=3))
    assert finding.verdict == "impossible"
    assert finding.expected is not None
    assert (finding.expected["requested"], finding.expected["available"]) == (3, 2)


@pytest.mark.parametrize(
    ("counts", "verdict"), [((3, 2), "match"), ((3, 1), "impossible"), ((4, 2), "impossible")]
)
def test_the_line_about_hints_counts_the_same(counts: tuple[int, int], verdict: str) -> None:
    """It is of the same admission, before any container of the pod got devices."""
    node = two_free()
    error = f"requested number of devices unavailable for {GPU}. Requested: 3, Available: 2"
    given = dict(zip(("hints_requested", "hints_available"), counts, strict=True))
    if verdict == "match":
        given = {}  # the same counts are not recorded twice
    failed = node.refuse("a", 3, error, requested=3, available=2, **given)
    assert node.finding(failed).verdict == verdict


def test_fewer_than_are_free() -> None:
    """A grant to somebody may stand in a line that was lost."""
    node = two_free()
    assert node.finding(node.short("a", 3, 1)).missing == (HOLDERS,)
    node = two_free(limit=2)
    assert node.finding(node.short("a", 2, 1)).missing == (HOLDERS,)


def test_more_than_are_free() -> None:
    """Who lives on holds what it got; else a release may stand in a line that was lost."""
    node = two_free(limit=5)
    seq = node.short("a", 5, 3)
    assert node.finding(seq).missing == (HOLDERS,)
    node.lives("h")
    assert node.finding(seq).verdict == "impossible"


def test_words_and_counts() -> None:
    """The error's own words tell the same numbers."""
    node = two_free()
    error = f"requested number of devices unavailable for {GPU}. Requested: 3, Available: 2"
    seq = node.refuse("a", 3, error, requested=3, available=1)
    assert node.finding(seq).verdict == "impossible"


def test_counted_after_what_is_used_again() -> None:
    """Devices of the pod's init container count first."""
    node = Node()
    node.plugin()
    node.pod("a", ("i", 2, "init"), ("c", 5, "app"))
    node.grant("a", "gpu-0", "gpu-1", container="i")
    assert node.finding(node.short("a", 3, 2, needed=5)).verdict == "match"


def test_open_counts() -> None:
    """Holders that nobody knows may leave less than there seems to be."""
    node = Node()
    node.steps.clear()
    node.start(from_start=False)
    node.plugin()
    node.pod("a", ("c", 3, "app"))
    assert node.finding(node.short("a", 3, 2)).missing == (f"all holders of {GPU} at that time",)
    node = Node()
    node.steps.clear()
    node.start(from_start=False)
    node.plugin()
    node.pod("a", ("c", 6, "app"))
    assert node.finding(node.short("a", 6, 5)).verdict == "impossible"


@pytest.mark.parametrize(
    ("free", "verdict"), [(1, "unverifiable"), (0, "unverifiable"), (2, "impossible")]
)
def test_a_grant_that_the_next_checkpoint_does_not_hold(free: int, verdict: str) -> None:
    """The first one behind the log's begin shows what was held; what a later one adds came later.

    Nobody knows when: what it adds may have been held at the refusal, or not.
    """
    node = Node()
    node.steps.clear()
    node.start(from_start=False)
    node.plugin()
    node.pod("h", ("c", 2, "app"), added=False)
    entries: dict[tuple[str, str], dict[str, tuple[str, ...]]]
    entries = {("h", "c"): {"0": ("gpu-0", "gpu-1")}}
    node.checkpoint(entries)
    node.grant("h", "gpu-0", "gpu-1", ask=False, told_by="checkpoint", at=node.now)
    node.pod("b", ("c", 1, "app"))
    node.grant("b", "gpu-2")
    node.pod("a", ("c", 3, "app"))
    refused = node.short("a", 3, free)
    node.lives("h")
    node.lives("b")
    entries |= {("b", "c"): {"0": ("gpu-2",)}, ("d", "c"): {"0": ("gpu-3",)}}
    node.checkpoint(entries)
    node.grant("d", "gpu-3", ask=False, told_by="checkpoint", at=node.now)
    node.lives("d")
    assert node.finding(refused).verdict == verdict


def test_hints_fail_with_what_may_be_used_again() -> None:
    """Requested is all, available counts reusable devices."""
    node = two_free()
    fields = {"requested": 3, "available": 2}
    finding = node.finding(node.refuse("a", 0, HINTS, **fields))
    assert (finding.verdict, finding.rule.rsplit(" ", 1)[1]) == ("match", "GetTopologyHints")
    node = two_free()
    assert node.finding(node.refuse("a", 0, HINTS, requested=3, available=1)).missing == (HOLDERS,)
    node = two_free()
    assert (
        node.finding(node.refuse("a", 0, HINTS, requested=2, available=1)).verdict == "impossible"
    )


def test_the_plugin_s_own_error() -> None:
    """Possible wherever the plugin is asked at all."""
    error = "rpc error: code = Unavailable desc = no"
    node = two_free(limit=1)
    assert node.finding(node.refuse("a", 1, error)).verdict == "admissible"
    node = two_free()
    seq = node.refuse("a", 3, error)
    node.lives("h")
    finding = node.finding(seq)
    assert finding.verdict == "impossible"
    assert "Requested: 3, Available: 2" in finding.why


@pytest.mark.parametrize(("version", "verdict"), [("1.36.2", "match"), ("1.20.2", "impossible")])
def test_before_the_plugin_is_back(version: str, verdict: str) -> None:
    """After a restart, newer kubelets have words of their own for it."""
    node = two_free(limit=1, version=version)
    node.start(restart=True)
    finding = node.finding(node.refuse("a", 1, NO_HEALTHY))
    assert finding.verdict == verdict


def test_old_words_before_the_plugin_is_back() -> None:
    """1.20 counts: none is there."""
    node = two_free(limit=1, version="1.20.2")
    node.start(restart=True)
    assert node.finding(node.short("a", 1, 0)).verdict == "match"


def test_registered_or_not() -> None:
    """A resource whose plugin sent its list is registered; after the grace, nobody knows."""
    node = two_free(limit=1)
    assert node.finding(node.refuse("a", 1, UNREGISTERED)).verdict == "impossible"
    node = two_free(limit=1)
    node.start(restart=True)
    node.now += 301
    seq = node.refuse("a", 1, UNREGISTERED)
    assert node.finding(seq).missing == (f"whether {GPU} was registered at that time",)


def test_a_changed_request() -> None:
    """A container that holds devices cannot ask for another number."""
    node = two_free()
    error = f'pod "uid-h" container "c" changed request for resource "{GPU}" from 2 to 3'
    finding = node.finding(node.refuse("h", 0, error, requested=3))
    assert finding.verdict == "impossible"  # its limit is 2 still
    node.pod("h", ("c", 3, "app"), added=False)
    node.now += 1
    assert node.finding(node.refuse("h", 0, error, requested=3)).verdict == "match"


def test_what_is_not_told() -> None:
    """Of whom, of what, and when."""
    node = two_free()
    status = node.short("a", 3, 2)
    for fields, missing in (
        ({"resource": None}, "the resource that was refused"),
        ({"told_by": "status"}, "the time of the refusal"),
    ):
        node = two_free()
        status = node.refuse("a", 0, "x", **fields)
        assert node.finding(status).missing == (missing,)
    node = two_free()
    assert node.finding(node.refuse("x", 0, "x", container=None)).missing == (
        "the container that was refused",
    )


def test_the_container_follows_from_the_spec() -> None:
    """If only one asks for the resource, it is that one."""
    node = two_free()
    error = f"requested number of devices unavailable for {GPU}. Requested: 3, Available: 2"
    seq = node.refuse("a", 0, error, container=None, requested=3, available=2)
    assert node.finding(seq).verdict == "match"
    assert node.finding(seq).subject == "container/ns/a/c"


def test_an_event_of_a_whole_second() -> None:
    """What was free within that second is not certain."""
    node = two_free()
    seq = node.refuse("a", 0, UNREGISTERED, told_by="event")
    assert node.finding(seq).missing == ("the instant of the refusal within its second",)


def test_no_limit_no_refusal() -> None:
    """The device manager has nothing to refuse."""
    node = two_free(limit=0)
    assert node.finding(node.refuse("a", 0, UNREGISTERED)).verdict == "impossible"


def rejected(node: Node) -> int:
    """The pod's rejection has another error."""
    return node.add(
        PodRejected(
            namespace="ns",
            pod="a",
            pod_uid="uid-a",
            reason="UnexpectedAdmissionError",
            message=f"Allocate failed due to {UNREGISTERED}, which is unexpected",
        )
    )


def test_a_plugin_s_answer_that_the_rejection_does_not_tell() -> None:
    """Nothing else shows that answer."""
    node = two_free(limit=1)
    seq = node.refuse("a", 1, "rpc error: code = Unknown desc = no")
    rejected(node)
    assert node.finding(seq).verdict == "impossible"


def test_a_lie_about_a_grant_does_not_spread() -> None:
    """A refusal after an impossible grant of unknown truth is not called impossible."""
    node = Node()
    node.plugin()
    node.pod("h", ("c", 1, "app"))
    node.grant("h", "gpu-0")
    node.pod("l", ("c", 1, "app"))
    lie = node.grant("l", "gpu-0")
    node.lives("h")
    node.pod("a", ("c", len(IDS), "app"))
    later = node.short("a", 4, 2)
    assert node.finding(lie).verdict == "impossible"
    assert node.finding(later).verdict == "unverifiable"


@pytest.mark.parametrize("named", [(), IDS[:2]])
def test_devices_that_no_record_names_may_have_been_there(named: tuple[str, ...]) -> None:
    """A log without lists and checkpoints: the plugin may have been asked for any of them."""
    node = Node()
    if named:
        node.pod("h", ("c", len(named), "app"))
        node.grant("h", *named)
    node.pod("a", ("c", 1, "app"))
    failed = node.refuse("a", 1, "rpc error: code = Unknown desc = device gpu-3 is broken")
    assert node.finding(failed).verdict != "impossible"
