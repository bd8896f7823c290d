"""When an eviction was for somebody although nothing was bound in the room that it freed."""

from dataclasses import replace

import pytest

from tests.chaos.test_checker import History, Queue, group, node, pod

PODS = [pod(name, on, group="t/v") for name, on in (("v1", "m"), ("v2", "n"), ("v3", "m"))]
TOLD = {it.key: ("consolidate", "t/b") for it in PODS}


def evicted(count, apart_s=1.0, told=TOLD, minimum=1, last_s=9.0, more=()):
    """So many of three pods of a gang, the last of which came late, go for another job."""
    nodes = (node(), node("m"), Queue("q", "uid"), group(minimum, name="v"))
    history = History(*nodes, pod("b", gpus=4), *PODS[:2], who_for=told)
    history.put(*more, PODS[2], at_s=last_s)
    sent = [replace(it, is_evicted=True, is_leaving=True) for it in PODS[:count]]
    for at, it in enumerate(sent):
        history.put(it, at_s=20.0 + at * apart_s)
    history.gone(*sent, at_s=50.0)
    return history


def test_one_bind_is_enough_for_a_gang_of_which_nothing_is_left():
    history = evicted(3).put(pod("b", "m", 4), at_s=51.0).until(1e6)
    assert history.breaches == []
    (told,) = [it for it in history.checker.counts if it.startswith("evictions without a bind")]
    assert "went whole" in told


@pytest.mark.parametrize(
    ("of_the_last", "count"), [({}, 0), ({PODS[2].key: ("preempt", "t/other")}, 1)]
)
def test_a_gang_goes_whole_though_the_log_does_not_have_all_of_it(of_the_last, count):
    """The answer to an eviction was lost, so that its process does not know of it."""
    told = {it.key: TOLD[it.key] for it in PODS[:2]} | of_the_last
    history = evicted(3, told=told).put(pod("b", "m", 4), at_s=51.0).until(1e6)
    assert len(history.breaches) == count


@pytest.mark.parametrize(
    ("action", "is_used", "found"),
    [
        ("consolidate", True, []),
        ("consolidate", False, ["pod t/v1", "pod t/v2"]),
        ("reclaim", True, ["pod t/v2"]),
    ],
)
def test_what_a_gang_needs_moves_together_while_its_elastic_pods_stay(action, is_used, found):
    """As tests/scenarios/test_a_gang_moves_whole.py shows; of others elastic pods go first."""
    more = [pod(f"v{number}", "n", group="t/v") for number in (4, 5)]
    told = {it.key: (action, "t/b") for it in PODS}
    history = evicted(2, minimum=2, told=told, more=more)
    if is_used:
        history.put(pod("b", "m", 4), at_s=51.0)
    assert history.until(1e6).breaches == [("P4", it) for it in found]


@pytest.mark.parametrize(("last_s", "count"), [(9.0, 1), (11.0, 0)])
def test_a_pod_that_came_since_the_plan_was_made_saves_nothing_of_its_gang(last_s, count):
    history = evicted(2, last_s=last_s).put(pod("b", "m", 4), at_s=51.0).until(1e6)
    assert len(history.breaches) == count


def test_without_any_bind_each_of_its_pods_is_a_breach():
    assert len(evicted(3).until(1e6).breaches) == 3


@pytest.mark.parametrize(("count", "apart_s"), [(2, 1.0), (3, 11.0)])
def test_pods_that_go_while_others_stay_or_at_another_time_are_for_themselves(count, apart_s):
    history = evicted(count, apart_s=apart_s).put(pod("b", "m", 4), at_s=51.0).until(1e6)
    assert history.breaches == [("P4", "pod t/v2")]


