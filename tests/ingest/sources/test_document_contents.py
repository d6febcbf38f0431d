"""What documents hold is parsed once, within a bound, and the same whether held or read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubeledger.ingest.sources.documents import Document, DocumentContents, read_document
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
    """One list in two snapshots."""
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
