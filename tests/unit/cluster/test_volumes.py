"""Claims of storage: which nodes a pod may go to for them, and what it waits for."""

import numpy as np
import pytest

from kaisched.cluster.state import Kept, restored
from kaisched.cluster.store import StateStore, update
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.engine.planning import PlanInput, plan
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.objects.load import load_text
from kaisched.objects.shard import SchedulingShard, ShardSpec
from kaisched.objects.wire import ObjectMeta
from tests.cycling import objects_of

NODES = "".join(
    f"""
apiVersion: v1
kind: Node
metadata: {{name: n{at}, labels: {{zone: {zone}, kubernetes.io/hostname: n{at}}}}}
status: {{allocatable: {{cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}}}}
---"""
    for at, zone in enumerate("aab")
)
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: q}
spec: {}
---
"""


def pod(name="p", volume="persistentVolumeClaim: {claimName: data}", node="", **more):
    meta = "".join(f", {key}: {value}" for key, value in more.items())
    return f"""
apiVersion: v1
kind: Pod
metadata:
  {{name: {name}, namespace: team, uid: u-{name}, labels: {{kai.scheduler/queue: q}}{meta}}}
spec:
  schedulerName: kaisched
  nodeName: "{node}"
  volumes: [{{name: v, {volume}}}, {{name: other, emptyDir: {{}}}}]
  containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]
status: {{phase: {"Running" if node else "Pending"}}}
---
"""


def claim(name="data", *, volume="", of_class="slow", mode="ReadWriteOnce", phase="", meta=""):
    """A claim; one with a volume is bound."""
    done = 'annotations: {pv.kubernetes.io/bind-completed: "yes"}' if volume else ""
    return f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: team, {meta or done}}}
spec: {{volumeName: "{volume}", storageClassName: "{of_class}", accessModes: [{mode}]}}
status: {{phase: "{phase}"}}
---
"""


def volume(name="pv", zone="b"):
    wanted = f"{{key: zone, operator: In, values: [{zone}]}}"
    return f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{wanted}]}}]}}}}
