"""The state that a command reads: of manifests, a snapshot, a running scheduler or a cluster.

A running scheduler that serves its live view is asked for its documents. Otherwise the daemon's own
cycle runs on a copy of the state, in this process, and the same documents are made of its view.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import typer

from kaisched.cli.options import PROMETHEUS, Given, Place
from kaisched.cli.printing import Printer, show, warn
from kaisched.errors import ConfigError
from kaisched.view.paths import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kaisched.cli.live import Server
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.daemon.taking import Taken
    from kaisched.engine.planning import Plan, PlanInput
    from kaisched.framework.advice.trials import Adviser
    from kaisched.framework.report.result import CycleResult
    from kaisched.usage.period import Period
    from kaisched.view.publisher import Told
    from kaisched.view.queues import Projects

_OF_SERVER: Final = frozenset({"shard", "revision", "since", "complete"})
"""Fields of a document that tell of a running scheduler."""

# -- a running scheduler -------------------------------------------------------------------------


def server_of(place: Place) -> Server | None:
    """Return the scheduler whose live view is to be read; None to run a cycle here.

    Raises:
        ConfigError: the address is none, or another source is named as well.

    """
    from kaisched.cli.live import Server, found_server  # noqa: PLC0415 - not for the help

    others = (place.files, place.snapshot, place.daemon, place.kubeconfig, place.context)
    is_elsewhere = any(others) or place.shard is not None
    if place.server:
        if is_elsewhere:
            message = "--server and another option name two sources"
            raise ConfigError(message, path="--server", fix="give one of them")
        return Server(place.server, place.shard_name, is_named=True)
    if is_elsewhere or (found := found_server(place.shard_name)) is None:
        return None
    warn(f"this is what {found.url} says; --kubeconfig reads the cluster instead")
    return found


def running_scheduler(url: str, shard: str) -> Server:
    """Return the scheduler of this address, or one that is found without.

    Raises:
        ConfigError: the address is none, or there is no scheduler.

    """
    from kaisched.cli.live import NEAR, Server, found_server  # noqa: PLC0415 - not for the help

    found = Server(url, shard, is_named=True) if url else found_server(shard)
    if found is None:
        fix = f"name one with --server; `kaisched run --view` serves {NEAR}"
        raise ConfigError("no scheduler serves its live view here", path="--server", fix=fix)
    return found


# -- a cycle in this process ---------------------------------------------------------------------


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
        from kaisched.engine.planning import failures_of  # noqa: PLC0415 - not for the help

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
    from kaisched.engine.planning import plan, read_plan_input  # noqa: PLC0415 - not for the help
    from kaisched.engine.replaying import replay  # noqa: PLC0415 - not for the help

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
    from kaisched.engine.planning import OUR_NAMES  # noqa: PLC0415 - not for the help

    problems = list(map(str, planned.problems))
    cycle = Cycle(result, planned.warnings, problems, what.loaded.objects, OUR_NAMES)
    return cycle.with_failures()


def _cycle_in_pools(place: Place, *, job: str = "", queue: str = "") -> Cycle:
    """Let each shard among manifests have a cycle; choose that of a job, a pod or a queue.

    Raises:
        KaischedError: the files cannot be read, a shard is wrong, or there is no such queue.

    """
    from kaisched.engine.planning import cycles_in_pools, read_plan_input  # noqa: PLC0415

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
    from kaisched.view.queues import PoolQueues, Projects  # noqa: PLC0415 - not for the help

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


# -- documents -----------------------------------------------------------------------------------


class CycleView:
    """The documents of a cycle in this process: those that a live view would serve."""

    def __init__(self, cycle: Cycle) -> None:
        """Take the view of the cycle."""
        from kaisched.view.publisher import Publisher  # noqa: PLC0415 - not for the help
        from kaisched.view.reading import Reading  # noqa: PLC0415 - not for the help

        self.cycle = cycle
        session, publisher = cycle.result.records.session, Publisher(cycle.shard)
        publisher.take(
            cycle.result, cycle=1, time_s=session.now_s, duration_s=0.0, usage=session.usage
        )
        assert publisher.view is not None
        self._reading = Reading(publisher.view, has_ended=True)

    def row_of_job(self, name: str) -> int:
        """Return the row of a job, by its own name, that of one of its pods, or of its workload.

        Raises:
            ConfigError: there is none, or there are several.

        """
        from kaisched.view.jobs import row_of_job  # noqa: PLC0415 - as needed

        return row_of_job(self._reading, name)

    def why(self, name: str, *, is_foreseen: bool = False) -> dict[str, Any]:
        """Return everything about a job, by its name or that of a pod."""
        from kaisched.framework.advice.trials import Adviser  # noqa: PLC0415 - as needed
        from kaisched.view.jobs import job_document  # noqa: PLC0415 - as needed
        from kaisched.view.reading import ALL  # noqa: PLC0415 - as needed

        row, result = self.row_of_job(name), self.cycle.result
        told = self._told([row], Adviser(result))
        document = job_document(self._reading, row, ALL, told)
        if is_foreseen:
            from kaisched.cli.when import forecast_of, when_document  # noqa: PLC0415 - as needed

            foreseen = forecast_of(result, row, self.cycle.objects, self.cycle.schedulers)
            document["when"] = None if foreseen is None else when_document(foreseen)
        return {key: it for key, it in document.items() if key not in _OF_SERVER}

    def queues(self, name: str | None) -> dict[str, Any]:
        """Return all queues, or one with those around it and the jobs that wait below it."""
        from kaisched.view.jobs import Wanted, jobs_document  # noqa: PLC0415 - as needed
        from kaisched.view.queues import row_of_queue  # noqa: PLC0415 - as needed
        from kaisched.view.reading import ALL  # noqa: PLC0415 - as needed

        queues, jobs = self.queues_around(name)["queues"], []
        if name is not None:
            reading = self._reading
            rows = reading.view.waiting.rows.tolist()
            part = Part(0, len(reading.snapshot.jobs.name))
            wanted = Wanted(row_of_queue(reading, name), state="waiting", part=part)
            jobs = jobs_document(reading, wanted, ALL, self._told(rows))["jobs"]
        return {"schemaVersion": "kaisched.io/queues/v1", "queues": queues, "jobs": jobs}

    def queues_around(self, name: str | None) -> dict[str, Any]:
        """Return all queues, or one with those above and below it."""
        from kaisched.view.queues import queues_document  # noqa: PLC0415 - as needed

        return queues_document(self._reading, name, self.cycle.projects)

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield the entry of each node, by name."""
        from kaisched.view.nodes import Wanted, nodes_document  # noqa: PLC0415 - as needed
        from kaisched.view.reading import ALL  # noqa: PLC0415 - as needed

        part = Part(0, max(len(self._reading.snapshot.nodes), 1))
        yield from nodes_document(self._reading, Wanted(part=part), ALL)["nodes"]

    def usage(self) -> dict[str, Any] | None:
        """Return how reliable the usage history is; None without one."""
        from kaisched.view.queues import overview_document  # noqa: PLC0415 - as needed

        made: dict[str, Any] | None = overview_document(self._reading)["usage"]
        return made

    def _told(self, rows: list[int], adviser: Adviser | None = None) -> dict[str, Told]:
        """Return what the session tells of jobs that wait, with advice if it is tried."""
        from kaisched.framework.advice.advice import sentence_of  # noqa: PLC0415 - as needed
        from kaisched.framework.report.turns import Turns  # noqa: PLC0415 - as needed
        from kaisched.view.publisher import Told  # noqa: PLC0415 - as needed

        records, turns = self.cycle.result.records, Turns(self.cycle.result)
        told: dict[str, Told] = {}
        for row in rows:
            if self._reading.code[row]:
                record = records.record(row)
                advice = () if adviser is None else adviser.record(row).advice
                turn = turns.document(row)
                told[record.pod_group] = Told(record, advice, sentence_of(advice), turn)
        return told


