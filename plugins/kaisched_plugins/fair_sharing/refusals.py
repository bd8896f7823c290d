"""What fair-sharing refuses for: room in the tree of quotas, policies, and the order of shares."""

from __future__ import annotations

from typing import Final

from kaisched import PluginRefusal

NO_ROOM: Final = PluginRefusal(
    "QuotaExhausted",
    "neither its queue nor any that could lend to it has so much quota left",
    cure="Wait, raise the quota or the borrowing limit, or let others lend more.",
    is_freeable=True,
    tried=("quota", "end"),
)
OVER_LIMIT: Final = PluginRefusal(
    "OverQueueLimit",
    "it would take a queue over its limit",
    cure="Raise the queue's limit, or let its work end.",
    is_freeable=True,
    tried=("limit", "end"),
)
STRICT: Final = PluginRefusal(
    "NonPreemptibleBorrows",
    "non-preemptible work must not borrow",
    cure="Raise the quota, or make the job preemptible.",
    tried=("quota", "preemptible", "end"),
)
NO_FLAVOR: Final = PluginRefusal(
    "NoMatchingFlavor",
    "its pods may be on the nodes of no flavor of its queue",
    cure="Select nodes of a flavor of the queue, or add the flavor to it.",
)
NO_NODES: Final = PluginRefusal(
    "NoNodeOfFlavor",
    "no node has the labels of a flavor of its queue",
    cure="Label nodes so, add such nodes, or correct the labels of the flavor.",
)
TOO_LARGE: Final = PluginRefusal(
    "FlavorQuotaTooSmall",
    "it asks for more of each flavor than its queue could ever have",
    cure="Ask for less, or raise the quota or the borrowing limit.",
    tried=("quota",),
)
EVICTIONS_FIRST: Final = PluginRefusal(
    "EvictionsPreferred",
    "its queue prefers evictions in one flavor to room in another",
    cure="Wait, or leave out `whenCanPreempt` and `preference` of its queue's `flavorFungibility`.",
    is_freeable=True,
)
OTHER_TREE: Final = PluginRefusal(
    "OtherTree",
    "the queue that holds it is under another top-level queue",
    cure="Put both queues below one.",
    is_weak=True,
)
POLICY: Final = PluginRefusal(
    "PreemptionPolicy",
    "the preemption policy of the job's queue does not let it take from others",
    cure="Let `spec.preemption` of the job's queue allow it, or wait.",
    is_freeable=True,
)
NOT_BORROWING: Final = PluginRefusal(
    "NotBorrowing",
    "no queue that borrows what it lacks has work that it may take",
    cure="Wait, or raise the quota of the job's queue.",
    is_freeable=True,
    tried=("quota",),
)
HIGHER_SHARE: Final = PluginRefusal(
    "HigherShare",
    "what its share lets it take does not make room",
    cure="Wait, or raise the quota or the weight of the job's queue.",
    is_freeable=True,
    tried=("quota",),
)
BY_QUOTA: Final = PluginRefusal(
    "QuotaAlone",
    "what quota and priority let it take does not make room",
    cure="Wait, raise the quota of the job's queue, or let its tree share fairly.",
    is_freeable=True,
    tried=("quota",),
)
BORROWS: Final = PluginRefusal(
    "TakesNothingToBorrow",
    "its queue would borrow for it, and takes nothing for that",
    cure="Wait, raise the quota, or let `borrowWithinCohort` of the job's queue allow it.",
    is_freeable=True,
    tried=("quota",),
)
NEXT_WAY: Final = PluginRefusal(
    "TriedInAnotherWay",
    "in one of the ways in which its queue may take, too little would go",
    cure="Nothing: the next way is tried.",
    is_freeable=True,
    is_retried=True,
)
LATER: Final = PluginRefusal(
    "TriedByInitialShare",
    "by the first strategy of the shard too little would go",
    cure="Nothing: the second strategy is asked next.",
    is_freeable=True,
    is_retried=True,
)
COMES_BACK: Final = PluginRefusal(
    "WouldComeBack",
    "what it would displace would come before it again",
    cure="Wait, or raise the quota or the weight of the job's queue.",
    is_freeable=True,
    tried=("quota",),
)
OVERTAKEN: Final = PluginRefusal(
    "WouldBeOvertaken",
    "a waiting job of another queue would come before it, and take the place",
    cure="Wait for the other job, or raise the quota or the weight of the job's queue.",
    is_freeable=True,
    tried=("quota",),
)
ALL: Final = (
    NO_ROOM,
    OVER_LIMIT,
    STRICT,
    NO_FLAVOR,
    NO_NODES,
    TOO_LARGE,
    EVICTIONS_FIRST,
    OTHER_TREE,
    POLICY,
    NOT_BORROWING,
    HIGHER_SHARE,
    BY_QUOTA,
    BORROWS,
    NEXT_WAY,
    LATER,
    COMES_BACK,
    OVERTAKEN,
)
