"""Process around the loop: reads settings, starts servers, handles signals, shuts down."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import structlog

from kaisched import __version__
from kaisched.clock import SystemClock
from kaisched.daemon.access import Reviews, guarded, no_tokens
from kaisched.daemon.http_server import (
    Listener,
    Server,
    json_page,
    listen,
    metrics_page,
    probe_page,
)
from kaisched.daemon.http_wire import USUAL, Page, Pages, Reads, Request, Source, Tls
from kaisched.daemon.loop import Loop, policy_of, publisher_of, usage_feed
from kaisched.daemon.on_kubernetes import KubernetesDaemon
from kaisched.daemon.recordings import WAIT_S, Recordings, recording_page
from kaisched.daemon.view_pages import view_listener
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
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.config.loading import LoadedSettings
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.daemon.loop import Check
    from kaisched.daemon.shard_leader import ShardLeader
    from kaisched.view.publisher import Publisher

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SCRAPES: Final = USUAL._replace(threads=4)
"""Each thread may wait for the API server to review a token."""
_RECORDINGS: Final = USUAL._replace(threads=2, whole_s=WAIT_S + USUAL.whole_s)


def run_process(loaded: LoadedSettings) -> None:
    """Run until SIGTERM, SIGINT or SIGHUP; the cycle under way is finished first.

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
    with ExitStack() as stack:
        loop, recordings, view = _embedded_loop(settings, collector, clock, stack)
        health = _health_pages(
            lambda: loop.health.live(clock.now_s()), lambda: loop.health.ready(clock.now_s())
        )
        views = [] if view is None else [view]
        stack.callback(
            _serve(settings, metrics, health, lambda: [recordings], lambda: views, None).close
        )
        with _ended_by_signals(loop.stop):
            loop.run()


def _metrics_in_memory(settings: SchedulerConfiguration, collector: CycleCollector) -> Pages:
    """Return the page of metrics for a cluster in memory, which cannot check tokens."""
    if settings.metrics.is_authenticated:
        shown = "metrics show the names of queues"
        raise no_tokens("metrics.authentication", settings.metrics.authentication, shown)
    return {"/metrics": Source(metrics_page(registry_of(collector)), Reads(headers=("accept",)))}


def _run_on_kubernetes(settings: SchedulerConfiguration, clock: Clock) -> None:
    daemon = KubernetesDaemon(settings, clock)
    # Probes come first, since shards are known only after the cluster answers.
    of_shard = Reads(("shard=",), ("accept",))
    metrics: Pages = {"/metrics": Source(partial(_metrics_of, daemon), of_shard)}
    if settings.kubernetes.observe:
        observed = Source(partial(_observed_of, daemon), Reads(("shard=",)))
        metrics = {**metrics, "/observed": observed}
    if settings.metrics.is_authenticated:
        reviews = Reviews(daemon.client)
        metrics = {path: guarded(source, reviews) for path, source in metrics.items()}
    health = _health_pages(daemon.live, daemon.ready)
    server = _serve(
        settings,
        metrics,
        health,
        lambda: [leader.recordings for leader in daemon.leaders],
        lambda: [leader.view for leader in daemon.leaders if leader.view is not None],
        daemon.client,
    )
    with closing(server), _ended_by_signals(daemon.stop):
        daemon.run()


def _leader_of(daemon: KubernetesDaemon, request: Request) -> ShardLeader | None:
    """Return the shard of ``?shard=``, the first one without it; None if there is no such shard."""
    wanted = request.query.get("shard", [""])[0]
    return next((it for it in daemon.leaders if wanted in {"", it.name}), None)


def _metrics_of(daemon: KubernetesDaemon, request: Request) -> Page:
    """Return the metrics of one shard."""
    leader = _leader_of(daemon, request)
    if leader is None:
        return metrics_page(registry_of(CycleCollector()))(request)
    adapter = AdapterCollector(partial(daemon.state_of, leader))
    return metrics_page(registry_of(leader.collector, adapter))(request)


