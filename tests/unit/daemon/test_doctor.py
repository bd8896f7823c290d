"""Doctor: every fault of a cluster is found, named and given a fix; nothing else is."""

import json
import re

import pytest

from kaisched.cli.app import run_line
from kaisched.clock import ManualClock, SystemClock
from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import MERGE, Client
from kaisched.config.loading import load_settings
from kaisched.daemon.doctor import Finding, Visit, named
from kaisched.daemon.doctor import examine as rounds
from kaisched.daemon.doctor.cluster import QUEUE_USE
from kaisched.daemon.doctor.examine import examine
from kaisched.objects.labels import GPU_CONFIG_MAP, format_time
from kaisched_apiserver import ApiServer, Rule
from kaisched_apiserver.playground import add_kai_kinds, add_namespace, add_nodes, kubeconfig_of
from tests.contract.prometheus import Prometheus, needs_prometheus
from tests.on_kubernetes.rig import definition
from tests.waiting import until

RUN = "/apis/scheduling.run.ai/v2/queues"
SHARDS = "/apis/kai.scheduler/v1/schedulingshards"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kaisched/leases"
EVERYTHING = {"limit": -1, "overQuotaWeight": 1, "quota": 0}


@pytest.fixture
def server():
    with ApiServer() as server:
        add_kai_kinds(server)
        add_namespace(server, "kaisched")
        add_nodes(server, 2, 8)
        yield server


def client_of(server, token=""):
    return Client(Access(server.url, authorization=lambda: f"Bearer {token}" if token else ""))


def must(server, method, path, body):
    answer = client_of(server).call(method, path, body=body)
    assert answer.is_done, answer.text()


def queue(server, name, pool="", resources=None, **spec):
    labels = {"kai.scheduler/node-pool": pool} if pool else {}
    gpu = EVERYTHING if resources is None else resources
    kind = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    spec = {"resources": {"gpu": gpu}, **spec}
    must(server, "POST", RUN, {**kind, "metadata": {"name": name, "labels": labels}, "spec": spec})


def shard(server, name, pool="", **spec):
    body = {"metadata": {"name": name}, "spec": {"partitionLabelValue": pool, **spec}}
    kind = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
    must(server, "POST", SHARDS, {**kind, **body})


def lease(server, name="kaisched-default", age_s=1.0, **spec):
    renewed = format_time(SystemClock().now_s() - age_s)
    said = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": renewed} | spec
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    must(server, "POST", LEASES, {**kind, "metadata": {"name": name}, "spec": said})


def visit(server, clock=None, token="", user="", **settings):
    flags = {key: ("a test", value) for key, value in settings.items()}
    flags.setdefault("kubernetes.namespace", ("a test", "kaisched"))
    loaded = load_settings(flags=flags).settings
    return Visit(client_of(server, token), loaded, clock or SystemClock(), user)


def found(server, **given):
    return list(examine(visit(server, **given)))


def of(findings, check, level=None):
    return [it for it in findings if it.check == check and level in {None, it.level}]


def texts(findings, check, level):
    return [it.text for it in of(findings, check, level)]


@pytest.fixture
def healthy(server):
    queue(server, "default-queue")
    queue(server, "root")
    queue(server, "a", parentQueue="root")
    lease(server)
    return server


def test_nothing_fails_in_a_healthy_cluster(healthy):
    findings = found(healthy)
    assert [it for it in findings if it.level == "fail"] == []
    assert {it.check for it in findings if it.level == "ok"} >= {
        "server",
        "account",
        "clock",
        "kind Queue",
        "kind PodGroup",
        "kind SchedulingShard",
        "kind Topology",
        "workloads",
        "shard default",
        "rights read",
        "rights write",
        "rights lease",
        "lease kaisched-default",
        "nodes",
        "queues",
        "usage default",
    }


def test_every_finding_that_is_not_ok_says_what_to_do(server):
    queue(server, "x", resources={"quota": 1}, parentQueue="nowhere")
    for finding in found(server, clock=ManualClock(1e9)):
        assert finding.level == "ok" or finding.fix, finding


