"""Policies from shards: order, names, arguments, and settings without effect."""

from types import NoneType
from typing import Literal, get_args, get_type_hints

import msgspec
import pytest
from pydantic import Field

from kaisched import Arguments, Plugin, former_values, hookimpl, shard_setting
from kaisched.engine.policy import build_policy, default_policy, default_shard
from kaisched.errors import ConfigError, PluginLoadError
from kaisched.framework.plugins.loader import Catalogue, Installed
from kaisched.framework.shard_settings import SETTINGS
from kaisched.objects.decode import decode_object
from kaisched.objects.shard import ACTIONS, DEFAULT_PLUGINS, PluginEntry, SchedulingShard, ShardSpec
from kaisched.objects.usage import UsageConfig
from kaisched.objects.wire import ObjectMeta


class ProportionArguments(Arguments):
    k_value: float = Field(1.0, json_schema_extra=shard_setting("kValue"))
    reclaimer_utilization_multiplier: float = 1.0


class MinRuntimeArguments(Arguments):
    default_preempt_min_runtime: str = Field(
        "0s", json_schema_extra=shard_setting("minRuntime.preemptMinRuntime")
    )
    default_reclaim_min_runtime: str = Field(
        "0s", json_schema_extra=shard_setting("minRuntime.reclaimMinRuntime")
    )


class BinpackArguments(Arguments):
    gpu: str = Field("binpack", json_schema_extra=shard_setting("placementStrategy.gpu"))
    cpu: str = Field("binpack", json_schema_extra=shard_setting("placementStrategy.cpu"))


class SlicingArguments(Arguments):
    hand_over: Literal["new"] = Field("new", json_schema_extra=former_values(old="new"))


def installed(name, arguments=Arguments):
    made = type(name, (Plugin,), {"name": name, "Arguments": arguments, "default_weight": 2.0})
    return Installed(name, "acme", "1.0", plugin=made)


def catalogue(*more):
    special = {
        "proportion": ProportionArguments,
        "binpack": BinpackArguments,
        "minruntime": MinRuntimeArguments,
    }
    names = [plugin.name for plugin in DEFAULT_PLUGINS]
    return Catalogue([*(installed(name, special.get(name, Arguments)) for name in names), *more])


def built(spec, *more, actions=None):
    shard = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, SchedulingShard)
    return build_policy(shard, "s.yaml", catalogue=catalogue(*more), actions=actions)


def names(policy):
    return [setting.plugin.name for setting in policy.plugins]


def setting(policy, name):
    return next(setting for setting in policy.plugins if setting.plugin.name == name)


def test_a_shard_that_says_nothing_is_the_default():
    policy, warnings = built({})
    order = sorted(DEFAULT_PLUGINS, key=lambda plugin: (-plugin.priority, plugin.name))
    assert names(policy) == [plugin.name for plugin in order]
    assert [s.weight for s in policy.plugins] == [plugin.weight for plugin in order]
    assert [action.name for action in policy.actions] == list(ACTIONS)
    assert (dict(policy.queue_depth), policy.over_quota_weights, warnings) == ({}, "equal", [])


def test_the_installed_default_policy_is_the_default_shard():
    assert names(default_policy()) == names(build_policy(default_shard())[0])


@pytest.mark.proportion
def test_the_default_policy_is_shipped():
    assert [setting.distribution for setting in default_policy().plugins] == ["kaisched"] * 13


def test_priorities_order_and_ties_are_by_name():
    policy, _ = built(
        {"plugins": {"taskorder": {"priority": 5000}, "gang": {"priority": 200}, "b": {}, "a": {}}},
        installed("a"),
        installed("b"),
    )
    assert names(policy)[0] == "taskorder"
    assert names(policy)[-4:] == ["binpack", "gang", "a", "b"]


def test_a_plugin_can_be_left_out_and_weighed():
    policy, _ = built({"plugins": {"gang": {"enabled": False}, "binpack": {"weight": 4}}})
    assert "gang" not in names(policy)
    assert setting(policy, "binpack").weight == 4.0


def less(name):
    """Return the catalogue of somebody who has not installed one of the defaults."""
    return Catalogue([each for each in catalogue().by_name.values() if each.name != name])


