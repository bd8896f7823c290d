"""Runs of scenarios that are compared, each of which another machine may carry out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kaisched.sim.machines import heed
from kaisched.sim.output.files import Result, result_of
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.setup import Scenario


@dataclass(frozen=True, slots=True)
class Order:
    """A run that another machine carries out."""

    scenario: Scenario
    actions: Sequence[str] | None
    """The only actions to run; None for those of the scenario."""
    is_checked: bool
    """Whether each cycle is checked for broken invariants."""


def carry_out(order: Order) -> tuple[Result, float]:
    """Run a scenario on a worker; return its result, and the seconds that it took."""
    began = time.perf_counter()
    policy, _ = policy_of(order.scenario, order.actions)
    run = run_scenario(
        order.scenario, policy, heed, actions=order.actions, is_checked=order.is_checked
    )
    return result_of(run), time.perf_counter() - began