# -- the server ----------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_all_that_is_told():
    gone = Client(Access("http://127.0.0.1:1"))
    findings = list(examine(Visit(gone, load_settings(flags={}).settings, SystemClock())))
    assert [(it.check, it.level) for it in findings] == [("server", "fail")]


@pytest.mark.parametrize(
    ("ahead_s", "level"),
    [(0.0, "ok"), (4.0, "ok"), (20.0, "warn"), (-20.0, "warn"), (90.0, "fail")],
)
def test_clocks_are_compared(ahead_s, level):
    with ApiServer(clock=ManualClock(1_800_000_000.4)) as server:
        add_kai_kinds(server)
        findings = found(server, clock=ManualClock(1_800_000_000.4 + ahead_s))
    (clock,) = of(findings, "clock")
    assert clock.level == level
    if level != "ok":
        assert ("ahead of" if ahead_s > 0 else "behind") in clock.text


def test_kinds_that_are_not_there_are_named():
    with ApiServer() as server:
        findings = found(server)
    (kind,) = of(findings, "kind Queue")
    assert kind.level == "fail"
    assert (
        kind.text == "queues.scheduling.run.ai is not served: nothing is scheduled without queues"
    )
    assert kind.fix == "kaisched config crds | kubectl apply --server-side --force-conflicts -f -"
    assert of(findings, "kind Topology")[0].level == "warn"


def test_a_kind_in_another_version_is_told_so():
    with ApiServer() as server:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        must(
            server,
            "POST",
            path,
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "queues.scheduling.run.ai"},
                "spec": {
                    "group": "scheduling.run.ai",
                    "scope": "Cluster",
                    "names": {
                        "plural": "queues",
                        "singular": "queue",
                        "kind": "Queue",
                        "listKind": "QueueList",
                    },
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": anything},
                        }
                    ],
                },
            },
        )
        findings = found(server)
    assert texts(findings, "kind Queue", "fail") == [
        "scheduling.run.ai is served as v1, and read as v2"
    ]


# -- the account ---------------------------------------------------------------------------------


def restricted(server, *rules):
    server.api.access.tokens = {"secret-token": "scheduler", "master": "admin"}
    server.api.access.rules = {
        "scheduler": [
            Rule(("create",), ("authorization.k8s.io", "authentication.k8s.io"), ("*",)),
            *rules,
        ]
    }


GANGS, WAIT = "Kubernetes' own gangs are", "pods that name one wait"


@pytest.mark.parametrize(
    ("versions", "level", "text"),
    [
        (("v1alpha2",), "ok", f"{GANGS} read as scheduling.k8s.io/v1alpha2"),
        (
            ("v1omega1",),
            "warn",
            f"{GANGS} served as v1omega1, and read as v1beta1, v1alpha3, v1alpha2: {WAIT}",
        ),
    ],
)
def test_whether_kubernetes_own_gangs_are_read_is_told(healthy, versions, level, text):
    for version in versions:
        define(healthy, "scheduling.k8s.io", version, "podgroups", "PodGroup")
    (gangs,) = of(found(healthy), "gangs")
    assert (gangs.level, gangs.text) == (level, text)


def test_no_gangs_of_kubernetes_are_nothing_to_tell(healthy):
    assert of(found(healthy), "gangs") == []


def define(server, group, version, plural, kind):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    must(server, "POST", path, definition(group, version, plural, kind, "Namespaced"))


WIDGETS = [{"apiVersion": "example.com/v1", "plural": "widgets", "kind": "Widget"}]
READ = Rule(("list", "watch"), ("example.com",), ("widgets",))


@pytest.mark.parametrize(("rules", "level"), [((), "fail"), ((READ,), "ok")])
def test_rights_to_the_kinds_of_a_shard_are_looked_at(healthy, rules, level):
    define(healthy, "example.com", "v1", "widgets", "Widget")
    shard(healthy, "default", workloads=WIDGETS)
    healthy.api.access.tokens = {"": "admin", "t": "x"}
    healthy.api.access.rules = {"x": list(rules)}
    (finding,) = of(found(healthy, user="x"), "rights workloads")
    assert finding.level == level
    if level == "fail":
        assert finding.text == "may not list widgets.example.com, watch widgets.example.com"
        assert "give the account a role" in finding.fix


