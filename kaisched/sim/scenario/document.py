"""A scenario file as it is written. Durations are texts such as ``90m``; GPUs are whole.

What each key means and when it may be left out is told in docs/reference/scenarios.md, which a
test compares with these structs.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kaisched.objects.wire import Amount, StrictWire

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Duration = str | int


class Time(StrictWire, frozen=True, kw_only=True):
    """The clock of the run."""

    duration: Duration
    """When it stops, or when nothing is submitted any more if it drains."""
    step: Duration = "1m"
    """The grid: what happens is rounded up to it."""
    recheck: Duration | None = None
    """While jobs wait, a cycle runs at least so often. Unless given, ten steps where decisions
    change with time alone (usage, minimum runtimes), else only when something happens."""
    starts_on: Day = "mon"
    """The weekday at time 0, which is midnight."""
    drain: bool = False
    """Whether the clock goes on until every job has ended."""


class Failures(StrictWire, frozen=True, kw_only=True):
    """Failures of each node by chance: exponential times."""

    mean_time_between: Duration
    mean_time_to_repair: Duration = "4h"


class Outage(StrictWire, frozen=True, kw_only=True):
    """A planned outage of some nodes of a group."""

    nodes: int = 1
    """How many, the first ones of the group."""
    at: Duration
    until: Duration | None = None
    """When they return; never unless given."""


class NodeGroup(StrictWire, frozen=True, kw_only=True):
    """Equal nodes, or the nodes of a trace."""

    name: str = "node"
    count: int = 1
    gpus: int = 0
    cpu: Amount | None = None
    memory: Amount | None = None
    labels: dict[str, str] = {}
    failures: Failures | None = None
    outages: list[Outage] = []
    trace: str = ""
    """Folder whose ``nodes.csv`` lists the nodes; then nothing else is given."""


class QueueLine(StrictWire, frozen=True, kw_only=True):
    """A queue in short: GPUs only. The words are those of the Queue object."""

    name: str
    parent: str = ""
    quota: int | float = 0
    limit: int | float = -1
    over_quota_weight: int | float | str = 1
    priority: int = 100
    preempt_min_runtime: Duration | None = None
    reclaim_min_runtime: Duration | None = None


class Arrivals(StrictWire, frozen=True, kw_only=True):
    """When jobs come: one of the first four."""

    poisson_per_hour: int | float | None = None
    every: Duration | None = None
    at: list[Duration] | None = None
    backlog: int | Literal["endless"] | None = None
    """So many jobs always wait, from the beginning; ``endless``: more than the cluster holds."""
    each: int = 1
    """Jobs that come at each instant."""
    begin: Duration = 0
    end: Duration | None = None


class Hours(StrictWire, frozen=True, kw_only=True):
    """Hours of the day and days of the week at which jobs come; nothing comes outside."""

    days: list[Day] = msgspec.field(default_factory=lambda: list(WEEK[:5]))
    begin: Duration = "9h"
    end: Duration = "17h"


class Size(StrictWire, frozen=True, kw_only=True):
    """One size of jobs, and how often it occurs beside the others."""

    gpus: int
    """Of each pod."""
    pods: int = 1
    share: int | float = 1


class Lognormal(StrictWire, frozen=True, kw_only=True):
    """Many short ones and few long ones."""

    median: Duration
    sigma: int | float = 1


class RunTime(StrictWire, frozen=True, kw_only=True):
    """How long jobs run, by chance: one of the first two."""

    exponential: Duration | None = None
    """The mean."""
    lognormal: Lognormal | None = None
    least: Duration = 0
    most: Duration | None = None


class JobGroup(StrictWire, frozen=True, kw_only=True):
    """Jobs of one queue that are made alike."""

    queue: str
    name: str = ""
    """Names its stream of chance; the queue and a number unless given."""
    arrivals: Arrivals
    count: int | None = None
    """The most jobs that come."""
    gpus: int = 1
    """Of each pod."""
    pods: int = 1
    """All of them run together, or none does."""
    sizes: list[Size] = []
    """Instead of gpus and pods."""
    cpu: Amount | None = None
    """Of each pod."""
    memory: Amount | None = None
    duration: Duration | RunTime
    """Or ``forever``."""
    hours: Hours | None = None
    priority: int = 50
    preemptible: bool = True
    checkpoint_every: Duration | None = None
    """Or ``never``; unless given, that of the scenario."""


class TraceLine(StrictWire, frozen=True, kw_only=True):
    """Jobs that really ran somewhere."""

    path: str
    """Folder or file, or the name of a bundled trace."""
    format: Literal["vc", "openb", "swf", "csv"] | None = None
    """Unless given, told from the files."""
    begin: Duration = 0
    """What was submitted before this instant of the trace is left out; this instant is time 0."""
    end: Duration | None = None
    queue: str = ""
    """All jobs go here; unless given, to the queues that the trace names."""
    queue_by: Literal["queue", "user", "group"] = "queue"
    """Column of an SWF file."""
    processors_per_gpu: int = 1
    """Of an SWF file, whose jobs have no GPUs."""
    quota: Literal["none", "published"] = "none"
    """GPU quotas of queues that come from the trace."""


class Usage(StrictWire, frozen=True, kw_only=True):
    """The usage history that cycles see. Instead of the shard's usageDBConfig."""

    half_life: Duration | None = None
    """No decay unless given."""
    window: Duration = "1w"
    window_type: Literal["sliding", "tumbling"] = "sliding"


class Tune(StrictWire, frozen=True, kw_only=True):
    """What ``kaisched tune`` tries: every combination of values."""

    parameters: dict[str, list[Any]]
    """Values by the path of a key of this file, such as ``shard.kValue`` or ``usage.halfLife``."""


class ScenarioDocument(StrictWire, frozen=True, kw_only=True):
    """The whole file."""

    name: str = ""
    description: str = ""
    seed: int = 1
    time: Time
    nodes: list[NodeGroup]
    queues: list[dict[str, Any]] = []
    """Each in short, or a whole Queue object."""
    jobs: list[JobGroup] = []
    traces: list[TraceLine] = []
    checkpoint_every: Duration = "1h"
    """Or ``never``: an evicted job then begins anew."""
    shard: dict[str, Any] | None = None
    """The spec of a SchedulingShard; the default policy unless given."""
    shard_file: str = ""
    usage: Usage | None = None
    tune: Tune | None = None