@pytest.mark.parametrize("plugins", [{}, {"gang": {"priority": 5}}])
def test_a_default_that_is_not_installed_is_named_with_what_to_do(plugins):
    shard = msgspec.convert(
        {"metadata": {"name": "s"}, "spec": {"plugins": plugins}}, SchedulingShard
    )
    with pytest.raises(ConfigError) as failed:
        build_policy(shard, "s.yaml", catalogue=less("gang"))
    assert str(failed.value) == (
        "s.yaml: spec.plugins.gang: this plugin of the default policy is not installed;"
        " install it, or say enabled: false and enable another that does its work"
    )


def test_a_default_that_is_not_installed_may_be_left_out():
    shard = msgspec.convert(
        {"metadata": {"name": "s"}, "spec": {"plugins": {"gang": {"enabled": False}}}},
        SchedulingShard,
    )
    policy, warnings = build_policy(shard, "s.yaml", catalogue=less("gang"))
    assert sorted([*names(policy), "gang"]) == sorted(names(built({})[0]))
    assert warnings == []


def test_a_plugin_of_a_third_party_has_the_weight_of_its_class():
    policy, _ = built({"plugins": {"mine": {}}}, installed("mine"))
    assert setting(policy, "mine").weight == 2.0


def test_settings_of_the_shard_reach_the_plugins_that_read_them():
    policy, _ = built(
        {
            "placementStrategy": {"gpu": "spread"},
            "minRuntime": {"reclaimMinRuntime": "5m"},
            "plugins": {"nodeplacement": {"arguments": {"cpu": "spread"}}},
        }
    )
    packing = setting(policy, "binpack").plugin.arguments
    assert (packing.gpu, packing.cpu) == ("spread", "spread")
    safe = setting(policy, "minruntime").plugin.arguments
    assert (safe.default_reclaim_min_runtime, safe.default_preempt_min_runtime) == ("5m", "0s")


def of_history(default, name):
    path = f"usageDBConfig.usageParams.{name}"
    return Field(default, json_schema_extra=shard_setting(path))


class HistoryArguments(Arguments):
    k_value: float = Field(1.0, json_schema_extra=shard_setting("kValue"))
    half_life_period: str = of_history("0s", "halfLifePeriod")
    window_size: str = of_history("1w", "windowSize")
    tumbling_window_start_time: str = of_history("", "tumblingWindowStartTime")


HISTORY = installed("time-based-fairshare", HistoryArguments)
STORE = {"usageDBConfig": {"clientType": "memory"}}
BY_ARGUMENT = {"plugins": {"proportion": {"arguments": {"kValue": "0.25"}}}}


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("spec", "k"),
    [
        (STORE, 1.0),
        ({**STORE, "kValue": 0.5}, 0.5),
        ({**STORE, "kValue": 0.5, **BY_ARGUMENT}, 0.25),
        ({"kValue": 0.5, "plugins": {"time-based-fairshare": {"enabled": True}}}, 0.5),
        (
            {"kValue": 0.5, "plugins": {"time-based-fairshare": {"arguments": {"kValue": 2}}}},
            2.0,
        ),
    ],
)
def test_a_usage_store_or_the_shard_enables_history(spec, k):
    policy, warnings = built(spec, HISTORY)
    assert setting(policy, "time-based-fairshare").plugin.arguments.k_value == k
    assert names(policy).index("time-based-fairshare") == names(policy).index("proportion") + 1
    assert bool(warnings) == ("usageDBConfig" not in spec)


def test_the_window_of_the_usage_store_reaches_the_plugin():
    params = {
        "halfLifePeriod": "12h",
        "windowSize": "3d",
        "windowType": "tumbling",
        "tumblingWindowStartTime": "2026-07-01T00:00:00Z",
    }
    spec = {"usageDBConfig": {"clientType": "memory", "usageParams": params}}
    told = setting(built(spec, HISTORY)[0], "time-based-fairshare").plugin.arguments
    assert (told.half_life_period, told.window_size) == ("12h", "3d")
    assert told.tumbling_window_start_time == "2026-07-01T00:00:00Z"


@pytest.mark.parametrize(
    "spec",
    [
        {"kValue": 0.5},
        {"usageDBConfig": {"usageParams": {"windowSize": "1w"}}},
        {**STORE, "plugins": {"time-based-fairshare": {"enabled": False}}},
    ],
)
def test_without_a_store_or_when_told_so_history_is_off(spec):
    assert "time-based-fairshare" not in names(built(spec, HISTORY)[0])


