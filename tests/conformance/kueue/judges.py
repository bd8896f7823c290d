"""Families that one function of the policy decides."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from kaisched_plugins.fair_sharing.quotas import NOTHING, Share, Terms, quotient
from kaisched_plugins.fair_sharing.work import Key, Walk, Work, entry_of, may_take, victim_key
from tests.conformance.kueue.tree import Tree, cohort_row, tree_of, work_of
from tests.conformance.outcome import NotBuiltError

INFINITE = (1 << 63) - 1


def share_value(case: dict[str, Any]) -> str:
    """Compare shares of queues and cohorts, the extra request counted at each of them."""
    tree = tree_of(case)
    told = []
    for expected in case["expected"]:
        holdings = tree.holdings(case["usage"])
        is_queue = expected["kind"] == "cluster_queue"
        row = tree.queue(expected["node"]) if is_queue else tree.row[cohort_row(expected["node"])]
        asked = case.get("extra_request") or ()
        if is_queue:  # a queue is never asked for flavors that it does not list
            listed = {
                (it["flavor"], it["resource"]) for it in tree.spec[expected["node"]]["quotas"]
            }
            asked = [it for it in asked if (it["flavor"], it["resource"]) in listed]
        holdings.add(row, tree.ask(asked))
        terms = holdings.terms(row)
        got = {
            "share_ceil": _per_mille(terms.share),
            "resource": tree.resources[terms.resource] if terms.resource >= 0 else "",
            "borrowing": terms.is_borrowing,
        }
        wanted = {key: expected[key] for key in got}
        if got != wanted:
            told.append(f"{expected['node']}: expected {wanted}, got {got}")
    return "; ".join(told)


def _per_mille(share: Share) -> int:
    """Return a share in thousandths, rounded up, as Kueue writes it."""
    return INFINITE if share.is_infinite else -(-share.exact * 1000 // quotient(1, 1))


def quota_available(case: dict[str, Any]) -> str:
    """Compare what queues may still have, now and if nothing were used."""
    tree = tree_of(case)
    holdings = tree.holdings(case["usage"])
    told = []
    for each in case["expected"]["available"]:
        queue, at = tree.queue(each["cluster_queue"]), tree.pair[each["flavor"], each["resource"]]
        got = max(0, holdings.available(queue, at))
        if got != each["amount"]:
            told.append(f"{each['cluster_queue']}: available {each['amount']}, got {got}")
    for each in case["expected"]["potentially_available"]:
        queue, at = tree.queue(each["cluster_queue"]), tree.pair[each["flavor"], each["resource"]]
        got = int(tree.quotas.potential[at, queue])
        if got != each["amount"]:
            told.append(f"{each['cluster_queue']}: potential {each['amount']}, got {got}")
    return "; ".join(told)


def borrowing_on(case: dict[str, Any]) -> str:
    """Compare whether the first queue borrows at all, and of what is requested."""
    tree = tree_of(case)
    holdings = tree.holdings(case["usage"])
    queue = tree.queue(case["cluster_queues"][0]["name"])
    rows = [tree.pair[each["flavor"], each["resource"]] for each in case["requested"]]
    got = {
        "borrowing_on_requested": holdings.is_over(queue, rows),
        "borrowing": holdings.terms(queue).is_borrowing,
    }
    return "" if got == case["expected"] else f"expected {case['expected']}, got {got}"


def candidate_order(case: dict[str, Any]) -> str:
    """Compare the order of victims."""
    got, expected = victims_in_order(case, by_size=False), case["expected"]["order"]
    return "" if got == expected else f"expected {expected}, got {got}"


def victims_in_order(case: Mapping[str, Any], *, by_size: bool) -> list[str]:
    """Return the candidates in the order in which they would go.

    No policy is asked about work that is leaving already: its room is promised before a cycle
    looks for victims.

    Raises:
        NotBuiltError: what LocalQueues used decides between candidates of one queue.

    """
    used: dict[str, float] = {}
    for each in case["candidates"]:
        usage = each.get("local_queue_usage") or 0.0
        if used.setdefault(each.get("cluster_queue", ""), usage) != usage:
            raise NotBuiltError("usage of LocalQueues")
    queues = {case["preemptor_cluster_queue"]: 0}
    for each in case["candidates"]:
        queues.setdefault(each.get("cluster_queue", ""), len(queues))
    works = [
        work_of(None, case, each, row)._replace(queue=queues[each.get("cluster_queue", "")])
        for row, each in enumerate(case["candidates"])
    ]
    rows = tree_of({"cluster_queues": [{"name": str(row)} for row in range(len(queues))]})
    ordered = sorted(
        works,
        key=lambda it: (
            not is_leaving(case["candidates"][it.row]),
            victim_key(rows.quotas.rows, 0, it, by_size=by_size),
        ),
    )
    return [case["candidates"][work.row]["name"] for work in ordered]


def is_leaving(work: Mapping[str, Any]) -> bool:
    """Tell whether a workload is being evicted already."""
    conditions = work.get("conditions") or ()
    return any(each["type"] == "Evicted" and each["status"] == "True" for each in conditions)


def preemption_policy(case: dict[str, Any]) -> str:
    """Compare who may preempt whom."""
    taker, giver = (work_of(None, case, case[side]) for side in ("preemptor", "candidate"))
    (got,) = may_take(
        case["policy"], taker, np.array([giver.priority]), np.array([giver.created_s])
    ).tolist()
    expected = case["expected"]["may_preempt"]
    return "" if got == expected else f"expected {expected}, got {got}"


def target_queue_order(case: dict[str, Any]) -> str:
    """Compare the queues that the walk offers."""
    got, expected = queues_in_order(case, by_size=False), case["expected"]["order"]
    return "" if got == expected else f"expected {expected}, got {got}"


def queues_in_order(case: Mapping[str, Any], *, by_size: bool) -> list[str]:
    """Return the queues in the order in which the walk offers them."""
    tree = tree_of(case)
    taker = tree.queue(case["preemptor_cluster_queue"])
    wanted = set(case["candidate_cluster_queues"])
    some = [each for each in case["admitted"] if each["cluster_queue"] in wanted]
    lines = lines_of(tree, case, taker, some, by_size=by_size)
    holdings = tree.holdings(held_by(case["admitted"]))
    every = range(len(tree.pair))

    def key(queue: int, at: int) -> Key:
        return victim_key(tree.quotas.rows, taker, lines[queue][at], by_size=by_size)

    walk = Walk(holdings, taker, lines, contested=every, key=key)
    name = {row: name for name, row in tree.row.items()}
    got: list[str] = []
    while (queue := walk.next_queue()) >= 0:
        at = len(got)
        got.append(name[queue])
        if case["actions"][at : at + 1] == ["drop"]:
            walk.drop(queue)
        else:
            walk.step(queue)
        walk.changed(queue)
    return got


def entry_less(case: dict[str, Any]) -> str:
    """Compare which of two heads wins where they meet.

    Kueue calls a head that waits for its victims to end a preemptor. Here it is promised their
    room, and a cycle keeps promises before any order is asked for.
    """
    first, second = (_entry(case, case[side]) for side in ("a", "b"))
    got = first < second
    expected = case["expected"]["a_first"]
    return "" if got == expected else f"expected {expected}, got {got}"


def _entry(case: Mapping[str, Any], head: Mapping[str, Any]) -> Any:
    key = f"{head['namespace']}/{head['name']}"
    gates = case["feature_gates"]
    terms, borrowed = Terms(NOTHING, is_borrowing=False), []
    for each in case["shares"]:
        if each["workload"] == key:
            terms, borrowed = _terms(each), each["borrowed_on"]
    asked = {(it["flavor"], it["resource"]) for it in case["requested"].get(key, ())}
    on = {(it["Flavor"], it["Resource"]) for it in borrowed}
    entry = entry_of(
        terms,
        work_of(None, case, head),
        borrows=terms.is_borrowing
        and bool(asked & on)
        and gates.get("FairSharingPrioritizeNonBorrowing", True),
    )
    is_promised = head["is_preemptor"] and gates.get("PrioritizePreemptorWorkloads", False)
    return not is_promised, entry


def _terms(share: Mapping[str, Any]) -> Terms:
    weight = Fraction(1 if share["weight"] is None else str(share["weight"]))
    ratio = Fraction(str(share["unweighted_ratio"]))
    is_infinite = weight == 0 and share["borrowing"]
    value = ratio if not weight else ratio / weight
    exact = quotient(value.numerator, value.denominator)
    return Terms(Share(is_infinite, exact), share["borrowing"])


def held_by(works: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what workloads hold, an entry for each pair."""
    return [
        {**each, "cluster_queue": work["cluster_queue"]} for work in works for each in work["usage"]
    ]


def lines_of(
    tree: Tree,
    case: Mapping[str, Any],
    taker: int,
    works: Sequence[Mapping[str, Any]],
    *,
    by_size: bool,
) -> dict[int, list[Work]]:
    """Return workloads that may go, by queue, in order."""
    lines: dict[int, list[Work]] = {}
    for row, work in enumerate(works):
        made = work_of(tree, case, work, row)
        lines.setdefault(made.queue, []).append(made)
    for line in lines.values():
        line.sort(key=lambda it: victim_key(tree.quotas.rows, taker, it, by_size=by_size))
    return lines
