"""What is deployed, on a real API server: it alone evaluates rules and policies in CEL.

``KAISCHED_TEST_KUBECONFIG`` names one that may be written to, in which kaisched is not installed.
"""

import time
from contextlib import contextmanager

import msgspec
import pytest
import yaml
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import MERGE, STRATEGIC, Client
from kaisched.cluster.kubernetes.resources import find_gang_api
from kaisched.objects.gangs import GANG_API, GANG_API_KIND, GANG_API_PLURAL, WORKLOADS
from kaisched.objects.workloads import Workload
from tests.chaos.claim_parts import (
    CLASS,
    DRIVER,
    RESOURCE,
    ClaimParts,
    device_class,
    slice_of,
)
from tests.deploy.manifests import ROOT, key_of, of_kind, written
from tests.deploy.test_crds import CASES, LISTED, ours_in
from tests.on_kubernetes.rig import KUBECONFIG, Rig, elected
from tests.on_kubernetes.rig import definition as any_definition
from tests.sharing.containers import VISIBLE
from tests.waiting import until

if not KUBECONFIG:
    pytest.skip(
        "rules and policies in CEL were not tried: set KAISCHED_TEST_KUBECONFIG",
        allow_module_level=True,
    )
pytestmark = [pytest.mark.slow, pytest.mark.real]
MONITORING = "monitoring.coreos.com"
FIRST = ("Namespace", "CustomResourceDefinition")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kaisched/leases/kaisched-default"
FENCE = "validatingadmissionpolicybindings/kaisched-fence"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
AS_DEPLOYED = {"kubernetes": {"namespace": "kaisched"}, **elected()}
"""The fence lets nobody bind who has no lease."""


