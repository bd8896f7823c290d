"""What a pod asks of others and of its node is honored: rules of Kubernetes, in small clusters."""

import json

import pytest

from kaisched.engine.planning import plan, read_plan_input
from tests.reference import making as m
from tests.small_clusters.deciding import decided

OTHERS = {"schedulerName": "default-scheduler"}


# -- resize in place -------------------------------------------------------------------------------


def cpus(name, asked, *, has=None, reason="", **more):
    main = {"resources": {"requests": {"cpu": asked}}}
    made = m.pod(name, gpus=0, main=main, **more)
    if has is not None:
        amounts = {"allocatedResources": {"cpu": has}, "resources": {"requests": {"cpu": has}}}
        made["status"]["containerStatuses"] = [{"name": "main", **amounts}]
    if reason:
        pending = {"type": "PodResizePending", "status": "True", "reason": reason}
        made["status"]["conditions"] = [pending]
    return made


@pytest.mark.parametrize("whose", [{}, OTHERS], ids=["ours", "others"])
@pytest.mark.parametrize(
    ("asked", "has", "reason", "fits"),
    [
        ("61", "63", "", False),  # made smaller, and has not given back yet
        ("63", "61", "Deferred", False),  # made larger, and waits for its room: as kube-scheduler
        ("63", "61", "Infeasible", True),
        ("100", "61", "Infeasible", True),
        ("61", "61", "", True),
    ],
)
def test_a_node_has_room_beside_what_a_resized_pod_may_hold(
    tmp_path, asked, has, reason, fits, whose
):
    # 64 CPUs; 2 are asked for.
    resized = cpus("r", asked, has=has, reason=reason, at="node-1", **whose)
    found = decided(tmp_path, m.node(), m.queue(), resized, cpus("b", "2"))
    assert found[0] == ({"team/b": "node-1"} if fits else {})
    assert not found[2]


@pytest.mark.parametrize(("asked", "has", "binds"), [("1", "3", 0), ("3", "1", 0), ("1", "2", 1)])
def test_a_queue_is_charged_what_a_resized_pod_may_hold(tmp_path, asked, has, binds):
    # The limit is 4 CPUs; 2 are asked for.
    queue = m.queue()
    queue["spec"]["resources"] = {"cpu": {"limit": 4000}}
    resized = cpus("r", asked, has=has, at="node-1")
    found = decided(tmp_path, m.node(), queue, resized, cpus("b", "2"))
    assert (len(found[0]), found[2]) == (binds, set())


# -- preemptionPolicy: Never -----------------------------------------------------------------------

NEVER = {"preemptionPolicy": "Never"}
PREEMPTS = {
    "preemptionPolicy": "PreemptLowerPriority"
}  # API servers write it where nothing is said


def of_class(name):
    return {"labels": {"priorityClassName": name}}


CLASSES = (m.priority_class("low", 10), m.priority_class("high", 60, **NEVER))


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("asks", "evicts"),
    [
        ({"priorityClassName": "high"}, False),
        ({"priorityClassName": "high", "priority": 60, **NEVER}, False),  # as a server has it
        (NEVER, False),
        ({"labels": {"priorityClassName": "high"}, **PREEMPTS}, False),  # the class of the job
        ({"priorityClassName": "inference"}, True),
        (PREEMPTS, True),
        ({}, True),
    ],
)
@pytest.mark.parametrize("queue", ["vision", "speech"], ids=["preempt", "reclaim"])
def test_nothing_is_evicted_for_a_pod_that_never_preempts(tmp_path, asks, evicts, queue):
    bound, promised, evicted, reasons = decided(
        tmp_path,
        *CLASSES,
        m.node(),
        m.queue(quota=8),
        m.queue("speech", quota=0),
        m.pod("other", gpus=8, queue=queue, at="node-1", priorityClassName="low"),
        m.pod(gpus=8, **asks),
        rounds=2,
    )
    if evicts:
        assert evicted == {"team/other"}
    else:
        assert (bound, promised, evicted) == ({}, {}, set())
        assert set(reasons.values()) <= {"NoRoom", "NotTried"}


