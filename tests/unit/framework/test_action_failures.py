"""An action that fails costs the job it fails on; a bug must not keep the others waiting."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from kaisched.actions.allocate import Allocate
from kaisched.actions.stalegang import StaleGangs
from kaisched.actions.whole_jobs import Drain
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.core.tables import DRAINED
from kaisched.engine.policy import default_policy
from kaisched.framework import cycle as cycles
from kaisched.framework.containment import MOST
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.session.ledger import Ledger
from kaisched.framework.session.outcome import Outcome
from kaisched.framework.session.statement import Statement
from kaisched.testing.builder import Group, Job, Task
from tests.amounts import amounts_of
from tests.unit.cluster.claims.worlds import World
from tests.unit.framework.fakes import job, placed, plugin, store, with_default

unchecked = cycles.run_cycle.__wrapped__  # in the others, an action that fails is a violation


def run(snapshot, rules=None, memory=None, now_s=1e6):
    rules = rules or default_policy()
    result, after = unchecked(snapshot, None, rules, now_s, memory or Memory())
    broken = violations(snapshot, result, rules, with_records=True)
    assert [each for each in broken if not each.startswith("I24")] == []
    actions = {action.name for action in rules.actions}
    assert len(broken) == sum(each.plugin in actions for each in result.failures)
    return result, after


@contextmanager
def failing(snapshot, on, *, within=Ledger, method="place_pending"):
    """Fail in the midst of whatever moves a pod of these jobs, with half of it done."""
    mine = tuple(f"default/{name}-" for name in on)
    right, pods = getattr(within, method), snapshot.tasks.name

    def wrong(self, tasks, *rest):
        right(self, tasks, *rest)
        if any(pods[task].startswith(mine) for task in np.atleast_1d(tasks).tolist()):
            raise ZeroDivisionError("by nobody")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(within, method, wrong)
        yield


def reasons(result):
    return {record.pod_group: record.reason for record in result.records}


def test_of_many_placed_at_once_all_but_the_one_are_placed():
    made = store(*(job(name, gpu=1) for name in "abcdef"), nodes=(64,)).snapshot()
    with failing(made, "c"):
        result, _ = run(made)
    assert sorted(placed(result)) == ["a-0", "b-0", "d-0", "e-0", "f-0"]
    assert reasons(result) == {"default/c": "ActionFailed"}
    together, alone = result.failures  # at first nobody can tell which of the six it was
    assert (together.plugin, together.question) == ("allocate", "run")
    assert together.error.startswith("ZeroDivisionError: by nobody (in failing.")
    assert "default/" not in together.error
    assert alone.error.endswith("on default/c)")


def test_what_is_out_of_order_takes_no_room():
    """Its pods were put on a node before it failed; the ledger has forgotten that."""
    made = store(job("a", gpu=4), job("b", gpu=4), nodes=(4,)).snapshot()
    with failing(made, "a"):
        result, _ = run(made)
    assert placed(result) == {"b-0": "n0"}


def test_it_is_tried_again_in_the_next_cycle():
    made = store(*(job(name, gpu=1) for name in "ab"), job("c", gpu=5), nodes=(4,)).snapshot()
    with failing(made, "a"):
        _, memory = run(made)
    result, _ = run(made, memory=memory)
    fresh, _ = run(made)
    assert sorted(placed(result)) == ["a-0", "b-0"]
    assert result.encode() == fresh.encode()


def test_a_gang_of_unlike_pods_that_fails_halfway_leaves_nothing():
    tasks = (Task("g-0", {"gpu": 1000}), Task("g-1", {"gpu": 2000}))
    gang = Job("g", "q", tasks, root=Group("default", 2))
    made = store(gang, job("z", gpu=4), nodes=(4,)).snapshot()
    with failing(made, "g"):
        result, _ = run(made)
    assert placed(result) == {"z-0": "n0"}
    assert reasons(result) == {"default/g": "ActionFailed"}


def taken():
    """Queue o holds all; a, b and c may each take a node's worth of it back."""
    runs = [
        Task(f"o{at}-0", {"gpu": 4000}, state=TaskState.RUNNING, node=f"n{at}") for at in range(3)
    ]
    return store(
        *(Job(task.name[:-2], "o", (task,), root=Group("default", 1)) for task in runs),
        *(job(name, name, gpu=4) for name in "abc"),
        nodes=(4, 4, 4),
        queues=(
            QueueRow("o", quota={"gpu": 0}),
            *(QueueRow(name, quota={"gpu": 4000}) for name in "abc"),
        ),
    ).snapshot()


