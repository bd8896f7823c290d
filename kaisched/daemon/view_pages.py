"""Live view over HTTP: versioned JSON under ``/api/v1``, and the files of the page.

docs/reference/api.md describes the documents. A page is made from the view of the last cycle, in a
thread of the server. Pages share the interpreter with the loop; so they are made one at a time and
with pauses, and an answer that was made for a revision is kept for the next reader. The files hold
no data: the page asks ``/api/v1`` for everything, with the rights of who looks at it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from contextlib import contextmanager
from http import HTTPStatus
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
import numpy as np

from kaisched import __version__
from kaisched.clock import SystemClock, monotonic_s
from kaisched.daemon.access import (
    Access,
    Reviews,
    TooManyQueuesError,
    is_cross_site,
    no_tokens,
    open_access,
    reviewed_access,
)
from kaisched.daemon.http_server import listen
from kaisched.daemon.http_wire import USUAL as HTTP_LIMITS
from kaisched.daemon.http_wire import Page, Reads, Source, Tls, text_page
from kaisched.daemon.view_whatif import whatif_off
from kaisched.errors import ABSENT, ClusterUnavailable, ConfigError, KaischedError
from kaisched.objects.faults import did_you_mean
from kaisched.view import jobs, nodes, queues
from kaisched.view.api import ENDPOINTS, PARAMETERS, WHATIF_PARAMETERS, openapi
from kaisched.view.documents import SCHEMA, stamp
from kaisched.view.history import view_at
from kaisched.view.hours import MOST_HOURS, hours_document
from kaisched.view.paths import CHANGES, MOST, OPENAPI, ROOT, USUAL, WHATIF, Part
from kaisched.view.queues import projects_of, row_of_queue
from kaisched.view.reading import Reading, Sight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kaisched.clock import Clock
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.config.settings import ViewListener
    from kaisched.daemon.http_server import Listener
    from kaisched.daemon.http_wire import Pages, Request
    from kaisched.daemon.view_whatif import Whatif
    from kaisched.view.live import LiveView
    from kaisched.view.publisher import Publisher, Told

_MOST_TEXT: Final = 300
_TRUE: Final = ("", "1", "true")
_FALSE: Final = ("0", "false")


class Query:
    """The parameters of one request, each the first of its name."""

    def __init__(self, given: Mapping[str, list[str]]) -> None:
        """Keep what was given."""
        self._given = {name: values[0] for name, values in given.items() if values}

    def text(self, name: str) -> str:
        """Return a text; empty without one.

        Raises:
            ConfigError: it is too long to be a name.

        """
        value = self._given.get(name, "")
        if len(value) > _MOST_TEXT:
            raise ConfigError("too long", path=name, value=value, fix="write a name")
        return value

    def number(self, name: str, usual: int, least: int, most: int) -> int:
        """Return a whole number.

        Raises:
            ConfigError: it is none, or out of range.

        """
        text = self._given.get(name)
        if text is None:
            return usual
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1  # noqa: PLR2004
        if not least <= number <= most:
            fix = f"write a number from {least} to {most}"
            raise ConfigError("no such number", path=name, value=text, fix=fix)
        return number

    def flag(self, name: str) -> bool:
        """Tell whether a flag is set: ``?name`` or ``?name=true``.

        Raises:
            ConfigError: it is neither set nor unset.

        """
        text = self._given.get(name, "false")
        if text not in (*_TRUE, *_FALSE):
            fix = "write true or false"
            raise ConfigError("no such word", path=name, value=text, fix=fix)
        return text in _TRUE

    def word(self, name: str, words: tuple[str, ...], usual: str = "") -> str:
        """Return one of some words.

        Raises:
            ConfigError: it is another one.

        """
        text = self._given.get(name, usual)
        if text and text not in words:
            raise ConfigError("no such word", path=name, value=text, fix=did_you_mean(text, words))
        return text

    def part(self) -> Part:
        """Return which part of a list is wanted."""
        return Part(self.number("offset", 0, 0, 10**8), self.number("limit", USUAL, 1, MOST))

    def queue(self, reading: Reading) -> int:
        """Return the row of the queue that is wanted, -1 for any.

        Raises:
            ConfigError: there is no such queue.

        """
        name = self.text("queue")
        return row_of_queue(reading, name) if name else -1

    def jobs(self, reading: Reading) -> jobs.Wanted:
        """Return which jobs are wanted."""
        sorts = (*jobs.SORTS, *(f"-{word}" for word in jobs.SORTS))
        return jobs.Wanted(
            self.queue(reading),
            self.text("reason"),
            self.word("state", (*jobs.STATES, jobs.WAITING)),
            self.text("namespace"),
            self.text("name"),
            self.text("user"),
            self.word("sort", sorts, "order"),
            self.part(),
        )

    def nodes(self, reading: Reading) -> nodes.Wanted:
        """Return which nodes are wanted."""
        return nodes.Wanted(
            self.text("name"),
            self.queue(reading),
            self.word("nodeState", nodes.NODE_STATES),
            self.text("domain"),
            self.part(),
        )


REST: Final = 9.0
"""After a list the server rests so many times as long: lists take a tenth of the time."""
REST_OF_ONE: Final = 19.0
"""The same after the page of one job or queue: these take a twentieth, on average."""
AHEAD_S: Final = 0.5
"""Pages of one job or queue may take so much at once, in seconds, where none was asked for lately.
A person asks a few times, looks, and goes; a pause before the second page would be for nothing."""
_MOST_REST_S: Final = 5.0


class _Lane:
    """Requests that share one rate limit."""

    def __init__(self, rest: float, ahead_s: float) -> None:
        self.lock = threading.Lock()
        self.until_s = float("-inf")
        self._rest, self._ahead_s = rest, ahead_s

    def took(self, start_s: float, end_s: float) -> None:
        """Note a page: it and its pause begin where the pauses of those before it end."""
        took_s = end_s - start_s
        since_s = max(self.until_s, start_s - self._rest * self._ahead_s)
        self.until_s = since_s + took_s + min(self._rest * took_s, _MOST_REST_S)


class Pacer:
    """Lets one page be made at a time, with pauses in between; lists delay no page of one job."""

    def __init__(
        self, clock: Clock | None = None, now_s: Callable[[], float] = monotonic_s
    ) -> None:
        """Start rested."""
        self._clock, self._now_s = clock or SystemClock(), now_s
        self._making = threading.Lock()
        self._lists, self._ones = _Lane(REST, 0.0), _Lane(REST_OF_ONE, AHEAD_S)

    @contextmanager
    def turn(self, *, is_of_one: bool = False) -> Iterator[None]:
        """Wait for a turn, and note how long it takes."""
        lane = self._ones if is_of_one else self._lists
        with lane.lock:
            self._clock.sleep(lane.until_s - self._now_s())
            with self._making:
                start_s = self._now_s()
                try:
                    yield
                finally:
                    lane.took(start_s, self._now_s())


_T = TypeVar("_T")

EVENTS: Final = "text/event-stream"
KINDS: Final = tuple(it.path[1:] for it in ENDPOINTS if it.path and "{" not in it.path)
PATHS: Final = tuple(f"{ROOT}/{kind}" for kind in KINDS)
_NAMED: Final = ("queues", "jobs")
"""Lists of which one entry may be asked for by name."""
_BY_CYCLE: Final = ("overview", "cycles", "fairness", "frames", "hours")
"""Documents with the times of cycles, which change within a revision."""
_NOTHING: Final[Mapping[str, Told]] = {}
WAIT_S: Final = 2.0
"""How long the reader of a list waits for what only the loop can tell."""
WAIT_FOR_ONE_S: Final = 0.5
"""The same for one job: its reader is answered within a second, also while a long cycle runs."""
MOST_KEPT: Final = 64
_MOST_KEPT_BYTES: Final = 1 << 20
"""Longer answers are not kept."""
_HEADERS: Final = (
    ("Cache-Control", "no-cache"),
    ("X-Content-Type-Options", "nosniff"),
)


class _Asked(NamedTuple):
    """One request on one reading."""

    publisher: Publisher
    reading: Reading
    query: Query
    sight: Sight
    name: str
    """What the path names; empty for a list."""
    is_past: bool = False
    """Whether it is about an earlier cycle, of which the loop tells nothing any more."""


class ViewPages:
    """Pages of the live views of all shards of a process, for any number of threads."""

    def __init__(
        self,
        publishers: Callable[[], Iterable[Publisher]],
        access: Access,
        pacer: Pacer | None = None,
        whatif: Whatif | None = None,
    ) -> None:
        """Serve the documents of the publishers to authorized users, and trials if any."""
        self._publishers, self._access = publishers, access
        self._pacer, self._whatif = pacer or Pacer(), whatif
        self._kept: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._readings: dict[str, Reading] = {}
        self._streamed: dict[str, tuple[int, int, float]] = {}
        """By shard, the revision and cycle that streams were told of last, and when."""
        self._lock = threading.Lock()
        self._makers: dict[str, Callable[[_Asked], dict[str, Any]]] = {
            "overview": lambda it: queues.overview_document(it.reading),
            "queues": self._queues,
            "nodes": lambda it: nodes.nodes_document(
                it.reading, it.query.nodes(it.reading), it.sight
            ),
            "capacity": lambda it: nodes.capacity_document(it.reading, it.query.text("level")),
            "evictions": lambda it: jobs.evictions_document(
                it.reading, it.query.text("queue"), it.query.part(), it.sight
            ),
            "decisions": lambda it: jobs.decisions_document(
                it.reading, it.query.text("queue"), it.query.part(), it.sight
            ),
            "fairness": lambda it: queues.fairness_document(
                it.reading, it.query.text("queue"), it.query.part()
            ),
            "hours": lambda it: hours_document(
                it.reading.view, it.publisher.hours, it.query.number("last", 24, 1, MOST_HOURS)
            ),
            "frames": lambda it: queues.frames_document(it.reading, it.publisher.frames),
            "cycles": lambda it: queues.cycles_document(it.reading),
        }

    @property
    def pages(self) -> Pages:
        """The pages by path."""
        headers = ("host", "authorization", "if-none-match")
        page = Source(self._page, Reads(tuple(f"{it}=" for it in PARAMETERS), headers))
        stream = Source(self._changes, Reads(headers=headers[:2]))
        of_browser = (*headers, "origin", "sec-fetch-site")
        trial = Source(
            self._page,
            Reads(tuple(f"{it}=" for it in WHATIF_PARAMETERS), of_browser),
        )
        return {ROOT: page, f"{ROOT}/": page, WHATIF: trial, CHANGES: stream}

    def news(self) -> bytes:
        """Return events of the views that have changed since the last call, for streams."""
        found = b""
        for publisher in self._publishers():
            view = publisher.view
            if view is None:
                continue
            revision, cycle, at_s = self._streamed.get(publisher.shard, (-1, -1, 0.0))
            is_due = cycle != view.cycle and monotonic_s() - at_s >= TELL_S
            if revision != view.revision or is_due:
                self._streamed[publisher.shard] = view.revision, view.cycle, monotonic_s()
                found += self._event(publisher)
        return found

    def _event(self, publisher: Publisher) -> bytes:
        """Return the event that tells of a publisher's present view."""
        view = publisher.view
        if view is None:
            return b""
        data = {
            "shard": view.shard,
            "revision": view.revision,
            "cycle": view.cycle,
            "time": stamp(view.time_s),
        }
        text = msgspec.json.encode(data).decode()
        return f"event: view\nid: {view.shard}-{view.revision}\ndata: {text}\n\n".encode()

    # -- requests --------------------------------------------------------------------------------

    def _page(self, request: Request) -> Page:
        sight = self._access(request)
        if isinstance(sight, Page):
            return sight
        if request.path == WHATIF and is_cross_site(request):
            return text_page(HTTPStatus.FORBIDDEN, "a page of another site starts no trial")
        try:
            body = self._body(request, sight)
        except TooManyQueuesError:
            fix = "name one that you may get: ?queue=NAME"
            return _failed(
                HTTPStatus.FORBIDDEN, KaischedError("you may not get all queues", fix=fix)
            )
        except ConfigError as wrong:
            is_path = not wrong.path
            status = HTTPStatus.NOT_FOUND if is_path else HTTPStatus.BAD_REQUEST
            return _failed(status, wrong)
        except KaischedError as wrong:
            return _failed(HTTPStatus.SERVICE_UNAVAILABLE, wrong)
        return _tagged(request, "application/json", body, _HEADERS)

    def _changes(self, request: Request) -> Page:
        """Begin the stream of changes: it names revisions, and no jobs."""
        sight = self._access(request)
        if isinstance(sight, Page):
            return sight
        first = b"retry: 2000\n\n" + b"".join(map(self._event, self._publishers()))
        return Page(HTTPStatus.OK, EVENTS, first, _HEADERS, is_stream=True)

    def _body(self, request: Request, sight: Sight) -> bytes:
        kind, _, name = request.path.removeprefix(ROOT).strip("/").partition("/")
        if request.path == OPENAPI:
            return _encoded(openapi(__version__))
        if not kind:
            return _encoded(self._index())
        if request.path == WHATIF:
            return self._tried(Query(request.query), sight)
        if kind not in KINDS or (name and kind not in _NAMED):
            raise ConfigError(f"there is no {request.path}", fix=f"here are {', '.join(PATHS)}")
        query = Query(request.query)
        publisher = self._publisher(query.text("shard"))
        view = publisher.view
        if view is None:
            raise ClusterUnavailable(
                f"shard {publisher.shard}: no cycle has ended yet",
                fix="see /readyz; a standby has no view",
            )
        latest, view = view, self._at(publisher, view, query)
        number = view.cycle if kind in _BY_CYCLE else view.revision
        key = (request.path, str(request.query), view.shard, number, self._others(kind))
        # What the loop tells may be missing once; who does not see all may soon see other things.
        is_told = kind == "jobs" and (bool(name) or query.flag("messages"))
        is_kept = sight.sees_all and not is_told
        if is_kept and (kept := self._kept_body(key)) is not None:
            return kept
        is_past = view is not latest
        reading = Reading(view) if is_past else self._reading(publisher, view)
        asked = _Asked(publisher, reading, query, sight, unquote(name), is_past)
        body = _encoded(self._document(asked, kind))
        if is_kept and len(body) <= _MOST_KEPT_BYTES:
            self._keep(key, body)
        return body

    def _tried(self, query: Query, sight: Sight) -> bytes:
        """Return what other values would change; it names jobs of all queues."""
        if self._whatif is None:
            return _encoded(whatif_off())
        if job := query.text("when"):
            return self._foreseen(query, job, sight)
        if query.flag("starts"):
            return self._starts(query, sight)
        if not sight.sees_all:
            raise TooManyQueuesError
        shard, target = query.text("shard"), query.text("target")
        if pods := query.number("pods", 0, 1, 10_000):
            gpus = query.number("gpus", 1, 0, 1000)
            return self._whatif.submission(shard, query.text("queue"), gpus, pods)
        if not target:
            return _encoded(self._whatif.values(shard))
        return self._whatif.difference(shard, target, query.text("set").split(","))

    def _foreseen(self, query: Query, job: str, sight: Sight) -> bytes:
        """Return when a job may start that the reader sees; of what else there is, only that."""
        publisher, reading, whatif = self._ahead_of(query)
        row = self._row(_Asked(publisher, reading, query, sight, job))
        name = reading.snapshot.jobs.name[row]
        found = msgspec.json.decode(whatif.forecast(publisher.shard, name))
        return _encoded({"schemaVersion": SCHEMA, "podGroup": name, "when": found["when"]})

    def _starts(self, query: Query, sight: Sight) -> bytes:
        """Return when the waiting jobs may start that the reader sees."""
        publisher, reading, whatif = self._ahead_of(query)
        found = msgspec.json.decode(whatif.starts(publisher.shard))
        names = reading.snapshot.jobs.name
        is_seen = sight.of_jobs(reading, np.arange(len(names))).tolist()
        seen = set(compress(names, is_seen))
        starts = {it["podGroup"]: it["when"] for it in found["jobs"] if it["podGroup"] in seen}
        assumptions = found["assumptions"]
        return _encoded({"schemaVersion": SCHEMA, "starts": starts, "assumptions": assumptions})

    def _ahead_of(self, query: Query) -> tuple[Publisher, Reading, Whatif]:
        """Return what is computed ahead: a shard, its last view, and the worker."""
        publisher = self._publisher(query.text("shard"))
        view = publisher.view
        if view is None or self._whatif is None:
            raise ClusterUnavailable("no cycle has ended yet", fix="see /readyz")
        return publisher, self._reading(publisher, view), self._whatif

    def _at(self, publisher: Publisher, view: LiveView, query: Query) -> LiveView:
        """Return the view of the cycle that is asked for; without one, the latest.

        Raises:
            ConfigError: none but the latest is kept.

        """
        cycle = query.number("at", -1, 0, 10**9)
        if cycle < 0 or cycle == view.cycle:
            return view
        if not publisher.frames:
            fix = "leave it out: only a simulation keeps earlier cycles"
            raise ConfigError("no earlier cycle is kept", path="at", value=cycle, fix=fix)
        return view_at(publisher.frames, cycle, view)

    def _kept_body(self, key: tuple[object, ...]) -> bytes | None:
        with self._lock:
            return self._kept.get(key)

    def _keep(self, key: tuple[object, ...], body: bytes) -> None:
        with self._lock:
            self._kept[key] = body
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    def _index(self) -> dict[str, Any]:
        shards = [it.shard for it in self._publishers()]
        paths = [*PATHS, CHANGES, OPENAPI]
        is_tried = self._whatif is not None
        return {"schemaVersion": SCHEMA, "shards": shards, "paths": paths, "whatif": is_tried}

    def _publisher(self, shard: str) -> Publisher:
        known = list(self._publishers())
        for publisher in known:
            if shard in {"", publisher.shard}:
                return publisher
        if not known:
            raise ClusterUnavailable("this process leads no shard", fix="ask the one that does")
        names = ", ".join(it.shard for it in known)
        raise ConfigError(f"there is no shard {shard}", fix=f"here are {names}")

    def _reading(self, publisher: Publisher, view: LiveView) -> Reading:
        """Return the reading of a view; readers of one revision share it."""
        with self._lock:
            found = self._readings.get(publisher.shard)
            if found is None or found.view.revision != view.revision:
                found = Reading(view)
            elif found.view is not view:
                found = found.again(view)
            self._readings[publisher.shard] = found
        return found

    def _others(self, kind: str) -> tuple[tuple[str, int], ...]:
        """Return the revisions of all shards for a document that adds them up."""
        if kind != "queues":
            return ()
        views = [it.view for it in self._publishers()]
        return tuple((it.shard, it.revision) for it in views if it is not None)

    def _queues(self, asked: _Asked) -> dict[str, Any]:
        """Return queues, with projects added up over node pools except of an earlier cycle."""
        views = [] if asked.is_past else [(it.pool, it.view) for it in self._publishers()]
        return queues.queues_document(asked.reading, asked.name or None, projects_of(views))

    # -- documents -------------------------------------------------------------------------------

    def _document(self, asked: _Asked, kind: str) -> dict[str, Any]:
        """Return a document.

        Raises:
            KaischedError: what is asked for is not there, or cannot be asked for.

        """
        if kind == "jobs":
            return self._job(asked) if asked.name else self._jobs(asked)
        return self._seen(asked, lambda sight: self._makers[kind](asked._replace(sight=sight)))

    def _seen(self, asked: _Asked, make: Callable[[Sight], _T]) -> _T:
        """Make something while it is our turn, with what the reader sees.

        The API server is asked in between: nobody else has to wait for its answers.
        """
        known: dict[str, bool] = {}
        is_of_one = asked.name != ""
        while not asked.sight.sees_all:
            unknown: dict[str, None] = {}
            with self._pacer.turn(is_of_one=is_of_one):
                made = make(_partly(known, unknown))
            if not unknown:
                return made
            known.update((queue, asked.sight.sees(queue)) for queue in unknown)
        with self._pacer.turn(is_of_one=is_of_one):
            return make(asked.sight)

    def _jobs(self, asked: _Asked) -> dict[str, Any]:
        reading, told = asked.reading, _NOTHING
        wanted = asked.query.jobs(reading)
        if asked.query.flag("messages"):
            names = self._seen(asked, lambda sight: jobs.waiting_names(reading, wanted, sight))
            told = self._told(asked, names)
        return self._seen(asked, lambda sight: jobs.jobs_document(reading, wanted, sight, told))

    def _job(self, asked: _Asked) -> dict[str, Any]:
        reading = asked.reading
        row = self._row(asked)
        name = reading.snapshot.jobs.name[row]
        names = [name] if reading.code[row] else []
        told = self._told(asked, names, with_turn=True)
        return self._seen(asked, lambda sight: jobs.job_document(reading, row, sight, told))

    def _told(
        self, asked: _Asked, names: list[str], *, with_turn: bool = False
    ) -> Mapping[str, Told]:
        """Ask the loop about jobs; it remembers the last cycle only."""
        if asked.is_past:
            return _NOTHING
        wait_s = WAIT_FOR_ONE_S if asked.name else WAIT_S
        return asked.publisher.inquiries.ask(names, wait_s, with_turn=with_turn)

    def _row(self, asked: _Asked) -> int:
        """Return the row of the job that is asked for.

        Raises:
            ConfigError: there is none; who does not see all is told of no other names.

        """
        reading, sight = asked.reading, asked.sight
        hidden = ConfigError(f"there is no job or pod {asked.name}", fix="write NAMESPACE/NAME")
        with self._pacer.turn(is_of_one=True):
            try:
                row = jobs.row_of_job(reading, asked.name)
            except ConfigError:
                if sight.sees_all:
                    raise
                raise hidden from None
        if not sight.sees(reading.queue_name(row)):
            raise hidden
        return row


