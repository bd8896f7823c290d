"""The page of Kueue's objects has a line for each field, and its how-to shows what happens."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kaisched.cli.app import run_line
from kaisched.objects.kueue import KINDS
from kaisched.sim.scenario.load import scenario_of
from kaisched.sim.tuning import settings_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "kueue-objects.md").read_text(encoding="utf-8")
HOW_TO = (ROOT / "docs" / "how-to" / "from-kueue.md").read_text(encoding="utf-8")


def fields_of(type_, above=""):
    """Return the path of each field, and whether it has no meaning here."""
    found = {}
    for field in msgspec.structs.fields(type_):
        path = f"{above}{field.encode_name}"
        if path == "metadata":
            continue
        kinds = msgspec.inspect.type_info(field.type)
        many = isinstance(kinds, msgspec.inspect.ListType)
        inner = kinds.item_type if many else kinds
        if isinstance(inner, msgspec.inspect.StructType):
            found |= fields_of(inner.cls, f"{path}[]." if many else f"{path}.")
        else:
            found[path] = field.type is Any
    return found


def rows_of(kind):
    lines = PAGE.partition(f"Fields of a `{kind}`:\n\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^- (`.*?`): (.*)$", lines, re.MULTILINE)
    return {
        path: text.startswith("no meaning")
        for paths, text in rows
        for path in re.findall(r"`([^`]+)`", paths)
    }


@pytest.mark.parametrize("type_", KINDS, ids=lambda it: it.KIND)
def test_every_field_is_told_and_whether_it_means_anything(type_):
    told, there = rows_of(type_.KIND), fields_of(type_)
    assert told == there


def test_the_versions_that_are_read_are_told():
    versions = {
        version.rpartition("/")[2]
        for type_ in KINDS
        for version in (type_.API_VERSION, *type_.OTHER_VERSIONS)
    }
    assert versions == set(re.findall(r"`(v\d\w*)`", PAGE.partition("## Rules")[0]))


def test_the_how_to_shows_what_its_first_command_prints(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    fence = r"^```console\n\$ kaisched ([^\n]*)\n(.*?)^```$"
    text = re.search(fence, HOW_TO, re.MULTILINE | re.DOTALL)
    assert text is not None
    assert run_line(text[1].split()) == 0
    shown = capsys.readouterr()
    printed = [line.rstrip() for line in shown.out.splitlines()]
    wanted = text[2].splitlines()
    assert printed[: len(wanted)] == wanted
    assert shown.err == ""


@pytest.mark.proportion
def test_the_scenario_of_the_how_to_takes_its_queues_from_the_objects():
    text = re.search(r"```yaml\n(.*?)```", HOW_TO, re.DOTALL)
    assert text is not None
    scenario = scenario_of(yaml.safe_load(text[1]), ROOT / "kueue-scenario.yaml")
    assert {row.name: row.parent for row in scenario.queues} == {
        "language": "research",
        "research": "",
        "vision": "research",
    }
    assert scenario.leaves == ["language", "vision"]
    assert scenario.warnings == ()
    assert len(settings_of(scenario)) == 2
