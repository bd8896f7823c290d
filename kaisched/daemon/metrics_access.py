"""Access to metrics: asks the API server who a token belongs to, and what that user may get.

As in kube-scheduler, this is a TokenReview and a SubjectAccessReview for the path. An answer
counts for some seconds; without an answer, access is refused.
"""

from __future__ import annotations

import hashlib
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.clock import monotonic_s
from kaisched.daemon.reviews import KEPT_S, Reviews, token_of
from kaisched.daemon.serving import Page, Source, text_page
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.daemon.serving import Request

MOST_KEPT: Final = 256


class _Kept(NamedTuple):
    until_s: float
    refusal: Page | None


class MetricsAccess:
    """Decides on requests for metrics, from any thread."""

    def __init__(self, client: Client, now_s: Callable[[], float] = monotonic_s) -> None:
        """Send reviews through ``client``; age their answers by ``now_s``."""
        self._reviews = Reviews(client)
        self._now_s = now_s
        self._kept: dict[tuple[bytes, str], _Kept] = {}
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
            self._kept[key] = _Kept(now_s + KEPT_S, refusal)
        return refusal

    def _asked(self, token: str, path: str) -> Page | None:
        user = self._reviews.user_of(token)
        if user is None:
            return text_page(HTTPStatus.UNAUTHORIZED, "the API server does not know this token")
        if self._reviews.may(user, {"nonResourceAttributes": {"path": path, "verb": "get"}}):
            return None
        fix = "bind it to the ClusterRole kaisched-metrics-reader"
        return text_page(HTTPStatus.FORBIDDEN, f"{user.username} may not get {path}: {fix}")
