"""The reasons why a job, a task or a node is refused: those of the host, and those of plugins.

A "no" is a value: hooks answer int16 codes, 0 meaning yes. Each code has one name users see and
one sentence, and says whether freeing room could cure it (then victims may be searched) or not.
What jobs and nodes are refused for under any policy is a :class:`Refusal`; a plugin declares the
reasons of its own as :class:`PluginRefusal`, which are numbered as they are loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Self


class Refusal(IntEnum):
    """The host's reasons to refuse. 0 is reserved for "no objection"."""

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
    OPENED_SINCE = 13
    # the nodes, together
    EXCEEDS_ANY_NODE = 30
    NO_NODE_ALLOWED = 31
    NO_ROOM = 32
    GANG_NO_ROOM = 33
    WAITING_FOR_RELEASE = 34
    ROOM_HELD = 35
    # what others hold
    NO_VICTIMS = 40
    CYCLE_EVICTIONS = 41
    NEVER_PREEMPTING = 42
    EVICTION_DELAY = 44
    SEARCH_BUDGET = 45
    DEVICES_OVER_SHARE = 46
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
    MIG_BY_ANNOTATION = 67
    OUTSIDE_NODE_SET = 68
    DEVICES = 69
    DEVICES_LEAVING = 70
    DEVICE_CLAIM = 71
    DEVICE_PLACE = 72
    NODE_TYPE = 73
    QUEUE_NODE_AFFINITY = 74
    BY_CLAIM_ONLY = 75
    TOPOLOGY_SPREAD = 76
    TOPOLOGY_LABEL = 77
    POD_ANTI_AFFINITY_LEAVING = 78
    # plugins
    PLUGIN = 90
    """A third-party policy refuses; the record names the plugin."""
    PLUGIN_FAILED = 91
    ACTION_FAILED = 92


@dataclass(frozen=True, slots=True)
class RefusalText:
    """The name, sentence and cure of a code, as users see them."""

    name: str
    """The name that users see, in CamelCase."""
    sentence: str
    cure: str
    """What a user can do about it."""
    is_freeable: bool = False
    """True when room that other jobs give back could cure it."""
    tried: tuple[str, ...] = ()
    """Kinds of change that are proposed to a job that waits for this reason."""
    is_retried: bool = False
    """True when a victim that it spares may be taken in the next pass of the search."""
    is_weak: bool = False
    """True when any other reason to spare victims is more informative."""
    is_passing: bool = False
    """True when it keeps a pod from a node only until a leaving pod is gone: room there may be
    promised to it."""
    is_lasting: bool = False
    """True when neither the end nor the start of other work could lift it: a job with a list of
    node pools goes on at once, and a node refused for it is out even if nothing runs."""
    plugin: str = ""
    """The plugin whose reason it is; empty for the host's."""


