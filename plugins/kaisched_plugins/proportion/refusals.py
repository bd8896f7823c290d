"""The refusals of proportion: limits, quotas, fair shares, and the order of saturation."""

from __future__ import annotations

from typing import Final

from kaisched import PluginRefusal

OVER_LIMIT: Final = PluginRefusal(
    "OverLimit",
    "it would take a queue over its limit",
    cure="Raise the queue's limit, or let its work end.",
    tried=("limit", "end"),
)
OVER_QUOTA: Final = PluginRefusal(
    "NonPreemptibleOverQuota",
    "non-preemptible work must stay within the quota",
    cure="Raise the quota, or make the job preemptible.",
    tried=("quota", "preemptible", "end"),
)
OVER_FAIR_SHARE: Final = PluginRefusal(
    "OverFairShare",
    "it would take its queue over its fair share",
    cure="Wait for the queue's own work to end, or raise its quota or weight.",
    tried=("quota",),
)
NOT_OVER_SHARE: Final = PluginRefusal(
    "NotOverShare",
    "the queue that holds it is within its share",
    cure="Wait for room, or raise the quota or weight of the job's queue.",
    is_freeable=True,
    is_weak=True,
    tried=("quota",),
)
SATURATION_ORDER: Final = PluginRefusal(
    "SaturationOrder",
    "the taker would be as saturated as the queue it takes from",
    cure="Wait; or lower `reclaimerUtilizationMultiplier` if it is above 1.",
    is_freeable=True,
    tried=("quota",),
)
UNDERSHOOTS: Final = PluginRefusal(
    "Undershoots",
    "its queue would be left with less than it deserves",
    cure="Let its queue hold more than its quota, or split the work it holds.",
    is_freeable=True,
    tried=("quota",),
    is_retried=True,
)
ALL: Final = (
    OVER_LIMIT,
    OVER_QUOTA,
    OVER_FAIR_SHARE,
    NOT_OVER_SHARE,
    SATURATION_ORDER,
    UNDERSHOOTS,
)
