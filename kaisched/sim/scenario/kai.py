"""Reader of the YAML of KAI-Scheduler's own simulator of time-based fair share.

There, a cycle is one second, all jobs exist from the beginning and never end. KAI ignores
``Count`` of nodes; here it counts, as its name says.
"""

from __future__ import annotations

from typing import Any, Final

from kaisched.objects.wire import StrictWire
from kaisched.sim.scenario.findings import Findings

_CAPITALS: Final = {"gpus": "GPUs", "deserved_gpus": "DeservedGPUs", "k_value": "KValue"}


def _go(name: str) -> str:
    """Return a field's name as Go spells it."""
    return _CAPITALS.get(name) or "".join(word.capitalize() for word in name.split("_"))


class KaiNodes(StrictWire, frozen=True, kw_only=True, rename=_go):
    """Equal nodes."""

    gpus: int
    count: int = 1


class KaiQueue(StrictWire, frozen=True, kw_only=True, rename=_go):
    """A queue; an empty parent is the root."""

    name: str
    parent: str = ""
    priority: int = 100
    deserved_gpus: int | float = 0
    weight: int | float = 1


class KaiJobs(StrictWire, frozen=True, kw_only=True, rename=_go):
    """The jobs of one queue."""

    gpus: int | float
    num_pods: int = 1
    num_jobs: int = 1


class KaiSimulation(StrictWire, frozen=True, kw_only=True, rename=_go):
    """The whole file."""

    cycles: int = 100
    window_size: int = 5
    half_life_period: int = 0
    k_value: int | float = 1.0
    nodes: list[KaiNodes]
    queues: list[KaiQueue]
    jobs: dict[str, KaiJobs]


def is_kai(raw: dict[str, Any]) -> bool:
    """Recognize a file of KAI's simulator by its keys, which begin with capitals."""
    return any(key in KaiSimulation.__struct_encode_fields__ for key in raw)


def from_kai(raw: dict[str, Any], file: str) -> dict[str, Any]:
    """Convert the scenario to our format."""
    found = Findings(file)
    said: KaiSimulation | None = found.convert(raw, KaiSimulation)
    found.stop_if_any()
    assert said is not None
    found.number(said.cycles, "Cycles", least=1, most=10_000_000)
    found.number(said.window_size, "WindowSize", least=1, most=10_000_000)
    found.number(said.half_life_period, "HalfLifePeriod", most=10_000_000)
    for queue, jobs in said.jobs.items():
        if jobs.gpus > 1 and jobs.gpus % 1:
            fix = "write whole GPUs, or a number below 1 for a part of one"
            found.add("is not whole", "Jobs", queue, "GPUs", value=jobs.gpus, fix=fix)
    found.stop_if_any()
    # KAI's simulator knows the usage of each cycle.
    params: dict[str, Any] = {"windowSize": f"{said.window_size}s", "fetchInterval": "1s"}
    if said.half_life_period:
        params["halfLifePeriod"] = f"{said.half_life_period}s"
    return {
        "time": {"duration": f"{said.cycles}s", "step": "1s", "recheck": "1s"},
        "nodes": [
            {"name": f"node-{at + 1}", "count": nodes.count, "gpus": nodes.gpus}
            for at, nodes in enumerate(said.nodes)
        ],
        "queues": [
            {
                "name": queue.name,
                "parent": queue.parent,
                "priority": queue.priority,
                "quota": queue.deserved_gpus,
                "overQuotaWeight": queue.weight,
            }
            for queue in said.queues
        ],
        "jobs": [
            {
                "queue": queue,
                "arrivals": {"at": ["0s"], "each": jobs.num_jobs},
                "gpus": jobs.gpus if jobs.gpus % 1 else int(jobs.gpus),
                "pods": jobs.num_pods,
                "duration": "forever",
            }
            for queue, jobs in said.jobs.items()
        ],
        "shard": {
            "kValue": said.k_value,
            "usageDBConfig": {"clientType": "memory", "usageParams": params},
        },
    }
