"""``usageDBConfig`` of a SchedulingShard: the store of usage history, the part that counts, checks.

Keys are KAI-Scheduler's, with durations and metrics as texts; docs/reference/usage-history.md marks
additions. :mod:`kaisched.usage.settings` fills in the defaults.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from kaisched.errors import ABSENT
from kaisched.objects.faults import Fault, Path, did_you_mean, duration_faults, unit_faults
from kaisched.objects.labels import time_of
from kaisched.objects.wire import StrictWire
from kaisched.units import UnitError, parse_duration

USAGE_STORES: Final = ("prometheus", "sqlite", "memory")


class UsageExtraParams(StrictWire, frozen=True, kw_only=True):
    """Queries to Prometheus. Metrics are names or PromQL expressions."""

    usage_query_timeout: str | int | None = None
    query_resolution: str | int | None = None
    gpu_allocation_metric: str | None = None
    cpu_allocation_metric: str | None = None
    memory_allocation_metric: str | None = None
    gpu_capacity_metric: str | None = None
    cpu_capacity_metric: str | None = None
    memory_capacity_metric: str | None = None
    match_labels: dict[str, str] = {}
    """Labels of the series that count, for a server that several clusters share."""
    replica_label: str = ""
    """Label that differs between copies of an exporter or server: the largest copy counts."""
    bearer_token_file: str = ""
    ca_file: str = ""
    insecure_skip_verify: bool = False


class UsageParams(StrictWire, frozen=True, kw_only=True):
    """Window of the usage history. Durations are texts."""

    half_life_period: str | int | None = None
    window_size: str | int | None = None
    window_type: Literal["sliding", "tumbling", "cron"] | None = None
    tumbling_window_start_time: str | None = None
    cron_string: str | None = None
    granularity: str | int | None = None
    fetch_interval: str | int | None = None
    staleness_period: str | int | None = None
    wait_timeout: str | int | None = None
    when_stale: Literal["freeze", "ignore"] | None = None
    extra_params: UsageExtraParams | None = None


class UsageHealthProbe(StrictWire, frozen=True, kw_only=True):
    """How often a Prometheus server is asked whether it answers, and when it counts as gone."""

    interval: str | int | None = None
    timeout: str | int | None = None
    """Of each try."""
    max_retries: int | None = None
    """Tries after the first until the server counts as gone."""


class UsageConfig(StrictWire, frozen=True, kw_only=True):
    """Store of the usage history."""

    client_type: str = ""
    connection_string: str = ""
    connection_string_env_var: str = ""
    usage_params: UsageParams = UsageParams()
    extra_params: UsageExtraParams | None = None
    """As in KAI's guide; KAI's code reads it from ``usageParams``."""
    health_probe: UsageHealthProbe | None = None

    @property
    def extra(self) -> UsageExtraParams:
        """The extra parameters from either of their two places."""
        return self.usage_params.extra_params or self.extra_params or UsageExtraParams()


# -- texts of PromQL -------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_PLAIN: Final = re.compile(r"[\w:.\s,=!~<>+\-*/%^@]", re.ASCII)
_CLOSES: Final = {")": "(", "]": "[", "}": "{"}
_QUOTES: Final = "\"'`"
_MOST_CHARS: Final = 2000
_METRIC_FIX: Final = 'write a metric name or an expression such as sum(node_gpus{kind="a"})'


def is_metric_name(text: str) -> bool:
    """Tell whether a text is a bare metric name."""
    return _NAME.fullmatch(text) is not None


def check_label_name(text: object) -> None:
    """Raise UnitError unless a text is a label name."""
    if not isinstance(text, str) or not _LABEL.fullmatch(text):
        raise UnitError("no label name", "write letters, digits and underscores, as in cluster")


def quoted(value: str) -> str:
    """Quote a label value as a PromQL text that matches exactly this value."""
    escaped = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else _escaped(char)
        for char in value
    )
    return f'"{escaped}"'


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\U{code:08x}"


def check_expression(text: object) -> None:
    """Raise UnitError unless a text can be put between parentheses in a query.

    Quotes and brackets must be closed. Comments and characters that are not part of PromQL are
    refused; so is a backslash before a quote, which comes from a text that was quoted twice.
    """
    if not isinstance(text, str) or not text.strip():
        raise UnitError("no metric", _METRIC_FIX)
    if len(text) > _MOST_CHARS:
        raise UnitError(f"longer than {_MOST_CHARS} characters", "make it a recording rule")
    open_: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in _QUOTES:
            at = _end_of_quote(text, at)
        else:
            _check_char(text[at], open_)
        at += 1
    if open_:
        raise UnitError(f"{open_[-1]} is not closed", _METRIC_FIX)


def _check_char(char: str, open_: list[str]) -> None:
    """Check a character outside of quotes; ``open_`` are the brackets around it."""
    if char in _CLOSES.values():
        open_.append(char)
    elif char in _CLOSES:
        if not open_ or open_.pop() != _CLOSES[char]:
            raise UnitError(f"nothing is open that {char} would close", _METRIC_FIX)
    elif char == "\\":
        fix = 'write {resource="a"}, not {resource=\\"a\\"}'
        raise UnitError("a backslash outside of quotes", fix)
    elif not _PLAIN.fullmatch(char):
        raise UnitError(f"{char!r} is not part of PromQL", _METRIC_FIX)


def _end_of_quote(text: str, start: int) -> int:
    quote, at = text[start], start + 1
    while at < len(text) and text[at] != quote:
        is_escape = text[at] == "\\" and quote != "`"
        at += 2 if is_escape else 1
    if at >= len(text):
        raise UnitError(f"{quote} is not closed", _METRIC_FIX)
    if "\n" in text[start:at] and quote != "`":
        raise UnitError("a line ends inside quotes", _METRIC_FIX)
    return at


# -- cron expressions ------------------------------------------------------------------------------

_PATH: Final[Path] = ("spec", "usageDBConfig")
MOST_RETRIES: Final = 100
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAY_BE_NONE: Final = ("halfLifePeriod", "waitTimeout")
"""Durations of which 0 is off; a positive one below a second is a mistake all the same."""
MOST_STRETCHES: Final = 100_000
"""Most rows of a window, each of which is read at a start and written once."""


_CRON_FIX: Final = (
    'write minute, hour, day of month, month and day of week, such as "0 0 * * 1",'
    " or a macro such as @monthly"
)
_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_CRON_FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")
_CRON_CHARS: Final = 200
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_ANY_TIME: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - local time of no zone in particular


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression: when it last fired, and when it fires next.

    It has five fields (minute, hour, day of month, month, day of week) or is a macro such as
    ``@monthly``, in UTC or after ``CRON_TZ=Europe/Berlin`` in a named zone. If both day of month
    and day of week are restricted, either fires, as in every cron.
    """

    text: str
    fields: str
    """The five fields, as the library reads them."""
    zone: tzinfo

    def before(self, now_s: float) -> float:
        """Return the last time it fired *before* ``now_s``, seconds since 1970.

        At the very moment of firing it returns the time before that: the window that ends now is
        still whole. A time that daylight saving skips fires later by the skipped hour. A time that
        comes twice fires once, at first, unless the hour is ``*``.
        """
        # Cron fires at whole minutes, so all moments of one minute have the same answer.
        return _before(self, math.ceil(now_s / 60) * 60)

    def after(self, now_s: float) -> float:
        """Return the next time it fires, ``now_s`` or later: the end of the window at ``now_s``."""
        return _after(self, math.ceil(now_s / 60) * 60)

    @property
    def slack(self) -> timedelta:
        """How far the order of local times may differ from that of moments: clocks change."""
        return timedelta(0) if self.zone is UTC else _DAY

    def moments(self, start: datetime, *, reverse: bool) -> Iterator[tuple[datetime, float]]:
        """Yield local times of firing from ``start`` on, or back, and each moment they stand for.

        Clocks are left to us: the library lets a time that they skip fire when they have changed.
        """
        folds = (0, 1) if self.fields.split()[1] == "*" else (0,)
        for local in CronSim(self.fields, start, reverse=reverse):
            for fold in folds:
                yield local, local.replace(tzinfo=self.zone, fold=fold).timestamp()