@pytest.mark.parametrize("name", "abc")
def test_a_claim_that_fails_evicts_nobody_and_the_others_are_met(name):
    made = taken()
    with failing(made, name, within=Statement, method="pipeline"):
        result, memory = run(made)
    others = sorted(set("abc") - {name})
    assert sorted(each.pod_group for each in result.nominations) == [f"default/{x}" for x in others]
    assert [each.beneficiary for each in result.evictions] == [f"default/{x}" for x in others]
    assert [step.beneficiary for step in result.steps] == [f"default/{x}" for x in others]
    assert reasons(result)[f"default/{name}"] == "ActionFailed"
    assert len(memory.facts["turns"]) >= len(others)


def test_a_commit_that_fails_halfway_is_taken_back():
    right = Outcome.end_step

    def wrong(self, action, beneficiary, start):
        right(self, action, beneficiary, start)
        if beneficiary == "default/b":
            raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outcome, "end_step", wrong)
        result, _ = run(taken())
    assert [each.beneficiary for each in result.evictions] == ["default/a", "default/c"]
    assert [step.evictions for step in result.steps] == [(0, 1), (1, 2)]
    assert len(result.nominations) == 2


def promised_world():
    """Both have a promise on a node that is free by now; x would like to have it too."""
    made = store(
        job("a", gpu=4, priority=50),
        job("b", gpu=4, priority=50),
        job("x", gpu=4, priority=90),
        nodes=(4, 4),
    )
    made.settle()
    for name, node in (("a", 0), ("b", 1)):
        row = made.jobs.row_of_name[f"default/{name}"]
        made.nominate(made.jobs.tasks.data[row][0], node)
    return made.snapshot()


def test_promises_to_others_are_kept():
    made = promised_world()
    with failing(made, "a", within=Statement, method="_change"):
        result, _ = run(made)
    assert len(result.failures) == 1
    assert placed(result) == {"b-0": "n1", "x-0": "n0"}


def test_what_moves_tell_plugins_they_are_told_anew():
    """A plugin that counts pods by node has seen each that was committed once, and no others."""
    seen = {}

    def opened(**_):
        seen.clear()

    def moved(task, node, sign, **_):
        for move in zip(task.tolist(), node.tolist(), strict=True):
            seen[move] = seen.get(move, 0) + sign

    rules = with_default(plugin(session_open=opened, on_moves=moved))
    made = store(job("a", gpu=3), job("b", gpu=2), job("c", gpu=1)).snapshot()
    with failing(made, "b"):
        result, _ = run(made, rules)
    bound = set(zip(result.bind_tasks.tolist(), result.bind_nodes.tolist(), strict=True))
    assert {move for move, times in seen.items() if times} == bound
    assert set(seen.values()) == {1}
    assert len(bound) == 2


class Broken:
    """An action that fails before it looks at anybody."""

    name = "broken"

    def run(self, session):
        raise KeyError(session.now_s)


def test_an_action_that_fails_on_nobody_is_left_out():
    rules = replace(default_policy(), actions=(Broken(), Allocate(), Broken()))
    result, _ = run(store(job("a")).snapshot(), rules)
    assert placed(result) == {"a-0": "n0"}
    assert [each.plugin for each in result.failures] == ["broken", "broken"]


