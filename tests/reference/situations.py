"""A situation for each reason why a job waits, as manifests: docs/reference/gallery.md shows them.

The waiting job is always that of the pod ``mine``. They are those of the default policy, unless a
shard says otherwise: tests of them are marked ``mark.proportion``.
"""

from dataclasses import dataclass

from tests.reference import making as m


@dataclass(frozen=True)
class Situation:
    """What is so when a job waits for a reason."""

    story: str
    objects: tuple[dict, ...]
    shown_in: str = ""
    """Empty for the reason of the job; ``nodes``, ``evictions`` or ``pods`` where these have it."""


_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "train"}},
}

SITUATIONS = {
    "QueueDoesNotExist": Situation(
        "The job names a queue that nobody has made.",
        (m.node(), m.queue(), m.pod(queue="visoin")),
    ),
    "QueueOrphan": Situation(
        "The queue names a parent that does not exist.",
        (m.node(), m.queue(parent="lab"), m.pod()),
    ),
    "QueueNotLeaf": Situation(
        "The job names a queue that has children.",
        (m.node(), m.queue("lab"), m.queue("vision", parent="lab"), m.pod(queue="lab")),
    ),
    "GangIncomplete": Situation(
        "Two of the three pods that have to start together exist.",
        (m.node(), m.queue(), m.group(minMember=3), m.in_group("mine"), m.in_group("other")),
    ),
    "QueueDepth": Situation(
        "The shard tries one job of each queue, and another one is before it.",
        (
            m.shard(queueDepthPerAction={"allocate": 1}),
            m.node(),
            m.queue(),
            m.pod("first", gpus=1, created="2026-01-05T07:00:00Z"),
            m.pod(gpus=2),
        ),
    ),
    "NotTried": Situation(
        "The shard has no action that places waiting jobs.",
        (
            m.shard(
                actions={
                    it: {"enabled": False}
                    for it in ("allocate", "reclaim", "preempt", "consolidate")
                }
            ),
            m.node(),
            m.queue(),
            m.pod(),
        ),
    ),
    "QueueOnHold": Situation(
        "Somebody has put the queue on hold.",
        (m.node(), m.queue(stopPolicy="Hold"), m.pod()),
    ),
    "ExceedsAnyNode": Situation(
        "The pod asks for more GPUs than any node has.",
        (m.node(), m.queue(), m.pod(gpus=16)),
    ),
    "NoNodeAllowed": Situation(
        "The pod selects nodes by a label that none has.",
        (m.node(), m.queue(), m.pod(nodeSelector={"disk": "ssd"})),
    ),
    "NoRoom": Situation(
        "Another job of the queue holds the GPUs.",
        (m.node(), m.queue(), m.pod("other", gpus=6, at="node-1"), m.pod(gpus=4)),
    ),
    "GangNoRoom": Situation(
        "There is room for one of the two pods that have to start together.",
        (
            m.node(),
            m.queue(),
            m.group(minMember=2),
            m.in_group("mine", gpus=6),
            m.in_group("other", gpus=6),
        ),
    ),
    "WaitingForRelease": Situation(
        "A pod that is being deleted gives the room back.",
        (
            m.node(),
            m.queue(),
            m.pod(
                "other",
                gpus=8,
                at="node-1",
                meta={
                    "deletionTimestamp": "2026-01-05T08:00:20Z",
                    "deletionGracePeriodSeconds": 30,
                },
            ),
            m.pod(gpus=8),
        ),
    ),
    "NodeNotReady": Situation(
        "The only node is not ready.",
        (m.node(conditions=[{"type": "Ready", "status": "False"}]), m.queue(), m.pod()),
        shown_in="nodes",
    ),
    "NodeUnschedulable": Situation(
        "The only node is cordoned.",
        (m.node(spec={"unschedulable": True}), m.queue(), m.pod()),
        shown_in="nodes",
    ),
    "Taint": Situation(
        "The pod does not tolerate the taint of the node.",
        (
            m.node(
                spec={"taints": [{"key": "dedicated", "value": "speech", "effect": "NoSchedule"}]}
            ),
            m.queue(),
            m.pod(),
        ),
        shown_in="nodes",
    ),
    "NodeAffinity": Situation(
        "The pod requires nodes of a zone in which there are none.",
        (
            m.node(labels={"zone": "a"}),
            m.queue(),
            m.pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "zone", "operator": "In", "values": ["b"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            ),
        ),
        shown_in="nodes",
    ),
    "NodeType": Situation(
        "The pod asks for nodes of a type of which there are none.",
        (
            m.node(labels={"run.ai/type": "a100"}),
            m.queue(),
            m.pod(meta={"annotations": {"kaisched.io/node-type": "v100"}}),
        ),
        shown_in="nodes",
    ),
    "QueueNodeAffinity": Situation(
        "Training jobs of the queue may use no node of the type that there is.",
        (
            m.node(labels={"run.ai/type": "a100"}),
            m.queue(
                nodeAffinity=[
                    {
                        "workloads": ["training"],
                        "terms": [
                            {
                                "matchExpressions": [
                                    {"key": "run.ai/type", "operator": "In", "values": ["v100"]}
                                ]
                            }
                        ],
                    }
                ]
            ),
            m.pod(),
        ),
        shown_in="nodes",
    ),
    "PodAffinity": Situation(
        "The pod wants to be where a pod of `app: cache` is, and there is none.",
        (
            m.node(labels={"kubernetes.io/hostname": "node-1"}),
            m.queue(),
            m.pod(
                affinity={
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {"matchLabels": {"app": "cache"}},
                                "topologyKey": "kubernetes.io/hostname",
                            }
                        ]
                    }
                }
            ),
        ),
        shown_in="nodes",
    ),
    "PodAntiAffinity": Situation(
        "The pod must not be where another pod of `app: train` is, and one is on the node.",
        (
            m.node(labels={"kubernetes.io/hostname": "node-1"}),
            m.queue(),
            m.pod("other", at="node-1", labels={"app": "train"}),
            m.pod(affinity=m.apart_from("train")),
        ),
        shown_in="nodes",
    ),
    "TopologySpread": Situation(
        "At most one pod of `app: train` more than on the other host, and the other is full.",
        (
            m.node(labels={"kubernetes.io/hostname": "node-1"}),
            m.node("node-2", gpus=0, labels={"kubernetes.io/hostname": "node-2"}),
            m.queue(),
            m.pod("other", at="node-1", labels={"app": "train"}),
            m.pod(labels={"app": "train"}, topologySpreadConstraints=[_SPREAD]),
        ),
        shown_in="nodes",
    ),
    "TopologyLabel": Situation(
        "The pod is to be spread over zones, and the node names none.",
        (
            m.node(),
            m.queue(),
            m.pod(
                labels={"app": "train"},
                topologySpreadConstraints=[{**_SPREAD, "topologyKey": "zone"}],
            ),
        ),
        shown_in="nodes",
    ),
    "HostPort": Situation(
        "Another pod uses the host port.",
        (
            m.node(),
            m.queue(),
            m.pod("other", at="node-1", main={"ports": [{"containerPort": 80, "hostPort": 80}]}),
            m.pod(main={"ports": [{"containerPort": 80, "hostPort": 80}]}),
        ),
        shown_in="nodes",
    ),
    "PodSlots": Situation(
        "The node takes no more pods.",
        (m.node(pods=1), m.queue(), m.pod("other", at="node-1"), m.pod()),
        shown_in="nodes",
    ),
    "Resources": Situation(
        "The node has too few free GPUs.",
        (m.node(), m.queue(), m.pod("other", gpus=7, at="node-1"), m.pod(gpus=2)),
        shown_in="nodes",
    ),
    "EvictionDelay": Situation(
        "The job has a preemption delay, so that an autoscaler may add a node first.",
        (
            m.node(),
            m.queue(quota=8),
            m.queue("speech", quota=0),
            m.pod("other", gpus=8, queue="speech", at="node-1"),
            m.pod(gpus=8, meta={"annotations": {"kai.scheduler/preemption-delay": "10m"}}),
        ),
        shown_in="evictions",
    ),
    "NeverPreempting": Situation(
        "The pod's priority class says that nothing is evicted for it.",
        (
            m.node(),
            m.queue(quota=8),
            m.queue("speech", quota=0),
            m.pod("other", gpus=8, queue="speech", at="node-1"),
            m.priority_class("patient", 50, preemptionPolicy="Never"),
            m.pod(gpus=8, priorityClassName="patient"),
        ),
        shown_in="evictions",
    ),
    "EvictionBudget": Situation(
        "The shard may evict nothing.",
        (
            m.shard(evictionsPerHour=0),
            m.node(),
            m.queue(quota=8),
            m.queue("speech", quota=0),
            m.pod("other", gpus=8, queue="speech", at="node-1"),
            m.pod(gpus=8),
        ),
        shown_in="evictions",
    ),
    "CycleEvictions": Situation(
        "Each cycle may begin one eviction, and another job came first.",
        (
            m.shard(maxEvictionsPerCycle=1),
            m.node(),
            m.queue(quota=8),
            m.queue("speech", quota=0),
            m.pod("other", gpus=4, queue="speech", at="node-1"),
            m.pod("another", gpus=4, queue="speech", at="node-1"),
            m.pod("first", gpus=4, meta={"creationTimestamp": "2026-01-05T07:00:00Z"}),
            m.pod(gpus=4),
        ),
        shown_in="evictions",
    ),
    "DisruptionBudget": Situation(
        "A PodDisruptionBudget protects what runs, by the shard borrowed GPUs too.",
        (
            m.shard(disruptionBudgets="always"),
            m.node(),
            m.queue(quota=8),
            m.queue("speech", quota=0),
            m.pod("other", gpus=8, queue="speech", at="node-1", labels={"app": "serve"}),
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "serve", "namespace": "team"},
                "spec": {"selector": {"matchLabels": {"app": "serve"}}, "maxUnavailable": 0},
                "status": {
                    "disruptionsAllowed": 0,
                    "currentHealthy": 1,
                    "desiredHealthy": 1,
                    "expectedPods": 1,
                    "observedGeneration": 1,
                },
            },
            m.pod(gpus=8),
        ),
        shown_in="evictions",
    ),
    "MinRuntime": Situation(
        "What runs is within its minimum runtime.",
        (
            m.node(),
            m.queue(quota=8),
            m.queue("speech", quota=0, reclaimMinRuntime="4h"),
            m.pod("other", gpus=8, queue="speech", at="node-1"),
            m.pod(gpus=8),
        ),
        shown_in="evictions",
    ),
    "OverLimit": Situation(
        "The queue would exceed its limit.",
        (m.node(), m.queue(limit=4), m.pod("other", gpus=3, at="node-1"), m.pod(gpus=2)),
    ),
    "NonPreemptibleOverQuota": Situation(
        "The job must not be evicted, and asks for more than the quota.",
        (m.node(), m.queue(quota=1), m.pod(gpus=2, labels=m.STAYS)),
    ),
    "OverFairShare": Situation(
        "The job would take its queue over its fair share, and the other queue has its own.",
        (
            m.node(),
            m.queue(quota=4),
            m.queue("speech", quota=4),
            m.pod("own", gpus=4, at="node-1"),
            m.pod("other", gpus=4, queue="speech", at="node-1"),
            m.pod(gpus=4),
        ),
        shown_in="evictions",
    ),
    "NoSuchTopology": Situation(
        "The job requires a level of a topology that does not exist.",
        (
            m.node(),
            m.queue(),
            m.group(minMember=1, topologyConstraint=m.within("rack")),
            m.in_group("mine"),
        ),
    ),
    "NoSuchTopologyLevel": Situation(
        "The topology has no level of that name.",
        (
            m.node(labels={"rack": "r1"}),
            m.queue(),
            m.RACKS,
            m.group(minMember=1, topologyConstraint=m.within("zone")),
            m.in_group("mine"),
        ),
    ),
    "UnusableSlices": Situation(
        "The pod is to be in one rack, and its slices in a block each, which is larger.",
        (
            m.node(labels={"block": "b1", "rack": "r1"}),
            m.queue(),
            {**m.RACKS, "spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}},
            m.pod(
                meta={
                    "annotations": {
                        "kueue.x-k8s.io/podset-required-topology": "rack",
                        "kueue.x-k8s.io/podset-slice-required-topology": "block",
                        "kueue.x-k8s.io/podset-slice-size": "1",
                    }
                }
            ),
        ),
    ),
    "NoDomainHasRoom": Situation(
        "No rack has room for both pods while another job runs.",
        (
            m.node(labels={"rack": "r1"}),
            m.node("node-2", labels={"rack": "r2"}),
            m.queue(),
            m.queue("speech", quota=16),
            m.RACKS,
            m.group(minMember=2, topologyConstraint=m.within("rack")),
            m.pod("first", gpus=2, queue="speech", at="node-1", labels=m.STAYS),
            m.pod("second", gpus=2, queue="speech", at="node-2", labels=m.STAYS),
            m.in_group("mine", gpus=4),
            m.in_group("other", gpus=4),
        ),
    ),
    "NoDomainIsLargeEnough": Situation(
        "No rack would hold both pods, even if nothing ran.",
        (
            m.node(labels={"rack": "r1"}),
            m.node("node-2", labels={"rack": "r2"}),
            m.queue(),
            m.RACKS,
            m.group(minMember=2, topologyConstraint=m.within("rack")),
            m.in_group("mine", gpus=8),
            m.in_group("other", gpus=8),
        ),
    ),
    "WaitsForDomain": Situation(
        "Both racks have room for one pod, and the job waits an hour for a better place.",
        (
            m.node(labels={"rack": "r1"}),
            m.node("node-2", labels={"rack": "r2"}),
            m.queue(),
            m.queue("speech", quota=16),
            m.RACKS,
            m.group(
                {"kaisched.io/topology-patience": "1h"},
                minMember=2,
                topologyConstraint=m.prefers("rack"),
            ),
            m.pod("first", gpus=2, queue="speech", at="node-1", labels=m.STAYS),
            m.pod("second", gpus=2, queue="speech", at="node-2", labels=m.STAYS),
            m.in_group("mine", gpus=4),
            m.in_group("other", gpus=4),
        ),
    ),
    "QuotaExhausted": Situation(
        "Neither the queue nor one that could lend to it has so much quota left.",
        (
            m.LENDING,
            m.node(),
            m.queue("lab", quota=0),
            m.queue(parent="lab", quota=2),
            m.queue("speech", parent="lab", quota=2),
            m.pod(gpus=6),
        ),
    ),
    "OverQueueLimit": Situation(
        "The queue would exceed its limit.",
        (m.LENDING, m.node(), m.queue(quota=8, limit=1), m.pod(gpus=2)),
    ),
    "NonPreemptibleBorrows": Situation(
        "The job must not be evicted, and its queue would have to borrow for it.",
        (
            m.LENDING,
            m.node(),
            m.queue("lab", quota=6),
            m.queue(parent="lab", quota=2),
            m.pod(gpus=4, labels=m.STAYS),
        ),
    ),
    "InvalidPodGroup": Situation(
        "A pod names a subgroup that its pod group does not have.",
        (
            m.node(),
            m.queue(),
            m.group(subGroups=[{"name": "workers", "minMember": 1}]),
            m.pod(
                labels={"kai.scheduler/subgroup-name": "worker"},
                meta={"annotations": {"pod-group-name": "team"}},
            ),
        ),
    ),
    "Unsupported": Situation(
        "The pod asks for a part of a GPU in a way that cannot be read.",
        (m.node(), m.queue(), m.pod(gpus=0, meta={"annotations": {"gpu-fraction": "1.5"}})),
    ),
    "NodeSelector": Situation(
        "The node that the pod selects is full, and what runs there must stay.",
        (
            m.node(labels={"disk": "ssd"}),
            m.node("node-2"),
            m.queue(),
            m.pod("other", gpus=8, at="node-1", nodeSelector={"disk": "ssd"}),
            m.pod(nodeSelector={"disk": "ssd"}),
        ),
        shown_in="nodes",
    ),
    "NodePressure": Situation(
        "The node is short of memory, and takes no pods that ask for none.",
        (m.node(conditions=[{"type": "MemoryPressure", "status": "True"}]), m.queue(), m.pod()),
        shown_in="nodes",
    ),
    "NoVictims": Situation(
        "What may be evicted holds too little.",
        (
            m.node(),
            m.queue(quota=8),
            m.queue("speech", quota=0),
            m.pod("fixed", gpus=6, queue="speech", at="node-1", labels=m.STAYS),
            m.pod("other", gpus=2, queue="speech", at="node-1"),
            m.pod(gpus=4),
        ),
        shown_in="evictions",
    ),
    "VolumeClaim": Situation(
        "The pod names a volume claim that does not exist.",
        (
            m.node(),
            m.queue(),
            m.claim("labels", volumeName="", storageClassName="disk"),
            m.pod(volumes=m.uses("images")),
        ),
    ),
    "VolumeUnbound": Situation(
        "The volume of the claim is still being made.",
        (
            m.node(),
            m.queue(),
            m.storage_class("Immediate"),
            m.claim("images", storageClassName="disk"),
            m.pod(volumes=m.uses("images")),
        ),
    ),
    "VolumeInUse": Situation(
        "Another pod uses the claim, which is for one pod at a time.",
        (
            m.node(),
            m.queue(),
            m.storage_class("WaitForFirstConsumer"),
            m.claim(
                "images",
                bound=True,
                volumeName="pv",
                storageClassName="disk",
                accessModes=["ReadWriteOncePod"],
            ),
            m.volume(),
            m.pod("other", at="node-1", volumes=m.uses("images")),
            m.pod(volumes=m.uses("images")),
        ),
    ),
    "VolumeAffinity": Situation(
        "The volume is in a zone in which no node is.",
        (
            m.node(labels={"zone": "a"}),
            m.queue(),
            m.storage_class("WaitForFirstConsumer"),
            m.claim("images", bound=True, volumeName="pv", storageClassName="disk"),
            m.volume("b"),
            m.pod(volumes=m.uses("images")),
        ),
        shown_in="nodes",
    ),
    "NotOverShare": Situation(
        "The queue that holds the GPUs is within its share, and the free ones are elsewhere.",
        (
            m.node(labels={"disk": "ssd"}),
            m.node("node-2"),
            m.queue(quota=8),
            m.queue("speech", quota=8),
            m.pod("other", gpus=8, queue="speech", at="node-1", nodeSelector={"disk": "ssd"}),
            m.pod(gpus=8, nodeSelector={"disk": "ssd"}),
        ),
        shown_in="evictions",
    ),
    "NoDomainCanBeFreed": Situation(
        "No rack could be cleared for both pods: what runs in one must not be evicted.",
        (
            m.node(labels={"rack": "r1"}),
            m.node("node-2", gpus=4, labels={"rack": "r2"}),
            m.queue(quota=16),
            m.queue("speech", quota=1),
            m.RACKS,
            m.group(minMember=2, topologyConstraint=m.within("rack")),
            m.pod("other", gpus=1, queue="speech", at="node-1", labels=m.STAYS),
            m.pod("third", gpus=1, queue="speech", at="node-2"),
            m.in_group("mine", gpus=4),
            m.in_group("mine-2", gpus=4),
        ),
        shown_in="evictions",
    ),
    "NotBorrowing": Situation(
        "No queue borrows what the job lacks.",
        (
            m.LENDING,
            m.node(labels={"disk": "ssd"}),
            m.node("node-2"),
            m.queue("lab", quota=0),
            m.queue(parent="lab", quota=8, preemption={"reclaimWithinCohort": "Any"}),
            m.queue("speech", parent="lab", quota=8),
            m.pod("other", gpus=8, queue="speech", at="node-1", nodeSelector={"disk": "ssd"}),
            m.pod(gpus=8, nodeSelector={"disk": "ssd"}),
        ),
        shown_in="evictions",
    ),
    "PreemptionPolicy": Situation(
        "The queue of the job takes nothing back from others.",
        (
            m.LENDING,
            m.node(),
            m.queue("lab", quota=0),
            m.queue(parent="lab", quota=8, preemption={"reclaimWithinCohort": "Never"}),
            m.queue("speech", parent="lab", quota=0),
            m.pod("other", gpus=8, queue="speech", at="node-1"),
            m.pod(gpus=8),
        ),
        shown_in="evictions",
    ),
    "NoNodeOfFlavor": Situation(
        "No node has the labels of the flavor.",
        (
            m.LENDING,
            m.node(),
            m.queue(
                flavors=[
                    {
                        "name": "h100",
                        "nodeLabels": {"card": "h100"},
                        "resources": {"gpu": {"quota": 8}},
                    }
                ]
            ),
            m.pod(),
        ),
    ),
    "NoMatchingFlavor": Situation(
        "The pod selects nodes that no flavor of its queue has.",
        (
            m.LENDING,
            m.node(labels={"card": "h100"}),
            m.queue(
                flavors=[
                    {
                        "name": "h100",
                        "nodeLabels": {"card": "h100"},
                        "resources": {"gpu": {"quota": 8}},
                    }
                ]
            ),
            m.pod(nodeSelector={"card": "l4"}),
        ),
    ),
    "FlavorQuotaTooSmall": Situation(
        "The job asks for more than its queue could ever have of the flavor.",
        (
            m.LENDING,
            m.node(labels={"card": "h100"}),
            m.queue(
                flavors=[
                    {
                        "name": "h100",
                        "nodeLabels": {"card": "h100"},
                        "resources": {"gpu": {"quota": 2}},
                    }
                ]
            ),
            m.pod(gpus=4),
        ),
    ),
    "SchedulingGated": Situation(
        "The pod has a scheduling gate, which its owner has not removed.",
        (m.node(), m.queue(), m.pod(schedulingGates=[{"name": "example.com/quota"}])),
        shown_in="pods",
    ),
    "PodAntiAffinityLeaving": Situation(
        "The pod must not be where another pod of `app: train` is, and one is being deleted there.",
        (
            m.node(labels={"kubernetes.io/hostname": "node-1"}),
            m.node("node-2", gpus=0),
            m.queue(),
            m.pod(
                "other",
                at="node-1",
                labels={"app": "train"},
                meta={
                    "deletionTimestamp": "2026-01-05T08:00:20Z",
                    "deletionGracePeriodSeconds": 30,
                },
            ),
            m.pod("more", gpus=7, at="node-1"),
            m.pod(gpus=2, affinity=m.apart_from("train")),
        ),
        shown_in="nodes",
    ),
    "HostPortLeaving": Situation(
        "A pod that is being deleted still uses the host port, on a node among others.",
        (
            m.node(labels={"disk": "ssd"}),
            m.node("node-2", gpus=0),
            m.queue(),
            m.pod(
                "other",
                at="node-1",
                main={"ports": [{"containerPort": 80, "hostPort": 80}]},
                meta={
                    "deletionTimestamp": "2026-01-05T08:00:20Z",
                    "deletionGracePeriodSeconds": 30,
                },
            ),
            m.pod("more", gpus=7, at="node-1"),
            m.pod(gpus=2, main={"ports": [{"containerPort": 80, "hostPort": 80}]}),
        ),
        shown_in="nodes",
    ),
    "Devices": Situation(
        "The node has one device for claims, and the claim is on two.",
        (m.node(gpus=0), *m.devices(1), m.queue(), m.resource_claim(2), m.with_claim()),
        shown_in="nodes",
    ),
    "ByClaimOnly": Situation(
        "One node has a device plugin and no GPU left, the other a driver, which gives whole"
        " GPUs; the pod asks for half of one.",
        (
            m.node(gpus=1),
            m.node("node-2", gpus=0),
            *m.devices(1, "node-2", "nvidia.com/gpu"),
            m.queue(),
            m.pod("other", at="node-1", labels={"kai.scheduler/preemptibility": "non-preemptible"}),
            m.pod(gpus=0, meta={"annotations": {"gpu-fraction": "0.5"}}),
        ),
        shown_in="nodes",
    ),
    "DeviceClaim": Situation(
        "The claim is on a class of devices that does not exist.",
        (
            m.node(gpus=0),
            *m.devices(1),
            m.queue(),
            m.resource_claim(1, "tpu.example.com"),
            m.with_claim(),
        ),
    ),
}
ELSEWHERE = {
    "It takes several cycles, or what only a running scheduler knows.": (
        "Backoff",
        "DevicesLeaving",
        "NotWorthIt",
        "OpenedSince",
        "OthersTimeSlice",
        "OwnerNotRead",
        "PutOff",
        "RoomHeld",
        "SearchBudget",
        "TakingTurns",
        "WouldComeBack",
    ),
    "A plugin or an action has to fail, or a plugin of others has to refuse.": (
        "ActionFailed",
        "Plugin",
        "PluginFailed",
    ),
    "They need GPU instances, claims and devices of drivers, or sets of nodes.": (
        "DevicePlace",
        "DevicesOverShare",
        "MigByAnnotation",
        "OutsideNodeSet",
    ),
    "They are named while victims are chosen among many jobs, where no other reason is closer.": (
        "EvictionsPreferred",
        "HigherShare",
        "OtherTree",
        "QuotaAlone",
        "SaturationOrder",
        "TakesNothingToBorrow",
        "TriedByInitialShare",
        "TriedInAnotherWay",
        "Undershoots",
        "WouldBeOvertaken",
    ),
}
"""Reasons without a situation, by why they have none."""
