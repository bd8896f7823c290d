"""Reviews by the API server: who a token belongs to, and what that user may do."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.errors import ClusterUnavailable
from kaisched.objects.wire import BAD_JSON

if TYPE_CHECKING:
    from collections.abc import Mapping

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
