"""The roles allow what the scheduler asks of the API server, and nothing else."""

import pytest
import yaml

from kaisched.cluster.kubernetes.resources import RIGHTS
from tests.deploy.manifests import DEPLOY, of_kind, written

REQUESTS = yaml.safe_load((DEPLOY / "requests.yaml").read_text(encoding="utf-8"))
AGENT = "kai-resource-reservation"
ROLES = {
    role["metadata"]["name"].removeprefix("kaisched-"): role
    for kind in ("ClusterRole", "Role")
    for role in of_kind(written(), kind)
}


def rights(rules):
    """Every (group, resource, verb) of some rules, as often as they give it."""
    return [
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def requested(name):
    return {
        (row["group"], resource, verb)
        for row in REQUESTS[name]
        for resource in row["resources"]
        for verb in row["verbs"]
    }


@pytest.mark.parametrize("name", REQUESTS)
def test_a_role_allows_what_is_asked_and_no_more(name):
    allowed = rights(ROLES[name]["rules"])
    assert set(allowed) == requested(name)
    assert len(set(allowed)) == len(allowed)


def test_the_scheduler_has_no_role_that_is_not_about_requests():
    bound = {
        binding["roleRef"]["name"].removeprefix("kaisched-")
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for binding in of_kind(written(), kind)
    }
    assert bound - {AGENT} == REQUESTS.keys()


@pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)
def test_no_rule_is_for_everything(role):
    assert "*" not in yaml.safe_dump(role["rules"])


@pytest.mark.parametrize("name", REQUESTS)
def test_nobody_could_use_a_role_to_get_more(name):
    """Secrets, impersonation, other pods' tokens, pods of one's own: none of it."""
    in_its_place = {"sharing": {("pods", "create")}}.get(name, set())
    if in_its_place:
        assert ROLES[name]["metadata"]["namespace"] == "kai-resource-reservation"
    forbidden = {"secrets", "configmaps", "serviceaccounts", "pods/exec"}
    for _, resource, verb in rights(ROLES[name]["rules"]):
        # Pods look up their GPU in ConfigMaps by name; nobody needs to find or delete one.
        if name == "lookups":
            assert (resource, verb in {"create", "get", "update"}) == ("configmaps", True)
        else:
            assert resource not in forbidden
        assert verb not in {"escalate", "bind", "impersonate"}
        assert (resource, verb) not in {("pods", "create"), ("nodes", "update")} - in_its_place


def test_a_binding_is_to_our_account_or_to_the_agents_and_to_the_role_of_its_name():
    who = {
        it["metadata"]["name"]: {
            "kind": "ServiceAccount",
            **{key: it["metadata"][key] for key in ("name", "namespace")},
        }
        for it in of_kind(written(), "ServiceAccount")
    }
    assert set(who) == {"kaisched", AGENT}
    for kind in ("ClusterRole", "Role"):
        for binding in of_kind(written(), f"{kind}Binding"):
            name = AGENT if binding["metadata"]["name"] == AGENT else "kaisched"
            assert binding["subjects"] == [who[name]]
            assert binding["roleRef"]["kind"] == kind
            assert binding["roleRef"]["name"] == binding["metadata"]["name"]


def test_only_the_own_lease_is_written():
    (rule,) = ROLES["lease"]["rules"]
    leases = of_kind(written(), "Lease")
    assert rule["resourceNames"] == [lease["metadata"]["name"] for lease in leases]


def test_what_the_adapter_reads_is_what_is_requested():
    resources = pytest.importorskip(
        "kaisched.cluster.kubernetes.resources",
        reason="this version has no adapter for Kubernetes yet",
    )
    kinds = (*resources.ALL, resources.SHARDS, *resources.GANG_GROUPS)
    for verb in ("watch", "list"):
        read = {(kind.api_version.rpartition("/")[0], kind.plural) for kind in kinds}
        assert read == {(group, what) for group, what, it in requested("read") if it == verb}


@pytest.mark.parametrize("name", REQUESTS)
def test_what_the_doctor_asks_about_is_what_is_requested(name):
    assert {tuple(right) for right in RIGHTS[name]} == requested(name)
    assert len(set(RIGHTS[name])) == len(RIGHTS[name])
