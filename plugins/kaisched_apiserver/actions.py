"""What is done to a pod through its subresources, and questions that only look like objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kaisched_apiserver.access import Access, Wanted
from kaisched_apiserver.answers import Answer
from kaisched_apiserver.binding import bind, set_condition
from kaisched_apiserver.budgets import take_from_budget
from kaisched_apiserver.deletion import check_preconditions
from kaisched_apiserver.reading import must_get
from kaisched_apiserver.requests import Request
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.shapes import Binding, Eviction, Review, check
from kaisched_apiserver.statuses import (
    ApiError,
    bad_request,
    not_found,
    success,
)
from kaisched_apiserver.storage import encode
from kaisched_apiserver.writing import Writer

_DONE: Final = success(201)


def bind_pod(writer: Writer, pods: Resource, request: Request) -> Answer:
    """Bind the pod of a request; of a Binding posted to ``bindings``, the one it names.

    Raises:
        ApiError: 404, there is no such pod; 409, it cannot be bound.

    """
    binding = request.object()
    check(Binding, binding, "Binding")
    name = request.name or (binding.get("metadata") or {}).get("name", "")
    record = writer.storage.get(pods.key, f"{request.namespace}/{name}")
    if record is None:
        raise not_found(pods, name)
    pod = record.object()
    bind(pods, pod, binding, writer.now())
    if not request.is_dry_run:
        writer.storage.put(pods.key, pod)
    return Answer(201, _DONE)


def evict_pod(writer: Writer, pods: Resource, request: Request) -> Answer:
    """Evict the pod of a request.

    A pod on a node first gets the condition that says why, then leaves with its grace.

    Raises:
        ApiError: 404, there is no such pod; 409, another one is meant; 429, a budget forbids it.

    """
    eviction = request.object()
    check(Eviction, eviction, "Eviction")
    options = eviction.get("deleteOptions") or {}
    is_dry_run = request.is_dry_run or bool(options.get("dryRun"))
    record = must_get(writer.storage, pods, request)
    pod = record.object()
    check_preconditions(pods, pod, options)
    now = writer.now()
    take_from_budget(writer.storage, pod, now, is_dry_run=is_dry_run)
    if not is_dry_run:
        if "deletionTimestamp" not in pod["metadata"]:
            set_condition(
                pod,
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                },
                now,
            )
            record = writer.storage.put(pods.key, pod)
            # What the caller supposed was true a moment ago; the condition is a new version.
            options = {key: value for key, value in options.items() if key != "preconditions"}
        writer.let_go(pods, record, options, is_dry_run=False)
    return Answer(201, _DONE)


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
    if not is_of_self and not access.may(user, Wanted("create", request.group, request.plural)):
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
