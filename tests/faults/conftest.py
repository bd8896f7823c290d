"""A fake server, and stores that ask it."""

import pytest

from kaisched.usage.history import Window
from tests.contract.usage_stores import asking
from tests.faults.fake_prometheus import FakePrometheus


@pytest.fixture
def fake():
    server = FakePrometheus()
    yield server
    server.close()


@pytest.fixture
def opened():
    """Make stores and close them."""
    stores = []

    def make(url, window=None, **changes):
        changes = {"fetch_s": 0.1, "timeout_s": 1.0, **changes}
        store = asking(url, window or Window(), is_awaited=False, **changes)
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()
