"""Access to metrics: asks the API server who a token belongs to, and what that user may get.

As in kube-scheduler, this is a TokenReview and a SubjectAccessReview for the path. An answer
counts for some seconds; without an answer, access is refused.
"""

from __future__ import annotations

import hashlib
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kaisched.clock import monotonic_s
from kaisched.daemon.serving import Page, Source, text_page
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.daemon.serving import Request

KEPT_S: Final = 10.0
"""How long an answer counts; a revoked right ends at most this much later."""
MOST_KEPT: Final = 256
_WAIT_S: Final = 5.0
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_FIX: Final = "apply the role kaisched-review of deploy/ and bind it to our account"


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct):
    """Status of either kind of review."""

    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


class _Kept(NamedTuple):
    until_s: float
    refusal: Page | None


class MetricsAccess:
    """Decides on requests for metrics, from any thread."""

    def __init__(self, client: Client, now_s: Callable[[], float] = monotonic_s) -> None:
        """Send reviews through ``client``; age their answers by ``now_s``."""
        self._client = client.hurried(_WAIT_S)
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
        scheme, _, token = request.authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
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
        found = self._review("TokenReview", _TOKENS, {"token": token})
        user = found.user
        if not found.authenticated or not user.username:
            return text_page(HTTPStatus.UNAUTHORIZED, "the API server does not know this token")
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        if self._review("SubjectAccessReview", _ACCESS, spec).allowed:
            return None
        fix = "bind it to the ClusterRole kaisched-metrics-reader"
        return text_page(HTTPStatus.FORBIDDEN, f"{user.username} may not get {path}: {fix}")

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
        except msgspec.DecodeError as wrong:
            raise ClusterUnavailable(f"the answer to a {kind} cannot be read") from wrong
