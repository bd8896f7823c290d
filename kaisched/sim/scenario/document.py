"""Scenario file as written, ours or that of KAI-Scheduler's simulator of time-based fair share.

Durations are texts such as ``90m``; GPUs are whole. docs/reference/scenarios.md says what each key
means and which keys are optional; a test compares it with these structs.

KAI's simulator has a cycle each second; all jobs exist from the beginning and never end. KAI
ignores ``Count`` of nodes; here it counts, as its name says.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from kaisched.objects.queue import QueueNodeAffinity
from kaisched.objects.wire import Amount, StrictWire
from kaisched.sim.scenario.findings import Findings

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict


Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Duration = str | int
Attribute = bool | int | str


class Time(StrictWire, frozen=True, kw_only=True):
    """The clock of the run."""

    duration: Duration
    """End of the run; with drain, the end of submissions."""
    step: Duration = "1m"
    """Step of the grid to which times are rounded up."""
    recheck: Duration | None = None
    """Longest time between two cycles while jobs wait. By default ten steps if decisions change
    with time alone (usage, minimum runtimes), else no limit."""
    starts_on: Day = "mon"
    """Weekday at time 0, which is midnight."""
    drain: bool = False
    """Whether the run goes on until every job has ended."""


class Failures(StrictWire, frozen=True, kw_only=True):
    """Random failures of each node, at exponential times."""

    mean_time_between: Duration
    mean_time_to_repair: Duration = "4h"


class Outage(StrictWire, frozen=True, kw_only=True):
    """A planned outage of some nodes of a group."""

    nodes: int = 1
    """Number of nodes, from the beginning of the group."""
    at: Duration
    until: Duration | None = None
    """Time of the return; never by default."""


class DeviceLine(StrictWire, frozen=True, kw_only=True):
    """Devices of each node of a group, which claims ask for, in place of GPUs."""

    class_: str = msgspec.field(name="class")
    count: int = 1
    attributes: dict[str, Attribute | list[Attribute]] = {}
    """One value for all devices, or a list with one for each."""
    capacity: dict[str, Amount | list[Amount]] = {}


class NodeGroup(StrictWire, frozen=True, kw_only=True):
    """Equal nodes, or the nodes of a trace."""

    name: str = "node"
    count: int = 1
    gpus: int = 0
    devices: DeviceLine | None = None
    gpu_memory: Amount | None = None
    """Memory of each GPU."""
    cpu: Amount | None = None
    memory: Amount | None = None
    labels: dict[str, str] = {}
    pool: str = ""
    """Node pool; by default that of the labels."""
    failures: Failures | None = None
    outages: list[Outage] = []
    trace: str = ""
    """Folder whose ``nodes.csv`` lists the nodes; excludes all other keys."""


class LevelLine(StrictWire, frozen=True, kw_only=True):
    """A level of the topology: so many nodes, next to each other in the file, are in a domain."""

    level: str
    nodes: int


class QueueLine(StrictWire, frozen=True, kw_only=True):
    """A queue in short form, with GPUs only. Keys are those of the Queue object."""

    name: str
    parent: str = ""
    pool: str = ""
    """Node pool; by default that of the nodes without one."""
    project: str = ""
    """Name that the queues of one project in several node pools share."""
    node_pools: list[str] = []
    """Node pools for its jobs that name none themselves, the first to be tried in front."""
    node_affinity: list[QueueNodeAffinity] = []
    """Where its jobs may be placed, by type of workload."""
    quota: int | float = 0
    limit: int | float = -1
    over_quota_weight: int | float | str = 1
    priority: int = 100
    preempt_min_runtime: Duration | None = None
    reclaim_min_runtime: Duration | None = None


class Arrivals(StrictWire, frozen=True, kw_only=True):
    """Arrivals of jobs, by exactly one of the first four keys."""

    poisson_per_hour: int | float | None = None
    every: Duration | None = None
    at: list[Duration] | None = None
    backlog: int | Literal["endless"] | None = None
    """Number of jobs that always wait, from the beginning; ``endless``: more than fit."""
    each: int = 1
    """Jobs that arrive at each instant."""
    begin: Duration = 0
    end: Duration | None = None


class Hours(StrictWire, frozen=True, kw_only=True):
    """Hours of the day and days of the week at which jobs arrive."""

    days: list[Day] = msgspec.field(default_factory=lambda: list(WEEK[:5]))
    begin: Duration = "9h"
    end: Duration = "17h"


class Size(StrictWire, frozen=True, kw_only=True):
    """One size of jobs, and its frequency relative to the others."""

    gpus: int | float | None = None
    """GPUs of each pod; below 1 a part of one."""
    gpu_memory: Amount | None = None
    """Memory of a GPU that each pod asks for instead."""
    cards: int = 1
    """Different GPUs of its node that each pod has such a part of."""
    pods: int = 1
    share: int | float = 1


class ClaimLine(StrictWire, frozen=True, kw_only=True):
    """Devices that each pod claims, in place of GPUs."""

    class_: str = msgspec.field(name="class")
    count: int = 1
    selector: str = ""
    """Expression of CEL that each of the devices must meet."""
    same_attribute: str = ""
    """Attribute of which all of them have the same value."""


class Lognormal(StrictWire, frozen=True, kw_only=True):
    """Lognormal run times: many short and few long ones."""

    median: Duration
    sigma: int | float = 1


class RunTime(StrictWire, frozen=True, kw_only=True):
    """Random run times, by one of the first two keys."""

    exponential: Duration | None = None
    """The mean."""
    lognormal: Lognormal | None = None
    least: Duration = 0
    most: Duration | None = None


class JobGroup(StrictWire, frozen=True, kw_only=True):
    """Jobs of one queue with common parameters."""

    queue: str
    name: str = ""
    """Names the random stream; by default the queue and a number."""
    arrivals: Arrivals
    count: int | None = None
    """Most jobs that arrive."""
    gpus: int | float | None = None
    """GPUs of each pod, 1 by default; below 1 a part of one."""
    gpu_memory: Amount | None = None
    """Memory of a GPU that each pod asks for instead."""
    cards: int = 1
    """Different GPUs of its node that each pod has such a part of."""
    pods: int = 1
    """Pods of each job, which run together or not at all."""
    pools: list[str] = []
    """Node pools, the first to be tried in front; by default those of the queue."""
    independent: bool = False
    """Whether each pod is a job of its own instead."""
    sizes: list[Size] = []
    """Alternative to gpus and pods."""
    claim: ClaimLine | None = None
    """Alternative to gpus."""
    cpu: Amount | None = None
    """Amounts of each pod."""
    memory: Amount | None = None
    duration: Duration | RunTime
    """Or ``forever``."""
    hours: Hours | None = None
    priority: int = 50
    preemptible: bool = True
    required_level: str = ""
    preferred_level: str = ""
    patience: Duration | None = None
    """How long they wait for one domain of the level that they prefer."""
    checkpoint_every: Duration | None = None
    """A duration, or ``never``; by default that of the scenario."""


class TraceLine(StrictWire, frozen=True, kw_only=True):
    """Jobs of a trace."""

    path: str
    """Folder or file, or the name of a bundled trace."""
    format: Literal["vc", "openb", "swf", "csv"] | None = None
    """Format; by default derived from the files."""
    begin: Duration = 0
    """Instant of the trace that becomes time 0; earlier jobs are left out."""
    end: Duration | None = None
    queue: str = ""
    """Queue of all jobs; by default the queues that the trace names."""
    queue_by: Literal["queue", "user", "group"] = "queue"
    """Column of an SWF file."""
    processors_per_gpu: int = 1
    """Processors per GPU in an SWF file, whose jobs have no GPUs."""
    quota: Literal["none", "published"] = "none"
    """GPU quotas of queues that come from the trace."""


class Usage(StrictWire, frozen=True, kw_only=True):
    """Usage history for the cycles, in place of the shard's usageDBConfig."""

    half_life: Duration | None = None
    """Half-life; no decay by default."""
    window: Duration = "1w"
    window_type: Literal["sliding", "tumbling"] = "sliding"


