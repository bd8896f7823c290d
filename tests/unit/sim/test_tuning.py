import json
import re
import signal
from multiprocessing import active_children
from pathlib import Path

import pytest

from kaisched.errors import ConfigError
from kaisched.sim import tuning
from kaisched.sim.output.tuning import html_of, json_of, summary_of
from kaisched.sim.tuning import Sweep, Trial, changed, recommend, settings_of, sweep, told

JOBS = [
    {"queue": "a", "arrivals": {"backlog": 2}, "gpus": 4, "pods": 2, "duration": "5h"},
    {"queue": "b", "arrivals": {"poissonPerHour": 1}, "gpus": 2, "duration": "1h"},
]
PARAMETERS = {
    "shard.minRuntime.reclaimMinRuntime": ["0s", "2h"],
    "checkpointEvery": ["30m", "never"],
}


def trial(error, lost, name="x"):
    return Trial((("k", name),), error, lost, 0, 1.0, 1.0, None)


def test_the_grid_is_every_combination_in_the_order_of_the_file(scenario):
    read = scenario(tune={"parameters": {"seed": [1, 2], "checkpointEvery": ["1h", "2h"]}})
    assert [[value for _, value in values] for values in settings_of(read)] == [
        [1, "1h"],
        [1, "2h"],
        [2, "1h"],
        [2, "2h"],
    ]


def test_a_value_is_set_at_its_path_and_nowhere_else():
    raw = {"shard": {"kValue": 1}, "seed": 1}
    new = changed(raw, (("shard.minRuntime.reclaimMinRuntime", "1h"), ("seed", 2)), "f")
    assert new == {"shard": {"kValue": 1, "minRuntime": {"reclaimMinRuntime": "1h"}}, "seed": 2}
    assert raw == {"shard": {"kValue": 1}, "seed": 1}


@pytest.mark.parametrize(
    ("tune", "complaint"),
    [
        (None, "tune.parameters: names nothing to try; write values by path"),
        ({"parameters": {}}, "tune.parameters: names nothing to try"),
        ({"parameters": {"seed": []}}, "tune.parameters.seed: has no values"),
        ({"parameters": {"seed": list(range(1001))}}, "tune.parameters: names 1001 combinations"),
        ({"parameters": {"queues.name": [1]}}, "tune.parameters.queues.name: leads through"),
        ({"parameters": {"seed.x": [1]}}, "tune.parameters.seed.x: leads through"),
        (
            {"parameters": {"shard.kvalue": [1]}},
            'tune.parameters.shard.kvalue: unknown key (with kvalue 1); did you mean "kValue"?',
        ),
        (
            {"parameters": {"time.duration": ["1d", "soon"]}},
            "tune.parameters.time.duration: 'soon' is no duration (with duration soon)",
        ),
    ],
)
def test_a_wrong_sweep_is_told_before_anything_runs(scenario, tune, complaint):
    read = scenario(seed=1, **({} if tune is None else {"tune": tune}))
    with pytest.raises(ConfigError) as caught:
        sweep(read, 1)
    assert complaint in str(caught.value)


def test_the_least_sum_is_recommended_with_what_else_there_was():
    trials = [trial(0.10, 0.0, "calm"), trial(0.02, 0.01, "best"), trial(0.01, 0.09, "fair")]
    best, reason = recommend(trials)
    assert best == 1
    assert "3.0% together, the least of 3 settings" in reason
    assert "The fairest (k fair) has an error of 1.0%, but loses 9.0%." in reason
    assert "The calmest (k calm) loses 0.0%, but has an error of 10.0%." in reason


def test_of_two_equal_sums_the_one_that_loses_less_is_recommended():
    assert recommend([trial(0.0, 0.25), trial(0.25, 0.0)])[0] == 1
    assert recommend([trial(0.25, 0.0), trial(0.25, 0.0)])[0] == 0


def tried(values, error):
    return Trial(tuple(values.items()), error, 0.0, 0, 1.0, 1.0, None)


def found(*trials):
    best, reason = recommend(trials)
    return Sweep("small", trials, best, reason)


