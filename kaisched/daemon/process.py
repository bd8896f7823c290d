"""Process around the loop: reads settings, starts servers, handles signals, shuts down."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import structlog

from kaisched import __version__
from kaisched.clock import SystemClock
from kaisched.daemon.listening import USUAL, Server, Tls, serve
from kaisched.daemon.loop import Loop
from kaisched.daemon.metrics_access import MetricsAccess
from kaisched.daemon.on_kubernetes import KubernetesDaemon
from kaisched.daemon.policy import policy_of, publisher_of
from kaisched.daemon.recordings import WAIT_S, Recordings, recording_page
from kaisched.daemon.serving import (
    Page,
    Pages,
    Request,
    Source,
    json_page,
    metrics_page,
    probe_page,
)
from kaisched.daemon.usage import usage_feed
from kaisched.daemon.view_server import ViewServer
from kaisched.daemon.view_whatif import Whatif
from kaisched.engine.planning import complete, fill, open_cluster, read_manifests
from kaisched.engine.shards import shard_for
from kaisched.errors import ConfigError
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.telemetry.logs import configure_logs
from kaisched.telemetry.metrics import AdapterCollector, CycleCollector, registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaisched.clock import Clock
    from kaisched.config.loading import LoadedSettings
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.daemon.health import Check
    from kaisched.view.publisher import Publisher

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SCRAPES_AT_A_TIME: Final = 4
"""Each may wait for the API server to review a token."""


def run_process(loaded: LoadedSettings) -> None:
    """Run until SIGTERM or SIGINT; the cycle under way is finished first.

    Raises:
        ConfigError: a setting, a manifest's path or the shard is wrong; nothing was started.

    """
    settings = loaded.settings
    clock = SystemClock()
    configure_logs(log_format=settings.log.format, level=settings.log.level, now_s=clock.now_s)
    if settings.cluster == "kubernetes":
        _run_on_kubernetes(settings, clock)
        return
    collector = CycleCollector()
    metrics = _metrics_in_memory(settings, collector)
    with ExitStack() as closing:
        loop, recordings, view = _embedded_loop(settings, collector, clock, closing)
        health = _health_pages(
            lambda: loop.health.live(clock.now_s()), lambda: loop.health.ready(clock.now_s())
        )
        _serve_recordings(settings, lambda: [recordings], closing)
        if view is not None:
            whatif = _whatif(settings, lambda: [recordings])
            closing.callback(ViewServer(settings.view, lambda: [view], None, whatif).close)
        for server in _servers(settings, metrics, health):
            closing.callback(server.close)
        with _ended_by_signals(loop.stop):
            loop.run()


def _metrics_in_memory(settings: SchedulerConfiguration, collector: CycleCollector) -> Pages:
    """Return the page of metrics for a cluster in memory, which cannot check tokens."""
    if settings.metrics.is_authenticated:
        is_found_out = settings.metrics.authentication == "auto"
        because = ", and this address is not a loopback one" if is_found_out else ""
        raise ConfigError(
            f"a cluster in memory knows no tokens{because}",
            path="metrics.authentication",
            value=settings.metrics.authentication,
            fix="listen on 127.0.0.1, or set it to none: metrics show the names of queues",
        )
    return {"/metrics": Source(metrics_page(registry_of(collector)), headers=("accept",))}


def _run_on_kubernetes(settings: SchedulerConfiguration, clock: Clock) -> None:
    daemon = KubernetesDaemon(settings, clock)
    # Probes come first, since shards are known only after the cluster answers.
    metrics: Pages = {"/metrics": Source(partial(_metrics_of, daemon), ("shard=",), ("accept",))}
    if settings.kubernetes.observe:
        metrics = {**metrics, "/observed": Source(partial(_observed_of, daemon), ("shard=",))}
    if settings.metrics.is_authenticated:
        access = MetricsAccess(daemon.client)
        metrics = {path: access.guarded(source) for path, source in metrics.items()}
    with ExitStack() as closing:
        for server in _servers(settings, metrics, _health_pages(daemon.live, daemon.ready)):
            closing.callback(server.close)
        _serve_recordings(
            settings, lambda: [tenure.recordings for tenure in daemon.tenures], closing
        )
        if settings.view.enabled:
            whatif = _whatif(settings, lambda: [it.recordings for it in daemon.tenures])
            views = partial(_views_of, daemon)
            closing.callback(ViewServer(settings.view, views, daemon.client, whatif).close)
        with _ended_by_signals(daemon.stop):
            daemon.run()


def _whatif(
    settings: SchedulerConfiguration, shards: Callable[[], Iterable[Recordings]]
) -> Whatif | None:
    """Return what tries other values on recordings, where the settings offer these."""
    return Whatif(shards) if settings.snapshots.enabled else None


def _views_of(daemon: KubernetesDaemon) -> list[Publisher]:
    return [tenure.view for tenure in daemon.tenures if tenure.view is not None]


def _metrics_of(daemon: KubernetesDaemon, request: Request) -> Page:
    """Return the metrics of one shard, the first unless ``?shard=`` names another."""
    wanted = request.query.get("shard", [""])[0]
    for tenure in daemon.tenures:
        if wanted in {"", tenure.name}:
            adapter = AdapterCollector(partial(daemon.state_of, tenure))
            return metrics_page(registry_of(tenure.collector, adapter))(request)
    return metrics_page(registry_of(CycleCollector()))(request)


def _observed_of(daemon: KubernetesDaemon, request: Request) -> Page:
    """Return per queue how one shard's decisions compare with another scheduler's."""
    wanted = request.query.get("shard", [""])[0]
    for tenure in daemon.tenures:
        if wanted in {"", tenure.name}:
            return json_page({"shard": tenure.name, **tenure.comparison.document()})
    return json_page({}, HTTPStatus.NOT_FOUND)


def _embedded_loop(
    settings: SchedulerConfiguration, collector: CycleCollector, clock: Clock, closing: ExitStack
) -> tuple[Loop, Recordings, Publisher | None]:
    """Return a loop on a cluster in memory filled from the manifests, its recordings and view."""
    log: Any = structlog.get_logger()
    manifests = read_manifests(settings.manifests)
    found = shard_for(manifests, settings.shards)
    policy, more_warnings = policy_of(settings, found)
    cluster = open_cluster(
        found.shard, clock, settings.scheduler_names, policy.workloads, policy.stuck_after_s
    )
    left_out = complete(manifests, found.shard, policy, settings.scheduler_names[0])
    problems = fill(cluster, manifests)
    for text in left_out:
        log.warning("objects_left_out", err=text)
    for text in [*map(str, manifests.warnings), *found.warnings, *more_warnings]:
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
    feed, wait_s = usage_feed(found, clock)
    if feed is not None:
        closing.callback(feed.close)
    recordings = Recordings(cluster, found.shard, settings.scheduler_names)
    advice = StandingAdvice()
    view = publisher_of(settings, found.shard, advice)
    loop = Loop(
        cluster,
        cluster,
        policy,
        clock,
        collector,
        period_s=settings.schedule_period,
        usage_source=feed,
        usage_wait_s=wait_s,
        usage_server=feed.server if feed is not None else lambda: None,
        shard=found.shard.name,
        recordings=recordings,
        between=lambda turn: advice.find(turn.result) if view is not None else None,
        view=view,
    )
    return loop, recordings, view


def _serve_recordings(
    settings: SchedulerConfiguration,
    shards: Callable[[], Iterable[Recordings]],
    closing: ExitStack,
) -> None:
    """Serve recordings until closed, on loopback only, if the settings say so."""
    if settings.snapshots.enabled:
        pages = {"/snapshot": recording_page(shards)}
        limits = USUAL._replace(whole_s=WAIT_S + USUAL.whole_s)
        port = settings.snapshots.port
        server = serve("127.0.0.1", port, pages, "snapshots.port", threads=2, limits=limits)
        closing.callback(server.close)
        log: Any = structlog.get_logger()
        log.info("listening", address="127.0.0.1", port=server.port, pages=list(pages))


def _health_pages(
    live: Callable[[], tuple[Check, ...]], ready: Callable[[], tuple[Check, ...]]
) -> Pages:
    return {"/livez": probe_page(live), "/readyz": probe_page(ready)}


def _servers(settings: SchedulerConfiguration, metrics: Pages, health: Pages) -> list[Server]:
    """Start servers for probes and scrapes: one if both have the same address and port."""
    scraped, probed = settings.metrics, settings.health
    wanted = [("metrics", scraped, metrics), ("health", probed, health)]
    is_one = (scraped.bind_address, scraped.port) == (probed.bind_address, probed.port)
    if is_one and scraped.port != 0:
        wanted = [("metrics", scraped, {**metrics, **health})]
    tls = Tls(scraped.cert_file, scraped.key_file) if scraped.cert_file else None
    servers: list[Server] = []
    log: Any = structlog.get_logger()
    try:
        for name, listener, pages in wanted:
            is_scraped = name == "metrics"
            server = serve(
                listener.bind_address,
                listener.port,
                pages,
                f"{name}.port",
                threads=_SCRAPES_AT_A_TIME if is_scraped else 1,
                tls=tls if is_scraped else None,
            )
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
def _ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop at the first signal; a second one ends the process at once."""

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        # Not in the handler: it may have interrupted the thread that holds the lock of stop().
        threading.Thread(target=stop, daemon=True).start()

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
