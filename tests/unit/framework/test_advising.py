"""Advice: what is tried, what is said of it, and what the trials may cost."""

from dataclasses import replace
from time import process_time

import pytest

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import GPU
from kaisched.engine.policy import default_policy
from kaisched.framework.advice import standing
from kaisched.framework.advice.advice import Advice, Change, Kind, sentence_of
from kaisched.framework.advice.search import Adviser
from kaisched.framework.advice.trials import CHANGED
from tests.laws.crowded import make_crowded
from tests.unit.framework.fakes import cycle, job, policy, session, store


def advised(made, of="a", **named):
    records = Adviser(cycle(made.snapshot(), default_policy()), **named).records()
    return next(it for it in records if it.pod_group == f"default/{of}")


def test_a_limit_in_the_way_is_advised_and_not_the_quota_above_it():
    queues = (QueueRow("q", quota={"gpu": 50_000}, limit={"gpu": 2000}),)
    found = advised(store(job("a", gpu=4), nodes=(8,), queues=queues))
    assert found.reason == "OverLimit"
    assert found.advice == (Advice(Kind.LIMIT, (Change("q", "gpu", 4000),), helps=True),)
    assert found.message.endswith("; would help: a limit of gpu 4 for queue q")


def test_what_is_not_enough_by_itself_is_tried_with_what_is_lacking_then():
    queues = (QueueRow("q", limit={"gpu": 2000}),)
    found = advised(store(job("a", gpu=16), nodes=(8,), queues=queues))
    alone, both = found.advice
    assert (alone.kind, alone.helps) == (Kind.LIMIT, False)
    assert (both.kind, both.helps) == (Kind.SEVERAL, True)
    assert found.message.endswith(
        "; would help: a limit of gpu 16 for queue q together with"
        " 1 more node like n0 but with gpu 16"
    )


def test_without_a_budget_nothing_is_advised():
    found = advised(store(job("a", gpu=9), nodes=(8,)), budget=0)
    assert (found.reason, found.advice) == ("ExceedsAnyNode", ())


def test_records_with_advice_keep_to_their_budget():
    made = make_crowded(3, nodes=30, queues=6, running=100, pending=150, most=3)
    result = cycle(made.store().snapshot(), default_policy())
    rows = result.records.rows.tolist()[:100]
    began_s = process_time()
    adviser = Adviser(result)
    found = [adviser.record(row) for row in rows]
    assert len(found) == 100
    # Half a second, times what checking each cycle costs, and that a busy machine is slower.
    assert process_time() - began_s < 5.0
    assert any(it.advice for it in found)


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        (
            Kind.QUOTA,
            (Change("a", "gpu", 2500), Change("b", "gpu", 3000)),
            "a quota of gpu 2.5 for queue a and a quota of gpu 3 for queue b",
        ),
        (Kind.NODES, (Change("n", amount=2),), "2 more nodes like n"),
        (
            Kind.NODES,
            (Change("n", amount=1), Change("n", "gpu", 16_000)),
            "1 more node like n but with gpu 16",
        ),
        (Kind.MINIMUM, (Change("t/a", amount=3),), "a minimum of 3"),
        (Kind.END, (Change("t/b"),), "the end of t/b"),
        (Kind.TIME, (Change("t/a", amount=30),), "30 s of waiting"),
        (Kind.PREEMPTIBLE, (Change("t/a"),), "being preemptible"),
    ],
)
def test_a_change_is_named(kind, changes, said):
    assert sentence_of([Advice(kind, changes, helps=True)]) == f"would help: {said}"


def test_nothing_tried_says_nothing():
    assert sentence_of([]) == ""


@pytest.mark.fault("E84")
@pytest.mark.parametrize(
    ("queues", "said"),
    [
        ((QueueRow("qx"), QueueRow("other")), "queue q does not exist; known: other, qx"),
        ((QueueRow("Q"),), 'queue q does not exist; did you mean "Q"?'),
        ((QueueRow("q", "up"),), "queue q has the parent up, which does not exist"),
        (
            (QueueRow("q", "m"), QueueRow("m", "up")),
            "queue q is below m, which has the parent up, which does not exist",
        ),
        (
            (QueueRow("q", "m"), QueueRow("m", "q")),
            "queue q is in a cycle of queues: q below m below q",
        ),
        (
            (QueueRow("q", "m"), QueueRow("m", "m")),
            "queue q is below a cycle of queues: m below itself",
        ),
        (
            (QueueRow("q", "m0"), *(QueueRow(f"m{at}", f"m{(at + 1) % 30}") for at in range(30))),
            "queue q is below 20 queues or more that lead to no root",
        ),
        (
            (QueueRow("q"), QueueRow("x", "q")),
            "queue q has queues below it, which take the jobs: x",
        ),
    ],
)
def test_what_is_wrong_with_a_queue_is_named(queues, said):
    assert advised(store(job("a"), queues=queues)).message == said


def test_mig_instances_of_a_tried_node_count_in_what_is_divided():
    made = store(job("a", gpu=1), nodes=(8,))
    made.put_node(NodeRow("mig", {"cpu": 64_000, "pods": 110, "nvidia.com/mig-2g.20gb": 3}))
    snapshot = made.snapshot()
    tried = CHANGED[Kind.NODES](snapshot, 0, (Change("mig", amount=2),))
    assert (tried.total - snapshot.total)[GPU] == 2 * 3 * 285


@pytest.mark.parametrize(
    ("has_tenants", "queue", "said"),
    [
        (True, "b", "the end of a job of queue b"),
        (True, "a", "the end of default/y"),
        (False, "b", "the end of default/y"),
    ],
)
def test_among_tenants_a_job_of_another_queue_is_not_named(has_tenants, queue, said):
    made = store(job("x", "a"), job("y", queue), queues=(QueueRow("a"), QueueRow("b")))
    rules = replace(policy(), has_tenants=has_tenants)
    opened = session(made.snapshot(), rules=rules)
    row = opened.jobs.name.index("default/x")
    end = Advice(Kind.END, (Change("default/y"),), helps=True)
    assert standing._words_for(opened, row, end) == said
