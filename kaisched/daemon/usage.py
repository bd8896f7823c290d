"""Opens the usage history of a shard for its loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.usage.feed import UsageFeed, open_probe, open_store
from kaisched.usage.settings import read_usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.clock import Clock
    from kaisched.engine.shards import FoundShard
    from kaisched.usage.history import ServerHealth


def usage_feed(
    found: FoundShard, clock: Clock, tell: Callable[[ServerHealth], None] = lambda _: None
) -> tuple[UsageFeed | None, float]:
    """Open the usage history a shard asks for; return how long to wait for its first answer.

    ``tell`` is called whenever the server of the history was asked whether it answers.

    Raises:
        ConfigError: the usage store cannot be opened.

    """
    config = found.shard.spec.usage_db_config
    if config is None:
        return None, 0.0
    settings = read_usage(config, found.shard.name, found.file)
    probe = open_probe(settings, tell)
    return UsageFeed(open_store(settings, clock), settings.fetch_s, probe), settings.wait_s
