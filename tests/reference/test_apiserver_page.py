"""The page of the embedded API server lists what there is."""

import json
import re
from pathlib import Path
from typing import get_args

from kaisched_apiserver import ApiServer, connection
from kaisched_apiserver.resources import builtin
from kaisched_apiserver.server import LOG_LENGTH
from kaisched_apiserver.storage import HISTORY_LENGTH, paths_of
from kaisched_apiserver.writing import MOST_EVENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "embedded-api-server.md").read_text(encoding="utf-8")
RECORDED = ROOT / "tests" / "contract" / "apiserver"


def rows(title):
    """Return the names on both sides of the colon, of each line of the list under a title."""
    _, _, rest = PAGE.partition(f"{title}\n\n")
    lines = rest.partition("\n\n")[0].splitlines()
    return [
        [re.findall(r"`([^`]+)`", part) for part in line.removeprefix("- ").split(": ", 1)]
        for line in lines
    ]


def test_all_kinds_are_listed():
    listed = {(row[0][0], plural) for row in rows("## Kinds") for plural in row[1]}
    assert listed == {(it.api_version, it.plural) for it in builtin()}


def test_all_fields_of_pods_are_listed():
    line = next(it for it in PAGE.splitlines() if it.startswith("- fields of pods: "))
    named = {"metadata.name", "metadata.namespace"}
    assert set(re.findall(r"`([^`]+)`", line)) == set(paths_of(("", "pods"))) | named


def test_all_effects_of_faults_are_listed():
    assert [row[0][0] for row in rows("the effect:")] == list(get_args(connection.Effect))


def test_all_methods_that_do_harm_are_listed():
    listed = {name for row in rows("Methods of the server:") for name in row[0]}
    ours = {name for name, it in vars(ApiServer).items() if callable(it) and name[0] != "_"}
    assert listed == ours - {"start", "stop", "call", "later"}


def test_the_numbers_are_those_of_the_code():
    for number, what in (
        (HISTORY_LENGTH, "changes"),
        (MOST_EVENTS, "events are kept"),
        (LOG_LENGTH, "requests"),
    ):
        assert f"{number:,} {what}" in PAGE


def test_the_recorded_answers_are_counted():
    recorded = json.loads((RECORDED / "recorded.json").read_text(encoding="utf-8"))
    assert f"{len(recorded)}\nrecorded answers" in PAGE
