"""The state that a command reads: of manifests, a snapshot, a running scheduler or a cluster.

The daemon's own cycle runs on a copy of it, in this process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import typer

from kaisched.cli import flags
from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.cli.live import Server
    from kaisched.daemon.taking import Taken
    from kaisched.framework.report.result import CycleResult

Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-f", "--filename", help="Read manifests, as `kaisched plan`; - for stdin."),
]
Snapshot: TypeAlias = Annotated[
    Path | None, typer.Option(help="Read a file of `kaisched snapshot take`.")
]
Daemon: TypeAlias = Annotated[
    str, typer.Option(help="Read the next cycle of a scheduler, such as http://127.0.0.1:8082.")
]
Kubeconfig = flags.Kubeconfig
Context = flags.Context
ShardFile = flags.Shard
ShardName: TypeAlias = Annotated[
    str, typer.Option(help="Which shard of the cluster or daemon, where there are several.")
]


ServerUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server", help="Read the live view of a scheduler, such as http://127.0.0.1:8083."
    ),
]
Watch: TypeAlias = Annotated[
    bool, typer.Option("-w", "--watch", help="Print again at every change, with --server.")
]


class Place(NamedTuple):
    """Where a state is read; without files, snapshot and daemon the cluster of the kubeconfig."""

    files: Sequence[str] = ()
    snapshot: Path | None = None
    daemon: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    shard: Path | None = None
    shard_name: str = ""
    server: str = ""


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

    def warn(self) -> None:
        """Print everything to standard error."""
        from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help

        for text in (*self.warnings, *self.problems):
            warn(text)

    def end(self) -> None:
        """End with exit code 1 if there are problems."""
        if self.problems:
            raise typer.Exit(1)


def server_of(place: Place) -> Server | None:
    """Return the scheduler whose live view is to be read; None to run a cycle here.

    Raises:
        ConfigError: the address is none, or another source is named as well.

    """
    from kaisched.cli.live import Server, found_server  # noqa: PLC0415 - not for the help
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help

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


def check_watch(*, is_watched: bool) -> None:
    """Check that nothing but a running scheduler is watched.

    Raises:
        ConfigError: something else would be.

    """
    if is_watched:
        raise ConfigError(
            "only a running scheduler can be watched",
            path="--watch",
            fix="name it with --server, and let it run with --view",
        )


def check_when(*, is_asked: bool) -> None:
    """Check that no live view is asked when a job may start: it has no inputs to run ahead from.

    Raises:
        ConfigError: one is.

    """
    if is_asked:
        raise ConfigError(
            "a live view does not say when a job may start",
            path="--when",
            fix="name the scheduler with --daemon, where `snapshots.enabled` is set",
        )


def cycle_of(place: Place) -> Cycle:
    """Read a state and run a cycle on it.

    Raises:
        KaischedError: the state cannot be read, or its shard is wrong.

    """
    _check(place)
    return with_failures(_cycle(place))


def are_files_alone(place: Place) -> bool:
    """Tell whether manifests are read, with all shards among them."""
    others = (place.snapshot, place.daemon, place.shard)
    return bool(place.files) and not any(others)


def with_failures(cycle: Cycle) -> Cycle:
    """Return a cycle with the failures of plugins and actions among its problems."""
    from kaisched.engine.planning import failures_of  # noqa: PLC0415 - not for the help

    result, warnings, problems = cycle.result, cycle.warnings, cycle.problems
    failures = failures_of([result])
    warnings = [text for text in warnings if text not in failures]
    if result.stats.abandoned:
        failures.append(f"the cycle was abandoned: {result.stats.abandoned}")
    return cycle._replace(warnings=warnings, problems=[*problems, *failures])


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


def _cycle(place: Place) -> Cycle:
    from kaisched.engine.planning import OUR_NAMES, plan, read_plan_input  # noqa: PLC0415
    from kaisched.engine.replaying import replay  # noqa: PLC0415

    if place.files:
        what = read_plan_input(place.files, place.shard)
        planned = plan(what)
        problems = list(map(str, planned.problems))
        objects = what.loaded.objects
        return Cycle(planned.cycles[0], planned.warnings, problems, objects, OUR_NAMES)
    recording, warnings, problems = recorded(place)
    again = replay(recording, str(place.snapshot or ""))
    if place.snapshot is not None:
        warnings = [*warnings, *again.warnings]
        problems = list(map(str, again.problems))
    names = recording.scheduler_names
    return Cycle(again.result, warnings, problems, again.objects, names)


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
    from kaisched.cluster.kubernetes.access import find_access  # noqa: PLC0415 - not for the help
    from kaisched.cluster.kubernetes.client import Client  # noqa: PLC0415 - not for the help
    from kaisched.config.loading import load_settings  # noqa: PLC0415 - not for the help

    settings = load_settings(None, os.environ, {}).settings
    how = settings.kubernetes
    where = place.kubeconfig or how.kubeconfig
    access = find_access(Path(where) if where else None, place.context or how.context)
    return taking.from_cluster(
        Client(access, timeout_s=how.request_timeout),
        SystemClock(),
        settings.scheduler_names,
        shard_files=[place.shard] if place.shard is not None else settings.shards,
        shard_name=place.shard_name,
        is_deleting=how.eviction_mode == "delete",
    )
