"""A simulation with the page of the live view: it can be watched, and played back afterwards."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kaisched.cli.printing import warn
from kaisched.clock import SystemClock, monotonic_s
from kaisched.config.settings import ViewListener
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from kaisched.errors import ConfigError
from kaisched.sim.stage import Stage
from kaisched.telemetry.logs import configure_logs
from kaisched.telemetry.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.cli.scenario import Serving
    from kaisched.sim.cluster import Decide
    from kaisched.sim.simulation import PolicyCycle


@contextmanager
def served(serving: Serving | None) -> Iterator[Callable[[PolicyCycle], Decide]]:
    """Serve the cycles of a simulation, and stay after its end until Ctrl-C.

    Yields what makes a cycle one that is shown; without ``serving`` nothing is.

    Raises:
        ConfigError: the port is taken.

    """
    if serving is None:
        yield lambda cycle: cycle
        return
    configure_logs(level="warning", now_s=SystemClock().now_s)  # the results alone are printed
    stages: list[Stage] = []

    def shown(cycle: PolicyCycle) -> Decide:
        if stages:
            fix = "leave it out: the scenario has several shards"
            raise ConfigError("one shard is shown", path="--serve", fix=fix)
        watch = Stopwatch(monotonic_s)
        cycle.probe = watch
        stages.append(Stage(cycle, watch, serving.speed))
        return stages[-1]

    listener = ViewListener(port=serving.port)
    server = Server([view_listener(listener, lambda: [it.publisher for it in stages], None)])
    page = f"http://localhost:{server.port}/"
    try:
        warn(f"the page is at {page}")
        yield shown
        warn(f"the simulation has ended, and can be played back at {page}; Ctrl-C ends that too")
        with suppress(KeyboardInterrupt):
            stages[-1].stay()
    finally:
        server.close()
