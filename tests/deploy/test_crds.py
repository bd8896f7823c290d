"""The CustomResourceDefinitions say what the decoder says, as far as a schema can."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kaisched.cli.app import run_line
from kaisched.cli.setup import definitions
from kaisched.objects.crds import (
    DEFINITIONS,
    custom_resource_definitions,
    duration_schema,
    struct_schema,
)
from kaisched.objects.load import load_text
from kaisched.units import UnitError, parse_duration
from tests.deploy.structural import faults, misshapen, unknown

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "deploy" / "crds"
SCHEMA_OF = {
    (f"{it['spec']['group']}/{version['name']}", it["spec"]["names"]["kind"]): version["schema"][
        "openAPIV3Schema"
    ]
    for it in custom_resource_definitions().values()
    for version in it["spec"]["versions"]
}
CASES = {
    f"{file.stem}/{case['name']}": case
    for file in sorted((ROOT / "tests" / "bad_input").glob("*.yaml"))
    for case in yaml.safe_load(file.read_text(encoding="utf-8"))
}
LISTED = yaml.safe_load((Path(__file__).parent / "caught.yaml").read_text(encoding="utf-8"))


def ours_in(text):
    """The documents of our own kinds; none where the text is no YAML."""
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError):
        return []
    return [
        each
        for each in documents
        if isinstance(each, dict)
        and (str(each.get("apiVersion")), str(each.get("kind"))) in SCHEMA_OF
    ]


def schema_of(obj):
    return SCHEMA_OF[obj["apiVersion"], obj["kind"]]


# -- the files -----------------------------------------------------------------------------------


def test_the_files_are_what_the_command_writes(tmp_path):
    assert run_line(["config", "crds", "--into", str(tmp_path)]) == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    there = {path.name: path.read_text(encoding="utf-8") for path in CRDS.glob("*.*.yaml")}
    assert written == there


def test_the_command_prints_the_same(capsys):
    assert run_line(["config", "crds"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == [yaml.safe_load(text) for text in definitions().values()]


def test_a_folder_that_is_not_there_is_one_line(tmp_path, capsys):
    assert run_line(["config", "crds", "--into", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"kaisched: {tmp_path}/none: cannot write: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("key", SCHEMA_OF, ids=lambda key: key[1])
def test_a_schema_is_structural(key):
    assert list(misshapen(SCHEMA_OF[key])) == []


def test_a_schema_that_is_not_structural_would_be_noticed():
    bad = {"type": "object", "properties": {"a": {}, "b": {"type": "integer", "default": "x"}}}
    assert len(list(misshapen({**bad, "required": ["c"]}))) == 3


@pytest.mark.parametrize("type_", DEFINITIONS, ids=lambda type_: type_.KIND)
def test_names_are_those_of_the_structs(type_):
    definition = custom_resource_definitions()[
        f"{DEFINITIONS[type_].plural}.{type_.API_VERSION.partition('/')[0]}"
    ]
    spec = definition["spec"]
    assert spec["names"]["kind"] == type_.KIND
    assert spec["scope"] == ("Namespaced" if type_.IS_NAMESPACED else "Cluster")
    (version,) = spec["versions"]
    assert f"{spec['group']}/{version['name']}" == type_.API_VERSION
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"][-1]["name"] == "Age"


@pytest.mark.parametrize("said", DEFINITIONS.values(), ids=lambda said: said.plural)
def test_a_rule_is_about_a_field_that_exists(said):
    for struct, fields in said.rules.items():
        assert fields.keys() - {"", *struct.__struct_fields__} == set()


def test_a_type_without_a_schema_is_an_error():
    with pytest.raises(TypeError, match="no structural schema"):
        struct_schema(bytes, {})


# -- what is accepted ----------------------------------------------------------------------------

KAI = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec:
  displayName: Team A
  parentQueue: default-parent-queue
  priority: 200
  preemptMinRuntime: 1h30m
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 0.5, limit: 8, overQuotaWeight: 2.5}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: pg-train-8c7f, namespace: team-a, annotations: {kai.scheduler/x: y}}
spec:
  minSubGroup: 1
  queue: team-a
  priorityClassName: train
  preemptibility: non-preemptible
  markUnschedulable: true
  schedulingBackoff: -1
  topologyConstraint: {topology: dc, requiredTopologyLevel: rack}
  subGroups:
    - {name: prefill, minSubGroup: 1}
    - {name: leader, minMember: 1, parent: prefill}
    - {name: worker, minMember: 0, parent: prefill}
status:
  phase: Pending
  running: 3
  schedulingConditions:
    - type: UnschedulableOnNodePool
      nodePool: default
      reasons: [{reason: OverLimit, message: m, details: {queueDetails: {name: team-a}}}]
      transitionID: "7"
  resourcesStatus: {requested: {cpu: 500m, nvidia.com/gpu: 1}}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: scales-to-zero}
spec: {minMember: 0}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: needs-none}
spec:
  minSubGroup: 0
  subGroups:
    - {name: all, minSubGroup: 0}
    - {name: part, minMember: 2, parent: all}
---
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec:
  partitionLabelValue: pool-a
  placementStrategy: {gpu: spread, cpu: binpack}
  args: {default-staleness-grace-period: "-1s", v: "4"}
  queueDepthPerAction: {consolidation: 10}
  minRuntime: {preemptMinRuntime: 5m, reclaimMinRuntime: "0"}
  kValue: 1.5
  usageDBConfig:
    clientType: prometheus
    connectionString: http://prometheus:9090
    usageParams:
      windowSize: 1w2d
      windowType: tumbling
      tumblingWindowStartTime: "2026-07-01T00:00:00Z"
      halfLifePeriod: 10m
      extraParams: {gpuAllocationMetric: m}
  goMemLimitRatio: 0.9
  plugins: {gpupack: {enabled: false, priority: 300, arguments: {a: "1"}}}
  actions: {stalegangeviction: {enabled: false}}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: dc}
spec:
  levels:
    - {nodeLabel: topology.example.com/block, alias: block}
    - {nodeLabel: topology.example.com/rack}
    - {nodeLabel: kubernetes.io/hostname}
"""
GOOD = {
    "KAI's": KAI,
    **{
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in (
            *(ROOT / "docs" / "examples").glob("*.yaml"),
            *(ROOT / "config" / "shards").glob("*.yaml"),
            *(ROOT / "kaisched" / "data" / "shards").glob("*.yaml"),
        )
    },
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_good_object_is_accepted_whole(text):
    assert load_text(text, "f.yaml").problems == []
    objects = ours_in(text)
    assert objects
    for obj in objects:
        assert list(faults(obj, schema_of(obj))) == []
        assert list(unknown(obj, schema_of(obj))) == []


DURATIONS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 99).map(str), st.sampled_from(["1.5", ".5", "2."])),
        st.sampled_from(["y", "w", "d", "h", "m", "s", "ms", "us", "µs", "ns", ""]),
    ),
    max_size=4,
).map(lambda parts: "".join(number + unit for number, unit in parts))


