"""Access to metrics and the live view: who a token belongs to, and what that user may see.

As in kube-scheduler, the API server says both: by a TokenReview and a SubjectAccessReview. An
answer counts for some seconds; without an answer, access is refused.
"""

from __future__ import annotations

import hashlib
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from kaisched.bad_json import BAD_JSON
from kaisched.clock import monotonic_s
from kaisched.daemon.serving import Page, Source, text_page
from kaisched.errors import ClusterUnavailable
from kaisched.objects.queue import Queue
from kaisched.view.sight import ALL, Sight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.daemon.serving import Request

KEPT_S: Final = 10.0
"""How long an answer counts; a revoked right ends at most this much later."""
_WAIT_S: Final = 5.0
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_FIX: Final = "apply the role kaisched-review of deploy/ and bind it to our account"


class User(msgspec.Struct):
    """Whom a token belongs to."""

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


def token_of(request: Request) -> str:
    """Return the bearer token of a request; empty without one."""
    scheme, _, token = request.authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class Reviews:
    """Asks for reviews, from any thread; answers are not kept."""

    def __init__(self, client: Client) -> None:
        """Send reviews through ``client``."""
        self._client = client.hurried(_WAIT_S)

    def user_of(self, token: str) -> User | None:
        """Return whom a token belongs to; None if the API server does not know it.

        Raises:
            ClusterUnavailable: the API server does not tell.

        """
        found = self._review("TokenReview", _TOKENS, {"token": token})
        return found.user if found.authenticated and found.user.username else None

    def may(self, user: User, attributes: Mapping[str, Any]) -> bool:
        """Tell whether a user may do what the attributes of a SubjectAccessReview describe.

        Raises:
            ClusterUnavailable: the API server does not tell.

        """
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            **attributes,
        }
        return self._review("SubjectAccessReview", _ACCESS, spec).allowed

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


MOST_KEPT: Final = 256


class _KeptRefusal(NamedTuple):
    until_s: float
    refusal: Page | None


class MetricsAccess:
    """Decides on requests for metrics, from any thread."""

    def __init__(self, client: Client, now_s: Callable[[], float] = monotonic_s) -> None:
        """Send reviews through ``client``; age their answers by ``now_s``."""
        self._reviews = Reviews(client)
        self._now_s = now_s
        self._kept: dict[tuple[bytes, str], _KeptRefusal] = {}
        """Answers by a digest of the token and by path, the oldest first."""
        self._lock = threading.Lock()

    def guarded(self, source: Source) -> Source:
        """Wrap a page so that only authorized users get it."""

        def page(request: Request) -> Page:
            return self.refusal(request) or source.make(request)

        return Source(page, source.query, (*source.headers, "authorization"))

    def refusal(self, request: Request) -> Page | None:
        """Return the answer to an unauthorized request, None for an authorized one."""
        token = token_of(request)
        if not token:
            return text_page(HTTPStatus.UNAUTHORIZED, "a bearer token is needed")
        key = (hashlib.sha256(token.encode()).digest(), request.path)
        now_s = self._now_s()
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and now_s < kept.until_s:
            return kept.refusal
        try:
            refusal = self._asked(token, request.path)
        except ClusterUnavailable as wrong:
            # Not remembered: by the next request the server may be back.
            return text_page(HTTPStatus.SERVICE_UNAVAILABLE, f"access cannot be checked: {wrong}")
        with self._lock:
            self._kept.pop(key, None)
            while len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _KeptRefusal(now_s + KEPT_S, refusal)
        return refusal

    def _asked(self, token: str, path: str) -> Page | None:
        user = self._reviews.user_of(token)
        if user is None:
            return text_page(HTTPStatus.UNAUTHORIZED, "the API server does not know this token")
        if self._reviews.may(user, {"nonResourceAttributes": {"path": path, "verb": "get"}}):
            return None
        fix = "bind it to the ClusterRole kaisched-metrics-reader"
        return text_page(HTTPStatus.FORBIDDEN, f"{user.username} may not get {path}: {fix}")


