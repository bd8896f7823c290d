"""The closed list of reasons why a job, a task or a node is refused.

A "no" is a value: hooks answer int16 codes, 0 meaning yes. Each code has one name users see, one
sentence, and says whether freeing room could cure it (then victims may be searched) or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Refusal(IntEnum):
    """Why not. 0 is reserved for "no objection"."""

    NONE = 0
    # the job as such
    QUEUE_MISSING = 1
    QUEUE_ORPHAN = 2
    QUEUE_NOT_LEAF = 3
    INVALID_GROUP = 4
    GANG_INCOMPLETE = 5
    SCHEDULING_GATED = 6
    UNSUPPORTED = 7
    BACKOFF = 8
    QUEUE_DEPTH = 9
    NOT_TRIED = 10
    QUEUE_ON_HOLD = 11
    PUT_OFF = 12
    # the queue
    OVER_LIMIT = 20
    NON_PREEMPTIBLE_OVER_QUOTA = 21
    OVER_FAIR_SHARE = 22
    OTHERS_SPELL = 23
    NOT_WORTH_IT = 24
    # the nodes, together
    EXCEEDS_ANY_NODE = 30
    NO_NODE_ALLOWED = 31
    NO_ROOM = 32
    GANG_NO_ROOM = 33
    WAITING_FOR_RELEASE = 34
    # what others hold
    NO_VICTIMS = 40
    NOT_OVER_SHARE = 41
    SATURATION_ORDER = 42
    MIN_RUNTIME = 43
    EVICTION_DELAY = 44
    SEARCH_BUDGET = 45
    UNDERSHOOTS = 46
    EVICTION_BUDGET = 47
    DISRUPTION_BUDGET = 48
    TAKING_TURNS = 49
    # one node
    NODE_NOT_READY = 50
    NODE_UNSCHEDULABLE = 51
    TAINT = 52
    NODE_SELECTOR = 53
    NODE_AFFINITY = 54
    POD_AFFINITY = 55
    POD_ANTI_AFFINITY = 56
    HOST_PORT = 57
    POD_SLOTS = 58
    RESOURCES = 59
    NODE_PRESSURE = 60
    VOLUME_CLAIM = 61
    VOLUME_UNBOUND = 62
    VOLUME_IN_USE = 63
    VOLUME_AFFINITY = 64
    OWNER_NOT_READ = 65
    HOST_PORT_LEAVING = 66
    # plugins
    PLUGIN = 90
    """A third party's policy says no; the record names the plugin."""
    PLUGIN_FAILED = 91
    ACTION_FAILED = 92


@dataclass(frozen=True, slots=True)
class RefusalText:
    """What a code means to people."""

    name: str
    sentence: str
    is_freeable: bool
    """True when room given back by others could cure it."""


