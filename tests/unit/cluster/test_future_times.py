"""Starts and evictions in the future count as when they were first seen."""

import pytest

from kaisched.cluster.store import update
from kaisched.objects.labels import LAST_EVICTION, LAST_START, format_time
from kaisched.objects.podgroup import PodGroup
from tests.contract.clusters import group, make, pod, store_of

NOW_S = 1_800_000_000.0
FAR_S = NOW_S + 1e8
IN_G = {"pod-group-name": "g"}


def running(start_s, name="p"):
    """A pod of job g whose node says that it started then."""
    status = {"startTime": format_time(start_s)}
    return pod(name, "a", 1, where="n0", phase="Running", status=status, annotations=IN_G)


def noted(notes, **labels):
    spec = {"queue": "a"}
    return make(PodGroup, "g", annotations=notes, labels=labels, spec=spec)


def seen_at(store, now_s, name="last_start_s"):
    store.find_stuck(now_s, now_s)
    (at,) = store.rows.jobs.row_of_name.values()
    return float(getattr(store.snapshot().jobs, name)[at])


def test_a_start_in_the_future_counts_as_when_it_was_first_seen():
    store = store_of(group("g", "a"), running(FAR_S))
    assert seen_at(store, NOW_S) == NOW_S
    assert seen_at(store, NOW_S + 600) == NOW_S, "it ages from then on"


def test_news_of_the_pod_do_not_make_it_young_again():
    store = store_of(group("g", "a"), running(FAR_S))
    assert seen_at(store, NOW_S) == NOW_S
    update(store, noted({}, x="y"))
    update(store, running(FAR_S))
    assert seen_at(store, NOW_S + 600) == NOW_S


def test_another_start_in_the_future_is_another_start():
    store = store_of(group("g", "a"), running(FAR_S))
    assert seen_at(store, NOW_S) == NOW_S
    update(store, pod("p", "a", 1, phase="Failed", where="n0", annotations=IN_G))
    update(store, running(FAR_S + 60, "q"))
    assert seen_at(store, NOW_S + 600) == NOW_S + 600


def test_once_our_clock_is_right_again_a_start_counts_as_it_is():
    store = store_of(group("g", "a"), running(NOW_S))
    assert seen_at(store, NOW_S - 86_400) == NOW_S - 86_400
    assert seen_at(store, NOW_S + 1) == NOW_S


def test_a_start_in_the_past_stays():
    store = store_of(group("g", "a"), running(NOW_S - 60))
    assert seen_at(store, NOW_S) == NOW_S - 60


@pytest.mark.parametrize(
    ("note", "name"), [(LAST_START, "last_start_s"), (LAST_EVICTION, "last_evicted_s")]
)
def test_what_a_pod_group_says_of_the_future_counts_as_now_too(note, name):
    notes = {note: format_time(FAR_S)}
    store = store_of(noted(notes))
    assert seen_at(store, NOW_S, name) == NOW_S
    update(store, noted(notes, x="y"))
    assert seen_at(store, NOW_S + 600, name) == NOW_S