# -- reasons of plugins ----------------------------------------------------------------------------

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
        "SchedulingGated",
        "its pods have scheduling gates, or could not be bound a moment ago",
        "Remove the scheduling gates; the condition of a pod without gates says why it could not be"
        " bound.",
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
    Refusal.NEVER_PREEMPTING: RefusalText(
        "NeverPreempting",
        "nothing is evicted for it: a pod of it or its priority class has preemptionPolicy: Never",
        "Wait, or name a priority class whose `preemptionPolicy` is `PreemptLowerPriority`.",
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
        "Wait, or let the PodDisruptionBudget allow more disruptions, or the shard's"
        " `disruptionBudgets` protect less.",
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
    Refusal.POD_ANTI_AFFINITY_LEAVING: RefusalText(
        "PodAntiAffinityLeaving",
        "pod anti-affinity forbids it until a pod that is leaving is gone",
        "Nothing: the pod is being deleted.",
        is_freeable=True,
        is_passing=True,
    ),
    Refusal.TOPOLOGY_SPREAD: RefusalText(
        "TopologySpread",
        "one more pod there would be spread too unevenly",
        "Make room in the domains with the fewest pods, or allow a larger maxSkew.",
        is_freeable=True,
    ),
    Refusal.TOPOLOGY_LABEL: RefusalText(
        "TopologyLabel",
        "node lacks the label of a topology spread constraint",
        "Label the node, or spread over another label.",
        is_lasting=True,
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


__all__ = [
    "FIRST_OF_PLUGINS",
    "PASSING",
    "TEXTS",
    "PluginRefusal",
    "Refusal",
    "RefusalText",
    "code_named",
    "freeable_codes",
    "highest_code",
    "lasting_codes",
    "text_of",
]


class PluginRefusal(int):
    """A plugin's own reason: the code that its gates and filters answer, with its text.

    Made once, when a module of the plugin is imported, and listed in the plugin's ``refusals``.
    The codes are numbered per process, in the order of loading: they must not be stored.
    """

    text: RefusalText

    def __new__(
        cls,
        name: str,
        sentence: str,
        *,
        cure: str,
        is_freeable: bool = False,
        tried: tuple[str, ...] = (),
        is_retried: bool = False,
        is_weak: bool = False,
        is_lasting: bool = False,
    ) -> Self:
        """Declare a new reason and number it.

        Args:
            name: the name that users see, in CamelCase, unique in the host and the plugin.
            sentence: the reason; used if the plugin gives no sentence with numbers.
            cure: what a user can do about it.
            is_freeable: room that other jobs give back could cure it.
            tried: the kinds of change that the plugin's ``proposals`` may name for it.
            is_retried: a victim that it spares may be taken in the next pass of the search.
            is_weak: any other reason to spare victims is more informative.
            is_lasting: neither the end nor the start of other work could lift it.

        """
        made = super().__new__(cls, FIRST_OF_PLUGINS + len(_OF_PLUGINS))
        made.text = RefusalText(
            name, sentence, cure, is_freeable, tried, is_retried, is_weak, is_lasting=is_lasting
        )
        _OF_PLUGINS.append(made)
        return made

    def claim(self, plugin: str) -> None:
        """Assign the refusal to a plugin.

        Raises:
            ValueError: it belongs to another plugin.

        """
        if self.text.plugin not in ("", plugin):
            raise ValueError(f"refusal {self.text.name} is listed by plugin {self.text.plugin} too")
        self.text = replace(self.text, plugin=plugin)


FIRST_OF_PLUGINS: Final = 1000
_OF_PLUGINS: Final[list[PluginRefusal]] = []
_CODE_OF_NAME: Final = {text.name: int(code) for code, text in TEXTS.items()}
PASSING: Final = tuple(int(code) for code, text in TEXTS.items() if text.is_passing)
"""Codes of the host that end once a leaving pod is gone."""


def text_of(code: int) -> RefusalText:
    """Return the text of a code; an undeclared code counts as a plugin's without a text."""
    if (known := TEXTS.get(code)) is not None:
        return known
    at = code - FIRST_OF_PLUGINS
    return _OF_PLUGINS[at].text if 0 <= at < len(_OF_PLUGINS) else TEXTS[Refusal.PLUGIN]


def code_named(name: str, plugin: str = "") -> int:
    """Return the code of a name among a plugin's, or the host's; 0 if there is none."""
    if not plugin:
        return _CODE_OF_NAME.get(name, 0)
    own = (int(it) for it in _OF_PLUGINS if (it.text.plugin, it.text.name) == (plugin, name))
    return next(own, _CODE_OF_NAME.get(name, 0))


def highest_code() -> int:
    """Return the largest code in use."""
    return int(_OF_PLUGINS[-1]) if _OF_PLUGINS else int(max(Refusal))


def freeable_codes() -> list[int]:
    """Return the codes that freed room could cure, including those of loaded plugins."""
    own = [int(each) for each in _OF_PLUGINS if each.text.is_freeable]
    return [int(code) for code, text in TEXTS.items() if text.is_freeable] + own


def lasting_codes() -> list[int]:
    """Return the codes that no other work could lift, including those of loaded plugins."""
    own = [int(each) for each in _OF_PLUGINS if each.text.is_lasting]
    return [int(code) for code, text in TEXTS.items() if text.is_lasting] + own