@pytest.mark.proportion
def test_a_setting_of_the_shard_reaches_the_plugin_of_kai_that_has_it_as_an_argument():
    policy, _ = built({"kValue": 0.5})
    assert setting(policy, "proportion").plugin.arguments.k_value == 0.5


@pytest.mark.proportion
def test_arguments_win_over_settings_of_the_shard():
    policy, _ = built({"kValue": 0.5, "plugins": {"proportion": {"arguments": {"kValue": "0.25"}}}})
    assert setting(policy, "proportion").plugin.arguments.k_value == 0.25


def test_a_value_that_was_called_otherwise_is_read_with_a_warning():
    plugin = installed("slicing", SlicingArguments)
    policy, (warning,) = built({"plugins": {"slicing": {"arguments": {"handOver": "old"}}}}, plugin)
    assert setting(policy, "slicing").plugin.arguments.hand_over == "new"
    where = "spec.plugins.slicing.arguments.handOver"
    assert warning == f"{where}: old is called new now; write the new name"
    assert built({"plugins": {"slicing": {"arguments": {"handOver": "new"}}}}, plugin)[1] == []


class Divides(Plugin):
    """Says what queues are entitled to."""

    @hookimpl
    def fair_share(self, session):
        return session.total


@pytest.mark.parametrize(
    ("is_enabled", "warning"),
    [
        ((True, False), None),
        (
            (False, False),
            (
                "no enabled plugin divides the cluster among the queues, so every fair share is 0"
                " and evictions follow no shares; enable one or other"
            ),
        ),
        (
            (True, True),
            (
                "one and other each divide the cluster among the queues; shares are those of one,"
                " and the rules of all of them apply; disable all but one"
            ),
        ),
    ],
)
def test_one_plugin_divides_the_cluster(is_enabled, warning):
    plugins = [
        Installed(name, "acme", "1.0", plugin=type(name, (Divides,), {"name": name}))
        for name in ("one", "other")
    ]
    wanted = zip(("one", "other"), is_enabled, (2, 1), strict=True)
    spec = {name: {"enabled": on, "priority": at} for name, on, at in wanted}
    _, warnings = built({"plugins": spec}, *plugins)
    assert warnings == ([] if warning is None else [f"spec.plugins: {warning}"])


@pytest.mark.proportion
def test_names_of_kai_are_mapped_or_warned_about():
    policy, warnings = built(
        {
            "plugins": {
                "gpupack": {},
                "minruntime": {"arguments": {"defaultPreemptMinRuntime": "5s"}},
                "topology": {"enabled": True},
                "proportion": {"arguments": {"relcaimerSaturationMultiplier": "2"}},
            },
            "actions": {"stalegangeviction": {"priority": 9}, "consolidation": {"priority": 9}},
            "queueDepthPerAction": {"consolidation": 3, "allocate": 5},
        }
    )
    assert setting(policy, "proportion").plugin.arguments.reclaimer_utilization_multiplier == 2.0
    assert dict(policy.queue_depth) == {"consolidate": 3, "allocate": 5}
    assert [warning.split(":")[0] for warning in warnings] == [
        'plugin "gpupack" is left out',
        'argument "relcaimerSaturationMultiplier" of plugin "proportion"',
    ]


def test_an_installed_plugin_is_taken_under_its_own_name():
    policy, warnings = built({"plugins": {"ray": {}}}, installed("ray"))
    assert ("ray" in names(policy), warnings) == (True, [])


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"plugins": {"gnag": {}}},
            's.yaml: spec.plugins.gnag: no such plugin is installed; did you mean "gang"?',
        ),
        (
            {"actions": {"allokate": {}}},
            (
                "s.yaml: spec.actions.allokate: there is no such action (value 'allokate'); did you"
                ' mean "allocate"?'
            ),
        ),
        (
            {"queueDepthPerAction": {"allokat": 1}},
            (
                "s.yaml: spec.queueDepthPerAction.allokat: there is no such action (value"
                " 'allokat'); did you mean \"allocate\"?"
            ),
        ),
        (
            {"plugins": {"binpack": {"arguments": {"gpus": "spread"}}}},
            (
                "s.yaml: spec.plugins.binpack.arguments.gpus: no such argument (value 'spread');"
                ' did you mean "gpu"?'
            ),
        ),
    ],
)
def test_a_wrong_name_is_one_line_with_its_place(spec, line):
    with pytest.raises(ConfigError) as caught:
        built(spec)
    assert str(caught.value) == line


