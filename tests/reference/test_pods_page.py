"""docs/reference/pods.md says of every field what it means for where pods go.

``kubernetes-1.36-fields.json`` has the fields of each kind in the OpenAPI document of Kubernetes
1.36, from the Python client that is made of it. A newer client shows what is new.
"""

import ast
import json
import re
from pathlib import Path

import pytest
from kubernetes import client

from tests.small_clusters.test_fields import CASES, ELSEWHERE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "pods.md").read_text(encoding="utf-8")
OLD, NEW = PAGE.split("## Newer than 1.36")
FIELDS = {
    kind: set(fields.split())
    for kind, fields in json.loads(
        (Path(__file__).parent / "kubernetes-1.36-fields.json").read_text(encoding="utf-8")
    ).items()
}
ALL = {f"{kind}.{field}" for kind, fields in FIELDS.items() for field in fields}
WORDS = {"honored", "refused", "no effect", "not judged"}
NAME = re.compile(r"`(\w+\.[\w*]+)`")


def lines():
    """Yield (names, what is said of them, why) of each line of the page."""
    word = ""
    for line in OLD.splitlines():
        head = re.fullmatch(r"\*\*([a-z ]+)\*\*", line)
        word = head[1] if head else word
        if line.startswith("- "):
            names, _, why = line.partition(": ")
            yield NAME.findall(names), word, why


def rows():
    """Yield (field, what is said of it, why) of each field on the page."""
    named = {name for names, _, _ in lines() for name in names}
    for names, word, why in lines():
        for name in names:
            kind, field = name.split(".")
            every = [f"{kind}.{one}" for one in sorted(FIELDS[kind])]
            for one in (it for it in every if it not in named) if field == "*" else [name]:
                yield one, word, why


ROWS = list(rows())
SAID = {field: word for field, word, _ in ROWS}


def test_every_field_is_on_the_page_once():
    assert sorted(field for field, _, _ in ROWS) == sorted(ALL)


def test_each_has_one_of_four_words_and_a_reason_where_it_is_not_honored():
    assert set(SAID.values()) == WORDS
    assert [field for field, word, why in ROWS if word != "honored" and not why] == []


@pytest.mark.proportion
def test_what_is_honored_has_a_test():
    tested = {field for it in CASES.values() for field in it.fields}
    tested |= {field for fields in ELSEWHERE for field in fields.split()}
    assert {field for field, word in SAID.items() if word == "honored"} == tested


@pytest.mark.parametrize("test", ELSEWHERE.values())
def test_a_test_that_is_named_exists(test):
    path, name = test.split("::")
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    assert name in {it.name for it in body if isinstance(it, ast.FunctionDef)}


def test_what_the_client_has_beyond_is_listed():
    """A field that a new version brings: look at it, then list it, or go to that version."""
    found = set()
    for kind in FIELDS:
        model = getattr(client, f"V1{kind}", None) or getattr(client, f"CoreV1{kind}")
        fields = {it.serialization_alias or name for name, it in model.model_fields.items()}
        found |= {f"{kind}.{field}" for field in fields - {"apiVersion", "kind", "metadata"}}
    assert found - ALL == set(NAME.findall(NEW))
