"""Whether the account may do what the scheduler does: every request of the roles, asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.cluster.kubernetes.resources import ALL, SHARDS
from kaisched.cluster.kubernetes.rights import RIGHTS
from kaisched.daemon.doctor.finding import Finding, named
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.cluster.kubernetes.rights import Right
    from kaisched.daemon.doctor.finding import Visit

_FIX: Final = "apply the role kaisched-{0} of deploy/ and bind it to the account"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


def rights(visit: Visit) -> Iterator[Finding]:
    """Ask about every request of every role that the settings need; one line a role."""
    kubernetes = visit.settings.kubernetes
    wanted = ["read"]
    if not kubernetes.observe:
        wanted.append("write")
        if visit.settings.leader_election.enabled:
            wanted.append("lease")
        if kubernetes.eviction_mode == "delete":
            wanted.append("delete")
    for role in wanted:
        asked = [right for right in RIGHTS[role] if _is_there(visit, right)]
        names = [f"kaisched-{one.shard.name}" for one in visit.shards] if role == "lease" else [""]
        missing = {right.text for right in asked for name in names if not _may(visit, right, name)}
        if missing:
            text = f"may not {named(missing)}"
            yield Finding(f"rights {role}", "fail", text, _FIX.format(role))
        else:
            yield Finding(f"rights {role}", "ok", f"all {len(asked)} requests are allowed")


def _is_there(visit: Visit, right: Right) -> bool:
    """Tell whether a kind is served: rights to what is not there are not missed."""
    plural = right.resource.partition("/")[0]
    for kind in (*ALL, SHARDS):
        group, _, _ = kind.api_version.rpartition("/")
        if (group, kind.plural) == (right.group, plural):
            return visit.served is None or visit.served.has(kind)
    return True


def _may(visit: Visit, right: Right, name: str) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"group": right.group, "resource": resource, "verb": right.verb}
    if part:
        attributes["subresource"] = part
    if name:
        attributes |= {"name": name, "namespace": visit.namespace}
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
    except (msgspec.DecodeError, KeyError, TypeError) as wrong:
        raise ClusterUnavailable("an answer about rights makes no sense") from wrong


def _groups(user: str) -> list[str]:
    """Return the groups that a service account is in, which a review does not add by itself."""
    kind, _, rest = user.rpartition("system:serviceaccount:")
    if kind or not rest:
        return ["system:authenticated"]
    namespace = rest.partition(":")[0]
    return [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]
