"""Metrics of shared GPUs: one series for each, and how many nothing holds."""

from prometheus_client import generate_latest

from kaisched.telemetry.metrics import CycleCollector, registry_of
from kaisched.telemetry.published import Published
from tests.unit.cluster.test_sharing import reservation, store, user

__all__ = ["store"]


def scraped(snapshot):
    collector = CycleCollector()
    collector.publish(Published(nodes=None if snapshot is None else snapshot.nodes))
    lines = generate_latest(registry_of(collector)).decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if "_gpu" in line and line[0] != "#")


def test_each_shared_gpu_has_a_series(store):
    user(store, "a")
    reservation(store)
    reservation(store, "r2", group="y", gpu="GPU-2")
    user(store, "b", group="z", gpu="GPU-3", node="n9")
    lines = scraped(store.snapshot())
    assert lines["kaisched_shared_gpus"] == "2.0"
    assert lines['kaisched_shared_gpu_used_ratio{card="0",node="n0"}'] == "0.5"
    assert lines['kaisched_shared_gpu_used_ratio{card="1",node="n0"}'] == "0.0"
    assert lines["kaisched_unheld_gpus"] == "0.0"


def test_a_gpu_that_nothing_holds_is_counted(store):
    user(store, "a")
    assert scraped(store.snapshot())["kaisched_unheld_gpus"] == "1.0"


def test_there_is_nothing_to_say_before_the_first_cycle():
    lines = scraped(None)
    assert lines["kaisched_shared_gpus"] == lines["kaisched_unheld_gpus"] == "0.0"
