"""One daemon observes what another does with the same pods, and says how far they agree."""

import pytest

from tests.waiting import until

pytestmark = pytest.mark.slow


def test_two_schedulers_of_one_mind_agree(rig):
    rig.queue("a", 16)
    rig.start_kubelet()
    observer = rig.start(kubernetes={"observe": True}).wait_leading()
    (leader,) = observer.daemon.leaders
    for number in range(3):
        rig.gang(f"g{number}", "a", 2)
    waits = leader.comparison
    until(lambda: len(waits._waiting) == 6, what="hearing of all pods")
    # Decided in one cycle, none of them comes first: binds of other jobs may land in any order.
    rig.node("n0")
    until(lambda: len(waits._first_s) == 3, what="the observer's decision")
    rig.start().wait_leading()
    rig.wait_placed(*(f"g{job}-{pod}" for job in range(3) for pod in range(2)))
    until(lambda: waits.total.jobs.total() >= 3, what="the comparison")
    document = waits.document()
    assert sum(document["jobs"].values()) >= 3
    assert document["pods"]["same_node"] == 6
    assert document["agreement"]["order"] == 1.0
    assert leader.collector.published.observed_pods["same_node"] == 6
    compared = [line for line in rig.logs if line["event"] == "job_compared"]
    assert {line["job"].rpartition("/")[2] for line in compared} == {"g0", "g1", "g2"}
    observer.stop()
    (last,) = [line for line in rig.logs if line["event"] == "comparison_ended"]
    assert last["pods"]["same_node"] == 6