---
"""


def storage_class(name="slow", mode="WaitForFirstConsumer", provisioner="x.io/disk", zone=""):
    wanted = f"[{{matchLabelExpressions: [{{key: zone, values: [{zone}]}}]}}]" if zone else "[]"
    return f"""
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}}}
provisioner: {provisioner}
volumeBindingMode: {mode}
allowedTopologies: {wanted}
---
"""


def store_of(*texts, is_read=True):
    store = StateStore()
    store.set_volumes_read(is_read=is_read)
    update_all(store, NODES, QUEUE, *texts)
    return store


def update_all(store, *texts):
    for obj in objects_of(*texts):
        update(store, obj)


def drop(store, *texts):
    for obj in objects_of(*texts):
        update(store, obj, is_gone=True)


def cycle(store):
    return run_cycle(store.snapshot(), None, default_policy(), 1e9, Memory())[0]


def nodes_for(store, name="p"):
    """The nodes that a pending pod may go to, by the filters of a cycle."""
    snapshot = store.snapshot()
    policy = default_policy()
    session = Session(snapshot, None, policy, 0.0, Memory(), policy.questions)
    policy.questions.open(session)
    task = store.rows.row_of_task(f"team/{name}")
    codes = session.ask.node_filter(session, int(snapshot.tasks.shape_of_task[task]), np.arange(3))
    return [at for at in range(3) if codes is None or not codes[at]]


def told(store, name="p"):
    """(reason, message) of the job that waits."""
    (record,) = [it for it in cycle(store).records if f"pg-{name}-" in it.pod_group]
    return record.reason, record.message


def reason(code):
    return TEXTS[code].name


def test_pods_without_claims_demand_nothing():
    store = store_of(pod(volume="hostPath: {path: /x}"))
    (constraints,) = store.snapshot().shapes.constraints
    assert (constraints.volume_terms, constraints.wait) == ((), None)
    assert nodes_for(store) == [0, 1, 2]


def test_a_pod_goes_where_its_bound_volume_is():
    store = store_of(claim(volume="pv"), volume(), pod())
    assert nodes_for(store) == [2]
    assert [it.node for it in cycle(store).binds] == ["n2"]


def test_a_pod_with_two_volumes_goes_where_both_are():
    second = "{name: w, persistentVolumeClaim: {claimName: d2}"
    two = f"persistentVolumeClaim: {{claimName: data}}}}, {second}"
    store = store_of(
        claim(volume="pv"),
        volume(zone="a, b"),
        claim("d2", volume="pv2"),
        volume("pv2", "a"),
        pod(volume=two),
    )
    assert nodes_for(store) == [0, 1]
    update_all(store, volume("pv2", "c"))
    assert nodes_for(store) == []
    assert "3 a volume cannot be used there" in told(store)[1]


WAITS = {
    "missing": ((), Refusal.VOLUME_CLAIM, "claim data does not exist"),
    "leaving": (
        (claim(meta='deletionTimestamp: "2026-07-01T12:00:00Z"'),),
        Refusal.VOLUME_CLAIM,
        "claim data is being deleted",
    ),
    "lost": ((claim(phase="Lost"),), Refusal.VOLUME_CLAIM, "claim data has lost its volume"),
    "no volume": (
        (claim(volume="pv"),),
        Refusal.VOLUME_CLAIM,
        "volume pv of claim data does not exist",
    ),
    "no class": (
        (claim(),),
        Refusal.VOLUME_UNBOUND,
        "claim data is not bound, and its class slow does not exist",
    ),
    "immediate": (
        (claim(), storage_class(mode="Immediate")),
        Refusal.VOLUME_UNBOUND,
        "claim data is not bound yet",
    ),
    "by hand": (
        (claim(), storage_class(provisioner="kubernetes.io/no-provisioner")),
        Refusal.VOLUME_UNBOUND,
        "claim data is not bound, its class slow makes no volumes, and none that fits is free",
    ),
}


@pytest.mark.fault("D74")
@pytest.mark.parametrize("case", WAITS)
def test_a_pod_waits_for_its_claim_and_says_why(case):
    texts, code, message = WAITS[case]
    store = store_of(*texts, pod())
    assert told(store) == (reason(code), message)
    assert cycle(store).binds == ()


def test_nobody_is_evicted_for_a_pod_that_waits_for_its_claim():
    jobs = [pod(f"r{at}", volume="emptyDir: {}", node=f"n{at // 8}") for at in range(24)]
    result = cycle(store_of(*jobs, pod()))
    assert (result.evictions, result.nominations) == ((), ())


def test_events_may_come_in_any_order():
    store = store_of(pod())
    update_all(store, claim(volume="pv"))
    assert told(store)[0] == reason(Refusal.VOLUME_CLAIM)
    update_all(store, volume())
    assert nodes_for(store) == [2]
    update_all(store, volume(zone="a"))
    assert nodes_for(store) == [0, 1]
    drop(store, volume())
    assert nodes_for(store) == []
    drop(store, claim())
    assert told(store)[1] == "claim data does not exist"


def test_a_claim_that_waits_for_its_pod_goes_by_its_class():
    store = store_of(claim(), storage_class(), pod())
    assert nodes_for(store) == [0, 1, 2]
    assert store.volumes.to_select(store.pods.pod("team/p")) == ["team/data"]
    update_all(store, storage_class(zone="a"))
    assert nodes_for(store) == [0, 1]


def test_a_claim_whose_node_is_named_stays_there():
    named = claim(meta="annotations: {volume.kubernetes.io/selected-node: n1}")
    assert nodes_for(store_of(named, storage_class(), pod())) == [1]


def test_a_claim_that_is_bound_has_nothing_to_be_named():
    store = store_of(claim(volume="pv"), volume(), storage_class(), pod())
    assert store.volumes.to_select(store.pods.pod("team/p")) == []
    assert store.volumes.to_select(store.pods.pod("team/unknown")) == []


def test_an_ephemeral_volume_has_a_claim_of_the_pod_and_its_own():
    store = store_of(pod(volume="ephemeral: {}"), storage_class())
    assert told(store)[1] == "claim p-v does not exist"
    update_all(store, claim("p-v"))
    assert "not the pod's own" in told(store)[1]
    update_all(store, claim("p-v", meta="ownerReferences: [{uid: u-p, kind: Pod, name: p}]"))
    assert nodes_for(store) == [0, 1, 2]


# -- volumes that are there ------------------------------------------------------------------------

BY_HAND = storage_class(provisioner="kubernetes.io/no-provisioner")


def disk(name, node="n2", size="1Gi", *, of_class="slow", meta="", spec="", phase="Available"):
    """A volume on a node, that was made by hand."""
    on = f"{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}"
    where = f"{{nodeSelectorTerms: [{{matchExpressions: [{on}]}}]}}"
    return f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}, {meta}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: "{of_class}"
  capacity: {{storage: {size}}}
  nodeAffinity: {{required: {where}}}
  {spec}
status: {{phase: {phase}}}
---
"""


