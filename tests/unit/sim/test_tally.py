from types import SimpleNamespace

from kaisched.sim.recorder import Tally


def tally_of(gpus, queues=2, tick=10):
    """A tally of jobs of the first queue that hold so many GPUs."""
    names, queue = "abc"[:queues], [0] * len(gpus)
    work = SimpleNamespace(queue_names=names, queue=queue, arrival=queue, held=gpus.__getitem__)
    return Tally(work, tick)


def test_gpus_are_integrated_over_time():
    tally = tally_of([4, 2])
    for job, tick in ((0, 12), (1, 15)):
        tally.arrive(job, tick)
        tally.start(job, tick)
    tally.finish(0, 20)
    tally.close(22)
    assert tally.used == [4 * 8 + 2 * 7, 0]
    assert tally.held == [2, 0]


def test_fair_shares_hold_until_the_next_sample():
    tally = tally_of([])
    tally.sample(10, [1000, 3000])
    tally.sample(13, [2000, 0])
    tally.close(15)
    assert tally.entitled == [1000 * 3 + 2000 * 2, 3000 * 3]


def test_the_distance_is_what_was_held_at_the_sample_until_the_next():
    tally = tally_of([4])
    tally.arrive(0, 10)
    tally.start(0, 10)
    tally.sample(10, [3000, 1500])
    tally.finish(0, 12)
    tally.sample(13, [0, 500])
    tally.close(15)
    assert tally.distance == (1000 + 1500) * 3 + 500 * 2


def test_an_evicted_job_waits_again():
    tally = tally_of([8], 1, 0)
    tally.arrive(0, 0)
    tally.start(0, 0)
    tally.stop(0, 5, 3, is_failure=False)
    assert (tally.redone, tally.stopping) == ([24], [8])
    assert (tally.pending, tally.held, tally.used) == ([1], [0], [40])
    tally.start(0, 6)
    tally.finish(0, 7)
    assert (tally.pending, tally.evicted, tally.finished) == ([0], [1], [1])
