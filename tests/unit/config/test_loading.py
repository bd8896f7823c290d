"""Settings: file < environment < flags, every value with its origin, every fault with its place."""

from pathlib import Path

import pytest

from kaisched.config.loading import leaves, load_settings, plain, variable_of
from kaisched.errors import ConfigError

HEAD = "apiVersion: kaisched.io/v1alpha1\nkind: SchedulerConfiguration\n"
ROOT = Path(__file__).resolve().parents[3]


def shown(loaded):
    return {row.path: (row.value, row.origin) for row in loaded.shown()}


def written(folder, text):
    file = folder / "kaisched.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    return file


def test_without_anything_every_value_is_a_default():
    assert {origin for _, origin in shown(load_settings()).values()} == {"default"}


def test_the_later_source_wins_and_is_named(tmp_path):
    file = written(tmp_path, "schedulePeriod: 5s\nmetrics: {port: 1, bindAddress: 0.0.0.0}\n")
    loaded = load_settings(
        file,
        {"KAISCHED_METRICS__PORT": "2", "KAISCHED_HEALTH__PORT": "3"},
        {"health.port": ("--health-port", 4)},
    )
    values = shown(loaded)
    assert values["schedulePeriod"] == ("5s", str(file))
    assert values["metrics.bindAddress"] == ("0.0.0.0", str(file))
    assert values["metrics.port"] == (2, "KAISCHED_METRICS__PORT")
    assert values["health.port"] == (4, "--health-port")
    assert values["health.bindAddress"] == ("127.0.0.1", "default")
    assert loaded.settings.schedule_period == 5.0


def test_a_section_given_in_part_keeps_its_own_defaults(tmp_path):
    file = written(tmp_path, "health: {bindAddress: 0.0.0.0}\n")
    assert load_settings(file).settings.health.port == 8081


def test_the_file_may_be_named_by_the_environment(tmp_path):
    file = written(tmp_path, "schedulePeriod: 7s\n")
    loaded = load_settings(environment={"KAISCHED_CONFIG": str(file)})
    assert loaded.settings.schedule_period == 7.0


def test_lists_are_commas_in_the_environment():
    loaded = load_settings(environment={"KAISCHED_SCHEDULER_NAMES": "mine, yours"})
    assert loaded.settings.scheduler_names == ("mine", "yours")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("schedulPeriod: 1s\n", 'schedulPeriod: unknown key; did you mean "schedulePeriod"?'),
        ("metrics: {prot: 1}\n", 'metrics.prot: unknown key; did you mean "port"?'),
        ("metrics: 8080\n", "metrics: must be a mapping (value 8080)"),
        (
            "xyz: 1\n",
            "xyz: unknown key; known: cluster, evictions, health, kubernetes, leaderElection,",
        ),
        ("schedulePeriod: 5\n", 'schedulePeriod: 5 has no unit (value 5); write "5s"'),
        ("metrics: {port: 70000}\n", "metrics.port: input should be less than or equal to 65535"),
        ("log: {level: loud}\n", "log.level: input should be 'debug', 'info', 'warning' or 'err"),
    ],
)
def test_a_fault_in_the_file_is_one_line_with_its_place(tmp_path, text, line):
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    assert str(caught.value).startswith(f"{file}: {line}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is empty; start with kind: SchedulerConfiguration"),
        ("x: 1\n", "has no apiVersion and no kind; write apiVersion: kaisched.io/v1alpha1 and"),
        ("kind: Queue\n", "kind: holds no settings (value 'Queue'); name a file with kind: Sched"),
        (
            "kind: SchedulerConfiguration\n",
            "apiVersion: is missing; write apiVersion: kaisched.io/v1alpha1",
        ),
        (
            "kind: SchedulerConfiguration\n---\n" * 3,
            "holds 3 documents; write one SchedulerConfiguration",
        ),
        (
            "apiVersion: v1\n",
            "apiVersion: names another kind of file (value 'v1'); write apiVersion",
        ),
        ("- 1\n", "is not a mapping; start with kind: SchedulerConfiguration"),
        ("{{ .Values.settings }}\n", "1: looks like a Helm template; read what `helm template`"),
        ("a: [\n", "2: no YAML: "),
    ],
)
def test_another_file_is_not_taken_for_settings(tmp_path, text, line):
    file = tmp_path / "other.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    assert str(caught.value).startswith((f"{file}: {line}", f"{file}:{line}"))


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_settings(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (
            "KAISCHED_METRIC__PORT",
            "1",
            (
                "KAISCHED_METRIC__PORT: unknown setting in the environment; did you mean"
                ' "KAISCHED_METRICS__PORT"?'
            ),
        ),
        ("KAISCHED_METRICS__PORT", "x", "KAISCHED_METRICS__PORT: metrics.port: input should be a"),
        ("KAISCHED_SCHEDULE_PERIOD", "5", "KAISCHED_SCHEDULE_PERIOD: schedulePeriod: '5' has no u"),
    ],
)
def test_a_fault_in_the_environment_names_the_variable(name, value, line):
    with pytest.raises(ConfigError) as caught:
        load_settings(environment={name: value})
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAISCHED_PORT", "tcp://10.0.0.1:8080"),
        ("KAISCHED_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("KAISCHED_METRICS_SERVICE_HOST", "10.0.0.1"),
        ("KAISCHED_SERVICE_PORT_HTTP", "8080"),
    ],
)
def test_what_kubernetes_injects_for_a_service_of_our_name_is_ignored(name, value):
    assert dict(load_settings(environment={name: value}).origins) == {}


