"""Access to the live view: who may ``get`` a Queue sees its jobs, other users see totals.

The API server says who a token belongs to (TokenReview) and which queues that user may ``get``
(SubjectAccessReview). An answer counts for some seconds. On loopback no token is needed.
"""

from __future__ import annotations

import hashlib
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from kaisched.clock import monotonic_s
from kaisched.daemon.reviews import KEPT_S, Reviews, token_of
from kaisched.daemon.serving import Page, text_page
from kaisched.errors import ClusterUnavailable
from kaisched.objects.queue import Queue
from kaisched.view.reading import ALL, Sight

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.daemon.reviews import User
    from kaisched.daemon.serving import Request

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