def test_values_that_make_no_difference_are_not_recommended():
    sweep = found(
        tried({"shard.kValue": 1, "k": 1}, 0.2),
        tried({"shard.kValue": 1, "k": 2}, 0.1),
        tried({"shard.kValue": 2, "k": 1}, 0.2),
        tried({"shard.kValue": 2, "k": 2}, 0.1),
    )
    assert sweep.idle == ["shard.kValue"]
    assert json.loads(json_of(sweep))["recommended"] == {"k": 2}
    assert json.loads(json_of(sweep))["withoutEffect"] == ["shard.kValue"]
    for text in (summary_of(sweep), html_of(sweep)):
        assert "Recommended: k 2." in text
        assert "The values of kValue made no difference." in text
        assert "The same result" not in text


def test_values_without_effect_beside_one_value_may_have_one_beside_another():
    sweep = found(
        tried({"k": 1, "w": 1}, 0.1),
        tried({"k": 1, "w": 2}, 0.1),
        tried({"k": 2, "w": 1}, 0.3),
        tried({"k": 2, "w": 2}, 0.2),
    )
    assert sweep.idle == []
    assert sweep.reason.endswith(" The same result: k 1, w 2.")


def test_nothing_is_recommended_where_all_settings_are_equal():
    text = summary_of(found(tried({"k": 1}, 0.1), tried({"k": 2}, 0.1)))
    assert "Recommended" not in text
    assert "All 2 settings gave the same result: 10.0% of the GPU-hours" in text


def test_the_frontier_is_what_nothing_beats():
    trials = (trial(0.1, 0.0), trial(0.1, 0.1), trial(0.0, 0.2), trial(0.05, 0.3), trial(0.1, 0.0))
    assert Sweep("s", trials, 0, "").frontier == [0, 2, 4]


def test_settings_are_told_by_the_last_part_of_their_paths():
    assert told((("shard.kValue", 2), ("usage.halfLife", "1h"))) == "kValue 2, halfLife 1h"


def blocked_in_processes():
    """Whether SIGINT is blocked, of each process of the sweep."""
    for process in active_children():
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        mask = int(re.search(r"SigBlk:\t(\w+)", status)[1], 16)
        yield bool(mask >> signal.SIGINT - 1 & 1)


def test_an_interrupted_sweep_ends_its_processes_and_waits_for_none(scenario, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "ProcessPoolExecutor", Pool)
    read = scenario(tune={"parameters": {"seed": [1, 2]}})
    with pytest.raises(KeyboardInterrupt):
        sweep(read, 2, interrupted)
    assert Pool.ended == {"cancel_futures": True}


class Pool:
    """A pool without processes."""

    ended = None

    def __init__(self, *_, **__):
        pass

    def map(self, function, tasks):
        return map(function, tasks)

    def shutdown(self, **how):
        Pool.ended = how


@pytest.mark.slow
def test_a_sweep_does_not_depend_on_how_many_run_at_a_time(scenario):
    read = scenario(
        jobs=JOBS, tune={"parameters": PARAMETERS}, checkpointEvery="1h", time={"duration": "1d"}
    )
    heard = []
    alone = sweep(read, 1, heard.append)
    assert heard == [1, 2, 3, 4]
    blocked = []
    assert json_of(sweep(read, 2, lambda _: blocked.extend(blocked_in_processes()))) == json_of(
        alone
    )
    assert all(blocked), "Ctrl-C is for the process that the user sees"
    assert blocked
    by_value = {tuple(value for _, value in it.values): it for it in alone.trials}
    assert by_value["0s", "never"].lost > by_value["0s", "30m"].lost > 0


def test_a_sweep_is_told_as_table_and_page():
    trials = (trial(0.1, 0.0, "a"), trial(0.02, 0.01, "b"))
    best, reason = recommend(trials)
    found = Sweep("small", trials, best, reason)
    text = summary_of(found)
    assert "Recommended: k b." in text
    assert text.index("b *") < text.index("a *"), "the best comes first"
    page = html_of(found)
    assert page.count("<circle") == 2
    assert "://" not in page
