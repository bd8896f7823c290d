"""The law of advice: what is said to help lets the job start, what is said not to help does not.

Each advice is applied as the change that it names to the cluster itself, which is loaded anew.
``python -m tests.laws.test_advice_laws 500`` prints the rates over so many clusters.
"""

import sys
from collections import Counter
from dataclasses import replace

from hypothesis import event, example, given, settings

from kaisched.core.constraints import Toleration
from kaisched.core.refusals import code_named, text_of
from kaisched.engine.policy import default_policy
from kaisched.framework.advice.advice import Kind, parts
from kaisched.framework.advice.search import Adviser
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import Group
from tests.laws.clusters import NOW_S, clusters, make_cluster
from tests.laws.crowded import crowded, make_crowded


def cycle(cluster, now_s=NOW_S):
    return run_cycle(cluster.store().snapshot(), None, default_policy(), now_s, Memory())[0]


def with_amounts(queue, field, changes):
    mine = {it.resource: it.amount for it in changes if it.on == queue.name}
    return replace(queue, **{field: {**getattr(queue, field), **mine}})


def with_nodes(cluster, changes):
    first = changes[0]
    like = next(node for node in cluster.nodes if node.name == first.on)
    larger = {it.resource: it.amount for it in changes[1:]}
    more = replace(
        like, allocatable={**like.allocatable, **larger}, is_ready=True, is_unschedulable=False
    )
    made = tuple(replace(more, name=f"new-{at}") for at in range(first.amount))
    return replace(cluster, nodes=cluster.nodes + made)


def with_rules(job, kind):
    def changed(task):
        mine = task.constraints
        if kind is Kind.SELECTOR:
            return replace(task, constraints=replace(mine, node_selector=(), node_terms=None))
        tolerations = (*mine.tolerations, Toleration("", "Exists", "", ""))
        return replace(task, constraints=replace(mine, tolerations=tolerations))

    return replace(job, tasks=tuple(changed(task) for task in job.tasks))


def applied(cluster, job, advice):
    """Return the cluster with the change, and how much later it is."""
    later_s = 0
    for kind, changes in parts(advice.kind, advice.changes):
        cluster, later_s = with_changes(cluster, job, kind, changes)
    return cluster, later_s


def with_changes(cluster, job, kind, changes):
    """Return the cluster with changes of one kind, and how much later it is."""
    if kind in (Kind.QUOTA, Kind.LIMIT):
        queues = tuple(with_amounts(queue, kind.value, changes) for queue in cluster.queues)
        return replace(cluster, queues=queues), 0
    if kind is Kind.NODES:
        return with_nodes(cluster, changes), 0
    if kind is Kind.TIME:
        return cluster, changes[0].amount
    if kind is Kind.END:
        jobs = tuple(it for it in cluster.jobs if f"default/{it.name}" != changes[0].on)
        return replace(cluster, jobs=jobs), 0

    def changed(it):
        if f"default/{it.name}" != job:
            return it
        if kind is Kind.MINIMUM:
            return replace(it, root=Group("default", changes[0].amount))
        if kind is Kind.PREEMPTIBLE:
            return replace(it, is_preemptible=True)
        return with_rules(it, kind)

    return replace(cluster, jobs=tuple(map(changed, cluster.jobs))), 0


def placed(result, cluster, job):
    mine = {
        f"default/{task.name}"
        for it in cluster.jobs
        if f"default/{it.name}" == job
        for task in it.tasks
    }
    return sum(it.pod in mine for it in [*result.binds, *result.nominations])


def tried(result, record):
    """Return the kinds of change that may be tried for a record: those of all that refused it."""
    session = result.records.session
    job = session.jobs.name.index(record.pod_group)
    claims = [int(codes[job]) for codes in session.outcome.claims.values()]
    codes = [code_named(record.reason, record.plugin), *claims]
    return {kind for code in codes if code for kind in text_of(code).tried}


def judged(cluster):
    """Return how often each kind of advice was right and wrong, by what it said."""
    result, found = cycle(cluster), Counter()
    for record in Adviser(result).records():
        job = record.pod_group
        before = placed(result, cluster, job)
        for advice in record.advice:
            own = {kind for kind, _ in parts(advice.kind, advice.changes)}
            assert advice.kind is Kind.SEVERAL or own <= tried(result, record)
            changed, later_s = applied(cluster, job, advice)
            started = placed(cycle(changed, NOW_S + later_s), changed, job) > before
            found[advice.kind, advice.helps, started] += 1
        found["records"] += 1
        found["with advice"] += any(it.helps for it in record.advice)
    return found


def check(cluster):
    found = judged(cluster)
    for key, count in found.items():
        if isinstance(key, tuple):
            kind, said, started = key
            event(f"{kind}: {'helps' if said else 'does not'}, {'starts' if started else 'waits'}")
            assert said == started, (key, count)


@settings(max_examples=4)  # slow: some fifty cycles each
@given(crowded)
def test_advice_holds_in_crowded_clusters(cluster):
    check(cluster)


# A job that a plugin had refused had nothing left to be placed once its queue was open.
@example(make_cluster(1701, node_count=1, queue_count=1, jobs=8))
@settings(max_examples=4)  # slow: some fifty cycles each
@given(clusters)
def test_advice_holds_with_pods_in_all_states(cluster):
    check(cluster)


def main(count):
    for make in (make_crowded, make_cluster):
        found = Counter()
        for seed in range(count):
            found += judged(make(seed))
        print(make.__name__, f"{found['records']} waiting, {found['with advice']} with advice")
        for kind in Kind:
            for said in (True, False):
                right, wrong = found[kind, said, said], found[kind, said, not said]
                if right + wrong:
                    words = "would help" if said else "would not be enough"
                    print(f"  {kind:12} {words:20} right {right:5} wrong {wrong:5}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
