"""The host's reasons to refuse by number, and what a reason tells users."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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