@pytest.mark.proportion
@pytest.mark.parametrize("asks", [{}, NEVER], ids=["moves", "never"])
def test_nothing_is_moved_for_a_pod_that_never_preempts(tmp_path, asks):
    # 5 of 8 GPUs are used on each of two nodes, and the 3 on the second fit on the first.
    found = decided(
        tmp_path,
        m.node(),
        m.node("node-2"),
        m.queue(quota=16),
        m.pod("a", gpus=5, at="node-1"),
        m.pod("b", gpus=3, at="node-2"),
        m.pod(gpus=6, **asks),
    )
    assert found[2] == (set() if asks else {"team/b"})


@pytest.mark.proportion
@pytest.mark.parametrize("at", [0, 1])
def test_one_pod_of_a_gang_that_never_preempts_is_enough(tmp_path, at):
    pods = [
        m.in_group(f"g{number}", gpus=4, **(NEVER if number == at else {})) for number in (0, 1)
    ]
    others = m.queue("speech", quota=0), m.pod("other", gpus=8, queue="speech", at="node-1")
    found = decided(tmp_path, m.node(), m.queue(quota=8), *others, m.group(minMember=2), *pods)
    assert found[2] == set()


@pytest.mark.proportion
def test_the_class_may_come_after_its_pods_and_a_default_class_counts_for_who_names_none(tmp_path):
    others = m.queue("speech", quota=0), m.pod("other", gpus=8, queue="speech", at="node-1")
    cluster = (m.node(), m.queue(quota=8), *others, m.pod(gpus=8))
    default = m.priority_class("calm", 50, globalDefault=True, **NEVER)
    assert decided(tmp_path, *cluster, default)[2] == set()


def test_who_never_preempts_still_goes_before_those_of_lower_priority(tmp_path):
    found = decided(
        tmp_path,
        *CLASSES,
        m.node(),
        m.queue(),
        m.pod("a", gpus=8, priorityClassName="low"),
        m.pod("b", gpus=8, priorityClassName="high"),
    )
    assert found[0] == {"team/b": "node-1"}


# -- anti-affinity with pods that are leaving ------------------------------------------------------

LEAVES = {"meta": {"deletionTimestamp": "2099-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}}


@pytest.mark.parametrize("whose", [{}, OTHERS], ids=["ours", "others"])
@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "zone"])
@pytest.mark.parametrize("who", ["comes", "leaves"])
def test_a_pod_keeps_away_from_one_that_is_leaving(tmp_path, whose, key, who):
    # Three nodes in two zones: the leaving pod is on the first, of the zone of the second.
    nodes = [
        m.node(f"node-{at}", labels={"kubernetes.io/hostname": f"node-{at}", "zone": zone})
        for at, zone in ((1, "a"), (2, "a"), (3, "b"))
    ]
    asks = {"affinity": m.apart_from("x", key)}
    asked = {
        one: (asks if one == who else {}) | {"labels": {"app": "x"}} for one in ("comes", "leaves")
    }
    gone = m.pod("gone", at="node-1", **asked["leaves"], **LEAVES, **whose)
    full = m.pod("full", gpus=8, at="node-3")
    bound, promised, evicted, _ = decided(
        tmp_path, *nodes, m.queue(), gone, full, m.pod("p", **asked["comes"])
    )
    if key == "zone":  # both nodes with room are in its domain
        assert (bound, set(promised), evicted) == ({}, {"team/p"}, set())
    else:
        assert bound == {"team/p": "node-2"}


# -- what pods prefer ------------------------------------------------------------------------------


def zones(*names, **more):
    """Nodes of 8 GPUs, one in each of these zones; by their numbers the lower is taken first."""
    return [
        m.node(f"node-{at}", labels={"kubernetes.io/hostname": f"node-{at}", "zone": zone}, **more)
        for at, zone in enumerate(names)
    ]


def anyway(key="zone", **more):
    selector = {"labelSelector": {"matchLabels": {"app": "x"}}}
    asked = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [{**asked, **selector, **more}]}


