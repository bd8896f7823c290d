"""Kueue's objects of a live cluster: the store sees queues and labels of ours instead."""

import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.kueue import KueueTranslator
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.resources import KUEUE, watched_kinds
from kaisched.cluster.state import Kept
from kaisched.cluster.store import StateStore
from kaisched.config.loading import load_settings
from kaisched.core.refusals import Refusal
from kaisched.errors import ConfigError
from kaisched.objects.gangs import KNOWN
from kaisched.objects.load import load_text
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import PartialObject

LEAF = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  cohortName: all
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: %s}]}]
"""
TWO_FLAVORS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: a}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - {name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}
    - {name: fixed, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}
"""
FLAVOR = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec: {nodeLabels: {kind: %s}}
"""
LOCAL = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: ns}
spec: {clusterQueue: %s, stopPolicy: %s}
"""
CLASS = """
{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: high}, value: 9}
"""
QUEUE = "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: %s}, spec: {}}"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns, uid: u, labels: {%s}}
spec: {schedulerName: kaisched, containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
MAIN = "kueue.x-k8s.io/queue-name: main"


class Live:
    """A cluster that is told of changes and writes nothing."""

    def __init__(self):
        self.cluster = KubernetesCluster(
            None,
            Leadership(),
            None,
            ManualClock(),
            StateStore(),
            is_observing=True,
            kueue=KueueTranslator(["nvidia.com/gpu"]),
        )
        self.cluster.kept = Kept()

    def handle(self, text, *, is_gone=False):
        for obj in load_text(text).objects:
            self.cluster.handle(Change(obj, is_gone=is_gone))
        return self

    def queues(self):
        table = self.cluster.snapshot().queues
        quota = dict(zip(table.name, table.deserved[0].tolist(), strict=True))
        parent = {
            name: table.name[above] if above >= 0 else ""
            for name, above in zip(table.name, table.tree.parent_of_queue.tolist(), strict=True)
        }
        return {name: (parent[name], quota[name]) for name in table.name}

    def flavors(self):
        """Labels of the nodes of each flavor of queue a."""
        table = self.cluster.snapshot().queues
        sharing = table.sharing[table.name.index("a")]
        return {it.name: dict(it.labels) for it in sharing.flavors}

    def job(self):
        """Queue, priority and whether it may be evicted, of the one job."""
        jobs = self.cluster.snapshot().jobs
        (name,) = self.cluster.store.rows.jobs.row_of_name
        row = self.cluster.store.rows.row_of_job(name)
        return jobs.queue_name[row], int(jobs.priority[row]), bool(jobs.is_preemptible[row])


def test_the_tree_follows_its_objects():
    live = Live().handle(LEAF % ("a", 4)).handle(LEAF % ("b", 2))
    gpu = live.cluster.snapshot().axis.names.index("gpu")
    assert gpu >= 0
    assert {name: parent for name, (parent, _) in live.queues().items()} == {
        "all": "",
        "a": "all",
        "b": "all",
    }
    table = live.cluster.snapshot().queues
    assert table.deserved[gpu].tolist() == [0, 4000, 2000]
    live.handle(LEAF % ("a", 5)).handle(LEAF % ("b", 2), is_gone=True)
    table = live.cluster.snapshot().queues
    assert (table.name, table.deserved[gpu].tolist()) == (("all", "a"), [0, 5000])
    live.handle(LEAF % ("a", 5), is_gone=True)
    assert live.queues() == {}


def test_all_flavors_count_while_their_objects_are_known():
    live = Live().handle(TWO_FLAVORS)
    assert live.flavors() == {}
    live.handle(FLAVOR % ("spot", "s")).handle(FLAVOR % ("fixed", "f"))
    assert live.flavors() == {"spot": {"kind": "s"}, "fixed": {"kind": "f"}}
    live.handle(FLAVOR % ("spot", "s2"))
    assert live.flavors() == {"spot": {"kind": "s2"}, "fixed": {"kind": "f"}}
    for name in ("spot", "fixed"):
        live.handle(FLAVOR % (name, "x"), is_gone=True)
    assert live.flavors() == {}


def test_a_queue_of_ours_takes_the_name_and_gives_it_back():
    live = Live().handle(LEAF % ("a", 4)).handle(QUEUE % "a")
    assert {name: parent for name, (parent, _) in live.queues().items()} == {"a": ""}
    live.handle(QUEUE % "a", is_gone=True)
    assert {name: parent for name, (parent, _) in live.queues().items()} == {"all": "", "a": "all"}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_pod_is_in_the_cluster_queue_of_its_local_queue_whoever_comes_first(is_late):
    labels = f"{MAIN}, kueue.x-k8s.io/priority-class: high"
    texts = [LEAF % ("a", 4), LOCAL % ("a", "None"), CLASS, POD % labels]
    live = Live()
    for text in reversed(texts) if is_late else texts:
        live.handle(text)
        live.cluster.snapshot()
    assert live.job() == ("a", 9, True)
    live.handle(LEAF % ("b", 1)).handle(LOCAL % ("b", "None"))
    assert live.job() == ("b", 9, True)


def test_the_label_of_the_owner_counts():
    meta = ObjectMeta(
        name="j", namespace="ns", uid="ju", labels={"kueue.x-k8s.io/queue-name": "main"}
    )
    live = Live().handle(LEAF % ("a", 4)).handle(LOCAL % ("a", "None"))
    live.cluster.handle(Change(PartialObject(metadata=meta, api_version="batch/v1", kind="Job")))
    owner = "{apiVersion: batch/v1, kind: Job, name: j, uid: ju, controller: true}"
    live.handle((POD % "x: y").replace("uid: u,", f"uid: u, ownerReferences: [{owner}],"))
    assert live.job()[0] == "a"


def test_a_held_local_queue_holds_the_pods_that_name_it():
    live = Live().handle(LEAF % ("a", 4)).handle(LOCAL % ("a", "Hold")).handle(POD % MAIN)
    assert live.job()[0] == "ns/main"
    snapshot = live.cluster.snapshot()
    assert snapshot.jobs.refusal.tolist() == [Refusal.QUEUE_ON_HOLD]


def test_local_queues_that_are_served_by_usage_are_queues_and_follow_their_cluster_queue():
    by_usage = "  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}\n"
    live = Live().handle(LEAF % ("a", 4)).handle(LOCAL % ("a", "Hold")).handle(POD % MAIN)
    assert live.queues()["ns/main"][0] == ""
    live.handle(LEAF % ("a", 4) + by_usage)
    assert {name: above for name, (above, _) in live.queues().items()} == {
        "all": "",
        "a": "all",
        "ns/main": "a",
    }
    assert live.job()[0] == "ns/main"
    assert live.cluster.snapshot().jobs.refusal.tolist() == [Refusal.QUEUE_ON_HOLD]
    live.handle(LOCAL % ("a", "None"))
    assert live.cluster.snapshot().jobs.refusal.tolist() == [0]
    live.handle(LEAF % ("a", 4))
    assert live.job()[0] == "a"
    assert "ns/main" not in live.queues()


def test_what_is_recorded_is_ours():
    live = Live().handle(LEAF % ("a", 4)).handle(LOCAL % ("a", "None")).handle(POD % MAIN)
    live.cluster.snapshot()
    text = b"".join(live.cluster.state().objects)
    assert b'"kind":"ClusterQueue"' not in text
    assert b'"kai.scheduler/queue":"a"' in text


def test_kueue_is_watched_only_if_the_settings_say_so():
    assert not set(KUEUE) & set(watched_kinds([KNOWN], None))
    assert set(KUEUE) <= set(watched_kinds([KNOWN], None, has_kueue=True))
    versions = {it.kind: [it.api_version.rpartition("/")[2] for it in it.others] for it in KUEUE}
    assert versions["Cohort"] == ["v1beta1", "v1alpha1"]
    assert versions["ResourceFlavor"] == ["v1beta1"]


def test_kueue_is_read_to_observe_only():
    with pytest.raises(ConfigError, match="kueue needs observe"):
        load_settings(None, {"KAISCHED_KUBERNETES__KUEUE": "true"})


def test_what_has_no_meaning_is_logged_once(capsys):
    live = Live().handle(LEAF % ("a", 4) + "  queueingStrategy: StrictFIFO\n")
    live.cluster.snapshot()
    assert capsys.readouterr().out.count("spec.queueingStrategy: has no meaning here") == 1
    live.handle(LEAF % ("b", 4)).cluster.snapshot()
    assert "queueingStrategy" not in capsys.readouterr().out
