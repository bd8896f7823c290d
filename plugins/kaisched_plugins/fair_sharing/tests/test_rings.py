"""No set of jobs is evicted and started again for ever, without the host's rule against rings."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.tables import Sharing
from kaisched.testing import ClusterBuilder, draw
from kaisched_plugins.fair_sharing.tests.rings import MOST, SHARD, some_contended, until_rest

THREE = """
    queue top   deserved=3
    queue a     parent=top deserved=1
    queue b     parent=top weight=2
    node  n0    | b1 b1 b1 b1
    job   a1    priority=90 tasks=4
    job   a2
"""
"""a2 reclaims the quota from b1, a1 takes its place, b1 has a lower share than a1: a ring."""


def holders(store):
    snapshot = store.snapshot()
    running = (snapshot.jobs.active > 0).nonzero()[0].tolist()
    return {snapshot.jobs.name[job] for job in running}


def test_a_claim_gives_way_to_a_third_queue_that_would_take_the_place():
    store = draw(THREE).builder().store()
    results = until_rest(store)
    assert len(results) < MOST
    assert holders(store) == {"default/a2"}
    (record,) = [each for each in results[-1].records if each.pod_group == "default/a1"]
    assert "a waiting job of another queue would come before it" in record.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("job   a1    priority=90 tasks=4", "job   a1    priority=90 tasks=3"),  # b1 fits beside
        ("node  n0    | b1 b1 b1 b1", "node  n0    | a2 . . .\n    job b1 tasks=5"),  # nowhere
        ("weight=2", "weight=1"),  # b1 comes after a1
    ],
)
def test_without_one_a_more_important_job_takes_the_place(before, after):
    text = THREE.replace(before, after)
    if "tasks=3" in after:
        text = text.replace("b1 b1 b1 b1", "b1 . . .")
    store = draw(text).builder().store()
    until_rest(store)
    assert "default/a1" in holders(store)


def test_what_is_within_its_quota_is_taken_whatever_starts_beside_it():
    """a1 may have 3; that a2 starts again in what b1 leaves does not make it give way."""
    store = (
        draw("""
        queue top
        queue a     parent=top deserved=3
        queue b     parent=top deserved=3
        node  n0    | a2 a2 b1 b1 b1 b1
        job   a2    tasks=2 priority=40
        job   b1    tasks=4
        job   a1    tasks=3
        """)
        .builder()
        .store()
    )
    assert len(until_rest(store)) < MOST
    assert holders(store) == {"default/a1", "default/a2"}


@pytest.mark.parametrize(
    ("quota", "is_new", "asked", "gone"),
    [
        (4, False, 3, {"b2"}),
        (4, True, 4, set()),  # b1 is within the quota, and does not go for the share b2 gives b
        (0, True, 4, {"b1"}),  # its share is too high without b2 also
    ],
)
def test_nobody_goes_in_place_of_what_has_just_been_started(quota, is_new, asked, gone):
    ran = (
        ClusterBuilder()
        .node("n0", gpu=7)
        .queue("top", deserved=7 - quota)
        .queue("a", parent="top", sharing=Sharing(weight=Fraction(3)))
        .queue("b", parent="top", deserved=quota)
        .job("b1", queue="b", tasks=4, priority=60, running={"n0": 4})
        .job("b2", queue="b", tasks=2, running=None if is_new else {"n0": 2})
        .job("a1", queue="a", tasks=asked)
        .run(shard=SHARD)
    )
    assert {pod.split("-")[0] for pod in ran.evicted} == gone


@pytest.mark.parametrize("seed", [457, 1846, 1965, 5519, 10199])
def test_a_ring_found_by_search_ends(seed):
    """What they needed: see the module ``rings``."""
    assert len(until_rest(some_contended(seed).store())) < MOST


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_a_contended_cluster_comes_to_rest(seed):
    assert len(until_rest(some_contended(seed).store())) < MOST