def prefers(kind, key="zone", weight=1, **more):
    selector = {"labelSelector": {"matchLabels": {"app": "x"}}}
    term = {"weight": weight, "podAffinityTerm": {"topologyKey": key, **selector, **more}}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near_to(app, key):
    """A pod that must be where pods of an app are."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


X = {"labels": {"app": "x"}}


@pytest.mark.parametrize(
    "asks",
    [
        anyway(),
        anyway("kubernetes.io/hostname"),
        prefers("podAntiAffinity"),
        prefers("podAntiAffinity", "kubernetes.io/hostname", 100),
    ],
    ids=["spread-zones", "spread-hosts", "apart-zones", "apart-hosts"],
)
@pytest.mark.parametrize("is_gang", [False, True])
def test_replicas_that_prefer_to_be_spread_are(tmp_path, asks, is_gang):
    pods = [
        m.in_group(f"p{at}", **asks, **X) if is_gang else m.pod(f"p{at}", **asks, **X)
        for at in range(6)
    ]
    group = [m.group(minMember=6)] if is_gang else []
    bound, *_ = decided(tmp_path, *zones("a", "b", "c"), m.queue(), *group, *pods)
    assert sorted(bound.values()) == [f"node-{at}" for at in (0, 0, 1, 1, 2, 2)]


def test_replicas_that_cannot_be_spread_start_all_the_same(tmp_path):
    full = m.pod("full", gpus=8, at="node-1")
    pods = [m.pod(f"p{at}", **anyway(), **X) for at in range(3)]
    bound, *_ = decided(tmp_path, *zones("a", "b"), m.queue(), full, *pods)
    assert set(bound.values()) == {"node-0"}


@pytest.mark.parametrize("whose", [{}, OTHERS], ids=["ours", "others"])
@pytest.mark.parametrize(
    ("has", "comes", "node"),
    [
        (X, prefers("podAffinity"), "node-2"),
        (X, prefers("podAntiAffinity"), "node-0"),
        ({**X, **prefers("podAffinity")}, X, "node-2"),
        ({**X, **prefers("podAntiAffinity")}, X, "node-0"),
        ({**X, **near_to("x", "zone")}, X, "node-2"),
        ({**X, **near_to("x", "zone")}, {}, "node-1"),
        ({}, prefers("podAffinity"), "node-1"),
    ],
)
def test_pods_are_drawn_near_and_pushed_away(tmp_path, whose, has, comes, node):
    # The one that runs is in zone b, as is node-2. The fullest node would be taken without it:
    # node-1, of zone c; or, where zone b is to be avoided, node-2.
    old = m.pod("old", gpus=6, at="node-3", **has, **whose)
    full = m.pod("full", gpus=4, at="node-2" if node == "node-0" else "node-1")
    nodes = zones("a", "c", "b", "b")
    bound, *_ = decided(tmp_path, *nodes, m.queue(), old, full, m.pod("p", gpus=3, **comes))
    assert bound == {"team/p": node}


@pytest.mark.parametrize(
    ("term", "node"),
    [
        ({}, "node-1"),
        ({"matchLabelKeys": ["hash"]}, "node-1"),
        ({"mismatchLabelKeys": ["hash"]}, "node-2"),
        ({"matchLabelKeys": ["none"]}, "node-1"),
        ({"namespaces": ["other"]}, ""),
        ({"namespaces": ["other"], "namespaceSelector": {}}, "node-1"),
    ],
)
@pytest.mark.parametrize("is_required", [False, True])
def test_terms_compare_labels_of_the_pod_itself(tmp_path, term, node, is_required):
    # Two of its own revision run in zone b, one of another in c. Of two nodes the fuller is taken.
    asks = near_to("x", "zone") if is_required else prefers("podAffinity")
    (kind,) = asks["affinity"].values()
    (wish,) = next(iter(kind.values()))
    wish.get("podAffinityTerm", wish).update(term)
    pods = [
        m.pod(f"old{at}", at=f"node-{node}", labels={"app": "x", "hash": of})
        for at, (node, of) in enumerate(((1, "new"), (1, "new"), (2, "old")))
    ]
    new = m.pod("p", labels={"app": "x", "hash": "new"}, **asks)
    bound, *_ = decided(tmp_path, *zones("a", "b", "c"), m.queue(), *pods, new)
    if not node and is_required:
        assert bound == {}
    else:
        assert bound == {"team/p": node or "node-1"}


@pytest.mark.parametrize(
    ("terms", "node"),
    [
        ([[("zone", "NotIn", "a", "b")]], "node-2"),
        ([[("zone", "NotIn", "a", "-b")]], ""),
        ([[("zone", "In", "a", "no zone")]], ""),
        ([[("zone", "In", "a"), ("rank", "Gt", "-1")]], ""),
        ([[("zone", "In", "a", "x" * 64)], [("zone", "In", "b")]], "node-1"),
        ([[("zone", "In", "a", "")]], "node-0"),
    ],
)
def test_a_value_that_no_label_may_have_spoils_its_term(tmp_path, terms, node):
    # Zones a, b and c; as kube-scheduler reads what older API servers let pass.
    selector = [
        {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, *v in term]}
        for term in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}}
    nodes = zones("a", "b", "c")
    for it in nodes:
        it["metadata"]["labels"]["rank"] = "1"
    asks = m.pod("p", affinity={"nodeAffinity": required})
    bound, *_ = decided(tmp_path, *nodes, m.queue(), asks)
    assert bound == ({"team/p": node} if node else {})


@pytest.mark.parametrize(
    ("selector", "keys", "node"),
    [
        ({"matchLabels": {"app": "x"}}, [], "node-1"),
        ({}, [], "node-0"),
        ({}, ["hash"], "node-0"),
        ({}, ["app"], "node-1"),
    ],
)
def test_an_empty_selector_of_a_spread_counts_no_pod(tmp_path, selector, keys, node):
    # One of its kind runs in zone a. Of two nodes the fuller is taken.
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": keys,
    }
    old = m.pod("old", at="node-0", labels={"app": "x"})
    new = m.pod("p", labels={"app": "x"}, topologySpreadConstraints=[spread])
    bound, *_ = decided(tmp_path, *zones("a", "b"), m.queue(), old, new)
    assert bound == {"team/p": node}


def plain(name, app, gpus=1, **more):
    return m.pod(name, gpus=gpus, labels={"app": app}, **more)


@pytest.mark.parametrize("whose", [{}, OTHERS], ids=["ours", "others"])
@pytest.mark.parametrize("alike", ["waits", "runs", "is elsewhere"])
def test_a_pod_is_kept_away_for_its_own_labels_only(tmp_path, whose, alike):
    # The one on node-0 keeps app=x away; p and the one like it, app=x, ask for the same.
    averse = {"affinity": m.apart_from("x", "kubernetes.io/hostname")}
    guard = m.pod("guard", gpus=6, at="node-0", labels={"app": "g"}, **averse, **whose)
    other = plain("other", "x", **({} if alike == "waits" else {"at": "node-1"}))
    if alike == "is elsewhere":
        other["metadata"]["namespace"] = "else"
    found = decided(tmp_path, *zones("a", "b"), m.queue(), other, plain("p", "y"), guard)
    assert found[0].pop("team/p") == "node-0"
    assert found[0] == ({"team/other": "node-1"} if alike == "waits" else {})


def test_terms_on_other_namespaces_keep_only_those_away(tmp_path):
    averse = {"affinity": m.apart_from("x", "kubernetes.io/hostname")}
    guard = m.pod("guard", gpus=6, at="node-0", labels={"app": "g"}, **averse)
    pods = [plain("one", "x"), plain("two", "x")]
    pods[1]["metadata"]["namespace"] = "else"
    bound, *_ = decided(tmp_path, *zones("a", "b"), m.queue(), *pods, guard)
    assert bound == {"team/one": "node-1", "else/two": "node-0"}


def in_zone(zone):
    """A claim, and the one local volume that fits it, which is in a zone."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    here = {"required": {"nodeSelectorTerms": [term]}}
    amount = {"storage": "1Gi"}
    disk = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    claim = {**disk, "resources": {"requests": amount}}
    volume = {**disk, "capacity": amount, "nodeAffinity": here, "local": {"path": "/x"}}
    named = {"name": "data", "namespace": "team"}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": named, "spec": claim},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": volume,
            "status": {"phase": "Available"},
        },
    ]


