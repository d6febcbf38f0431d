"""Walks over maps in every order that Go can take."""

from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore


def test_the_first_order_is_that_of_the_keys() -> None:
    assert FIRST_ORDER.of({"b": 1, "a": 2}) == ["b", "a"]


def test_every_slot_is_tried_of_every_map() -> None:
    """Also of maps that only some orders come to."""

    def walk(order: MapOrder) -> str:
        outer = order.of(["a", "b", "c"])
        return outer[0] + (order.of(["x", "y"])[0] if outer[0] == "b" else "")

    assert list(explore(walk)) == ["a", "bx", "by", "c"]


def test_orders_are_counted() -> None:
    assert len(list(explore(lambda order: order.of(range(8)), runs_max=5))) == 5


def test_orders_before_a_failure_are_taken_once_each() -> None:
    """What does not fail keeps its order, so each way to fail comes once."""

    def walk(order: MapOrder) -> str:
        walked = ""
        for key in order.until_failure("abXcY", "XY"):
            walked += key
            if key.isupper():
                break
        return walked

    found = list(explore(walk))
    assert len(found) == len(set(found)) == 16
    assert found[0] == walk(FIRST_ORDER) == "abX"
    assert {walked[-1] for walked in found} == {"X", "Y"}
