"""Checks of the usage history: whether its store answers, and which samples are missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kaisched.daemon.doctor.finding import Finding
from kaisched.errors import KaischedError
from kaisched.units import format_duration
from kaisched.usage.feed import LEAST_COVERAGE
from kaisched.usage.settings import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.daemon.doctor.finding import Visit
    from kaisched.engine.shards import FoundShard
    from kaisched.usage.prometheus.queries import Fetched
    from kaisched.usage.settings import PrometheusSettings, UsageSettings

GOOD_COVERAGE: Final = 0.98


def usage(visit: Visit) -> Iterator[Finding]:
    """Ask the store of each shard with usage history what the scheduler would ask."""
    for one in visit.shards:
        yield from _of_shard(visit, one)


def _of_shard(visit: Visit, one: FoundShard) -> Iterator[Finding]:
    config, check = one.shard.spec.usage_db_config, f"usage {one.shard.name}"
    if config is None:
        yield Finding(check, "ok", "no history is kept: shares consider the present only")
        return
    try:
        settings = read_usage(config, one.shard.name, one.file)
    except KaischedError as wrong:
        # Only the variable's name and what is wrong with it, never its value.
        yield Finding(check, "fail", wrong.message, wrong.fix)
        return
    if settings.prometheus is None:
        yield Finding(check, "ok", f"kept by the scheduler itself ({settings.type})")
        return
    yield from _asked(visit, check, settings, settings.prometheus)


def _asked(
    visit: Visit, check: str, settings: UsageSettings, prometheus: PrometheusSettings
) -> Iterator[Finding]:
    # Importing the client library takes a tenth of a second, which other checks need not wait.
    from kaisched.usage.prometheus.queries import Client, QueryError, fetch  # noqa: PLC0415

    host = urlsplit(prometheus.url).hostname
    client = Client(prometheus)
    try:
        found = fetch(client, prometheus, settings.window, visit.clock.now_s())
    except QueryError as wrong:
        fix = "run the doctor where the scheduler runs: the address may be known only there"
        yield Finding(check, "fail", str(wrong), fix)
        return
    finally:
        client.close()
    for text in found.faults:
        yield Finding(check, "fail", text, "without it that resource has no history")
    yield from _gaps(visit, check, settings, found)
    for text in found.notes:
        yield Finding(check, "warn", text)
    yield Finding(
        check, "ok", f"{host} answers: history of {', '.join(found.resources) or 'nothing'}"
    )


def _gaps(visit: Visit, check: str, settings: UsageSettings, found: Fetched) -> Iterator[Finding]:
    for name, resource in found.resources.items():
        if resource.coverage < GOOD_COVERAGE:
            text = f"{name}: {1 - resource.coverage:.0%} of the window has no samples"
            used = resource.coverage >= LEAST_COVERAGE
            more = "" if used else ", so history is not used"
            fix = "see why series have gaps: was the exporter or the server down?"
            yield Finding(check, "warn" if used else "fail", text + more, fix)
    age_s = visit.clock.now_s() - found.newest_s
    if age_s > settings.staleness_s:
        text = "no sample at all"
        if math.isfinite(age_s):
            text = f"the newest sample is {format_duration(round(age_s))} old"
        fix = f"scrape the scheduler's /metrics at least every {format_duration(settings.fetch_s)}"
        yield Finding(check, "fail", text, fix)
