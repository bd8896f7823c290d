"""Access to metrics and the live view: who a token belongs to, and what that user may see.

As in kube-scheduler, the API server says both: by a TokenReview and a SubjectAccessReview. An
answer counts for some seconds; without an answer, access is refused. The live view is for users who
may ``get`` the URL ``/kaisched/view``; of these, who may ``get`` a Queue sees its jobs, others see
totals. On loopback no token is needed.
"""

from __future__ import annotations

import hashlib
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from kaisched.clock import monotonic_s
from kaisched.daemon.http_wire import Page, Source, text_page
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.objects.queue import Queue
from kaisched.objects.wire import BAD_JSON
from kaisched.view.reading import ALL, Sight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.daemon.http_wire import Request

KEPT_S: Final = 10.0
"""How long an answer counts; a revoked right ends at most this much later."""
MOST_USERS: Final = 256
MOST_RIGHTS: Final = 20_000
"""Kept answers: of tokens, and of rights."""
MOST_REVIEWS: Final = 100
"""Rights that one request may ask the API server about."""
_WAIT_S: Final = 5.0
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_FIX: Final = "apply the role kaisched-review of deploy/ and bind it to our account"
VIEW: Final = "/kaisched/view"
"""The URL that stands for the live view in roles; it is not one of the API server's own."""
_V = TypeVar("_V")


def is_cross_site(request: Request) -> bool:
    """Tell whether a browser asks for a page of another site; programs say nothing of theirs."""
    if request.sec_fetch_site not in {"", "same-origin", "none"}:
        return True
    return bool(request.origin) and urlsplit(request.origin).netloc != request.host


