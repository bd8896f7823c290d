"""The packaged default shard states the defaults explicitly."""

from importlib.resources import files

from kaisched.engine.policy import build_policy, default_policy
from kaisched.objects.load import load_text
from kaisched.objects.shard import SchedulingShard


def test_the_packaged_shard_is_the_default_policy():
    text = files("kaisched").joinpath("data", "shards", "default.yaml").read_text("utf-8")
    loaded = load_text(text, "default.yaml")
    assert (loaded.problems, loaded.warnings) == ([], [])
    (shard,) = loaded.of(SchedulingShard)
    policy, warnings = build_policy(shard, "default.yaml")
    plain = default_policy()
    assert warnings == []
    assert [told(setting) for setting in policy.plugins] == [told(it) for it in plain.plugins]
    assert [action.name for action in policy.actions] == [it.name for it in plain.actions]
    assert policy.over_quota_weights == plain.over_quota_weights


def told(setting):
    return setting.plugin.name, setting.weight, setting.plugin.arguments