def test_missing_rights_are_named_by_role(healthy):
    restricted(
        healthy,
        Rule(("list",), ("*",), ("*",)),
        Rule(("watch",), ("*",), ("nodes", "queues")),
        Rule(("get",), ("",), ("pods", "persistentvolumeclaims", "persistentvolumes")),
        Rule(("get", "update"), ("coordination.k8s.io",), ("leases",), names=("other",)),
    )
    findings = found(healthy, token="secret-token")
    (read,) = of(findings, "rights read")
    assert read.level == "fail"
    assert read.text.startswith("may not watch cronjobs.batch, ")
    assert read.fix == "apply the role kaisched-read of deploy/ and bind it to the account"
    (write,) = of(findings, "rights write")
    assert "create pods/binding" in write.text
    (lease_rights,) = of(findings, "rights lease")
    assert lease_rights.text == (
        "may not get leases.coordination.k8s.io, update leases.coordination.k8s.io"
    )


def test_rights_of_another_user_can_be_looked_at(healthy):
    restricted(healthy)
    findings = found(healthy, token="master", user="scheduler")
    assert of(findings, "account")[0].text == "admin; the rights of scheduler are checked"
    assert of(findings, "rights read")[0].level == "fail"


def test_only_the_rights_that_the_settings_need_are_asked_about(healthy):
    observing = found(healthy, **{"kubernetes.observe": True})
    assert [it.check for it in observing if it.check.startswith("rights")] == ["rights read"]
    assert of(found(healthy), "rights delete", "ok")
    shard(healthy, "default", "", disruptionBudgets="always")
    assert of(found(healthy), "rights delete") == []
    deleting = found(healthy, **{"kubernetes.evictionMode": "delete"})
    assert of(deleting, "rights delete", "ok")


def test_no_token_is_ever_shown(healthy):
    restricted(healthy)
    shown = " ".join(f"{it.text} {it.fix}" for it in found(healthy, token="secret-token"))
    assert "secret-token" not in shown


# -- shards, leases, nodes -----------------------------------------------------------------------


def test_two_shards_for_the_same_nodes_are_told(server):
    for name in ("one", "two"):
        shard(server, name, "pool-a")
    assert texts(found(server), "shards", "fail") == [
        "nodes of pool pool-a are in two shards: one, two"
    ]


def test_nodes_in_no_shard_and_shards_without_nodes_are_told(healthy):
    shard(healthy, "gpus", "gpus")
    findings = found(healthy)
    assert texts(findings, "nodes", "warn") == [
        "2 of 2 nodes are in no shard: gpu-node-1, gpu-node-2",
        "shard gpus has no node: none is labelled gpus",
    ]
    assert "in no shard's pool, so without a share: a, default-queue, root" in texts(
        findings, "queues", "warn"
    )


def test_what_anybody_may_hold_against_quotas_is_told(server):
    everything = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    queue(server, "open", resources=everything)
    queue(server, "default-queue", resources=everything, parentQueue="open")
    told = "deserves gpu, which pods without the label of a queue may then hold against the quotas"
    for shared in (False, True):
        if shared:  # the quota of the parent may be for the other one
            queue(server, "team", parentQueue="open")
        warned = [it for it in texts(found(server), "queues", "warn") if told in it]
        names = ["default-queue"] if shared else ["default-queue", "open"]
        assert [it.split()[0] for it in warned] == names


def test_a_plugin_that_is_not_installed_is_told(healthy):
    shard(healthy, "default", plugins={"nosuchplugin": {"enabled": True}})
    assert of(found(healthy), "shard default", "fail")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"age_s": 100.0}, r"pod-1 has not renewed it for 1\d\d s"),
        ({"holderIdentity": ""}, "no process leads"),
        ({"renewTime": None}, "held by pod-1, without a time of renewal"),
    ],
)
def test_a_lease_that_nobody_keeps_is_told(server, spec, said):
    lease(server, **spec)
    (text,) = texts(found(server), "lease kaisched-default", "warn")
    assert re.fullmatch(said, text)