@pytest.mark.fault("G111")
def test_a_broken_plugin_stops_only_the_shard_that_enables_it():
    error = PluginLoadError("no module x", plugin="mine", distribution="acme 1.0")
    broken = Installed("mine", "acme", "1.0", error=error)
    _, warnings = built({}, broken)
    assert warnings == ["plugin mine (from acme 1.0): no module x; it is not enabled"]
    with pytest.raises(PluginLoadError):
        built({"plugins": {"mine": {}}}, broken)


def test_actions_can_be_chosen_for_one_run():
    policy, warnings = built({}, actions=["reclaim", "allocate"])
    assert [action.name for action in policy.actions] == ["reclaim", "allocate"]
    assert warnings == []
    with pytest.raises(ConfigError, match=r"--actions: there is no such action"):
        built({}, actions=["allokate"])


def test_an_action_can_be_switched_off():
    policy, _ = built(
        {"actions": {"allocate": {"enabled": False}, "stalegangeviction": {"enabled": False}}}
    )
    names = [action.name for action in policy.actions]
    assert names == ["drain", "timelimit", "reclaim", "preempt", "consolidate"]


def decided(policy):
    return (
        policy.staleness_grace_s,
        policy.stuck_after_s,
        policy.max_consolidation_preemptees,
        policy.allows_consolidating_reclaim,
    )


def test_flags_of_kai_that_decide_are_read_as_numbers_or_as_texts():
    assert decided(built({})[0]) == (60.0, 120.0, 16, True)
    args = {
        "default-staleness-grace-period": "-1s",
        "stuck-in-releasing-threshold": "5m",
        "max-consolidation-preemptees": "-1",
        "allow-consolidating-reclaim": "false",
        "verbosity": 5,
    }
    assert decided(built({"args": args})[0]) == (-1.0, 300.0, -1, False)
    args = {"max-consolidation-preemptees": 3, "allow-consolidating-reclaim": True}
    assert decided(built({"args": args})[0]) == (60.0, 120.0, 3, True)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("default-staleness-grace-period", 60, "60 has no unit"),
        ("stuck-in-releasing-threshold", "soon", "'soon' is no duration"),
        ("max-consolidation-preemptees", -2, "'-2' is no number of jobs"),
        ("max-consolidation-preemptees", True, "'True' is no number of jobs"),
        ("allow-consolidating-reclaim", "no", "'no' is neither true nor false"),
    ],
)
def test_a_flag_that_makes_no_sense_is_named(name, value, text):
    with pytest.raises(ConfigError) as caught:
        built({"args": {name: value}})
    assert str(caught.value).startswith(f"s.yaml: spec.args.{name}: {text}; write")


def test_every_setting_that_plugins_may_take_is_one_of_a_shard():
    for path in SETTINGS:
        kind = ShardSpec
        for key in path.split("."):
            (name,) = [it.name for it in msgspec.structs.fields(kind) if it.encode_name == key]
            kinds = get_args(get_type_hints(kind)[name]) or (get_type_hints(kind)[name],)
            kind = next(it for it in kinds if it is not NoneType)
    with pytest.raises(ValueError, match="no shard setting 'kvalue'; there are kValue"):
        shard_setting("kvalue")


LENT = {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("plugins", "is_told"),
    [
        (LENT, True),
        ({**LENT, "time-based-fairshare": {"enabled": True}}, False),
        ({**LENT, "time-based-fairshare": {"enabled": False}}, False),
        ({}, False),
    ],
)
def test_a_history_that_changes_the_weights_of_a_policy_that_lends_is_told(plugins, is_told):
    history = {"clientType": "memory"}
    spec = {"usageDBConfig": history, "plugins": plugins}
    shard = decode_object({"metadata": {"name": "s"}, "spec": spec}, SchedulingShard)[0]
    told = [text for text in build_policy(shard)[1] if text.startswith("spec.usageDBConfig")]
    expected = (
        "spec.usageDBConfig: enables time-based-fairshare, so that past usage changes the"
        " weights of fair-sharing; write time-based-fairshare into spec.plugins, with enabled:"
        " true if that is meant, else with enabled: false"
    )
    assert told == ([expected] if is_told else [])


