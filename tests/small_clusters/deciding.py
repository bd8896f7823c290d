"""Decides small clusters that are written as plain objects."""

import json
from typing import Any

from kaisched.engine.planning import plan, read_plan_input


def decided(tmp_path: Any, *objects: Any, rounds: int = 1) -> tuple[Any, ...]:
    """Return what is bound where, promised where, evicted, and why others wait."""
    file = tmp_path / "cluster.yaml"
    file.write_text("\n---\n".join(map(json.dumps, objects)), encoding="utf-8")
    cycles = plan(read_plan_input([str(file)]), rounds).cycles
    return (
        {it.pod: it.node for cycle in cycles for it in cycle.binds},
        {it.pod: it.node for cycle in cycles for it in cycle.nominations},
        {it.pod for cycle in cycles for it in cycle.evictions},
        {it.pod_group: it.reason for it in cycles[-1].records},
    )
