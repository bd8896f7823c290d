"""Cycles that commands run on a copy of a state: of manifests, a recording or a cluster.

The daemon's own cycle runs in this process; the documents are those that a live view would serve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kaisched.cli.options import Given, Place, client_of
from kaisched.cli.printing import warn
from kaisched.cli.when import forecasts_of, when_document
from kaisched.clock import SystemClock
from kaisched.daemon import recordings
from kaisched.daemon.recordings import Taken
from kaisched.engine.edits import with_shard
from kaisched.engine.planning import (
    OUR_NAMES,
    Plan,
    PlanInput,
    cycles_in_pools,
    failures_of,
    plan,
    read_plan_input,
)
from kaisched.engine.recording import read_recording, replay
from kaisched.engine.shards import read_shard
from kaisched.errors import ConfigError
from kaisched.framework.advice.advice import sentence_of
from kaisched.framework.advice.search import Adviser
from kaisched.framework.report.result import CycleResult
from kaisched.framework.report.turns import Turns
from kaisched.view import jobs, nodes
from kaisched.view.paths import Part
from kaisched.view.publisher import Publisher, Told
from kaisched.view.queues import (
    PoolQueues,
    Projects,
    overview_document,
    queues_document,
    row_of_queue,
)
from kaisched.view.reading import ALL, Reading

_OF_JOBS: Final = ("time", "hidden", "reasons", "jobs")
_OF_SERVER: Final = frozenset({"shard", "revision", "since", "complete"})
"""Fields of a document that tell of a running scheduler."""


class Cycle(NamedTuple):
    """A cycle on a copy of a state."""

    result: CycleResult
    warnings: list[str]
    problems: list[str]
    """What is wrong with objects that were left out, and with plugins that failed."""
    objects: Sequence[object] = ()
    """Those that the state was made of, the ended pods among them."""
    schedulers: Sequence[str] = ()
    """Scheduler names whose pods are ours."""
    shard: str = ""
    projects: Projects | None = None
    """Those of the node pools of all shards among manifests; None where there is one shard."""

    def warn(self) -> None:
        """Print everything to standard error."""
        for text in (*self.warnings, *self.problems):
            warn(text)

    def with_failures(self) -> Cycle:
        """Return the cycle with the failures of plugins and actions among its problems."""
        failures = failures_of([self.result])
        warnings = [text for text in self.warnings if text not in failures]
        if abandoned := self.result.stats.abandoned:
            failures.append(f"the cycle was abandoned: {abandoned}")
        return self._replace(warnings=warnings, problems=[*self.problems, *failures])


def cycle_of(place: Place) -> Cycle:
    """Read a state and run a cycle on it.

    Raises:
        KaischedError: the state cannot be read, or its shard is wrong.

    """
    _check(place)
    if place.files:
        what = read_plan_input(place.files, place.shard)
        planned = plan(what)
        return _planned(what, planned, planned.cycles[0])
    recording, warnings, problems = recorded(place)
    again = replay(recording, str(place.snapshot or ""))
    if place.snapshot is not None:
        warnings = [*warnings, *again.warnings]
        problems = list(map(str, again.problems))
    names = recording.scheduler_names
    return Cycle(again.result, warnings, problems, again.objects, names).with_failures()


def _planned(what: PlanInput, planned: Plan, result: CycleResult) -> Cycle:
    problems = list(map(str, planned.problems))
    cycle = Cycle(result, planned.warnings, problems, what.loaded.objects, OUR_NAMES)
    return cycle.with_failures()


def cycle_in_pools(place: Place, *, job: str = "", queue: str = "") -> Cycle:
    """Let each shard among manifests have a cycle; choose that of a job, a pod or a queue.

    Raises:
        KaischedError: the files cannot be read, a shard is wrong, or there is no such queue.

    """
    what = read_plan_input(place.files, is_one=False)
    planned = cycles_in_pools(what)
    results = {step.shard: step.result for step in planned.steps}
    among = results
    if place.shard_name:
        if place.shard_name not in results:
            known = f"known: {', '.join(results)}"
            value = place.shard_name
            raise ConfigError("no such shard", path="--shard-name", value=value, fix=known)
        among = {place.shard_name: results[place.shard_name]}
    first = next(iter(among))
    name = next((name for name, it in among.items() if _has(it, job, queue)), first)
    cycle = _planned(what, planned, results[name])
    return cycle._replace(shard=name, projects=_projects(what, results))


def _has(result: CycleResult, job: str, queue: str) -> bool:
    if queue:
        return any(share.name == queue for share in result.shares)
    try:
        CycleView(Cycle(result, [], [])).row_of_job(job)
    except ConfigError:
        return False
    return True


def _projects(what: PlanInput, results: Mapping[str, CycleResult]) -> Projects | None:
    if not what.others:
        return None
    shards = [what.shard, *(shard for shard, _ in what.others)]
    return Projects(
        PoolQueues(
            shard.name,
            shard.spec.partition_label_value,
            results[shard.name].shares,
            results[shard.name].records.session.queues.labels,
        )
        for shard in shards
    )


class CycleView:
    """The documents of a cycle in this process: those that a live view would serve."""

    def __init__(self, cycle: Cycle) -> None:
        """Take the view of the cycle."""
        self.cycle = cycle
        session, publisher = cycle.result.records.session, Publisher(cycle.shard)
        publisher.take(
            cycle.result, cycle=1, time_s=session.now_s, duration_s=0.0, usage=session.usage
        )
        assert publisher.view is not None
        self._reading = Reading(publisher.view, has_ended=True)

    @property
    def problems(self) -> list[str]:
        """What is wrong with objects that were left out, and with plugins that failed."""
        return self.cycle.problems

    def row_of_job(self, name: str) -> int:
        """Return the row of a job, by its own name, that of one of its pods, or of its workload.

        Raises:
            ConfigError: there is none, or there are several.

        """
        return jobs.row_of_job(self._reading, name)

    def why(self, name: str, *, foreseen_in_s: float = 0.0) -> dict[str, Any]:
        """Return everything about a job, by its name or that of a pod.

        In ``foreseen_in_s`` of real time it is foreseen when the job starts; 0 leaves that out.
        """
        row = self.row_of_job(name)
        told = self._told([row], Adviser(self.cycle.result))
        document = jobs.job_document(self._reading, row, ALL, told)
        if foreseen_in_s:
            document["when"] = self._foreseen([row], foreseen_in_s).get(row)
        return {key: it for key, it in document.items() if key not in _OF_SERVER}

    def _foreseen(self, rows: list[int] | None, most_s: float) -> dict[int, dict[str, Any]]:
        """Return the forecasts of jobs that wait, of all of them where none are named."""
        cycle = self.cycle
        found = forecasts_of(cycle.result, rows, cycle.objects, cycle.schedulers, most_s)
        return {row: when_document(it) for row, it in found.items()}

    def jobs(self, wanted: Mapping[str, str], *, foreseen_in_s: float = 0.0) -> dict[str, Any]:
        """Return the jobs that match; ``wanted`` has the parameters of the live view.

        In ``foreseen_in_s`` of real time it is foreseen when they start; 0 leaves that out.
        """
        reading, filters = self._reading, dict(wanted)
        queue = filters.pop("queue")
        row, part = row_of_queue(reading, queue) if queue else -1, Part(0, len(reading.code))
        document = jobs.jobs_document(reading, jobs.Wanted(row, part=part, **filters), ALL, {})
        made = {"schemaVersion": "kaisched.io/jobs/v1", **{it: document[it] for it in _OF_JOBS}}
        if foreseen_in_s:
            names, found = reading.snapshot.jobs.name, self._foreseen(None, foreseen_in_s)
            # What is assumed is the same for all.
            assumptions = [it.pop("assumptions") for it in found.values()]
            of_job = {names[at]: it for at, it in found.items()}
            for entry in made["jobs"]:
                entry["when"] = of_job.get(entry["podGroup"])
            made["assumptions"] = assumptions[0] if assumptions else []
        return made

    def queues(self, name: str | None) -> dict[str, Any]:
        """Return all queues, or one with those around it and the jobs that wait below it."""
        queues, waiting = self.queues_around(name)["queues"], []
        if name is not None:
            reading = self._reading
            rows = reading.view.waiting.rows.tolist()
            part = Part(0, len(reading.snapshot.jobs.name))
            wanted = jobs.Wanted(row_of_queue(reading, name), state="waiting", part=part)
            waiting = jobs.jobs_document(reading, wanted, ALL, self._told(rows))["jobs"]
        return {"schemaVersion": "kaisched.io/queues/v1", "queues": queues, "jobs": waiting}

    def queues_around(self, name: str | None) -> dict[str, Any]:
        """Return all queues, or one with those above and below it."""
        return queues_document(self._reading, name, self.cycle.projects)

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield the entry of each node, by name."""
        part = Part(0, max(len(self._reading.snapshot.nodes), 1))
        yield from nodes.nodes_document(self._reading, nodes.Wanted(part=part), ALL)["nodes"]

    def usage(self) -> dict[str, Any] | None:
        """Return how reliable the usage history is; None without one."""
        made: dict[str, Any] | None = overview_document(self._reading)["usage"]
        return made

    def _told(self, rows: list[int], adviser: Adviser | None = None) -> dict[str, Told]:
        """Return what the session tells of jobs that wait, with advice if it is tried."""
        records, turns = self.cycle.result.records, Turns(self.cycle.result)
        told: dict[str, Told] = {}
        for row in rows:
            if self._reading.code[row]:
                record = records.record(row)
                advice = () if adviser is None else adviser.record(row).advice
                said = sentence_of(advice, ahead=partial(turns.ahead_of, row))
                told[record.pod_group] = Told(record, advice, said, turns.document(row))
        return told


