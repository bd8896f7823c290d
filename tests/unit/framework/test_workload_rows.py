"""The table of workloads: what plugins add to it, what stands first, and what is refused."""

from dataclasses import replace

import pytest

from kaisched.cluster.grouping import Grouper
from kaisched.cluster.kubernetes.resources import ALL, watched_kinds
from kaisched.engine.policy import build_policy, default_policy, default_shard
from kaisched.errors import ConfigError, PluginContractError
from kaisched.framework.plugins.asking import workloads_of
from kaisched.framework.plugins.loader import Catalogue, Installed, installed_plugins
from kaisched.objects.gangs import KNOWN, WORKLOADS, gang_api_row, gang_of
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.shard import PluginEntry, SchedulingShard, ShardSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import MOST, Gang, Workload, WorkloadKind
from tests.unit.framework.fakes import plugin

WIDGET = Workload("example.com/v1", "widgets", "Widget", "each")


def raises():
    raise RuntimeError("out of order")


def test_without_a_plugin_the_known_kinds_are_grouped():
    assert default_policy().workloads is KNOWN
    assert workloads_of([plugin(job_gate=lambda **_: None)]) is KNOWN


def test_a_plugin_adds_kinds_and_replaces_known_ones():
    mine = Workload("apps/v1", "statefulsets", "StatefulSet", "each")
    table = workloads_of([plugin(workloads=lambda: [WIDGET, mine])])
    assert table["example.com", "Widget"] is WIDGET
    assert table["apps", "StatefulSet"] is mine
    assert table.keys() == {*KNOWN, ("example.com", "Widget")}


def test_of_two_plugins_the_first_counts():
    other = Workload("example.com/v2", "widgets", "Widget")
    first = plugin("first", workloads=lambda: [other])
    second = plugin("second", workloads=lambda: [WIDGET])
    assert workloads_of([first, second])["example.com", "Widget"] is other


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (raises, "workloads: RuntimeError: out of order"),
        (lambda: 7, "workloads: TypeError"),
        (lambda: ["Widget"], "workloads: 'Widget' is no kaisched.Workload"),
        (lambda: [Workload("v1", "widgets", "Widget")], "api_version 'v1' is none"),
        (lambda: [Workload("scheduling.k8s.io/v1", "x", "X")], "are not grouped by"),
        (lambda: [Workload("example.com/v1", "Widgets", "Widget")], "plural 'Widgets' is none"),
        (lambda: [Workload("example.com/v1", "../pods", "Widget")], "plural '../pods' is none"),
        (lambda: [Workload("example.com/v1", "widgets", "widget")], "kind 'widget' is none"),
        (lambda: [Workload("example.com/v1", "widgets", "Widget", "all")], "together, each, throu"),
        (
            lambda: [Workload("a.io/v1", "widgets", "Widget", other_versions=("b.io/v1",))],
            "'b.io/v1' is not of API group 'a.io'",
        ),
    ],
)
def test_nonsense_is_told_and_the_plugin_named(answer, text):
    with pytest.raises(PluginContractError) as told:
        workloads_of([plugin("broken", workloads=answer)])
    assert text in str(told.value)
    assert told.value.plugin == "broken"


KIND = {"api_version": "example.com/v1", "plural": "widgets", "kind": "Widget"}


def shard_with(*kinds, **more):
    declared = [WorkloadKind(**it) for it in kinds]
    return SchedulingShard(
        metadata=ObjectMeta(name="s"), spec=ShardSpec(workloads=declared, **more)
    )


def test_a_shard_declares_kinds_which_come_before_those_of_plugins():
    policy, said = build_policy(shard_with(KIND | {"pods": "each"}))
    assert policy.workloads["example.com", "Widget"] == WIDGET
    assert said == []
    other = plugin(workloads=lambda: [Workload("example.com/v2", "widgets", "Widget")])
    table = workloads_of([other], [WorkloadKind(**KIND, pods="each")])
    assert table["example.com", "Widget"] == WIDGET


def test_a_class_alone_leaves_the_gang_of_a_known_kind_as_it_is():
    known = {"api_version": "kubeflow.org/v1", "plural": "notebooks", "kind": "Notebook"}
    job_set = {"api_version": "jobset.x-k8s.io/v1alpha2", "plural": "jobsets", "kind": "JobSet"}
    kinds = (known | {"priority_class": "train"}, job_set | {"priority_class": "inference"})
    table = build_policy(shard_with(*kinds))[0].workloads
    for name, cls in (
        (("kubeflow.org", "Notebook"), "train"),
        (("jobset.x-k8s.io", "JobSet"), "inference"),
    ):
        assert table[name] == replace(KNOWN[name], priority_class=cls)


