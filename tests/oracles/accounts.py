"""What a snapshot should say, summed task by task from states alone, and its content by name."""

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, ALLOCATED_STATES, HOLDING_STATES, TaskState
from kaisched.core.constraints import Taint, tolerates


def assert_adds_up(snapshot):
    """Every derived column equals what plain loops over the tasks give."""
    for name, expected, found in _recounted(snapshot):
        assert np.array_equal(expected, found), f"{name}: {expected.tolist()} {found.tolist()}"


def _recounted(s):
    idle = s.nodes.allocatable.copy()
    releasing = np.zeros_like(idle)
    allocated = np.zeros((len(s.axis), len(s.queues)), np.int64)
    fixed, pending = allocated.copy(), allocated.copy()
    job = {"active": [0] * len(s.jobs.name), "pending": [0] * len(s.jobs.name)}
    podset = {"active": [0] * len(s.podsets.name), "pending": [0] * len(s.podsets.name)}
    for task in range(len(s.tasks.name)):
        state, node = int(s.tasks.state[task]), int(s.tasks.node_of_task[task])
        mine, part = int(s.tasks.job_of_task[task]), int(s.tasks.podset_of_task[task])
        request = s.shapes.request[:, s.tasks.shape_of_task[task]]
        charge = s.shapes.charge[:, s.tasks.shape_of_task[task]]
        if node >= 0:
            assert HOLDING_STATES[state], "only what holds room has a node"
            idle[:, node] -= request
            releasing[:, node] += request * (state == TaskState.RELEASING)
        if mine < 0:
            continue
        assert s.podsets.job_of_podset[part] == mine
        assert task in s.jobs.tasks[mine]
        queue = int(s.jobs.queue_of_job[mine])
        for counts, row in ((job, mine), (podset, part)):
            counts["active"][row] += bool(ACTIVE_STATES[state])
            counts["pending"][row] += state == TaskState.PENDING
        if queue >= 0:
            allocated[:, queue] += charge * ALLOCATED_STATES[state]
            if not s.jobs.is_preemptible[mine]:
                fixed[:, queue] += charge * ALLOCATED_STATES[state]
            pending[:, queue] += charge * (state == TaskState.PENDING)
    yield "idle", idle, s.nodes.idle
    yield "releasing", releasing, s.nodes.releasing
    yield "allocated", allocated, s.allocated
    yield "allocated_non_preemptible", fixed, s.allocated_non_preemptible
    yield "pending", pending, s.pending
    yield "total", _total(s), s.total
    for column in ("active", "pending"):
        yield f"jobs.{column}", np.array(job[column], np.int64), getattr(s.jobs, column)
        yield f"podsets.{column}", np.array(podset[column], np.int64), getattr(s.podsets, column)


def _total(s):
    """Rule R0, resource by resource and node by node."""
    free, held = np.zeros(len(s.axis), np.int64), np.zeros(len(s.axis), np.int64)
    for resource in range(len(s.axis)):
        open_nodes = {node for node in range(len(s.nodes)) if _is_open(s, node, resource)}
        free[resource] = sum(int(s.nodes.allocatable[resource, node]) for node in open_nodes)
        for task in range(len(s.tasks.name)):
            state, node = int(s.tasks.state[task]), int(s.tasks.node_of_task[task])
            request = int(s.shapes.request[resource, s.tasks.shape_of_task[task]])
            if not _has_queue(s, task):
                free[resource] -= request * bool(HOLDING_STATES[state]) * (node in open_nodes)
            elif node not in open_nodes:
                held[resource] += request * bool(ALLOCATED_STATES[state])
    return s.axis.charged(np.maximum(free, 0) + held)


def _has_queue(s, task):
    job = int(s.tasks.job_of_task[task])
    return job >= 0 and s.jobs.queue_of_job[job] >= 0


def _is_open(s, node, resource):
    statics = s.nodes.statics
    if not statics.is_ready[node] or statics.has_pressure[node]:
        return False
    taints = [it for it in statics.taints[node] if it.effect in ("NoSchedule", "NoExecute")]
    if statics.is_unschedulable[node]:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    living = [
        int(s.tasks.shape_of_task[task])
        for task in range(len(s.tasks.name))
        if s.tasks.state[task] != TaskState.GONE and _has_queue(s, task)
    ]
    asking = [it for it in living if s.shapes.request[resource, it] > 0]
    if not asking and not statics.is_unschedulable[node]:
        return True
    return not taints or any(
        all(
            any(tolerates(own, it) for own in s.shapes.constraints[at].tolerations) for it in taints
        )
        for at in asking
    )