MOST_USERS: Final = 256
MOST_RIGHTS: Final = 20_000
"""Kept answers: of tokens, and of rights to queues."""
MOST_REVIEWS: Final = 100
"""Rights that one request may ask the API server about."""
_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_V = TypeVar("_V")


class TooManyQueuesError(Exception):
    """A request concerns more queues than it may ask the API server about."""


class Access(Protocol):
    """Decides what the reader behind a request sees."""

    def sight(self, request: Request) -> Sight | Page:
        """Return what the reader sees, or the answer that refuses the request."""
        ...


class LocalAccess:
    """Access on loopback: everybody on this machine sees everything.

    A browser's page that reaches us under another host name is refused: it is no local program.
    """

    def sight(self, request: Request) -> Sight | Page:
        """Return what the reader sees, or the answer that refuses the request."""
        if request.host in _HOSTS or request.host.rpartition(":")[0] in _HOSTS:
            return ALL
        return text_page(HTTPStatus.FORBIDDEN, "only as localhost: forward the port")


class OpenAccess:
    """Access for everybody, as the settings say."""

    def sight(self, request: Request) -> Sight | Page:
        """Return what the reader sees."""
        del request
        return ALL


class _Kept(Generic[_V]):
    """Answers that count for a while, the oldest dropped first."""

    def __init__(self, most: int, now_s: Callable[[], float]) -> None:
        self._most, self._now_s = most, now_s
        self._found: dict[Any, tuple[float, _V]] = {}
        self._lock = threading.Lock()

    def get(self, key: object) -> tuple[_V] | None:
        with self._lock:
            found = self._found.get(key)
        return (found[1],) if found is not None and self._now_s() < found[0] else None

    def put(self, key: object, value: _V) -> None:
        with self._lock:
            self._found.pop(key, None)
            while len(self._found) >= self._most:
                del self._found[next(iter(self._found))]
            self._found[key] = (self._now_s() + KEPT_S, value)


class ReviewedAccess:
    """Access by the API server's authentication and authorization, from any thread."""

    def __init__(self, client: Client, now_s: Callable[[], float] = monotonic_s) -> None:
        """Send reviews through ``client``; age their answers by ``now_s``."""
        self._reviews = Reviews(client)
        self._users: _Kept[User | None] = _Kept(MOST_USERS, now_s)
        self._rights: _Kept[bool] = _Kept(MOST_RIGHTS, now_s)

    def sight(self, request: Request) -> Sight | Page:
        """Return what the reader sees, or the answer that refuses the request."""
        token = token_of(request)
        if not token:
            return text_page(HTTPStatus.UNAUTHORIZED, "a bearer token is needed")
        key = hashlib.sha256(token.encode()).digest()
        try:
            user = self._user(key, token)
            if user is None:
                return text_page(HTTPStatus.UNAUTHORIZED, "the API server does not know this token")
            reader = _Reader(self._reviews, self._rights, key, user)
            return Sight(reader.sees(""), reader.sees)
        except ClusterUnavailable as wrong:
            # Not remembered: by the next request the server may be back.
            return text_page(HTTPStatus.SERVICE_UNAVAILABLE, f"access cannot be checked: {wrong}")

    def _user(self, key: bytes, token: str) -> User | None:
        kept = self._users.get(key)
        if kept is None:
            kept = (self._reviews.user_of(token),)
            self._users.put(key, kept[0])
        return kept[0]


class _Reader:
    """The rights of one user in one request."""

    def __init__(self, reviews: Reviews, rights: _Kept[bool], key: bytes, user: User) -> None:
        self._reviews, self._rights, self._key, self._user = reviews, rights, key, user
        self._left = MOST_REVIEWS

    def sees(self, queue: str) -> bool:
        """Tell whether the user may get a queue; without a name, whether all of them."""
        kept = self._rights.get((self._key, queue))
        if kept is not None:
            return kept[0]
        if self._left <= 0:
            raise TooManyQueuesError
        self._left -= 1
        group, _, version = Queue.API_VERSION.partition("/")
        asked = {"group": group, "version": version, "resource": "queues", "verb": "get"}
        if queue:
            asked["name"] = queue
        found = self._reviews.may(self._user, {"resourceAttributes": asked})
        self._rights.put((self._key, queue), found)
        return found