class User(msgspec.Struct):
    """The user of a token."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct):
    """Status of either kind of review."""

    authenticated: bool = False
    user: User = msgspec.field(default_factory=User)
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


class Reader(NamedTuple):
    """The sender of a request."""

    digest: bytes
    """Of the token."""
    user: User


class _Kept(Generic[_V]):
    """Answers that count for a while, the oldest dropped first."""

    def __init__(self, most: int, now_s: Callable[[], float]) -> None:
        self._most, self._now_s = most, now_s
        self._found: dict[object, tuple[float, _V]] = {}
        self._lock = threading.Lock()

    def get(self, key: object, ask: Callable[[], _V]) -> _V:
        """Return the answer that is kept, or ask for one."""
        with self._lock:
            found = self._found.get(key)
        if found is not None and self._now_s() < found[0]:
            return found[1]
        value = ask()
        with self._lock:
            self._found.pop(key, None)
            while len(self._found) >= self._most:
                del self._found[next(iter(self._found))]
            self._found[key] = (self._now_s() + KEPT_S, value)
        return value


class Reviews:
    """Reviews by the API server, from any thread; each answer counts for a while."""

    def __init__(self, client: Client, now_s: Callable[[], float] = monotonic_s) -> None:
        """Send reviews through ``client``; age their answers by ``now_s``."""
        self._client = client.hurried(_WAIT_S)
        self._users: _Kept[User | None] = _Kept(MOST_USERS, now_s)
        self._rights: _Kept[bool] = _Kept(MOST_RIGHTS, now_s)

    def reader(self, request: Request) -> Reader | Page:
        """Return the sender of a request, or the answer to an unknown one.

        Raises:
            ClusterUnavailable: the API server does not tell.

        """
        scheme, _, rest = request.authorization.partition(" ")
        token = rest.strip() if scheme.lower() == "bearer" else ""
        if not token:
            return text_page(HTTPStatus.UNAUTHORIZED, "a bearer token is needed")
        digest = hashlib.sha256(token.encode()).digest()
        user = self._users.get(digest, lambda: self._user_of(token))
        if user is None:
            return text_page(HTTPStatus.UNAUTHORIZED, "the API server does not know this token")
        return Reader(digest, user)

    def _user_of(self, token: str) -> User | None:
        found = self._review("TokenReview", _TOKENS, {"token": token})
        return found.user if found.authenticated and found.user.username else None

    def may(
        self,
        reader: Reader,
        kind: str,
        attributes: Mapping[str, str],
        before: Callable[[], None] = lambda: None,
    ) -> bool:
        """Tell whether a user may do what the attributes of a SubjectAccessReview describe.

        ``before`` is called before the API server is asked.

        Raises:
            ClusterUnavailable: the API server does not tell.

        """

        def ask() -> bool:
            before()
            user = {name: getattr(reader.user, name) for name in ("uid", "groups", "extra")}
            spec = {"user": reader.user.username, **user, kind: attributes}
            return self._review("SubjectAccessReview", _ACCESS, spec).allowed

        return self._rights.get((reader.digest, *attributes.values()), ask)

    def refusal(self, reader: Reader, path: str, role: str) -> Page | None:
        """Return the refusal for a user without the right to a URL, else None.

        Raises:
            ClusterUnavailable: the API server does not tell.

        """
        if self.may(reader, "nonResourceAttributes", {"path": path, "verb": "get"}):
            return None
        name, fix = reader.user.username, f"bind it to the ClusterRole {role}"
        return text_page(HTTPStatus.FORBIDDEN, f"{name} may not get {path}: {fix}")

    def _review(self, kind: str, path: str, spec: dict[str, Any]) -> _Status:
        group = path.split("/")[2]
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        answer = self._client.call("POST", path, body=body)
        if answer.code == HTTPStatus.FORBIDDEN:
            raise ClusterUnavailable(f"we may not make a {kind}", fix=_FIX)
        if not answer.is_done:
            # Not the server's text: it may repeat the token that we sent.
            raise ClusterUnavailable(f"the API server answered a {kind} with {answer.code}")
        try:
            return msgspec.json.decode(answer.data, type=_Review).status
        except BAD_JSON as wrong:
            raise ClusterUnavailable(f"the answer to a {kind} cannot be read") from wrong


def _unchecked(wrong: ClusterUnavailable) -> Page:
    """Return the answer while the API server tells nothing; by the next request it may be back."""
    return text_page(HTTPStatus.SERVICE_UNAVAILABLE, f"access cannot be checked: {wrong}")


# -- metrics --------------------------------------------------------------------------------------


def guarded(source: Source, reviews: Reviews) -> Source:
    """Wrap a page so that it needs the right to get its path at the API server."""

    def page(request: Request) -> Page:
        return _refusal(request, reviews) or source.make(request)

    reads = source.reads
    return Source(page, reads._replace(headers=(*reads.headers, "authorization")))


def _refusal(request: Request, reviews: Reviews) -> Page | None:
    """Return the answer to an unauthorized request, None for an authorized one."""
    try:
        reader = reviews.reader(request)
        if isinstance(reader, Page):
            return reader
        return reviews.refusal(reader, request.path, "kaisched-metrics-reader")
    except ClusterUnavailable as wrong:
        return _unchecked(wrong)


# -- the live view --------------------------------------------------------------------------------


class TooManyQueuesError(Exception):
    """A request concerns more queues than it may ask the API server about."""


Access: TypeAlias = "Callable[[Request], Sight | Page]"
"""Returns what the reader behind a request sees, or the answer that refuses the request."""


def open_access(_: Request) -> Sight | Page:
    """Let everybody see everything: on this machine, or as the settings say."""
    return ALL


def reviewed_access(reviews: Reviews) -> Access:
    """Return access by the API server's authentication and authorization, for any thread."""

    def sight(request: Request) -> Sight | Page:
        try:
            reader = reviews.reader(request)
            if isinstance(reader, Page):
                return reader
            if (refusal := reviews.refusal(reader, VIEW, "kaisched-view-reader")) is not None:
                return refusal
            sees = _seeing(reader, reviews)
            return Sight(sees(""), sees)
        except ClusterUnavailable as wrong:
            return _unchecked(wrong)

    return sight


def _seeing(reader: Reader, reviews: Reviews) -> Callable[[str], bool]:
    """Return what tells, for one request, whether a user may get a queue; all without a name.

    It raises TooManyQueuesError when it has asked the API server often enough.
    """
    left = MOST_REVIEWS
    group, _, version = Queue.API_VERSION.partition("/")

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManyQueuesError

    def sees(queue: str) -> bool:
        asked = {"group": group, "version": version, "resource": "queues", "verb": "get"}
        if queue:
            asked["name"] = queue
        return reviews.may(reader, "resourceAttributes", asked, count)

    return sees


def no_tokens(path: str, authentication: str, shown: str) -> ConfigError:
    """Return the error of a cluster in memory whose pages ``authentication`` asks tokens for."""
    is_found_out = authentication == "auto"
    because = ", and this address is not a loopback one" if is_found_out else ""
    return ConfigError(
        f"a cluster in memory knows no tokens{because}",
        path=path,
        value=authentication,
        fix=f"listen on 127.0.0.1, or set it to none: {shown}",
    )
