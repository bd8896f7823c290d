"""Policy of a shard's cycles, with the overrides of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.engine.policy import build_policy, without_evictions

if TYPE_CHECKING:
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.policy import Policy


def policy_of(settings: SchedulerConfiguration, found: FoundShard) -> tuple[Policy, list[str]]:
    """Build the policy of a shard; return it with its warnings.

    Raises:
        KaischedError: the shard is wrong, or a plugin it enables is broken.

    """
    policy, said = build_policy(found.shard, found.file)
    return policy if settings.evictions else without_evictions(policy), said
