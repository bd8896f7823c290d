"""The commands of the page about time-based fair share are run, and its examples are read."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from kaisched.engine.migration.kai import from_kai
from kaisched.engine.policy import build_policy
from kaisched.objects.decode import decode_object
from kaisched.objects.shard import SchedulingShard
from kaisched.usage.settings import read_usage
from kaisched_apiserver import ApiServer
from tests.contract.apiserver.client import MERGE, Client

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "kai-time-based-fairshare.md").read_text(encoding="utf-8")
SHARDS = "/apis/kai.scheduler/v1/schedulingshards"
GUIDE = """
  gpuAllocationMetric: kai_queue_allocated_gpus
  gpuCapacityMetric: sum(kube_node_status_capacity{resource=\\"nvidia_com_gpu\\"})
"""
"""As the guide prints it: with a backslash before each quote."""


def patches(kind):
    """Return the merge patches of an object that the page has, in order."""
    lines = re.findall(rf"kubectl patch {kind} .*?(?=`|$)", PAGE, re.MULTILINE)
    found = []
    for line in lines:
        words = shlex.split(line)
        assert words[4:7] == ["--type", "merge", "-p"]
        found.append((words[3], json.loads(words[7])))
    return found


def merged(old, patch):
    """Return an object after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new


@pytest.fixture(scope="module")
def server():
    with ApiServer() as server:
        client = Client(server.url)
        folder = ROOT / "deploy" / "crds"
        definition = yaml.safe_load((folder / "schedulingshards.kai.scheduler.yaml").read_text())
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert client.post(path, definition).code in {201, 409}
        yield client


def used(shard):
    """Return what a shard as the server has it comes to: the settings of its store, and k."""
    obj, warnings = decode_object(shard, SchedulingShard)
    policy, said = build_policy(obj)
    assert [*warnings, *said] == []
    plugins = {each.plugin.name: each.plugin for each in policy.plugins}
    settings = read_usage(obj.spec.usage_db_config, obj.name, environ={})
    return settings, plugins["time-based-fairshare"].arguments.k_value


@pytest.mark.proportion
def test_each_patch_of_the_shard_is_taken_by_the_server_and_the_scheduler(server):
    shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "spec": {}}
    assert server.post(SHARDS, {**shard, "metadata": {"name": "default"}}).code == 201
    seen = []
    for name, patch in patches("schedulingshard"):
        answer = server.patch(f"{SHARDS}/{name}", patch, type_=MERGE)
        assert answer.code == 200, answer.message
        seen.append(used(answer.body))
    operators, ours, capacity, file, window, half = seen
    assert operators[0].prometheus.url.startswith("http://prometheus-operated.kai-scheduler")
    assert ours[0].prometheus.url == "http://prometheus.monitoring:9090"
    assert capacity[0].prometheus.capacity["gpu"] == "kaisched_capacity_gpus"
    assert (file[0].type, file[0].prometheus) == ("sqlite", None)
    assert (window[0].window.size_s, window[0].window.half_life_s) == (7 * 86_400, 600)
    assert [k for _, k in seen] == [1.0] * 5 + [half[1]] == [1.0] * 5 + [0.5]


@pytest.mark.proportion
def test_the_metrics_of_the_page_are_read_and_those_of_the_guide_name_the_fault():
    (text,) = re.findall(r"```yaml\n(spec:.*?)```", PAGE, re.DOTALL)
    spec = yaml.safe_load(text)["spec"]
    spec["usageDBConfig"]["clientType"] = "prometheus"
    settings, _ = used({"metadata": {"name": "s"}, "spec": spec})
    assert settings.prometheus.capacity["cpu"] == 'sum(kube_node_status_capacity{resource="cpu"})'
    wrong = {"clientType": "prometheus", "extraParams": yaml.safe_load(GUIDE)}
    with pytest.raises(Exception, match=r"gpuCapacityMetric: .*backslash"):
        decode_object(
            {"metadata": {"name": "s"}, "spec": {"usageDBConfig": wrong}}, SchedulingShard
        )


def test_every_key_of_the_config_is_taken_or_told_of(tmp_path):
    ((_, enabled),) = patches("config")
    keys = re.findall(
        r"^\| `(\w+)`(?:, `(\w+)`)? \|", PAGE.split("## The keys of")[1], re.MULTILINE
    )
    named = {key for pair in keys for key in pair if key}
    values = {
        "externalPrometheusUrl": "http://prometheus.monitoring:9090",
        "externalPrometheusHealthProbe": {"interval": 60, "timeout": 5, "maxRetries": 2},
        "retentionPeriod": "30d",
        "sampleInterval": "30s",
        "serviceMonitor": {"enabled": True},
        "storageClassName": "standard",
        "storageSize": "20Gi",
    }
    assert named == {"enabled", *values}
    config = {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "metadata": {"name": "kai-config"},
    }
    config = merged(merged(config, enabled), {"spec": {"prometheus": values}})
    (_, patch), *_ = patches("schedulingshard")
    shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
    shard = merged({**shard, "metadata": {"name": "default"}}, patch)
    file = tmp_path / "kai.yaml"
    file.write_text(yaml.safe_dump_all([config, shard]))
    made = from_kai([file])
    assert made.told.errors == []
    usage = made.shards["default"]["usageDBConfig"]
    assert usage["connectionString"] == "http://prometheus.monitoring:9090"
    assert usage["healthProbe"] == {"interval": "60s", "timeout": "5s", "maxRetries": 2}
    assert usage["extraParams"] == {"queryResolution": "30s"}
    told = {note.path for note in (*made.told.left, *made.told.to_do)}
    for key in ("retentionPeriod", "sampleInterval", "storageClassName", "storageSize"):
        assert f"spec.prometheus.{key}" in told
