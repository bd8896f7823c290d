"""In which order the actions run: ours by default, KAI-Scheduler's by its own shard."""

from pathlib import Path

import pytest

from kaisched.engine.actions import ACTIONS
from kaisched.engine.policy import build_policy, default_policy
from kaisched.engine.shards import read_shard

SHARDS = Path(__file__).parents[3] / "config" / "shards"
OURS = ("allocate", "reclaim", "preempt", "consolidate", "stalegang")
KAIS = ("allocate", "consolidate", "reclaim", "preempt", "stalegang")


def there(names):
    """Leave out what this version does not have yet."""
    return [name for name in names if name in ACTIONS]


def test_what_is_moved_comes_after_what_is_taken_by_default():
    assert [action.name for action in default_policy().actions] == there(OURS)
    assert set(ACTIONS) <= set(OURS)


@pytest.mark.parametrize(("file", "order"), [("kai.yaml", KAIS)])
def test_the_shard_of_kai_moves_before_it_takes(file, order):
    found = read_shard(SHARDS / file)
    policy, warnings = build_policy(found.shard, found.file)
    assert [action.name for action in policy.actions] == there(order)
    missing = [name for name in order if name not in ACTIONS]
    said = [f"not in this version, so skipped: {', '.join(missing)}"] if missing else []
    assert [line for line in warnings if "action" in line or "version" in line] == said