def sized(name="data", size="1Gi", *, spec="", meta="", of_class="slow"):
    """A claim of so much that is not bound."""
    return f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: team, uid: u-{name}, {meta}}}
spec:
  storageClassName: "{of_class}"
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: {size}}}}}
  {spec}
---
"""


def using(name, *claims, **more):
    """A pod with claims."""
    first, *rest = (f"persistentVolumeClaim: {{claimName: {it}}}" for it in claims)
    others = "".join(f"}}, {{name: w{at}, {it}" for at, it in enumerate(rest))
    return pod(name, volume=first + others, **more)


def placed(store):
    return {it.pod.removeprefix("team/"): it.node for it in cycle(store).binds}


UNFIT = {
    "another class": disk("d", of_class="fast"),
    "too small": disk("d", size="1023Mi"),
    "not free": disk("d", phase="Released"),
    "leaving": disk("d", meta='deletionTimestamp: "2026-07-01T12:00:00Z"'),
    "of another claim": disk("d", spec="claimRef: {namespace: team, name: other}"),
    "of a claim that was": disk("d", spec="claimRef: {namespace: team, name: data, uid: old}"),
    "another mode": disk("d", spec="volumeMode: Block"),
    "another access": disk("d").replace("ReadWriteOnce", "ReadOnlyMany"),
    "other attributes": disk("d", spec="volumeAttributesClassName: gold"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_volume_that_does_not_fit_is_none(case):
    store = store_of(sized(), BY_HAND, UNFIT[case], pod())
    assert told(store)[0] == reason(Refusal.VOLUME_UNBOUND)


def test_a_pod_goes_where_a_volume_that_fits_its_claim_is_free():
    store = store_of(sized(), BY_HAND, pod())
    assert told(store)[0] == reason(Refusal.VOLUME_UNBOUND)
    update_all(store, disk("d", "n1"), disk("e", "n2", "2Gi"), disk("small", "n0", "1Mi"))
    assert nodes_for(store) == [1, 2]
    update_all(store, disk("d", "n1", phase="Bound"))
    assert nodes_for(store) == [2]
    drop(store, disk("e"))
    assert nodes_for(store) == []


def test_labels_of_volumes_are_selected():
    wanted = "selector: {matchLabels: {tier: a}}"
    store = store_of(
        sized(spec=wanted), BY_HAND, disk("d", "n0"), disk("e", meta="labels: {tier: a}"), pod()
    )
    assert nodes_for(store) == [2]


def test_a_volume_that_names_its_claim_is_the_one():
    mine = disk("mine", "n1", "9Gi", spec="claimRef: {namespace: team, name: data}")
    assert nodes_for(store_of(sized(), BY_HAND, mine, disk("d"), pod())) == [1]


def test_where_no_volume_is_one_may_be_made():
    assert nodes_for(store_of(sized(), storage_class(zone="a"), disk("d", "n2"), pod())) == [
        0,
        1,
        2,
    ]


def test_one_volume_serves_one_claim_in_a_cycle():
    store = store_of(
        sized("a"), sized("b"), sized("c"), BY_HAND, disk("d", "n1"), disk("e", "n2"),
        *(using(f"p{it}", it) for it in "abc"),
    )  # fmt: skip
    assert sorted(placed(store).values()) == ["n1", "n2"]


def test_a_pod_with_two_claims_needs_two_volumes_on_one_node():
    texts = sized("a"), sized("b", "2Gi"), BY_HAND, using("p", "a", "b")
    assert placed(store_of(*texts, disk("d", "n1", "2Gi"), disk("e", "n2", "2Gi"))) == {}
    assert placed(store_of(*texts, disk("d", "n2"), disk("e", "n2", "1Gi"))) == {}
    assert placed(store_of(*texts, disk("d", "n2", "2Gi"), disk("e", "n2", "3Gi"))) == {"p": "n2"}


def test_pods_that_use_one_claim_go_where_its_volume_is():
    store = store_of(
        sized("a"), BY_HAND, disk("d", "n1"), disk("e", "n2"), using("p", "a"), using("q", "a")
    )
    found = placed(store)
    assert len(found) == 2
    assert len(set(found.values())) == 1


def test_a_volume_is_taken_from_the_bind_on_until_it_is_taken_back():
    store = store_of(sized("a"), sized("b"), BY_HAND, disk("d"), using("p", "a"), using("q", "b"))
    assert placed(store) == {"p": "n2"}
    (given,) = store.give_volumes("team/p", "n2")
    assert (given.claim.name, given.volume.name) == ("a", "d")
    store.assume_bound("team/p", "n2")
    assert told(store, "q")[0] == reason(Refusal.VOLUME_UNBOUND)
    store.refute_bind("team/p")
    assert placed(store) == {"p": "n2"}


def test_the_smallest_volume_that_fits_is_taken():
    store = store_of(
        sized("a"), sized("b", "3Gi"), BY_HAND,
        disk("d", size="5Gi"), disk("e", size="2Gi"), disk("f", size="4Gi"),
        using("p", "b", "a"),
    )  # fmt: skip
    store.snapshot()
    given = store.give_volumes("team/p", "n2")
    assert [(it.claim.name, it.volume.name) for it in given] == [("a", "e"), ("b", "f")]


def test_what_a_claim_got_is_taken_in_the_next_round_of_a_plan():
    texts = sized("a"), sized("b"), BY_HAND, disk("d"), using("p", "a"), using("q", "b")
    loaded = load_text("".join((NODES, QUEUE, *texts)))
    cycles = plan(
        PlanInput(
            loaded,
            SchedulingShard(metadata=ObjectMeta(name="s"), spec=ShardSpec()),
            default_policy(),
            [],
        ),
        rounds=2,
    ).cycles
    assert [[it.pod for it in result.binds] for result in cycles] == [["team/p"], []]


# -- zones of volumes ------------------------------------------------------------------------------


def zoned(key, value):
    """A bound volume with a label that says where it is."""
    return f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: pv, labels: {{{key}: {value}}}}}
spec: {{}}
---
"""


