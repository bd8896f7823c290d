"""Memory of GPUs in a scenario: how much nodes say theirs have, and how much jobs ask for."""

from __future__ import annotations

from collections.abc import Sequence

from kaisched.cluster.nodes import NodeRow
from kaisched.objects.wire import Amount
from kaisched.sim.scenario.findings import Findings, Step
from kaisched.units import MEBIBYTE, UnitError, memory_units

MOST_MIB = 1 << 30


def mib_of(amount: Amount | None, found: Findings, *path: Step) -> int:
    """Return whole MiB; 0 where nothing is written."""
    if amount is None:
        return 0
    try:
        mib = memory_units(amount, False) // MEBIBYTE
    except UnitError as error:
        found.add(str(error), *path, fix=error.fix)
        return 0
    if not 0 < mib <= MOST_MIB:
        fix = "write 1Mi or more, with a suffix, such as 20Gi"
        found.add("is no amount of memory of a GPU", *path, value=amount, fix=fix)
    return mib


def card_sizes(nodes: Sequence[NodeRow]) -> tuple[int, int]:
    """Return the MiB of the smallest and of the largest GPU of which nodes say it; else 0."""
    sizes = {row.card_mib for row in nodes if row.card_mib and row.allocatable.get("gpu")}
    return (min(sizes), max(sizes)) if sizes else (0, 0)