def on_itself(kind, key):
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": key}
    asks = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"labels": {"app": "x"}, "affinity": {kind: asks}}


DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def test_the_first_of_a_group_starts_where_its_volume_is(tmp_path):
    # Zone a has more room, and the volume is in b.
    asks = on_itself("podAffinity", "zone")
    new = m.pod("p", **asks, volumes=DATA)
    bound, *_ = decided(tmp_path, *zones("a", "a", "b"), *in_zone("b"), m.queue(), new)
    assert bound == {"team/p": "node-2"}


def test_the_first_of_a_group_starts_where_it_is_spread_to(tmp_path):
    # Zone a has more room, and one more pod of app=y than b.
    asks = on_itself("podAffinity", "zone")
    asks["labels"]["kind"] = "y"
    even = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    even["labelSelector"] = {"matchLabels": {"kind": "y"}}
    old = m.pod("old", at="node-0", labels={"kind": "y"})
    new = m.pod("p", **asks, topologySpreadConstraints=[even])
    bound, *_ = decided(tmp_path, *zones("a", "a", "b"), m.queue(), old, new)
    assert bound == {"team/p": "node-2"}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_the_first_of_a_group_does_not_wait_beside_one_that_is_leaving(tmp_path, kind):
    # One with its port is leaving node-0: affinity may have zone b, and anti-affinity node-1.
    nodes = zones("a", "a", "b") if kind == "podAntiAffinity" else zones("a", "b")
    port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    old = m.pod("old", gpus=0, at="node-0", main=port, **LEAVES)
    new = m.pod("p", main=port, **on_itself(kind, "zone"))
    bound, *_ = decided(tmp_path, *nodes, m.queue(), old, new)
    assert bound == {"team/p": "node-1"}


