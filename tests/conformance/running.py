"""Runs cases and judges them: pass, deviation by a named rule, or fail."""

import traceback
from typing import Any

from tests.conformance import scheduling
from tests.conformance.comparing import NODE
from tests.conformance.deviations import rule_for
from tests.conformance.keys import unknown_keys
from tests.conformance.kinds import JUDGES
from tests.conformance.outcome import NotBuiltError, Outcome
from tests.conformance.reading import outcome_of


def run(case: dict[str, Any]) -> Outcome:
    """Run one case. An exception is a failure of that case, never of the run."""
    try:
        told = _unit(case) if case["mode"] == "unit" else _scheduling(case)
    except NotBuiltError as missing:
        return outcome_of(case, "fail", f"not built: {missing}")
    except Exception as error:  # noqa: BLE001 - the other cases are still to be run
        where = traceback.extract_tb(error.__traceback__)[-1]
        note = f"{where.filename}:{where.lineno}"
        return outcome_of(case, "fail", f"error: {type(error).__name__}: {error}", note)
    if not told:
        return outcome_of(case, "pass")
    rule = None if case.get("is_family") else rule_for(case)  # the rules are those of the default
    if rule is not None:
        return outcome_of(case, "deviation", rule.name, told)
    if told.startswith(NODE + ":"):
        return outcome_of(case, "fail", NODE, told.removeprefix(NODE + ": "))
    return outcome_of(case, "fail", told)


def _scheduling(case: dict[str, Any]) -> str:
    """Judge a scheduling case.

    Raises:
        ValueError: a key is unknown, which may change what is right.

    """
    unknown = unknown_keys(case)
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)}")
    return scheduling.judge(case)


def _unit(case: dict[str, Any]) -> str:
    """Judge what a unit case asks; where it asks several things, all must agree."""
    for entry in case.get("asked") or [case]:
        kind = entry.get("kind", case["kind"])
        if kind not in JUDGES:
            raise NotBuiltError(f"kind {kind}")
        if told := JUDGES[kind]({**case, **entry}):
            return told
    return ""
