"""KAI's names and ours."""

import re
from pathlib import Path

import pytest

from kaisched.objects.load import load_manifests
from kaisched.objects.shard import (
    DEFAULT_ACTIONS,
    DEFAULT_PLUGINS,
    OTHER_PRIORITIES,
    PLUGINS,
    SchedulingShard,
    known_actions,
    map_action,
    map_arguments,
    map_plugin,
)

ROOT = Path(__file__).resolve().parents[3]
KAI_PLUGINS = [
    *("predicates", "proportion", "priority", "nodeavailability", "resourcetype", "podaffinity"),
    *("elastic", "kubeflow", "ray", "subgrouporder", "taskorder", "nominatednode", "numa"),
    *("dynamicresources", "minruntime", "topology", "snapshot", "sg-nodelocalgreedy"),
    *("sg-multinodegang", "gpupack", "gpuspread", "nodeplacement", "gpusharingorder"),
    "reflectjoborder",
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.proportion if name == "proportion" else ())
        for name in KAI_PLUGINS
    ],
)
def test_every_plugin_of_kai_has_a_place(name):
    mapped = map_plugin(name)
    known = {plugin.name for plugin in DEFAULT_PLUGINS} | set(OTHER_PRIORITIES)
    assert mapped.name in known or (mapped.name is None and name in (mapped.warning or ""))


def test_other_names_stay_as_they_are():
    assert map_plugin("acme-fairness") == ("acme-fairness", None)


def test_a_plugin_that_is_installed_is_not_left_out():
    assert map_plugin("numa", {"numa"}) == ("numa", None)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("allocate", "allocate"),
        ("consolidation", "consolidate"),
        ("consolidate", "consolidate"),
        ("stalegangeviction", "stalegang"),
        ("reclaim", "reclaim"),
        ("preempt", "preempt"),
        ("backfill", None),
    ],
)
def test_actions_are_mapped(theirs, ours):
    assert map_action(theirs).name == ours


def test_arguments_are_mapped_with_a_warning_and_ours_wins():
    mapped, warnings = map_arguments("proportion", {"relcaimerSaturationMultiplier": 2, "k": 1})
    assert mapped == {"reclaimerUtilizationMultiplier": 2, "k": 1}
    assert "reclaimerUtilizationMultiplier" in warnings[0]
    both = {"reclaimerUtilizationMultiplier": 1, "relcaimerSaturationMultiplier": 2}
    assert map_arguments("proportion", both)[0] == {"reclaimerUtilizationMultiplier": 1}
    assert map_arguments("binpack", {"gpu": "spread"}) == ({"gpu": "spread"}, [])


def test_the_defaults_stand_in_the_order_of_their_priorities():
    for table in (DEFAULT_PLUGINS, DEFAULT_ACTIONS):
        assert list(table) == sorted(table, key=lambda entry: (-entry.priority, entry.name))


@pytest.mark.parametrize("file", sorted((ROOT / "config" / "shards").glob("*.yaml")))
def test_shard_files_of_the_repository_load_without_a_word(file):
    loaded = load_manifests(file)
    assert [str(it) for it in loaded.problems + loaded.warnings] == []
    assert [type(it) for it in loaded.objects] == [SchedulingShard]


def test_the_default_shard_file_says_what_the_table_says():
    (shard,) = load_manifests(ROOT / "config" / "shards" / "default.yaml").of(SchedulingShard)
    written = [
        (name, entry.priority, float(entry.weight or 1))
        for name, entry in shard.spec.plugins.items()
    ]
    assert written == [tuple(plugin) for plugin in DEFAULT_PLUGINS]
    actions = [(name, entry.priority) for name, entry in shard.spec.actions.items()]
    assert actions == [tuple(action) for action in DEFAULT_ACTIONS]


def test_the_kai_shard_file_runs_the_actions_in_the_order_of_kai():
    (shard,) = load_manifests(ROOT / "config" / "shards" / "kai.yaml").of(SchedulingShard)
    order = sorted(shard.spec.actions, key=lambda name: -(shard.spec.actions[name].priority or 0))
    assert [map_action(name).name for name in order] == [
        "allocate",
        "consolidate",
        "reclaim",
        "preempt",
        "stalegang",
    ]


@pytest.mark.proportion
def test_every_name_in_the_tables_is_documented():
    page = (ROOT / "docs" / "reference" / "kai-names.md").read_text(encoding="utf-8")
    names = [
        *KAI_PLUGINS,
        *PLUGINS,
        *(it.name for it in DEFAULT_PLUGINS),
        *known_actions(),
    ]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_only_commands_that_exist_are_named():
    page = (ROOT / "docs" / "reference" / "kai-names.md").read_text(encoding="utf-8")
    said = [page, *(map_plugin(name).warning or "" for name in KAI_PLUGINS)]
    named = {name for text in said for name in re.findall(r"\bkaisched ([a-z]+)", text)}
    assert named
    assert named <= {path.stem for path in (ROOT / "kaisched" / "cli").glob("*.py")}
