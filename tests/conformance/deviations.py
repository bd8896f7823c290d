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

from tests.conformance.kai_remainders import play_case

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


def asks_a_malformed_argument(case: dict[str, Any]) -> bool:
    """Tell whether a plugin is given an argument that is no number where one is wanted."""
    if case.get("kind") != "plugin_arguments":
        return False
    given = [
        arguments
        for stated in case["expected"]
        if stated["of"].endswith("Arguments")
        for arguments in stated["value"]
    ]
    return any(not _is_number(value) for arguments in given for value in arguments.values())


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def rounds_a_lower_priority_up(case: dict[str, Any]) -> bool:
    """Tell whether KAI's rule gives what rounding left over to a lower priority."""
    return _is_division(case) and any(it.leaks_to_lower_priority for it in play_case(case))


def rounds_above_the_request(case: dict[str, Any]) -> bool:
    """Tell whether KAI's rule gives a queue more than it asked for."""
    return _is_division(case) and any(it.exceeds_request for it in play_case(case))


def _is_division(case: dict[str, Any]) -> bool:
    return case.get("kind") in {"fair_share", "hierarchy_fair_share"}


PREDICATES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "asks_a_malformed_argument": asks_a_malformed_argument,
    "rounds_a_lower_priority_up": rounds_a_lower_priority_up,
    "rounds_above_the_request": rounds_above_the_request,
}
