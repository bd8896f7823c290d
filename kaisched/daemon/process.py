"""The process around the loop: settings in, servers up, signals caught, everything down again."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import structlog

from kaisched import __version__
from kaisched.clock import SystemClock
from kaisched.daemon.loop import Loop
from kaisched.daemon.serving import Pages, Server, metrics_page, probe_page, serve
from kaisched.engine.planning import fill, open_cluster, read_manifests
from kaisched.engine.policy import build_policy
from kaisched.engine.shards import shard_for
from kaisched.errors import ConfigError
from kaisched.telemetry.logs import configure_logs
from kaisched.telemetry.metrics import CycleCollector, registry_of
from kaisched.usage.factory import open_store
from kaisched.usage.feed import UsageFeed
from kaisched.usage.settings import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.clock import Clock
    from kaisched.config.loading import LoadedSettings
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.engine.shards import FoundShard

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_process(loaded: LoadedSettings) -> None:
    """Run until SIGTERM or SIGINT; the cycle under way is finished first.

    Raises:
        ConfigError: a setting, a manifest's place or the shard does not fit; nothing was started.

    """
    settings = loaded.settings
    if settings.cluster == "kubernetes":
        raise ConfigError(
            "a cluster of this kind comes with a later version",
            file=loaded.origins.get("cluster", ""),
            path="cluster",
            value=settings.cluster,
            fix="use embedded, a cluster in memory that is filled from manifests",
        )
    clock = SystemClock()
    configure_logs(log_format=settings.log.format, level=settings.log.level, now_s=clock.now_s)
    collector = CycleCollector()
    with ExitStack() as closing:
        loop = _embedded_loop(settings, collector, clock, closing)
        for server in _servers(settings, collector, loop, clock):
            closing.callback(server.close)
        with _ended_by_signals(loop):
            loop.run()


def _embedded_loop(
    settings: SchedulerConfiguration, collector: CycleCollector, clock: Clock, closing: ExitStack
) -> Loop:
    """Return a loop on a cluster in memory, filled from the manifests."""
    log: Any = structlog.get_logger()
    manifests = read_manifests(settings.manifests)
    found = shard_for(manifests, settings.shards)
    policy, said = build_policy(found.shard, found.file)
    cluster = open_cluster(found.shard, clock, settings.scheduler_names)
    problems = fill(cluster, manifests)
    for text in [*map(str, manifests.warnings), *found.warnings, *said]:
        log.warning("setting_without_effect", err=text)
    for problem in problems:
        log.warning("object_left_out", err=str(problem))
    log.info(
        "cluster_in_memory_filled",
        version=__version__,
        shard=found.shard.name,
        objects=len(manifests.objects),
        problems=len(problems),
        plugins=[setting.plugin.name for setting in policy.plugins],
        actions=[action.name for action in policy.actions],
    )
    feed, wait_s = _usage_feed(found, clock)
    if feed is not None:
        closing.callback(feed.close)
    return Loop(
        cluster,
        cluster,
        policy,
        clock,
        collector,
        period_s=settings.schedule_period,
        usage_source=feed,
        usage_wait_s=wait_s,
        shard=found.shard.name,
    )


def _usage_feed(found: FoundShard, clock: Clock) -> tuple[UsageFeed | None, float]:
    """Open the usage history a shard asks for; return how long to wait for its first answer."""
    config = found.shard.spec.usage_db_config
    if config is None:
        return None, 0.0
    settings = read_usage(config, found.shard.name, found.file)
    return UsageFeed(open_store(settings, clock), settings.fetch_s), settings.wait_s


def _servers(
    settings: SchedulerConfiguration, collector: CycleCollector, loop: Loop, clock: Clock
) -> list[Server]:
    """Start what probes and scrapes ask; one server where both have one address and port."""
    metrics: Pages = {"/metrics": metrics_page(registry_of(collector))}
    health: Pages = {
        "/livez": probe_page(lambda: loop.health.live(clock.now_s())),
        "/readyz": probe_page(lambda: loop.health.ready(clock.now_s())),
    }
    wanted = [("metrics", settings.metrics, metrics), ("health", settings.health, health)]
    if settings.metrics == settings.health and settings.metrics.port != 0:
        wanted = [("metrics", settings.metrics, {**metrics, **health})]
    servers: list[Server] = []
    log: Any = structlog.get_logger()
    try:
        for name, listener, pages in wanted:
            server = serve(listener.bind_address, listener.port, pages, f"{name}.port")
            servers.append(server)
            log.info(
                "listening", address=listener.bind_address, port=server.port, pages=list(pages)
            )
    except ConfigError:
        for server in servers:
            server.close()
        raise
    return servers


@contextmanager
def _ended_by_signals(loop: Loop) -> Iterator[None]:
    """Stop the loop at the first signal; a second one ends the process at once."""

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        # Not here: this may interrupt the very thread that holds the lock which stop() needs.
        threading.Thread(target=loop.stop, daemon=True).start()

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
