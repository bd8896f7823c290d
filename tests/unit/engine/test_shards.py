"""Shards in files: all their errors at once, whatever finds them."""

import msgspec
import pytest

from kaisched.engine.policy import build_policy
from kaisched.engine.shards import read_shard, shard_among, shards_in
from kaisched.errors import KaischedError, PluginLoadError
from kaisched.framework.plugins.loader import Catalogue, Installed, installed_plugins
from kaisched.objects.load import load_text
from kaisched.objects.shard import SchedulingShard

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: s}
spec:
  placementStrategy: {gpu: dense}
  gpuResources: [a.b/c, 3, x]
  plugins:
    zzz: {enabled: true}
    binpack: {arguments: {resourcez: 1, weightz: 2}}
  actions: {allocatez: {}}
  kValu: 3
"""
PATHS = [
    "spec.placementStrategy.gpu",
    "spec.gpuResources[1]",
    "spec.kValu",
    "spec.actions.allocatez",
    "spec.plugins.zzz",
    "spec.plugins.binpack.arguments.resourcez",
    "spec.plugins.binpack.arguments.weightz",
]


def told(read):
    with pytest.raises(KaischedError) as caught:
        read()
    return [caught.value, *caught.value.others]


def test_a_file_tells_all_errors_at_once(tmp_path):
    file = tmp_path / "shard.yaml"
    file.write_text(SHARD, encoding="utf-8")
    errors = told(lambda: read_shard(file))
    assert [error.path for error in errors] == PATHS
    assert all(str(file) in str(error) for error in errors)


def test_a_shard_among_manifests_tells_all_errors_at_once():
    assert [error.path for error in told(lambda: shard_among(load_text(SHARD)))] == PATHS


def test_several_files_tell_their_errors_together(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(SHARD, encoding="utf-8")
    assert len(told(lambda: shards_in([tmp_path / "a", tmp_path / "b"], []))) == 2 * len(PATHS)


def test_only_installed_plugins_and_no_name_twice_are_suggested(tmp_path):
    (tmp_path / "s").write_text(SHARD.replace("allocatez", "zzz"), encoding="utf-8")
    fixes = [error.fix for error in told(lambda: read_shard(tmp_path / "s"))]
    plugins, actions = (
        next(fix for fix in fixes if f"known: {name}" in fix).removeprefix("known: ").split(", ")
        for name in ("binpack", "allocate")
    )
    assert "nodeplacement" not in plugins
    assert len(set(plugins)) == len(plugins)
    assert "consolidation" not in actions, "the same action by KAI-Scheduler's name"


def test_the_error_of_a_broken_plugin_gathers_nothing_from_build_to_build():
    broken = Installed("zzz", "a", "1", error=PluginLoadError("no", plugin="zzz"))
    catalogue = Catalogue([*installed_plugins().by_name.values(), broken])
    spec = {"plugins": {"zzz": {"enabled": True}}, "queueDepthPerAction": {"zzz": 1}}
    shard = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, SchedulingShard)
    first, again = (
        [str(error) for error in told(lambda: build_policy(shard, catalogue=catalogue))]
        for _ in range(2)
    )
    assert first == again
    assert len(first) == 2
    assert first[0] == "plugin zzz: no"