def _partly(known: Mapping[str, bool], unknown: dict[str, None]) -> Sight:
    """Return a sight of what is known so far, which notes what is not."""

    def sees(queue: str) -> bool:
        if queue not in known:
            unknown[queue] = None
        return known.get(queue, False)

    return Sight(sees_all=False, of_queue=sees)


def _encoded(document: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document) + b"\n"


def _failed(status: HTTPStatus, wrong: KaischedError) -> Page:
    path, value = getattr(wrong, "path", ""), getattr(wrong, "value", ABSENT)
    fault = {
        "message": wrong.message,
        "path": path or None,
        "value": None if value is ABSENT else str(value),
        "fix": wrong.fix,
    }
    return Page(status, "application/json", _encoded({"error": fault}), _HEADERS)


PREFIX: Final = "/page/"
FOLDER: Final = Path(__file__).parents[1] / "data" / "page"
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; style-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'"
)
"""Nothing from elsewhere, nothing inline, and no text that becomes markup."""
_PAGE_HEADERS: Final = (
    ("Cache-Control", "no-cache"),
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)


def static_pages() -> Pages:
    """Read the files of the page, and return them by path."""
    files = {
        f"{PREFIX}{path.relative_to(FOLDER).as_posix()}": (_TYPES[path.suffix], path.read_bytes())
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }
    files["/"] = files[f"{PREFIX}{_INDEX}"]

    def page(request: Request) -> Page:
        found = files.get(request.path)
        if found is None:
            return text_page(HTTPStatus.NOT_FOUND, "no such file; the page is at /")
        return _tagged(request, *found, _PAGE_HEADERS)

    source = Source(page, Reads(headers=("if-none-match",)))
    return {"/": source, PREFIX: source}


