"""Families that one function of the policy decides."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kaisched_plugins.fair_sharing.decide import decide
from kaisched_plugins.fair_sharing.order import entry_of
from kaisched_plugins.fair_sharing.share import NOTHING, Ratio, Share, Terms
from kaisched_plugins.fair_sharing.targets import Target, Walk, Why
from kaisched_plugins.fair_sharing.work import Work, line_key, may_take
from tests.conformance.kueue.tree import Tree, cohort_row, tree_of, work_of

INFINITE = (1 << 63) - 1
REASONS = {
    Why.OWN: "InClusterQueue",
    Why.RECLAIM: "InCohortReclamation",
    Why.RECLAIM_ABOVE: "InCohortFairSharing",
    Why.FAIR: "InCohortFairSharing",
}


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
        ceil = terms.share.per_mille()
        got = {
            "share_ceil": INFINITE if ceil is None else ceil,
            "resource": tree.resources[terms.resource] if terms.resource >= 0 else "",
            "borrowing": terms.is_borrowing,
        }
        wanted = {key: expected[key] for key in got}
        if got != wanted:
            told.append(f"{expected['node']}: expected {wanted}, got {got}")
    return "; ".join(told)


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
    queues = {case["preemptor_cluster_queue"]: 0}
    for each in case["candidates"]:
        queues.setdefault(each.get("cluster_queue", ""), len(queues))
    works = [
        work_of(None, case, each, row)._replace(queue=queues[each.get("cluster_queue", "")])
        for row, each in enumerate(case["candidates"])
    ]
    rows = tree_of({"cluster_queues": [{"name": str(row)} for row in range(len(queues))]})
    ordered = sorted(works, key=lambda it: line_key(rows.quotas.rows, 0, it, by_size=False))
    got = [case["candidates"][work.row]["name"] for work in ordered]
    expected = case["expected"]["order"]
    return "" if got == expected else f"expected {expected}, got {got}"


def preemption_policy(case: dict[str, Any]) -> str:
    """Compare who may preempt whom."""
    taker, giver = (work_of(None, case, case[side]) for side in ("preemptor", "candidate"))
    got = may_take(case["policy"], taker, giver)
    expected = case["expected"]["may_preempt"]
    return "" if got == expected else f"expected {expected}, got {got}"


def target_queue_order(case: dict[str, Any]) -> str:
    """Compare the queues that the walk offers."""
    tree = tree_of(case)
    taker = tree.queue(case["preemptor_cluster_queue"])
    wanted = set(case["candidate_cluster_queues"])
    lines = lines_of(tree, case, taker, lambda work: work["cluster_queue"] in wanted)
    holdings = tree.holdings(held_by(case["admitted"]))
    every = range(len(tree.pair))
    walk = Walk(holdings, taker, lines, contested=every, by_size=False)
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
    expected = case["expected"]["order"]
    return "" if got == expected else f"expected {expected}, got {got}"


def entry_less(case: dict[str, Any]) -> str:
    """Compare which of two heads wins where they meet."""
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
    return entry_of(
        terms,
        work_of(None, case, head),
        borrows=terms.is_borrowing
        and bool(asked & on)
        and gates.get("FairSharingPrioritizeNonBorrowing", True),
        is_preemptor=head["is_preemptor"] and gates.get("PrioritizePreemptorWorkloads", False),
    )


def _terms(share: Mapping[str, Any]) -> Terms:
    weight = Fraction(1 if share["weight"] is None else str(share["weight"]))
    ratio = Fraction(str(share["unweighted_ratio"]))
    is_infinite = weight == 0 and share["borrowing"]
    value = ratio if not weight else ratio / weight
    exact = Ratio(value.numerator, value.denominator)
    return Terms(Share(is_infinite, float(value), exact), share["borrowing"])


def fair_preemption(case: dict[str, Any]) -> str:
    """Compare victims and why each goes."""
    tree, targets = decided(case, is_guarded=False, by_size=False)
    return _differs(tree, targets, case)


def counterexamples(case: dict[str, Any]) -> str:
    """Compare what each of the two modes decides: as Kueue does, and what lasts."""
    tree, plain = decided(case, is_guarded=False, by_size=False)
    told = _differs(tree, plain, case)
    _, guarded = decided(case, is_guarded=True, by_size=True)
    got = sorted(case["admitted"][target.work.row]["key"] for target in guarded)
    if got != sorted(case["expected"]["strict"]):
        told += f"; guarded: expected {case['expected']['strict']}, got {got}"
    return told


def _differs(tree: Tree, targets: Sequence[Target], case: Mapping[str, Any]) -> str:
    del tree
    got = sorted((case["admitted"][it.work.row]["key"], REASONS[it.why]) for it in targets)
    expected = sorted((it["workload"], it["reason"]) for it in case["expected"]["preempted"])
    return "" if got == expected else f"expected {expected}, got {got}"


def decided(
    case: Mapping[str, Any], *, is_guarded: bool, by_size: bool
) -> tuple[Tree, list[Target]]:
    """Return whom the policy takes from for the incoming workload of a case."""
    tree = tree_of(case)
    incoming = incoming_of(tree, case)
    contested = sorted(
        {
            tree.pair[each["flavor"], each["resource"]]
            for each in case["assignment"]
            if each["mode"] == "Preempt"
        }
    )
    holdings = tree.holdings(held_by(case["admitted"]))
    preemption = tree.spec[case["incoming_cluster_queue"]]["preemption"]

    def is_victim(work: Mapping[str, Any]) -> bool:
        mine = work["cluster_queue"] == case["incoming_cluster_queue"]
        policy = preemption["within_cluster_queue" if mine else "reclaim_within_cohort"]
        it = work_of(tree, case, work)
        root = tree.quotas.rows.path(it.queue)[-1]
        return (
            may_take(policy, incoming, it)
            and any(at in contested for at, _ in it.ask)
            and (mine or holdings.is_over(it.queue, contested))
            and root == tree.quotas.rows.path(incoming.queue)[-1]
        )

    lines = lines_of(tree, case, incoming.queue, is_victim, by_size=by_size)
    before = [list(used) for used in holdings.used]
    found = decide(
        holdings,
        incoming,
        lines,
        contested,
        case["strategies"],
        is_guarded=is_guarded,
        by_size=by_size,
    )
    assert holdings.used == before
    return tree, found


def incoming_of(tree: Tree, case: Mapping[str, Any]) -> Work:
    """Return the incoming workload of a case, with the flavors that were chosen for it."""
    given = case["incoming"]
    asked = []
    for podset in given["podsets"]:
        for resource, amount in podset["requests"].items():
            (flavor,) = {
                each["flavor"]
                for each in case["assignment"]
                if each["podset"] == podset["name"] and each["resource"] == resource
            }
            whole = amount * podset["count"]
            asked.append({"flavor": flavor, "resource": resource, "amount": whole})
    queue = tree.queue(case["incoming_cluster_queue"])
    return work_of(tree, case, given, -1)._replace(queue=queue, ask=tree.ask(asked))


def held_by(works: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what workloads hold, an entry for each pair."""
    return [
        {**each, "cluster_queue": work["cluster_queue"]} for work in works for each in work["usage"]
    ]


def lines_of(
    tree: Tree, case: Mapping[str, Any], taker: int, is_one: Any, *, by_size: bool = False
) -> dict[int, list[Work]]:
    """Return the admitted workloads that may go, by queue, in order."""
    lines: dict[int, list[Work]] = {}
    for row, work in enumerate(case["admitted"]):
        if is_one(work):
            made = work_of(tree, case, work, row)
            lines.setdefault(made.queue, []).append(made)
    for line in lines.values():
        line.sort(key=lambda it: line_key(tree.quotas.rows, taker, it, by_size=by_size))
    return lines
