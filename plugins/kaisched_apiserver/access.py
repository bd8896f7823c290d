"""Who may do what: tokens and rules as plain tables, off until tokens are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kaisched_apiserver.requests import Request
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import ApiError, forbidden, unauthorized

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

    def allows(self, wanted: Wanted) -> bool:
        """Tell whether the rule covers what is wanted."""
        resource = f"{wanted.plural}/{wanted.subresource}" if wanted.subresource else wanted.plural
        return (
            _is_among(wanted.verb, self.verbs)
            and _is_among(wanted.group, self.groups)
            and (_is_among(resource, self.resources))
            and (not self.names or wanted.name in self.names)
            and (not self.namespaces or wanted.namespace in self.namespaces)
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """An action that somebody wants to take."""

    verb: str
    group: str
    plural: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


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

    def may(self, user: str, wanted: Wanted) -> bool:
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
        wanted = Wanted(
            request.verb,
            request.group,
            request.plural,
            request.subresource,
            request.namespace,
            request.name,
        )
        if not self.may(user, wanted):
            raise forbidden(resource, request.name, _refusal(user, wanted))
        return user

    def review(self, user: str, attributes: dict[str, Any]) -> bool:
        """Answer the ``resourceAttributes`` of a SubjectAccessReview."""
        names = {"resource": "plural"}
        given = {
            names.get(key, key): value
            for key, value in attributes.items()
            if key in {"verb", "group", "resource", "subresource", "namespace", "name"}
        }
        return self.may(user, Wanted(**{"verb": "", "group": "", "plural": "", **given}))


def _refusal(user: str, wanted: Wanted) -> str:
    resource = f"{wanted.plural}/{wanted.subresource}" if wanted.subresource else wanted.plural
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    return (
        f'User "{user}" cannot {wanted.verb} resource "{resource}" in API group'
        f' "{wanted.group}" {where}'
    )


def _is_among(word: str, words: tuple[str, ...]) -> bool:
    return _ALL in words or word in words
