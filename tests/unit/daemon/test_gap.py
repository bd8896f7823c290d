"""The pause between turns: short for single events, longer while they never end."""

from kaisched.daemon.gap import LEAST_S, MOST_S, Gap


def pauses(pressed, turn_s=0.01):
    gap = Gap()
    return [gap.after(turn_s, is_pressed=it) for it in pressed]


def test_the_first_events_after_a_rest_share_a_turn_as_soon_as_ever():
    assert pauses([False] * 3) == [LEAST_S] * 3
    assert max(pauses([False, True, True] * 5)) < 0.07


def test_events_without_end_come_in_runs_and_a_rest_ends_that():
    found = pauses([True] * 20 + [False, True])
    assert found[:20] == sorted(found[:20])
    assert found[19] == MOST_S, "and no more"
    assert 0.8 < sum(found[: found.index(MOST_S)]) < 1.5, "a second or so of it"
    assert found[20] == LEAST_S
    assert found[21] < 0.06


def test_turns_that_cost_nothing_are_not_put_off():
    assert pauses([True] * 30, turn_s=0.002) == [LEAST_S] * 30
    assert pauses([True] * 30, turn_s=0.005)[-1] == 0.1
    assert pauses([True] * 30, turn_s=2.0)[-1] == MOST_S
