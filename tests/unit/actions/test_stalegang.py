"""Gangs that run below their minimum: who counts as one, since when, and what becomes of it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kaisched.actions.allocate import Allocate
from kaisched.actions.consolidate import Consolidate
from kaisched.actions.preempt import Preempt
from kaisched.actions.stalegang import StaleGangs
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.testing.builder import Group, Job, Task
from tests.unit.framework.fakes import store

R, L, P = TaskState.RUNNING, TaskState.RELEASING, TaskState.PENDING
NOW_S = 1000.0


def gang(name="g", states=(R,), minimum=2, podsets=(), **more):
    """A job with a pod of 1 GPU in each state."""
    tasks = tuple(
        Task(
            f"{name}-{at}",
            {"gpu": 1000},
            state=state,
            node="" if state in (P, TaskState.GATED) else "n0",
            podset=podsets[at] if podsets else "default",
        )
        for at, state in enumerate(states)
    )
    root = minimum if isinstance(minimum, Group) else Group("default", minimum)
    return Job(name, "q", tasks, root=root, started_s=0.0, **more)


def tree(x, y, needed=None):
    return Group("", needed, (Group("x", x), Group("y", y)))


STALE_ONLY = (StaleGangs(),)


def run(made, *, memory=None, now_s=NOW_S, grace_s=60.0, actions=STALE_ONLY):
    rules = replace(default_policy(), actions=tuple(actions), staleness_grace_s=grace_s)
    snapshot = made.snapshot()
    result, after = run_cycle(snapshot, None, rules, now_s, memory or Memory())
    assert not violations(snapshot, result, rules)
    assert not result.failures
    return result, after


def evicted(result):
    return [move.pod.partition("/")[2] for move in result.evictions]


def stamps(memory):
    return memory.facts["stalegang"]


def test_a_whole_gang_is_not_stale():
    result, after = run(store(gang(states=(R, R)), gang("w", states=(P, P))))
    assert (evicted(result), stamps(after)) == ([], {})


def test_the_first_sight_is_remembered_and_the_grace_decides():
    made = store(gang())
    result, memory = run(made)
    assert (evicted(result), stamps(memory)) == ([], {"default/g": NOW_S})
    result, memory = run(made, memory=memory, now_s=NOW_S + 59.5)
    assert (evicted(result), stamps(memory)) == ([], {"default/g": NOW_S})
    result, memory = run(made, memory=memory, now_s=NOW_S + 60)
    (move,) = result.evictions
    assert (move.pod, move.action, move.beneficiary) == ("default/g-0", "stalegang", "")
    assert move.reason == "only 1 of the 2 pods needed run, for 1m; the grace period is 1m"


def test_the_stamp_goes_when_the_gang_recovers():
    _, memory = run(store(gang()))
    _, memory = run(store(gang(states=(R, R))), memory=memory)
    assert stamps(memory) == {}
    _, memory = run(store(gang(stale_since_s=3.0)), memory=memory, now_s=NOW_S + 9)
    assert stamps(memory) == {"default/g": NOW_S + 9}, "what the object says is of the other time"


def test_facts_survive_json():
    _, memory = run(store(gang()))
    assert json.loads(json.dumps(memory.facts)) == memory.facts


def test_after_a_restart_the_object_s_word_counts():
    made = store(gang(stale_since_s=NOW_S - 61))
    result, memory = run(made)
    assert (evicted(result), stamps(memory)) == (["g-0"], {"default/g": NOW_S - 61})


def test_a_time_in_the_future_counts_from_now():
    _, memory = run(store(gang(stale_since_s=NOW_S + 500)))
    assert stamps(memory) == {"default/g": NOW_S}


@pytest.mark.parametrize(
    ("own", "shards", "is_evicted"),
    [
        (float("nan"), 0.0, True),
        (float("nan"), -1.0, False),
        (-1.0, 0.0, False),
        (0.0, 3600.0, True),
        (7.0, 0.0, False),
    ],
)
def test_a_job_may_say_its_own_grace_and_negative_is_for_ever(own, shards, is_evicted):
    result, _ = run(store(gang(staleness_grace_s=own)), grace_s=shards)
    assert bool(evicted(result)) == is_evicted


def test_non_preemptible_gangs_are_evicted_too():
    assert evicted(run(store(gang(is_preemptible=False)), grace_s=0)[0]) == ["g-0"]


@pytest.mark.fault("I125")
@pytest.mark.parametrize(("minimum", "is_stale"), [(1, False), (2, True)])
def test_what_succeeded_is_not_missed_but_what_is_left_to_do_is(minimum, is_stale):
    """The minimum is what is still to run: the store has taken off what succeeded."""
    result, memory = run(store(gang(minimum=minimum, succeeded=2)), grace_s=0)
    assert (evicted(result), list(stamps(memory))) == (
        (["g-0"], ["default/g"]) if is_stale else ([], [])
    )


BOTH = (Allocate(), StaleGangs())


@pytest.mark.fault("I125")
def test_a_promise_spares_a_gang_for_a_while_and_not_for_ever():
    """The victims may hang: what is promised again and again must not keep the gang's room."""
    made = store(gang(states=(R, P)), gang("o", states=(L, L, L)), nodes=(4,))
    result, memory = run(made, actions=BOTH)
    assert len(result.nominate_tasks) == 1
    for later_s in (60, 79):
        result, memory = run(made, memory=memory, now_s=NOW_S + later_s, actions=BOTH)
        assert (evicted(result), stamps(memory)) == ([], {})
    result, _ = run(made, memory=memory, now_s=NOW_S + 80, actions=BOTH)
    assert evicted(result) == ["g-0"]


