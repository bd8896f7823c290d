"""Makers of usage stores that have seen the same samples."""

import pytest

from kaisched.clock import SystemClock
from kaisched.objects.usage import UsageConfig
from kaisched.usage.history import MemoryStore
from kaisched.usage.prometheus.store import PrometheusStore
from kaisched.usage.settings import PrometheusSettings, UsageSettings, read_usage
from kaisched.usage.sqlite import SqliteStore
from tests.contract.prometheus import Prometheus, needs_prometheus, past_of
from tests.waiting import until


def asked_of(url, **changes):
    settings = read_usage(UsageConfig(client_type="prometheus", connection_string=url), "s")
    fields = {name: getattr(settings.prometheus, name) for name in settings.prometheus.__slots__}
    return PrometheusSettings(**{**fields, **changes})


def asking(url, window, *, is_awaited=True, **changes):
    """A store that asks a server, and has its first answer if that is to be awaited."""
    names = ("staleness_s", "fetch_s", "is_frozen_when_stale")
    own = {name: changes.pop(name) for name in names if name in changes}
    settings = UsageSettings("prometheus", window, **own)
    store = PrometheusStore(settings, asked_of(url, **changes), SystemClock())
    if is_awaited:
        until(store.is_ready)
    return store


class Memory:
    tolerance = 0.0005

    def __init__(self, folder):
        self.stores = []

    def store(self, samples, window):
        return self._filled(MemoryStore(window), samples)

    def _filled(self, store, samples):
        self.stores.append(store)
        for each in samples:
            store.record(each)
        return store

    def close(self):
        for store in self.stores:
            store.close()


class Sqlite(Memory):
    def __init__(self, folder):
        super().__init__(folder)
        self.folder = folder

    def store(self, samples, window):
        """Half of the samples before a restart, half of them after it."""
        path, middle = self.folder / f"usage-{len(self.stores)}.db", len(samples) // 2
        first = self._filled(SqliteStore(path, window, samples[0].time_s), samples[:middle])
        first.close()
        again = SqliteStore(path, window, samples[middle - 1].time_s)
        # The last sample before the restart holds on: nothing was missed in between.
        return self._filled(again, samples[middle - 1 :])


class Served(Memory):
    tolerance = 0.005

    def __init__(self, folder):
        super().__init__(folder)
        self.server = Prometheus(folder / "prometheus")
        self.seen = None

    def store(self, samples, window):
        """The server starts with the first store; others ask it for the same samples."""
        if self.seen is None:
            self.server.backfill(past_of(samples))
            self.server.start()
            self.seen = samples
        assert samples is self.seen
        store = asking(self.server.url, window)
        self.stores.append(store)
        return store

    def close(self):
        super().close()
        self.server.kill()


MAKERS = [
    pytest.param(Memory, id="memory"),
    pytest.param(Sqlite, id="sqlite"),
    pytest.param(Served, id="prometheus", marks=[pytest.mark.real, needs_prometheus]),
]
