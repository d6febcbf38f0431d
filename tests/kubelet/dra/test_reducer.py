"""Claims of pods: prepared, and let go."""

from kubeledger.kubelet.dra.reducer import HANDLERS, DraManagerState
from kubeledger.model.bodies.devicemanager import ClaimPrepared, ClaimReleased
from kubeledger.model.record import Body
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

evolve = evolver(HANDLERS)


def prepared(uid: str) -> ClaimPrepared:
    return ClaimPrepared(
        namespace="ns", pod="p", pod_uid="u", claim=uid, claim_uid=uid, drivers={"d": ()}
    )


def released(uid: str) -> ClaimReleased:
    return ClaimReleased(
        namespace="ns", pod="p", pod_uid="u", claim=uid, claim_uid=uid, unprepared=True
    )


def after(*bodies: Body) -> DraManagerState:
    state = DraManagerState()
    for seq, body in enumerate(bodies, 1):
        state = evolve(state, record(seq, body))
    return state


def test_a_pod_is_known_while_it_holds_a_claim() -> None:
    """The last one takes it along; one that nobody holds takes none."""
    assert set(after(prepared("a"), prepared("b"), released("a")).pods["u"]) == {"b"}
    assert after(prepared("a"), released("a")).pods == {}
    assert set(after(prepared("a"), released("b")).pods["u"]) == {"a"}
    assert after(released("a")).pods == {}