@pytest.mark.parametrize(("limit", "is_excused"), [(8, True), (9, True), (12, False), (-1, False)])
def test_a_queue_at_its_limit_gives_room_anywhere(limit, is_excused):
    """Two pods of 4 GPUs fill the limit: one goes, and the other job starts on an idle node."""
    queue = Queue("q", "uid", limit=limit)
    held = [replace(pod(name, "n", 4), queue="q") for name in ("v1", "v2")]
    new = replace(pod("b", gpus=4), queue="q")
    history = History(
        node(), node("m"), queue, new, *held, who_for={held[0].key: ("preempt", new.key)}
    )
    history.put(replace(held[0], is_evicted=True, is_leaving=True), at_s=10.0)
    history.gone(held[0], at_s=11.0).put(replace(new, node="m"), at_s=11.1)
    assert (history.until(1e6).breaches == []) == is_excused


@pytest.mark.parametrize(("apart_s", "count"), [(0.1, 0), (11.0, 1)])
def test_a_whole_plan_was_needed_in_a_queue_at_its_limit(apart_s, count):
    """Three pods of 4 GPUs of 16, two go for a gang of 8 that starts on an idle node."""
    queue = Queue("q", "uid", limit=16)
    held = [replace(pod(name, on, 4), queue="q") for name, on in zip("vwx", "nnm", strict=True)]
    new = replace(pod("b", gpus=8), queue="q")
    gone = held[:2]
    history = History(
        node(),
        node("m"),
        node("o"),
        queue,
        new,
        *held,
        who_for={it.key: ("preempt", new.key) for it in gone},
    )
    for at, it in enumerate(gone):
        history.put(replace(it, is_evicted=True, is_leaving=True), at_s=10.0 + at * apart_s)
    history.gone(*gone, at_s=29.0).put(replace(new, node="o"), at_s=30.0)
    assert len(history.until(1e6).breaches) == count
    for breach in history.checker.breaches:  # the later one of the two evictions
        assert "was bound to o (8 GPU) 9.0 s later; limited queues held q 8 of 16" in breach.text


@pytest.mark.parametrize(("limit", "count"), [(29, 0), (46, 3)])
def test_a_limit_counts_with_all_that_the_beneficiary_got(limit, count):
    """A queue holds 22 GPUs, 17 go for a gang of three pods of 8 that starts on idle nodes."""
    queue, gang = Queue("q", "uid", limit=limit), replace(group(3, name="b"), queue="q")
    sizes = (("n", 8), ("m", 8), ("l", 1), ("l", 5))
    held = [replace(pod(f"{on}{gpus}", on, gpus), queue="q") for on, gpus in sizes]
    new = [pod(f"b{on}", gpus=8, group=gang.key) for on in "opr"]
    gone = held[:3]
    history = History(
        *(node(name) for name in "nmlopr"),
        queue,
        gang,
        *new,
        *held,
        who_for={it.key: ("preempt", gang.key) for it in gone},
    )
    history.put(*(replace(it, is_evicted=True, is_leaving=True) for it in gone), at_s=20.0)
    history.gone(*gone, at_s=22.0)
    history.put(*(replace(it, node=on) for it, on in zip(new, "opr", strict=True)), at_s=22.1)
    assert len(history.until(1e6).breaches) == count


@pytest.mark.parametrize(
    ("asked_s", "is_excused"),
    [((), False), ((8.5,), True), ((9.5,), False), ((8.5, 9.5), False), ((8.5, 10.5), True)],
)
@pytest.mark.parametrize("end", ["deleted", "bound"])
def test_what_changes_while_a_slow_server_has_been_asked_comes_too_late(end, asked_s, is_excused):
    """At 9 s the beneficiary goes, or gets room that came free; at 10 s the eviction begins.

    Of two requests the one counts that came last before the eviction began.
    """
    victim, other, new = pod("v", "n"), pod("o", "n"), pod("b")
    told, received = {victim.key: ("reclaim", new.key)}, [(victim.key, it) for it in asked_s]
    history = History(node(), victim, other, new, who_for=told, received=received)
    if end == "deleted":
        history.gone(new, at_s=9.0)
    else:
        history.gone(other, at_s=9.0).put(replace(new, node="n"), at_s=9.2)
    gone = replace(victim, is_evicted=True, is_leaving=True)
    history.put(gone, at_s=10.0).gone(gone, at_s=11.0)
    assert (history.until(1e6).breaches == []) == is_excused
