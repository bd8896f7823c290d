"""Disruption budgets as the store keeps them: who is selected, and what is allowed as it stands."""

import dataclasses

import pytest
from msgspec.structs import replace

from kaisched.cluster.disruptions import selects
from kaisched.cluster.state import Kept, restored
from kaisched.cluster.store import StateStore, update
from kaisched.core.tables import NO_DISRUPTION_BUDGETS, SEVERAL, UNPROTECTED
from kaisched.engine.planning import PlanInput, planned_cluster
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import next_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.load import load_text
from kaisched.objects.pod import LabelSelector, PodDisruptionBudget, SelectorRequirement
from kaisched.objects.shard import SchedulingShard, ShardSpec
from kaisched.objects.wire import ObjectMeta
from tests.cycling import objects_of

WORLD = """
apiVersion: v1
kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: a}
spec: {}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  {name: %(name)s, namespace: team, uid: u-%(name)s,
   labels: {kai.scheduler/queue: a, app: %(app)s}}
spec:
  schedulerName: kaisched
  nodeName: n0
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
status: {phase: %(phase)s, conditions: %(conditions)s}
---
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %(name)s, namespace: %(namespace)s, generation: 3}
spec: {selector: {matchLabels: {app: %(app)s}}, unhealthyPodEvictionPolicy: "%(policy)s"}
status:
  {disruptionsAllowed: %(allowed)d, currentHealthy: %(healthy)d, desiredHealthy: 2,
   observedGeneration: %(observed)d, disruptedPods: %(disrupted)s}
---
"""


def pods(*names, app="web", phase="Running", conditions="[]"):
    said = {"app": app, "phase": phase, "conditions": conditions}
    return "".join(POD % {"name": name, **said} for name in names)


def budget(name="b", allowed=1, **said):
    fields = {
        "namespace": "team",
        "app": "web",
        "policy": "",
        "healthy": 2,
        "observed": 3,
        "disrupted": "{}",
    }
    return BUDGET % {"name": name, "allowed": allowed, **fields, **said}


def store_of(*texts):
    store = StateStore()
    for obj in objects_of(WORLD, *texts):
        update(store, obj)
    return store


def told(store, *texts):
    for obj in objects_of(*texts):
        update(store, obj)


def charged(store):
    """Pod to the name of the budget it counts against, or what stands for none or several."""
    snapshot = store.snapshot()
    budgets = snapshot.disruption_budgets
    words = {SEVERAL: "several", UNPROTECTED: ""}
    return {
        name.partition("/")[2]: words.get(row) if row < 0 else budgets.name[row]
        for name, row in zip(snapshot.tasks.name, budgets.of_task.tolist(), strict=True)
    }


def allowed(store):
    budgets = store.snapshot().disruption_budgets
    return dict(zip(budgets.name, budgets.allowed.tolist(), strict=True))


def test_without_budgets_nothing_is_looked_up():
    assert store_of(pods("p0")).snapshot().disruption_budgets is NO_DISRUPTION_BUDGETS


def test_a_budget_protects_the_pods_of_its_namespace_that_it_selects():
    other = budget("other", namespace="elsewhere")
    store = store_of(pods("p0"), pods("q0", app="db"), budget(), other)
    assert charged(store) == {"p0": "team/b", "q0": ""}
    assert allowed(store) == {"elsewhere/other": 1, "team/b": 1}


@pytest.mark.fault("E93")
def test_an_empty_selector_selects_every_pod_and_none_selects_none():
    assert selects(LabelSelector(), {"app": "web"})
    assert not selects(None, {"app": "web"})


@pytest.mark.parametrize(
    ("key", "operator", "values", "fits"),
    [
        ("app", "In", ["web", "db"], True),
        ("app", "In", ["db"], False),
        ("app", "NotIn", ["db"], True),
        ("tier", "NotIn", ["db"], True),
        ("app", "Exists", [], True),
        ("tier", "Exists", [], False),
        ("tier", "DoesNotExist", [], True),
        ("app", "DoesNotExist", [], False),
        ("app", "In", [], False),
        ("app", "Exists", ["web"], False),
        ("app", "Gt", ["1"], False),
        ("", "DoesNotExist", [], False),
    ],
)
def test_expressions_fit_as_in_kubernetes_and_senseless_ones_fit_nothing(
    key, operator, values, fits
):
    one = SelectorRequirement(key=key, operator=operator, values=values)
    assert selects(LabelSelector(match_expressions=[one]), {"app": "web"}) == fits


