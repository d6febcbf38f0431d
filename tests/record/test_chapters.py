"""The file of a chapter: what is whole is read, whatever stands before, between and after it."""

from pathlib import Path

import pytest

from kubeledger.model.units import NS_PER_S
from kubeledger.record.capture import Capture
from kubeledger.record.chapters import GAPS, Batch, Chapter, packed
from kubeledger.record.observations import Document, Gap, Lines
from kubeledger.record.reading import plan_of

PODS = "a/pods.json"
NOON_NS = 1_795_262_400 * NS_PER_S
"""21 November 2026."""


def lines(text: bytes, cursor: str) -> Lines:
    return Lines("kubelet.log", text, cursor)


BATCHES = [
    Batch(1, {"log": "1"}, (lines(b"one\n", "1"),)),
    Batch(2, {"log": "2"}, (lines(b"two\n", "2"), Document(PODS, "pod-list", b"{", 2))),
    Batch(3, {"other": "7"}, (Gap("kubelet.log", "9 messages were suppressed", None, 3),)),
    Batch(4, {"log": "3"}, (Document(PODS, "pod-list", b"{}", 4), lines(b"3\n", "3"))),
]


def write(path: Path, *frames: bytes) -> Chapter:
    path.write_bytes(b"".join(frames))
    return Chapter(path)


def content(chapter: Chapter) -> dict[str, bytes]:
    """Name -> content of each file that an import finds."""
    return {file.name: b"".join(file.chunks()) for file in chapter.files()}


def test_what_an_import_finds(tmp_path: Path) -> None:
    """Lines in their order, the last content of a document, gaps as lines."""
    chapter = write(tmp_path / "chapter", *map(packed, BATCHES))
    files = content(chapter)
    assert files["kubelet.log"] == b"one\ntwo\n3\n"
    assert files[PODS] == b"{}"
    assert b'"reason": "9 messages were suppressed"' in files[GAPS]
    assert chapter.cursors == {"log": "3", "other": "7"}
    assert (chapter.begun_ns, chapter.at_ns, chapter.damaged) == (1, 4, 0)


@pytest.mark.parametrize("late", [False, True])
def test_a_log_that_goes_back(tmp_path: Path, late: bool) -> None:
    """It was followed: only where some of it was missing a part may have come late."""
    text = b"".join(
        b'I1121 12:%02d:00.000001    4052 kubelet.go:2430] "Line" n=%d\n' % (at, at)
        for at in (*range(30, 60), *range(10, 30))
    )
    gap = (Gap("kubelet.log", "kubelet.log.1 cannot be read", None, None),)
    endpoint = (Gap("kubelet endpoints", "nothing listens", None, None),)
    seen = (lines(text, "1"), *endpoint, *(gap if late else ()))
    plan = plan_of(write(tmp_path / "chapter", packed(Batch(NOON_NS, {}, seen))), "n")
    assert late == any(each.finding == "not_in_order" for each in plan.bundle.findings)


def test_a_frame_that_was_cut_does_not_count(tmp_path: Path) -> None:
    """Wherever: neither what it holds nor its cursors."""
    frames = [packed(batch) for batch in BATCHES[:2]]
    for size in range(len(frames[1])):
        chapter = write(tmp_path / "chapter", frames[0], frames[1][:size])
        assert content(chapter) == {"kubelet.log": b"one\n"}
        assert chapter.cursors == {"log": "1"}
        assert (chapter.sound_bytes, chapter.damaged) == (len(frames[0]), 0)


@pytest.mark.parametrize(
    "garbage", [b"?", b"KLB1", b"KLB1" * 50, bytes(2000), packed(BATCHES[0])[:-1]]
)
def test_garbage_between_frames_is_passed_over(garbage: bytes, tmp_path: Path) -> None:
    """It is counted; what follows is found again."""
    first, *rest = map(packed, BATCHES)
    chapter = write(tmp_path / "chapter", first, garbage, *rest)
    assert content(chapter)["kubelet.log"] == b"one\ntwo\n3\n"
    assert chapter.damaged == len(garbage)


def test_any_flipped_byte_is_noticed(tmp_path: Path) -> None:
    frames = [packed(batch) for batch in BATCHES]
    data = b"".join(frames)
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 0x55
        (tmp_path / "chapter").write_bytes(changed)
        log = content(Chapter(tmp_path / "chapter")).get("kubelet.log", b"")
        assert set(log.splitlines()) < {b"one", b"two", b"3"} or log == b"one\ntwo\n3\n"


def test_a_capture_goes_on_after_what_is_whole(tmp_path: Path) -> None:
    """What a crash left of the last batch is cut off, and the next one follows."""
    capture = Capture(tmp_path, "node-x", 1)
    capture.append(2, {"log": "1"}, [lines(b"one\n", "1")])
    capture.close()
    with capture.durable.path.open("ab") as file:
        file.write(packed(BATCHES[1])[:-1])
    again = Capture(tmp_path, "node-x", 3)
    assert again.cursors == {"log": "1"}
    assert again.cut_bytes == len(packed(BATCHES[1])) - 1
    again.append(4, {"log": "2"}, [lines(b"two\n", "2")])
    again.close()
    assert content(Chapter(again.durable.path)) == {"kubelet.log": b"one\ntwo\n"}


def test_the_next_chapter_begins_with_the_last_documents(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "node-x", 1)
    for batch in BATCHES:
        capture.append(batch.at_ns, batch.cursors, batch.seen)
    capture.end_chapter(5)
    assert content(Chapter(capture.durable.path)) == {PODS: b"{}"}
    assert capture.cursors == {"log": "3", "other": "7"}
    capture.close()
    assert Capture(tmp_path, "node-x", 6).cursors == {"log": "3", "other": "7"}
    (ended,) = capture.ended()
    assert content(Chapter(ended))["kubelet.log"] == b"one\ntwo\n3\n"


def test_a_capture_that_is_removed_is_put_back(tmp_path: Path) -> None:
    """Its directory, too: what it held is still there, as long as it is open."""
    capture = Capture(tmp_path, "node-x", 1)
    capture.append(2, {"log": "1"}, [lines(b"one\n", "1")])
    path = capture.durable.path
    path.unlink()
    path.parent.rmdir()
    capture.append(3, {"log": "2"}, [lines(b"two\n", "2")])
    assert capture.put_back == [path]
    path.unlink()
    capture.end_chapter(4)
    capture.close()
    (ended,) = capture.ended()
    assert content(Chapter(ended)) == {"kubelet.log": b"one\ntwo\n"}
    assert Capture(tmp_path, "node-x", 5).cursors == {"log": "2"}


def test_process_ids_that_come_back_are_one_node_s(tmp_path: Path) -> None:
    """A node that often boots gives them again; in other files they would be two nodes'."""
    entry = 'I1121 02:52:{:02}.296376    {:4} kubelet.go:2430] "SyncLoop ADD" n={}\n'
    entries = "".join(entry.format(n, 812 + n % 2, n) for n in range(10)).encode()
    chapter = write(tmp_path / "1.open", packed(Batch(NOON_NS, {}, (lines(entries, "1"),))))
    (log,) = plan_of(chapter, "n").timing.logs
    assert b"".join(log.source.chunks()) == entries
