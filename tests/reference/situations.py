"""A situation for each reason why a job waits, as manifests: docs/reference/gallery.md shows them.

The waiting job is always that of the pod ``mine``. They are those of the default policy, unless a
shard says otherwise: tests of them are marked ``mark.proportion``.
"""

from dataclasses import dataclass

from tests.reference.making import (
    LENDING,
    RACKS,
    claim,
    devices,
    group,
    in_group,
    node,
    pod,
    queue,
    resource_claim,
    shard,
    storage_class,
    uses,
    volume,
    with_claim,
    within,
)  # fmt: skip


@dataclass(frozen=True)
class Situation:
    """What is so when a job waits for a reason."""

    story: str
    objects: tuple[dict, ...]
    plugin: str = ""
    """The plugin whose reason it is."""
    shown_in: str = ""
    """Empty for the reason of the job; ``nodes``, ``evictions`` or ``pods`` where these have it."""


SITUATIONS = {
    "QueueDoesNotExist": Situation(
        "The job names a queue that nobody has made.",
        (node(), queue(), pod(queue="visoin")),
    ),
    "QueueOrphan": Situation(
        "The queue names a parent that does not exist.",
        (node(), queue(parent="lab"), pod()),
    ),
    "QueueNotLeaf": Situation(
        "The job names a queue that has children.",
        (node(), queue("lab"), queue("vision", parent="lab"), pod(queue="lab")),
    ),
    "GangIncomplete": Situation(
        "Two of the three pods that have to start together exist.",
        (node(), queue(), group(minMember=3), in_group("mine"), in_group("other")),
    ),
    "QueueDepth": Situation(
        "The shard tries one job of each queue, and another one is before it.",
        (shard(queueDepthPerAction={"allocate": 1}), node(), queue(),
         pod("first", gpus=1, created="2026-01-05T07:00:00Z"), pod(gpus=2)),
    ),
    "NotTried": Situation(
        "The shard has no action that places waiting jobs.",
        (shard(actions={it: {"enabled": False} for it in
                        ("allocate", "reclaim", "preempt", "consolidate")}),
         node(), queue(), pod()),
    ),
    "QueueOnHold": Situation(
        "Somebody has put the queue on hold.",
        (node(), queue(stopPolicy="Hold"), pod()),
    ),
    "ExceedsAnyNode": Situation(
        "The pod asks for more GPUs than any node has.",
        (node(), queue(), pod(gpus=16)),
    ),
    "NoNodeAllowed": Situation(
        "The pod selects nodes by a label that none has.",
        (node(), queue(), pod(nodeSelector={"disk": "ssd"})),
    ),
    "NoRoom": Situation(
        "Another job of the queue holds the GPUs.",
        (node(), queue(), pod("other", gpus=6, at="node-1"), pod(gpus=4)),
    ),
    "GangNoRoom": Situation(
        "There is room for one of the two pods that have to start together.",
        (node(), queue(), group(minMember=2), in_group("mine", gpus=6), in_group("other", gpus=6)),
    ),
    "WaitingForRelease": Situation(
        "A pod that is being deleted gives the room back.",
        (node(), queue(),
         pod("other", gpus=8, at="node-1", meta={"deletionTimestamp": "2026-01-05T08:00:20Z",
                                                 "deletionGracePeriodSeconds": 30}),
         pod(gpus=8)),
    ),
    "NodeNotReady": Situation(
        "The only node is not ready.",
        (node(conditions=[{"type": "Ready", "status": "False"}]), queue(), pod()),
        shown_in="nodes",
    ),
    "NodeUnschedulable": Situation(
        "The only node is cordoned.",
        (node(spec={"unschedulable": True}), queue(), pod()),
        shown_in="nodes",
    ),
    "Taint": Situation(
        "The pod does not tolerate the taint of the node.",
        (node(spec={"taints": [{"key": "dedicated", "value": "speech", "effect": "NoSchedule"}]}),
         queue(), pod()),
        shown_in="nodes",
    ),
    "NodeAffinity": Situation(
        "The pod requires nodes of a zone in which there are none.",
        (node(labels={"zone": "a"}), queue(),
         pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
             "nodeSelectorTerms": [{"matchExpressions": [
                 {"key": "zone", "operator": "In", "values": ["b"]}]}]}}})),
        shown_in="nodes",
    ),
    "PodAffinity": Situation(
        "The pod wants to be where a pod of `app: cache` is, and there is none.",
        (node(labels={"kubernetes.io/hostname": "node-1"}), queue(),
         pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
             {"labelSelector": {"matchLabels": {"app": "cache"}},
              "topologyKey": "kubernetes.io/hostname"}]}})),
        shown_in="nodes",
    ),
    "PodAntiAffinity": Situation(
        "The pod must not be where another pod of `app: train` is, and one is on the node.",
        (node(labels={"kubernetes.io/hostname": "node-1"}), queue(),
         pod("other", at="node-1", labels={"app": "train"}),
         pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
             {"labelSelector": {"matchLabels": {"app": "train"}},
              "topologyKey": "kubernetes.io/hostname"}]}})),
        shown_in="nodes",
    ),
    "HostPort": Situation(
        "Another pod uses the host port.",
        (node(), queue(),
         pod("other", at="node-1", main={"ports": [{"containerPort": 80, "hostPort": 80}]}),
         pod(main={"ports": [{"containerPort": 80, "hostPort": 80}]})),
        shown_in="nodes",
    ),
    "PodSlots": Situation(
        "The node takes no more pods.",
        (node(pods=1), queue(), pod("other", at="node-1"), pod()),
        shown_in="nodes",
    ),
    "Resources": Situation(
        "The node has too few free GPUs.",
        (node(), queue(), pod("other", gpus=7, at="node-1"), pod(gpus=2)),
        shown_in="nodes",
    ),
    "EvictionDelay": Situation(
        "The job has a preemption delay, so that an autoscaler may add a node first.",
        (node(), queue(quota=8), queue("speech", quota=0),
         pod("other", gpus=8, queue="speech", at="node-1"),
         pod(gpus=8, meta={"annotations": {"kai.scheduler/preemption-delay": "10m"}})),
        shown_in="evictions",
    ),
    "EvictionBudget": Situation(
        "The shard may evict nothing.",
        (shard(evictionsPerHour=0), node(), queue(quota=8), queue("speech", quota=0),
         pod("other", gpus=8, queue="speech", at="node-1"), pod(gpus=8)),
        shown_in="evictions",
    ),
    "DisruptionBudget": Situation(
        "A PodDisruptionBudget protects what runs.",
        (node(), queue(quota=8), queue("speech", quota=0),
         pod("other", gpus=8, queue="speech", at="node-1", labels={"app": "serve"}),
         {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
          "metadata": {"name": "serve", "namespace": "team"},
          "spec": {"selector": {"matchLabels": {"app": "serve"}}, "maxUnavailable": 0},
          "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1,
                     "expectedPods": 1, "observedGeneration": 1}},
         pod(gpus=8)),
        shown_in="evictions",
    ),
    "MinRuntime": Situation(
        "What runs is within its minimum runtime.",
        (node(), queue(quota=8), queue("speech", quota=0, reclaimMinRuntime="4h"),
         pod("other", gpus=8, queue="speech", at="node-1"), pod(gpus=8)),
        "minruntime",
        shown_in="evictions",
    ),
    "OverLimit": Situation(
        "The queue would exceed its limit.",
        (node(), queue(limit=4), pod("other", gpus=3, at="node-1"), pod(gpus=2)),
        "proportion",
    ),
    "NonPreemptibleOverQuota": Situation(
        "The job must not be evicted, and asks for more than the quota.",
        (node(), queue(quota=1),
         pod(gpus=2, labels={"kai.scheduler/preemptibility": "non-preemptible"})),
        "proportion",
    ),
    "OverFairShare": Situation(
        "The job would take its queue over its fair share, and the other queue has its own.",
        (node(), queue(quota=4), queue("speech", quota=4),
         pod("own", gpus=4, at="node-1"), pod("other", gpus=4, queue="speech", at="node-1"),
         pod(gpus=4)),
        "proportion",
        shown_in="evictions",
    ),
    "NoSuchTopology": Situation(
        "The job requires a level of a topology that does not exist.",
        (node(), queue(),
         group(minMember=1, topologyConstraint=within("rack")),
         in_group("mine")),
        "topology",
    ),
    "NoSuchTopologyLevel": Situation(
        "The topology has no level of that name.",
        (node(labels={"rack": "r1"}), queue(),
         RACKS,
         group(minMember=1, topologyConstraint=within("zone")),
         in_group("mine")),
        "topology",
    ),
    "NoDomainHasRoom": Situation(
        "No rack has room for both pods.",
        (node(labels={"rack": "r1"}), node("node-2", labels={"rack": "r2"}), queue(),
         RACKS,
         group(minMember=2, topologyConstraint=within("rack")),
         in_group("mine", gpus=8), in_group("other", gpus=8)),
        "topology",
    ),
    "QuotaExhausted": Situation(
        "Neither the queue nor one that could lend to it has so much quota left.",
        (LENDING, node(), queue("lab", quota=0), queue(parent="lab", quota=2),
         queue("speech", parent="lab", quota=2), pod(gpus=6)),
        "fair-sharing",
    ),
    "OverQueueLimit": Situation(
        "The queue would exceed its limit.",
        (LENDING, node(), queue(quota=8, limit=1), pod(gpus=2)),
        "fair-sharing",
    ),
    "NonPreemptibleBorrows": Situation(
        "The job must not be evicted, and its queue would have to borrow for it.",
        (LENDING, node(), queue("lab", quota=6), queue(parent="lab", quota=2),
         pod(gpus=4, labels={"kai.scheduler/preemptibility": "non-preemptible"})),
        "fair-sharing",
    ),
    "InvalidPodGroup": Situation(
        "A pod names a subgroup that its pod group does not have.",
        (node(), queue(),
         group(subGroups=[{"name": "workers", "minMember": 1}]),
         pod(labels={"kai.scheduler/subgroup-name": "worker"},
             meta={"annotations": {"pod-group-name": "team"}})),
    ),
    "Unsupported": Situation(
        "The pod asks for a part of a GPU in a way that cannot be read.",
        (node(), queue(), pod(gpus=0, meta={"annotations": {"gpu-fraction": "1.5"}})),
    ),
    "NodeSelector": Situation(
        "The node that the pod selects is full, and what runs there must stay.",
        (node(labels={"disk": "ssd"}), node("node-2"), queue(),
         pod("other", gpus=8, at="node-1", nodeSelector={"disk": "ssd"}),
         pod(nodeSelector={"disk": "ssd"})),
        shown_in="nodes",
    ),
    "NodePressure": Situation(
        "The node is short of memory, and takes no pods that ask for none.",
        (node(conditions=[{"type": "MemoryPressure", "status": "True"}]), queue(), pod()),
        shown_in="nodes",
    ),
    "NoVictims": Situation(
        "What may be evicted holds too little.",
        (node(), queue(quota=8), queue("speech", quota=0),
         pod("fixed", gpus=6, queue="speech", at="node-1",
             labels={"kai.scheduler/preemptibility": "non-preemptible"}),
         pod("other", gpus=2, queue="speech", at="node-1"),
         pod(gpus=4)),
        shown_in="evictions",
    ),
    "VolumeClaim": Situation(
        "The pod names a volume claim that does not exist.",
        (node(), queue(), claim("labels", volumeName="", storageClassName="disk"),
         pod(volumes=uses("images"))),
    ),
    "VolumeUnbound": Situation(
        "The volume of the claim is still being made.",
        (node(), queue(), storage_class("Immediate"), claim("images", storageClassName="disk"),
         pod(volumes=uses("images"))),
    ),
    "VolumeInUse": Situation(
        "Another pod uses the claim, which is for one pod at a time.",
        (node(), queue(), storage_class("WaitForFirstConsumer"),
         claim("images", bound=True, volumeName="pv", storageClassName="disk",
             accessModes=["ReadWriteOncePod"]),
         volume(), pod("other", at="node-1", volumes=uses("images")),
         pod(volumes=uses("images"))),
    ),
    "VolumeAffinity": Situation(
        "The volume is in a zone in which no node is.",
        (node(labels={"zone": "a"}), queue(), storage_class("WaitForFirstConsumer"),
         claim("images", bound=True, volumeName="pv", storageClassName="disk"), volume("b"),
         pod(volumes=uses("images"))),
        shown_in="nodes",
    ),
    "NotOverShare": Situation(
        "The queue that holds the GPUs is within its share, and the free ones are elsewhere.",
        (node(labels={"disk": "ssd"}), node("node-2"), queue(quota=8), queue("speech", quota=8),
         pod("other", gpus=8, queue="speech", at="node-1", nodeSelector={"disk": "ssd"}),
         pod(gpus=8, nodeSelector={"disk": "ssd"})),
        "proportion",
        shown_in="evictions",
    ),
    "NoDomainCanBeFreed": Situation(
        "No rack could be cleared for both pods.",
        (node(labels={"rack": "r1"}), node("node-2", labels={"rack": "r2"}), queue(quota=16),
         queue("speech", quota=0),
         RACKS,
         group(minMember=2, topologyConstraint=within("rack")),
         pod("other", gpus=2, queue="speech", at="node-1"),
         in_group("mine", gpus=6), in_group("mine-2", gpus=6)),
        "topology",
        shown_in="evictions",
    ),
    "NotBorrowing": Situation(
        "No queue borrows what the job lacks.",
        (LENDING, node(labels={"disk": "ssd"}), node("node-2"), queue("lab", quota=0),
         queue(parent="lab", quota=8, preemption={"reclaimWithinCohort": "Any"}),
         queue("speech", parent="lab", quota=8),
         pod("other", gpus=8, queue="speech", at="node-1", nodeSelector={"disk": "ssd"}),
         pod(gpus=8, nodeSelector={"disk": "ssd"})),
        "fair-sharing",
        shown_in="evictions",
    ),
    "PreemptionPolicy": Situation(
        "The queue of the job takes nothing back from others.",
        (LENDING, node(), queue("lab", quota=0),
         queue(parent="lab", quota=8, preemption={"reclaimWithinCohort": "Never"}),
         queue("speech", parent="lab", quota=0),
         pod("other", gpus=8, queue="speech", at="node-1"), pod(gpus=8)),
        "fair-sharing",
        shown_in="evictions",
    ),
    "NoNodeOfFlavor": Situation(
        "No node has the labels of the flavor.",
        (LENDING, node(), queue(flavors=[
            {"name": "h100", "nodeLabels": {"card": "h100"},
             "resources": {"gpu": {"quota": 8}}}]), pod()),
        "fair-sharing",
    ),
    "NoMatchingFlavor": Situation(
        "The pod selects nodes that no flavor of its queue has.",
        (LENDING, node(labels={"card": "h100"}), queue(flavors=[
            {"name": "h100", "nodeLabels": {"card": "h100"},
             "resources": {"gpu": {"quota": 8}}}]), pod(nodeSelector={"card": "l4"})),
        "fair-sharing",
    ),
    "FlavorQuotaTooSmall": Situation(
        "The job asks for more than its queue could ever have of the flavor.",
        (LENDING, node(labels={"card": "h100"}), queue(flavors=[
            {"name": "h100", "nodeLabels": {"card": "h100"},
             "resources": {"gpu": {"quota": 2}}}]), pod(gpus=4)),
        "fair-sharing",
    ),
    "SchedulingGated": Situation(
        "The pod has a scheduling gate, which its owner has not removed.",
        (node(), queue(), pod(schedulingGates=[{"name": "example.com/quota"}])),
        shown_in="pods",
    ),
    "HostPortLeaving": Situation(
        "A pod that is being deleted still uses the host port, on a node among others.",
        (node(labels={"disk": "ssd"}), node("node-2", gpus=0), queue(),
         pod("other", at="node-1", main={"ports": [{"containerPort": 80, "hostPort": 80}]},
             meta={"deletionTimestamp": "2026-01-05T08:00:20Z", "deletionGracePeriodSeconds": 30}),
         pod("more", gpus=7, at="node-1"),
         pod(gpus=2, main={"ports": [{"containerPort": 80, "hostPort": 80}]})),
        shown_in="nodes",
    ),
    "Devices": Situation(
        "The node has one device for claims, and the claim is on two.",
        (node(gpus=0), *devices(1), queue(), resource_claim(2), with_claim()),
        shown_in="nodes",
    ),
    "DeviceClaim": Situation(
        "The claim is on a class of devices that does not exist.",
        (node(gpus=0), *devices(1), queue(), resource_claim(1, "tpu.example.com"), with_claim()),
    ),
}  # fmt: skip
ELSEWHERE = {
    "It takes several cycles, or what only a running scheduler knows.": (
        "Backoff", "DevicesLeaving", "NotWorthIt", "OpenedSince", "OthersTimeSlice",
        "OwnerNotRead", "PutOff", "SearchBudget", "TakingTurns", "WouldComeBack",
    ),
    "A plugin or an action has to fail, or a plugin of others has to refuse.": (
        "ActionFailed", "Plugin", "PluginFailed",
    ),
    "They need GPU instances, claims whose devices are elsewhere, or sets of nodes.": (
        "DevicePlace", "MigByAnnotation", "OutsideNodeSet",
    ),
    "They are named while victims are chosen among many jobs, where no other reason is closer.": (
        "EvictionsPreferred", "HigherShare", "OtherTree", "QuotaAlone", "SaturationOrder",
        "TakesNothingToBorrow", "TriedByInitialShare", "TriedInAnotherWay", "Undershoots",
        "WouldBeOvertaken",
    ),
}  # fmt: skip
"""Reasons without a situation, by why they have none."""
