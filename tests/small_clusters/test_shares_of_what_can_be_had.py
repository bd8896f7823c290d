"""Queues share what their pods could have, and demand that cannot be met entitles to nothing."""

from collections import Counter

import pytest

from kaisched.engine.linting import lint
from kaisched.engine.planning import plan, read_plan_input
from kaisched.framework.advice.advice import Change, Kind
from kaisched.framework.advice.search import Adviser
from tests.small_clusters.test_plans import HERE, planned

pytestmark = pytest.mark.proportion


def moves(name):
    """Return how many pods of each queue are evicted and bound, over all cycles."""
    cycles = planned(f"{name}.yaml", 3).cycles
    evicted = Counter(it.pod.split("/")[1][0] for cycle in cycles for it in cycle.evictions)
    bound = Counter(it.pod.split("/")[1][0] for cycle in cycles for it in cycle.binds)
    return dict(evicted), dict(bound)


@pytest.mark.parametrize(
    ("name", "each"), [("cordoned-node", 4), ("tainted-node", 2), ("deleted-queue", 2)]
)
def test_half_of_what_can_be_had_is_taken_back(name, each):
    assert moves(f"share-{name}") == ({"a": each}, {"b": each})


def test_demand_that_no_node_can_take_entitles_to_nothing_and_is_told():
    name = "share-demand-that-no-node-can-take"
    assert moves(name) == ({"r": 4}, {"s": 4})
    share = next(it for it in planned(f"{name}.yaml").cycles[0].shares if it.name == "junk")
    assert (share.fair_share["gpu"], share.requested["gpu"]) == (0, 0)
    assert share.unschedulable == (
        {"gpu": 32_000},
        "NoNodeAllowed",
        (
            "gpu 32 that its jobs ask for counts for no share: 4 NoNodeAllowed, such as"
            " Pod default/j0; they could not start if nothing else ran"
        ),
    )


def test_the_quota_that_would_free_gpus_from_work_without_gpus_is_named(tmp_path):
    file = HERE / "cpu-only-work.yaml"
    (record,) = Adviser(planned(file.name).cycles[0]).records()
    advice = [it for it in record.advice if it.kind is Kind.QUOTA]
    assert [(it.changes, it.helps) for it in advice] == [((Change("a", "cpu", 0),), True)]
    (finding,) = lint([str(file)])
    assert (finding.rule, finding.is_error) == ("unbounded", False)
    assert "Queue a): spec.resources.cpu.quota: deserves cpu without bound" in str(finding.error)
    # With that line in the file the job starts, one pod goes, and nothing is left to warn of.
    text = file.read_text(encoding="utf-8").replace(
        "spec: {}", "spec: {resources: {cpu: {quota: 0}}}"
    )
    (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
    assert lint([str(tmp_path / "f.yaml")]) == []
    cycles = plan(read_plan_input([str(tmp_path / "f.yaml")]), 2).cycles
    assert [it.pod for it in cycles[0].evictions] == ["default/c3"]
    assert [it.pod for it in cycles[1].binds] == ["default/g"]


@pytest.mark.parametrize(
    ("cpu", "advised", "told"),
    [("", ["d2"], ["d2", "a"]), (", resources: {cpu: {quota: 0}}", ["d2"], ["d2"])],
)
def test_the_quota_of_cpu_may_be_that_of_a_department(tmp_path, cpu, advised, told):
    """The queue's own line is no help as long as the department above it deserves all CPU."""
    text = (HERE / "cpu-only-work.yaml").read_text(encoding="utf-8")
    head = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: %s}\nspec: %s\n---\n"
    old = "spec: {}"
    assert text.count(old) == 1
    text = text.replace(old, f"spec: {{parentQueue: d2{cpu}}}")
    (tmp_path / "f.yaml").write_text(head % ("d2", "{}") + text, encoding="utf-8")
    (record,) = Adviser(plan(read_plan_input([str(tmp_path / "f.yaml")]), 1).cycles[0]).records()
    advice = [it for it in record.advice if it.kind is Kind.QUOTA and it.helps]
    assert [(change.on, change.amount) for it in advice for change in it.changes] == [
        (name, 0) for name in advised
    ]
    assert [it.error.name for it in lint([str(tmp_path / "f.yaml")])] == told
    flat = "kind: SchedulingShard\napiVersion: kai.scheduler/v1\nmetadata: {name: default}\n"
    flat += "spec: {fairness: projects}\n---\n"
    (tmp_path / "f.yaml").write_text(flat + head % ("d2", "{}") + text, encoding="utf-8")
    assert [it.error.name for it in lint([str(tmp_path / "f.yaml")])] == [
        name for name in told if name != "d2"
    ]


def over_pools(name, rounds):
    return plan(read_plan_input([str(HERE / f"{name}.yaml")], is_one=False), rounds)


@pytest.mark.parametrize("name", ["counts-where-it-runs", "beside-a-pool-for-others"])
def test_a_running_job_without_a_label_counts_in_the_pool_of_its_node(name):
    cycles = over_pools(f"share-unlabelled-job-{name}", 1).cycles
    assert not any(len(cycle.records) for cycle in cycles)
    shares = [share for cycle in cycles for share in cycle.shares]
    assert {it.name: it.allocated["gpu"] for it in shares if it.allocated["gpu"]} == {"v-a": 2000}


def test_pods_of_a_group_that_calls_them_independent_go_to_several_pools():
    cycles = over_pools("workload-independent-pods-of-a-pod-group", 20).cycles
    nodes = Counter(bind.node for cycle in cycles for bind in cycle.binds)
    assert nodes == {"a0": 4, "h0": 2}
