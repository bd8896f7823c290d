"""Who may do what: tokens and rules as plain tables, off until tokens are given.

Questions about access only look like objects: they are answered here and kept nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kaisched_apiserver.answers import Answer
from kaisched_apiserver.requests import Request, Review, check
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import ApiError, bad_request, forbidden, unauthorized
from kaisched_apiserver.storage import encode

ADMIN: Final = "kubernetes-admin"
_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """What one rule of a role allows; ``*`` stands for all, no names and no namespaces likewise.

    A subresource is written ``pods/binding``; ``urls`` are paths that are no resources.
    """

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, wanted: Request) -> bool:
        """Tell whether the rule covers what is wanted."""
        resource = f"{wanted.plural}/{wanted.subresource}" if wanted.subresource else wanted.plural
        return (
            _is_among(wanted.verb, self.verbs)
            and _is_among(wanted.group, self.groups)
            and (_is_among(resource, self.resources))
            and (not self.names or wanted.name in self.names)
            and (not self.namespaces or wanted.namespace in self.namespaces)
        )


@dataclass(slots=True)
class Access:
    """The tables. Without tokens everybody is the administrator."""

    tokens: dict[str, str] = field(default_factory=dict)
    """Bearer token to user."""
    rules: dict[str, list[Rule]] = field(default_factory=dict)
    """User to what they may do; a user without an entry may do everything."""
    is_reading: bool = False
    """Whether the rules are not read yet, as after a start: who has some may do nothing."""

    def user_of(self, token: str) -> str:
        """Return whose token it is.

        Raises:
            ApiError: 401, nobody's.

        """
        if not self.tokens:
            return ADMIN
        user = self.tokens.get(token)
        if user is None:
            raise unauthorized()
        return user

    def may(self, user: str, wanted: Request) -> bool:
        """Tell whether a user may do something."""
        rules = self.rules.get(user)
        return rules is None or any(rule.allows(wanted) for rule in rules if not self.is_reading)

    def may_visit(self, user: str, verb: str, path: str) -> bool:
        """Answer the ``nonResourceAttributes`` of a SubjectAccessReview."""
        rules = self.rules.get(user)
        return rules is None or any(
            _is_among(verb, rule.verbs) and _is_among(path, rule.urls)
            for rule in rules
            if not self.is_reading
        )

    def check_health(self, token: str, path: str) -> None:
        """See to it that somebody may ask how the server is.

        Raises:
            ApiError: 401, the token is unknown; 403, nobody is known to have a right yet.

        """
        if self.is_reading and self.rules.get(user := self.user_of(token)) is not None:
            raise ApiError(403, "Forbidden", f'forbidden: User "{user}" cannot get path "{path}"')

    def check(self, resource: Resource, request: Request) -> str:
        """Return the user of a request.

        Raises:
            ApiError: 401, the token is unknown; 403, the user may not do it.

        """
        user = self.user_of(request.token)
        if not self.rules:
            return user
        if not self.may(user, request):
            raise forbidden(resource, request.name, _refusal(user, request))
        return user

    def review(self, user: str, attributes: dict[str, Any]) -> bool:
        """Answer the ``resourceAttributes`` of a SubjectAccessReview."""
        names = {"resource": "plural"}
        given = {
            names.get(key, key): value
            for key, value in attributes.items()
            if key in {"verb", "group", "resource", "subresource", "namespace", "name"}
        }
        return self.may(user, Request(**given))


def _refusal(user: str, wanted: Request) -> str:
    resource = f"{wanted.plural}/{wanted.subresource}" if wanted.subresource else wanted.plural
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    return (
        f'User "{user}" cannot {wanted.verb} resource "{resource}" in API group'
        f' "{wanted.group}" {where}'
    )


def _is_among(word: str, words: tuple[str, ...]) -> bool:
    return _ALL in words or word in words


def _access_review(access: Access, user: str, review: dict[str, Any]) -> dict[str, Any]:
    spec = review.get("spec") or {}
    asked = spec.get("resourceAttributes")
    whose = spec.get("user", user)
    if asked is None:
        path = spec.get("nonResourceAttributes") or {}
        return {"allowed": access.may_visit(whose, path.get("verb", ""), path.get("path", ""))}
    return {"allowed": access.review(whose, asked)}


def _token_review(access: Access, _: str, review: dict[str, Any]) -> dict[str, Any]:
    try:
        user = access.user_of(str((review.get("spec") or {}).get("token", "")))
    except ApiError:
        return {"authenticated": False, "error": "the token is not known"}
    told = {"username": user, "groups": ["system:authenticated"]}
    return {"authenticated": True, "user": told}


def _rules_review(access: Access, user: str, _: dict[str, Any]) -> dict[str, Any]:
    rules = [
        {
            "verbs": list(rule.verbs),
            "apiGroups": list(rule.groups),
            "resources": list(rule.resources),
            **({"resourceNames": list(rule.names)} if rule.names else {}),
        }
        for rule in access.rules.get(user, ())
    ]
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    return {
        "resourceRules": rules if user in access.rules else everything,
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def _self_review(_: Access, user: str, _review: dict[str, Any]) -> dict[str, Any]:
    return {"userInfo": {"username": user, "groups": ["system:authenticated"]}}


REVIEWS: Final[
    dict[tuple[str, str], tuple[str, bool, Callable[[Access, str, dict[str, Any]], dict[str, Any]]]]
] = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): (
        "SelfSubjectAccessReview",
        False,
        _access_review,
    ),
    ("authorization.k8s.io", "selfsubjectrulesreviews"): (
        "SelfSubjectRulesReview",
        False,
        _rules_review,
    ),
    ("authorization.k8s.io", "subjectaccessreviews"): (
        "SubjectAccessReview",
        False,
        _access_review,
    ),
    ("authentication.k8s.io", "tokenreviews"): ("TokenReview", False, _token_review),
    ("authentication.k8s.io", "selfsubjectreviews"): ("SelfSubjectReview", False, _self_review),
}
"""Group and plural to kind, whether it is namespaced, and what answers it."""


def review(access: Access, request: Request) -> Answer | None:
    """Answer a question about access; None if the request is none.

    Raises:
        ApiError: 400, it cannot be read; 401, the token is unknown; 403, it is about others.

    """
    found = REVIEWS.get((request.group, request.plural))
    if found is None or request.version != "v1":
        return None
    if request.verb != "create":
        raise bad_request(f"{request.plural} can only be created")
    kind, _, answer = found
    user = access.user_of(request.token)
    # Everybody may ask about themselves; about others only who has the right to.
    is_of_self = request.plural.startswith("self")
    if not is_of_self and not access.may(user, request):
        message = f'{request.plural} is forbidden: User "{user}" cannot create it'
        raise ApiError(403, "Forbidden", message)
    asked = request.object()
    check(Review, asked, kind)
    api_version = f"{request.group}/{request.version}"
    status = answer(access, user, asked)
    done = {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {},
        "spec": asked.get("spec") or {},
    }
    return Answer(201, encode({**done, "status": status}))
