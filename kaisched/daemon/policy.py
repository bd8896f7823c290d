"""Policy of a shard's cycles and publisher of its view, as the settings of the process say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.engine.policy import build_policy, without_evictions
from kaisched.view.publisher import Publisher

if TYPE_CHECKING:
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.advice.standing import StandingAdvice
    from kaisched.framework.policy import Policy
    from kaisched.objects.shard import SchedulingShard


def policy_of(settings: SchedulerConfiguration, found: FoundShard) -> tuple[Policy, list[str]]:
    """Build the policy of a shard; return it with its warnings.

    Raises:
        KaischedError: the shard is wrong, or a plugin it enables is broken.

    """
    policy, said = build_policy(found.shard, found.file)
    return policy if settings.evictions else without_evictions(policy), said


def publisher_of(
    settings: SchedulerConfiguration, shard: SchedulingShard, advice: StandingAdvice
) -> Publisher | None:
    """Return the publisher of a shard's live view; None where the settings serve none."""
    if not settings.view.enabled:
        return None
    return Publisher(shard.name, advice, pool=shard.spec.partition_label_value)
