"""Loader of scenario files: everything that a run needs except the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.pools.projects import Projects
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import GPU_UNIT
from kaisched.core.tables import TopologyLevel
from kaisched.engine.policy import default_shard
from kaisched.engine.shards import read_shard
from kaisched.errors import ConfigError, ObjectError
from kaisched.objects.labels import node_pool_of
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.text import TextFault, first_document
from kaisched.sim.arrivals import Backlog, Chance, Job
from kaisched.sim.pools import Lists
from kaisched.sim.replay import Outage
from kaisched.sim.scenario.document import WEEK, ScenarioDocument, Time, Tune, from_kai, is_kai
from kaisched.sim.scenario.findings import Findings
from kaisched.sim.scenario.jobs import (
    Frame,
    checkpoint_ticks,
    jobs_of,
    jobs_of_traces,
    queues_of_traces,
    read_traces,
)
from kaisched.sim.scenario.nodes import (
    Offered,
    Span,
    card_sizes,
    labelled,
    levels_of,
    nodes_of,
    outages_of,
)
from kaisched.sim.scenario.queues import (
    Pools,
    check_pools,
    leaves_of,
    lists_of,
    queues_in,
    queues_of,
    shards_of,
)
from kaisched.sim.ticks import FOREVER, SAMPLE_TICKS, Pace, tick_at
from kaisched.units import CLAIMED_GPU
from kaisched.usage.history import Window
from kaisched.usage.settings import UsageSettings, in_memory


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario to run. Its jobs are drawn already, except those of backlogs."""

    name: str
    file: str
    seed: int
    end_tick: int
    is_drained: bool
    pace: Pace
    nodes: Sequence[NodeRow]
    outages: Sequence[Outage]
    levels: tuple[TopologyLevel, ...]
    """Of its topology, the outermost first; none without one."""
    offered: Offered
    """Devices for claims."""
    queues: Sequence[QueueRow]
    """All queues of the tree."""
    leaves: Sequence[str]
    """Names of the queues that hold jobs, in the order of the file."""
    planned: Sequence[Job]
    backlogs: Sequence[Backlog]
    shard: SchedulingShard
    shard_file: str
    others: Sequence[SchedulingShard]
    """Shards of other node pools."""
    lists: Lists
    """The queues of projects in each node pool."""
    usage: UsageSettings | None
    """None if cycles see no history."""
    tune: Tune | None
    raw: dict[str, Any]
    """The file as plain values, for variants of the scenario."""
    warnings: Sequence[str]


MOST_BYTES: Final = 16 << 20
MOST_SEED: Final = (1 << 63) - 1
_RECHECK_STEPS: Final = 10
_YEARS: Final = (2018, 2019, 2025, 2026, 2021, 2022, 2023)
"""Common years that begin on Monday, Tuesday, and so on."""
_SAMPLES: Final = 2_000
"""Samples of the fair shares in a run: as many as a line of the report has points."""


def read_scenario(
    path: Path, *, seed: int | None = None, shard_file: Path | None = None
) -> Scenario:
    """Read a file; a seed and a shard given here replace its own.

    Raises:
        ScenarioError: the scenario has faults, all of which it holds.
        ConfigError: the file is missing or is not YAML.

    """
    raw = read_raw(path)
    if seed is not None:
        raw["seed"] = seed
    if shard_file is not None:
        raw.pop("shard", None)
        raw["shardFile"] = str(shard_file.resolve())
    return scenario_of(raw, path)


def read_raw(path: Path) -> dict[str, Any]:
    """Read a file as plain values in our format."""
    fix = "name a scenario file: config/scenarios has some, docs/reference/scenarios.md the format"
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot be read: {reason}", file=str(path), fix=fix) from None
    if len(data) > MOST_BYTES:
        raise ConfigError("larger than 16 MiB", file=str(path), fix="put jobs into a trace")
    try:
        raw, count = first_document(data)
    except TextFault as fault:
        where = f"{path}:{fault.line}" if fault.line else str(path)
        raise ConfigError(fault.message, file=where, fix=fault.fix) from None
    if raw is None:
        raise ConfigError("is empty", file=str(path), fix=fix)
    if isinstance(raw, dict) and {"apiVersion", "kind"} <= raw.keys():
        fix = "`kaisched plan -f` and `kaisched lint` read these"
        raise ConfigError("these are manifests, not a scenario", file=str(path), fix=fix)
    if count > 1:
        raise ConfigError(f"holds {count} documents", file=str(path), fix="name one scenario")
    if not isinstance(raw, dict):
        raise ConfigError("is not a mapping", file=str(path), fix='write "key: value" lines')
    return from_kai(raw, str(path)) if is_kai(raw) else raw