def content(snapshot):
    """What decisions can depend on, by names: the same for equal clusters, however made."""
    s = snapshot
    living = np.unique(s.tasks.shape_of_task[s.tasks.state != TaskState.GONE])
    # A resource once asked for stays on the axis; it decides nothing while nobody asks for it.
    is_asked = s.shapes.request[:, living].any(axis=1)
    is_asked[:4] = True

    def amounts(column):
        rows = zip(s.axis.names, column, is_asked, strict=True)
        return {name: int(amount) for name, amount, counts in rows if amount and counts}

    def node(row):
        return s.nodes.name[row] if row >= 0 else ""

    tasks, members = {}, {}
    for task, name in enumerate(s.tasks.name):
        if s.tasks.state[task] == TaskState.GONE:
            continue
        shape, mine = int(s.tasks.shape_of_task[task]), int(s.tasks.job_of_task[task])
        label_set = int(s.tasks.label_set_of_task[task])
        members.setdefault(mine, set()).add(shape)
        assert name not in tasks, "a name belongs to one living task"
        tasks[name] = (
            s.tasks.uid[task],
            s.jobs.name[mine] if mine >= 0 else "",
            s.podsets.name[s.tasks.podset_of_task[task]] if mine >= 0 else "",
            int(s.tasks.state[task]),
            node(s.tasks.node_of_task[task]),
            node(s.tasks.nominated_node[task]),
            int(s.tasks.order_priority[task]),
            float(s.tasks.created_s[task]),
            amounts(s.shapes.request[:, shape]),
            s.label_sets.namespace[label_set] if label_set >= 0 else "",
            dict(s.label_sets.labels[label_set]) if label_set >= 0 else {},
        )
    return {
        "tasks": tasks,
        "jobs": _jobs(s, members),
        "nodes": {
            name: (
                amounts(s.nodes.allocatable[:, row]),
                amounts(s.nodes.idle[:, row]),
                amounts(s.nodes.releasing[:, row]),
                s.nodes.statics.taints[row],
                dict(s.nodes.statics.labels[row]),
                bool(s.nodes.statics.is_ready[row]),
            )
            for row, name in enumerate(s.nodes.name)
        },
        "queues": {
            name: (
                row,
                amounts(s.allocated[:, row]),
                amounts(s.allocated_non_preemptible[:, row]),
                amounts(s.pending[:, row]),
            )
            for row, name in enumerate(s.queues.name)
        },
        "total": amounts(s.total),
    }


def _jobs(s, members):
    jobs = {}
    for job, name in enumerate(s.jobs.name):
        first, count = int(s.jobs.first_podset[job]), int(s.jobs.podset_count[job])
        shapes = members.get(job, set())
        uniform = int(s.jobs.shape_of_job[job])
        assert not shapes or uniform == (shapes.pop() if len(shapes) == 1 else -1)
        has_tasks = bool(s.jobs.active[job] or s.jobs.pending[job] or job in members)
        if not has_tasks:
            continue
        queue = int(s.jobs.queue_of_job[job])
        assert name not in jobs, "a name belongs to one living job"
        jobs[name] = (
            s.queues.name[queue] if queue >= 0 else "",
            int(s.jobs.priority[job]),
            bool(s.jobs.is_preemptible[job]),
            float(s.jobs.created_s[job]),
            int(s.jobs.refusal[job]),
            [
                (
                    s.podsets.name[row],
                    int(s.podsets.minimum[row]),
                    int(s.podsets.active[row]),
                    int(s.podsets.pending[row]),
                )
                for row in range(first, first + count)
            ],
            _named(s.jobs.structure.get(job), s),
        )
    return jobs


def _named(tree, s):
    if tree is None:
        return None
    podset = s.podsets.name[tree.podset] if tree.podset >= 0 else ""
    return (tree.name, podset, tree.min_subgroup, [_named(child, s) for child in tree.children])


def arrays(snapshot):
    """Every array of a snapshot, by table and column."""
    found = {}
    for table in ("nodes", "queues", "jobs", "podsets", "tasks", "shapes"):
        value = getattr(snapshot, table)
        for column in type(value).__slots__:
            if isinstance(getattr(value, column), np.ndarray):
                found[table, column] = getattr(value, column)
    for column in ("allocated", "allocated_non_preemptible", "pending", "total"):
        found["snapshot", column] = getattr(snapshot, column)
    return found
