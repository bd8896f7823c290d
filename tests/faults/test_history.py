"""Faults of history itself, whichever the store; by row of the catalogue of faults."""

import numpy as np
import pytest

from kaisched.core.usage import PARTS, UsageState
from kaisched.objects.labels import time_of
from kaisched.objects.usage import parse_cron
from kaisched.usage.feed import believed
from kaisched.usage.history import MemoryStore, Sample, Window
from tests.unit.usage.samples import HOUR, RESOURCES, fill, sample, units_of


@pytest.mark.fault("C57")
@pytest.mark.parametrize(
    ("midnight", "hours"), [("2025-03-30T00:00+01:00", 23), ("2025-10-26T00:00+02:00", 25)]
)
def test_c57_a_day_is_as_long_as_it_is(midnight, hours):
    """Used for its first hour only; the day after begins with nothing."""
    begin = time_of(midnight)
    store = MemoryStore(Window("cron", cron=parse_cron("CRON_TZ=Europe/Berlin 0 0 * * *")))
    end = begin + hours * HOUR
    for at in range(-60, hours * 60):
        store.record(sample(begin + 60 * at, a=10 if at < 60 else 0))
    assert units_of(store.usage(end, ["a"], RESOURCES)) == pytest.approx(PARTS / hours, abs=1)
    assert units_of(store.usage(end + 60, ["a"], RESOURCES)) == 0


@pytest.mark.fault("C57")
def test_c57_the_first_window_and_one_that_is_yet_to_begin():
    window = Window("tumbling", HOUR, anchor_s=HOUR)
    store = fill(MemoryStore(window), [sample(60 * at, a=10) for at in range(60)])
    early = store.usage(HOUR - 1, ["a"], RESOURCES)
    assert (units_of(early), early.coverage) == (0, 1.0)
    fill(store, [sample(HOUR + 60 * at, a=5) for at in range(60)])
    assert units_of(store.usage(2 * HOUR - 1, ["a"], RESOURCES)) == PARTS // 2
    assert units_of(store.usage(2 * HOUR, ["a"], RESOURCES)) == 0


@pytest.mark.fault("C46")
def test_c46_with_most_samples_gone_nothing_is_decided_by_history():
    """Evictions need evidence: of what is less than half known, the plain weights stand."""
    store = MemoryStore(Window())
    fill(store, [sample(600 * at, a=10) for at in range(40)])
    usage = store.usage(24_000.0, ["a"], RESOURCES)
    assert units_of(usage) == PARTS
    assert usage.coverage == pytest.approx(0.5, abs=0.01)
    fill(store, [sample(36_000 + 1200 * at, a=10) for at in range(20)])
    thin = believed(store.usage(60_000.0, ["a"], RESOURCES))
    assert thin.coverage < 0.5
    assert units_of(thin) == 0
    assert "history is not used" in thin.reasons[-1]


@pytest.mark.fault("C42")
def test_c42_a_sample_that_is_nonsense_does_not_reach_a_decision():
    """In process, too: more used than ever was there makes the resource unbelievable."""
    store = MemoryStore(Window())
    used, none = np.array([[5000], [9]]), np.array([0, 3])
    for at in range(3):
        store.record(Sample(60.0 * at, ("gpu", "fpga"), ("a",), used, none))
    usage = store.usage(120.0, ["a"], ["gpu", "fpga"])
    assert usage.parts.tolist() == [[0], [0]]
    assert usage.state == UsageState.PARTIAL
    assert usage.reasons == (
        "gpu: used, but its capacity is 0",
        "fpga: queue a used 3 times the capacity; do both count in the same unit?",
    )


@pytest.mark.fault("C55")
def test_c55_history_goes_by_name():
    """A queue that is renamed begins with nothing; one of its old name inherits."""
    store = MemoryStore(Window())
    fill(store, [sample(60 * at, old=10) for at in range(60)])
    fill(store, [sample(HOUR + 60 * at, new=10) for at in range(61)])
    usage = store.usage(2 * HOUR, ["old", "new"], RESOURCES)
    assert [units_of(usage, 0), units_of(usage, 1)] == [PARTS // 2, PARTS // 2]
    fill(store, [sample(2 * HOUR + 60 * at, old=0, new=0) for at in range(1, 61)])
    assert units_of(store.usage(3 * HOUR, ["old"], RESOURCES)) == pytest.approx(PARTS / 3, rel=0.01)
