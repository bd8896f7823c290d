"""A daemon at work while hundreds of connections drip at its ports: row I128, in seconds.

The same with thousands, for five minutes: ``python -m tests.benchmarks http``.
"""

import pytest

from tests.benchmarks.http import dripping


@pytest.mark.fault("I128")
@pytest.mark.slow  # some seconds of dripping, so that connections are dropped and come back
def test_probes_answer_and_cycles_go_on_while_connections_drip():
    detail = dripping(1, seconds=7, calm=2, connections=250, nodes=20, pods=300).detail
    before, during = detail["phases"]["before"], detail["phases"]["during"]
    # The middle one: on a busy machine, one of a hundred says how busy it is.
    assert during["probe_median_s"] < 0.2
    assert during["probes"] > 20
    assert during["threads"] <= before["threads"]
    assert during["descriptors"] <= before["descriptors"] + 2
    assert during["cycles"] > 5
    # They were dropped after five seconds and came again, which is a line in the log for many.
    assert detail["came"] > 2 * 250 + 100
    assert 1 <= detail["log_lines"] <= 6
