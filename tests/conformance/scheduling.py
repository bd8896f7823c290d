"""Scheduling cases: the cluster through the real cycle, once or in rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU, GPU_UNIT, TaskState
from kaisched.core.snapshot import Snapshot
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.framework.session.cards import Cards
from tests.conformance import policy as policies
from tests.conformance.cluster import NOW_S, Builder, TaskCopy, copies
from tests.conformance.comparing import differences


@dataclass
class Ended:
    """A session as its actions left it."""

    tasks: dict[str, TaskCopy]
    last_start_s: dict[str, float]
    """By job name, NaN where nothing ever ran."""
    explained: set[str]
    """Jobs with a decision record."""
    idle_gpus: dict[str, float]
    releasing_gpus: dict[str, float]
    counts: dict[str, int] = field(default_factory=dict)


def judge(case: dict[str, Any]) -> str:
    """Run a scheduling case; return "" or what differs."""
    builder = Builder(case)
    policy = policies.build(case["config"]["plugins"], case["actions"], case["config"])
    tasks = copies(case["cluster"])
    fails = case["config"]["bind_always_fails"]
    if case["mode"] == "single":
        ended = _session(builder, policy, tasks, binds_fail=fails)
        return differences(case, ended)
    return _rounds(case, builder, policy, tasks)


def _rounds(
    case: dict[str, Any], builder: Builder, policy: Policy, tasks: dict[str, TaskCopy]
) -> str:
    stays = {
        task["id"]
        for job in case["cluster"]["jobs"]
        if job["deleted_in_test"]
        for task in job["tasks"]
    }
    for _ in range(case["rounds"]["until_match"]):
        ended = _session(builder, policy, tasks)
        if told := differences(case, ended, limits_only=True):
            return told
        tasks = _written_back(ended.tasks, stays)
    if told := differences(case, _untouched(builder, policy, tasks)):
        return told
    for _ in range(case["rounds"]["after_match"]):
        ended = _session(builder, policy, tasks)
        if told := differences(case, ended):
            return f"not settled: {told}"
        tasks = _written_back(ended.tasks, stays)
    return ""


def _untouched(builder: Builder, policy: Policy, tasks: dict[str, TaskCopy]) -> Ended:
    """Return a fresh session in which no action has run."""
    return _session(builder, replace(policy, actions=()), tasks)


def _written_back(tasks: Mapping[str, TaskCopy], stays: set[str]) -> dict[str, TaskCopy]:
    after = {}
    for name, task in tasks.items():
        if task.state == "Pipelined" or (task.state == "Releasing" and name not in stays):
            after[name] = TaskCopy("Pending", None)
        else:
            state = "Running" if task.state == "Binding" else task.state
            after[name] = TaskCopy(state, task.node, task.cards)
    return after


def _session(
    builder: Builder, policy: Policy, tasks: dict[str, TaskCopy], *, binds_fail: bool = False
) -> Ended:
    store = builder.store(tasks)
    snapshot = builder.frozen(store)
    result, _ = run_cycle(snapshot, None, policy, NOW_S, Memory())
    if result.failures or result.stats.abandoned:
        raise RuntimeError(f"cycle failed: {result.failures} {result.stats.abandoned}")
    if not binds_fail:
        _apply(store, result)
        builder.claims.bind(result.binds)
    after = {name: replace(task) for name, task in tasks.items()}
    groups = _groups(snapshot, tasks)
    for row, node in zip(result.bind_tasks.tolist(), result.bind_nodes.tolist(), strict=True):
        if not binds_fail:
            slots = result.bind_cards.get(row, ())
            cards = tuple(groups.setdefault((node, it), f"{node}-{it}-{row}") for it in slots)
            name = _id(snapshot.tasks.name[row])
            after[name] = TaskCopy("Binding", snapshot.nodes.name[node], cards)
    for row in result.evict_tasks.tolist():
        after[_id(snapshot.tasks.name[row])].state = "Releasing"
    promised = np.zeros(len(snapshot.nodes.name))
    for row, node in zip(
        result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True
    ):
        after[_id(snapshot.tasks.name[row])] = TaskCopy("Pipelined", snapshot.nodes.name[node])
        promised[node] += snapshot.shapes.request[GPU, snapshot.tasks.shape_of_task[row]]
    return _ended(store, result, after, promised)


def _groups(snapshot: Snapshot, tasks: Mapping[str, TaskCopy]) -> dict[tuple[int, int], str]:
    """Return the groups of open cards by node and slot."""
    if snapshot.nodes.cards is None:
        return {}
    found = {}
    for row, slots in snapshot.nodes.cards.slots_of_task.items():
        node, name = int(snapshot.tasks.node_of_task[row]), _id(snapshot.tasks.name[row])
        found |= {(node, it): g for it, g in zip(slots, tasks[name].cards or (name,), strict=True)}
    return found


def _apply(store: RowStore, result: CycleResult) -> None:
    """Let the store hear of what was decided, as a sink would tell it."""
    store.cards.choose(result.bind_cards)
    store.place(result.bind_tasks, result.bind_nodes, TaskState.BINDING, at_s=NOW_S)
    for row in result.evict_tasks.tolist():
        store.evict(row, NOW_S)


def _ended(
    store: RowStore, result: CycleResult, after: dict[str, TaskCopy], promised: np.ndarray
) -> Ended:
    snapshot = store.snapshot()
    names = snapshot.nodes.name
    idle, releasing = snapshot.nodes.idle[GPU], snapshot.nodes.releasing[GPU]
    if snapshot.nodes.cards is not None:  # the cases count whole cards
        shapes, amounts = snapshot.shapes, (snapshot.nodes.idle, snapshot.nodes.releasing)
        cards = Cards(snapshot.nodes.cards, shapes.constraints, shapes.request, amounts)
        idle, later = cards.whole(np.arange(len(names)))
        idle, releasing = idle * GPU_UNIT, (later - idle) * GPU_UNIT
    idle, releasing = idle / GPU_UNIT, (releasing - promised) / GPU_UNIT
    return Ended(
        after,
        {_id(name): snapshot.jobs.last_start_s[row] for row, name in enumerate(snapshot.jobs.name)},
        {_id(record.pod_group) for record in result.records},
        dict(zip(names, idle.tolist(), strict=True)),
        dict(zip(names, releasing.tolist(), strict=True)),
        {
            "max_binds": len(result.bind_tasks),
            "max_evictions": len(result.evict_tasks),
            "max_pipelined": len(result.nominate_tasks),
        },
    )


def _id(name: str) -> str:
    """Return the case's name of a job or task."""
    return name.partition("/")[2]
