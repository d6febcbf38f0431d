"""What cannot be read back is never written."""

from typing import Any

import pytest
from hypothesis import given, settings

from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import ClockStepped, NodeObserved
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.wire.catalogue import TS_NS_MAX, TS_NS_MIN, body_flaw
from kubeledger.model.wire.codec import BadLineError, encode_line
from tests.model.wire.strategies import bodies

DELETED = ImageDeleted(image_id="sha256:1d", size_bytes=1, pass_="space")


def listed(**fields: Any) -> PodListed:  # noqa: ANN401 - any field
    """A pod with some fields as given."""
    plain: dict[str, Any] = {
        "namespace": "d",
        "pod": "p",
        "pod_uid": None,
        "spec": {},
        "status": None,
        "listed_by": "api",
    }
    return PodListed(**{**plain, **fields})


def line(body: Body, ts_ns: int = 0, evidence: tuple[Evidence, ...] = ()) -> bytes:
    record = Record(
        node="n",
        seq=1,
        ts_ns=ts_ns,
        role=body.role,
        kind=body.kind,
        v=body.v,
        cause=None,
        evidence=evidence,
        body=body,
    )
    return encode_line(record)[0]


@given(bodies())
@settings(max_examples=200, deadline=None)
def test_what_fits_its_types_is_sound(body: Body) -> None:
    assert body_flaw(body) is None


@pytest.mark.parametrize(
    "body",
    [
        listed(namespace=7),
        listed(annotations={"a": None}),
        listed(labels=["a"]),
        listed(spec="x"),
        listed(pod_uid=["u"]),
        listed(listed_by="nobody"),
        listed(listed_by=["api"]),
        listed(created_ts_ns=253_402_300_799 * 10**9),
        NodeObserved(allocatable="x"),  # type: ignore[arg-type]  # what foreign JSON may hold
        NodeObserved(labels={"a": 1}),  # type: ignore[dict-item]  # as above
        ImageDeleted(image_id=None, size_bytes=1),  # type: ignore[arg-type]  # as above
        ImageDeleted(image_id="x", size_bytes=True),
        ImageDeleted(image_id="x", size_bytes=2**70),
        ImageDeleted(image_id="x", size_bytes=1, pass_="other"),  # type: ignore[arg-type]  # as above
        ImageDeleted(image_id="\ud800", size_bytes=1),
        ClockStepped(from_ts_ns=0, to_ts_ns=TS_NS_MAX + 1),
    ],
)
def test_what_could_not_be_read_back_is_refused(body: Body) -> None:
    """Also when a sound body of the kind was seen before."""
    assert body_flaw(DELETED) is None
    assert body_flaw(body) is not None
    with pytest.raises(BadLineError):
        line(body)


@pytest.mark.parametrize("ts_ns", [TS_NS_MIN - 1, TS_NS_MAX + 1, 2**63, -(2**63)])
def test_a_time_that_cannot_be_shown_is_refused(ts_ns: int) -> None:
    """Outside of what 64 bits of nanoseconds hold, in whole years."""
    assert line(DELETED, TS_NS_MIN)
    assert line(DELETED, TS_NS_MAX)
    with pytest.raises(BadLineError, match="1678 to 2261"):
        line(DELETED, ts_ns)


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(file=7),  # type: ignore[arg-type]  # what foreign JSON may hold
        Evidence(file="kubelet.log", line="1"),  # type: ignore[arg-type]  # as above
        Evidence(file="kubelet.log", line=2**63),
        Evidence(file="kubelet.log", line=1, offset=-(2**63) - 1),
        Evidence(file="kubelet.log", line=1, offset=0, text="\ud800"),
    ],
)
def test_evidence_that_could_not_be_read_back_is_refused(evidence: Evidence) -> None:
    """SQL would call the whole ledger damaged."""
    with pytest.raises(BadLineError):
        line(DELETED, evidence=(evidence,))
