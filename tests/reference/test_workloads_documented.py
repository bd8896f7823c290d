"""The page of workloads has a line for each row of the table, and its example works."""

import re
from dataclasses import fields
from pathlib import Path

import msgspec

from kaisched import Gang, SubGroupSpec, Workload
from kaisched.objects.gangs import GANG_API, GANG_API_KIND, GANG_API_VERSIONS, WORKLOADS
from kaisched.testing import check_plugin

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "workloads.md").read_text(encoding="utf-8")


def first_columns(heading):
    """The first two columns of a table, by the code in the first."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    return {tuple(re.findall(r"`(\w+)`", first)): second for first, second in rows}


def test_every_kind_has_a_line_with_its_versions():
    table = PAGE.partition("| kind |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    listed = [
        (re.findall(r"`(\w+)`", kind)[0], re.findall(r"`([\w./-]+)`", versions))
        for kind, versions in rows
    ]
    known = [(row.kind, [row.api_version, *row.other_versions]) for row in WORKLOADS]
    known.append((GANG_API_KIND, [f"{GANG_API}/{it}" for it in GANG_API_VERSIONS]))
    assert sorted(listed) == sorted(known)


def test_every_field_is_described():
    rows = [name for names in first_columns("field of a `Workload`") for name in names]
    assert rows == [it.name for it in fields(Workload)]
    gangs = [name for names in first_columns("field of a `Gang`") for name in names]
    assert sorted(gangs) == sorted(it.name for it in msgspec.structs.fields(Gang))


def test_the_example_is_a_plugin():
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    there = {}
    exec(text, there)
    check_plugin(there["Widgets"])
    assert there["read"]({"arms": 2}, {}) == Gang(
        sub_groups=[
            SubGroupSpec(name="head", min_member=1),
            SubGroupSpec(name="arm", min_member=2),
        ]
    )