RACKED = [m.group(minMember=2, topologyConstraint=m.within("rack"))]


def nodes_of(*places):
    """Nodes of 8 GPUs with the labels ``zone`` and ``rack``."""
    return [
        m.node(f"{zone}-{rack}-{at}", labels={"zone": zone, "rack": rack})
        for at, (zone, rack) in enumerate(places)
    ]


def test_a_gang_that_seeks_itself_starts_in_the_zone_that_has_a_rack_for_it(tmp_path):
    # Zone a has more room, in racks of one node each.
    asks = on_itself("podAffinity", "zone")
    pods = [m.in_group(f"p{at}", gpus=8, **asks) for at in range(2)]
    places = ("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"), ("b", "4")
    bound, *_ = decided(tmp_path, *nodes_of(*places), m.queue(), m.RACKS, *RACKED, *pods)
    assert bound == {"team/p0": "b-4-3", "team/p1": "b-4-4"}


def test_a_gang_of_one_in_a_zone_each_starts_in_the_rack_that_has_both_zones(tmp_path):
    asks = on_itself("podAntiAffinity", "zone")
    pods = [m.in_group(f"p{at}", **asks) for at in range(2)]
    places = ("a", "1"), ("a", "2"), ("b", "2")
    bound, *_ = decided(tmp_path, *nodes_of(*places), m.queue(), m.RACKS, *RACKED, *pods)
    assert bound == {"team/p0": "a-2-1", "team/p1": "b-2-2"}


@pytest.mark.parametrize("number", [1, 3])
def test_one_of_a_zone_each_goes_to_the_node_that_it_prefers(tmp_path, number):
    # Of the two nodes of zone a; those after the first find no other zone.
    asks = on_itself("podAntiAffinity", "zone")
    likes = {"weight": 50, "preference": is_in("rack", "2")}
    asks["affinity"]["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [likes]}
    pods = [m.pod(f"p{at}", **asks) for at in range(number)]
    bound, *_ = decided(tmp_path, *nodes_of(("a", "1"), ("a", "2")), m.queue(), *pods)
    assert bound == {"team/p0": "a-2-1"}


def is_in(key, value):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def test_one_of_a_zone_each_is_where_its_volume_is(tmp_path):
    nodes = zones("a", "a")
    volume = in_zone("node-1")
    (term,) = volume[2]["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    term["matchExpressions"][0]["key"] = "kubernetes.io/hostname"
    new = m.pod("p", **on_itself("podAntiAffinity", "zone"), volumes=DATA)
    bound, *_ = decided(tmp_path, *nodes, *volume, m.queue(), new)
    assert bound == {"team/p": "node-1"}


def test_nodes_are_preferred_by_weight(tmp_path):
    wishes = [
        {
            "weight": weight,
            "preference": {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]
            },
        }
        for zone, weight in (("b", 10), ("c", 30))
    ]
    wishes.append({"weight": 100, "preference": {}})  # selects no node
    asks = {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}
    }
    pods = [
        m.pod(f"p{at}", gpus=8, created=f"2026-01-0{at + 1}T00:00:00Z", **asks) for at in (0, 1)
    ]
    bound, *_ = decided(tmp_path, *zones("a", "b", "c"), m.queue(), *pods)
    assert bound == {"team/p0": "node-2", "team/p1": "node-1"}


