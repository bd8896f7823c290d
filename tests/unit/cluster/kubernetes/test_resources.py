"""The kinds that are watched."""

import pytest

from kaisched.cluster.kubernetes.resources import ALL, KUEUE


@pytest.mark.parametrize("watched", [*ALL, *KUEUE], ids=lambda it: it.qualified)
def test_what_is_gone_has_a_stub(watched):
    """Of an object that is gone only the name may be known."""
    stub = watched.stub("ns", "x", "uid-x")
    assert (stub.metadata.name, stub.metadata.uid) == ("x", "uid-x")
