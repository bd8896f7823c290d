"""Queries to a Prometheus server: one session with bounds, PromQL for a window, checked answers.

The client library has no timeout of its own, follows redirects, drops warnings and pastes label
values into queries. So only its ``custom_query`` is used, on a session of ours with one deadline
for everything, a largest answer and no redirects. ``requests`` bounds each wait for bytes, so a
server that sends one byte a second may take for ever: a timer closes the sockets when time is up.

A subquery evaluates an expression at whole multiples of the step. All series of a queue are summed,
so that a replaced exporter loses nothing. A moment counts only if both allocation and capacity are
known then, in both sums. Most of the cost is the server's work at each step for each series. So
series are summed over time first and then over queues, and invalid values are counted before a
query excludes them. This takes a quarter of the time, measured on 50 queues and a week by the
minute.
"""

from __future__ import annotations

import io
import json
import math
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit
from weakref import WeakSet

import numpy as np
import requests
from prometheus_api_client import PrometheusConnect
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from kaisched.objects.labels import format_time
from kaisched.telemetry.logs import hide
from kaisched.usage.history import quantise
from kaisched.usage.period import BASE_UNITS
from kaisched.usage.settings import QUEUE_LABEL

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from kaisched.core.axis import FloatVec
    from kaisched.usage.history import Window
    from kaisched.usage.settings import PrometheusSettings


# -- the session -----------------------------------------------------------------------------------

MOST_BYTES: Final = 64 << 20
"""Largest answer; an answer for 10,000 queues has 2 MB."""
_REFUSED: Final = (401, 403)
_OK: Final = 200


class QueryError(Exception):
    """A server gave no usable answer; the message contains no credentials."""

    def __init__(self, message: str, *, is_too_much: bool = False) -> None:
        super().__init__(message)
        self.is_too_much = is_too_much
        """Whether a smaller query may be answered."""