@lru_cache(maxsize=256)
def _before(cron: Cron, now_s: int) -> float:
    here = datetime.fromtimestamp(now_s, cron.zone).replace(tzinfo=None)
    last_s, first = -math.inf, None
    for local, at_s in cron.moments(here + cron.slack, reverse=True):
        if first is not None and local < first:
            break
        if at_s < now_s:
            last_s, first = max(last_s, at_s), first or local - cron.slack
    return last_s


@lru_cache(maxsize=256)
def _after(cron: Cron, now_s: int) -> float:
    here = datetime.fromtimestamp(now_s, cron.zone).replace(tzinfo=None)
    next_s, last = math.inf, None
    for local, at_s in cron.moments(here - cron.slack - _SECOND, reverse=False):
        if last is not None and local > last:
            break
        if at_s >= now_s:
            next_s, last = min(next_s, at_s), last or local + cron.slack
    return next_s


def parse_cron(value: object) -> Cron:
    """Parse a cron expression.

    Raises:
        UnitError: not in the grammar, an unknown zone, or a day that never comes.

    """
    if not isinstance(value, str) or len(value) > _CRON_CHARS:
        raise UnitError("no cron expression", _CRON_FIX)
    zone, text = _zone_of(value.strip())
    if text.startswith("@every"):
        raise UnitError(
            f"{text!r} is no time of the day", "use windowType: tumbling with a windowSize instead"
        )
    fields = _MACROS.get(text.lower(), text).replace("?", "*").split()
    if len(fields) != len(_CRON_FIELDS):
        raise UnitError(f"{value!r} has {len(fields)} fields instead of five", _CRON_FIX)
    for at, name in enumerate(_CRON_FIELDS):
        alone = " ".join("*" if other != at else field for other, field in enumerate(fields))
        try:
            CronSim(alone, _ANY_TIME)
        except CronSimError:
            raise UnitError(f"{fields[at]!r} is no {name}", _CRON_FIX) from None
    cron = Cron(value, " ".join(fields), zone)
    try:
        next(CronSim(cron.fields, _ANY_TIME))
    except (CronSimError, StopIteration):
        raise UnitError(f"{value!r} never fires", "write a day that the month has") from None
    return cron