class Tune(StrictWire, frozen=True, kw_only=True):
    """Parameters that ``kaisched tune`` varies: every combination of values is tried."""

    parameters: dict[str, list[Any]]
    """Values by the path of a key of this file, such as ``shard.kValue`` or ``usage.halfLife``."""


class ScenarioDocument(StrictWire, frozen=True, kw_only=True):
    """The whole file."""

    name: str = ""
    description: str = ""
    seed: int = 1
    time: Time
    nodes: list[NodeGroup]
    topology: list[LevelLine] = []
    """Levels of the only topology, the outermost first."""
    queues: list[dict[str, Any]] = []
    """Each in short form, or a whole Queue object."""
    queues_from: str = ""
    """File or folder of manifests with Queues, or with Kueue's ClusterQueues and Cohorts."""
    jobs: list[JobGroup] = []
    traces: list[TraceLine] = []
    checkpoint_every: Duration = "1h"
    """A duration, or ``never``: an evicted job then starts again from nothing."""
    shard: dict[str, Any] | None = None
    """Spec of a SchedulingShard; the default policy if absent."""
    shard_file: str = ""
    shards: list[dict[str, Any]] = []
    """Instead: the spec of a SchedulingShard for each node pool."""
    usage: Usage | None = None
    tune: Tune | None = None


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
