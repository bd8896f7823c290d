"""Deliberate differences, each recognised by a predicate on what a case contains, never on its id.

The list is deviations.json beside this file, told at length in
docs/explanation/differences-from-kai.md. A case to which a predicate applies, but on which we
agree, is a pass.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kaisched.units import UnitError, parse_duration
from tests.conformance import evictions
from tests.conformance.amounts import ROWS
from tests.conformance.kai_remainders import UNLIMITED, play_case

LIST = Path(__file__).with_name("deviations.json")


@dataclass(frozen=True)
class Rule:
    """One deliberate difference."""

    name: str
    predicate: str
    reason: str

    def applies_to(self, case: dict[str, Any]) -> bool:
        """Tell whether the case is one that the rule is about."""
        return PREDICATES[self.predicate](case)


@cache
def rules() -> tuple[Rule, ...]:
    """Return the list."""
    return tuple(Rule(**entry) for entry in json.loads(LIST.read_text(encoding="utf-8")))


def rule_for(case: dict[str, Any]) -> Rule | None:
    """Return the first rule that the case is about."""
    return next((rule for rule in rules() if rule.applies_to(case)), None)


def asks_an_argument_that_cannot_be(case: dict[str, Any]) -> bool:
    """Tell whether a plugin is given an argument that makes no sense, or out of its range."""
    if case.get("kind") == "min_runtime":
        return any(_is_no_duration(entry) for entry in case.get("asked") or [case])
    if case.get("kind") != "plugin_arguments":
        return False
    given = [
        arguments
        for stated in case["expected"]
        if stated["of"].endswith("Arguments")
        for arguments in stated["value"]
    ]
    return any(not _can_be(*item) for arguments in given for item in arguments.items())


def _is_no_duration(entry: dict[str, Any]) -> bool:
    if entry.get("function") != "parse":
        return False
    try:
        parse_duration(entry["input"]["text"])
    except UnitError:
        return True
    return False


def _can_be(name: str, text: Any) -> bool:
    try:
        number = float(text)
    except (TypeError, ValueError):
        return False
    return number >= (1 if name.endswith("Multiplier") else 0)


def serves_an_over_utilised_queue(case: dict[str, Any]) -> bool:
    """Tell whether a queue is above its share of all that it holds, but not of all there is."""
    if case.get("kind") != "queue_order":
        return evictions.spares_an_over_utilised_queue(case)
    return any(_is_over_in_what_it_holds(case["input"][side]) for side in ("left", "right"))


def _is_over_in_what_it_holds(queue: dict[str, Any]) -> bool:
    shares = [queue[name] for name in ROWS]
    held = [share for share in shares if share["allocated"] > 0]
    above = [share["allocated"] > share["fair_share"] != UNLIMITED for share in held]
    return bool(held) and all(above) and len(held) < len(shares)


def rounds_a_lower_priority_up(case: dict[str, Any]) -> bool:
    """Tell whether KAI's rule gives what rounding left over to a lower priority."""
    return _is_division(case) and any(it.leaks_to_lower_priority for it in play_case(case))


def rounds_above_the_request(case: dict[str, Any]) -> bool:
    """Tell whether KAI's rule gives a queue more than it asked for."""
    return _is_division(case) and any(it.exceeds_request for it in play_case(case))


def _is_division(case: dict[str, Any]) -> bool:
    return case.get("kind") in {"fair_share", "hierarchy_fair_share"}


RESERVATION = "kai-resource-reservation"
"""Label ``app`` of the pods with which KAI reserves a GPU to be shared."""


def counts_reservation_pods(case: dict[str, Any]) -> bool:
    """Tell whether reservation pods run on the node whose resources are divided."""
    if case.get("kind") != "node_resources_for_division":
        return False
    return any(pod["labels"].get("app") == RESERVATION for pod in case["input"]["pods"])


def reclaims_beside_a_passed_share(case: dict[str, Any]) -> bool:
    """Tell whether the queue is over its share of something that its claim does not ask for."""
    if case.get("kind") != "can_reclaim":
        return False
    claim = case["input"]["reclaimer"]
    queue = next(queue for queue in case["input"]["queues"] if queue["id"] == claim["queue"])
    return any(
        not claim["required"][name] and queue[name]["allocated"] > queue[name]["fair_share"]
        for name in ROWS
        if queue[name]["fair_share"] != UNLIMITED
    )


def takes_less_than_the_multiplier(case: dict[str, Any]) -> bool:
    """Tell whether a queue that loses is over its share, but not by the multiplier."""
    if case.get("kind") != "reclaimable":
        return False
    queues = {queue["id"]: queue for queue in case["input"]["queues"]}
    rows = {row for leaf in case["input"]["reclaimed_by_queue"] for row in _path(queues, leaf)}
    factor = case["input"]["saturation_multiplier"]
    shares = [queues[row][name] for row in rows for name in ROWS]
    return any(
        _left_to(share) < share["allocated"] <= _left_to(share) * factor
        for share in shares
        if _left_to(share) != UNLIMITED
    )


def _left_to(share: dict[str, Any]) -> float:
    """Return the allocatable share: the larger of quota and fair share, capped by the limit."""
    limit, deserved = share["max_allowed"], share["deserved"]
    if deserved == UNLIMITED:
        return float(limit)
    most = max(deserved, share["fair_share"])
    return float(most if limit == UNLIMITED else min(most, limit))


def takes_from_its_own_side_too(case: dict[str, Any]) -> bool:
    """Tell whether a claim takes from its own branch as well as from another one."""
    if case.get("kind") != "reclaimable":
        return False
    queues = {queue["id"]: queue for queue in case["input"]["queues"]}
    mine = set(_path(queues, case["input"]["reclaimer"]["queue"]))
    shared = {
        frozenset(mine & set(_path(queues, leaf))) for leaf in case["input"]["reclaimed_by_queue"]
    }
    return len(shared) > 1


def _path(queues: dict[str, Any], leaf: str | None) -> list[str]:
    path = []
    while leaf and leaf in queues:
        path.append(leaf)
        leaf = queues[leaf]["parent"]
    return path


PREDICATES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "asks_an_argument_that_cannot_be": asks_an_argument_that_cannot_be,
    "counts_reservation_pods": counts_reservation_pods,
    "evicts_the_larger": evictions.evicts_the_larger,
    "grants_what_waits": evictions.grants_what_waits,
    "leaves_less_than_the_quota": evictions.leaves_less_than_the_quota,
    "moves_a_part_of_a_gang": evictions.moves_a_part_of_a_gang,
    "moves_the_larger": evictions.moves_the_larger,
    "moves_work_within_its_share": evictions.moves_work_within_its_share,
    "reclaims_beside_a_passed_share": reclaims_beside_a_passed_share,
    "rounds_a_lower_priority_up": rounds_a_lower_priority_up,
    "rounds_above_the_request": rounds_above_the_request,
    "serves_an_over_utilised_queue": serves_an_over_utilised_queue,
    "takes_from_its_own_side_too": takes_from_its_own_side_too,
    "takes_less_than_the_multiplier": takes_less_than_the_multiplier,
}