def _zone_of(text: str) -> tuple[tzinfo, str]:
    match = re.fullmatch(r"(?:CRON_TZ|TZ)=(\S*)\s+(.*)", text)
    if match is None:
        return UTC, text
    try:
        return ZoneInfo(match[1]), match[2]
    except (ValueError, OSError, KeyError):
        fix = 'write a name such as "Europe/Berlin", or leave it out for UTC'
        raise UnitError(f"{match[1]!r} is no time zone", fix) from None


# -- checks ----------------------------------------------------------------------------------------


def usage_faults(usage: UsageConfig) -> Iterator[Fault]:
    """Yield the faults of a configuration; settings without effect are warnings."""
    store = usage.client_type
    if store and store not in USAGE_STORES:
        fix = did_you_mean(store, USAGE_STORES)
        yield Fault((*_PATH, "clientType"), "no such usage store", store, fix)
    yield from _connection_faults(usage)
    yield from _params_faults(usage.usage_params)
    yield from _granularity_faults(usage)
    path = (*_PATH, "usageParams", "extraParams")
    if usage.extra_params is not None:
        if usage.usage_params.extra_params is not None:
            fix = "keep one of the two"
            yield Fault((*_PATH, "extraParams"), "conflicts with usageParams.extraParams", fix=fix)
        else:
            path = (*_PATH, "extraParams")
    yield from _extra_faults(usage.extra, path)
    if usage.extra != UsageExtraParams() and store != "prometheus":
        fix = "only clientType: prometheus reads it"
        yield Fault(path, "has no effect here", fix=fix, is_warning=True)
    if usage.health_probe is not None:
        yield from _probe_faults(usage.health_probe)
        if store != "prometheus":
            fix = "only clientType: prometheus reads it"
            yield Fault((*_PATH, "healthProbe"), "has no effect here", fix=fix, is_warning=True)