def test_gpus_that_are_spread_over_nodes_are_spread_over_the_gpus_of_a_node_too():
    ours = installed("gpu-spread")
    assert "gpu-spread" in names(built({"placementStrategy": {"gpu": "spread"}}, ours)[0])
    assert "gpu-spread" not in names(built({"placementStrategy": {"cpu": "spread"}}, ours)[0])
    nodes = {"placementStrategy": {"gpu": "spread"}, "plugins": {"gpuspread": {"enabled": False}}}
    assert "gpu-spread" not in names(built(nodes, ours)[0])


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({"usage_db_config": UsageConfig(client_type="sqlite")}, ["time-based-fairshare"]),
        ({"plugins": {"fair-sharing": PluginEntry(enabled=True)}}, ["fair-sharing"]),
    ],
)
def test_departments_cannot_be_left_out_where_a_plugin_divides_by_them(spec, names):
    shard = SchedulingShard(
        metadata=ObjectMeta(name="s"), spec=ShardSpec(fairness="projects", **spec)
    )
    with pytest.raises(ConfigError) as found:
        build_policy(shard, "shard.yaml")
    text = str(found.value)
    assert "spec.fairness" in text
    assert "write hierarchy, or disable" in text
    assert all(name in text for name in names)


@pytest.mark.parametrize(
    ("said", "fairness"), [("false", "projects"), (False, "projects"), ("true", "hierarchy")]
)
def test_the_flag_of_kai_says_who_divides(said, fairness):
    flag = {"full-hierarchy-fairness": said}
    shard = SchedulingShard(metadata=ObjectMeta(name="s"), spec=ShardSpec(args=flag))
    policy, warnings = build_policy(shard)
    assert (policy.fairness, warnings) == (fairness, [])


def test_the_flag_is_named_where_departments_cannot_be_left_out():
    spec = ShardSpec(
        args={"full-hierarchy-fairness": "false"}, usage_db_config=UsageConfig(client_type="sqlite")
    )
    with pytest.raises(ConfigError) as found:
        build_policy(SchedulingShard(metadata=ObjectMeta(name="s"), spec=spec))
    assert (found.value.path, found.value.value) == ("spec.args.full-hierarchy-fairness", "false")
    assert found.value.fix == "write true, or disable time-based-fairshare"


NO_HISTORY = "has no effect, since no usage history is kept; add usageDBConfig: {clientType"
NOT_ENABLED = "has no effect, since time-based-fairshare is not enabled; "
ON, OFF = ({"time-based-fairshare": {"enabled": it}} for it in (True, False))
MEMORY = {"clientType": "memory"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"kValue": 0.5}, f"spec.kValue: {NO_HISTORY}"),
        ({"kValue": 0.5, "plugins": ON}, f"spec.kValue: {NO_HISTORY}"),
        ({"kValue": 0}, ""),
        ({"plugins": ON}, f"spec.plugins.time-based-fairshare: {NO_HISTORY}"),
        ({"plugins": OFF}, ""),
        (
            {"plugins": {"proportion": {"arguments": {"kValue": "0.5"}}}},
            f"spec.plugins.proportion.arguments.kValue: {NO_HISTORY}",
        ),
        ({"kValue": 0.5, "usageDBConfig": {}}, f"spec.kValue: {NOT_ENABLED}add the clientType"),
        ({"usageDBConfig": {}}, "spec.usageDBConfig: without a clientType it does not enable"),
        ({"usageDBConfig": {}, "plugins": ON}, ""),
        (
            {"kValue": 0.5, "usageDBConfig": MEMORY, "plugins": OFF},
            f"spec.kValue: {NOT_ENABLED}enable time-based-fairshare in spec.plugins",
        ),
        ({"usageDBConfig": MEMORY, "plugins": OFF}, ""),
        ({"kValue": 0.5, "usageDBConfig": MEMORY}, ""),
        ({}, ""),
    ],
)
def test_fairness_over_time_without_history_or_plugin_is_told(spec, said):
    shard = decode_object({"metadata": {"name": "s"}, "spec": spec}, SchedulingShard)[0]
    told = build_policy(shard)[1]
    assert [bool(text) for text in told] == [True] * bool(said)
    assert all(text.startswith(said) for text in told)
