"""Endless jobs that need all GPUs share time by weight, whatever their size and length (R36)."""

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.timelines.story_one import K_VALUES, SHAPES, SIZES, WEEK_HOURS, Case

HISTORIES = (
    *((), (), (("halfLifePeriod", "10m"),), (("halfLifePeriod", "1h"),)),
    *((("windowSize", "1h"),), (("windowSize", "8h"),), (("halfLifePeriod", "1d"),)),
)
"""The default, and others that may be far shorter than jobs, which need a ``k`` of at most 1."""
LENGTHS = st.sampled_from((1.0, 2.0, 5.0, 12.0, 24.0))


@st.composite
def cases(draw):
    """Two to five queues, with jobs of one length or each of its own, for three weeks."""
    count = draw(st.sampled_from((2, 3, 5)))
    weights = tuple(draw(st.lists(st.integers(1, 5), min_size=count, max_size=count)))
    each = tuple(draw(st.lists(LENGTHS, min_size=count, max_size=count)))
    hours = draw(st.just(each) | st.just(each[:1] * count))
    history = draw(st.sampled_from(HISTORIES))
    strengths = [k for k in K_VALUES if k <= 1 or not history]
    gpus, k, shape = (draw(st.sampled_from(values)) for values in (SIZES, strengths, SHAPES))
    return Case(gpus, k, weights, shape, hours, weeks=3, history=history)


@settings(max_examples=1)
@given(cases())
def test_jobs_of_the_whole_cluster_share_time_by_weight(case):
    """Queues are within a job of their weights from the beginning on.

    Between any two later moments they are, too; three queues or more within a job and a half, since
    at each of the two they may be most of a job off.
    """
    told, longest = case.run(), max(case.durations)
    event("with evictions" if told.evictions else "without evictions")
    assert np.abs(told.behind(case.weights)).max() <= longest + 1e-6
    later = told.behind(case.weights, since=WEEK_HOURS)
    most = 1.0 if len(case.weights) == 2 else 1.5
    assert np.ptp(later, axis=1).max() <= most * longest + 1e-6