def test_pods_being_released_still_count():
    result, memory = run(store(gang(states=(R, L))), grace_s=0)
    assert (evicted(result), stamps(memory)) == ([], {})


def test_a_gang_that_is_leaving_altogether_is_not_stale():
    assert stamps(run(store(gang(states=(L, L), minimum=3)), grace_s=0)[1]) == {}


def test_all_that_is_left_goes_but_not_what_waits():
    result, _ = run(store(gang(states=(R, P, R, L), minimum=4)), grace_s=0)
    assert evicted(result) == ["g-0", "g-2"]


def test_a_subgroup_below_its_minimum_takes_the_whole_job_with_it():
    made = store(gang(states=(R, R, P), minimum=tree(2, 1), podsets="xxy"))
    (move, _) = run(made, grace_s=0)[0].evictions
    assert move.reason == (
        "only 0 of the 1 pods needed run in subgroup y, for 0s; the grace period is 0s"
    )


def test_a_subgroup_that_may_be_left_behind_is_not_missed():
    made = store(gang(states=(R, R, P), minimum=tree(2, 0), podsets="xxy"))
    assert stamps(run(made, grace_s=0)[1]) == {}


def test_where_one_of_two_subgroups_is_enough_the_other_is_not_missed():
    """It was started so: to evict it for that would be to start and evict it for ever."""
    made = store(gang(states=(R, R, P), minimum=tree(2, 1, needed=1), podsets="xxy"))
    assert stamps(run(made, grace_s=0)[1]) == {}


def test_the_subgroup_that_lacks_least_is_named():
    made = store(gang(states=(R, R, R), minimum=tree(3, 3, needed=1), podsets="xyy"))
    move = run(made, grace_s=0)[0].evictions[0]
    assert "only 2 of the 3 pods needed run in subgroup y," in move.reason


def test_a_gang_that_starts_in_this_cycle_is_not_stale():
    made = store(gang(states=(P, P)))
    result, memory = run(made, grace_s=0, actions=(Allocate(), StaleGangs()))
    assert (len(result.binds), evicted(result), stamps(memory)) == (2, [], {})


def test_a_gang_whose_missing_pod_starts_in_this_cycle_has_recovered():
    made = store(gang(states=(R, P)))
    _, memory = run(made)
    result, memory = run(made, memory=memory, grace_s=0, actions=(Allocate(), StaleGangs()))
    assert (len(result.binds), evicted(result), stamps(memory)) == (1, [], {})


@pytest.mark.fault("I125")
@pytest.mark.parametrize("state", [TaskState.BINDING, P])
def test_a_bind_that_fails_does_not_start_the_grace_anew(state):
    """It spares the gang while it is under way; that it was tried does not make the gang whole."""
    both = (Allocate(), StaleGangs())
    _, memory = run(store(gang(states=(R, P))))
    trying = store(gang(states=(R, state)))
    for later_s in (30, 61):
        result, memory = run(trying, memory=memory, now_s=NOW_S + later_s, actions=both)
        assert (evicted(result), stamps(memory)) == ([], {})
    failed = store(gang(states=(R, TaskState.GATED)))
    result, memory = run(failed, memory=memory, now_s=NOW_S + 62, actions=both)
    assert (evicted(result), stamps(memory)) == (["g-0"], {"default/g": NOW_S})


@pytest.mark.fault("I125")
def test_a_gang_that_is_whole_for_sure_has_its_grace_anew():
    _, memory = run(store(gang(states=(R, P))))
    for state in (TaskState.BINDING, TaskState.BOUND):
        made = store(gang(states=(R, state)))
        _, memory = run(made, memory=memory, now_s=NOW_S + 30)
    result, memory = run(store(gang(states=(R, P))), memory=memory, now_s=NOW_S + 61)
    assert (evicted(result), stamps(memory)) == ([], {"default/g": NOW_S + 61})


def test_a_gang_whose_missing_pod_finds_no_room_is_evicted():
    made = store(gang(states=(R, P)), gang("o", states=(R, R, R)), nodes=(4,))
    result, _ = run(made, grace_s=0, actions=(Allocate(), StaleGangs()))
    assert (len(result.binds), evicted(result)) == (0, ["g-0"])