@given(st.sampled_from(["", "+", "-"]), DURATIONS, st.booleans())
def test_the_schema_of_a_duration_takes_what_the_parser_takes(sign, text, may_be_negative):
    text = sign + text
    is_accepted = not list(faults(text, duration_schema(may_be_negative=may_be_negative)))
    wrong = ""
    try:
        parse_duration(text, allow_negative=may_be_negative)
    except UnitError as error:
        wrong = str(error)
    # How long it is in all, and a sign alone, no pattern can say.
    assert is_accepted or wrong
    assert not is_accepted or not wrong or "ten years" in wrong or text in {"+", "-"}


# -- what is refused -----------------------------------------------------------------------------


def caught_by(case):
    """What meets a case first: the schema, the server's list of unknown keys, or nobody."""
    objects = ours_in(case["text"])
    if any(list(faults(obj, schema_of(obj))) for obj in objects):
        return "schema"
    if any(list(unknown(obj, schema_of(obj))) for obj in objects):
        return "unknown key"
    return "scheduler" if objects else "not our kind"


@pytest.mark.parametrize("name", CASES)
def test_a_server_refuses_what_a_schema_can_say(name):
    """The rest is listed, with who catches it instead."""
    found = caught_by(CASES[name])
    is_listed = any(name in names for names in LISTED.values())
    assert is_listed == (found == "scheduler")
    if found == "unknown key":
        assert all("unknown key" in line for line in CASES[name]["errors"])


def test_what_is_listed_is_in_the_catalogue_once():
    names = [name for names in LISTED.values() for name in names]
    assert set(names) - CASES.keys() == set()
    assert len(set(names)) == len(names)
