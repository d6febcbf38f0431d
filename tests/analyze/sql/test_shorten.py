"""Texts are cut between words."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubeledger.analyze.summaries import cut, cut_chain, cut_clause

WORDS = st.lists(st.text("ab/_'(),:;", min_size=1, max_size=9), max_size=12).map(" ".join)


@given(text=WORDS, length=st.integers(1, 60))
@example(text="_:::a", length=4)
def test_whole_words_within_the_length(text: str, length: int) -> None:
    """Only a word that takes more than half of the room is cut itself."""
    for kept in (cut(text, length), cut_clause(text, length)):
        assert len(kept) <= length
        begin = kept.removesuffix("…")
        assert text.startswith(begin)
        word = text.rfind(" ", 0, len(begin) + 1) + 1
        is_cut = text[len(begin) :].lstrip("(,:;'")[:1] not in {"", " "}
        assert not is_cut or length - word > length // 2


@pytest.mark.parametrize(
    ("text", "length", "kept"),
    [
        ('unhealthy (responded with "NOT_SERVING")', 34, "unhealthy (responded with…"),
        ("No such file or directory (threshold 3, every 3 s)", 36, "No such file or directory…"),
        ("cat: can't open '/tmp/ok': No such file", 35, "cat: can't open '/tmp/ok': No such…"),
        ("0123456789abcdef", 8, "0123456…"),
        ("one two", 7, "one two"),
        ("", 0, ""),
    ],
)
def test_cut(text: str, length: int, kept: str) -> None:
    assert cut(text, length) == kept


def test_cut_clause() -> None:
    text = "cat: can't open '/tmp/ok': No such file or directory"
    assert cut_clause(text, 40) == "cat: can't open '/tmp/ok'"
    assert cut_clause("no pods found to reclaim: [(res: cpu, q: 2550), ]", 40) == (
        "no pods found to reclaim"
    )


CHAIN = "failed to run: could not start: could not restore state from x: policy differs"


@pytest.mark.parametrize(
    ("text", "length", "kept"),
    [
        (CHAIN, 100, CHAIN),
        (CHAIN, 70, "failed to run: … could not restore state from x: policy differs"),
        (CHAIN, 40, "failed to run: … policy differs"),
        (CHAIN, 27, "failed to run: … policy…"),
        (CHAIN + ": unknown", 40, "failed to run: … policy differs"),
        (CHAIN + ", path: &TypeMeta{Kind:,APIVersion:,}", 40, "failed to run: … policy differs"),
        (f"{CHAIN}: rpc error: code = Unknown desc = the server is gone", 50,
         "failed to run: … the server is gone"),
        ("not mounted: layer: mount on /x failed: exit status 32", 50,
         "not mounted: … mount on /x failed: exit status 32"),
        # What closes the quotes of the layers that are left out goes with them.
        (r'failed to "Kill" with Err: "desc = \"dialing: /run/c.sock: no such file\""]', 45,
         'failed to "Kill" with Err: … no such file'),
        (r'oci: starting it caused "init.go:5: running it caused \"the rule: no match\""', 30,
         'oci: … the rule: no match'),
        (r'it failed: starting it caused "exec: \"/bin/a\": no such file": unknown', 50,
         r'it failed: … exec: \"/bin/a\": no such file'),
        # What is quoted or in brackets within a layer is no layer, nor does one begin with it.
        ('it failed: x509: it is unknown (perhaps of "rsa: no" while it was read)', 60,
         'it failed: … it is unknown (perhaps of "rsa: no" while it…'),
        ('it failed: wrong: the driver: "a" is another than that of it: "b"', 50,
         'it failed: … the driver: "a" is another than that…'),
        # Long paths and IDs go before layers do.
        (f"mount //srv/share on /var/lib/{'x' * 60}/globalmount failed: exit status 32", 70,
         "mount //srv/share on …/globalmount failed: exit status 32"),
        (f"volume({'0a' * 40}) is gone: no", 60, f"volume({('0a' * 40)[:24]}…) is gone: no"),
        ("a head that is long enough for two: the cause", 40, "a head that… the cause"),
        ("a head: the one and only cause", 20, "a head: the one and…"),
        ("no chain at all", 9, "no chain…"),
    ],
)  # fmt: skip
def test_a_chain_is_cut_in_the_middle(text: str, length: int, kept: str) -> None:
    assert cut_chain(text, length) == kept


@given(text=WORDS, length=st.integers(1, 60))
def test_a_cut_chain_is_no_longer_than_it_may_be(text: str, length: int) -> None:
    assert len(cut_chain(text, length)) <= length
