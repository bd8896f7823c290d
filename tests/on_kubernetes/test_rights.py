"""The daemon with the rights of its manifests and no more: they suffice, and each is used."""

import pytest

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.resources import SHARDS
from kaisched_apiserver import Rule
from kaisched_apiserver.connection import Fault
from tests.deploy.manifests import of_kind, written
from tests.on_kubernetes.rig import KINDS, elected
from tests.on_kubernetes.test_daemon import cluster
from tests.on_kubernetes.test_workloads import serve
from tests.waiting import until

pytestmark = pytest.mark.slow
__all__ = ["cluster"]
ROLES = ("kaisched-read", "kaisched-write", "kaisched-lease")
SERVED = {"pods", "nodes", "priorityclasses", "leases", "events"} | {row[2] for row in KINDS}
SERVED |= {"jobs", "cronjobs", "replicasets", "deployments", "statefulsets"}


class Noted:
    """A rule that notes what it was needed for."""

    def __init__(self, rule, used):
        self.rule, self.used = rule, used

    def allows(self, wanted):
        if not self.rule.allows(wanted):
            return False
        resource = f"{wanted.plural}/{wanted.subresource}".rstrip("/")
        self.used.add((wanted.group, resource, wanted.verb))
        return True


@pytest.fixture
def used(cluster, server):
    """What the account of the manifests has made use of, as (group, resource, verb)."""
    used, rules = set(), []
    for kind in ("ClusterRole", "Role"):
        for role in of_kind(written(), kind):
            if role["metadata"]["name"] not in ROLES:
                continue
            for rule in role["rules"]:
                names = tuple(rule.get("resourceNames", ()))
                places = (role["metadata"]["namespace"],) if kind == "Role" else ()
                verbs, groups, resources = (
                    tuple(rule[key]) for key in ("verbs", "apiGroups", "resources")
                )
                rules.append(Noted(Rule(verbs, groups, resources, names, places), used))
    serve(cluster, "PodGroup")
    cluster.must("POST", "/api/v1/namespaces", {"metadata": {"name": "kaisched"}})
    (lease,) = of_kind(written(), "Lease")
    cluster.must("POST", "/apis/coordination.k8s.io/v1/namespaces/kaisched/leases", lease)
    shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
    cluster.must("POST", SHARDS.path, {**shard, "metadata": {"name": "default"}, "spec": {}})
    server.api.access.tokens = {"": "tests", "t": "scheduler"}
    server.api.access.rules = {"scheduler": rules}
    yield used
    cluster.ask("DELETE", f"{SHARDS.path}/default")


def allowed():
    """What the roles give for kinds that the test server has."""
    return {
        (group, resource, verb)
        for kind in ("ClusterRole", "Role")
        for role in of_kind(written(), kind)
        if role["metadata"]["name"] in ROLES
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource.partition("/")[0] in SERVED
        and (group, resource) != ("batch.volcano.sh", "jobs")
    }


def test_the_rights_of_the_manifests_suffice_and_are_used(cluster, server, used):
    access = Access(server.url, authorization=lambda: "Bearer t")
    # An answer that is lost makes it read the pod.
    server.faults.add(Fault("drop_after", plural="pods", subresource="binding"))
    settings = {"kubernetes": {"namespace": "kaisched"}, **elected()}
    cluster.start(access=access, **settings).wait_leading()
    for number in range(16):
        cluster.pod(f"a{number}", "a")
    cluster.wait_placed(*(f"a{number}" for number in range(16)))
    cluster.gang("b", "b", 4)  # takes back what it deserves: evictions, and nominated nodes
    cluster.gang("big", "b", 32)
    cluster.wait_placed("b-0", "b-1", "b-2", "b-3")
    until(lambda: cluster.condition("big-0").get("reason") == "Unschedulable")
    until(lambda: not allowed() - used, what="making use of every right")
    refused = {(it.verb, it.plural, it.subresource) for it in server.log if it.status == 403}
    assert refused == set()
