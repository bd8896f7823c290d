"""The texts of the host's reasons to refuse: for each a name, a sentence and a cure."""

from __future__ import annotations

from typing import Final

from kaisched.core.refusal_codes import Refusal, RefusalText

_ROOM: Final = ("time", "nodes", "end", "minimum", "selector", "tolerations")
TEXTS: Final[dict[int, RefusalText]] = {
    Refusal.QUEUE_MISSING: RefusalText(
        "QueueDoesNotExist",
        "its queue does not exist",
        "Create or correct the queue, or name one that exists.",
        is_lasting=True,
    ),
    Refusal.QUEUE_ORPHAN: RefusalText(
        "QueueOrphan",
        "its queue has no parents up to a root",
        "Create or correct the parent, or break the cycle: the record says which.",
        is_lasting=True,
    ),
    Refusal.QUEUE_NOT_LEAF: RefusalText(
        "QueueNotLeaf", "its queue has children", "Name a queue without children.", is_lasting=True
    ),
    Refusal.INVALID_GROUP: RefusalText(
        "InvalidPodGroup",
        "its pod group is not valid",
        "Correct the pod group; its event says what is wrong.",
    ),
    Refusal.GANG_INCOMPLETE: RefusalText(
        "GangIncomplete",
        "fewer pods than its minimum exist",
        "Create the missing pods, or lower the minimum.",
        tried=("minimum",),
    ),
    Refusal.SCHEDULING_GATED: RefusalText(
        "SchedulingGated", "its pods have scheduling gates", "Remove the scheduling gates."
    ),
    Refusal.UNSUPPORTED: RefusalText(
        "Unsupported",
        "it asks for something not offered",
        "Leave out what is not offered; the record says what.",
        is_lasting=True,
    ),
    Refusal.BACKOFF: RefusalText(
        "Backoff",
        "it failed before and nothing has changed since",
        "Nothing: it is tried again when something changes.",
    ),
    Refusal.QUEUE_DEPTH: RefusalText(
        "QueueDepth",
        "its queue's depth for this action is reached",
        "Raise `queueDepthPerAction`, or wait for the jobs ahead.",
    ),
    Refusal.NOT_TRIED: RefusalText(
        "NotTried", "no action of this cycle tried it", "Enable an action that would try it."
    ),
    Refusal.QUEUE_ON_HOLD: RefusalText(
        "QueueOnHold",
        "its queue is on hold",
        "Remove `stopPolicy` from the queue, or from the queue above that has it.",
    ),
    Refusal.PUT_OFF: RefusalText(
        "PutOff",
        "too many different jobs of its queue wait; its turn comes in a later cycle",
        "Nothing: it is tried in turn. Fewer different requests and constraints help.",
    ),
    Refusal.OPENED_SINCE: RefusalText(
        "OpenedSince",
        "its queue has room for it since this cycle evicted others; the next cycle tries it",
        "Nothing: the next cycle tries it.",
    ),
    Refusal.EXCEEDS_ANY_NODE: RefusalText(
        "ExceedsAnyNode",
        "a pod is larger than every node",
        "Ask for less in one pod, or add larger nodes.",
        tried=("nodes",),
        is_lasting=True,
    ),
    Refusal.NO_NODE_ALLOWED: RefusalText(
        "NoNodeAllowed",
        "no node may take its pods",
        "Relax selectors and affinity, tolerate the taints, or label nodes as is asked for.",
        tried=("selector", "tolerations"),
        is_lasting=True,
    ),
    Refusal.NO_ROOM: RefusalText(
        "NoRoom",
        "no allowed node has room",
        "Wait, ask for less, or add nodes.",
        is_freeable=True,
        tried=_ROOM,
    ),
    Refusal.GANG_NO_ROOM: RefusalText(
        "GangNoRoom",
        "only part of the gang has room",
        "Wait, lower the minimum, or add nodes.",
        is_freeable=True,
        tried=_ROOM,
    ),
    Refusal.WAITING_FOR_RELEASE: RefusalText(
        "WaitingForRelease",
        "its room is being released",
        "Nothing: its room is promised; its pods start once enough others have left.",
    ),
    Refusal.ROOM_HELD: RefusalText(
        "RoomHeld",
        "room that it could have is held in this cycle for a job that was promised it",
        "Nothing: the next cycle tries it.",
    ),
    Refusal.NO_VICTIMS: RefusalText(
        "NoVictims",
        "no work that may be evicted would make room",
        "Wait, ask for less, or let other work be preemptible.",
        is_freeable=True,
    ),
    Refusal.EVICTION_DELAY: RefusalText(
        "EvictionDelay",
        "its preemption delay is not over",
        "Wait for the delay to pass, or lower it on the job.",
        is_freeable=True,
    ),
    Refusal.SEARCH_BUDGET: RefusalText(
        "SearchBudget",
        "the search for victims was cut short",
        "Nothing: the next cycle searches again.",
        is_freeable=True,
    ),
    Refusal.EVICTION_BUDGET: RefusalText(
        "EvictionBudget",
        "the shard may not evict so many pods within the hour",
        "Wait, or raise the shard's `evictionsPerHour`.",
        is_freeable=True,
    ),
    Refusal.CYCLE_EVICTIONS: RefusalText(
        "CycleEvictions",
        "the cycle has evicted as many pods as one may, before it came to this job",
        "Nothing: the next cycle goes on at once. The shard's `maxEvictionsPerCycle` is the most.",
        is_freeable=True,
    ),
    Refusal.DISRUPTION_BUDGET: RefusalText(
        "DisruptionBudget",
        "the work that would make room is protected by a disruption budget",
        "Wait, or let the PodDisruptionBudget allow more disruptions.",
        is_freeable=True,
    ),
    Refusal.TAKING_TURNS: RefusalText(
        "TakingTurns",
        "the work evicted for it has come back, and may go again after a change or ten minutes",
        "Set a minimum runtime; it is tried again when something changes.",
        is_freeable=True,
    ),
    Refusal.DEVICES_OVER_SHARE: RefusalText(
        "DevicesOverShare",
        "its claims would get more GPUs than they count for, and than its queue may take",
        "Let its claims ask for a fixed number of devices, or raise the quota of its queue.",
        is_freeable=True,
    ),
    Refusal.NODE_NOT_READY: RefusalText(
        "NodeNotReady", "node is not ready", "Bring the node back.", is_lasting=True
    ),
    Refusal.NODE_UNSCHEDULABLE: RefusalText(
        "NodeUnschedulable", "node is cordoned", "Uncordon the node.", is_lasting=True
    ),
    Refusal.TAINT: RefusalText("Taint", "untolerated taint", "Tolerate it.", is_lasting=True),
    Refusal.NODE_SELECTOR: RefusalText(
        "NodeSelector",
        "node selector does not match",
        "Label the node, or select otherwise.",
        is_lasting=True,
    ),
    Refusal.NODE_AFFINITY: RefusalText(
        "NodeAffinity",
        "node affinity does not match",
        "Label the node, or require otherwise.",
        is_lasting=True,
    ),
    Refusal.NODE_TYPE: RefusalText(
        "NodeType",
        "node is not of the type asked for",
        "Label the node, or ask for another type.",
        is_lasting=True,
    ),
    Refusal.QUEUE_NODE_AFFINITY: RefusalText(
        "QueueNodeAffinity",
        "node affinity of the queue does not match",
        "Label the node, or change nodeAffinity of the queue.",
        is_lasting=True,
    ),
    Refusal.POD_AFFINITY: RefusalText(
        "PodAffinity", "pod affinity is not met", "Place the pods that it wants to be near."
    ),
    Refusal.POD_ANTI_AFFINITY: RefusalText(
        "PodAntiAffinity",
        "pod anti-affinity forbids it",
        "End the pods to which it has anti-affinity.",
        is_freeable=True,
    ),
    Refusal.HOST_PORT: RefusalText(
        "HostPort",
        "host port is in use",
        "Use another port, or let its holder end.",
        is_freeable=True,
    ),
    Refusal.HOST_PORT_LEAVING: RefusalText(
        "HostPortLeaving",
        "a pod that is leaving still uses the host port",
        "Nothing: the pod that uses the port is being deleted.",
        is_freeable=True,
        is_passing=True,
    ),
    Refusal.MIG_BY_ANNOTATION: RefusalText(
        "MigByAnnotation",
        "a pod took MIG instances there by annotation, unseen by the device plugin",
        "End the pod that took them, or let it ask for them as a resource.",
    ),
    Refusal.DEVICES: RefusalText(
        "Devices",
        "too few devices are free for its claims",
        "Let pods with claims end, ask for less, or add devices.",
        is_freeable=True,
    ),
    Refusal.DEVICES_LEAVING: RefusalText(
        "DevicesLeaving",
        "a pod that is leaving still has devices for its claims",
        "Nothing: the pod that has the devices is being deleted.",
        is_freeable=True,
        is_passing=True,
    ),
    Refusal.DEVICE_CLAIM: RefusalText(
        "DeviceClaim",
        "a claim on devices cannot be allocated",
        "Correct the claim, its device class or its slices; the record says what is wrong.",
    ),
    Refusal.DEVICE_PLACE: RefusalText(
        "DevicePlace",
        "the devices of its claim cannot be used there",
        "Nothing: the claim has its devices, and the node is out of their reach.",
    ),
    Refusal.BY_CLAIM_ONLY: RefusalText(
        "ByClaimOnly",
        "what it asks for is given there by claims only",
        "Ask for it by a claim, or by a resource that a DeviceClass backs.",
    ),
    Refusal.POD_SLOTS: RefusalText(
        "PodSlots",
        "too many pods",
        "Let pods end, or raise the node's `maxPods`.",
        is_freeable=True,
    ),
    Refusal.RESOURCES: RefusalText(
        "Resources", "insufficient resources", "Let pods end, or ask for less.", is_freeable=True
    ),
    Refusal.NODE_PRESSURE: RefusalText(
        "NodePressure", "node is under pressure", "Free the node's memory, disk or processes."
    ),
    Refusal.VOLUME_CLAIM: RefusalText(
        "VolumeClaim",
        "a volume claim cannot be used",
        "Make the claim or its volume; the record says which.",
    ),
    Refusal.VOLUME_UNBOUND: RefusalText(
        "VolumeUnbound",
        "a volume claim has no volume yet",
        "Wait for the volume, or correct the claim or its storage class.",
    ),
    Refusal.VOLUME_IN_USE: RefusalText(
        "VolumeInUse",
        "another pod uses a volume claim",
        "Wait for the pod that uses the claim, or claim another volume.",
    ),
    Refusal.OUTSIDE_NODE_SET: RefusalText("OutsideNodeSet", "in another set of nodes", "Nothing."),
    Refusal.VOLUME_AFFINITY: RefusalText(
        "VolumeAffinity",
        "a volume cannot be used there",
        "Nothing: the node is out of the volume's reach.",
    ),
    Refusal.OWNER_NOT_READ: RefusalText(
        "OwnerNotRead",
        "its owner is not read yet",
        "Make the owner's kind served and readable: see `kaisched doctor`.",
    ),
    Refusal.PLUGIN: RefusalText(
        "Plugin", "a plugin refused it", "Ask the owner of the plugin that the record names."
    ),
    Refusal.PLUGIN_FAILED: RefusalText(
        "PluginFailed", "a plugin failed", "Fix or disable the plugin that the record names."
    ),
    Refusal.ACTION_FAILED: RefusalText(
        "ActionFailed",
        "an action failed on it",
        "Report the log line `action_failed`; other jobs are not affected.",
    ),
}
"""The refusals of the host, by code."""