def test_the_former_plugin_is_refused_with_what_there_is_now():
    entry = PluginEntry(enabled=True, arguments={"kinds": []})
    with pytest.raises(ConfigError) as told:
        build_policy(shard_with(plugins={"workloads": entry}))
    assert told.value.path == "spec.plugins.workloads"
    assert told.value.fix == "list its kinds in spec.workloads"


def test_a_plugin_that_is_broken_is_found_when_the_policy_is_made():
    broken = plugin("widgets", workloads=raises).plugin
    catalogue = Catalogue(
        [*installed_plugins().by_name.values(), Installed("widgets", "x", "1", type(broken))]
    )
    enabled = {"widgets": PluginEntry(enabled=True)}
    with pytest.raises(PluginContractError, match="out of order"):
        build_policy(shard_with(plugins=enabled), catalogue=catalogue)
    assert build_policy(default_shard(), catalogue=catalogue)[0].workloads is KNOWN


# -- what is watched ----------------------------------------------------------------------------


def test_what_is_watched_follows_the_table():
    table = workloads_of([plugin(workloads=lambda: [WIDGET])])
    kinds = watched_kinds([KNOWN, table], None)
    more = {it.qualified for it in kinds} - {it.qualified for it in ALL}
    assert more == {"widgets.example.com"}
    names = [it.qualified for it in kinds]
    assert names.index("widgets.example.com") < names.index("podgroups.scheduling.run.ai")
    assert names[-1] == "pods"


def test_the_gang_api_of_kubernetes_is_watched_only_where_it_is_found():
    assert "podgroups.scheduling.k8s.io" not in {it.qualified for it in ALL}
    kinds = watched_kinds([KNOWN], gang_api_row({"v1alpha2"}))
    (found,) = [it for it in kinds if it.qualified == "podgroups.scheduling.k8s.io"]
    assert found.path == "/apis/scheduling.k8s.io/v1alpha2/podgroups"
    assert not found.is_required


def test_shards_must_read_a_kind_alike():
    other = Workload("example.com/v2", "widgets", "Widget")
    tables = [workloads_of([plugin(workloads=lambda row=row: [row])]) for row in (WIDGET, other)]
    with pytest.raises(ConfigError, match=r"two shards read Widget of example\.com"):
        watched_kinds(tables, None)
    grouped_otherwise = Workload("example.com/v1", "widgets", "Widget", "together")
    tables[1] = workloads_of([plugin(workloads=lambda: [grouped_otherwise])])
    assert watched_kinds(tables, None)


# -- a reader of a plugin -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda *_: raises(), "RuntimeError: out of order"),
        (lambda *_: 4, "no kaisched.Gang, but a int"),
        (lambda *_: Gang(minimum=-1), "minimum -1 is not from 0"),
        (lambda *_: Gang(minimum=MOST + 1), "minimum 100001 is not from 0"),
        (lambda *_: Gang(minimum="4"), "TypeError"),
        (
            lambda *_: Gang(sub_groups=[SubGroupSpec(name="a"), SubGroupSpec(name="a")]),
            "two subgroups of one name",
        ),
        (lambda *_: Gang(sub_groups=[SubGroupSpec(name="a", parent="b")]), "parent is missing"),
        (
            lambda *_: Gang(
                sub_groups=[SubGroupSpec(name="a", parent="b"), SubGroupSpec(name="b", parent="a")]
            ),
            "inside itself",
        ),
        (
            lambda *_: Gang(sub_groups=[SubGroupSpec(name="a")], min_sub_group=2),
            "min_sub_group 2 is not from 0 to 1",
        ),
    ],
)
def test_a_reader_that_fails_gets_the_workload_refused(read, text):
    gang = gang_of(read, {}, {})
    assert gang.unsupported.startswith("its gang cannot be read: ")
    assert text in gang.unsupported


@pytest.mark.parametrize("spec", [None, [], "text", 7])
def test_what_has_no_spec_is_one_pod(spec):
    assert gang_of(raises, spec, {}) == Gang()


def test_a_table_may_not_say_what_pods_are():
    assert all(row.kind != "Pod" for row in WORKLOADS)
    assert Grouper({})  # pods that own pods are looked through whatever the table says