def _probe_faults(probe: UsageHealthProbe) -> Iterator[Fault]:
    path: Path = (*_PATH, "healthProbe")
    durations = {"interval": probe.interval, "timeout": probe.timeout}
    yield from _time_faults(path, durations)
    retries = probe.max_retries
    if retries is not None and not 0 <= retries <= MOST_RETRIES:
        fix = f"write a number from 0 to {MOST_RETRIES}"
        yield Fault((*path, "maxRetries"), "out of range", retries, fix)


def _time_faults(path: Path, durations: Mapping[str, str | int | None]) -> Iterator[Fault]:
    yield from duration_faults({(*path, name): text for name, text in durations.items()})
    for name, text in durations.items():
        seconds = seconds_of(text)
        if name == "stalenessPeriod" or seconds is None or seconds >= 1:
            continue  # the first is compared with the fetchInterval
        if seconds or name not in _MAY_BE_NONE:
            yield Fault((*path, name), "shorter than a second", text, 'write "1s" or more')


def _connection_faults(usage: UsageConfig) -> Iterator[Fault]:
    variable = usage.connection_string_env_var
    path: Path = (*_PATH, "connectionStringEnvVar")
    if usage.connection_string and variable:
        yield Fault(path, "conflicts with connectionString", fix="keep one of the two")
    elif variable and not VARIABLE.fullmatch(variable):
        yield Fault(path, "no name of a variable", variable, "write a name such as PROMETHEUS_URL")
    path = (*_PATH, "connectionString")
    if usage.connection_string and usage.client_type == "memory":
        fix = "drop it, or write clientType: sqlite to keep history in a file"
        yield Fault(path, "has no effect here", fix=fix, is_warning=True)
    if usage.connection_string and usage.client_type == "prometheus":
        try:
            check_url(usage.connection_string)
        except UnitError as error:
            # Do not show a value with a password in it.
            shown = ABSENT if "@" in usage.connection_string else usage.connection_string
            yield Fault(path, str(error), shown, error.fix)


def check_url(text: str) -> None:
    """Raise UnitError unless a text is the address of an HTTP server."""
    fix = "write an address such as http://prometheus:9090"
    try:
        url = urlsplit(text)
        is_right = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        raise UnitError("no address", fix) from None
    if not is_right or not text.isprintable() or " " in text:
        raise UnitError("no address", fix)
    if url.query or url.fragment:
        raise UnitError("more than an address", "drop what follows the ? or #")


def _params_faults(params: UsageParams) -> Iterator[Fault]:
    path: Path = (*_PATH, "usageParams")
    durations: dict[str, str | int | None] = {
        "halfLifePeriod": params.half_life_period,
        "windowSize": params.window_size,
        "fetchInterval": params.fetch_interval,
        "stalenessPeriod": params.staleness_period,
        "waitTimeout": params.wait_timeout,
        "granularity": params.granularity,
    }
    yield from _time_faults(path, durations)
    fetch = seconds_of(params.fetch_interval) or 60.0
    stale = seconds_of(params.staleness_period)
    if stale is not None and stale < fetch:
        fix = "write at least the fetchInterval"
        yield Fault(
            (*path, "stalenessPeriod"), "shorter than fetchInterval", params.staleness_period, fix
        )
    yield from _window_faults(params, path)


