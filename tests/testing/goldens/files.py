"""The files of ``recordings/golden``: recordings, what is expected of the wrong ones, a README."""

import json
from collections.abc import Iterable

from kubeledger.ledger.standalone import encode_recording
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Record
from tests.testing.goldens import (
    admission,
    cgroups,
    devices,
    excerpts,
    images,
    preemption,
    prober,
    restarts,
    topology,
)
from tests.testing.goldens.registry import Golden, goldens

MODULES = (
    devices, topology, images, prober, restarts, admission, preemption, cgroups, excerpts
)  # fmt: skip
"""Each registers its behaviours when it is imported."""

EXPECTED = "mutated/EXPECTED.json"

_HEAD = """\
# Golden recordings

Decisions that must come out as they are recorded, one behaviour a file, for every version in which
it differs. `mutated/` holds the same files with one wrong value each; `mutated/EXPECTED.json`
names the one decision that verification has to find impossible there.

    pytest --kubeledger recordings/golden
    kubeledger verify recordings/golden/mutated/images-pinned-1.36.2.ledger.jsonl

All files are written by `just golden` from `tests/testing/goldens`; a test checks that this gives
the same bytes. `node-a-*` and `node-b-*` are pieces of the two recordings of real nodes in the
directory above: some kinds of records about some pods up to a time, each pod listed once, lines of
evidence as they stand there. All others are small histories written by hand.

| recording | kubelet | shows | wrong in `mutated/` |
|---|---|---|---|
"""

_CONFTEST = """\
\"\"\"What must fail is no test of this directory; name it, and it is collected.\"\"\"

collect_ignore = ["mutated"]
"""


def files() -> dict[str, bytes]:
    """Path below ``recordings/golden`` -> bytes; the same in every process."""
    made: dict[str, bytes] = {}
    expected: dict[str, object] = {}
    rows: list[str] = []
    for one in goldens():
        name = f"{one.name}.ledger.jsonl"
        made[name] = _lines(one.records)
        made[f"mutated/{name}"] = _lines(one.mutated)
        expected[name] = one.expected
        rows.append(_row(one))
    made[EXPECTED] = (json.dumps(expected, indent=1, sort_keys=True) + "\n").encode()
    made["conftest.py"] = _CONFTEST.encode()
    made["README.md"] = (_HEAD + "\n".join(sorted(rows)) + "\n").encode()
    return made


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join(encode_recording(records))


def _row(one: Golden) -> str:
    version = next(r.body for r in one.records if isinstance(r.body, KubeletStarted))
    changed = one.records[one.lie.seq - 1].kind.partition(".")[2]
    wrong = f"{', '.join(one.lie.fields)} of {changed}"
    return f"| `{one.name}` | {version.kubelet_version} | {one.why} | {wrong} |"