TEXTS: Final[dict[Refusal, RefusalText]] = {
    code: RefusalText(name, sentence, is_freeable)
    for code, name, sentence, is_freeable in (
        (Refusal.QUEUE_MISSING, "QueueDoesNotExist", "its queue does not exist", False),
        (
            Refusal.QUEUE_ORPHAN,
            "QueueOrphan",
            "its queue has no parents up to a root",
            False,
        ),
        (Refusal.QUEUE_NOT_LEAF, "QueueNotLeaf", "its queue has children", False),
        (Refusal.INVALID_GROUP, "InvalidPodGroup", "its pod group is not valid", False),
        (Refusal.GANG_INCOMPLETE, "GangIncomplete", "fewer pods than its minimum exist", False),
        (Refusal.SCHEDULING_GATED, "SchedulingGated", "its pods have scheduling gates", False),
        (Refusal.UNSUPPORTED, "Unsupported", "it asks for something not offered", False),
        (Refusal.BACKOFF, "Backoff", "it failed before and nothing has changed since", False),
        (Refusal.QUEUE_DEPTH, "QueueDepth", "its queue's depth for this action is reached", False),
        (Refusal.NOT_TRIED, "NotTried", "no action of this cycle tried it", False),
        (Refusal.QUEUE_ON_HOLD, "QueueOnHold", "its queue is on hold", False),
        (
            Refusal.PUT_OFF,
            "PutOff",
            "too many different jobs of its queue wait; its turn comes in a later cycle",
            False,
        ),
        (Refusal.OVER_LIMIT, "OverLimit", "it would take a queue over its limit", False),
        (
            Refusal.NON_PREEMPTIBLE_OVER_QUOTA,
            "NonPreemptibleOverQuota",
            "non-preemptible work must stay within the quota",
            False,
        ),
        (
            Refusal.OVER_FAIR_SHARE,
            "OverFairShare",
            "it would take its queue over its fair share",
            False,
        ),
        (
            Refusal.OTHERS_SPELL,
            "OthersSpell",
            "room is kept for another job, whose spell it is",
            False,
        ),
        (
            Refusal.NOT_WORTH_IT,
            "NotWorthIt",
            "past usage owes its queue less than an eviction would cost",
            False,
        ),
        (Refusal.EXCEEDS_ANY_NODE, "ExceedsAnyNode", "a pod is larger than every node", False),
        (Refusal.NO_NODE_ALLOWED, "NoNodeAllowed", "no node may take its pods", False),
        (Refusal.NO_ROOM, "NoRoom", "no allowed node has room", True),
        (Refusal.GANG_NO_ROOM, "GangNoRoom", "only part of the gang has room", True),
        (Refusal.WAITING_FOR_RELEASE, "WaitingForRelease", "its room is being released", False),
        (Refusal.NO_VICTIMS, "NoVictims", "no work that may be evicted would make room", True),
        (
            Refusal.NOT_OVER_SHARE,
            "NotOverShare",
            "the queue that holds it is within its share",
            True,
        ),
        (
            Refusal.SATURATION_ORDER,
            "SaturationOrder",
            "the taker would be as saturated as the queue it takes from",
            True,
        ),
        (Refusal.MIN_RUNTIME, "MinRuntime", "it has not run for its minimum runtime", True),
        (Refusal.EVICTION_DELAY, "EvictionDelay", "its preemption delay is not over", True),
        (Refusal.SEARCH_BUDGET, "SearchBudget", "the search for victims was cut short", True),
        (
            Refusal.UNDERSHOOTS,
            "Undershoots",
            "its queue would be left with less than it deserves",
            True,
        ),
        (
            Refusal.EVICTION_BUDGET,
            "EvictionBudget",
            "the shard may not evict so many pods within the hour",
            True,
        ),
        (
            Refusal.DISRUPTION_BUDGET,
            "DisruptionBudget",
            "the work that would make room is protected by a disruption budget",
            True,
        ),
        (
            Refusal.TAKING_TURNS,
            "TakingTurns",
            "what was evicted has come back and would go again, until any change, or ten minutes",
            True,
        ),
        (Refusal.NODE_NOT_READY, "NodeNotReady", "node is not ready", False),
        (Refusal.NODE_UNSCHEDULABLE, "NodeUnschedulable", "node is cordoned", False),
        (Refusal.TAINT, "Taint", "untolerated taint", False),
        (Refusal.NODE_SELECTOR, "NodeSelector", "node selector does not match", False),
        (Refusal.NODE_AFFINITY, "NodeAffinity", "node affinity does not match", False),
        (Refusal.POD_AFFINITY, "PodAffinity", "pod affinity is not met", False),
        (Refusal.POD_ANTI_AFFINITY, "PodAntiAffinity", "pod anti-affinity forbids it", True),
        (Refusal.HOST_PORT, "HostPort", "host port is in use", True),
        (
            Refusal.HOST_PORT_LEAVING,
            "HostPortLeaving",
            "a pod that is leaving still uses the host port",
            True,
        ),
        (Refusal.POD_SLOTS, "PodSlots", "too many pods", True),
        (Refusal.RESOURCES, "Resources", "insufficient resources", True),
        (Refusal.NODE_PRESSURE, "NodePressure", "node is under pressure", False),
        (Refusal.VOLUME_CLAIM, "VolumeClaim", "a volume claim cannot be used", False),
        (Refusal.VOLUME_UNBOUND, "VolumeUnbound", "a volume claim has no volume yet", False),
        (Refusal.VOLUME_IN_USE, "VolumeInUse", "another pod uses a volume claim", False),
        (Refusal.VOLUME_AFFINITY, "VolumeAffinity", "a volume cannot be used there", False),
        (Refusal.OWNER_NOT_READ, "OwnerNotRead", "its owner is not read yet", False),
        (Refusal.PLUGIN, "Plugin", "a plugin refused it", False),
        (Refusal.PLUGIN_FAILED, "PluginFailed", "a plugin failed", False),
        (Refusal.ACTION_FAILED, "ActionFailed", "an action failed on it", False),
    )
}

PASSING: Final = frozenset({Refusal.HOST_PORT_LEAVING})
"""Codes that keep a pod from a node only until what is leaving has left: it may be promised."""
