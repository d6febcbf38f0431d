import hashlib
import os
import re
import subprocess
import sys
import zlib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.ledger.standalone import read_recording
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import PodEvicted, PodListed
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.record import Body, Decision, Evidence, Observation, Record
from kubeledger.model.wire import codec
from kubeledger.model.wire.catalogue import BODY_TYPES, UPCASTERS, UpcastError, upcast
from kubeledger.model.wire.codec import GENESIS, BadLineError, decode_envelope
from tests.model.wire.strategies import bodies, records, structs


def record(body: Body, seq: int = 1, **changes: Any) -> Record:  # noqa: ANN401 - any field
    fields: dict[str, Any] = {
        "node": "node-a",
        "seq": seq,
        "ts_ns": 1_795_229_590_000_000_000,
        "role": body.role,
        "kind": body.kind,
        "v": body.v,
        "cause": None,
        "evidence": (Evidence(file="kubelet.log", line=7, offset=812, text='said "ä"'),),
        "body": body,
    }
    return Record(**{**fields, **changes})


DELETED = ImageDeleted(image_id="sha256:1d", size_bytes=24_301, pass_="space")
LINE, DIGEST = codec.encode_line(record(DELETED))


def reframed(old: bytes, new: bytes, line: bytes = LINE) -> bytes:
    """The line with its payload changed and the frame made to fit again."""
    payload = codec.payload_of(line)
    assert old in payload
    payload = payload.replace(old, new, 1)
    return payload + codec.chained(payload, GENESIS)[0]


def test_the_line_is_what_the_format_says() -> None:
    """Computed here from the description, byte by byte."""
    payload = (
        '{"node":"node-a","seq":1,"ts_ns":1795229590000000000,"role":"decision",'
        '"kind":"images.ImageDeleted","v":1,"cause":null,'
        '"evidence":[{"file":"kubelet.log","line":7,"offset":812,"text":"said \\"ä\\""}],'
        '"body":{"image_id":"sha256:1d","size_bytes":24301,"pass":"space",'
        '"reclaimed":null,"signals":[]}'
    ).encode()
    digest = hashlib.blake2b(bytes(32) + payload, digest_size=32)
    before_crc = payload + b',"chain":"' + digest.hexdigest().encode() + b'"'
    crc = f"{zlib.crc32(before_crc):08x}".encode()
    assert before_crc + b',"crc":"' + crc + b'"}\n' == LINE
    assert digest.digest() == DIGEST


@given(records(), st.binary(min_size=32, max_size=32))
@settings(max_examples=300, deadline=None)
def test_every_record_comes_back_the_same(given_record: Record, previous: bytes) -> None:
    """Any record of any kind, after any digest."""
    line, digest = codec.encode_line(given_record, previous)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert codec.check_line(line, previous) == digest == codec.chain_of(line)
    assert codec.decode_line(line) == given_record
    assert codec.encode_line(codec.decode_line(line), previous)[0] == line


@pytest.mark.parametrize("kind", sorted(BODY_TYPES))
def test_each_kind_comes_back_the_same(kind: str) -> None:
    """The strategy draws kinds at random; here none is left out."""

    @given(structs(BODY_TYPES[kind]))
    @settings(max_examples=10, deadline=None)
    def comes_back(body: Body) -> None:
        assert codec.decode_line(codec.encode_line(record(body))[0]).body == body

    comes_back()


def test_the_order_of_dict_keys_does_not_matter() -> None:
    """Two equal records give the same bytes."""
    lines = {
        codec.encode_line(
            record(
                PodListed(
                    namespace="a", pod="b", pod_uid=None, labels=labels, spec=None, status=None,
                    listed_by="api",
                )
            )
        )[0]
        for labels in ({"x": "1", "y": "2"}, {"y": "2", "x": "1"})
    }  # fmt: skip
    assert len(lines) == 1


def test_another_process_writes_the_same_bytes() -> None:
    """Nothing depends on the hash seed or the process."""
    script = (
        "import sys; from tests.model.wire.test_codec import record, DELETED\n"
        "from kubeledger.model.wire.codec import encode_line\n"
        "sys.stdout.buffer.write(encode_line(record(DELETED))[0])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True
    )
    assert result.stdout == LINE


def test_a_flip_of_any_bit_is_found() -> None:
    """By the CRC alone, without the line before."""
    for position in range(len(LINE)):
        for bit in range(8):
            flipped = bytearray(LINE)
            flipped[position] ^= 1 << bit
            with pytest.raises(BadLineError):
                codec.check_crc(bytes(flipped))


def test_a_changed_line_with_a_fitted_crc_breaks_the_chain() -> None:
    """Who edits a line can compute its CRC, but not its place in the chain."""
    edited = LINE[:-19].replace(b"24301", b"24302")
    edited += b',"crc":"%08x"}\n' % zlib.crc32(edited)
    codec.check_crc(edited)
    with pytest.raises(BadLineError, match="chain digest does not follow"):
        codec.check_line(edited, GENESIS)