def test_a_lease_that_is_not_there_is_told(server):
    assert texts(found(server), "lease kaisched-default", "warn") == [
        "there is none in namespace kaisched"
    ]


OTHERS = {"kubernetes.otherPools": "fast,slow=rest"}


def test_the_leases_of_other_pools_are_told_too(server):
    lease(server)
    lease(server, "kaisched-fast", age_s=100.0)
    findings = found(server, **OTHERS)
    (text,) = texts(findings, "lease kaisched-fast", "warn")
    assert "has not renewed it" in text
    assert texts(findings, "lease kaisched-rest", "warn") == ["there is none in namespace kaisched"]
    assert of(findings, "rights pools", "ok")


def test_a_lease_of_another_pool_that_may_not_be_read_is_told(healthy):
    for name in ("kaisched-fast", "kaisched-rest"):
        lease(healthy, name)
    restricted(
        healthy,
        Rule(("list", "watch"), ("*",), ("*",)),
        Rule(("get",), ("coordination.k8s.io",), ("leases",), names=("kaisched-default",)),
        Rule(("get",), ("coordination.k8s.io",), ("leases",), names=("kaisched-fast",)),
    )
    findings = found(healthy, token="secret-token", **OTHERS)
    assert texts(findings, "rights pools", "warn") == [
        "may not get the leases kaisched-rest: jobs of a pool that is lost are not taken"
    ]
    (finding,) = of(findings, "lease kaisched-rest", "warn")
    assert finding.text.endswith("jobs of node pool slow are not taken while no process serves it")
    assert finding.fix == "let the account get leases/kaisched-rest in namespace kaisched"
    assert of(findings, "lease kaisched-fast", "ok")


# -- queues --------------------------------------------------------------------------------------


def test_queues_that_mean_something_else_in_kai_are_named(healthy):
    queue(healthy, "no-limit", resources={"quota": 4, "overQuotaWeight": 1})
    queue(healthy, "no-weight", resources={"quota": 4, "limit": 8})
    limit, weight = texts(found(healthy), "queues", "warn")
    assert limit == (
        "limit is left out, which is no limit here, and nothing may run in KAI-Scheduler: no-limit"
    )
    assert weight == (
        "overQuotaWeight is left out, which is a weight of 1 here, and no surplus in KAI-Scheduler:"
        " no-weight"
    )


@pytest.mark.parametrize(("status", "is_told"), [("True", True), ("False", False)])
def test_queues_that_promise_more_than_their_quota_are_named(healthy, status, is_told):
    said = {"type": "OverSubscribed", "status": status, "message": "the quotas below add up"}
    queue(healthy, "dept", resources={"quota": 4, "limit": -1, "overQuotaWeight": 1})
    body = {"status": {"conditions": [said]}}
    answer = client_of(healthy).call("PATCH", f"{RUN}/dept/status", body=body, content_type=MERGE)
    assert answer.is_done
    told = texts(found(healthy), "queues", "warn")
    assert ("dept: the quotas below add up" in told) == is_told


def test_queues_with_faults_are_named(healthy):
    queue(healthy, "orphan", parentQueue="nowhere")
    (fault,) = of(found(healthy), "queues", "fail")
    assert "Queue orphan: spec.parentQueue: no such queue (value 'nowhere')" in fault.text


def test_no_queue_at_all_fails(server):
    assert texts(found(server), "queues", "fail") == ["there are no queues: every job waits"]


# -- usage ---------------------------------------------------------------------------------------


def with_history(server, url, **params):
    shard(
        server,
        "default",
        usageDBConfig={
            "clientType": "prometheus",
            "connectionString": url,
            "usageParams": params,
        },
    )


def test_a_usage_store_that_does_not_answer_is_told_without_its_password(healthy):
    with_history(healthy, "http://me:secret-word@127.0.0.1:1")
    findings = found(healthy)
    (usage,) = of(findings, "usage default", "fail")
    assert "127.0.0.1 did not answer" in usage.text
    assert "secret-word" not in str(findings)


