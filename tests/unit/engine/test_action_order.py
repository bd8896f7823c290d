"""Order of the actions: ours by default, KAI-Scheduler's by its own shard."""

from pathlib import Path

from kaisched.engine.policy import build_policy, default_policy
from kaisched.engine.shards import read_shard

SHARDS = Path(__file__).parents[3] / "config" / "shards"


def names(policy):
    return [action.name for action in policy.actions]


def test_by_default_work_is_moved_after_it_is_taken():
    ours = ["allocate", "stalegang", "drain", "timelimit", "reclaim", "preempt", "consolidate"]
    assert names(default_policy()) == ours


def test_the_shard_of_kai_moves_before_it_takes():
    found = read_shard(SHARDS / "kai.yaml")
    policy, warnings = build_policy(found.shard, found.file)
    kais = ["consolidate", "reclaim", "preempt", "stalegang"]
    assert names(policy) == ["allocate", "drain", "timelimit", *kais]
    assert warnings == []