def test_labels_and_expressions_must_all_hold():
    one = SelectorRequirement(key="tier", operator="Exists")
    selector = LabelSelector(match_labels={"app": "web"}, match_expressions=[one])
    assert selects(selector, {"app": "web", "tier": "1"})
    assert not selects(selector, {"app": "web"})
    assert not selects(selector, {"app": "db", "tier": "1"})


def test_a_status_that_lags_behind_the_spec_allows_nothing():
    assert allowed(store_of(pods("p0"), budget(allowed=5, observed=2))) == {"team/b": 0}


def test_a_negative_number_and_too_many_disrupted_pods_allow_nothing():
    assert allowed(store_of(budget(allowed=-1))) == {"team/b": 0}
    (obj,) = objects_of(budget(allowed=5))
    crowd = {f"gone-{at}": "2026-07-01T12:00:00Z" for at in range(2001)}
    store = store_of()
    update(store, replace(obj, status=replace(obj.status, disrupted_pods=crowd)))
    assert allowed(store) == {"team/b": 0}


def test_a_pod_of_two_budgets_is_never_evicted():
    assert charged(store_of(pods("p0"), budget(), budget("c"))) == {"p0": "several"}


def test_pods_that_do_not_run_or_leave_count_against_no_budget():
    leaving = pods("p1").replace(
        "uid: u-p1,", 'uid: u-p1, deletionTimestamp: "2026-07-01T12:00:00Z",'
    )
    store = store_of(pods("p0", phase="Pending"), leaving, pods("p2"), budget())
    assert charged(store) == {"p0": "", "p1": "", "p2": "team/b"}


UNREADY = '[{type: Ready, status: "False"}]'


@pytest.mark.parametrize(
    ("said", "charge"),
    [
        ({"healthy": 2}, ""),
        ({"healthy": 1}, "team/b"),
        ({"healthy": 0, "policy": "AlwaysAllow"}, ""),
        ({"healthy": 0, "policy": "AlwaysAllow", "observed": 1}, ""),
    ],
)
def test_a_pod_that_is_not_ready_counts_unless_enough_are_healthy_or_the_policy_says_so(
    said, charge
):
    store = store_of(pods("p0", conditions=UNREADY), pods("p1"), budget(**said))
    assert charged(store) == {"p0": charge, "p1": "team/b"}


def test_a_pod_that_gets_ready_counts_from_then_on():
    store = store_of(pods("p0", conditions=UNREADY), budget())
    assert charged(store) == {"p0": ""}
    told(store, pods("p0", conditions='[{type: Ready, status: "True"}]'))
    assert charged(store) == {"p0": "team/b"}


def test_a_budget_that_changes_or_goes_takes_effect_at_once():
    store = store_of(pods("p0"), budget())
    told(store, budget(app="db"))
    assert charged(store) == {"p0": ""}
    told(store, budget(allowed=3))
    assert (charged(store), allowed(store)) == ({"p0": "team/b"}, {"team/b": 3})
    (obj,) = objects_of(budget())
    update(store, obj, is_gone=True)
    assert store.snapshot().disruption_budgets is NO_DISRUPTION_BUDGETS


def test_a_pod_that_comes_later_is_selected_too():
    store = store_of(pods("p0"), budget())
    assert charged(store) == {"p0": "team/b"}
    told(store, pods("q0", app="db"), pods("p1"))
    assert charged(store) == {"p0": "team/b", "q0": "", "p1": "team/b"}


def test_the_same_status_again_is_no_news():
    store = store_of(pods("p0"), budget())
    before = store.snapshot()
    told(store, budget())
    assert store.snapshot() is before


# -- evictions under way ---------------------------------------------------------------------------


def test_an_eviction_that_was_sent_counts_until_the_budget_shows_it():
    store = store_of(pods("p0", "p1", "p2"), budget(allowed=2))
    store.assume_evicted("team/p0")
    assert allowed(store) == {"team/b": 1}
    told(store, budget(allowed=1, disrupted='{p0: "2026-07-01T12:00:00Z"}'))
    assert allowed(store) == {"team/b": 1}