@needs_prometheus
@pytest.mark.real
@pytest.mark.slow
def test_gaps_of_a_real_prometheus_are_told(healthy, tmp_path):
    server = Prometheus(tmp_path / "prometheus")
    now_s = int(SystemClock().now_s())
    times = [
        now_s - hour * 3600 + minute * 60
        for hour in range(47, 1, -1)
        if not 10 <= hour < 40
        for minute in range(60)
    ]
    lines = [
        f"{metric} 8 {time}"
        for metric in (
            'kai_queue_allocated_gpus{queue_name="a"}',
            'kube_node_status_capacity{node="n",resource="nvidia_com_gpu"}',
        )
        for time in times
    ]
    server.backfill(lines)
    server.start()
    try:
        with_history(healthy, server.url, windowSize="2d")
        findings = found(healthy)
    finally:
        server.kill()
    failed = texts(findings, "usage default", "fail")
    assert any("gpu: 6" in it and "of the window has no samples" in it for it in failed)
    assert any(it.startswith("the newest sample is ") for it in failed)
    assert any(it.startswith("cpu: the window has no time") for it in failed)
    assert "127.0.0.1 answers: history of gpu" in texts(findings, "usage default", "ok")


# -- all checks together -------------------------------------------------------------------------


def test_a_check_that_crashes_stops_no_other(healthy, monkeypatch):
    def crash(_):
        yield Finding("nodes", "ok", "so far")
        raise ValueError("secret-word")

    monkeypatch.setitem(rounds.CHECKS, "nodes", crash)
    findings = found(healthy)
    assert texts(findings, "nodes", "fail") == ["the check itself failed: ValueError"]
    assert of(findings, "queues", "ok")
    assert "secret-word" not in str(findings)


