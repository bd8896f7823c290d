"""Checks of the server: whether it answers, our account, its clock, and what it serves."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.cluster.kubernetes.resources import OWNERS, POD_GROUPS, QUEUES, SHARDS, find_gang_api
from kaisched.daemon.doctor.finding import Finding, Served
from kaisched.errors import ClusterUnavailable
from kaisched.objects.gangs import GANG_API, GANG_API_VERSIONS
from kaisched.objects.node import Topology
from kaisched.objects.wire import BAD_JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.cluster.kubernetes.client import Answer
    from kaisched.daemon.doctor.finding import Visit

SKEW_WARN_S: Final = 5.0
"""Larger differences falsify ages and usage by more than a cycle or two."""
SKEW_FAIL_S: Final = 60.0
_HEADER_S: Final = 1.0
"""Resolution of a Date header."""
_ANONYMOUS: Final = "system:anonymous"
_APPLY: Final = "kaisched config crds | kubectl apply --server-side -f -"


def reachable(visit: Visit) -> Iterator[Finding]:
    """Ask for the version and the groups; every other check depends on the answers."""
    answer = visit.client.call("GET", "/version")
    if not answer.is_done:
        raise ClusterUnavailable(f"the server answers {answer.text()}")
    version = _json(answer).get("gitVersion", "of unknown version")
    groups = visit.client.call("GET", "/apis")
    if not groups.is_done:
        raise ClusterUnavailable(f"the server does not say what it serves: {groups.text()}")
    visit.served = Served(
        {
            str(group.get("name", "")): tuple(
                str(it.get("version", "")) for it in group.get("versions", [])
            )
            for group in _json(groups).get("groups", [])
        }
    )
    yield Finding("server", "ok", f"Kubernetes {version}")


def account(visit: Visit) -> Iterator[Finding]:
    """Ask the server for our user name: without credentials we would be anonymous."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = visit.client.call("POST", path, body=body)
    if not answer.is_done:
        yield Finding("account", "warn", f"the server does not say who we are: {answer.text()}")
        return
    user = str(_json(answer).get("status", {}).get("userInfo", {}).get("username", ""))
    if user in {"", _ANONYMOUS}:
        fix = "log in: name a kubeconfig with credentials, or run with a service account"
        yield Finding("account", "fail", "the server treats us as anonymous: no credentials", fix)
    else:
        asked = f"; the rights of {visit.user} are checked" if visit.user else ""
        yield Finding("account", "ok", f"{user}{asked}")


def clock(visit: Visit) -> Iterator[Finding]:
    """Compare our clock with the Date header of an answer, less half of the round trip."""
    before_s = visit.clock.now_s()
    answer = visit.client.call("GET", "/version")
    after_s = visit.clock.now_s()
    try:
        server_s = parsedate_to_datetime(answer.date).timestamp()
    except (ValueError, TypeError, OverflowError):
        yield Finding("clock", "warn", "the server does not tell the time")
        return
    middle_s = (before_s + after_s) / 2
    skew_s = server_s + _HEADER_S / 2 - middle_s
    sure_s = max(abs(skew_s) - _HEADER_S / 2 - (after_s - before_s) / 2, 0.0)
    if sure_s <= SKEW_WARN_S:
        yield Finding("clock", "ok", f"within {SKEW_WARN_S:.0f} s of the server's")
        return
    word = "behind" if skew_s > 0 else "ahead of"
    text = f"ours is {word} the server's by {abs(skew_s):.0f} s"
    fix = "set both by NTP: ages, minimum runtimes and usage windows go by them"
    yield Finding("clock", "fail" if sure_s > SKEW_FAIL_S else "warn", text, fix)


def kinds(visit: Visit) -> Iterator[Finding]:
    """Say whether the kinds that we schedule by are served, in the version that we read."""
    served = _served(visit)
    topologies = (Topology.API_VERSION, "topologies", Topology.KIND)
    wanted = [
        *((it.api_version, it.plural, it.kind) for it in (QUEUES, POD_GROUPS, SHARDS)),
        topologies,
    ]
    for api_version, plural, kind in wanted:
        group, _, version = api_version.rpartition("/")
        is_needed = kind == QUEUES.kind
        name = f"kind {kind}"
        versions = served.versions.get(group, ())
        if version in versions and plural in _plurals(visit, api_version):
            yield Finding(name, "ok", f"{api_version} is served")
        elif versions and version not in versions:
            text = f"{group} is served as {', '.join(versions)}, and read as {version}"
            yield Finding(name, "fail" if is_needed else "warn", text, _APPLY)
        else:
            text = f"{plural}.{group} is not served"
            text += ": nothing is scheduled without queues" if is_needed else ""
            yield Finding(name, "fail" if is_needed else "warn", text, _APPLY)


def features(visit: Visit) -> Iterator[Finding]:
    """Say which optional parts of the API are served."""
    served = _served(visit)
    owners = sorted({it.kind for it in OWNERS if served.has(it)})
    yield Finding("workloads", "ok", f"gangs are read from {', '.join(owners)}")
    if "v1" in served.versions.get("admissionregistration.k8s.io", ()):
        yield Finding("fencing", "ok", "the server can refuse writes of a former leader")
    else:
        text = "no admission policies: a former leader is held back by its lease alone"
        fix = "leave fence.create off; Kubernetes 1.30 and later have them"
        yield Finding("fencing", "warn", text, fix)
    gangs = find_gang_api(visit.client)
    others = [it for it in served.versions.get(GANG_API, ()) if it != "v1"]
    if gangs is not None:
        yield Finding("gangs", "ok", f"Kubernetes' own gangs are read as {gangs.api_version}")
    elif others:
        text = f"Kubernetes' own gangs are served as {', '.join(others)}, and read as"
        text += f" {', '.join(GANG_API_VERSIONS)}: pods that name one wait"
        yield Finding("gangs", "warn", text, "make PodGroups of scheduling.run.ai/v2alpha2")


def _plurals(visit: Visit, api_version: str) -> set[str]:
    answer = visit.client.call("GET", f"/apis/{api_version}")
    if not answer.is_done:
        return set()
    return {str(it.get("name", "")) for it in _json(answer).get("resources", [])}


def _served(visit: Visit) -> Served:
    if visit.served is None:
        raise ClusterUnavailable("the server has not said what it serves")
    return visit.served


def _json(answer: Answer) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(answer.data)
    except BAD_JSON as wrong:
        raise ClusterUnavailable(f"an answer is no JSON: {wrong}") from wrong
    return found if isinstance(found, dict) else {}
