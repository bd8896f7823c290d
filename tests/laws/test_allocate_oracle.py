"""Allocate decides what asking everything again after each batch would decide."""

import numpy as np
from hypothesis import example, given, note

from kaisched.core.refusals import text_of
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.reasons import dominant
from tests.laws.clusters import NOW_S, clusters, make_cluster, policies, policy, told
from tests.oracles.naive_allocate import naive_allocate


def decided(snapshot, policy):
    result, _ = run_cycle(snapshot, None, policy, NOW_S, Memory())
    assert not result.failures
    assert not result.stats.abandoned
    binds = list(zip(result.bind_tasks.tolist(), result.bind_nodes.tolist(), strict=True))
    promises = list(
        zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True)
    )
    session = result.records.session
    codes = {job: code for job, code in enumerate(session.outcome.refusal.tolist()) if code}
    return binds, promises, codes, session


def reasons(session, codes):
    jobs, noted = np.array(list(codes), np.int64), np.array(list(codes.values()), np.int16)
    return dict(
        zip(codes, (text_of(it).name for it in dominant(session, jobs, noted)), strict=True)
    )


@example(
    make_cluster(17166, node_count=2, queue_count=4, jobs=8),
    policy(gpu="binpack", cpu="spread", depth=None),
)
@given(clusters, policies)
def test_the_decisions_are_those_of_asking_after_every_batch(cluster, one):
    note(told(cluster))
    snapshot = cluster.store().snapshot()
    expected = naive_allocate(snapshot, one)
    binds, promises, codes, session = decided(snapshot, one)
    # The names of rows, so that a failure can be read.
    task, node = snapshot.tasks.name, snapshot.nodes.name
    named = (
        [(task[row], node[at]) for row, at in binds],
        [(task[row], node[at]) for row, at in promises],
    )
    assert named == (
        [(task[row], node[at]) for row, at in expected.binds.items()],
        [(task[row], node[at]) for row, at in expected.nominations.items()],
    )
    # Which of two reasons is met first does not matter: the record names the dominant one.
    assert reasons(session, codes) == reasons(session, expected.refusal)
