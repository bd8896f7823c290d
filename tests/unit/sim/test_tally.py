from kaisched.sim.recorder import Tally


def test_gpus_are_integrated_over_time():
    tally = Tally(2, 10)
    tally.arrive(0)
    tally.start(0, 4, 12)
    tally.arrive(0)
    tally.start(0, 2, 15)
    tally.finish(0, 4, 20)
    tally.close(22)
    assert tally.used == [4 * 8 + 2 * 7, 0]
    assert tally.held == [2, 0]


def test_fair_shares_hold_until_the_next_sample():
    tally = Tally(2, 10)
    tally.sample_fair_share(10, [1000, 3000])
    tally.sample_fair_share(13, [2000, 0])
    tally.close(15)
    assert tally.entitled == [1000 * 3 + 2000 * 2, 3000 * 3]


def test_the_distance_is_what_was_held_at_the_sample_until_the_next():
    tally = Tally(2, 10)
    tally.arrive(0)
    tally.start(0, 4, 10)
    tally.sample_fair_share(10, [3000, 1500])
    tally.finish(0, 4, 12)
    tally.sample_fair_share(13, [0, 500])
    tally.close(15)
    assert tally.distance == (1000 + 1500) * 3 + 500 * 2


def test_an_evicted_job_waits_again():
    tally = Tally(1, 0)
    tally.arrive(0)
    tally.start(0, 8, 0)
    tally.evict(0, 8, 5, redone=3, stopping=1)
    assert (tally.redone, tally.stopping) == ([24], [8])
    assert (tally.pending, tally.held, tally.used) == ([1], [0], [40])
    tally.start(0, 8, 6)
    tally.finish(0, 8, 7)
    assert (tally.pending, tally.evicted, tally.finished) == ([0], [1], [1])