class Server:
    """What requests go to, by the plural that the server itself says."""

    def __init__(self, rig):
        self.rig = rig
        self._served = {}

    def path(self, obj):
        version, kind = obj["apiVersion"], obj["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._served:
            for each in self.rig.must("GET", root)["resources"]:
                if "/" not in each["name"]:
                    self._served[version, each["kind"]] = each["name"], each["namespaced"]
        plural, is_namespaced = self._served[version, kind]
        namespace = obj["metadata"].get("namespace", self.rig.namespace)
        return f"{root}/namespaces/{namespace}/{plural}" if is_namespaced else f"{root}/{plural}"

    def create(self, obj, query=""):
        return self.rig.ask("POST", self.path(obj) + query, obj)

    def remove(self, obj):
        self.rig.ask("DELETE", f"{self.path(obj)}/{obj['metadata']['name']}")


def is_served(rig, definition):
    spec = definition["spec"]
    return all(
        rig.ask("GET", f"/apis/{spec['group']}/{it['name']}/{spec['names']['plural']}").is_done
        for it in spec["versions"]
    )


@pytest.fixture(scope="module")
def server():
    """A server with all that is in deploy/, the optional policies too, and nothing else of ours."""
    with capture_logs() as logs:
        rig = Rig()
        rig.logs = logs
        yield from furnished(rig)


def furnished(rig):
    server = Server(rig)
    objects = [it for it in written() if it["apiVersion"].partition("/")[0] != MONITORING]
    definitions = of_kind(objects, "CustomResourceDefinition")
    for definition in definitions:  # those of the rig take anything
        server.remove(definition)
    for definition in definitions:
        until(lambda d=definition: not is_served(rig, d), what="removing a definition")
    objects.sort(key=lambda it: FIRST.index(it["kind"]) if it["kind"] in FIRST else len(FIRST))
    for obj in objects:
        if obj["kind"] not in FIRST:
            for definition in definitions:
                until(lambda d=definition: is_served(rig, d), what="serving a definition")
        answer = until(lambda o=obj: (got := server.create(o)).code != 404 and got)
        assert answer.is_done or "AlreadyExists" in answer.text(), (key_of(obj), answer.text())
    yield server
    for obj in reversed(objects):
        # Nobody is there who would end a namespace; a fence that is gone cannot be made again.
        if obj["kind"] not in FIRST and obj["metadata"]["name"] != "kaisched-fence":
            server.remove(obj)
    rig.close()


def as_account(server, namespace="kaisched", name="kaisched"):
    """The account of the manifests, with a token as its pod would have one."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = server.rig.must("POST", path, asked)["status"]["token"]
    access = server.rig.access
    # A certificate of the administrator's would speak louder than the token.
    pool = {key: it for key, it in access.pool.items() if key not in {"cert_file", "key_file"}}
    return Access(access.host, pool, lambda: f"Bearer {token}", "kaisched")


def tried(server, text):
    """The answers to the objects of our own kinds in a text, of which nothing is kept."""
    for obj in ours_in(text):
        obj["metadata"]["namespace"] = server.rig.namespace
        if obj["kind"] == "PodGroup":  # the queues' gate has tests of its own
            obj["spec"].setdefault("queue", "q")
        yield server.create(obj, "?dryRun=All")


def refusal(answer):
    return msgspec.json.decode(answer.data).get("message", "") if answer.data else ""


def pod(name, queue="", **spec):
    labels = {"kai.scheduler/queue": queue} if queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "kaisched",
            "containers": [{"name": "main", "image": "none"}],
            **spec,
        },
    }


# -- definitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTED["rules"])
def test_a_rule_refuses_what_is_listed_for_it(server, name):
    answers = list(tried(server, CASES[name]["text"]))
    refused = [answer for answer in answers if not answer.is_done]
    assert [answer.code for answer in refused] == [422]
    assert "is invalid: " in refusal(refused[0])


@pytest.mark.parametrize("name", LISTED["scheduler"])
def test_the_rest_is_left_to_the_scheduler(server, name):
    for answer in tried(server, CASES[name]["text"]):
        assert answer.is_done, answer.text()


@pytest.mark.parametrize("folder", ["config", "docs/examples"])
def test_what_we_ship_is_accepted(server, folder):
    paths = sorted((ROOT / folder).rglob("*.yaml"))
    answers = [it for path in paths for it in tried(server, path.read_text(encoding="utf-8"))]
    assert answers
    assert [it.text() for it in answers if not it.is_done and it.code != 409] == []


def test_the_namespace_admits_the_pod_that_is_deployed(server):
    """It is held to the restricted pod security standard."""
    (template,) = (it["spec"]["template"] for it in of_kind(written(), "Deployment"))
    meta = {"name": "x", "namespace": "kaisched", "labels": template["metadata"]["labels"]}
    found = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    assert server.create(found, "?dryRun=All").is_done
    found["spec"]["containers"][0].pop("securityContext")
    assert "violates PodSecurity" in refusal(server.create(found, "?dryRun=All"))


# -- the queues' gate ----------------------------------------------------------------------------


@contextmanager
def somebody(server, *rights):
    """A client with these rights and no other."""
    rbac = "rbac.authorization.k8s.io"
    place = server.rig.namespace
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ann"}},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "test-person"},
            "rules": list(rights),
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "test-person"},
            "subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": place}],
            "roleRef": {"kind": "ClusterRole", "name": "test-person", "apiGroup": rbac},
        },
    ]
    try:
        for obj in objects:
            assert server.create(obj).is_done
        yield Client(as_account(server, place, "ann"))
    finally:
        for obj in objects:
            server.remove(obj)


@pytest.fixture
def person(server):
    """Somebody who may make anything, and use the queue `theirs`."""
    anything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "update"]}
    queue = {
        "apiGroups": ["scheduling.run.ai"],
        "resources": ["queues"],
        "resourceNames": ["theirs"],
        "verbs": ["use"],
    }
    with somebody(server, anything, queue) as client:
        yield lambda obj: client.call("POST", server.path(obj) + "?dryRun=All", body=obj)


def test_a_tenant_asks_for_an_hour_to_end_at_most_and_for_no_node(server):
    """A deletion has a grace too; who may bind may name a node."""
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}
    other, node = {"schedulerName": "other"}, {"nodeName": "n0"}
    server.create(pod("there", **other, **node))
    with somebody(server, pods) as client:

        def made(**spec):
            obj = pod("p", **other, **spec)
            return client.call("POST", server.path(obj) + "?dryRun=All", body=obj)

        def deleted(seconds):
            path = f"{server.path(pod('there'))}/there?dryRun=All"
            return client.call("DELETE", path, body={"gracePeriodSeconds": seconds})

        until(lambda: made().is_done, what="taking the role up")
        until(lambda: "pods/binding" in refusal(made(**node)), what="taking the policy up")
        long = "terminationGracePeriodSeconds is 3601: at most 3600"
        until(lambda: long in refusal(made(terminationGracePeriodSeconds=3601)))
        assert made(terminationGracePeriodSeconds=3600).is_done
        assert "gracePeriodSeconds is 315360000" in refusal(deleted(315_360_000))
        assert deleted(30).is_done
    binds = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    with somebody(server, pods, binds) as client:
        until(lambda: made(**node).is_done, what="taking the role up")
    server.rig.ask("DELETE", f"{server.path(pod('there'))}/there?gracePeriodSeconds=0")


@pytest.mark.fault("H113")
def test_a_queue_is_used_by_whom_it_is_given_to(person):
    until(lambda: person(pod("p", "theirs")).is_done, what="taking the role up")
    named = "name a queue in the label"
    until(lambda: named in refusal(person(pod("p"))), what="taking the policy up")
    assert 'you may not use queue "others"' in refusal(person(pod("p", "others")))
    assert person({**pod("p"), "spec": {**pod("p")["spec"], "schedulerName": "other"}}).is_done
    template = {"metadata": {}, "spec": {**pod("p")["spec"], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"kai.scheduler/queue": "others"}},
        "spec": {"template": template},
    }
    until(lambda: "you may not use" in refusal(person(job)), what="taking the policy of jobs up")
    job["metadata"]["labels"]["kai.scheduler/queue"] = "theirs"
    assert person(job).is_done
    member = {"name": "p", "annotations": {"pod-group-name": "g"}}
    assert named in refusal(person({**pod("p"), "metadata": member}))
    assert person(with_label(pod("p", "theirs"), "others")).code == 403


KINDS = [
    *WORKLOADS,
    Workload(f"{GANG_API}/", GANG_API_PLURAL, GANG_API_KIND),
    Workload("v1", "replicationcontrollers", "ReplicationController"),
    Workload("apps/v1", "daemonsets", "DaemonSet"),
    Workload("example.com/v1", "trainings", "Training"),
]
"""The rows of the table of workloads, kinds with templates that it has not, and one of a shard."""


def with_label(obj, queue):
    meta = {**obj["metadata"], "labels": {"kai.scheduler/queue": queue}}
    return {**obj, "metadata": meta}


@pytest.fixture(scope="module")
def kinds(server):
    """Every kind of the table is served, if need be by a definition that takes anything.

    Kubernetes' own gangs are a matter of the server's flags.
    """
    made = []
    for row in KINDS:
        group, _, version = row.api_version.rpartition("/")
        root = f"/apis/{row.api_version}" if group else f"/api/{row.api_version}"
        path = f"{root}/{row.plural}"
        if server.rig.ask("GET", path).is_done or group == GANG_API:
            continue
        body = any_definition(group, version, row.plural, row.kind, "Namespaced")
        body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
        assert server.create(body).is_done
        made.append(body)
        until(lambda p=path: server.rig.ask("GET", p).is_done, what=f"serving {path}")
    yield
    for body in made:
        server.remove(body)


@pytest.mark.fault("H113")
@pytest.mark.parametrize("row", KINDS, ids=lambda it: f"{it.kind} {it.api_version}")
@pytest.mark.usefixtures("kinds")
def test_every_kind_that_names_a_queue_needs_the_right_to_it(server, person, row):
    if row.api_group == GANG_API:
        row = find_gang_api(server.rig.client) or pytest.skip(f"{GANG_API} serves no PodGroups")
    obj = {
        "apiVersion": row.api_version,
        "kind": row.kind,
        "metadata": {"name": "x"},
        "spec": spec_of(row),
    }
    until(lambda: person(with_label(obj, "theirs")).is_done, what="taking the role up")
    answer = person(with_label(obj, "others"))
    assert answer.code == 403
    assert "you may not use" in refusal(answer)
    if not holds_template(row):
        return
    for scheduler in ("kaisched", "other"):
        for at, queue in ((0, "others"), (-1, "others"), (0, "theirs"), (-1, "theirs")):
            obj["spec"] = spec_of(row, scheduler)
            meta = list(metas(obj["spec"]))[at].setdefault("labels", {})
            meta["kai.scheduler/queue"] = queue
            is_allowed = queue == "theirs"
            answer = person(with_label(obj, "theirs"))
            assert answer.is_done == is_allowed, (scheduler, at, queue, answer.text())
            assert is_allowed or "you may not use each of the queues" in refusal(answer)


def holds_template(row):
    return row.api_group in {"", "apps", "batch"}


def metas(spec):
    """The metadata of the templates in a spec, the outermost first."""
    outer = spec.get("jobTemplate") or spec["template"]
    yield outer.setdefault("metadata", {})
    if "jobTemplate" in spec:
        yield spec["jobTemplate"]["spec"]["template"].setdefault("metadata", {})


def spec_of(row, scheduler="kaisched"):
    """The least spec that a kind of Kubernetes takes; others take anything."""
    if not holds_template(row):
        return {"schedulingPolicy": {"basic": {}}} if row.kind == GANG_API_KIND else {}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "none"}]},
    }
    if row.api_group == "batch":
        template["spec"]["restartPolicy"] = "Never"
        job = {"template": template}
        return job if row.kind == "Job" else {"schedule": "0 0 * * *", "jobTemplate": {"spec": job}}
    named = {"serviceName": "x"} if row.kind == "StatefulSet" else {}
    selector = {"a": "b"} if not row.api_group else {"matchLabels": {"a": "b"}}
    return {"selector": selector, "template": template, **named}


@pytest.mark.fault("H113")
def test_operators_may_leave_the_label_out(server, person):
    """They make pods from an object that has the label; the scheduler looks at that."""
    until(lambda: "name a queue" in refusal(person(pod("p"))), what="taking the policy up")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "test-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": server.rig.namespace}],
        "roleRef": {
            "kind": "ClusterRole",
            "name": "kaisched-use-all-queues",
            "apiGroup": "rbac.authorization.k8s.io",
        },
    }
    assert server.create(binding).is_done
    until(lambda: person(pod("p")).is_done, what="taking the role up")
    server.remove(binding)


# -- the fence -----------------------------------------------------------------------------------


def test_only_the_leader_of_the_epoch_binds_and_evicts(server):
    rig = server.rig
    client = Client(as_account(server))
    lease = {"spec": {"holderIdentity": "me", "leaseTransitions": 7}}
    rig.must("PATCH", LEASE, lease, MERGE)
    rig.must("POST", rig.pods_path, pod("p", "default-queue"))

    def ask(subresource, of="p", **notes):
        kind = {
            "binding": {"kind": "Binding", "apiVersion": "v1", "target": {"name": "n"}},
            "eviction": {"kind": "Eviction", "apiVersion": "policy/v1"},
        }[subresource]
        annotations = {f"kaisched.io/{key.replace('_', '-')}": it for key, it in notes.items()}
        body = {**kind, "metadata": {"name": of, "annotations": annotations}}
        return client.call("POST", f"{rig.pods_path}/{of}/{subresource}", body=body)

    path = f"/apis/admissionregistration.k8s.io/v1/{FENCE}"
    rig.must("PATCH", path, {"spec": {"validationActions": ["Deny"]}}, MERGE)
    until(lambda: "not the leader" in refusal(ask("binding")), what="taking the policy up")
    for subresource in ("binding", "eviction"):
        assert "not the leader" in refusal(ask(subresource))
        assert "not the leader" in refusal(ask(subresource, leader="she", leader_epoch="7"))
        assert "stale leader epoch" in refusal(ask(subresource, leader="me", leader_epoch="6"))
        assert ask(subresource, leader="me", leader_epoch="7").is_done
    others = {**of_kind(written(), "Lease")[0], "spec": {"holderIdentity": "she"}}
    others["metadata"] = {**others["metadata"], "name": "kaisched-gold"}
    assert server.create(others).is_done
    gold = {"lease": "kaisched-gold", "leader_epoch": "0"}
    until(lambda: "not the leader" in refusal(ask("eviction", leader="me", **gold)))
    assert ask("eviction", leader="she", **gold).is_done
    assert "not the leader" in refusal(ask("eviction", leader="she", leader_epoch="7"))
    assert ask("eviction", leader="me", leader_epoch="7").is_done
    server.remove(others)
    # As install.md says for an emergency.
    rig.must("PATCH", path, {"spec": {"validationActions": ["Audit"]}}, MERGE)
    rig.must("POST", rig.pods_path, pod("q", "default-queue"))
    until(lambda: ask("binding", of="q").is_done, what="letting everything through")
    rig.must("PATCH", path, {"spec": {"validationActions": ["Deny"]}}, MERGE)


def test_without_our_lease_other_schedulers_go_on(server):
    """A server looks for the lease before it looks who asks."""
    rig = server.rig
    (lease,) = of_kind(written(), "Lease")
    server.remove(lease)
    time.sleep(1.5)  # so that policies have taken it up
    rig.must("POST", rig.pods_path, pod("r", schedulerName="other"))
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"name": "n"}}
    rig.must("POST", f"{rig.pods_path}/r/binding", {**binding, "metadata": {"name": "r"}})
    assert server.create(lease).is_done


# -- the daemon, with no other rights than its account has ---------------------------------------


def test_the_account_of_the_manifests_does_the_work(server):
    rig = server.rig
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("mine", 8)
    rig.queue("yours", 8)
    rig.start_kubelet()
    daemon = rig.start(access=as_account(server), **AS_DEPLOYED)
    daemon.wait_leading()
    for number in range(16):
        rig.pod(f"a{number}", "mine")
    rig.wait_placed(*(f"a{number}" for number in range(16)))
    rig.gang("b", "yours", 4)  # takes back what it deserves
    rig.gang("big", "yours", 32)
    rig.wait_placed(*(f"b-{number}" for number in range(4)))
    until(lambda: rig.condition("big-0").get("reason") == "Unschedulable")
    queue = until(
        lambda: (it := rig.must("GET", f"{QUEUES}/mine").get("status", {})).get("allocated") and it
    )
    until(lambda: rig.must("GET", f"{QUEUES}/yours")["status"].get("allocated", {}))
    assert queue["allocated"]
    assert daemon.error is None
    rig.stop()
    refused = [it for it in rig.logs if it.get("log_level") == "error"]
    assert refused == []


def test_two_shards_are_led_and_fenced_by_a_lease_each(server, tmp_path):
    rig = server.rig
    (lease,) = of_kind(written(), "Lease")
    gold = {**lease, "metadata": {**lease["metadata"], "name": "kaisched-gold"}}
    assert server.create(gold).is_done
    names = ["kaisched-default", "kaisched-gold"]
    (role,) = [
        it for it in of_kind(written(), "Role") if it["metadata"]["name"] == "kaisched-lease"
    ]
    (rule,) = role["rules"]
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/kaisched/roles/kaisched-lease"
    rig.must("PATCH", path, {"rules": [{**rule, "resourceNames": names}]}, MERGE)
    files = []
    for name in ("default", "gold"):
        spec = {} if name == "default" else {"partitionLabelValue": name}
        shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
        files.append(tmp_path / f"{name}.yaml")
        text = yaml.safe_dump({**shard, "metadata": {"name": name}, "spec": spec})
        files[-1].write_text(text, encoding="utf-8")
    pool = {"kai.scheduler/node-pool": "gold"}
    rig.node("plain")
    rig.node("golden", labels=pool)
    rig.queue("here", 8)
    rig.queue("there", 8, labels=pool)
    # Their numbers differ: nobody goes by the other's.
    rig.must("PATCH", LEASE.replace("default", "gold"), {"spec": {"leaseTransitions": 40}}, MERGE)
    daemon = rig.start(access=as_account(server), shards=files, **AS_DEPLOYED)
    daemon.wait_leading()
    rig.pod("h", "here")
    rig.pod("t", "there", labels=pool)
    placed = rig.wait_placed("h", "t")
    assert (placed["h"], placed["t"]) == ("plain", "golden")
    notes = {name: rig.pods()[name]["metadata"]["annotations"] for name in ("h", "t")}
    assert notes["h"]["kaisched.io/lease"] == "kaisched-default"
    assert notes["t"]["kaisched.io/lease"] == "kaisched-gold"
    assert notes["t"]["kaisched.io/leader-epoch"] == "41"
    assert daemon.error is None
    rig.stop()
    server.remove(gold)


@pytest.mark.parametrize("env", [None, [{"name": "OTHER", "value": "1"}]])
def test_a_pod_with_a_share_gets_the_variable_that_names_its_gpu(server, env):
    made = shared_pod(env)
    answer = until(lambda: (got := server.create(made, "?dryRun=All")).is_done and got)
    spec = msgspec.json.decode(answer.data)["spec"]
    given = {it["name"]: it.get("env", []) for it in spec["containers"]}
    path = "metadata.annotations['kaisched.io/gpu-uuids']"
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
    assert given["first"] == [*(env or []), {"name": VISIBLE, "valueFrom": field}]
    assert given["second"] == []


def test_the_variable_goes_to_the_container_that_the_pod_names(server):
    made = shared_pod(None)
    made["metadata"]["annotations"]["gpu-fraction-container-name"] = "second"
    spec = msgspec.json.decode(server.create(made, "?dryRun=All").data)["spec"]
    assert [[it["name"] for it in each.get("env", [])] for each in spec["containers"]] == [
        [],
        [VISIBLE],
    ]


def test_a_pod_that_has_the_variable_or_no_share_is_left_alone(server):
    own = [{"name": VISIBLE, "value": "none"}]
    made = shared_pod(own)
    spec = msgspec.json.decode(server.create(made, "?dryRun=All").data)["spec"]
    assert [it.get("env") for it in spec["containers"]] == [own, None]
    del made["metadata"]["annotations"]
    made["spec"]["containers"][0].pop("env")
    spec = msgspec.json.decode(server.create(made, "?dryRun=All").data)["spec"]
    assert [it.get("env") for it in spec["containers"]] == [None, None]


SHARE = "gpu-share"
NIC = {"name": "nic", "resourceClaimTemplateName": "nic"}


@pytest.mark.parametrize(
    ("notes", "template"),
    [
        ({"gpu-fraction": "0.5"}, "kaisched-gpu-fraction-0.5"),
        ({"gpu-memory": "20000"}, "kaisched-gpu-memory-20000"),
        ({"gpu-memory": "20000", "gpu-fraction-num-devices": "2"}, "kaisched-gpu-memory-20000-x2"),
    ],
)
@pytest.mark.parametrize("has_others", [False, True])
def test_a_pod_with_a_share_gets_the_claim_that_it_is(server, notes, template, has_others):
    made = shared_pod(None)
    made["metadata"]["annotations"] = notes
    if has_others:
        made["spec"]["resourceClaims"] = [NIC]
        made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "nic"}]}
    answer = until(lambda: (got := server.create(made, "?dryRun=All")).is_done and got)
    spec = msgspec.json.decode(answer.data)["spec"]
    claim = {"name": SHARE, "resourceClaimTemplateName": template}
    assert spec["resourceClaims"] == [*([NIC] if has_others else []), claim]
    given = [
        [it["name"] for it in each["resources"].get("claims", [])] for each in spec["containers"]
    ]
    assert given == [["nic", SHARE] if has_others else [SHARE], []]


def test_the_claim_goes_to_the_container_that_the_pod_names(server):
    made = shared_pod(None)
    made["metadata"]["annotations"]["gpu-fraction-container-name"] = "second"
    made["spec"]["containers"][1]["resources"] = {"limits": {"cpu": "1"}}
    spec = msgspec.json.decode(server.create(made, "?dryRun=All").data)["spec"]
    given = [each["resources"].get("claims", []) for each in spec["containers"]]
    assert given == [[], [{"name": SHARE}]]
    assert spec["containers"][1]["resources"]["limits"] == {"cpu": "1"}


@pytest.mark.parametrize(
    "notes",
    [
        {},
        {"gpu-fraction": ".5"},
        {"gpu-fraction": "0.5", "gpu-memory": "5"},
        {"gpu-memory": "2Gi"},
        {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "-1"},
    ],
)
def test_a_pod_whose_share_can_name_no_template_is_left_alone(server, notes):
    made = shared_pod(None)
    made["metadata"]["annotations"] = notes
    spec = msgspec.json.decode(server.create(made, "?dryRun=All").data)["spec"]
    assert "resourceClaims" not in spec


def test_a_pod_that_names_its_claim_is_left_alone(server):
    made = shared_pod(None)
    mine = [{"name": SHARE, "resourceClaimTemplateName": "kaisched-gpu-fraction-0.5"}]
    made["spec"]["resourceClaims"] = mine
    spec = msgspec.json.decode(server.create(made, "?dryRun=All").data)["spec"]
    assert spec["resourceClaims"] == mine


def shared_pod(env):
    made = pod("shares", "default-queue")
    made["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    first = {"name": "first", "image": "none"} | ({} if env is None else {"env": env})
    made["spec"]["containers"] = [first, {"name": "second", "image": "none"}]
    return made


# -- claims on devices ---------------------------------------------------------------------------


def test_only_the_leader_of_the_epoch_allocates(server):
    """The marks are put on by a request of its own: a write of the status cannot change them."""
    rig = server.rig
    client = Client(as_account(server))
    rig.must("PATCH", LEASE, {"spec": {"holderIdentity": "me", "leaseTransitions": 7}}, MERGE)
    rig.must("POST", rig.pods_path, pod("fenced", "default-queue"))
    path = f"{RESOURCE}/namespaces/{rig.namespace}/resourceclaims"
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    rig.must("POST", path, claim)
    result = {"request": "gpu", "driver": DRIVER, "pool": "n", "device": "d"}

    def ask(**notes):
        annotations = {f"kaisched.io/{key.replace('_', '-')}": it for key, it in notes.items()}
        body = {"metadata": {"annotations": annotations}}
        marked = client.call("PATCH", f"{path}/c", body=body, content_type=STRATEGIC)
        assert marked.is_done, marked.text()
        raw = msgspec.json.decode(marked.data)
        raw["status"] = {"allocation": {"devices": {"results": [result]}}}
        raw["metadata"]["annotations"] = {"kaisched.io/leader": "me"}
        return client.call("PUT", f"{path}/c/status", body=raw)

    until(lambda: "not the leader" in refusal(ask(leader="she", leader_epoch="7")))
    assert "stale leader epoch" in refusal(ask(leader="me", leader_epoch="6"))
    assert ask(leader="me", leader_epoch="7").is_done


def test_the_account_of_the_manifests_allocates_claims(server, tmp_path):
    rig = server.rig
    shard = tmp_path / "shard.yaml"
    shard.write_text(
        "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: default}\n"
        "spec: {resourceClaims: true}\n",
        encoding="utf-8",
    )
    rig.node("with-devices", gpus=0)
    published = {"deviceclasses": device_class(), "resourceslices": slice_of("with-devices", 2)}
    for path, obj in published.items():
        name = obj["metadata"]["name"]
        rig.ask("DELETE", f"{RESOURCE}/{path}/{name}")
        rig.must("POST", f"{RESOURCE}/{path}", obj)
    rig.queue("devices", 8)
    templates = f"{RESOURCE}/namespaces/{rig.namespace}/resourceclaimtemplates"
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    rig.must("POST", templates, {"metadata": {"name": "one"}, "spec": spec})
    parts = ClaimParts(rig.client, rig.namespace, None)
    daemon = rig.start(shards=[str(shard)], access=as_account(server), **AS_DEPLOYED).wait_leading()
    for name in ("d0", "d1", "d2"):
        refs = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        rig.pod(name, "devices", 0, resourceClaims=refs)
    until(lambda: parts.look() or len([it for it in rig.placed() if it in ("d0", "d1", "d2")]) == 2)
    until(
        lambda: (
            parts.look()
            or sum(it["status"].get("phase") == "Running" for it in rig.pods().values()) >= 2
        )
    )
    first = next(it for it in rig.placed() if it in ("d0", "d1", "d2"))
    rig.delete_pod(first)
    rest = {"d0", "d1", "d2"} - {first}
    until(lambda: parts.look() or rest <= rig.placed().keys())
    assert daemon.error is None
    rig.stop()
    assert [it for it in rig.logs if it.get("log_level") == "error"] == []