class BearerFile(AuthBase):
    """Sends the token in a file, which is read each time, since such files are renewed."""

    def __init__(self, path: Path) -> None:
        """Keep the file's path."""
        self._path = path

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header."""
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise QueryError(f"bearerTokenFile {self._path} cannot be read") from error
        hide(token)
        request.headers["Authorization"] = f"Bearer {token}"
        return request


class BoundedSession(requests.Session):
    """Session with one server, for use by one thread."""

    def __init__(
        self, most_bytes: int = MOST_BYTES, *, deadline: str = "usageQueryTimeout"
    ) -> None:
        """Start without a deadline, which :meth:`begin` sets; ``deadline`` is its setting."""
        super().__init__()
        self._deadline = deadline
        # Use neither .netrc nor the machine's proxy: we could not close a proxy's sockets.
        self.trust_env = False
        self.warnings: list[str] = []
        """Warnings in the server's answers since :meth:`begin`."""
        self._most_bytes = most_bytes
        self._end_s = 0.0
        self.sockets: WeakSet[socket.socket] = WeakSet()

    def begin(self, seconds: float) -> None:
        """Give all requests from now on this much time in total."""
        self._end_s = time.monotonic() + seconds  # noqa: TID251 - of this machine, not of a cluster
        self.warnings = []

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request and read the answer.

        Raises:
            QueryError: the answer is late, too long, or no result.

        """
        left_s = self._end_s - time.monotonic()  # noqa: TID251 - as above
        host = urlsplit(request.url or "").hostname
        if left_s <= 0:
            raise QueryError(f"{host} took longer than {self._deadline}", is_too_much=True)
        options |= {"allow_redirects": False, "stream": True, "timeout": left_s}
        timer = threading.Timer(left_s, self._cut)
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, **options)
            # One byte above the limit tells a too long answer from one that just fits.
            body = response.raw.read(self._most_bytes + 1, decode_content=True)
        except QueryError:
            raise
        except Exception as error:
            # The transport may raise anything; our clock tells whether time was the reason.
            is_late = time.monotonic() >= self._end_s - 0.01  # noqa: TID251 - as above
            why = (
                f"took longer than {self._deadline}"
                if is_late
                else f"did not answer: {_root(error)}"
            )
            raise QueryError(f"{host} {why}", is_too_much=is_late) from error
        finally:
            timer.cancel()
        if len(body) > self._most_bytes:
            response.close()
            raise QueryError(f"{host} answered more than {self._most_bytes >> 20} MiB")
        response.raw = io.BytesIO(body)
        self._check(response, body)
        return response

    def _cut(self) -> None:
        for each in list(self.sockets):
            try:
                each.shutdown(2)
            except OSError:
                continue  # it was closed in the meantime

    def _check(self, response: requests.Response, body: bytes) -> None:
        status, host = response.status_code, urlsplit(response.url).hostname
        if response.is_redirect:
            to = urlsplit(response.headers["location"]).hostname or host
            raise QueryError(
                f"{host} redirects us to {to}: write the address of the server itself,"
                " no credentials are sent elsewhere"
            )
        if status in _REFUSED:
            raise QueryError(
                f"{host} refuses us ({status}): set bearerTokenFile, or user and password in the"
                " connectionString"
            )
        try:
            answer = json.loads(body)
            if status == _OK and answer["status"] == "success":
                self.warnings += [str(text) for text in answer.get("warnings") or ()]
                return
            said = str(answer["error"])[:300]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise QueryError(
                f"{host} answered {status}, which is no answer of Prometheus"
            ) from None
        is_too_much = "too many samples" in said or "timed out" in said or "maximum reso" in said
        raise QueryError(f"{host} answered {status}: {said}", is_too_much=is_too_much)


class CuttableAdapter(HTTPAdapter):
    """Adapter without retries that gives the session every socket it opens."""

    def __init__(self, sockets: WeakSet[socket.socket]) -> None:
        """Add opened sockets to ``sockets``."""
        super().__init__(max_retries=0)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _pool(HTTPConnectionPool, HTTPConnection, sockets),
            "https": _pool(HTTPSConnectionPool, HTTPSConnection, sockets),
        }


def _pool(
    pool: type[HTTPConnectionPool], kind: type[HTTPConnection], sockets: WeakSet[socket.socket]
) -> Any:
    def connect(self: HTTPConnection) -> None:
        kind.connect(self)
        if self.sock is not None:
            sockets.add(self.sock)

    connection = type(kind.__name__, (kind,), {"connect": connect})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


def _root(error: BaseException) -> str:
    """Describe the innermost cause of a transport error in few words."""
    while (under := error.__cause__ or error.__context__) is not None:
        error = under
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)[:200]


# -- the client ------------------------------------------------------------------------------------


class Client:
    """Client of one server, for use by one thread."""

    def __init__(self, settings: PrometheusSettings, session: BoundedSession | None = None) -> None:
        """Set up a session; nothing is connected yet."""
        self._settings = settings
        self._session = session or BoundedSession()
        self._session.verify = settings.ca_file or not settings.is_insecure
        url, auth = _without_credentials(settings.url)
        if settings.bearer_token_file:
            auth = BearerFile(Path(settings.bearer_token_file))
        self._connect = PrometheusConnect(
            url, session=self._session, auth=auth, timeout=settings.timeout_s
        )
        # The library mounts an adapter that retries beyond any deadline.
        self._session.mount(url, CuttableAdapter(self._session.sockets))

    def begin(self) -> None:
        """Start a fetch: all its queries share one ``usageQueryTimeout``."""
        self._session.begin(self._settings.timeout_s)

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings in the server's answers since :meth:`begin`."""
        return tuple(dict.fromkeys(self._session.warnings))

    def ask(self, query: str, at_s: float | None = None) -> list[Any]:
        """Return the answer to an instant query, at the server's time unless a time is given.

        Raises:
            QueryError: there is no usable answer.

        """
        params = {} if at_s is None else {"time": f"{at_s:.3f}"}
        return _list(lambda: self._connect.custom_query(query, params=params))

    def ask_range(self, query: str, start_s: float, end_s: float, step_s: int) -> list[Any]:
        """Return the answer to a query at every step from ``start_s`` on, in whole seconds.

        Raises:
            QueryError: there is no usable answer.

        """
        start, end = (datetime.fromtimestamp(each, UTC) for each in (start_s, end_s))
        return _list(lambda: self._connect.custom_query_range(query, start, end, str(step_s)))

    def close(self) -> None:
        """Close connections."""
        self._session.close()