def in_zone(key, *values):
    """Nodes with a value of a label each; an empty one has none."""
    return "".join(
        f"""
apiVersion: v1
kind: Node
metadata: {{name: n{at}, labels: {{{f"{key}: {value}" if value else ""}}}}}
status: {{allocatable: {{cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}}}}
---"""
        for at, value in enumerate(values)
    )


ZONES = {
    "zone": ("topology.kubernetes.io/zone", "b", "topology.kubernetes.io/zone", [1]),
    "zones": ("topology.kubernetes.io/zone", "b__c", "topology.kubernetes.io/zone", [1, 2]),
    "a list with a hole": (
        "topology.kubernetes.io/zone", "b__", "topology.kubernetes.io/zone", [0, 1, 2],
    ),
    "region": ("topology.kubernetes.io/region", "c", "topology.kubernetes.io/region", [2]),
    "another level": ("topology.kubernetes.io/region", "c", "topology.kubernetes.io/zone", []),
    "older": (
        "failure-domain.beta.kubernetes.io/zone", "a",
        "failure-domain.beta.kubernetes.io/zone", [0],
    ),
    "older volume": (
        "failure-domain.beta.kubernetes.io/region", "a", "topology.kubernetes.io/region", [0],
    ),
    "older nodes": (
        "topology.kubernetes.io/zone", "a", "failure-domain.beta.kubernetes.io/zone", [],
    ),
    "nodes without any": ("topology.kubernetes.io/zone", "a", "other", [0, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("case", ZONES)
def test_a_volume_with_a_zone_keeps_its_pod_there(case):
    label, value, key, expected = ZONES[case]
    store = StateStore()
    store.set_volumes_read(is_read=True)
    update_all(store, in_zone(key, *"abc"), QUEUE, claim(volume="pv"), zoned(label, value), pod())
    assert nodes_for(store) == expected


# -- claims for one pod ----------------------------------------------------------------------------

ALONE = (claim(volume="pv", mode="ReadWriteOncePod"), volume(zone="a, b"))


def test_a_claim_for_one_pod_keeps_others_waiting_until_its_pod_is_gone():
    store = store_of(*ALONE, pod("a", node="n0"), pod("p"))
    assert told(store) == (
        reason(Refusal.VOLUME_IN_USE),
        "claim data is for one pod, and pod a comes first",
    )
    store.remove_pod("team/a")
    assert nodes_for(store) == [0, 1, 2]


def test_of_two_that_wait_for_it_the_elder_goes_and_then_the_other():
    made = {"creationTimestamp": '"2026-07-02T12:00:00Z"'}
    store = store_of(*ALONE, pod("p", **made), pod("z"))
    assert [it.pod for it in cycle(store).binds] == ["team/z"]
    assert "pod z comes first" in told(store)[1]
    update_all(store, pod("z", node="n0"))
    assert "pod z comes first" in told(store)[1]
    update_all(store, pod("z", node="n0").replace("phase: Running", "phase: Succeeded"))
    assert [it.pod for it in cycle(store).binds] == ["team/p"]


# -- what is not read, and what stays --------------------------------------------------------------


def test_where_claims_cannot_be_read_nobody_waits_for_them():
    store = store_of(pod(), is_read=False)
    assert [it.pod for it in cycle(store).binds] == ["team/p"]
    store.set_volumes_read(is_read=True)
    assert cycle(store).binds == ()
    store.set_volumes_read(is_read=False)
    assert [it.pod for it in cycle(store).binds] == ["team/p"]


def test_a_bind_that_is_assumed_stays_assumed_while_its_claim_gets_its_volume():
    store = store_of(claim(), storage_class(), pod())
    store.assume_bound("team/p", "n0")
    update_all(store, claim(meta="annotations: {volume.kubernetes.io/selected-node: n0}"))
    update_all(store, claim(volume="pv"), volume(zone="a"))
    assert "team/p" in store.facts.sent
    assert cycle(store).binds == ()
    store.refute("team/p")
    update_all(store, pod())
    assert nodes_for(store) == [0, 1]


def test_a_bind_that_failed_for_a_volume_is_held_back_and_stays_on_its_node():
    """The claim still names the node: a volume may be in the making there."""
    store = store_of(claim(), storage_class(), pod())
    store.assume_bound("team/p", "n1")
    update_all(store, claim(meta="annotations: {volume.kubernetes.io/selected-node: n1}"))
    store.hold_back("team/p", 100.0)
    assert cycle(store).binds == ()
    store.let_go(100.5)
    assert cycle(store).binds == ()
    store.let_go(101.0)
    assert [it.node for it in cycle(store).binds] == ["n1"]
    store.assume_bound("team/p", "n1")
    store.hold_back("team/p", 200.0)
    store.let_go(201.0)  # twice as long the second time
    assert cycle(store).binds == ()


def test_a_pod_that_runs_could_only_move_where_its_volume_is():
    store = store_of(claim(volume="pv"), volume(zone="a"), pod(node="n0"))
    assert nodes_for(store) == [0, 1]
    drop(store, claim())
    assert nodes_for(store) == [0, 1, 2]


def test_what_is_written_down_makes_the_same_store():
    store, kept = store_of(), Kept()
    for obj in objects_of(
        NODES, QUEUE, claim(volume="pv"), volume(), pod("p"), pod("z", "ephemeral: {}")
    ):
        update(store, obj)
        kept.put(obj)
    state = kept.state_of(store)
    again = restored(
        load_text(b"\n".join(state.objects), "kept.json").objects, state, ["kaisched"], "", ["gpu"]
    )
    assert nodes_for(again) == nodes_for(store) == [2]
    assert told(again, "z") == told(store, "z")


def planned(*texts):
    shard = SchedulingShard(metadata=ObjectMeta(name="s"), spec=ShardSpec())
    loaded = load_text("".join((NODES, QUEUE, *texts)))
    (result, *_) = plan(PlanInput(loaded, shard, default_policy(), [])).cycles
    return [it.node for it in result.binds]


def test_a_plan_heeds_claims_if_any_object_of_storage_is_among_its_files():
    assert planned(pod()) != []
    assert planned(pod(), storage_class()) == []
    assert planned(pod(), claim(volume="pv"), volume()) == ["n2"]


def test_a_claim_of_two_volumes_of_a_pod_is_one():
    twice = pod().replace("emptyDir: {}", "persistentVolumeClaim: {claimName: data}")
    store = store_of(*ALONE, twice, pod("q"))
    assert "pod p comes first" in told(store, "q")[1]
    drop(store, twice)
    assert [it.pod for it in cycle(store).binds] == ["team/q"]


def test_a_pod_in_the_place_of_another_has_none_of_its_claims():
    store = store_of(*ALONE, pod("a", node="n0"), pod("p"))
    assert "pod a comes first" in told(store)[1]
    other = pod("a", volume="emptyDir: {}", node="n0").replace("uid: u-a", "uid: u-b")
    update_all(store, other)
    assert nodes_for(store) == [0, 1, 2]


def test_the_end_of_a_pod_is_not_that_of_another_of_its_name():
    store = store_of(*ALONE, pod("a", node="n0").replace("uid: u-a", "uid: u-b"), pod("p"))
    drop(store, pod("a", node="n0"))
    assert "pod a comes first" in told(store)[1]
