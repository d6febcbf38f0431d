"""Yardsticks of the ledger, as ratios measured in one run on one machine.

    python tests/benchmarks/bench_ledger.py [RECORDS]

Append: durable batches of 1,000 against plain ``write`` + ``fsync`` of the same bytes.
Decode: lines into records against bare msgspec decode of the same lines into the same
types. Read: the same from disk, with the CRC or the whole chain proved.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.wire.codec import decode_line

BATCH = 1000
REPEATS = 3


def drafts(count: int) -> list[Draft]:
    """Facts of three kinds, each with a log line of usual length as evidence."""
    bodies: list[Body] = [
        ProbeExecuted(
            namespace="shop",
            pod="checkout-7c9f",
            pod_uid="0b6f7c1e-5d0a-4a6c-9d2f-3f6f1f0a9b11",
            container="app",
            container_id="4f" * 32,
            probe_type="liveness",
            result="success",
            output="ok",
            handler="exec",
        ),
        ImageDeleted(image_id="sha256:" + "1d" * 32, size_bytes=24_301_000),
        DevicesAllocated(
            namespace="shop",
            pod="training-0",
            pod_uid="77b3f1f0-3c5a-4c51-8f9f-1f0e0a9b1c2d",
            container="gpu",
            resource="example.com/gpu",
            device_ids=("gpu-0", "gpu-1"),
            numa={"0": ("gpu-0", "gpu-1")},
        ),
    ]
    text = "I1121 02:53:10.500000    1200 file.go:125] " + "the message of a usual line " * 4
    return [
        Draft(
            1_795_229_590_000_000_000 + index * 1_000_000,
            bodies[index % len(bodies)],
            (Evidence(file="kubelet.log", line=index + 1, offset=index * 160, text=text),),
        )
        for index in range(count)
    ]


def seconds(work: Callable[[], object]) -> float:
    """Time of one run of ``work``."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best(work: Callable[[], object]) -> float:
    """Least time of some runs of ``work``."""
    return min(seconds(work) for _ in range(REPEATS))


def exhaust(items: Iterable[object]) -> None:
    """Consume, keep nothing."""
    for _ in items:
        pass


def plain_write(path: Path, batches: list[bytes]) -> None:
    """The yardstick of append: the same bytes, one write and one fsync a batch."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for data in batches:
        os.write(descriptor, data)
        os.fsync(descriptor)
    os.close(descriptor)


def append_one_by_one(path: Path, batches: list[list[Draft]]) -> None:
    """Each batch encoded, written and synced before the next one is looked at."""
    with Ledger.create(path).writer() as writer:
        for batch in batches:
            writer.append("node", batch)


def append_overlapped(path: Path, batches: list[list[Draft]]) -> None:
    """The next batch is encoded while one is synced."""
    with Ledger.create(path).writer() as writer:
        exhaust(writer.append_batches("node", batches))


def bare_decoders() -> dict[str, msgspec.json.Decoder[Any]]:
    """Kind -> decoder of the whole line into a record with that body's type."""
    return {
        body.kind: msgspec.json.Decoder(
            msgspec.defstruct(
                "Line",
                [("body", body), ("chain", str), ("crc", str)],
                bases=(Record,),
                kw_only=True,
                frozen=True,
                forbid_unknown_fields=True,
            )
        )
        for body in (ProbeExecuted, ImageDeleted, DevicesAllocated)
    }


def bench_append(directory: Path, facts: list[Draft]) -> Ledger:
    """Print the ratios of append; returns a ledger with all records."""
    batches = [facts[start : start + BATCH] for start in range(0, len(facts), BATCH)]
    append_overlapped(directory / "first", batches)
    ledger = Ledger.open(directory / "first")
    lines = [raw.line for raw in ledger.raw_lines("node")]
    data = [b"".join(lines[start : start + BATCH]) for start in range(0, len(lines), BATCH)]
    plain = overlapped = single = float("inf")
    for run in range(REPEATS):  # in turns: the disk's mood changes
        plain = min(plain, seconds(lambda: plain_write(directory / f"plain{run}", data)))  # noqa: B023 - called at once
        path = directory / f"overlapped{run}"
        overlapped = min(overlapped, seconds(lambda: append_overlapped(path, batches)))  # noqa: B023 - called at once
        path = directory / f"single{run}"
        single = min(single, seconds(lambda: append_one_by_one(path, batches)))  # noqa: B023 - called at once
    report("append_batches", overlapped, "write + fsync", plain, len(facts))
    report("append", single, "write + fsync", plain, len(facts))
    return ledger


def bench_decode(ledger: Ledger) -> None:
    """Print the ratios of decoding and reading."""
    lines = [raw.line for raw in ledger.raw_lines("node")]
    decoders = bare_decoders()
    kinds = [decode_line(line).kind for line in lines]
    pairs = [(decoders[kind].decode, line) for kind, line in zip(kinds, lines, strict=True)]
    bare = best(lambda: exhaust(decode(line) for decode, line in pairs))
    decoded = best(lambda: exhaust(decode_line(line) for line in lines))
    report("decode_line", decoded, "bare msgspec", bare, len(lines))
    crc = best(lambda: exhaust(ledger.records("node", verify="crc")))
    report("records, CRC proved", crc, "bare msgspec", bare, len(lines))
    chain = best(lambda: exhaust(ledger.records("node")))
    report("records, chain proved", chain, "bare msgspec", bare, len(lines))


def report(name: str, spent: float, against: str, yardstick: float, count: int) -> None:
    print(
        f"{name:<24}{spent / count * 1e6:7.2f} us a record, "
        f"{spent / yardstick:5.2f} x {against} ({yardstick / count * 1e6:.2f} us)"
    )


def main(arguments: list[str]) -> int:
    """Run all; the number of records may be given."""
    count = int(arguments[0]) if arguments else 60_000
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        ledger = bench_append(Path(directory), drafts(count))
        bench_decode(ledger)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