def _list(ask: Callable[[], Any]) -> list[Any]:
    try:
        found = ask()
    except (KeyError, TypeError) as error:
        raise QueryError("the answer has no result") from error
    if not isinstance(found, list):
        raise QueryError("the answer has no result")
    return found


def _without_credentials(url: str) -> tuple[str, Any]:
    """Split an address from its credentials, so that messages can show it."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit((parts.scheme, host, parts.path, "", ""))
    return bare, (unquote(parts.username), unquote(parts.password or ""))


# -- queries ---------------------------------------------------------------------------------------

MOST_STEPS: Final = 10_800
"""Most steps, below the 11,000 points that a server returns; a week by the minute has 10,080."""
MOST_SAMPLES: Final = 2_000_000
"""Most series times steps in a query: a second's work for a server, far below its limit."""
STEPS_OF_HALF_LIFE: Final = 240
"""So one step weighs at most 0.3 % of the whole; 32 half-lives are then 7,680 steps."""


@dataclass(frozen=True, slots=True)
class Span:
    """A window in steps. Times are seconds since 1970 of the server's clock."""

    start_s: float
    at_s: float
    step_s: int
    half_life_s: float | None

    @property
    def subquery(self) -> str:
        """``[range:step]``, a millisecond longer, to include a step at the very start.

        Prometheus 3 excludes the left end, Prometheus 2 does not.
        """
        return f"[{round((self.at_s - self.start_s) * 1000) + 1}ms:{self.step_s}s]"

    @property
    def first_step_s(self) -> float:
        """The first step in the window."""
        return math.ceil(self.start_s / self.step_s) * self.step_s

    @property
    def steps(self) -> int:
        """Number of steps."""
        return max(int((self.at_s - self.first_step_s) // self.step_s) + 1, 0)

    @property
    def decay(self) -> str:
        """Weight of a step, as a factor behind an expression."""
        if self.half_life_s is None:
            return ""
        return f" * (0.5 ^ (({self.at_s:.3f} - time()) / {self.half_life_s:.3f}))"


def step_s(
    span_s: float,
    resolution_s: float,
    half_life_s: float | None,
    series: int,
    coarser: int = 1,
) -> int:
    """Return the step for a window of this length, in whole seconds.

    It is the resolution, or less for a short half-life: the newest step counts in full, however new
    it is. It is a multiple of that if there would be too many steps for the server. ``coarser`` is
    a further factor, for a server that refused the last query as too much.
    """
    finest = max(span_s / MOST_STEPS, span_s * series / MOST_SAMPLES, 1.0)
    wanted_s = min(resolution_s, (half_life_s or math.inf) / STEPS_OF_HALF_LIFE)
    wanted = max(math.floor(wanted_s), 1)
    return max(math.ceil(finest / wanted), 1) * wanted * coarser


@dataclass(frozen=True, slots=True)
class Questions:
    """Queries about one resource."""

    settings: PrometheusSettings
    resource: str

    @property
    def _series(self) -> str:
        return self._once(self.settings.allocation[self.resource])

    @property
    def _capacity(self) -> str:
        # NaN is not above 0 either.
        return f"(sum({self._once(self.settings.capacity[self.resource])}) > 0)"

    def _once(self, metric: str) -> str:
        """Return an expression that counts copies once."""
        replica = self.settings.replica_label
        return f"(max without ({replica}) ({metric}))" if replica else f"({metric})"

    @property
    def series(self) -> str:
        """Query of the present number of series."""
        return f"count({self._series})"

    @property
    def newest(self) -> str:
        """Query of the time of the newest sample; for an expression, that is now."""
        return f"max(timestamp({self.settings.allocation[self.resource]}))"

    def negative(self, span: Span) -> str:
        """Return the query of the number of series that were below 0 at any step."""
        return f"count(min_over_time({self._series}{span.subquery}) < 0)"

    def unmatched(self, span: Span) -> str:
        """Return the query of the number of steps with allocation but without capacity."""
        steps = f"(group({self._series}) unless on() {self._capacity}){span.subquery}"
        return f"sum(count_over_time({steps}))"

    def used(self, span: Span, *, is_filtered: bool, is_matched: bool) -> str:
        """Return the query of decayed sums by queue.

        Args:
            span: the window.
            is_filtered: leave out invalid values.
            is_matched: leave out steps without capacity.

        """
        # NaN is not at least 0 either.
        series = f"({self._series} >= 0)" if is_filtered else self._series
        known = f" and on() {self._capacity}" if is_matched else ""
        steps = f"({series}{span.decay}{known}){span.subquery}"
        return f"sum by ({QUEUE_LABEL}) (sum_over_time({steps}))"

    @property
    def capacity(self) -> str:
        """Query of the capacity whenever allocation is known too: one series."""
        return f"{self._capacity} and on() group({self._series})"


# -- one fetch -------------------------------------------------------------------------------------

MOST_SKEW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Resource:
    """The history of one resource."""

    parts: Mapping[str, int] = field(default_factory=dict)
    """Usage by queue in parts per billion; queues without a series are absent."""
    capacity: float = 0.0
    """Decayed base units times seconds."""
    coverage: float = 1.0
    first_s: float | None = None
    """The first step with data."""
    last_s: float | None = None
    """The last step with data."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Answers of a server at one time; times are by our clock."""

    at_s: float
    newest_s: float
    """Time of the newest sample."""
    resources: Mapping[str, Resource] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """Faults: missing or refused data."""
    notes: tuple[str, ...] = ()
    """Remarks that are no faults."""
    is_cut: bool = False
    """Whether the server warned, so that queues may be missing."""

    def completed_by(self, last: Fetched | None) -> Fetched:
        """Fill gaps from the fetch before.

        Missing is not zero. A refused resource, or a queue that a server with incomplete data does
        not name, keeps its last known value (rule U8).
        """
        if last is None or not self.faults:
            return self
        resources = {**last.resources, **self.resources}
        if self.is_cut:
            resources = {
                name: replace(new, parts={**last.resources[name].parts, **new.parts})
                if name in last.resources
                else new
                for name, new in resources.items()
            }
        return replace(self, resources=resources)


def fetch(
    client: Client, settings: PrometheusSettings, window: Window, now_s: float, coarser: int = 1
) -> Fetched:
    """Query everything for one window by the server's clock, as its samples are (rule U6).

    Args:
        client: the connection.
        settings: the metrics to query.
        window: the part of the past that counts.
        now_s: the time by our clock.
        coarser: a factor for the steps, 1 for as fine as the settings say.

    Raises:
        QueryError: a query got no answer.

    """
    client.begin()
    server_s = _scalar(client.ask("time()"))
    if server_s is None:
        raise QueryError("the server does not know the time")
    # Whole seconds: range queries take nothing else, and all queries must have equal steps.
    server_s = math.floor(server_s)
    gpus = Questions(settings, "gpu")
    start_s = window.start(server_s)
    series = _scalar(client.ask(gpus.series, server_s)) or 0.0
    step = step_s(
        server_s - start_s, settings.resolution_s, window.half_life_s, int(series), coarser
    )
    span = Span(start_s, server_s, step, window.half_life_s)
    resources, faults = {}, []
    for name in settings.allocation:
        found, said = _resource(client, Questions(settings, name), span)
        faults += said
        if found is not None:
            resources[name] = found
    newest_s = _newest(_scalar(client.ask(gpus.newest, server_s)), resources)
    faults += [f"the server warns: {text}" for text in client.warnings]
    return Fetched(
        now_s,
        now_s - max(server_s - newest_s, 0.0),
        resources,
        tuple(faults),
        tuple(_notes(span, settings, now_s, resources)),
        is_cut=bool(client.warnings),
    )


def _newest(newest_s: float | None, resources: Mapping[str, Resource]) -> float:
    if newest_s is not None:
        return newest_s
    return max((each.last_s for each in resources.values() if each.last_s), default=-math.inf)


def _notes(
    span: Span, settings: PrometheusSettings, now_s: float, resources: Mapping[str, Resource]
) -> list[str]:
    notes = []
    ahead_s = span.at_s - now_s
    if abs(ahead_s) > MOST_SKEW_S:
        word = "ahead of" if ahead_s > 0 else "behind"
        notes.append(f"the server's clock is {word} ours by more than {MOST_SKEW_S:.0f} s")
    if span.step_s > settings.resolution_s:
        notes.append(f"asked in steps of {span.step_s} s: much history, or many queues")
    firsts = [each.first_s for each in resources.values() if each.first_s is not None]
    if firsts and min(firsts) > span.first_step_s + span.step_s:
        notes.append(f"history begins at {format_time(min(firsts))}, inside the window")
    return notes


def _resource(
    client: Client, questions: Questions, span: Span
) -> tuple[Resource | None, list[str]]:
    """Return the history of a resource, None if it is invalid, and its faults."""
    if span.steps == 0:
        return Resource(), []
    name = questions.resource
    times, capacity = _points(
        client.ask_range(questions.capacity, span.first_step_s, span.at_s, span.step_s)
    )
    if not len(times):
        settings = questions.settings
        both = f"{settings.allocation[name]} and {settings.capacity[name]}"
        return None, [f"{name}: the window has no time at which {both} are both known"]
    used, faults = _used(client, questions, span)
    # Python's power: numpy's differs from processor to processor.
    weights = [
        0.5 ** ((span.at_s - at) / span.half_life_s) if span.half_life_s else 1.0
        for at in times.tolist()
    ]
    total = float(np.dot(capacity, weights))
    queues = list(used)
    parts, unbelievable, said = quantise(
        np.array([list(used.values())], np.float64), np.array([total]), queues, [name]
    )
    if unbelievable[0]:
        return None, [*faults, *said]
    due = (span.at_s - times[0]) // span.step_s + 1
    found = Resource(
        dict(zip(queues, parts[0].tolist(), strict=True)),
        total * span.step_s * BASE_UNITS[name],
        float(min(len(times) / due, 1.0)),
        float(times[0]),
        float(times[-1]),
    )
    return found, faults


def _used(client: Client, questions: Questions, span: Span) -> tuple[dict[str, float], list[str]]:
    """Return decayed sums by queue, and faults about values that were left out."""
    name = questions.resource
    negative = _scalar(client.ask(questions.negative(span), span.at_s))
    is_matched = bool(_scalar(client.ask(questions.unmatched(span), span.at_s)))
    query = questions.used(span, is_filtered=bool(negative), is_matched=is_matched)
    used, junk = _by_queue(client.ask(query, span.at_s))
    faults = []
    if junk and not negative:
        # A value that is no number makes the whole sum none: query again without such values.
        query = questions.used(span, is_filtered=True, is_matched=is_matched)
        faults.append(f"{name}: {junk} queues have values that are no numbers, left out")
        used, junk = _by_queue(client.ask(query, span.at_s))
    if negative:
        faults.append(f"{name}: {negative:.0f} series have values below 0, left out")
    if junk:
        faults.append(f"{name}: left out {junk} answers without a number or a {QUEUE_LABEL}")
    return used, faults


def _scalar(answer: list[Any]) -> float | None:
    """Return the single number of an answer; None for an empty answer.

    Raises:
        QueryError: the answer has another form, or is not finite.

    """
    if not answer:
        return None
    # A scalar is [time, value]; a vector is a list of {"metric", "value"}.
    value = answer[0].get("value", (0, None))[1] if isinstance(answer[0], dict) else answer[-1]
    number = _number(value)
    if number is None:
        raise QueryError(f"the answer {str(value)[:40]!r} is no number")
    return number


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _by_queue(answer: list[Any]) -> tuple[dict[str, float], int]:
    """Return numbers by queue, and the number of entries without a number or a queue."""
    found: dict[str, float] = {}
    junk = 0
    for entry in answer:
        try:
            queue, number = entry["metric"].get(QUEUE_LABEL, ""), _number(entry["value"][1])
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise QueryError("the answer is no vector") from error
        if number is None or number < 0 or not queue:
            junk += 1
        else:
            found[queue] = number
    return found, junk


def _points(answer: list[Any]) -> tuple[FloatVec, FloatVec]:
    """Return times and values of the only series of an answer; empty without a series."""
    if not answer:
        return np.zeros(0), np.zeros(0)
    try:
        points = np.array(answer[0]["values"], np.float64)
        return points[:, 0], points[:, 1]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise QueryError("the answer is no series") from error