def _tagged(
    request: Request, content_type: str, body: bytes, headers: tuple[tuple[str, str], ...]
) -> Page:
    """Return a page with its ETag, without the body where the client has it."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = (("ETag", tag), *headers)
    if tag in [it.strip().removeprefix("W/") for it in request.if_none_match.split(",")]:
        return Page(HTTPStatus.NOT_MODIFIED, content_type, b"", headers)
    return Page(HTTPStatus.OK, content_type, body, headers)


TELL_S: Final = 5.0
"""A stream tells of the latest cycle so often, also where nothing has changed."""
_LIMITS: Final = HTTP_LIMITS._replace(threads=4)
"""Each thread may wait for the API server, or for a word of the loop."""


def view_listener(
    settings: ViewListener,
    publishers: Callable[[], Iterable[Publisher]],
    client: Client | None,
    whatif: Whatif | None = None,
) -> Listener:
    """Listen for readers of the views of all shards; offer what-if too, if it is given.

    Raises:
        ConfigError: the address cannot be listened on, or users cannot be told apart.

    """
    view = ViewPages(publishers, _access(settings, client), whatif=whatif)
    tls = Tls(settings.cert_file, settings.key_file) if settings.cert_file else None
    pages = {**static_pages(), **view.pages}
    address, port = settings.bind_address, settings.port
    listener = listen(
        address, port, pages, "view.port", tls=tls, limits=_LIMITS, hosts=settings.hosts
    )
    listener.news = view.news
    return listener


def _access(settings: ViewListener, client: Client | None) -> Access:
    if not settings.is_authenticated:
        return open_access
    if client is not None:
        return reviewed_access(Reviews(client))
    shown = "the view shows all queues and jobs"
    raise no_tokens("view.authentication", settings.authentication, shown)
