"""What is kept of earlier cycles: courses of queues, and frames to play back."""

from dataclasses import replace
from itertools import pairwise

import pytest

from kaisched.errors import ConfigError
from kaisched.testing.builder import ClusterBuilder
from kaisched.view import jobs, nodes, queues
from kaisched.view.history import FRAME_S, NO_HISTORY, SAMPLE_S, Frame, Thinned, sample_of, view_at
from kaisched.view.paths import Part
from kaisched.view.publisher import Publisher
from kaisched.view.queues import fairness_document
from kaisched.view.reading import ALL, Reading


def cluster(*queues):
    built = ClusterBuilder().node("n0", gpu=4).queue("root")
    for name in queues:
        built.queue(name, parent="root", deserved=2).job(f"j-{name}", queue=name, gpu=1)
    return built.run(usage={queues[0]: 0.5})


@pytest.fixture(scope="module")
def ran():
    return cluster("a", "b")


def published(ran, times, **options):
    publisher = Publisher("default", **options)
    for cycle, time_s in enumerate(times, 1):
        publisher.take(ran.result, cycle=cycle, time_s=time_s, duration_s=0.1)
    return publisher


def test_a_trend_reaches_back_to_the_start_in_bounded_memory(ran):
    view = published(ran, [0.0]).view
    trend = Thinned(8, SAMPLE_S)
    for second in range(1000):
        if trend.is_due(float(second)):
            trend.add(sample_of(replace(view, time_s=float(second))))
    samples = trend.kept
    assert 4 <= len(samples) <= 8
    assert samples[0].time_s == 0.0
    assert samples[-1].time_s >= 1000 - 2 * 256
    gaps = {other.time_s - one.time_s for one, other in pairwise(samples)}
    assert len(gaps) == 1, "equally far apart"


def test_fairness_tells_what_queues_held(ran):
    view = published(ran, [0.0, 0.5, 2.0]).view
    document = fairness_document(Reading(view), "", Part())
    assert document["resource"] == "gpu"
    assert len(document["times"]) == 2, "samples are a second apart at least"
    held = {it["name"]: it["allocated"] for it in document["queues"]}
    assert held == {"root": [2, 2], "a": [1, 1], "b": [1, 1]}
    below = fairness_document(Reading(view), "b", Part())
    assert [it["name"] for it in below["queues"]] == ["b"]
    with pytest.raises(ConfigError):
        fairness_document(Reading(view), "c", Part())


def test_a_queue_that_was_not_there_has_no_value(ran):
    publisher = published(ran, [0.0])
    publisher.take(cluster("a", "b", "c").result, cycle=2, time_s=5.0, duration_s=0.1)
    document = fairness_document(Reading(publisher.view), "c", Part())
    assert document["queues"][0]["allocated"] == [None, 1]


def test_frames_are_thinned_and_found_by_cycle(ran):
    frames, view = Thinned(4, FRAME_S), published(ran, [0.0]).view
    for cycle in range(1, 50):
        if frames.is_due(60.0 * cycle):
            frames.add(Frame.of(replace(view, cycle=cycle, time_s=60.0 * cycle)))
    cycles = [it.cycle for it in frames.kept]
    assert 2 <= len(cycles) <= 4
    assert cycles[0] == 1
    latest = replace(view, cycle=50)
    assert view_at(frames.kept, 50, latest) is latest
    assert view_at(frames.kept, cycles[1] + 1, latest).cycle == cycles[1]
    assert view_at(frames.kept, 0, latest).cycle == 1


def test_a_frame_shows_what_the_view_did(ran):
    view = replace(published(ran, [0.0]).view, history=NO_HISTORY)
    was, shown = (
        (
            queues.overview_document(reading),
            queues.queues_document(reading),
            nodes.nodes_document(reading, nodes.Wanted(), ALL),
            *(jobs.job_document(reading, row, ALL, {}) for row in range(2)),
        )
        for reading in (Reading(view), Reading(Frame.of(view).view()))
    )
    assert shown == was


def test_an_earlier_view_has_the_history_up_to_there(ran):
    publisher = published(ran, [0.0, 100.0, 200.0], most_frames=10)
    found = view_at(publisher.frames, 2, publisher.view)
    assert [it.cycle for it in found.history.cycles] == [1, 2]
    assert {it.cycle for it in found.history.decisions} <= {1, 2}
    assert [it.time_s for it in found.history.samples] == [0.0, 100.0]


def test_a_daemon_keeps_no_earlier_views(ran):
    assert published(ran, [0.0, 100.0]).frames == ()
