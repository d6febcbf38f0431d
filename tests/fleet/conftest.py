"""Lakes and sources, and a Ray cluster of several nodes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeledger.fleet.sealed import unseal_ledger
from tests.buckets import name_storage
from tests.fleet.places import head_of, task, write_bundle
from tests.recordings import RECORDINGS


@pytest.fixture(scope="session")
def cluster(s3_server: tuple[str, int]) -> Iterator[Any]:
    """A head and two nodes, each a process with its workers, on loopback; they find the bucket."""
    from ray.cluster_utils import Cluster

    with (
        pytest.MonkeyPatch.context() as patch,
        # Paths of sockets are short; what Ray's processes still write does not matter.
        tempfile.TemporaryDirectory(prefix="kl", ignore_cleanup_errors=True) as home,
    ):
        for name in ("HOME", "RAY_TMPDIR"):
            patch.setenv(name, home)
        name_storage(s3_server, patch)
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        small = {"object_store_memory": 80_000_000, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
        try:
            made.add_node(num_cpus=1, object_store_memory=80_000_000)
            made.add_node(num_cpus=1, object_store_memory=80_000_000)
            yield made
        finally:
            made.shutdown()


@pytest.fixture(scope="session")
def recorded_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded node, node-a, and the beginning of another one, node-z."""
    place = tmp_path_factory.mktemp("recorded")
    bundle = write_bundle(place / "node-z", node="node-z", machine="f" * 32)
    for source in (RECORDINGS / "node-a.tar.zst", bundle):
        head_of(task(str(place / "lake"), str(source)))
    return place / "lake"


@pytest.fixture(scope="session")
def recorded_ledger(recorded_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of node-a, as the lake has it."""
    directory = tmp_path_factory.mktemp("recorded") / "ledger"
    unseal_ledger(next(recorded_lake.glob("ledgers/node-a/*")), directory)
    return directory