View: TypeAlias = "Server | CycleView"


def view_of(
    place: Place,
    *,
    is_watched: bool = False,
    is_foreseen: bool = False,
    job: str = "",
    queue: str = "",
) -> View:
    """Return the view of a running scheduler, or of a cycle on a copy of the state.

    Manifests may hold several shards: that is chosen which has the job or the queue.

    Raises:
        ConfigError: a cycle is to be watched, or a running scheduler to be run ahead.
        KaischedError: the state cannot be read, or its shard is wrong.

    """
    server = None if is_foreseen and not place.server else server_of(place)
    if server is not None and not is_foreseen:
        return server
    if server is not None:
        raise ConfigError(
            "a live view does not say when a job may start",
            path="--when",
            fix="name the scheduler with --daemon, where `snapshots.enabled` is set",
        )
    if is_watched:
        raise ConfigError(
            "only a running scheduler can be watched",
            path="--watch",
            fix="name it with --server, and let it run with --view",
        )
    others = (place.snapshot, place.daemon, place.shard)
    has_shards = bool(place.files) and not any(others)
    if has_shards and (job or queue) and not is_foreseen:
        cycle = _cycle_in_pools(place, job=job, queue=queue)
    else:
        cycle = cycle_of(place)
    cycle.warn()
    return CycleView(cycle)


def print_of(
    view: View,
    get: Callable[[], Mapping[str, Any]],
    printer: Printer,
    output: str,
    *,
    is_watched: bool = False,
) -> None:
    """Print a document, at every change if it is watched; exit with 1 if there are problems."""
    if not isinstance(view, CycleView):
        show(view, get, printer, output, is_watched=is_watched)
        return
    printer.print(get(), output)
    if view.cycle.problems:
        raise typer.Exit(1)