def _observed_of(daemon: KubernetesDaemon, request: Request) -> Page:
    """Return per queue how one shard's decisions compare with another scheduler's."""
    leader = _leader_of(daemon, request)
    if leader is None:
        return json_page({}, HTTPStatus.NOT_FOUND)
    return json_page({"shard": leader.name, **leader.comparison.document()})


def _embedded_loop(
    settings: SchedulerConfiguration, collector: CycleCollector, clock: Clock, stack: ExitStack
) -> tuple[Loop, Recordings, Publisher | None]:
    """Return a loop on a cluster in memory filled from the manifests, its recordings and view."""
    log: Any = structlog.get_logger()
    manifests = read_manifests(settings.manifests)
    found = shard_for(manifests, settings.shards)
    policy, more_warnings = policy_of(settings, found)
    cluster = open_cluster(found.shard, policy, clock, settings.scheduler_names)
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
        stack.callback(feed.close)
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


def _health_pages(
    live: Callable[[], tuple[Check, ...]], ready: Callable[[], tuple[Check, ...]]
) -> Pages:
    return {"/livez": probe_page(live), "/readyz": probe_page(ready)}


def _serve(
    settings: SchedulerConfiguration,
    metrics: Pages,
    health: Pages,
    recordings: Callable[[], Iterable[Recordings]],
    views: Callable[[], Iterable[Publisher]],
    client: Client | None,
) -> Server:
    """Serve probes and metrics, and recordings and views if the settings say so.

    Metrics and probes with the same address and port share a listener.
    """
    scraped, probed = settings.metrics, settings.health
    tls = Tls(scraped.cert_file, scraped.key_file) if scraped.cert_file else None
    is_one = (scraped.bind_address, scraped.port) == (probed.bind_address, probed.port)
    if is_one and scraped.port != 0:
        metrics, health = {**metrics, **health}, {}
    listeners: list[Listener] = []
    try:
        listeners.append(
            listen(
                scraped.bind_address,
                scraped.port,
                metrics,
                "metrics.port",
                tls=tls,
                limits=_SCRAPES,
                hosts=scraped.hosts,
            )
        )
        if health:
            address, port = probed.bind_address, probed.port
            listeners.append(listen(address, port, health, "health.port", hosts=probed.hosts))
        if settings.snapshots.enabled:  # on loopback only
            pages = {"/snapshot": recording_page(recordings)}
            port, setting = settings.snapshots.port, "snapshots.port"
            listeners.append(listen("127.0.0.1", port, pages, setting, limits=_RECORDINGS))
        if settings.view.enabled:
            whatif = Whatif(recordings) if settings.snapshots.enabled else None
            listeners.append(view_listener(settings.view, views, client, whatif))
    except ConfigError:
        for listener in listeners:
            listener.sock.close()
        raise
    log: Any = structlog.get_logger()
    for it in listeners:
        log.info("listening", address=it.address, port=it.port, pages=list(it.pages))
    if settings.view.enabled:
        page = page_url(listeners[-1], has_tls=bool(settings.view.cert_file))
        log.info("page_served", page=page, next=f"kaisched jobs --server {page}")
    return Server(listeners)


def page_url(listener: Listener, *, has_tls: bool) -> str:
    """Return the address of the page for a browser on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.address, listener.address)  # noqa: S104
    return f"http{'s' * has_tls}://{f'[{host}]' if ':' in host else host}:{listener.port}"


@contextmanager
def _ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop at the first signal; a second one ends the process at once.

    A terminal that is closed may send its signal twice. Under ``nohup`` it stays without effect.
    """

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        # Not in the handler: it may have interrupted the thread that holds the lock of stop().
        threading.Thread(target=stop, daemon=True).start()

    is_kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    before = {
        number: signal.signal(number, end)
        for number in _SIGNALS
        if not (is_kept and number == signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