def test_many_names_are_cut():
    assert named("gfedcba") == "a, b, c, d, e and 2 more"


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def run(healthy, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(healthy.url))

    def run(*words):
        code = run_line(["doctor", "--kubeconfig", str(kubeconfig), *words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_the_command_prints_a_line_a_check(run):
    code, out, err = run("-n", "kaisched")
    assert code == 0
    assert re.fullmatch(r"kaisched: this is about context \S+, cluster \S+ at http\S+\n", err)
    assert "      ok    " not in out
    assert "ok    account" in out
    assert out.rstrip().endswith(" 0 fail")
    assert max(map(len, out.splitlines())) <= 80


def test_the_command_is_json_and_its_code_says_whether_something_failed(run, healthy):
    queue(healthy, "orphan", parentQueue="nowhere")
    code, out, _ = run("-o", "json")
    document = json.loads(out)
    assert code == 1
    assert document["schemaVersion"] == "kaisched.io/doctor/v1"
    assert document["fail"] == 1
    assert set(document["checks"][0]) == {"check", "level", "text", "fix"}


# -- who may use a queue -------------------------------------------------------------------------

ADMISSION = "admissionregistration.k8s.io", "v1"
POLICIES = {
    "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
    "validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBinding",
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.fault("I131")
def test_queues_that_anybody_may_use_are_told_with_what_closes_them(healthy):
    (finding,) = of(found(healthy), "queue use")
    assert finding.level == "warn"
    text = "any user who may create pods may put them into any queue: queueUsePolicy is off"
    assert finding.text == text
    assert "--set queueUsePolicy.create=true" in finding.fix


def has_policies(server, *names, actions=("Deny",)):
    """Serve the kinds of admission policies, and those of these names."""
    for plural, kind in POLICIES.items():
        body = definition(*ADMISSION, plural, kind, "Cluster")
        client_of(server).call("POST", DEFINITIONS, body=body)
        path = f"/apis/{'/'.join(ADMISSION)}/{plural}"
        until(lambda p=path: client_of(server).call("GET", p).is_done)
        head = {"apiVersion": "/".join(ADMISSION), "kind": kind}
        for name in names:
            meta = {"name": f"kaisched-queue-use-{name}"}
            must(
                server,
                "POST",
                path,
                {**head, "metadata": meta, "spec": {"validationActions": actions}},
            )


@pytest.mark.fault("H113")
def test_queues_with_all_policies_and_shards_that_know_are_well(healthy):
    has_policies(healthy, *QUEUE_USE)
    shard(healthy, "default", queueUsePolicy=True)
    assert texts(found(healthy), "queue use", "ok") == [
        "only users with the verb use may put work into a queue"
    ]


@pytest.mark.fault("H113")
def test_a_way_past_the_policies_of_queue_use_is_told(healthy):
    """One that an older version did not have, one that only audits, a shard that does not know."""
    has_policies(healthy, *(it for it in QUEUE_USE if it != "labels"))
    has_policies(healthy, "labels", actions=("Audit",))
    shard(healthy, "default", queueUsePolicy=True)
    (finding,) = of(found(healthy), "queue use", "warn")
    assert "these policies are for: kaisched-queue-use-labels (absent, or not Deny)" in finding.text
    path = (
        f"/apis/{'/'.join(ADMISSION)}/validatingadmissionpolicybindings/kaisched-queue-use-labels"
    )
    patch = {"spec": {"validationActions": ["Deny"]}}
    assert client_of(healthy).call("PATCH", path, body=patch, content_type=MERGE).is_done
    assert of(found(healthy), "queue use", "warn") == []
    shard(healthy, "gold", "gold")
    (finding,) = of(found(healthy), "queue use", "warn")
    assert finding.text.endswith("group they name: gold without queueUsePolicy")


@pytest.mark.fault("D70")
def test_pods_that_do_not_end_are_named(healthy):
    clock = ManualClock(SystemClock().now_s())
    pods = "/api/v1/namespaces/kaisched/pods"
    for name in ("p", "q"):
        body = {
            "metadata": {"name": name, "finalizers": ["example.com/wait"]},
            "spec": {"nodeName": "node-0", "containers": [{"name": "main", "image": "none"}]},
        }
        must(healthy, "POST", pods, body)
    must(healthy, "DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})
    check = "leaving pods"
    assert texts(found(healthy, clock=clock), check, "ok") == ["none is stuck; 1 are being deleted"]
    clock.advance_to(clock.now_s() + 3600)
    (finding,) = of(found(healthy, clock=clock), check)
    assert finding.level == "warn"
    assert "1 pods were deleted long ago" in finding.text
    assert "kaisched/p (for " in finding.text
    shard(healthy, "default", args={"stuck-in-releasing-threshold": "2h"})
    assert of(found(healthy, clock=clock), check, "warn") == []


def test_who_may_not_look_at_policies_is_told_so(healthy):
    healthy.api.access.tokens = {"person": "person"}
    healthy.api.access.rules = {"person": [Rule(("get", "list"), ("scheduling.run.ai",), ("*",))]}
    (finding,) = of(found(healthy, token="person"), "queue use")
    assert finding.level == "warn"


# -- shared GPUs ---------------------------------------------------------------------------------

SHARES = {"gpuSharing": {"image": "agent"}}
HELD = "kai-resource-reservation"


def shared_pod(server, name, namespace, node, scheduler="kai-scheduler", **meta):
    spec = {"schedulerName": scheduler, "nodeName": node}
    body = {
        "metadata": {"name": name, **meta},
        "spec": spec | {"containers": [{"name": "main", "image": "none"}]},
    }
    must(server, "POST", f"/api/v1/namespaces/{namespace}/pods", body)


def test_shared_gpus_are_looked_at_only_where_a_shard_has_some(healthy):
    add_namespace(healthy, HELD)
    assert of(found(healthy), "gpu sharing") == of(found(healthy), "rights sharing") == []
    shard(healthy, "default", **SHARES)
    assert texts(found(healthy), "gpu sharing", "ok") == [
        "0 GPUs are shared, each held by a reservation pod"
    ]
    assert texts(found(healthy), "rights sharing", "ok") == ["all 2 requests are allowed"]


def test_the_rights_to_share_are_asked_for_in_the_namespace_of_reservation_pods(healthy):
    shard(healthy, "default", **SHARES)
    rules = [Rule(("get", "list", "watch"), ("*",), ("*",))]
    rules.append(Rule(("create",), ("",), ("pods",), namespaces=(HELD,)))
    healthy.api.access.rules = {"scheduler": rules}
    (finding,) = of(found(healthy, user="scheduler"), "rights sharing")
    assert (finding.level, finding.text) == ("fail", "may not delete pods")


def test_nodes_are_named_that_lack_what_sharing_needs(healthy):
    shard(healthy, "default", **SHARES)
    for name, labels in (
        ("node-1", {"nvidia.com/gpu.memory": None}),
        ("node-2", {"nvidia.com/gpu.replicas": "4"}),
    ):
        body = {"metadata": {"labels": labels}}
        answer = client_of(healthy).call(
            "PATCH", f"/api/v1/nodes/gpu-{name}", body=body, content_type=MERGE
        )
        assert answer.is_done, answer.text()
    assert texts(found(healthy), "gpu sharing", "warn") == [
        "GPUs of 1 nodes are slices, which are not shared: gpu-node-2",
        "1 nodes do not say how much memory a GPU has: gpu-node-1",
    ]


def test_reservation_pods_and_pods_without_them_are_named(healthy):
    shard(healthy, "default", **SHARES)
    add_namespace(healthy, HELD)
    group = {"runai-gpu-group": "x"}
    half = {"gpu-fraction": "0.5"}
    shared_pod(healthy, "a", "kaisched", "gpu-node-1", labels=group, annotations=half)
    assert texts(found(healthy), "gpu sharing", "warn") == [
        "1 pods use a GPU that no reservation pod holds: kaisched/a"
    ]
    shared_pod(healthy, "r", HELD, "gpu-node-1", labels=group | {"app": HELD})
    assert texts(found(healthy), "gpu sharing", "warn") == ["1 reservation pods tell no GPU yet: r"]


@pytest.mark.fault("I137")
def test_pods_are_named_that_name_groups_which_no_scheduler_gave_them(healthy):
    shard(healthy, "default", **SHARES)
    group = {"runai-gpu-group": "x"}
    shared_pod(healthy, "a", "kaisched", "gpu-node-1", labels=group)
    shared_pod(healthy, "b", "kaisched", "gpu-node-1", "default-scheduler", labels=group)
    assert texts(found(healthy), "gpu sharing", "warn") == [
        "2 pods name groups of GPUs that no scheduler gave them: kaisched/a, kaisched/b"
    ]


def test_pods_are_named_that_look_up_their_gpu_where_nobody_writes_it(healthy):
    shard(healthy, "default", **SHARES)
    notes = {"gpu-fraction": "0.5", GPU_CONFIG_MAP: "a-x-shared-gpu"}
    spec = {"schedulerName": "kaisched", "containers": [{"name": "main", "image": "none"}]}
    for name, scheduler in (("a", "kaisched"), ("b", "another")):
        meta = {"name": name, "annotations": notes}
        body = {"metadata": meta, "spec": spec | {"schedulerName": scheduler}}
        must(healthy, "POST", "/api/v1/namespaces/kaisched/pods", body)
    (finding,) = of(found(healthy), "gpu sharing")
    assert finding.text == "1 pods wait that look up their GPU in a ConfigMap: kaisched/a"
    assert "configMaps: true" in finding.fix


def test_the_right_to_write_config_maps_is_asked_for_where_a_shard_does(healthy):
    sharing = {"gpuSharing": {"image": "agent", "configMaps": True}}
    shard(healthy, "default", **sharing)
    assert texts(found(healthy), "rights lookups", "ok") == ["all 3 requests are allowed"]
    rules = [Rule(("get", "list", "watch", "create"), ("*",), ("*",))]
    healthy.api.access.rules = {"scheduler": rules}
    (finding,) = of(found(healthy, user="scheduler"), "rights lookups")
    assert (finding.level, finding.text) == ("fail", "may not update configmaps")
    assert "kaisched-lookups" in finding.fix