def test_an_action_that_fails_on_everyone_ends():
    names = [f"j{at:02}" for at in range(MOST + 5)]
    sizes = np.arange(len(names)) % 4 + 1  # neighbours differ, so that each is placed by itself
    jobs = (job(name, gpu=int(size)) for name, size in zip(names, sizes, strict=True))
    made = store(*jobs, nodes=(64,)).snapshot()
    with failing(made, names):
        result, _ = run(made)
    assert len(result.failures) == MOST
    assert len(result.binds) == 0
    assert sorted(reasons(result).values()) == ["ActionFailed"] * MOST + ["NotTried"] * 5


def test_the_moves_of_earlier_actions_stand():
    rules = replace(default_policy(), actions=(Allocate(), Broken()))
    made = store(job("a", gpu=2), job("b", pods=2, minimum=2), nodes=(4,)).snapshot()
    plain, _ = run(made, replace(default_policy(), actions=(Allocate(),)))
    result, _ = run(made, rules)
    assert list(result.binds) == list(plain.binds)


def test_the_ledger_is_made_again_as_it_was():
    """To the bit: what was bound, promised, evicted and moved."""
    kept = []

    class Look:
        name = "look"

        def run(self, session):
            kept.append(amounts_of(session))
            if len(kept) == 1:
                raise ZeroDivisionError

    node = NodeRow("extra", {"cpu": 64000, "gpu": 8000, "pods": 110})
    made = store(
        *(
            Job(f"r{at}", "q", (task,), root=Group("default", 1))
            for at, task in enumerate(
                Task(f"r{at}-0", {"gpu": 1000}, state=TaskState.RUNNING, node=f"n{at}")
                for at in range(4)
            )
        ),
        job("whole", gpu=4),
        job("small", gpu=1),
        job("claims", "claims", gpu=8),
        job("o", "o", gpu=7),
        nodes=(4, 4, 4, 4),
        queues=(QueueRow("q"), QueueRow("o", quota={"gpu": 0}), QueueRow("claims")),
        extra_nodes=(node,),
    )
    rules = replace(default_policy(), actions=(*default_policy().actions, Look(), Look()))
    result, _ = run(made.snapshot(), rules)
    assert len(result.binds)
    assert len(result.evictions)
    assert len(result.nominations)
    first, second = kept
    for name, array in first.items():
        assert (array == second[name]).all(), name


@pytest.mark.parametrize("action", [StaleGangs(), Drain()])
def test_evictions_without_a_claim_go_on_too(action):
    def half(name, node):
        runs = Task(f"{name}-0", {"gpu": 1000}, state=TaskState.RUNNING, node=node)
        return Job(name, "q", (runs, Task(f"{name}-1", {"gpu": 64000})), root=Group("default", 2))

    queue = QueueRow("q", stop=DRAINED) if action.name == "drain" else QueueRow("q")
    made = store(half("a", "n0"), half("b", "n1"), queues=(queue,)).snapshot()
    rules = replace(default_policy(), actions=(action,), staleness_grace_s=0.0)
    with failing(made, "a", within=Statement, method="_change"):
        result, _ = run(made, rules)
    assert [each.pod for each in result.evictions] == ["default/b-0"]


def test_pods_placed_before_a_failure_keep_their_devices():
    world = World(team=3)
    world.node("n1", "H100", "H100", "H100")
    world.template("one")
    world.claim("both")
    world.pod("a", "team", "one")
    world.pod("b", "team", claim="both")
    world.pod("c", "team", claim="both")
    world.pod("d", "team", "one")
    snapshot = world.cluster.snapshot()
    place = Ledger.place_pending

    def wrong(self, tasks, *rest):
        place(self, tasks, *rest)
        if any(snapshot.tasks.name[task] == "team/d" for task in tasks.tolist()):
            raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "place_pending", wrong)
        result, _ = unchecked(snapshot, None, default_policy(), 1e6, Memory())
    given = {bind.pod: [it.key for it in bind.claims] for bind in result.binds}
    assert given == {"team/a": ["team/a-one"], "team/b": ["team/both"], "team/c": []}
