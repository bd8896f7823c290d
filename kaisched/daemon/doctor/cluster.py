"""Checks of the cluster: its server, our rights, and the shards with leases, nodes and history."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from kaisched.clock import HEADER_S, SKEW_WARN_S, date_s
from kaisched.cluster.facts import STUCK_AFTER_S, is_overdue
from kaisched.cluster.kubernetes.resources import (
    ALL,
    DEVICES,
    GANG_GROUPS,
    NODES,
    OWNERS,
    POD_GROUPS,
    PODS,
    QUEUES,
    RIGHTS,
    SHARDS,
    SHARE_TEMPLATES,
    TAINT_RULES,
    find_gang_api,
    list_cluster,
    to_watch,
    watched_kinds,
)
from kaisched.cluster.pods import leaving_of
from kaisched.daemon.doctor import Finding, Served, failures, listed, named
from kaisched.daemon.pool_owners import shard_of_pool
from kaisched.engine.policy import build_policy
from kaisched.engine.shards import shards_in
from kaisched.errors import ClusterUnavailable, KaischedError
from kaisched.objects.gangs import GANG_API, GANG_API_VERSIONS
from kaisched.objects.labels import NODE_POOL, RESERVATION, node_pool_of, pool_name, time_of
from kaisched.objects.node import Topology
from kaisched.objects.shard import SchedulingShard, read_args
from kaisched.objects.wire import BAD_JSON, ObjectMeta
from kaisched.units import UnitError, format_duration
from kaisched.usage.feed import LEAST_COVERAGE
from kaisched.usage.settings import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.cluster.kubernetes.client import Answer
    from kaisched.cluster.kubernetes.resources import Right
    from kaisched.daemon.doctor import Visit
    from kaisched.engine.shards import FoundShard
    from kaisched.usage.prometheus.queries import Fetched
    from kaisched.usage.settings import PrometheusSettings, UsageSettings

SKEW_FAIL_S: Final = 60.0
_ANONYMOUS: Final = "system:anonymous"
_APPLY: Final = "kaisched config crds | kubectl apply --server-side --force-conflicts -f -"


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
    server_s = date_s(answer.date)
    if server_s is None:
        yield Finding("clock", "warn", "the server does not tell the time")
        return
    middle_s = (before_s + after_s) / 2
    skew_s = server_s + HEADER_S / 2 - middle_s
    sure_s = max(abs(skew_s) - HEADER_S / 2 - (after_s - before_s) / 2, 0.0)
    if sure_s <= SKEW_WARN_S:
        yield Finding("clock", "ok", f"within {SKEW_WARN_S:.0f} s of the server's")
        return
    word = "behind" if skew_s > 0 else "ahead of"
    text = f"ours is {word} the server's by {abs(skew_s):.0f} s"
    fix = "set both by NTP: a scheduler here decides by the server's, and logs by ours"
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


_FIX: Final = "apply the role kaisched-{0} of deploy/ and bind it to the account"
_FIX_MORE: Final = "give the account a role that lists and watches the kinds of the shard"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


def rights(visit: Visit) -> Iterator[Finding]:
    """Check the requests of every role that the settings need; yield one finding for each role."""
    kubernetes = visit.settings.kubernetes
    for role in _roles(visit):
        yield _rights_of(visit, role, RIGHTS[role], _FIX.format(role))
    if kubernetes.other_pools and not kubernetes.observe:
        yield _of_pools(visit)
    more = [it for kind in visit.kinds for it in to_watch(kind) if it not in RIGHTS["read"]]
    if more:
        yield _rights_of(visit, "workloads", more, _FIX_MORE)


def _roles(visit: Visit) -> Iterator[str]:
    """Yield the roles that settings and shards need, in order."""
    kubernetes, shards = visit.settings.kubernetes, [one.shard for one in visit.shards]
    is_writing = not kubernetes.observe
    needed = {
        "read": True,
        "review": visit.settings.metrics.is_authenticated,
        "write": is_writing,
        "lease": is_writing and visit.settings.leader_election.enabled,
        "delete": is_writing
        and (kubernetes.eviction_mode == "delete" or any(it.deletes_victims for it in shards)),
        "sharing": is_writing and any(it.has_reservations for it in shards),
        "lookups": is_writing and any(it.writes_lookups for it in shards),
        "claims": any(it.spec.resource_claims for it in shards),
        "share-claims": any(it.share_class for it in shards),
        "kueue": kubernetes.kueue,
    }
    yield from (role for role, is_needed in needed.items() if is_needed)


def _rights_of(visit: Visit, role: str, rights: Iterable[Right], fix: str) -> Finding:
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


_ABSENT: Final = 404
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
QUEUE_USE: Final = ("cron-jobs", "labels", "pod-groups", "pods", "workloads")
"""The policies that ask who may use a queue, each with a binding, named ``kaisched-queue-use-`` and
this."""
_QUEUE_USE_FIX: Final = (
    "helm upgrade --reset-then-reuse-values --set queueUsePolicy.create=true, or with kustomize"
    " add components/queue-use; then grant users the verb use on the queue"
)


_QUEUE_USE_UNREAD: Final = (
    "run the doctor as a user who may get validatingadmissionpolicies and their bindings"
)


def queue_use(visit: Visit) -> Iterator[Finding]:
    """Look for all that lets only authorized users put work into a queue.

    Those are the policies, with bindings that deny, and the word of each shard that pods count with
    an owner or group of their own queue only.
    """
    check = "queue use"
    found: dict[str, bool] = {}
    for name in QUEUE_USE:
        full = f"kaisched-queue-use-{name}"
        answers = [
            visit.client.call("GET", f"{_ADMISSION}/validatingadmission{kind}/{full}")
            for kind in ("policies", "policybindings")
        ]
        odd = next((it for it in answers if not it.is_done and it.code != _ABSENT), None)
        if odd is not None:
            text = f"whether any user may use any queue is not known: {odd.text()}"
            yield Finding(check, "warn", text, _QUEUE_USE_UNREAD)
            return
        spec = _json(answers[1]).get("spec", {}) if answers[1].is_done else {}
        is_there = all(it.is_done for it in answers)
        found[full] = is_there and "Deny" in (spec.get("validationActions") or ())
    open_shards = [it.shard.name for it in visit.shards if not it.shard.spec.queue_use_policy]
    if not any(found.values()):
        text = "any user who may create pods may put them into any queue: queueUsePolicy is off"
        yield Finding(check, "warn", text, _QUEUE_USE_FIX)
    elif not all(found.values()):
        gaps = named(name for name, is_there in found.items() if not is_there)
        text = f"any user may use any queue in what these policies are for: {gaps}"
        yield Finding(check, "warn", f"{text} (absent, or not Deny)", _QUEUE_USE_FIX)
    elif open_shards:
        text = f"pods count in the queue of any owner or group they name: {named(open_shards)}"
        fix = "set queueUsePolicy: true in the spec of each shard, beside the policies"
        yield Finding(check, "warn", f"{text} without queueUsePolicy", fix)
    else:
        yield Finding(check, "ok", "only users with the verb use may put work into a queue")


def policies(visit: Visit) -> Iterator[Finding]:
    """Find the shards, and build the policy of each, for later checks too."""
    files, among = visit.settings.shards, []
    if not files and (visit.served is None or visit.served.has(SHARDS)):
        listed = list_cluster(visit.client, [SHARDS])
        among = [obj for obj in listed.objects if isinstance(obj, SchedulingShard)]
        for warning in listed.warnings:
            yield Finding("shards", "fail", warning, "correct the shard: nothing runs before")
    pools: dict[str, list[str]] = {}
    for shard in among:
        pools.setdefault(shard.spec.partition_label_value, []).append(shard.name)
    for pool, names in sorted(pools.items()):
        if len(names) > 1:
            text = f"nodes of pool {pool or '(none)'} are in two shards: {named(names)}"
            fix = "give each shard a partitionLabelValue of its own"
            yield Finding("shards", "fail", text, fix)
    if any(len(names) > 1 for names in pools.values()):
        return
    visit.shards = shards_in(files, sorted(among, key=lambda it: it.name))
    tables = []
    for one in visit.shards:
        name = f"shard {one.shard.name}"
        try:
            policy, said = build_policy(one.shard, one.file)
        except KaischedError as wrong:
            yield from failures(name, wrong)
            continue
        for text in [*one.warnings, *said]:
            yield Finding(name, "warn", text)
        tables.append(policy.workloads)
        plugins, actions = len(policy.plugins), ", ".join(it.name for it in policy.actions)
        yield Finding(name, "ok", f"{plugins} plugins; {actions}")
    visit.kinds = watched_kinds(tables, None)


def leases(visit: Visit) -> Iterator[Finding]:
    """Report the leader of each shard."""
    if not visit.settings.leader_election.enabled:
        text = "leader election is off: two processes for one shard would both act"
        yield Finding("leases", "warn", text, "set leaderElection.enabled, or run one process")
        return
    for one in visit.shards:
        yield _lease(visit, f"kaisched-{one.shard.name}")
    for pool, shard in shard_of_pool(visit.settings.kubernetes.other_pools).items():
        yield _lease_of_other(visit, pool_name(pool), f"kaisched-{shard}")


def _lease_of_other(visit: Visit, pool: str, name: str) -> Finding:
    """Report the leader of a shard that another process serves, if its lease may be read."""
    try:
        return _lease(visit, name)
    except ClusterUnavailable as wrong:
        text = f"{wrong}: jobs of node pool {pool} are not taken while no process serves it"
        fix = f"let the account get leases/{name} in namespace {visit.namespace}"
        return Finding(f"lease {name}", "warn", text, fix)


def _lease(visit: Visit, name: str) -> Finding:
    namespace, check = visit.namespace, f"lease {name}"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    answer = visit.client.call("GET", path)
    if answer.code == _ABSENT:
        fix = "apply deploy/, which includes it: the account may not create leases"
        return Finding(check, "warn", f"there is none in namespace {namespace}", fix)
    if not answer.is_done:
        raise ClusterUnavailable(f"lease {namespace}/{name} cannot be read: {answer.text()}")
    spec: dict[str, Any] = msgspec.json.decode(answer.data).get("spec") or {}
    holder = str(spec.get("holderIdentity") or "")
    if not holder:
        return Finding(check, "warn", "no process leads", "start the scheduler, and see its logs")
    try:
        age_s = visit.clock.now_s() - time_of(str(spec.get("renewTime") or ""))
        lasts_s = float(spec.get("leaseDurationSeconds") or 0)
    except (UnitError, ValueError, TypeError):
        fix = "delete the holder from the lease"
        return Finding(check, "warn", f"held by {holder}, without a time of renewal", fix)
    if age_s > lasts_s:
        fix = "see why no process takes it over: is one running, and may it update the lease?"
        return Finding(check, "warn", f"{holder} has not renewed it for {age_s:.0f} s", fix)
    return Finding(check, "ok", f"held by {holder}")


def nodes(visit: Visit) -> Iterator[Finding]:
    """Say whether every node is in exactly one of our shards."""
    listed = list_cluster(visit.client, [NODES])
    for warning in listed.warnings:
        yield Finding("nodes", "warn", warning, "correct the node")
    pools = {one.shard.spec.partition_label_value for one in visit.shards}
    found = [(obj.metadata.name, node_pool_of(obj.metadata)) for obj in listed.objects]
    if not found:
        yield Finding("nodes", "warn", "there are none")
        return
    strays = [name for name, pool in found if pool not in pools]
    if strays:
        text = f"{len(strays)} of {len(found)} nodes are in no shard: {named(strays)}"
        fix = f"set their label {NODE_POOL}, or make a shard with that partitionLabelValue"
        yield Finding("nodes", "warn", text, fix)
    for one in visit.shards:
        pool = one.shard.spec.partition_label_value
        if all(of_node != pool for _, of_node in found):
            text = f"shard {one.shard.name} has no node: none is labelled {pool or 'without pool'}"
            yield Finding("nodes", "warn", text, f"label nodes {NODE_POOL}={pool}")
    if not strays:
        yield Finding("nodes", "ok", f"each of {len(found)} nodes is in one shard")


_ACCEPT: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_LEAVING: Final = "leaving pods"
_LEAVING_FIX: Final = (
    "see what keeps each: a finalizer, a container that cannot be killed, or a node that is gone"
    " and is still listed"
)


class _Item(msgspec.Struct):
    metadata: ObjectMeta


def leaving_pods(visit: Visit) -> Iterator[Finding]:
    """Name the pods whose deletion does not end: shards no longer expect their capacity."""
    after_s = {
        one.shard.spec.partition_label_value: read_args(one.shard.spec.args).get(
            "stuck_after_s", STUCK_AFTER_S
        )
        for one in visit.shards
    }
    now_s = visit.clock.now_s()
    stuck: list[str] = []
    number = 0
    for pod in listed(visit, PODS.path, "pods", _Item, _ACCEPT):
        meta = pod.metadata
        leaving, pool = leaving_of(meta), node_pool_of(meta)
        if leaving is None or pool not in after_s:
            continue
        number += 1
        age_s = now_s - leaving.asked_s
        if is_overdue(age_s, leaving.grace_s, after_s[pool]):
            stuck.append(f"{meta.namespace}/{meta.name} (for {format_duration(round(age_s))})")
    if stuck:
        text = (
            f"{len(stuck)} pods were deleted long ago and still hold resources, which no job is"
            f" promised: {named(stuck)}"
        )
        yield Finding(_LEAVING, "warn", text, _LEAVING_FIX)
    else:
        yield Finding(_LEAVING, "ok", f"none is stuck; {number} are being deleted")


GOOD_COVERAGE: Final = 0.98


def usage(visit: Visit) -> Iterator[Finding]:
    """Ask the store of each shard with usage history what the scheduler would ask."""
    for one in visit.shards:
        yield from _of_shard(visit, one)


def _of_shard(visit: Visit, one: FoundShard) -> Iterator[Finding]:
    config, check = one.shard.spec.usage_db_config, f"usage {one.shard.name}"
    if config is None:
        yield Finding(check, "ok", "no history is kept: shares consider the present only")
        return
    try:
        settings = read_usage(config, one.shard.name, one.file)
    except KaischedError as wrong:
        # Only the variable's name and what is wrong with it, never its value.
        yield Finding(check, "fail", wrong.message, wrong.fix)
        return
    if settings.prometheus is None:
        yield Finding(check, "ok", f"kept by the scheduler itself ({settings.type})")
        return
    yield from _asked(visit, check, settings, settings.prometheus)


def _asked(
    visit: Visit, check: str, settings: UsageSettings, prometheus: PrometheusSettings
) -> Iterator[Finding]:
    # Importing the client library takes a tenth of a second, which other checks need not wait.
    from kaisched.usage.prometheus.queries import Client, QueryError, fetch  # noqa: PLC0415

    host = urlsplit(prometheus.url).hostname
    client = Client(prometheus)
    try:
        found = fetch(client, prometheus, settings.window, visit.clock.now_s())
    except QueryError as wrong:
        fix = "run the doctor where the scheduler runs: the address may be known only there"
        yield Finding(check, "fail", str(wrong), fix)
        return
    finally:
        client.close()
    for text in found.faults:
        yield Finding(check, "fail", text, "without it that resource has no history")
    yield from _gaps(visit, check, settings, found)
    for text in found.notes:
        yield Finding(check, "warn", text)
    yield Finding(
        check, "ok", f"{host} answers: history of {', '.join(found.resources) or 'nothing'}"
    )


def _gaps(visit: Visit, check: str, settings: UsageSettings, found: Fetched) -> Iterator[Finding]:
    for name, resource in found.resources.items():
        if resource.coverage < GOOD_COVERAGE:
            text = f"{name}: {1 - resource.coverage:.0%} of the window has no samples"
            used = resource.coverage >= LEAST_COVERAGE
            more = "" if used else ", so history is not used"
            fix = "see why series have gaps: was the exporter or the server down?"
            yield Finding(check, "warn" if used else "fail", text + more, fix)
    age_s = visit.clock.now_s() - found.newest_s
    if age_s > settings.staleness_s:
        text = "no sample at all"
        if math.isfinite(age_s):
            text = f"the newest sample is {format_duration(round(age_s))} old"
        fix = f"scrape the scheduler's /metrics at least every {format_duration(settings.fetch_s)}"
        yield Finding(check, "fail", text, fix)
