"""Errors are one line that says where, what and what to do."""

import pickle

import pytest

from kaisched import errors
from kaisched.errors import (
    ClusterError,
    ClusterUnavailable,
    ConfigError,
    InvariantBroken,
    KaischedError,
    ObjectError,
    PluginConflictError,
    PluginError,
    PluginLoadError,
    UsageUnavailable,
    join_path,
)


def test_a_config_error_reads_as_file_path_message_value_fix():
    error = ConfigError(
        "unknown key", file="a.yaml", path="spec.kvalue", value=3, fix='did you mean "kValue"?'
    )
    assert str(error) == 'a.yaml: spec.kvalue: unknown key (value 3); did you mean "kValue"?'


def test_an_object_error_names_document_kind_and_name():
    error = ObjectError(
        "missing", file="a.yaml", path="spec", document=2, kind="Queue", name="team-a"
    )
    assert str(error) == "a.yaml: document 2 (Queue team-a): spec: missing"
    assert str(ObjectError("missing", kind="Queue", name="b")) == "Queue b: missing"


def test_none_is_a_value_and_nothing_is_none():
    assert str(ConfigError("bad", value=None)) == "bad (value None)"
    assert str(ConfigError("bad")) == "bad"


@pytest.mark.parametrize(
    "value",
    ["x\ny", "\ud800", "y" * 10**6, 10**6000, ["z"] * 10**5, {"a": {"b": {"c": 1}}}],
    ids=lambda value: type(value).__name__,
)
def test_any_value_is_shown_in_one_short_printable_line(value):
    text = str(ConfigError("bad\nline", file="f\x00\ud800", value=value))
    assert text.isprintable()
    assert len(text) < 400
    text.encode()


def test_a_plugin_error_names_plugin_and_distribution():
    error = PluginLoadError("not installed", plugin="x", distribution="acme 1.0", fix="pip install")
    assert str(error) == "plugin x (from acme 1.0): not installed; pip install"


@pytest.mark.parametrize(
    ("error", "base", "code"),
    [
        (KaischedError, Exception, 1),
        (ConfigError, KaischedError, 2),
        (ObjectError, KaischedError, 2),
        (PluginConflictError, PluginError, 3),
        (ClusterUnavailable, ClusterError, 4),
        (UsageUnavailable, KaischedError, 5),
        (InvariantBroken, KaischedError, 70),
    ],
)
def test_every_error_has_its_place_and_exit_code(error, base, code):
    assert issubclass(error, base)
    assert error.exit_code == code


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = {word for word in errors.__doc__.split() if word.isidentifier()}
    public = [it for it in vars(errors).values() if isinstance(it, type)]
    tree = {it.__name__ for it in public if issubclass(it, KaischedError)} - {"_PlacedError"}
    assert tree <= drawn


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        (("spec", "subGroups", 0, "name"), "spec.subGroups[0].name"),
        (("status", "allocatable", "nvidia.com/gpu"), "status.allocatable['nvidia.com/gpu']"),
        ((), ""),
        ((0, "a"), "[0].a"),
    ],
)
def test_paths_read_as_people_write_them(steps, path):
    assert join_path(*steps) == path


def test_errors_survive_a_process_boundary():
    error = ObjectError("bad", file="f", path="p", value=1, fix="x", kind="Queue")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_of_another_process_says_the_same():
    for error in (
        ConfigError("is wrong", file="f", path="a.b", fix="mend it"),
        ObjectError("is wrong", value=3, document=2, kind="Pod", name="p"),
        PluginLoadError("is not there", plugin="p", distribution="d 1", fix="install it"),
        ClusterUnavailable("is away", fix="wait"),
    ):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
