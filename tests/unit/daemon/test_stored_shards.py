"""Shards as a cluster stores them: read, remembered, and reported in their status."""

import msgspec
import pytest

from kaisched.daemon.stored_shards import (
    LAST_USABLE,
    SERVER,
    USABLE,
    StoredShard,
    desired_status,
    last_usable,
    read,
    usable_among,
)
from kaisched.errors import KaischedError
from kaisched.usage.history import ServerHealth

GOOD = {"kValue": 0.5}
WRONG = {"kValu": 1, "plugins": {"zzz": {}}}
OTHER = {"type": "Deployed", "status": "True"}


def stored(spec, status=None, name="s"):
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": spec, "status": status}, StoredShard
    )


def status_of(spec, status=None, now="now"):
    each = stored(spec, status)
    return desired_status(each, read(each), now)


def test_all_errors_of_a_spec_are_found():
    assert [error.path for error in read(stored(WRONG)).errors] == [
        "spec.kValu",
        "spec.plugins.zzz",
    ]
    assert read(stored(GOOD)).shard.spec.k_value == 0.5
    assert read(stored("text")).errors


def test_a_status_is_written_once_and_keeps_the_conditions_of_others():
    first = status_of(GOOD, {"conditions": [OTHER, "odd"]})
    assert first[LAST_USABLE] == GOOD
    assert [it["type"] for it in first["conditions"]] == ["Deployed", "Usable"]
    assert status_of(GOOD, first) is None
    wrong = {**first, **status_of(WRONG, first, "later")}
    assert wrong[LAST_USABLE] == GOOD
    assert wrong["conditions"][1]["status"] == "False"
    assert wrong["conditions"][1]["lastTransitionTime"] == "later"
    assert status_of(WRONG, wrong) is None
    assert status_of(GOOD, wrong, "again")["conditions"][1]["status"] == "True"
    changed = status_of({"kValue": 2}, first, "later")
    assert changed["conditions"][1]["lastTransitionTime"] == "now"


ASKING = {"usageDBConfig": {"clientType": "prometheus"}}


def with_server(spec, status, health, now="now"):
    each = stored(spec, status)
    return desired_status(each, read(each), now, health)


def test_the_server_of_usage_history_has_a_condition():
    gone = ServerHealth(False, "no route")
    first = with_server(ASKING, {"conditions": [OTHER]}, gone)
    condition = first["conditions"][-1]
    assert condition == {
        "type": "UsageServerReachable",
        "status": "False",
        "reason": "NoAnswer",
        "message": "no route",
        "lastTransitionTime": "now",
    }
    assert with_server(ASKING, first, gone, "later") is None
    # Before the next answer of a process that has just started, the condition stays.
    assert with_server(ASKING, first, None, "later") is None
    other = with_server(ASKING, first, ServerHealth(False, "no answer"), "later")
    assert other["conditions"][-1]["lastTransitionTime"] == "now"
    back = with_server(ASKING, other, ServerHealth(True, "answers"), "later")
    assert back["conditions"][-1]["lastTransitionTime"] == "later"
    assert [it["type"] for it in back["conditions"]] == ["Deployed", USABLE, SERVER]


def test_a_shard_that_asks_no_server_loses_the_condition():
    first = with_server(ASKING, None, ServerHealth(True, "answers"))
    assert [it["type"] for it in with_server(GOOD, first, None)["conditions"]] == [USABLE]


@pytest.mark.parametrize("status", [None, "odd", {}, {LAST_USABLE: WRONG}, {"conditions": 3}])
def test_a_wrong_shard_that_was_never_usable_is_an_error(status):
    assert last_usable(stored(WRONG, status)) is None
    assert status_of(WRONG, status)["conditions"][0]["status"] == "False"
    with pytest.raises(KaischedError) as caught:
        usable_among([stored(GOOD), stored(WRONG, status), stored(WRONG, name="t")])
    assert len((caught.value, *caught.value.others)) == 4


def test_a_wrong_shard_counts_as_it_was_usable_last():
    shards, wrong = usable_among([stored(WRONG, {LAST_USABLE: GOOD})])
    assert [shard.spec.k_value for shard in shards] == [0.5]
    assert len(wrong["s"]) == 2
