"""Plugins are loaded one by one, and errors name the plugin."""

from dataclasses import dataclass
from typing import Any

import pluggy
import pytest
from pydantic import Field

from kaisched import Arguments, Plugin, hookimpl
from kaisched.errors import (
    ConfigError,
    PluginConflictError,
    PluginContractError,
    PluginLoadError,
)
from kaisched.framework.plugins.loader import contract_fault, describe_plugins, load_plugins


@dataclass
class Distribution:
    name: str
    version: str = "1.2"


@dataclass
class Point:
    """An entry point whose import is a call."""

    name: str
    target: Any
    dist: Distribution | None = None

    def load(self):
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


class SpreadArguments(Arguments):
    max_skew: int = 1
    damping: float = Field(default=0.5, description="how much")


class Spread(Plugin):
    """Prefers empty nodes.

    At length.
    """

    name = "spread"
    Arguments = SpreadArguments

    @hookimpl
    def node_score(self, session, shape, rows, extra):
        return None


def catalogue(*points):
    return load_plugins([Point("spread", Spread, Distribution("acme")), *points])


def test_text_is_read_as_the_number_it_says():
    setting = catalogue().make("spread", {"maxSkew": "3", "damping": "0.25"})
    assert (setting.plugin.arguments.max_skew, setting.plugin.arguments.damping) == (3, 0.25)
    assert (setting.distribution, setting.version, setting.weight) == ("acme", "1.2", 1.0)


def test_the_shard_says_the_weight():
    assert catalogue().make("spread", weight=4.0).weight == 4.0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            {"maxSkw": 2},
            'maxSkw: no such argument (value 2); did you mean "maxSkew"?',
        ),
        (
            {"damping": "a lot"},
            (
                "damping: input should be a valid number, unable to parse string as a number (value"
                " 'a lot')"
            ),
        ),
        (
            {"zzz": 2},
            "zzz: no such argument (value 2); known: damping, maxSkew",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_with_its_place(arguments, line):
    with pytest.raises(ConfigError) as caught:
        catalogue().make("spread", arguments, file="s.yaml")
    assert str(caught.value) == f"s.yaml: spec.plugins.spread.arguments.{line}"


@pytest.mark.fault("G111")
def test_an_unknown_plugin_names_the_nearest():
    with pytest.raises(ConfigError) as caught:
        catalogue().make("sprade", file="s.yaml")
    assert str(caught.value) == (
        's.yaml: spec.plugins.sprade: no such plugin is installed; did you mean "spread"?'
    )


@pytest.mark.fault("G111")
def test_a_broken_distribution_is_named_and_the_others_load():
    found = catalogue(Point("broken", ImportError("no module x"), Distribution("bad", "0.1")))
    assert found.make("spread").plugin.name == "spread"
    assert [entry.name for entry in found.broken] == ["broken"]
    with pytest.raises(PluginLoadError, match=r"plugin broken \(from bad 0.1\): it cannot be imp"):
        found.make("broken")


@pytest.mark.fault("G111")
def test_two_distributions_with_one_name_are_a_conflict():
    found = catalogue(Point("spread", Spread, Distribution("copy")))
    with pytest.raises(PluginConflictError, match=r"offered by acme 1.2 and copy 1.2; uninstall"):
        found.make("spread")


def plugin_with(**methods):
    return type("Faulty", (Plugin,), {"name": "faulty", **methods})


mark = pluggy.HookimplMarker("kaisched")


def wrong_parameters(self, session, shape, rows):
    """Lacks ``extra``."""


def right_parameters(self, session, shape, rows, extra):
    """As asked."""


def unmarked(self, session, shape, rows, extra):
    """As asked, but never asked."""


@pytest.mark.fault("G111")
@pytest.mark.parametrize(
    ("methods", "fault"),
    [
        ({"node_score": hookimpl(wrong_parameters)}, "hook node_score: its parameters are (self,"),
        ({"node_scores": hookimpl(right_parameters)}, 'did you mean "node_score"?'),
        ({"node_score": unmarked}, "hook node_score: it is not marked"),
        ({"node_score": staticmethod(hookimpl(right_parameters))}, "must be a plain method"),
        ({"name": "other"}, "its class is named 'other', its entry point 'faulty'"),
        ({"Arguments": dict}, "its Arguments is not a subclass"),
    ],
)
def test_a_method_must_be_exactly_the_question(methods, fault):
    assert fault in contract_fault(plugin_with(**methods), "faulty")


@pytest.mark.parametrize("option", ["tryfirst", "trylast", "wrapper", "hookwrapper"])
def test_the_order_is_the_shards(option):
    def node_score(self, session, shape, rows, extra):
        """Wants to be first."""

    faulty = plugin_with(node_score=mark(**{option: True})(node_score))
    assert f"{option} is not allowed" in contract_fault(faulty, "faulty")
    found = catalogue(Point("faulty", faulty, Distribution("pushy")))
    with pytest.raises(PluginContractError, match=r"from pushy 1\.2"):
        found.make("faulty")


def test_what_is_no_plugin_is_refused():
    assert "is not a subclass of kaisched.Plugin" in contract_fault(dict, "dict")


def test_an_inherited_answer_counts():
    class Child(Spread):
        name = "child"

    found = load_plugins([Point("child", Child, Distribution("acme"))])
    assert describe_plugins(found)[0].questions == ("node_score",)


def test_a_plugin_that_cannot_be_made_says_so():
    class Stubborn(Plugin):
        name = "stubborn"

        def __init__(self, arguments):
            raise RuntimeError("not today")

    found = load_plugins([Point("stubborn", Stubborn, Distribution("acme"))])
    with pytest.raises(PluginLoadError, match="cannot be made: RuntimeError: not today"):
        found.make("stubborn")


def test_a_description_lists_arguments_with_types_and_defaults():
    found = catalogue(Point("broken", ImportError("no module x"), Distribution("bad", "0.1")))
    broken, spread = describe_plugins(found)
    assert "no module x" in broken.problem
    assert (spread.summary, spread.questions) == ("Prefers empty nodes.", ("node_score",))
    assert [(a.name, a.type, a.default, a.is_required) for a in spread.arguments] == [
        ("maxSkew", "int", 1, False),
        ("damping", "float", 0.5, False),
    ]