# -- recordings ----------------------------------------------------------------------------------


def recorded(place: Place) -> Taken:
    """Read a state as the recording of its next cycle.

    Raises:
        KaischedError: the state cannot be read, or its shard is wrong.

    """
    from kaisched.daemon.taking import Taken  # noqa: PLC0415 - not for the help
    from kaisched.engine.recording_file import read_recording  # noqa: PLC0415

    _check(place)
    if place.snapshot is not None:
        return _by_its_shard(place, Taken(read_recording(place.snapshot), [], []))
    return _by_its_shard(place, taken(place))


def _by_its_shard(place: Place, found: Taken) -> Taken:
    """Replace the shard of a recording that was made by another one, if one is named."""
    if place.shard is None or (place.snapshot is None and not place.daemon):
        return found  # manifests and clusters are recorded by the named shard already
    from kaisched.engine.edits import with_shard  # noqa: PLC0415 - not for the help
    from kaisched.engine.shards import read_shard  # noqa: PLC0415 - not for the help

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
    from kaisched.daemon import taking  # noqa: PLC0415 - not for the help

    if place.files and place.daemon:
        raise ConfigError("-f and --daemon name two sources", fix="give one of them")
    if place.files:
        return taking.from_manifests(place.files, place.shard)
    if place.daemon:
        return taking.from_daemon(place.daemon, place.shard_name)
    from kaisched.clock import SystemClock  # noqa: PLC0415 - not for the help

    settings = Given(None, {}).load().settings
    return taking.from_cluster(
        client_of(settings, place.kubeconfig, place.context),
        SystemClock(),
        settings.scheduler_names,
        shard_files=[place.shard] if place.shard is not None else settings.shards,
        shard_name=place.shard_name,
        is_deleting=settings.kubernetes.eviction_mode == "delete",
    )


def client_of(
    settings: SchedulerConfiguration, kubeconfig: str | None = None, context: str | None = None
) -> Client:
    """Return a client of the cluster that flags name, or else the settings.

    Raises:
        KaischedError: there is none.

    """
    from kaisched.cluster.kubernetes.access import find_access  # noqa: PLC0415 - not for the help
    from kaisched.cluster.kubernetes.client import Client  # noqa: PLC0415 - not for the help

    how = settings.kubernetes
    where = kubeconfig or how.kubeconfig
    access = find_access(Path(where) if where else None, context or how.context)
    return Client(access, timeout_s=how.request_timeout)


# -- what was ------------------------------------------------------------------------------------


class Origin(NamedTuple):
    """Where a history is read."""

    prometheus: str = ""
    file: Path | None = None

    @property
    def url(self) -> str:
        """The address of the Prometheus server; empty for none."""
        return self.prometheus or ("" if self.file else os.environ.get(PROMETHEUS, ""))


def span_s(text: str, option: str) -> float:
    """Return a length of time in seconds.

    Raises:
        ConfigError: it is none.

    """
    from kaisched.units import UnitError, parse_duration  # noqa: PLC0415 - not for the help

    try:
        seconds = parse_duration(text)
    except UnitError as error:
        raise ConfigError(str(error), path=option, fix=error.fix) from error
    if seconds <= 0:
        raise ConfigError("must be longer than nothing", path=option, value=text)
    return seconds


def period_of(origin: Origin, resource: str, last: str, option: str) -> Period:
    """Read the sums of a period that ends now.

    Raises:
        ConfigError: no history is named, or two are.
        UsageUnavailable: it cannot be read.

    """
    from kaisched.clock import SystemClock  # noqa: PLC0415 - not for the help

    seconds, now_s = span_s(last, option), SystemClock().now_s()
    if origin.prometheus and origin.file is not None:
        message = "--prometheus and --history name two histories"
        raise ConfigError(message, path="--history", fix="give one of them")
    if origin.file is not None:
        from kaisched.usage.period import from_file  # noqa: PLC0415 - only when asked

        return from_file(origin.file, resource, now_s - seconds, now_s)
    from kaisched.usage.prometheus import store  # noqa: PLC0415 - only when asked

    return store.period_of(prometheus_of(origin, option), resource, now_s - seconds, now_s)


def prometheus_of(origin: Origin, option: str) -> str:
    """Return the address of the Prometheus server.

    Raises:
        ConfigError: there is none, or it is no address.

    """
    if not origin.url:
        fix = (
            f"name a Prometheus server with --prometheus or {PROMETHEUS}, or the file of a usage"
            " store with --history"
        )
        raise ConfigError("no history is named", path=option, fix=fix)
    if not origin.url.startswith(("http://", "https://")):
        fix = "write it like http://prometheus:9090"
        raise ConfigError("no address", path="--prometheus", value=origin.url, fix=fix)
    return origin.url
