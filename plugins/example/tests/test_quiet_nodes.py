"""Quiet nodes are filled first, once a shard enables the plugin."""

from importlib.metadata import entry_points

import pytest
from kaisched_plugin_example import QuietNodes

from kaisched.testing import ClusterBuilder, check_plugin

LOUD, QUIET = "n0", "n1"


def cluster(label="example.com/quiet"):
    return (
        ClusterBuilder()
        .node(LOUD, gpu=4)
        .node(QUIET, gpu=4, labels={label: "yes"})
        .queue("research")
        .job("train", queue="research", tasks=2)
    )


def test_it_keeps_the_contract_of_plugins():
    check_plugin(QuietNodes)


def test_installed_is_not_enabled():
    ran = cluster().run("allocate")
    assert set(ran.placed.values()) == {LOUD}


def test_enabled_it_changes_where_pods_go():
    ran = cluster().run("allocate", plugins=[QuietNodes])
    assert set(ran.placed.values()) == {QUIET}


def test_the_label_is_the_shards_to_choose():
    shard = {"plugins": {"quiet-nodes": {"arguments": {"label": "acme.example/silent"}}}}
    ran = cluster("acme.example/silent").run("allocate", plugins=[QuietNodes], shard=shard)
    assert set(ran.placed.values()) == {QUIET}


def test_a_weight_below_that_of_other_scores_lets_them_decide():
    shard = {"plugins": {"quiet-nodes": {"weight": 1}}}
    busy = cluster().job("old", queue="research", running={LOUD: 1})
    ran = busy.run("allocate", plugins=[QuietNodes], shard=shard)
    assert set(ran.placed.values()) == {LOUD}


def test_it_is_found_by_its_entry_point():
    (found,) = [
        each for each in entry_points(group="kaisched.plugins") if each.name == "quiet-nodes"
    ]
    assert found.load() is QuietNodes


def test_a_misspelt_argument_is_refused():
    shard = {"plugins": {"quiet-nodes": {"arguments": {"labels": "x"}}}}
    with pytest.raises(Exception, match="label"):
        cluster().run("allocate", plugins=[QuietNodes], shard=shard)
