"""From Kueue's objects in a case to the policy's quotas, holdings and work."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kaisched import UNLIMITED
from kaisched.core.tree import build_tree
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, Quotas
from kaisched_plugins.fair_sharing.work import Work

BOOST = "kueue.x-k8s.io/priority-boost"
_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class Tree:
    """Queues and cohorts of a case by row, and its pairs of flavor and resource by number."""

    quotas: Quotas
    row: Mapping[str, int]
    """Cohorts are under their names with a slash before: a queue may be called the same."""
    pair: Mapping[tuple[str, str], int]
    resources: Sequence[str]
    spec: Mapping[str, Mapping[str, Any]]
    """Queues by name."""

    def queue(self, name: str) -> int:
        return self.row[name]

    def ask(self, amounts: Sequence[Mapping[str, Any]]) -> Ask:
        """Return what entries with flavor, resource and amount come to."""
        total: dict[int, int] = {}
        for each in amounts:
            at = self.pair[each["flavor"], each["resource"]]
            total[at] = total.get(at, 0) + each["amount"]
        return [(at, amount) for at, amount in sorted(total.items()) if amount > 0]

    def holdings(self, usage: Sequence[Mapping[str, Any]] = ()) -> Holdings:
        """Return what queues hold, of entries with the queue besides."""
        made = Holdings(self.quotas, np.zeros_like(self.quotas.nominal))
        for each in usage:
            made.add(self.queue(each["cluster_queue"]), self.ask([each]))
        return made


def cohort_row(name: str) -> str:
    return f"/{name}"


def tree_of(case: Mapping[str, Any]) -> Tree:
    """Return the tree of a case; a cohort that is named and not listed exists, without quota."""
    cohorts = {each["name"]: each for each in case.get("cohorts") or ()}
    queues = {each["name"]: each for each in case["cluster_queues"]}
    named = [each["cohort"] for each in queues.values() if each.get("cohort")]
    named += [each["parent"] for each in cohorts.values() if each.get("parent")]
    for name in named:
        cohorts.setdefault(name, {"name": name, "parent": None, "weight": None, "quotas": []})
    names = [cohort_row(name) for name in sorted(cohorts)] + sorted(queues)
    parents = [
        cohort_row(cohorts[name]["parent"]) if cohorts[name].get("parent") else None
        for name in sorted(cohorts)
    ] + [
        cohort_row(queues[name]["cohort"]) if queues[name].get("cohort") else None
        for name in sorted(queues)
    ]
    laid = build_tree(names, parents)
    objects = [cohorts[n[1:]] if n.startswith("/") else queues[n] for n in laid.names]
    pairs = sorted(
        {(q["flavor"], q["resource"]) for each in objects for q in each.get("quotas") or ()}
        | {(u["flavor"], u["resource"]) for u in _used(case)}
    )
    resources = sorted({resource for _, resource in pairs})
    pair = {each: at for at, each in enumerate(pairs)}
    shape = len(pairs), len(objects)
    nominal = np.zeros(shape, np.int64)
    borrowing, lending = np.full(shape, UNLIMITED), np.full(shape, UNLIMITED)
    for row, each in enumerate(objects):
        for quota in each.get("quotas") or ():
            at = pair[quota["flavor"], quota["resource"]]
            nominal[at, row] = min(quota["nominal"], UNLIMITED)
            borrowing[at, row] = min(_or(quota.get("borrowing_limit"), UNLIMITED), UNLIMITED)
            lending[at, row] = min(_or(quota.get("lending_limit"), UNLIMITED), UNLIMITED)
    quotas = Quotas(
        laid.parent_of_queue.astype(np.int64),
        nominal,
        borrowing,
        lending,
        [Fraction(_or(each.get("weight"), "1")) for each in objects],
        np.array([resources.index(resource) for _, resource in pairs], np.int64),
    )
    rows = {name: row for row, name in enumerate(laid.names)}
    return Tree(quotas, rows, pair, resources, queues)


def _used(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    works = [*(case.get("admitted") or ()), *(case.get("workloads") or ())]
    used = [each for work in works for each in work.get("usage") or ()]
    used += case.get("usage") or ()
    used += case.get("requested") or () if isinstance(case.get("requested"), list) else ()
    used += case.get("extra_request") or ()
    return used


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def work_of(
    tree: Tree | None, case: Mapping[str, Any], work: Mapping[str, Any], row: int = 0
) -> Work:
    """Return a workload that holds quota, or asks for it; without a tree only what orders it."""
    name = work.get("cluster_queue") or ""
    return Work(
        row=row,
        queue=-1 if tree is None else tree.queue(name) if name else -1,
        ask=() if tree is None else tree.ask(work.get("usage") or ()),
        priority=priority_of(case, work),
        created_s=_or(work.get("created_at"), -math.inf),
        since_s=_or(work.get("quota_reserved_at"), -math.inf),
        name=work.get("uid") or work.get("name") or "",
    )


def priority_of(case: Mapping[str, Any], work: Mapping[str, Any]) -> int:
    """Return the priority with the boost, where boosts count; one that is no number is none."""
    priority = int(work.get("priority") or 0)
    if not (case.get("feature_gates") or {}).get("PriorityBoost"):
        return priority
    try:
        return priority + int((work.get("annotations") or {}).get(BOOST, "0"))
    except ValueError:
        return priority
