"""Tries a claim on several sets of nodes: of equally good ones the cheapest evictions are taken."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from kaisched.actions.eviction.plan import Plan
from kaisched.core.devices import gpus_of
from kaisched.core.refusals import Refusal
from kaisched.framework.session.node_sets import node_sets, shapes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaisched.core.axis import RowVec
    from kaisched.framework.session.claims import Claim, NodeSet, NodeSets
    from kaisched.framework.session.session import Session

    Cost = tuple[int, int, int, int, float]
    CostOf = Callable[[Session, Plan], Cost]

_PREEMPT: Final = "preempt"
MOST_PLANS: Final = 8
"""The number of equally good sets whose plans are compared."""
MOST_TRIES: Final = 64
"""The number of equally good sets that are searched."""


def serve(
    session: Session,
    claim: Claim,
    tasks: RowVec,
    plan: Callable[[Claim], Plan | int],
    carry_out: Callable[[Claim, Plan], None],
) -> int:
    """Carry out a claim's plan on the first set of nodes that has one; return 0, or the refusal.

    Args:
        session: the session.
        claim: the claim, on no set of nodes yet.
        tasks: the task rows of its batch.
        plan: returns the plan of a claim on the set of nodes that is tried now, or the refusal.
        carry_out: commits such a plan.

    """
    sets = node_sets(session, claim.action, claim.job, claim.ask, shapes_of(session, tasks))
    cost_of = _by_priority if claim.action == _PREEMPT else _by_loss
    found = first_plan(session, sets, lambda nodes: plan(replace(claim, within=nodes)), cost_of)
    if isinstance(found, int):
        return found
    nodes, best = found
    with session.placement.within(nodes):
        carry_out(replace(claim, within=nodes), best)
    return 0


def first_plan(
    session: Session,
    sets: NodeSets | None,
    search: Callable[[NodeSet | None], Plan | int],
    cost_of: CostOf,
) -> tuple[NodeSet | None, Plan] | int:
    """Return the first set that has a plan, with the plan, whose statement is open; or a refusal.

    Args:
        session: the session.
        sets: the sets of nodes to try, None for all nodes as the only one.
        search: returns the plan on a set, asked while the set is tried.
        cost_of: returns what a plan disturbs, compared between equally good sets.

    """
    if sets is None:
        found = search(None)
        return found if isinstance(found, int) else (None, found)
    codes: list[int] = []
    for peers in _peers(sets):
        best = _best(session, peers, search, cost_of, codes)
        if best is not None:
            return best
    if codes:
        return codes[0]
    return int(Refusal.NO_VICTIMS) if sets.code == Refusal.NO_NODE_ALLOWED else sets.code


def _peers(sets: Sequence[NodeSet]) -> Iterator[list[NodeSet]]:
    for at, group in groupby(enumerate(sets), lambda each: each[1].peers or each[0]):
        del at
        yield [nodes for _, nodes in group]


def _best(
    session: Session,
    peers: list[NodeSet],
    search: Callable[[NodeSet | None], Plan | int],
    cost_of: CostOf,
    codes: list[int],
) -> tuple[NodeSet, Plan] | None:
    """Return the set whose plan costs least; the first of several."""
    plans: list[tuple[Cost, int]] = []
    for at, nodes in enumerate(peers[:MOST_TRIES]):
        with session.placement.within(nodes):
            plan = search(nodes)
        if isinstance(plan, int):
            codes.append(plan)
            continue
        if len(peers) == 1 or not plan.units:
            return nodes, plan
        plans.append((cost_of(session, plan), at))
        plan.statement.rollback()
        if len(plans) == MOST_PLANS:
            break
    if not plans:
        return None
    nodes = peers[min(plans)[1]]
    with session.placement.within(nodes):
        again = search(nodes)
    assert isinstance(again, Plan)  # it was found just now from the same state
    return nodes, again


def _by_priority(session: Session, plan: Plan) -> Cost:
    """Return what a plan disturbs, the highest priority first.

    Preemption is inside one queue, where priorities say who goes before whom; those of different
    queues are set by different people.
    """
    gpus, jobs, priority, pods, age = _by_loss(session, plan)
    return priority, gpus, jobs, pods, age


def _by_loss(session: Session, plan: Plan) -> Cost:
    """Return what a plan disturbs: GPUs, jobs, the highest priority, pods, the newest job's age.

    Pods that only move are in none of the others: they are restarted too.
    """
    jobs = sorted({unit.job for unit in plan.units})
    tasks = [task for unit in plan.units for task in unit.tasks]
    gpus = gpus_of(session, tasks)
    newest = float(session.jobs.created_s[jobs].max())
    priority = int(session.jobs.priority[jobs].max())
    return gpus, len(jobs), priority, plan.statement.evicted(), -newest
