"""Records of pulls that are kept in memory."""

from kubeledger.kubelet.imagepull.pullrecords import LRUCache


def full() -> LRUCache[int]:
    cache = LRUCache[int](2)
    cache.refresh([("a", 1)], complete=True)
    cache.set("b", 2)
    return cache


def test_what_was_not_used_for_longest_goes_and_is_looked_for_on_the_disk_again() -> None:
    """A use counts; a value that is set again makes nothing go."""
    cache = full()
    cache.set("b", 3)
    assert cache.authoritative
    assert cache.get("a") == 1
    cache.set("c", 4)
    assert [cache.get(key) for key in "abc"] == [1, None, 4]
    assert not cache.authoritative


def test_a_list_is_taken_over_if_it_is_whole_and_fits_or_nothing_is_kept() -> None:
    """Else what was used stays, and the disk is asked."""
    cache = full()
    cache.refresh([("x", 9)], complete=False)
    assert cache.get("x") is None
    cache.refresh([("x", 9), ("y", 8)], complete=True)
    assert (cache.get("x"), cache.get("a")) == (None, 1)
    cache.refresh([("x", 9)], complete=True)
    assert (cache.get("x"), cache.get("a"), cache.authoritative) == (9, None, True)
    empty = LRUCache[int](2)
    empty.refresh([("x", 9), ("y", 8), ("z", 7)], complete=True)
    assert (empty.get("x"), empty.get("z"), empty.authoritative) == (9, None, False)
