"""The answers that a kube-apiserver 1.36.2 gave, one by one.

``recorded.json`` has them: what is left out there is not compared, ``…`` stands for the rest of a
text, and identities, times and versions are masked. ``deviations.json`` says where our server
answers otherwise, and why.
"""

import json
import re
from pathlib import Path

import pytest

from kaisched_apiserver import ApiServer
from tests.contract.apiserver.client import Client
from tests.contract.apiserver.recorded_requests import recorded_requests

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded.json").read_text())
DEVIATIONS = json.loads((HERE / "deviations.json").read_text())
MASKS = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"current: \d+"), "current: <version>"),
)


def fits(wanted, got):
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(fits(it, got.get(key)) for key, it in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(got, list)
            and len(wanted) == len(got)
            and all(fits(*pair) for pair in zip(wanted, got, strict=True))
        )
    if not isinstance(wanted, str) or not isinstance(got, str):
        return wanted == got
    for pattern, name in MASKS:
        wanted, got = pattern.sub(name, wanted), pattern.sub(name, got)
    return got.startswith(wanted[:-1]) if wanted.endswith("…") else wanted == got


@pytest.fixture(scope="module")
def answers():
    with ApiServer() as server:
        return dict(recorded_requests(Client(server.url), "default"))


@pytest.mark.parametrize("what", RECORDED)
def test_the_answer_is_as_recorded(what, answers):
    assert fits(RECORDED[what], answers[what]) is (what not in DEVIATIONS), answers[what]


def test_every_recorded_request_is_made(answers):
    assert answers.keys() == RECORDED.keys()


def test_every_deviation_is_of_a_recorded_answer_and_has_a_reason():
    assert DEVIATIONS.keys() <= RECORDED.keys()
    assert all(len(reason.split()) > 5 for reason in DEVIATIONS.values())
