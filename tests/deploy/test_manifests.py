"""The manifests: kustomize and the chart say the same, and what they say holds."""

import copy
import re
import shutil
import subprocess

import pytest
import yaml

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.pods import LEASE
from kaisched.cluster.kubernetes.resources import SHARDS
from kaisched.config.loading import load_settings
from kaisched.daemon.doctor.cluster import QUEUE_USE
from kaisched.engine.policy import build_policy
from kaisched.objects import labels
from kaisched.objects.gangs import WORKLOADS
from kaisched.objects.load import load_text
from kaisched_apiserver import ApiServer
from kaisched_apiserver.playground import add_kai_kinds, kubeconfig_of
from tests.deploy.manifests import (
    CHART,
    DEPLOY,
    KUSTOMIZE,
    documents,
    helm,
    key_of,
    kustomized,
    of_kind,
    read,
    rendered,
    templated,
    written,
)
from tests.deploy.structural import faults, unknown
from tests.deploy.test_crds import SCHEMA_OF

SETTINGS = ["kustomize/base/kaisched.yaml", "kustomize/overlays/observe/kaisched.yaml"]
SWITCHES = [
    name
    for name, value in yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8")).items()
    if isinstance(value, dict) and "create" in value
]


def by_key(objects):
    found = {key_of(obj): obj for obj in objects}
    assert len(found) == len(objects)
    return found


# -- both ways to install ------------------------------------------------------------------------


def without_checksum(objects):
    """The objects without what only helm can say: a sum over the settings."""
    found = copy.deepcopy(by_key(objects))
    template = found["Deployment kaisched/kaisched"]["spec"]["template"]
    assert len(template["metadata"].pop("annotations").pop("checksum/config")) == 64
    return found


def test_kustomize_and_helm_make_the_same_objects():
    chart = without_checksum(templated("namespace.create=true"))
    assert chart == by_key(kustomized("overlays/default", "monitoring"))


def test_overlays_make_only_what_every_server_serves():
    """With a kind that is not served, kubectl apply ends with an error."""
    for overlay in ("overlays/default", "overlays/observe"):
        groups = {obj["apiVersion"].partition("/")[0] for obj in kustomized(overlay)}
        assert "monitoring.coreos.com" not in groups


def test_kustomize_and_helm_agree_on_observing():
    """Definitions and defaults are KAI-Scheduler's then; helm has the definitions all the same."""
    chart = templated(
        "observe=true",
        "replicas=1",
        "namespace.create=true",
        "settings.schedulerNames={kaisched,kai-scheduler}",
        *(f"defaults.{name}.create=false" for name in ("shard", "queues", "priorityClasses")),
    )
    there = [obj for obj in chart if obj["kind"] != "CustomResourceDefinition"]
    assert without_checksum(there) == by_key(kustomized("overlays/observe", "monitoring"))


@pytest.mark.parametrize(("replicas", "number"), [(1, 0), (2, 1), (3, 1)])
def test_one_replica_alone_does_not_keep_its_node_from_being_drained(replicas, number):
    assert len(of_kind(templated(f"replicas={replicas}"), "PodDisruptionBudget")) == number


def test_a_pod_gets_more_volumes_annotations_and_an_account_with_annotations():
    objects = templated(
        "extraVolumes[0].name=tls",
        "extraVolumes[0].secret.secretName=view-tls",
        "extraVolumeMounts[0].name=tls",
        "extraVolumeMounts[0].mountPath=/etc/kaisched-view",
        r"podAnnotations.prometheus\.io/scrape=\"false\"",
        r"podAnnotations.checksum/config=mine",
        r"serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn",
    )
    (deployment,) = of_kind(objects, "Deployment")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert {"name": "tls", "secret": {"secretName": "view-tls"}} in template["spec"]["volumes"]
    assert {"name": "tls", "mountPath": "/etc/kaisched-view"} in container["volumeMounts"]
    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == '"false"'
    assert len(annotations["checksum/config"]) == 64
    (account,) = [
        it for it in of_kind(objects, "ServiceAccount") if it["metadata"]["name"] == "kaisched"
    ]
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn"}