def recorded(place: Place) -> Taken:
    """Read a state as the recording of its next cycle.

    Raises:
        KaischedError: the state cannot be read, or its shard is wrong.

    """
    _check(place)
    if place.snapshot is not None:
        return _by_its_shard(place, Taken(read_recording(place.snapshot), [], []))
    return _by_its_shard(place, taken(place))


def _by_its_shard(place: Place, found: Taken) -> Taken:
    """Replace the shard of a recording that was made by another one, if one is named."""
    if place.shard is None or (place.snapshot is None and not place.daemon):
        return found  # manifests and clusters are recorded by the named shard already
    shard = read_shard(place.shard)
    recording = with_shard(found.recording, shard.shard, shard.file)
    return found._replace(recording=recording, warnings=[*found.warnings, *shard.warnings])


def _check(place: Place) -> None:
    if sum(map(bool, (place.files, place.snapshot, place.daemon))) > 1:
        message = "-f, --snapshot and --daemon name several sources"
        raise ConfigError(message, fix="give one of them")


def taken_by_own_shard(place: Place) -> Taken:
    """Record a state by its own shard, to keep it.

    Raises:
        KaischedError: the state cannot be read, or another shard is named for a running scheduler.

    """
    if place.daemon and place.shard is not None:
        fix = "leave it out; `kaisched snapshot replay --shard` tries another one"
        raise ConfigError("a running scheduler has a shard of its own", path="--shard", fix=fix)
    return taken(place)


def taken(place: Place) -> Taken:
    """Record the state of manifests, a running scheduler or a cluster.

    Raises:
        KaischedError: the state cannot be read.

    """
    if place.files and place.daemon:
        raise ConfigError("-f and --daemon name two sources", fix="give one of them")
    if place.files:
        return recordings.from_manifests(place.files, place.shard)
    if place.daemon:
        found = recordings.from_daemon(place.daemon, place.shard_name)
        warn(f"this is about the cluster of the scheduler at {place.daemon}")
        return found
    settings = Given(None, {}).load().settings
    return recordings.from_cluster(
        client_of(settings, place.kubeconfig, place.context),
        SystemClock(),
        settings.scheduler_names,
        shard_files=[place.shard] if place.shard is not None else settings.shards,
        shard_name=place.shard_name,
        is_deleting=settings.kubernetes.eviction_mode == "delete",
    )