def scenario_of(raw: dict[str, Any], path: Path) -> Scenario:
    """Build the scenario from plain values; paths in it are relative to the file.

    Raises:
        ScenarioError: the scenario has faults, all of which it holds.

    """
    found = Findings(str(path))
    document = _document(raw, found)
    step_s, end_s = _clock(document.time, found)
    shard, shard_file = _shard(document, found, path.parent)
    work = _work(document, found, path.parent, (step_s, end_s), shard.least_share)
    if work.pools.shards:
        shard, shard_file = work.pools.shards[0], found.file
    usage = _usage(document, shard, found)
    checkpoint = checkpoint_ticks(document.checkpoint_every, found, step_s)
    if document.time.drain and (work.backlogs or any(job.ticks == FOREVER for job in work.planned)):
        fix = "leave drain out: a backlog and jobs without an end never end"
        found.add("would never end", "time", "drain", value=True, fix=fix)
    is_timed = any(it.patience is not None for it in document.jobs)
    is_timed |= any(_protects(it, work.queues) for it in (shard, *work.pools.shards))
    recheck = _recheck(document.time, found, step_s, is_wanted=usage is not None or is_timed)
    day = WEEK.index(document.time.starts_on)
    origin_s = 0.0 if usage is None else origin_of(usage.window, day)
    found.stop_if_any()
    return Scenario(
        name=document.name or path.stem,
        file=str(path),
        seed=document.seed,
        end_tick=tick_at(end_s, step_s),
        is_drained=document.time.drain,
        pace=Pace(step_s, checkpoint, _sample_ticks(end_s, step_s), recheck, origin_s),
        nodes=[row for row, _ in work.nodes],
        outages=outages_of(work.nodes, step_s),
        levels=work.levels,
        offered=work.offered,
        queues=work.queues,
        leaves=work.leaves,
        planned=work.planned,
        backlogs=work.backlogs,
        shard=shard,
        shard_file=shard_file,
        others=work.pools.shards[1:],
        lists=work.lists,
        usage=usage,
        tune=document.tune,
        raw=raw,
        warnings=tuple(found.warnings),
    )


def _document(raw: dict[str, Any], found: Findings) -> ScenarioDocument:
    document: ScenarioDocument | None = found.convert(raw, ScenarioDocument)
    found.stop_if_any()
    assert document is not None
    found.number(document.seed, "seed", most=MOST_SEED)
    return document


@dataclass(frozen=True, slots=True)
class _Work:
    """Nodes, queues and jobs of a scenario."""

    nodes: list[tuple[NodeRow, list[Span]]]
    levels: tuple[TopologyLevel, ...]
    offered: Offered
    queues: list[QueueRow]
    leaves: list[str]
    planned: list[Job]
    backlogs: list[Backlog]
    pools: Pools
    lists: Lists


