"""docs/reference/scenarios.md names every key of a scenario file, with its default."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from kaisched.sim.scenario import document
from kaisched.sim.scenario.load import scenario_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "scenarios.md").read_text(
    encoding="utf-8"
)
SECTIONS = {
    "The file": (document.ScenarioDocument,),
    "time": (document.Time,),
    "nodes": (document.NodeGroup, document.Failures, document.Outage),
    "queues": (document.QueueLine,),
    "jobs": (
        document.JobGroup,
        document.Arrivals,
        document.Hours,
        document.Size,
        document.RunTime,
        document.Lognormal,
    ),
    "Devices and claims": (document.DeviceLine, document.ClaimLine),
    "traces": (document.TraceLine,),
    "usage": (document.Usage,),
    "tune": (document.Tune,),
}


def section(title):
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_is_told(title):
    told = set(re.findall(r"`(\w+)`", section(title)))
    keys = {key for type_ in SECTIONS[title] for key in type_.__struct_encode_fields__}
    assert keys - told == set()


@pytest.mark.parametrize("title", SECTIONS)
def test_no_other_key_is_told_at_the_head_of_a_row(title):
    heads = re.findall(r"^- (`\w+`(?:, `\w+`)*)(?: \(|: |$)", section(title), flags=re.MULTILINE)
    told = {name for head in heads for name in re.findall(r"`(\w+)`", head)}
    keys = {key for type_ in SECTIONS[title] for key in type_.__struct_encode_fields__}
    assert told - keys == set()


@pytest.mark.parametrize(
    "title", ["time", "nodes", "queues", "jobs", "Devices and claims", "traces", "usage"]
)
def test_plain_defaults_are_those_of_the_code(title):
    rows = re.findall(r"^- (`\w+`(?:, `\w+`)*) \(`([^`]*)`\)", section(title), re.MULTILINE)
    plain = {
        field.encode_name: field.default
        for type_ in reversed(SECTIONS[title])
        for field in msgspec.structs.fields(type_)
    }
    for heads, default in rows:
        for name in re.findall(r"`(\w+)`", heads):
            code = plain[name]
            assert default == (str(code).lower() if isinstance(code, bool) else str(code)), name


def test_the_example_is_a_scenario(tmp_path):
    text = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
    assert scenario_of(yaml.safe_load(text), tmp_path / "s.yaml").leaves == ["research", "products"]


def test_every_file_that_is_written_is_told():
    told = section("What is written")
    for name in (
        "report.html",
        "result.json",
        "queues.csv",
        "timeline.csv",
        "cluster.csv",
        "jobs.csv",
        "devices.csv",
    ):
        assert f"`{name}`" in told


def test_the_example_of_claims_is_a_scenario(tmp_path):
    text = re.search(r"```yaml\n(.*?)```", section("Devices and claims"), re.DOTALL)[1]
    raw = {"time": {"duration": "4h"}, "queues": [{"name": "research"}], **yaml.safe_load(text)}
    scenario = scenario_of(raw, tmp_path / "s.yaml")
    assert not scenario.warnings
    assert scenario.planned or scenario.backlogs
