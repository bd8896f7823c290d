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

    from kaisched.daemon.taking import Taken
    from kaisched.framework.report.records import CycleResult

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


class Place(NamedTuple):
    """Where a state is read; without files, snapshot and daemon the cluster of the kubeconfig."""

    files: Sequence[str] = ()
    snapshot: Path | None = None
    daemon: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    shard: Path | None = None
    shard_name: str = ""


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


def cycle_of(place: Place) -> Cycle:
    """Read a state and run a cycle on it.

    Raises:
        KaischedError: the state cannot be read, or its shard is wrong.

    """
    from kaisched.engine.planning import failures_of  # noqa: PLC0415 - not for the help

    _check(place)
    cycle = _cycle(place)
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
        return Taken(read_recording(place.snapshot), [], [])
    return taken(place)


def _check(place: Place) -> None:
    if sum(map(bool, (place.files, place.snapshot, place.daemon))) > 1:
        message = "-f, --snapshot and --daemon name several sources"
        raise ConfigError(message, fix="give one of them")


def _cycle(place: Place) -> Cycle:
    from kaisched.engine.planning import OUR_NAMES, plan, read_plan_input  # noqa: PLC0415
    from kaisched.engine.recording_file import read_recording  # noqa: PLC0415
    from kaisched.engine.replaying import replay  # noqa: PLC0415

    if place.files:
        what = read_plan_input(place.files, place.shard)
        planned = plan(what)
        problems = list(map(str, planned.problems))
        objects = what.loaded.objects
        return Cycle(planned.cycles[0], planned.warnings, problems, objects, OUR_NAMES)
    if place.snapshot is not None:
        recording = read_recording(place.snapshot)
        again = replay(recording, str(place.snapshot))
        warnings, problems = again.warnings, list(map(str, again.problems))
    else:
        recording, warnings, problems = taken(place)
        again = replay(recording)
    names = recording.scheduler_names
    return Cycle(again.result, warnings, problems, again.objects, names)


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
