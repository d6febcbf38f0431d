import pytest

from tests.simulate.engine.scenes import VERSIONS


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Of a kubelet, each in turn, where a test does not name others."""
    return str(request.param)