def test_a_gang_of_which_a_pod_is_moved_ends_one_cycle_later():
    """What is moved goes anyway; to end the rest in the same plan would make the move pointless."""
    g = gang(states=(R, R), minimum=tree(1, 1), podsets="xx")
    g = replace(g, tasks=(g.tasks[0], replace(g.tasks[1], node="n1")))
    whole_node = Job("w", "q", (Task("w-0", {"gpu": 4000}),))
    both = (Consolidate(), StaleGangs())
    result, memory = run(store(g, whole_node, nodes=(4, 4)), grace_s=0, actions=both)
    ((action, pod),) = [(each.action, each.pod) for each in result.evictions]
    assert (action, list(stamps(memory))) == ("consolidate", ["default/g"])
    leaving = [replace(it, state=L) if f"default/{it.name}" == pod else it for it in g.tasks]
    made = store(replace(g, tasks=leaving), whole_node, nodes=(4, 4))
    result, _ = run(made, memory=memory, grace_s=0)
    assert len(result.evictions) == 1


def test_a_gang_for_which_others_were_just_evicted_ends_one_cycle_later():
    low = Job("low", "q", (Task("low-0", {"gpu": 1000}, state=R, node="n0"),), priority=10)
    made = store(gang(states=(R, P), priority=90), low, nodes=(2,))
    memory = Memory({"stalegang": {"default/g": NOW_S - 100}})
    result, memory = run(made, memory=memory, actions=(Preempt(), StaleGangs()))
    assert evicted(result) == ["low-0"]
    result, _ = run(store(gang(states=(R, P)), nodes=(1,)), memory=memory)
    assert evicted(result) == ["g-0"]


def test_a_pod_on_a_node_that_is_gone_is_left_alone():
    made = store(gang(states=(R, R), minimum=3), nodes=(4, 4))
    made.snapshot()
    made.remove_node("n0")
    assert evicted(run(made, grace_s=0)[0]) == []


def test_an_abandoned_cycle_keeps_the_stamps():
    memory = Memory({"stalegang": {"default/g": 7.0}})
    _, after = run(store(gang()), memory=memory)
    assert stamps(after) == {"default/g": 7.0}
    assert np.isfinite(stamps(after)["default/g"])


def test_a_job_that_waits_had_no_room_before_a_gang_was_ended_as_stale():
    """Of n0 a GPU is idle, one is released, and both are promised; the gang leaves a third."""
    large = Job("large", "q", (Task("large-0", {"gpu": 2000}),), root=Group("default", 1))
    made = store(
        gang("leaves", (L,), minimum=1), gang(), large, gang("waits", (P,), minimum=1), nodes=(3,)
    )
    actions = (Allocate(), StaleGangs())
    rules = replace(default_policy(), actions=actions, staleness_grace_s=0.0)
    snapshot = made.snapshot()
    result, _ = run_cycle(snapshot, None, rules, NOW_S, Memory())
    assert (evicted(result), result.nominate_tasks.size) == (["g-0"], 1)
    assert {it.pod_group: it.reason for it in result.records}["default/waits"] == "NoRoom"
    assert violations(snapshot, result, rules, with_records=True) == []


def test_a_gang_that_must_go_is_no_part_of_the_plan_of_another_job():
    """A plan goes as a whole: one that the server refuses would hold the gang for ever."""
    other = Job("other", "q", (Task("other-0", {"gpu": 1000}, state=R, node="n0"),), priority=5)
    high = Job("high", "q", (Task("high-0", {"gpu": 1000}),), priority=90)
    memory = Memory({"stalegang": {"default/g": NOW_S - 100}})
    made = store(replace(gang(), priority=10), other, high, nodes=(2,))
    result, _ = run(made, memory=memory, actions=default_policy().actions)
    ((pod, action, beneficiary),) = [(it.pod, it.action, it.beneficiary) for it in result.evictions]
    assert (pod, action, beneficiary) == ("default/g-0", "stalegang", ""), "nor does another pod go"


@pytest.mark.parametrize("states", [(L,), (R, L), (L, L), (L, P)])
def test_time_goes_on_while_a_plan_for_another_job_holds_the_gang(states):
    """A plan that is dropped later takes nobody: the gang has been stale all the time."""
    _, memory = run(store(gang(minimum=3, states=(R, R))))
    _, memory = run(store(gang(minimum=3, states=states)), memory=memory, now_s=NOW_S + 30)
    result, _ = run(store(gang(minimum=3, states=(R, R))), memory=memory, now_s=NOW_S + 60)
    assert evicted(result) == ["g-0", "g-1"]


def test_a_gang_that_has_left_has_its_grace_anew():
    _, memory = run(store(gang(minimum=3, states=(R, R))))
    for states in ((L, L), (P, P, P)):
        _, memory = run(store(gang(minimum=3, states=states)), memory=memory, now_s=NOW_S + 30)
    assert not memory.facts.get("stalegang.hopes")
    result, memory = run(store(gang(minimum=3, states=(R, R))), memory=memory, now_s=NOW_S + 90)
    assert (evicted(result), stamps(memory)) == ([], {"default/g": NOW_S + 90})
