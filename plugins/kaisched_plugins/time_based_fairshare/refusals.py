"""The refusals of time-based-fairshare: other jobs' time slices, and evictions not worth it."""

from __future__ import annotations

from typing import Final

from kaisched import PluginRefusal

OTHERS_SLICE: Final = PluginRefusal(
    "OthersTimeSlice",
    "room is kept for another job, whose time slice it is",
    cure="Nothing: it waits for its share, or until that job has started.",
)
NOT_WORTH_IT: Final = PluginRefusal(
    "NotWorthIt",
    "past usage owes its queue less than an eviction would cost",
    cure="Wait: its queue is owed more with time. Or raise its quota, or lower `evictionCost`.",
    tried=("quota",),
)
