"""Laws of the node affinity of queues: it never fails to hold, and is a node affinity of pods."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from kaisched.core.constraints import Constraints, Requirement
from kaisched.core.tables import WORKLOADS
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S, told
from tests.laws.crowded import carried_out, crowded, kinds_of, make_crowded, moves_of

POLICY = default_policy()
KINDS = ("red", "green", "blue")
TRAINING, INTERACTIVE = WORKLOADS.index("training"), WORKLOADS.index("interactive")
seeds = st.integers(0, 1 << 32)

pytestmark = pytest.mark.proportion


def term(operator, *values):
    return ((Requirement("kind", operator, values),), ())


def labelled(cluster, seed):
    """The cluster with a kind for each node."""
    rng = random.Random(seed)
    nodes = [
        replace(node, labels={**node.labels, "kind": rng.choice(KINDS)}) for node in cluster.nodes
    ]
    return replace(cluster, nodes=tuple(nodes))


def ruled(cluster, seed):
    """Let some queues allow some kinds of nodes to all jobs, or to jobs of one type."""
    rng = random.Random(seed)

    def rules():
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            kinds = tuple(sorted(rng.sample(KINDS, rng.choice([1, 2, 2]))))
            for workload in rng.choice([(0, 1, 2), (TRAINING,), (INTERACTIVE,)]):
                yield workload, (term("In", *kinds),)

    queues = [replace(queue, node_affinity=tuple(rules())) for queue in cluster.queues]
    return replace(cluster, queues=tuple(queues))


def allowed(cluster, job):
    """The kinds of nodes that all queues on a job's path allow it."""
    by_name = {queue.name: queue for queue in cluster.queues}
    workload = TRAINING if job.is_preemptible else INTERACTIVE
    kinds, name = set(KINDS), job.queue
    while name:
        queue = by_name[name]
        for which, ((((requirement,), _),)) in queue.node_affinity:
            if which == workload:
                kinds &= set(requirement.values)
        name = queue.parent
    return kinds


def cycles(cluster, count=3, rules=None):
    """Run cycles and carry them out; before each but the first the queues get new rules."""
    memory = Memory()
    for at in range(count):
        if at and rules is not None:
            cluster = ruled(cluster, rules + at)
        snapshot = cluster.store().snapshot()
        result, memory = run_cycle(snapshot, None, POLICY, NOW_S, memory)
        yield cluster, snapshot, result
        cluster = carried_out(cluster, result)


def test_rules_matter_in_these_clusters():
    differ = evicts = 0
    for seed in range(60):
        cluster = labelled(make_crowded(seed), seed)
        (_, _, free), (_, _, bound) = next(cycles(cluster)), next(cycles(ruled(cluster, seed)))
        differ += moves_of(free) != moves_of(bound)
        evicts += "reclaim" in kinds_of(bound)
    assert differ > 10
    assert evicts > 3


@given(crowded, seeds)
def test_no_pod_gets_a_node_that_a_queue_on_its_path_forbids(cluster, seed):
    """Promises of before a change of rules included; what runs is left where it is."""
    cluster = ruled(labelled(cluster, seed), seed)
    for now, snapshot, result in cycles(cluster, rules=seed):
        note(f"{told(now)}\n{moves_of(result)}")
        assert violations(snapshot, result, POLICY) == []
        kind_of = {node.name: node.labels["kind"] for node in now.nodes}
        job_of = {f"default/{task.name}": job for job in now.jobs for task in job.tasks}
        for move in (*result.binds, *result.nominations):
            assert kind_of[move.node] in allowed(now, job_of[move.pod])


@given(crowded, seeds)
def test_it_decides_as_the_same_node_affinity_of_every_pod_does(cluster, seed):
    """Same moves in the same order, evictions and their beneficiaries included."""
    by_queue = ruled(labelled(cluster, seed), seed)

    def bound(job):
        kinds = allowed(by_queue, job)
        terms = (term("In", *sorted(kinds)),) if kinds else (term("In", "none"),)
        wants = Constraints() if kinds == set(KINDS) else Constraints(node_terms=terms)
        return replace(job, tasks=tuple(replace(task, constraints=wants) for task in job.tasks))

    free = [replace(queue, node_affinity=()) for queue in by_queue.queues]
    by_pod = replace(by_queue, queues=tuple(free), jobs=tuple(map(bound, by_queue.jobs)))
    note(told(by_queue))
    for (_, _, one), (_, _, other) in zip(cycles(by_queue), cycles(by_pod), strict=True):
        note(f"{moves_of(one)}\n{moves_of(other)}")
        assert moves_of(one) == moves_of(other)


@given(crowded, seeds)
def test_a_rule_that_every_node_meets_changes_nothing(cluster, seed):
    cluster = labelled(cluster, seed)
    rule = tuple((workload, (term("Exists"),)) for workload in range(len(WORKLOADS)))
    queues = tuple(replace(queue, node_affinity=rule) for queue in cluster.queues)
    pairs = zip(cycles(cluster), cycles(replace(cluster, queues=queues)), strict=True)
    for (_, _, one), (_, _, other) in pairs:
        assert moves_of(one) == moves_of(other)
