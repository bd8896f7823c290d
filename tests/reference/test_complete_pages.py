"""Pages that list all there is: alerts, labels and annotations; and blocks of code are blocks."""

import re
from pathlib import Path

import pytest
import yaml

from kaisched.objects import labels

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_every_alert_has_a_row_that_says_what_to_do():
    rules = yaml.safe_load((ROOT / "deploy/monitoring/rules.yaml").read_text(encoding="utf-8"))
    alerts = [it["alert"] for group in rules["groups"] for it in group["rules"] if "alert" in it]
    page = (DOCS / "how-to" / "alerts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`Kaisched.*`) \| .+ \| .+ \|$", page, re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(alerts)


def test_every_label_and_annotation_is_listed():
    """Constants of the module that look like keys, and nothing that is not one."""
    others = {"DEFAULT_QUEUE", "DEFAULT_POOL", "KAI_SCHEDULER", "RESERVATION"}
    others |= {"PREEMPTIBLE", "NON_PREEMPTIBLE"}
    keys = {
        value
        for name, value in vars(labels).items()
        if name.isupper() and isinstance(value, str) and name not in others and " " not in value
    }
    page = (DOCS / "reference" / "labels.md").read_text(encoding="utf-8")
    quoted = set(re.findall(r"`([^`]+)`", page))
    assert keys - quoted - {"runai", "shared-gpu-configmap"} == set()


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_a_block_of_code_begins_on_a_line_of_its_own(page):
    """A formatter that fills lines makes one paragraph of an indented block."""
    broken = re.findall(r"^ *```\w* +\S.*", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert broken == []
