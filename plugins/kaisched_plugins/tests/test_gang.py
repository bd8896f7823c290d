"""Gang: complete or not at all, then one elastic pod at a time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kaisched import Refusal, SubGroup, TaskState
from kaisched.testing import check_plugin
from kaisched_plugins.gang import Gang

PLUGIN = Gang(Gang.Arguments())
INCOMPLETE = int(Refusal.GANG_INCOMPLETE)
P, R, G = int(TaskState.PENDING), int(TaskState.RUNNING), int(TaskState.GATED)


def flat(*jobs, ledger=None):
    """Return a session of jobs with one pod set each: (active, pending, minimum)."""
    active, pending, minimum = np.array(jobs, np.int64).T
    now = (active, pending) if ledger is None else np.array(ledger, np.int64).T
    session: Any = SimpleNamespace(
        jobs=SimpleNamespace(first_podset=np.arange(len(jobs)), structure={}),
        podsets=SimpleNamespace(active=active, pending=pending, minimum=minimum),
        podset_active_now=now[0],
        podset_pending_now=now[1],
    )
    return session


def test_a_job_with_fewer_pods_than_it_needs_is_refused():
    session = flat((0, 3, 4), (0, 4, 4), (2, 2, 4))
    codes = PLUGIN.job_gate(session, "allocate", np.array([0, 1, 2]))
    assert codes is not None
    assert codes.tolist() == [INCOMPLETE, 0, 0]
    assert codes.dtype == np.int16


def test_complete_jobs_need_no_answer():
    assert PLUGIN.job_gate(flat((0, 4, 4)), "allocate", np.array([0])) is None


@pytest.mark.parametrize(
    ("job", "size"),
    [
        pytest.param((0, 4, 4), 4, id="the whole gang"),
        pytest.param((0, 9, 4), 4, id="the gang first, the elastic rest later"),
        pytest.param((3, 2, 4), 1, id="the member that is missing"),
        pytest.param((4, 3, 4), 1, id="one elastic pod"),
        pytest.param((4, 0, 4), 0, id="nothing is waiting"),
        pytest.param((0, 3, 4), 0, id="never a part of a gang"),
        pytest.param((0, 2, 0), 1, id="a minimum of 0 is elastic from the first pod"),
    ],
)
def test_how_many_pods_come_next(job, size):
    assert PLUGIN.batch_size(flat(job), np.array([0])).tolist() == [size]


def test_once_something_moved_the_ledger_counts():
    session = flat((0, 9, 4), ledger=[(4, 5)])
    assert PLUGIN.batch_size(session, np.array([0])).tolist() == [1]


# -- structured jobs ---------------------------------------------------------------------------


def leaf(name, podset):
    return SubGroup(name, podset, 0)


def inner(name, needed, *children):
    return SubGroup(name, -1, needed, children)


class Structured(SimpleNamespace):
    """A session of one job: pod sets as (minimum, states of its pods), and a tree over them."""

    def __init__(self, root, *podsets):
        minimum = [needed for needed, _ in podsets]
        states = [list(pods) for _, pods in podsets]
        state = np.array([state for pods in states for state in pods], np.int8)
        podset = np.repeat(np.arange(len(podsets)), [len(pods) for pods in states])
        count = len(state)
        super().__init__(
            jobs=SimpleNamespace(
                structure={0: root}, first_podset=np.array([0]), tasks=[list(range(count))]
            ),
            podsets=SimpleNamespace(minimum=np.array(minimum)),
            podset_active_now=np.array([pods.count(R) for pods in states]),
            podset_pending_now=np.array([pods.count(P) for pods in states]),
            tasks=SimpleNamespace(
                state=state,
                podset_of_task=podset,
                created_s=np.zeros(count),
                name=[f"pod-{row}" for row in range(count)],
            ),
            state_now=state,
            ask=SimpleNamespace(task_order=lambda session, task: [-task]),  # the later pod first
            subgroup_order=lambda active, minimum: [active / np.maximum(minimum, 1)],
        )


def batch(root, *podsets):
    session: Any = Structured(root, *podsets)
    answer = PLUGIN.next_batch(session, 0)
    assert answer is not None
    return answer.tolist()


TWO = inner("job", 2, leaf("a", 0), leaf("b", 1))


def test_a_flat_job_is_none_of_its_business():
    session: Any = SimpleNamespace(jobs=SimpleNamespace(structure={}))
    assert PLUGIN.next_batch(session, 0) is None


def test_a_gang_of_two_pod_sets_starts_with_what_each_needs_in_task_order():
    assert batch(TWO, (1, [P, P]), (2, [P, P, P])) == [1, 4, 3]


def test_a_pod_set_that_has_its_minimum_adds_nothing():
    assert batch(TWO, (1, [R, P]), (2, [P, R, P])) == [4]


def test_beyond_the_minimum_the_emptier_pod_set_grows_by_one_pod():
    assert batch(TWO, (1, [R, R, P]), (2, [R, R, P])) == [5]


def test_a_pod_set_with_nothing_to_give_leaves_the_turn_to_the_next():
    assert batch(TWO, (1, [R, R, P]), (2, [R, R])) == [2]


def test_gated_pods_do_not_come():
    assert batch(TWO, (1, [P]), (2, [P, G, P])) == [0, 3, 1]


def test_nothing_comes_while_a_needed_pod_set_cannot_be_complete():
    assert batch(TWO, (1, [P]), (2, [P, G])) == []


def test_only_as_many_subgroups_as_needed_start():
    tree = inner("job", 1, leaf("a", 0), leaf("b", 1))
    assert batch(tree, (2, [P, P]), (2, [P, P])) == [1, 0]


def test_a_subgroup_that_cannot_start_is_passed_over():
    tree = inner("job", 1, leaf("a", 0), leaf("b", 1))
    assert batch(tree, (2, [P]), (2, [P, P])) == [2, 1]


def test_growth_by_an_inner_group_is_a_gang_of_it():
    replicas = [inner(f"replica-{i}", 2, leaf("x", 2 * i), leaf("y", 2 * i + 1)) for i in (0, 1)]
    tree = inner("job", 1, *replicas)
    assert batch(tree, (1, [R]), (1, [R]), (1, [P]), (1, [P, P])) == [2, 4]


def test_a_job_that_waits_for_nothing_gets_nothing():
    assert batch(TWO, (1, [R]), (2, [R, R])) == []


@pytest.mark.parametrize(
    ("needed", "podsets", "refused"),
    [
        pytest.param(2, [(1, [P]), (1, [P])], False, id="both can start"),
        pytest.param(2, [(1, [P]), (1, [G])], True, id="a gated pod does not count"),
        pytest.param(1, [(1, [P]), (1, [G])], False, id="one subgroup is enough"),
        pytest.param(2, [(1, [P]), (0, [])], False, id="an optional one may be empty"),
    ],
)
def test_the_gate_follows_the_tree(needed, podsets, refused):
    session: Any = Structured(inner("job", needed, leaf("a", 0), leaf("b", 1)), *podsets)
    codes = PLUGIN.job_gate(session, "allocate", np.array([0]))
    assert (codes is not None and codes.tolist() == [INCOMPLETE]) is refused


def test_equal_subgroups_go_by_name():
    tree = inner("job", 1, leaf("z", 0), leaf("a", 1))
    assert batch(tree, (1, [P]), (1, [P])) == [1]


def test_it_keeps_the_contract_of_plugins():
    check_plugin(Gang)