def _granularity_faults(usage: UsageConfig) -> Iterator[Fault]:
    params, text = usage.usage_params, usage.usage_params.granularity
    path: Path = (*_PATH, "usageParams", "granularity")
    grain_s, window_s = seconds_of(text), seconds_of(params.window_size or "1w") or math.inf
    if grain_s is None:
        return
    if usage.client_type == "prometheus":
        fix = "write extraParams.queryResolution, which is that of a server"
        yield Fault(path, "has no effect here", text, fix, is_warning=True)
    elif params.window_type != "cron" and grain_s > window_s:
        yield Fault(path, "longer than the window", text, "write a small part of windowSize")
    elif params.window_type != "cron" and 1 <= grain_s < window_s / MOST_STRETCHES:
        least = f"{math.ceil(window_s / MOST_STRETCHES)}s"
        found = f"the window would have more than {MOST_STRETCHES:,} rows"
        yield Fault(path, found, text, f'write "{least}" or more')


def _window_faults(params: UsageParams, path: Path) -> Iterator[Fault]:
    kind = params.window_type or "sliding"
    start, cron = params.tumbling_window_start_time, params.cron_string
    if kind == "tumbling" and start is None:
        fix = 'add it, such as "2026-07-01T00:00:00Z"'
        yield Fault((*path, "tumblingWindowStartTime"), "missing", fix=fix)
    if start is not None:
        yield from unit_faults(
            (*path, "tumblingWindowStartTime"), start, lambda it: time_of(str(it))
        )
    if kind == "cron" and not cron:
        yield Fault((*path, "cronString"), "missing", fix='add it, such as "0 0 * * 1"')
    if cron:
        yield from unit_faults((*path, "cronString"), cron, parse_cron)
    for name, value, owner in (
        ("tumblingWindowStartTime", start, "tumbling"),
        ("cronString", cron, "cron"),
    ):
        if value and kind != owner:
            fix = f"drop it, or write windowType: {owner}"
            yield Fault((*path, name), "has no effect here", value, fix, is_warning=True)


def _extra_faults(extra: UsageExtraParams, path: Path) -> Iterator[Fault]:
    durations = {
        "usageQueryTimeout": extra.usage_query_timeout,
        "queryResolution": extra.query_resolution,
    }
    yield from _time_faults(path, durations)
    yield from _metric_faults(extra, path)
    labels = {(*path, "matchLabels", name): name for name in extra.match_labels}
    if extra.replica_label:
        labels[*path, "replicaLabel"] = extra.replica_label
    for where, name in labels.items():
        yield from unit_faults(where, name, check_label_name)
    if extra.insecure_skip_verify and extra.ca_file:
        fix = "keep one of the two"
        yield Fault((*path, "insecureSkipVerify"), "conflicts with caFile", fix=fix)


def _metric_faults(extra: UsageExtraParams, path: Path) -> Iterator[Fault]:
    for name, metric in metrics_of(extra).items():
        try:
            check_expression(metric)
        except UnitError as error:
            yield Fault((*path, name), str(error), metric, error.fix)
        if extra.match_labels and not is_metric_name(metric):
            fix = "write the labels into the expression, and drop matchLabels"
            yield Fault((*path, name), "an expression beside matchLabels", metric, fix)


def metrics_of(extra: UsageExtraParams) -> dict[str, str]:
    """Return the overridden metrics by key."""
    given = {
        "gpuAllocationMetric": extra.gpu_allocation_metric,
        "cpuAllocationMetric": extra.cpu_allocation_metric,
        "memoryAllocationMetric": extra.memory_allocation_metric,
        "gpuCapacityMetric": extra.gpu_capacity_metric,
        "cpuCapacityMetric": extra.cpu_capacity_metric,
        "memoryCapacityMetric": extra.memory_capacity_metric,
    }
    return {name: metric for name, metric in given.items() if metric is not None}


def seconds_of(text: str | int | None) -> float | None:
    """Return the seconds of a duration; None without one or for an invalid one."""
    try:
        return None if text is None else parse_duration(text)
    except UnitError:
        return None