def test_a_flag_that_does_not_fit_is_named():
    with pytest.raises(ConfigError, match=r"^--metrics-port: metrics\.port: input should be"):
        load_settings(flags={"metrics.port": ("--metrics-port", -1)})


def test_variables_are_spelt_from_the_keys():
    assert variable_of("metrics.bindAddress") == "KAISCHED_METRICS__BIND_ADDRESS"
    assert len({leaf.variable for leaf in leaves()}) == len(leaves())


def test_every_setting_says_what_it_is_for():
    assert [leaf.path for leaf in leaves() if not leaf.description] == []


def test_a_value_shown_can_be_written_back(tmp_path):
    file = written(tmp_path, "schedulePeriod: 1500ms\n")
    value, _ = shown(load_settings(file))["schedulePeriod"]
    again = written(tmp_path, f"schedulePeriod: {value}\n")
    assert load_settings(again).settings.schedule_period == 1.5


def test_a_secret_is_not_shown():
    from pydantic import SecretStr

    assert plain(SecretStr("hush")) == "**********"


def test_the_example_spells_out_the_defaults():
    """config/kaisched.yaml names every setting, with its default."""
    file = ROOT / "config" / "kaisched.yaml"
    loaded = load_settings(file)
    assert loaded.settings == load_settings().settings
    assert sorted(loaded.origins) == sorted(leaf.path for leaf in leaves())


@pytest.mark.parametrize(
    ("address", "given", "is_asked"),
    [
        ("127.0.0.1", "auto", False),
        ("::1", "auto", False),
        ("localhost", "auto", False),
        ("0.0.0.0", "auto", True),
        ("::", "auto", True),
        ("10.0.0.7", "auto", True),
        ("0.0.0.0", "none", False),
        ("127.0.0.1", "kubernetes", True),
    ],
)
def test_metrics_for_others_than_this_machine_need_a_token(tmp_path, address, given, is_asked):
    text = f"metrics: {{bindAddress: '{address}', authentication: {given}}}\n"
    metrics = load_settings(written(tmp_path, text)).settings.metrics
    assert metrics.is_authenticated is is_asked


def test_a_certificate_without_its_key_is_refused(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_settings(written(tmp_path, "metrics: {certFile: a.crt}\n"))
    assert "certFile and keyFile go together: set both or none" in str(caught.value)


def test_all_faults_of_file_and_environment_are_told_at_once(tmp_path):
    file = written(tmp_path, "metrics: {port: x, prot: 1}\nfoo: 1\nschedulePeriod: soon\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file, {"KAISCHED_FOO": "1"}, {"health.port": ("--health-port", 99999)})
    paths = [error.path for error in (caught.value, *caught.value.others)]
    assert paths == [
        "metrics.prot",
        "foo",
        "KAISCHED_FOO",
        "schedulePeriod",
        "metrics.port",
        "health.port",
    ]
