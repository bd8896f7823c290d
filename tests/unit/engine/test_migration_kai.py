"""Objects of KAI-Scheduler become ours; keys of its Config that mean nothing here are told of."""

import copy

import pytest
import yaml

from kaisched.engine.migration.kai import from_kai
from kaisched.errors import KaischedError, join_path
from tests.unit.engine.migrating import documents, maps_in, told_of

PROMETHEUS = {
    "enabled": True,
    "externalPrometheusUrl": "http://prometheus.monitoring:9090",
    "externalPrometheusHealthProbe": {"interval": 60, "maxRetries": 2},
    "retentionPeriod": "3d",
    "sampleInterval": "30s",
    "serviceMonitor": {"enabled": False, "interval": "15s"},
    "storageClassName": "standard",
    "storageSize": "20Gi",
}
CONFIG = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "Config",
    "metadata": {"name": "kai-config"},
    "spec": {
        "namespace": "kai-scheduler",
        "global": {"schedulerName": "our-kai", "queueLabelKey": "my/queue"},
        "prometheus": PROMETHEUS,
    },
}
FLAGS = {"default-staleness-grace-period": "5m", "full-hierarchy-fairness": "true"}
SHARD = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "SchedulingShard",
    "metadata": {"name": "default", "uid": "x"},
    "spec": {
        "args": FLAGS | {"verbosity": 3},
        "usageDBConfig": {"clientType": "prometheus", "usageParams": {"windowSize": "1w"}},
    },
}
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "a", "labels": {"x": "y"}},
    "spec": {"resources": {"gpu": {"quota": 3, "limit": -1}}},
}


@pytest.fixture
def read(tmp_path):
    """Read some objects of one file."""

    def read(*objects):
        file = tmp_path / "kai.yaml"
        file.write_text(yaml.dump_all(objects))
        return from_kai([file])

    return read


def test_queues_and_shards_stay_as_they_are_without_what_has_no_effect(read):
    made = read(CONFIG, SHARD, QUEUE)
    (queue,) = documents(made, "queues")
    assert (queue["metadata"], queue["spec"]) == (QUEUE["metadata"], QUEUE["spec"])
    (shard,) = documents(made, "shards")
    assert shard["spec"]["args"] == FLAGS
    assert told_of(made) >= {"spec.args.verbosity", "metadata.uid"}


def test_shards_ask_the_external_prometheus_in_steps_of_its_samples(read):
    (shard,) = documents(read(CONFIG, SHARD), "shards")
    usage = shard["spec"]["usageDBConfig"]
    assert usage["connectionString"] == "http://prometheus.monitoring:9090"
    assert usage["healthProbe"] == {"interval": "60s", "maxRetries": 2}
    assert usage["extraParams"] == {"queryResolution": "30s"}


def test_an_address_of_the_shards_own_wins(read):
    shard = copy.deepcopy(SHARD)
    shard["spec"]["usageDBConfig"]["connectionString"] = "http://other:9090"
    (read_back,) = documents(read(CONFIG, shard), "shards")
    assert read_back["spec"]["usageDBConfig"]["connectionString"] == "http://other:9090"


def test_every_key_of_its_prometheus_is_taken_or_told_of(read):
    made = read(CONFIG, SHARD)
    said = told_of(made) | {note.path for note in made.told.to_do}
    at = "spec.prometheus"
    assert said >= {
        f"{at}.{key}"
        for key in (
            "storageClassName",
            "storageSize",
            "retentionPeriod",
            "sampleInterval",
            "serviceMonitor.interval",
        )
    }
    assert "serviceMonitor.create=false" in made.helm()
    alone = {note.text for note in read(CONFIG).told.to_do}
    assert any("nobody asks it" in text for text in alone)


def test_a_server_of_the_operator_is_not_taken_over(read):
    config = copy.deepcopy(CONFIG)
    config["spec"]["prometheus"] = {"enabled": True}
    assert [it.path for it in read(config).told.to_do if "operator" in it.text] == [
        "spec.prometheus.enabled"
    ]


def test_a_window_longer_than_what_the_server_keeps_is_told_of(read):
    texts = {note.text for note in read(CONFIG, SHARD).told.to_do}
    assert "a shard's window of 1w is longer: what is older than 3d is lost" in texts


def test_missing_limits_and_weights_are_told_of(read):
    to_do = read(QUEUE).told.to_do
    assert [(it.path, it.text) for it in to_do] == [
        (
            "spec.resources.gpu",
            (
                "overQuotaWeight is not given: a weight of 1 here, 0 in KAI-Scheduler;"
                " write what you mean"
            ),
        )
    ]


def test_pods_of_its_scheduler_are_ours(read):
    (settings,) = documents(read(CONFIG), "settings")
    assert settings["schedulerNames"] == ["kaisched", "kai-scheduler", "our-kai"]


def test_no_key_of_the_config_is_skipped_in_silence(read):
    for path in maps_in(CONFIG["spec"], ("spec",)):
        changed = copy.deepcopy(CONFIG)
        inner = changed
        for step in path:
            inner = inner[step]
        inner["zzz"] = 1
        assert join_path(*path, "zzz") in told_of(read(changed))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("global",), 3, "spec.global: no map (value 3); export it again, as it was given out"),
        (
            ("prometheus", "externalPrometheusUrl"),
            "ftp://x",
            (
                "spec.prometheus.externalPrometheusUrl: no address (value 'ftp://x');"
                " write an address such as http://prometheus:9090"
            ),
        ),
        (
            ("prometheus", "serviceMonitor", "enabled"),
            "maybe",
            (
                "spec.prometheus.serviceMonitor.enabled: neither true nor false (value 'maybe');"
                " write true or false"
            ),
        ),
    ],
)
def test_wrong_values_are_named_with_file_path_value_and_fix(read, path, value, said):
    config = copy.deepcopy(CONFIG)
    inner = config["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(KaischedError) as wrong:
        read(config).files()
    assert str(wrong.value).endswith(f"kai.yaml: document 1: {said}")


def test_an_unknown_key_of_a_shard_is_an_error_as_elsewhere(read):
    shard = copy.deepcopy(SHARD)
    shard["spec"]["kValu"] = 1
    with pytest.raises(KaischedError, match=r"spec\.kValu: unknown key; did you mean \"kValue\""):
        read(shard).files()