def test_it_still_counts_when_the_pod_is_seen_to_leave_before_the_budget_is_heard_of():
    store = store_of(pods("p0", "p1"), budget(allowed=1))
    store.assume_evicted("team/p0")
    leaving = pods("p0").replace(
        "uid: u-p0,", 'uid: u-p0, deletionTimestamp: "2026-07-01T12:00:00Z",'
    )
    told(store, leaving)
    assert allowed(store) == {"team/b": 0}
    told(store, budget(allowed=0, healthy=1))
    told(store, budget(allowed=1, healthy=2))
    assert allowed(store) == {"team/b": 1}


def test_it_counts_no_longer_when_it_was_not_done_or_the_pod_is_gone():
    store = store_of(pods("p0", "p1"), budget(allowed=2))
    store.assume_evicted("team/p0")
    store.assume_evicted("team/p1")
    assert allowed(store) == {"team/b": 0}
    store.refute("team/p0")
    assert allowed(store) == {"team/b": 1}
    store.remove_pod("team/p1")
    assert allowed(store) == {"team/b": 2}


def test_news_of_a_budget_that_does_not_name_the_pod_yet_changes_nothing():
    store = store_of(pods("p0", "p1"), budget(allowed=1))
    store.assume_evicted("team/p0")
    told(store, budget(allowed=1, healthy=3))
    assert allowed(store) == {"team/b": 0}


def test_what_is_written_down_makes_the_same_store():
    store, kept = StateStore(), Kept()
    for obj in objects_of(WORLD, pods("p0", "p1", "p2"), budget(allowed=2)):
        update(store, obj)
        kept.put(obj)
    store.assume_evicted("team/p0")
    leaving = pods("p1").replace(
        "uid: u-p1,", 'uid: u-p1, deletionTimestamp: "2026-07-01T12:00:00Z",'
    )
    store.assume_evicted("team/p1")
    for obj in objects_of(leaving):
        update(store, obj)
        kept.put(obj)
    state = kept.state_of(store)
    assert state.disrupted == ("team/p0", "team/p1")
    again = restored(
        load_text(b"\n".join(state.objects), "kept.json").objects,
        state,
        ["kaisched"],
        "",
        ["nvidia.com/gpu"],
    )
    assert (charged(again), allowed(again)) == (charged(store), allowed(store))
    assert allowed(again) == {"team/b": 0}


# -- files -----------------------------------------------------------------------------------------


def test_a_file_is_told_what_a_budget_without_status_or_with_a_bad_selector_means():
    text = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: team}
spec: {selector: {matchExpressions: [{key: app, operator: Like, values: [x]}]}}
"""
    loaded = load_text(text)
    assert [type(obj) for obj in loaded.objects] == [PodDisruptionBudget]
    assert [warning.path for warning in loaded.warnings] == [
        "spec.selector.matchExpressions[0]",
        "status.disruptionsAllowed",
    ]


def test_a_plan_keeps_to_budgets_and_counts_evictions_until_the_pods_are_gone():
    """The budget lets one of the two go that queue b has a right to; its status is as given."""
    queues = "".join(
        f"""
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}}}
spec: {{resources: {{gpu: {{quota: {quota}}}}}}}
---"""
        for name, quota in (("a", 6), ("b", 2))
    )
    node = WORLD.split("---", maxsplit=1)[0] + "---"
    takers = "".join(
        pods(name, app="other", phase="Pending")
        .replace("queue: a", "queue: b")
        .replace("  nodeName: n0\n", "")
        for name in ("w0", "w1")
    )
    loaded = load_text(node + queues + pods(*(f"p{at}" for at in range(8))) + takers + budget())
    assert loaded.problems == []
    shard = SchedulingShard(metadata=ObjectMeta(name="s"), spec=ShardSpec())
    policy = dataclasses.replace(default_policy(), disruption_budgets="always")
    cluster, problems = planned_cluster(PlanInput(loaded, shard, policy, []))
    assert problems == []
    evicted, told, memory = [], [], Memory()
    for pause_s in (1.0, 9.0, 0.0):
        cycle = next_cycle(cluster, cluster, policy, None, cluster.clock, memory)
        memory = cycle.memory
        evicted.append(len(cycle.result.evictions))
        (record,) = [it for it in cycle.result.records if "w1" in it.pod_group]
        told.append("disruption budget" in record.message)
        cluster.advance_to(cluster.clock.now_s() + pause_s)
    assert (evicted, told) == ([1, 0, 1], [True, True, False])