def test_every_object_can_be_switched_off():
    off = [f"{name}.create=false" for name in SWITCHES]
    off += [f"defaults.{name}.create=false" for name in ("shard", "queues", "priorityClasses")]
    kinds = {obj["kind"] for obj in templated(*off)}
    assert kinds == {"CustomResourceDefinition", "ConfigMap", "Deployment"}


@pytest.mark.parametrize(
    ("wish", "serves", "is_there"),
    [
        ("auto", ["monitoring.coreos.com/v1"], True),
        ("auto", [], False),
        ("true", [], True),
        ("false", ["monitoring.coreos.com/v1"], False),
    ],
)
def test_what_watches_is_made_where_its_kinds_are_served(wish, serves, is_there):
    settings = [f"{name}.create={wish}" for name in ("serviceMonitor", "prometheusRule")]
    kinds = {obj["kind"] for obj in templated(*settings, serves=tuple(serves))}
    assert ({"ServiceMonitor", "PrometheusRule"} <= kinds) == is_there
    assert is_there or not {"ServiceMonitor", "PrometheusRule"} & kinds


def checksum(*settings):
    (deployment,) = of_kind(templated(*settings), "Deployment")
    return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]


def test_a_change_of_the_settings_restarts_the_pods():
    assert checksum("settings.log.level=debug") != checksum() == checksum("dashboards.create=false")


