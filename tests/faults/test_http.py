"""A daemon at work while hundreds of connections drip at its ports: row I128, in seconds.

The same with thousands, for five minutes: ``python -m tests.benchmarks http``.
"""

import pytest

from tests.benchmarks.http import dripping


@pytest.mark.fault("I128")
@pytest.mark.slow  # a process that starts, and some seconds of dripping
def test_probes_answer_and_cycles_go_on_while_connections_drip():
    detail = dripping(1, seconds=3, calm=1, connections=250, nodes=20, pods=300).detail
    before, during = detail["phases"]["before"], detail["phases"]["during"]
    # The middle one: on a busy machine, one of a hundred says how busy it is. And a process that
    # nobody attacks says how long one waits for a processor.
    assert during["probe_median_s"] < 0.2 + 3 * during["control_median_s"]
    assert during["probes"] > 5
    assert during["threads"] <= before["threads"]
    assert during["descriptors"] <= before["descriptors"] + 2
    assert during["cycles"] > 1
    assert detail["came"] >= 2 * 250