def test_nodes_with_a_soft_taint_come_last(tmp_path):
    nodes = zones("a", "b")
    nodes[0]["spec"] = {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}
    tolerant = {"tolerations": [{"key": "old", "operator": "Exists"}]}
    cluster = (*nodes, m.queue())
    assert decided(tmp_path, *cluster, m.pod("p"))[0] == {"team/p": "node-1"}
    assert decided(tmp_path, *cluster, m.pod("p", **tolerant))[0] == {"team/p": "node-0"}
    full = m.pod("full", gpus=8, at="node-1")
    assert decided(tmp_path, *cluster, full, m.pod("p"))[0] == {"team/p": "node-0"}


# -- what is not offered ---------------------------------------------------------------------------


def disk(kind):
    named = {"iqn": "secret", "fsType": "ext4"}
    return {"volumes": [{"name": "d", kind: named}]}


REFUSED = {
    "awsElasticBlockStore": (disk("awsElasticBlockStore"), "use a PersistentVolumeClaim"),
    "gcePersistentDisk": (disk("gcePersistentDisk"), "use a PersistentVolumeClaim"),
    "iscsi": (disk("iscsi"), "spec.volumes: iscsi: which pods"),
    "rbd": (disk("rbd"), "use a PersistentVolumeClaim"),
    "restart-all": (
        {"main": {"restartPolicyRules": [{"action": "RestartAllContainers"}]}},
        "RestartAllContainers: which nodes declare this feature is not read",
    ),
    "users": ({"hostNetwork": True, "hostUsers": False}, "leave out one of them"),
    "weight": (prefers("podAffinity", weight=0), "weight 0 is not from 1 to 100"),
    "huge-weight": (prefers("podAntiAffinity", weight=10**30), "is not from 1 to 100"),
    "namespaces": (
        prefers("podAffinity", namespaceSelector={"matchLabels": {"a": "b"}}),
        "labels of namespaces are not read",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_offered_is_refused_with_a_reason(tmp_path, what):
    asks, says = REFUSED[what]
    file = tmp_path / "cluster.yaml"
    objects = *zones("a"), m.queue(), m.pod("p", **asks), m.pod("runs", at="node-0", **asks)
    file.write_text("\n---\n".join(map(json.dumps, objects)), encoding="utf-8")
    (cycle,) = plan(read_plan_input([str(file)]), 1).cycles
    assert cycle.binds == ()
    assert {it.reason for it in cycle.records} == {"Unsupported"}
    assert all(says in it.message for it in cycle.records)


@pytest.mark.parametrize(
    "asks",
    [
        {"main": {"restartPolicyRules": [{"action": "Restart"}]}},
        {"hostUsers": False},
        {"hostNetwork": True, "hostUsers": True},
        {"volumes": [{"name": "d", "hostPath": {"path": "/"}}, {"name": "c", "configMap": {}}]},
    ],
)
def test_what_is_like_it_and_no_matter_of_nodes_is_not_refused(tmp_path, asks):
    assert decided(tmp_path, *zones("a"), m.queue(), m.pod("p", **asks))[0] == {"team/p": "node-0"}


@pytest.mark.parametrize(
    ("operator", "bound", "value", "goes"),
    [
        ("Gt", "750", "950", True),
        ("Gt", "950", "950", False),
        ("Lt", "950", "800", True),
        ("Lt", "800", "950", False),
        ("Gt", "-5", "0", True),
        ("Lt", "07", "1", False),
        ("Gt", "1", "many", False),
        ("Gt", "1", "9" * 30, False),
        ("Equal", "9", "9", True),
        ("", "9", "9", True),
        ("Near", "9", "9", False),
    ],
)
def test_tolerations_compare_numbers(tmp_path, operator, bound, value, goes):
    taint = {"key": "sla", "value": value, "effect": "NoSchedule"}
    tolerance = {"key": "sla", "operator": operator, "value": bound}
    node = m.node(spec={"taints": [taint]})
    found = decided(tmp_path, node, m.queue(), m.pod("p", tolerations=[tolerance]))
    assert found[0] == ({"team/p": "node-1"} if goes else {})