def test_the_usage_history_may_have_a_volume():
    objects = templated("usageVolume.create=true", "usageVolume.size=5Gi", "replicas=1")
    (claim,) = of_kind(objects, "PersistentVolumeClaim")
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
    }
    (deployment,) = of_kind(objects, "Deployment")
    volumes = {it["name"]: it for it in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    mine = templated("usageVolume.existingClaim=mine", "replicas=1")
    assert of_kind(mine, "PersistentVolumeClaim") == []


def test_a_volume_for_one_node_is_for_one_pod():
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed; deploy/README.md says how to get it")
    words = ("helm", "template", "x", str(CHART), "--kube-version", "1.33")
    settings = ("--set", "usageVolume.create=true")
    ran = subprocess.run([*words, *settings], capture_output=True, check=False, text=True)
    assert ran.returncode != 0
    assert "set replicas=1, or keep the usage history in Prometheus" in ran.stderr


def test_every_file_that_kustomize_has_is_in_the_chart():
    all_on = templated(
        *("namespace.create=true", "queueUsePolicy.create=true", "quotaPolicy.create=true"),
        *("tenantPolicy.create=true",),
        *("rbac.readKueue=true", "rbac.allocateClaims=true"),
        *("gpuSharing.create=true", "gpuEnvironment.create=true"),
        "gpuConfigMaps.create=true",
        *("rbac.makeShareTemplates=true", "gpuClaims.create=true"),
        *("settings.view.enabled=true", "settings.view.bindAddress=0.0.0.0"),
    )
    assert by_key(all_on).keys() - {"ConfigMap kaisched/kaisched-dashboards"} == {
        *map(key_of, written()),
        "ConfigMap kaisched/kaisched",
    }


def test_each_shard_has_a_lease_that_the_scheduler_may_write():
    objects = templated("shards={default,gold}")
    leases = [it["metadata"] for it in of_kind(objects, "Lease")]
    assert [lease["name"] for lease in leases] == ["kaisched-default", "kaisched-gold"]
    (role,) = [it for it in of_kind(objects, "Role") if it["metadata"]["name"] == "kaisched-lease"]
    assert role["rules"][0]["resourceNames"] == ["kaisched-default", "kaisched-gold"]
    (fence,) = of_kind(objects, "ValidatingAdmissionPolicyBinding")
    wanted = fence["spec"]["paramRef"]["selector"]["matchLabels"]
    assert all(wanted.items() <= lease["labels"].items() for lease in leases)


def test_shards_with_a_label_have_leases_too(tmp_path):
    """Helm asks the cluster for them, a server of ours here."""
    with ApiServer() as server:
        add_kai_kinds(server)
        client = Client(Access(server.url))
        for name, labels in (("gold", {"team": "vision"}), ("other", {"team": "speech"})):
            client.call("POST", SHARDS.path, body=shard(name, labels))
        (tmp_path / "kubeconfig").write_text(kubeconfig_of(server.url), encoding="utf-8")
        objects = helm(
            *("--dry-run=server", "--kubeconfig", str(tmp_path / "kubeconfig")),
            *("--set", "shardLabels.team=vision"),
        )
    leases = [it["metadata"]["name"] for it in of_kind(objects, "Lease")]
    assert leases == ["kaisched-default", "kaisched-gold"]


def shard(name, labels):
    kinds = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
    spec = {"partitionLabelValue": name}
    return {**kinds, "metadata": {"name": name, "labels": labels}, "spec": spec}


def test_the_chart_goes_to_the_namespace_it_is_told():
    objects = templated("queueUsePolicy.create=true", namespace="elsewhere")
    places = {obj["metadata"].get("namespace") for obj in objects}
    assert places == {None, "elsewhere"}
    text = yaml.safe_dump([obj for obj in objects if obj["kind"] != "ConfigMap"])
    assert re.findall(r"namespace: (?!elsewhere)\w+", text) == []
    assert re.findall(r"serviceaccount:(?!elsewhere:)\S+", text) == []


def doctor_of(*settings):
    """The pod of `helm test`, and the template of the scheduler's."""
    objects = rendered(*(word for it in settings for word in ("--set", it)))
    (pod,) = of_kind(objects, "Pod")
    (deployment,) = of_kind(objects, "Deployment")
    return pod, deployment["spec"]["template"]


def test_helm_tests_with_the_doctor_in_the_place_of_the_scheduler():
    """Its image, account, settings and rights, but no Service and no policy finds it."""
    pod, template = doctor_of("image.tag=v9", "image.repository=there")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["metadata"]["labels"].items().isdisjoint(template["metadata"]["labels"].items())
    (doctor,), (scheduler,) = pod["spec"]["containers"], template["spec"]["containers"]
    command, *options = doctor["args"]
    assert (command, options) == ("doctor", scheduler["args"][1:])
    for key in ("image", "securityContext", "volumeMounts"):
        assert doctor[key] == scheduler[key]
    for key in ("securityContext", "serviceAccountName", "automountServiceAccountToken"):
        assert pod["spec"][key] == template["spec"][key]
    assert pod["spec"]["restartPolicy"] == "Never"


def test_the_doctor_of_helm_needs_no_volume_of_the_scheduler_and_observes_with_it():
    pod, _ = doctor_of("usageVolume.create=true", "replicas=1", "observe=true")
    assert {"name": "state", "emptyDir": {}} in pod["spec"]["volumes"]
    (doctor,) = pod["spec"]["containers"]
    assert {"name": "KAISCHED_KUBERNETES__OBSERVE", "value": "true"} in doctor["env"]


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{chart["appVersion"]}"\n' in project
    (deployment,) = of_kind(read("kustomize/base/deployment.yaml"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"kaisched:{chart['appVersion']}"


# -- what they say -------------------------------------------------------------------------------


def test_the_pod_passes_the_restricted_standard():
    (deployment,) = of_kind(read("kustomize/base/deployment.yaml"), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert all({"configMap", "emptyDir"} & volume.keys() for volume in pod["volumes"])
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
        assert all("hostPort" not in port for port in container["ports"])


def test_probes_and_ports_are_those_of_the_settings():
    settings = load_settings(DEPLOY / SETTINGS[0]).settings
    (deployment,) = of_kind(read("kustomize/base/deployment.yaml"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"metrics": settings.metrics.port, "health": settings.health.port}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness")}
    assert {probe["path"] for probe in probes.values()} == {"/livez"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    (service,) = read("kustomize/base/service.yaml")
    assert service["spec"]["ports"][0]["port"] == settings.metrics.port
    (network,) = read("kustomize/base/network-policy.yaml")
    scrapes, asked = network["spec"]["ingress"]
    assert [port["port"] for port in scrapes["ports"]] == [ports["metrics"]]
    assert [port["port"] for port in asked["ports"]] == [ports["health"]]


@pytest.mark.fault("I128")
@pytest.mark.parametrize("path", SETTINGS)
def test_metrics_are_for_those_only_whom_the_server_knows(path):
    assert load_settings(DEPLOY / path).settings.metrics.authentication == "kubernetes"
    (network,) = read("kustomize/base/network-policy.yaml")
    assert network["spec"]["ingress"][0]["from"]
    (monitor,) = read("monitoring/service-monitor.yaml")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["bearerTokenFile"].endswith("/serviceaccount/token")
    (role,) = [it for it in written() if key_of(it) == "ClusterRole /kaisched-metrics-reader"]
    assert role["rules"] == [{"nonResourceURLs": ["/metrics", "/observed"], "verbs": ["get"]}]


def test_the_chart_serves_metrics_by_https_with_a_secret():
    objects = {key_of(obj): obj for obj in templated("metricsTLS.secretName=certs")}
    pod = objects["Deployment kaisched/kaisched"]["spec"]["template"]["spec"]
    assert {"name": "tls", "secret": {"secretName": "certs"}} in pod["volumes"]
    mounts = {it["name"]: it["mountPath"] for it in pod["containers"][0]["volumeMounts"]}
    metrics = objects["ConfigMap kaisched/kaisched"]["data"]["kaisched.yaml"]["metrics"]
    assert metrics["certFile"] == f"{mounts['tls']}/tls.crt"
    assert metrics["keyFile"] == f"{mounts['tls']}/tls.key"
    assert metrics["authentication"] == "kubernetes"
    (endpoint,) = objects["ServiceMonitor kaisched/kaisched"]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": "certs", "key": "ca.crt"}}


def test_the_chart_lets_those_scrape_who_are_named():
    where = "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus"
    (network,) = of_kind(templated(where), "NetworkPolicy")
    wanted = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    assert network["spec"]["ingress"][0]["from"] == wanted


def test_the_policy_of_quotas_denies_or_warns():
    name = "kaisched-own-quota"
    for action in ("Deny", "Warn"):
        objects = templated("quotaPolicy.create=true", f"quotaPolicy.action={action}")
        bindings = of_kind(objects, "ValidatingAdmissionPolicyBinding")
        (told,) = (it["spec"] for it in bindings if it["metadata"]["name"] == name)
        assert told["validationActions"] == [action]
        (fence,) = (it["spec"] for it in bindings if it["metadata"]["name"] == "kaisched-fence")
        assert fence["validationActions"] == ["Deny"]


def test_the_policies_of_quotas_are_off_unless_they_are_asked_for():
    """What the switch makes is there with it, and nothing of it without."""
    names = {"kaisched-own-quota", "kaisched-parent-quota"}
    for switch, wanted in (("true", names), ("false", set()), ("", set())):
        objects = templated(*([f"quotaPolicy.create={switch}"] if switch else []))
        policies = of_kind(objects, "ValidatingAdmissionPolicy")
        assert {it["metadata"]["name"] for it in policies} & names == wanted


def test_the_notes_say_that_queues_are_open_to_all():
    notes = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    assert "if not .Values.queueUsePolicy.create" in notes
    assert "--set queueUsePolicy.create=true" in notes


def test_selectors_find_the_pod():
    (deployment,) = of_kind(read("kustomize/base/deployment.yaml"), "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        read("kustomize/base/service.yaml")[0]["spec"]["selector"],
        read("kustomize/base/disruption-budget.yaml")[0]["spec"]["selector"]["matchLabels"],
        read("kustomize/base/network-policy.yaml")[0]["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    (monitor,) = read("monitoring/service-monitor.yaml")
    (service,) = read("kustomize/base/service.yaml")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


@pytest.mark.parametrize("path", SETTINGS)
def test_the_settings_load(path, monkeypatch):
    settings = load_settings(DEPLOY / path).settings
    assert settings.cluster == "kubernetes"
    assert ("kai-scheduler" in settings.scheduler_names) == ("observe" in path)


def test_the_defaults_load_and_fit_their_definitions():
    text = "---\n".join(
        path.read_text(encoding="utf-8")
        for path in (KUSTOMIZE / "components" / "defaults").glob("[!k]*.yaml")
    )
    loaded = load_text(text, "defaults")
    assert loaded.problems == []
    assert {obj.name for obj in loaded.objects} >= {"default", "default-queue", "train"}
    nothing = {"quota": 0, "limit": -1, "overQuotaWeight": 1}  # as KAI-Scheduler ships them
    queues = [obj for obj in documents(text) if obj["kind"] == "Queue"]
    assert [obj["metadata"]["name"] for obj in queues] == ["default-parent-queue", "default-queue"]
    for obj in queues:
        assert obj["spec"]["resources"] == dict.fromkeys(("gpu", "cpu", "memory"), nothing)
    (shard,) = [obj for obj in loaded.objects if obj.KIND == "SchedulingShard"]
    assert build_policy(shard, "shard.yaml")[1] == []
    for obj in documents(text):
        schema = SCHEMA_OF.get((obj["apiVersion"], obj["kind"]))
        if schema is not None:
            assert [*faults(obj, schema), *unknown(obj, schema)] == []


def test_priority_classes_are_those_of_kai():
    classes = read("kustomize/components/defaults/priority-classes.yaml")
    assert {it["metadata"]["name"]: it["value"] for it in classes} == {
        "train": 50,
        "build-preemptible": 75,
        "build": 100,
        "inference": 125,
    }


def test_nothing_secret_is_written_or_mounted():
    kinds = {obj["kind"] for obj in written()}
    assert "Secret" not in kinds
    for path in [*KUSTOMIZE.rglob("*.yaml"), *CHART.glob("templates/**/*.*")]:
        assert not re.search(r"password|secretKeyRef", path.read_text(encoding="utf-8")), path


@pytest.mark.fault("A23")
def test_no_priority_at_the_server_is_claimed():
    """Whoever runs the cluster says who is served first; the scheduler waits as it is told to."""
    kinds = {obj["kind"] for obj in written()}
    assert not kinds & {"FlowSchema", "PriorityLevelConfiguration"}


# -- policies ------------------------------------------------------------------------------------


def policies():
    return of_kind(written(), "ValidatingAdmissionPolicy")


def test_every_policy_is_bound_and_fails_closed():
    bindings = {
        it["spec"]["policyName"]: it["spec"]
        for it in of_kind(written(), "ValidatingAdmissionPolicyBinding")
    }
    assert {it["metadata"]["name"] for it in policies()} == bindings.keys()
    assert all(it["spec"]["failurePolicy"] == "Fail" for it in policies())
    assert all(spec["validationActions"] == ["Deny"] for spec in bindings.values())


@pytest.mark.fault("B28")
def test_the_fence_is_about_what_the_scheduler_writes_and_about_its_lease():
    fence, binding = read("kustomize/components/fence/fence.yaml")
    rules = fence["spec"]["matchConstraints"]["resourceRules"]
    assert [(rule["operations"], rule["resources"]) for rule in rules] == [
        (["CREATE"], ["pods/binding", "pods/eviction"]),
        (["UPDATE"], ["resourceclaims/status"]),
    ]
    (lease,) = read("kustomize/components/write/lease.yaml")
    reference = binding["spec"]["paramRef"]
    assert reference["selector"]["matchLabels"].items() <= lease["metadata"]["labels"].items()
    assert reference["namespace"] == lease["metadata"]["namespace"]
    variables = {it["name"]: it["expression"] for it in fence["spec"]["variables"]}
    assert f"'{LEASE}' in variables.notes" in variables["lease"]
    assert lease["metadata"]["name"] in variables["lease"]  # of a version that says nothing
    # A server looks for the lease before it looks who asks: "Deny" would stop every scheduler.
    assert reference["parameterNotFoundAction"] == "Allow"
    (account,) = read("kustomize/base/service-account.yaml")
    meta = account["metadata"]
    (condition,) = fence["spec"]["matchConditions"]
    assert f"'system:serviceaccount:{meta['namespace']}:{meta['name']}'" in condition["expression"]


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy["metadata"]["name"])
def test_a_variable_is_made_before_it_is_used(policy):
    spec = policy["spec"]
    made = set()
    for variable in spec.get("variables", []):
        assert set(re.findall(r"variables\.(\w+)", variable["expression"])) <= made
        made.add(variable["name"])
    used = re.findall(r"variables\.(\w+)", yaml.safe_dump(spec["validations"], width=10_000))
    assert set(used) <= made


@pytest.mark.fault("H113")
def test_whoever_writes_work_is_asked_about_its_queue():
    """Whatever the label is on, and each template that controllers of Kubernetes make pods from."""
    asked = {
        f"{group}/{resource}"
        for policy in policies()
        if "queue-use" in policy["metadata"]["name"]
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    own = {"*/*", "/pods", "scheduling.run.ai/podgroups"}
    assert asked - own == {
        f"{group}/{plural}" for group, plurals in TEMPLATES.items() for plural in plurals
    }
    of_table = {
        (row.api_group, row.plural) for row in WORKLOADS if row.api_group in {"", *TEMPLATES}
    }
    assert all(plural in TEMPLATES[group] for group, plural in of_table)


TEMPLATES = {
    "": {"replicationcontrollers"},
    "apps": {"daemonsets", "deployments", "replicasets", "statefulsets"},
    "batch": {"cronjobs", "jobs"},
}
"""The kinds of Kubernetes that hold a template of pods, by group."""


@pytest.mark.fault("H113")
def test_the_label_of_a_queue_is_asked_about_on_every_kind():
    """So on those of the table of workloads, and on those that shards and plugins add."""
    (policy,) = (it for it in policies() if it["metadata"]["name"] == "kaisched-queue-use-labels")
    constraints = policy["spec"]["matchConstraints"]
    (wanted,) = constraints["objectSelector"]["matchExpressions"]
    assert wanted == {"key": labels.QUEUE, "operator": "Exists"}
    (rule,) = constraints["resourceRules"]
    assert rule == {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["*"],
    }


def test_the_doctor_knows_the_policies_of_queue_use():
    names = {it["metadata"]["name"] for it in policies()}
    assert {f"kaisched-queue-use-{it}" for it in QUEUE_USE} == {
        it for it in names if "queue-use" in it
    }


@pytest.mark.fault("H113")
def test_the_scheduler_is_told_that_queues_are_guarded():
    (shard,) = read("kustomize/components/defaults/shard.yaml")
    assert shard["spec"]["queueUsePolicy"] is False
    text = (KUSTOMIZE / "components" / "queue-use" / "kustomization.yaml").read_text(
        encoding="utf-8"
    )
    (patch,) = yaml.safe_load(text)["patches"]
    assert patch["target"] == {"kind": "SchedulingShard"}
    assert yaml.safe_load(patch["patch"]) == [
        {"op": "add", "path": "/spec/queueUsePolicy", "value": True}
    ]
    for is_on in ("true", "false"):
        (shard,) = of_kind(templated(f"queueUsePolicy.create={is_on}"), "SchedulingShard")
        assert shard["spec"]["queueUsePolicy"] is (is_on == "true")
