"""What documents hold is parsed once, within a bound, and the same whether held or read again."""

import json
from pathlib import Path

import pytest

from kubeledger.ingest.sources.documents import Document, DocumentContents, read_document
from kubeledger.ingest.sources.pod_lists import PodLists, Room, pods_of, values_of
from kubeledger.ingest.sources.streams import SourceFile

POD = {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "status": {}}
LISTS = json.dumps({"kind": "PodList", "items": [POD, {"metadata": 7}]})


class Counted(SourceFile):
    """A file that counts how often it was read."""

    reads = 0

    def content(self) -> bytes:
        """See :class:`SourceFile`."""
        self.reads += 1
        return super().content()


def files(directory: Path) -> list[Document]:
    found = []
    for number in (1, 2):
        path = directory / f"{number}.json"
        path.write_text(LISTS)
        found.append(Document(Counted(path.name, path), "pod-list", number, "digest"))
    return found


def reads_of(documents: list[Document]) -> int:
    """How often these were read."""
    return sum(each.source.reads for each in documents if isinstance(each.source, Counted))


@pytest.mark.parametrize(("bytes_max", "reads"), [(1 << 20, 1), (0, 4)])
def test_one_content_is_read_once_as_far_as_it_is_held(
    tmp_path: Path, bytes_max: int, reads: int
) -> None:
    """Held content serves any number of readings; without room each reading reads the file."""
    contents, documents = DocumentContents(bytes_max), files(tmp_path)
    for _ in range(2):
        for document in documents:
            assert read_document(document, contents) == read_document(
                Document(SourceFile(document.source.name, document.source.path), *_rest(document))
            )
    assert reads_of(documents) == reads


def _rest(document: Document) -> tuple[str, int]:
    return document.format, document.ts_ns


def test_one_content_in_two_formats(tmp_path: Path) -> None:
    """What the user says a file is, it is read as."""
    path = tmp_path / "node.json"
    path.write_text(json.dumps({"kind": "Node", "metadata": {"name": "a"}}))
    contents = DocumentContents()
    for form, kind in (("node", "NodeObject"), ("kubelet-config", "KubeletConfigFile")):
        document = Document(SourceFile("node.json", path), form, 1, "digest")
        (item,) = read_document(document, contents)[0]
        assert type(item).__name__ == kind


def test_a_pod_that_is_listed_again_is_read_once() -> None:
    """Whatever stands around it; what is wrong with it is said of each list."""
    room = Room(1 << 20)
    lists = PodLists(room)
    odd = {"metadata": {"name": "odd"}, "status": {"startTime": "yesterday"}}
    first: list[str] = []
    again: list[str] = []
    (one, none_left), (two, left_bytes) = (
        lists.read(json.dumps({"kind": "PodList", "items": items}).encode(), flaws)
        for items, flaws in (([POD, odd], first), ([{"metadata": 7}, odd, POD], again))
    )
    assert two.pods == [one.pods[1], one.pods[0]]
    assert two.pods[1] is one.pods[0]
    assert (one.complete, two.complete) == (True, False)
    assert first == ["pod odd: startTime is taken as unknown: " + first[0].partition("n: ")[2]]
    assert again == ["pod number 1 is not read: metadata: expected object, got int", *first]
    assert (none_left, left_bytes) == (0, len('{"metadata": 7}'))
    assert (1 << 20) - room.left_bytes == len(json.dumps(POD)) + len(json.dumps(odd))


@pytest.mark.parametrize(
    "text",
    [
        LISTS,
        "\ufeff" + LISTS,
        json.dumps([POD, POD]),
        json.dumps({"type": "ADDED", "object": POD}),
        json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": [POD, 7]}),
        json.dumps({"kind": "PodList", "items": None}),
        json.dumps({"items": [{**POD, "kind": "Service"}, {**POD, "spec": {"x": "\ud800"}}]}),
        LISTS + LISTS,
        "kind: Pod\nmetadata: {name: web}\n",
    ],
)
@pytest.mark.parametrize("bytes_max", [0, 1 << 20])
def test_pods_are_those_of_the_whole_file(text: str, bytes_max: int) -> None:
    """Read one by one or not, held or not, at once and again."""
    lists, data = PodLists(Room(bytes_max)), text.encode("utf-8", "surrogatepass")
    flaws: list[str] = []
    expected = pods_of(values_of(data, flaws), flaws)
    for _ in range(2):
        found: list[str] = []
        assert lists.read(data, found)[0] == expected
        assert found == flaws
