"""Where a command reads: a running scheduler, or else a cycle of its own (``cycles.py``).

A running scheduler that serves its live view is asked for its documents. Otherwise the same
documents are made of a cycle on a copy of the state. Histories are read from Prometheus or a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import typer

from kaisched.cli.options import PROMETHEUS, Given, Place
from kaisched.cli.printing import Printer, warn, watch
from kaisched.errors import ConfigError
from kaisched.objects.usage import check_url
from kaisched.units import UnitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.cli.cycles import CycleView
    from kaisched.cli.live import Server
    from kaisched.usage.period import Period

# -- a running scheduler -------------------------------------------------------------------------


def server_of(place: Place) -> Server | None:
    """Return the scheduler whose live view is to be read; None to run a cycle here.

    Raises:
        ConfigError: the address is none, or another source is named as well.

    """
    from kaisched.cli.live import Server  # noqa: PLC0415 - not for the help

    others = (place.files, place.snapshot, place.daemon, place.kubeconfig, place.context)
    is_elsewhere = any(others) or place.shard is not None
    if place.server:
        if is_elsewhere:
            message = "--server and another option name two sources"
            raise ConfigError(message, path="--server", fix="give one of them")
        return told(Server(place.server, place.shard_name, is_named=True))
    found = None if is_elsewhere else _found(place.shard_name)
    return None if found is None else told(found)


def told(server: Server) -> Server:
    """Say which scheduler answers, on standard error; return it."""
    warn(f"this is what the scheduler at {server.url} says")
    return server


def _found(shard: str) -> Server | None:
    from kaisched.cli.live import found_server  # noqa: PLC0415 - not for the help

    settings = Given(None, {}).load().settings
    is_kubernetes = settings.cluster == "kubernetes"
    return found_server(shard, settings.kubernetes, is_kubernetes=is_kubernetes)


def running_scheduler(url: str, shard: str) -> Server:
    """Return the scheduler of this address, or one that is found without.

    Raises:
        ConfigError: the address is none, or there is no scheduler.

    """
    from kaisched.cli.live import NEAR, Server  # noqa: PLC0415 - not for the help

    found = Server(url, shard, is_named=True) if url else _found(shard)
    if found is None:
        fix = (
            f"write --server {NEAR} for one that runs here with --view; without --server it is only"
            " looked for where no kubeconfig names a cluster"
        )
        raise ConfigError("no live view of a scheduler is named", path="--server", fix=fix)
    return found


# -- a cycle in this process ---------------------------------------------------------------------


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
    from kaisched.cli.cycles import CycleView, cycle_in_pools, cycle_of  # noqa: PLC0415 - as above

    others = (place.snapshot, place.daemon, place.shard)
    has_shards = bool(place.files) and not any(others)
    if has_shards and (job or queue) and not is_foreseen:
        cycle = cycle_in_pools(place, job=job, queue=queue)
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
    if is_watched:
        watch(cast("Server", view), get, printer, output)  # nothing else can be watched
        return
    printer.print(get(), output)
    if view.problems:
        raise typer.Exit(1)


# -- recordings ----------------------------------------------------------------------------------


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

    return store.period_of(prometheus_of(origin), resource, now_s - seconds, now_s)


def prometheus_of(origin: Origin) -> str:
    """Return the address of the Prometheus server.

    Raises:
        ConfigError: there is none, or it is no address.

    """
    if not origin.url:
        fix = (
            f"name a Prometheus server with --prometheus or {PROMETHEUS}, or the file of a usage"
            " store with --history"
        )
        raise ConfigError("no usage history is named", fix=fix)
    try:
        check_url(origin.url)
    except UnitError as error:
        fix = "write it like http://prometheus:9090"
        raise ConfigError(str(error), path="--prometheus", value=origin.url, fix=fix) from None
    return origin.url
