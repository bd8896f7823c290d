"""Checks whether the account may make every request that the scheduler's roles name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.cluster.kubernetes.resources import (
    ALL,
    DEVICES,
    GANG_GROUPS,
    RIGHTS,
    SHARDS,
    SHARE_TEMPLATES,
    TAINT_RULES,
    to_watch,
)
from kaisched.daemon.doctor.finding import Finding, named
from kaisched.daemon.pool_owners import shard_of_pool
from kaisched.errors import ClusterUnavailable
from kaisched.objects.labels import RESERVATION
from kaisched.objects.wire import BAD_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.cluster.kubernetes.resources import Right
    from kaisched.daemon.doctor.finding import Visit

_FIX: Final = "apply the role kaisched-{0} of deploy/ and bind it to the account"
_FIX_PLUGINS: Final = "give the account a role that lists and watches what plugins group by"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


def rights(visit: Visit) -> Iterator[Finding]:
    """Check the requests of every role that the settings need; yield one finding for each role."""
    kubernetes = visit.settings.kubernetes
    for role in _roles(visit):
        yield _finding(visit, role, RIGHTS[role], _FIX.format(role))
    if kubernetes.other_pools and not kubernetes.observe:
        yield _of_pools(visit)
    of_plugins = [it for kind in visit.kinds for it in to_watch(kind) if it not in RIGHTS["read"]]
    if of_plugins:
        yield _finding(visit, "plugins", of_plugins, _FIX_PLUGINS)


def _roles(visit: Visit) -> Iterator[str]:
    """Yield the roles that settings and shards need, in order."""
    kubernetes, shards = visit.settings.kubernetes, [one.shard for one in visit.shards]
    is_writing = not kubernetes.observe
    needed = {
        "read": True,
        "review": visit.settings.metrics.is_authenticated,
        "write": is_writing,
        "lease": is_writing and visit.settings.leader_election.enabled,
        "delete": is_writing and kubernetes.eviction_mode == "delete",
        "sharing": is_writing and any(it.has_reservations for it in shards),
        "lookups": is_writing and any(it.writes_lookups for it in shards),
        "claims": any(it.spec.resource_claims for it in shards),
        "share-claims": any(it.share_class for it in shards),
        "kueue": kubernetes.kueue,
    }
    yield from (role for role, is_needed in needed.items() if is_needed)


def _finding(visit: Visit, role: str, rights: Iterable[Right], fix: str) -> Finding:
    asked = [right for right in rights if _is_there(visit, right)]
    names = [f"kaisched-{one.shard.name}" for one in visit.shards] if role == "lease" else [""]
    space = {"lease": visit.namespace, "sharing": RESERVATION}.get(role, "")
    missing = {
        right.text for right in asked for name in names if not _may(visit, right, name, space)
    }
    if missing:
        return Finding(f"rights {role}", "fail", f"may not {named(missing)}", fix)
    return Finding(f"rights {role}", "ok", f"all {len(asked)} requests are allowed")


def _of_pools(visit: Visit) -> Finding:
    """Check that the leases of shards of other processes may be read: whether a pool is lost."""
    right = next(it for it in RIGHTS["lease"] if it.verb == "get")
    names = [
        f"kaisched-{it}" for it in shard_of_pool(visit.settings.kubernetes.other_pools).values()
    ]
    missing = [name for name in names if not _may(visit, right, name, visit.namespace)]
    if not missing:
        return Finding("rights pools", "ok", f"all {len(names)} leases of other shards may be read")
    text = f"may not get the leases {named(missing)}: jobs of a pool that is lost are not taken"
    fix = f"let the account get these leases in namespace {visit.namespace}"
    return Finding("rights pools", "warn", text, fix)


def _is_there(visit: Visit, right: Right) -> bool:
    """Tell whether a kind is served: rights to an absent kind are not needed."""
    plural, served = right.resource.partition("/")[0], visit.served
    known = (*ALL, SHARDS, *GANG_GROUPS, *DEVICES, TAINT_RULES, SHARE_TEMPLATES, *visit.kinds)
    kinds = [it for it in known if it.qualified == f"{plural}.{right.group}".rstrip(".")]
    return not kinds or served is None or any(served.has(kind) for kind in kinds)


def _may(visit: Visit, right: Right, name: str, namespace: str) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"group": right.group, "resource": resource, "verb": right.verb}
    if part:
        attributes["subresource"] = part
    attributes |= {"name": name} if name else {}
    attributes |= {"namespace": namespace} if namespace else {}
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    kind = "SelfSubjectAccessReview"
    if visit.user:
        kind = "SubjectAccessReview"
        spec |= {"user": visit.user, "groups": _groups(visit.user)}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = visit.client.call("POST", f"{_REVIEWS}/{kind.lower()}s", body=body)
    if not answer.is_done:
        raise ClusterUnavailable(f"the server does not say what may be done: {answer.text()}")
    try:
        found = msgspec.json.decode(answer.data)
        return bool(found["status"]["allowed"])
    except (KeyError, TypeError, *BAD_JSON) as wrong:
        raise ClusterUnavailable("an answer about rights cannot be read") from wrong


def _groups(user: str) -> list[str]:
    """Return the groups of a service account, which an access review does not add by itself."""
    kind, _, rest = user.rpartition("system:serviceaccount:")
    if kind or not rest:
        return ["system:authenticated"]
    namespace = rest.partition(":")[0]
    return [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]