def test_a_line_out_of_place_breaks_the_chain() -> None:
    second, _ = codec.encode_line(record(DELETED, seq=2), DIGEST)
    codec.check_line(second, DIGEST)
    with pytest.raises(BadLineError, match="chain"):
        codec.check_line(second, GENESIS)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"images.ImageDeleted", b"images.ImageLoved", "unknown kind 'images.ImageLoved'"),
        (b'"v":1', b'"v":9', "v9 was written by a newer version"),
        (b'"v":1', b'"v":0', "v0 is not a known schema version"),
        (b'"v":1', b'"v":"1"', "Expected `int`"),
        (b'"role":"decision"', b'"role":"observation"', "is not a kind of observation"),
        (b'"role":"decision"', b'"role":"guess"', "Invalid enum value"),
        (b'"size_bytes"', b'"size_mib"', "unknown field `size_mib`"),
        (b'"cause":null', b'"cause":null,"mood":1', "unknown field `mood`"),
        (b'"size_bytes":24301', b'"size_bytes":"24301"', "Expected `int | null`"),
        (b'"pass":"space"', b'"pass":"sometimes"', "Invalid enum value"),
        (b'"image_id":"sha256:1d",', b"", "missing required field `image_id`"),
        (b'"seq":1,', b"", "missing required field `seq`"),
        (b"node-a", b"node-\xff", "not a record"),
        (b'{"node"', b'["node"', "not a record"),
    ],
)
def test_what_does_not_fit_is_refused(old: bytes, new: bytes, reason: str) -> None:
    """With a sound frame, so that only the content is at fault."""
    line = reframed(old, new)
    codec.check_line(line, GENESIS)
    with pytest.raises(BadLineError, match=re.escape(reason)):
        codec.decode_line(line)


@pytest.mark.parametrize("line", [b"", b"\n", b"{}\n", b'"}\n', b',"crc":"00000000"}\n', b"[" * 9])
def test_scraps_are_no_records(line: bytes) -> None:
    """Too short for a frame, or nothing but one."""
    with pytest.raises(BadLineError):
        codec.check_line(line, GENESIS)
    with pytest.raises(BadLineError):
        codec.decode_line(line)


def test_deep_json_is_an_error_and_no_crash() -> None:
    """Nesting is refused by the parser, also inside the body."""
    line = reframed(b'"sha256:1d"', b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(BadLineError):
        codec.decode_line(line)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_record_or_an_error(data: bytes) -> None:
    """No other exception leaves the codec."""
    for parse in (codec.decode_line, codec.decode_envelope, codec.check_crc, codec.chain_of):
        with pytest.raises(BadLineError):
            parse(data)


def test_the_envelope_alone() -> None:
    """The body stays JSON, whatever its kind."""
    envelope = codec.decode_envelope(reframed(b"images.ImageDeleted", b"x.Unheard"))
    assert (envelope.seq, envelope.kind, envelope.cause) == (1, "x.Unheard", None)
    assert msgspec.json.decode(envelope.body)["size_bytes"] == 24_301
    assert codec.decode_envelope(LINE).chain == DIGEST.hex()


@pytest.mark.parametrize(
    "body",
    [
        ImageDeleted(image_id="\udcff", size_bytes=1),
        PodListed(
            namespace="a", pod="b", pod_uid=None, spec={"x": object()}, status=None, listed_by="api"
        ),
    ],
    ids=["surrogate", "object"],
)
def test_what_json_cannot_hold_is_refused(body: Body) -> None:
    with pytest.raises(BadLineError, match="cannot be written as JSON"):
        codec.encode_line(record(body))


@given(bodies())
@settings(max_examples=50, deadline=None)
def test_a_body_says_its_kind(body: Body) -> None:
    assert BODY_TYPES[body.kind] is type(body)


def test_every_body_is_known() -> None:
    """One that its module does not list, or whose module the catalogue does not name, is not."""
    bodies = import_module("kubeledger.model.bodies")
    for module in iter_modules(bodies.__path__, "kubeledger.model.bodies."):
        import_module(module.name)
    made = {each for role in (Observation, Decision) for each in role.__subclasses__()}
    made = {each for each in made if each.__module__.startswith("kubeledger.model.bodies.")}
    assert made == set(BODY_TYPES.values())


# -- upcast ----------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[3]
OLD = ROOT / "recordings" / "upcast"


@pytest.mark.parametrize(("kind", "v"), sorted(UPCASTERS))
def test_each_old_version_has_lines_that_read_as_the_current_one(kind: str, v: int) -> None:
    path = OLD / f"{kind}.v{v}.ledger.jsonl"
    with path.open("rb") as file:
        assert {(e.kind, e.v) for e in map(decode_envelope, file)} == {(kind, v)}
    read = list(read_recording(path))
    assert read
    for record in read:
        assert type(record.body) is BODY_TYPES[kind]
        assert record.v == BODY_TYPES[kind].v


def test_a_probe_without_a_handler_reads_as_one_whose_handler_is_not_known() -> None:
    """The whole body of the first old line, as of today."""
    first = next(read_recording(OLD / "prober.ProbeExecuted.v1.ledger.jsonl"))
    assert first.body == ProbeExecuted(
        namespace="shop",
        pod="checkout-7c9f",
        pod_uid="0b6f7c1e-5d0a-4a6c-9d2f-3f6f1f0a9b11",
        container="app",
        container_id="4f" * 32,
        probe_type="liveness",
        result="success",
        output="ok",
        handler=None,
    )


def test_an_eviction_of_which_only_the_resource_was_kept() -> None:
    """What the old version did not hold is not known."""
    first = next(read_recording(OLD / "lifecycle.PodEvicted.v1.ledger.jsonl")).body
    assert isinstance(first, PodEvicted)
    assert (first.resource, first.evicted, first.signal, first.rank) == ("memory", True, None, None)


def test_every_version_has_a_way_up() -> None:
    """From 1 to the current one, no step missing, none too many."""
    needed = {(kind, v) for kind, body in BODY_TYPES.items() for v in range(1, body.v)}
    assert set(UPCASTERS) == needed


def test_the_current_version_stays_as_it_is() -> None:
    assert upcast("prober.ProbeExecuted", 2, {"handler": "exec"}) == {"handler": "exec"}


@pytest.mark.parametrize("v", [-1, 0, 3, 99])
def test_versions_that_never_were_are_refused(v: int) -> None:
    with pytest.raises(UpcastError, match=rf"prober.ProbeExecuted v{v} "):
        upcast("prober.ProbeExecuted", v, {})