def _work(
    document: ScenarioDocument,
    found: Findings,
    folder: Path,
    clock: tuple[float, float],
    least_share: int,
) -> _Work:
    step_s, end_s = clock
    chance = Chance(max(document.seed, 0))
    levels = levels_of(document.topology, found)
    if document.topology and document.shards:
        found.add("conflicts with shards", "topology", fix="leave out topology, or shards")
    offered = Offered()
    nodes = nodes_of(document.nodes, found, folder, chance, end_s, offered)
    if not found.errors:
        nodes = labelled(nodes, document.topology)
    gpus = [row.allocatable.get("gpu", 0) // GPU_UNIT for row, _ in nodes]
    claimed = sum(row.allocatable.get(CLAIMED_GPU, 0) for row, _ in nodes) // GPU_UNIT
    traced = read_traces(document.traces, found, folder)
    queues, objects = queues_of(document.queues, found)
    pools = _pools(document, objects, found)
    if document.queues_from:
        if document.queues:
            found.add("conflicts with queues", "queuesFrom", fix="keep one of the two")
        queues = queues_in(folder / document.queues_from, found)
    elif not document.queues:
        queues = queues_of_traces(traced, sum(gpus))
        if not queues and not found.errors:
            found.add("there are no queues", "queues", fix="write a list of queues")
    leaves = leaves_of(queues)
    frame = Frame(
        found=found,
        queues={name: at for at, name in enumerate(leaves)},
        step_s=step_s,
        end_s=end_s,
        first_day=WEEK.index(document.time.starts_on),
        gpus=sum(gpus) + claimed,
        offered=offered,
        most_gpus=max(gpus, default=0),
        card_mib=card_sizes([row for row, _ in nodes]),
        chance=chance,
        pools=pools,
        levels=[level.label for level in levels],
        least_share=pools.shards[0].least_share if pools.shards else least_share,
    )
    if not document.jobs and not document.traces:
        found.add("there are no jobs", "jobs", fix="write jobs, or traces")
    planned, backlogs = jobs_of(document.jobs, frame)
    planned += jobs_of_traces(traced, frame, max(gpus, default=0) or 1)
    lists = Lists()
    if pools.shards and not found.errors:
        check_pools(pools, [row for row, _ in nodes], queues, found)
        groups = enumerate(document.jobs)
        wanted = [(at, it.queue, pools.of_group(it, found.inside("jobs", at))) for at, it in groups]
        lists = lists_of(pools, queues, leaves, wanted, found)
    return _Work(nodes, levels, offered, queues, leaves, planned, backlogs, pools, lists)


def _pools(document: ScenarioDocument, queues: Sequence[Queue], found: Findings) -> Pools:
    projects = Projects()
    for queue in queues:
        projects.put(queue)
    pool_of_queue = {queue.name: node_pool_of(queue.metadata) for queue in queues}
    return Pools(shards_of(document, found), projects, pool_of_queue)


def _clock(time: Time, found: Findings) -> tuple[float, float]:
    step_s = found.seconds(time.step, "time", "step", least=1.0)
    end_s = found.seconds(time.duration, "time", "duration", least=step_s)
    if step_s % 1:
        found.add("is no whole number of seconds", "time", "step", value=time.step, fix="round it")
    return step_s, end_s


def _recheck(time: Time, found: Findings, step_s: float, *, is_wanted: bool) -> int:
    if time.recheck is None:
        return _RECHECK_STEPS if is_wanted else 0
    return tick_at(found.seconds(time.recheck, "time", "recheck"), step_s)


def _sample_ticks(end_s: float, step_s: float) -> int:
    ticks = tick_at(end_s, step_s)
    return max(ticks // _SAMPLES, 1) if ticks < SAMPLE_TICKS * _SAMPLES else SAMPLE_TICKS


def _shard(
    document: ScenarioDocument, found: Findings, folder: Path
) -> tuple[SchedulingShard, str]:
    if document.shard is not None and document.shard_file:
        found.add("conflicts with shard", "shardFile", fix="keep one of the two")
        return default_shard(), ""
    if document.shard_file:
        place = folder / document.shard_file
        try:
            read = read_shard(place)
        except (ConfigError, ObjectError) as error:
            found.add_error(error, "", *(() if error.path else ("shardFile",)))
            return default_shard(), ""
        found.warnings += read.warnings
        return read.shard, str(place)
    if document.shard is None:
        return default_shard(), ""
    shard = found.inside("shard").shard("scenario", document.shard)
    return (default_shard(), "") if shard is None else (shard, found.file)


def _protects(shard: SchedulingShard, queues: Sequence[QueueRow]) -> bool:
    """Tell whether the shard or a queue protects any job for a while after its start."""
    said = shard.spec.min_runtime
    by_queue = any(max(row.preempt_min_runtime_s, row.reclaim_min_runtime_s) > 0 for row in queues)
    by_plugin = bool(shard.spec.plugins.get("minruntime"))
    return by_queue or by_plugin or said != type(said)()


def _usage(
    document: ScenarioDocument, shard: SchedulingShard, found: Findings
) -> UsageSettings | None:
    said = document.usage
    if said is not None:
        half_life_s = None
        if said.half_life is not None:
            half_life_s = found.seconds(said.half_life, "usage", "halfLife", least=1.0)
        window_s = found.seconds(said.window, "usage", "window", least=1.0)
        return UsageSettings("memory", Window(said.window_type, window_s, half_life_s))
    config = shard.spec.usage_db_config
    if config is None:
        return None
    return in_memory(config.usage_params)  # whatever store the shard uses


def origin_of(window: Window, first_day: int) -> float:
    """Return the start of virtual time in seconds since 1970.

    A tumbling window begins with the run. Cron needs a calendar: a common year whose first of
    January is the weekday ``first_day``, 0 for Monday.
    """
    if window.type == "tumbling":
        return window.anchor_s
    if window.type == "cron":
        return datetime(_YEARS[first_day], 1, 1, tzinfo=UTC).timestamp()
    return 0.0
