"""The checker finds each breach in a made-up history, and none in a sound one."""

from dataclasses import replace
from decimal import Decimal

import pytest

from tests.chaos import rest
from tests.chaos.checker import Checker, Outages
from tests.chaos.facts import GPU, Group, Lease, Node, Pod, Queue, amount, job_of, pod_of
from tests.chaos.soak import Sample, slope, slope_of_binds
from tests.chaos.watching import Event, Sorter

ROOM = (("cpu", Decimal(64)), (GPU, Decimal(8)), ("pods", Decimal(110)))


def pod(name, node="", gpus=1, **words):
    asks = (("cpu", Decimal(1)), (GPU, Decimal(gpus)), ("pods", Decimal(1)))
    words = {"phase": "Running" if node else "Pending", "queue": "q", **words}
    return Pod(f"t/{name}", f"uid-{name}", node, asks=asks, **words)


def node(name="n", room=ROOM, **words):
    return Node(name, f"uid-{name}", room, **words)


def group(minimum, grace_s=60.0, name="g"):
    return Group(f"t/{name}", f"uid-{name}", minimum, grace_s, "q")


KIND = {Pod: "pods", Node: "nodes", Group: "podgroups", Queue: "queues", Lease: "leases"}


class History:
    """Objects as they come and go; each step is a revision, and a second later than the last."""

    def __init__(self, *objects, who_for=None, outages=None, received=()):
        self.checker = Checker(outages, (who_for or {}).get, received=lambda: received)
        self.order, self.now_s = 0, 0.0
        self.put(*objects)

    def put(self, *objects, at_s=None, is_deleted=False):
        for it in objects:
            self.order += 1
            self.now_s = self.now_s + 1.0 if at_s is None else at_s
            self.checker.take([Event(self.order, self.now_s, KIND[type(it)], is_deleted, it)])
        return self

    def gone(self, *objects, at_s=None):
        return self.put(*objects, at_s=at_s, is_deleted=True)

    def until(self, now_s):
        self.checker.pass_time(now_s)
        return self

    @property
    def breaches(self):
        return [(it.promise[:2], it.subject) for it in self.checker.breaches]


# -- P1 ------------------------------------------------------------------------------------------


def test_p1_nine_of_eight_gpus_are_a_breach_said_once():
    history = History(node(), pod("a", "n", 8)).put(pod("b", "n"))
    history.put(replace(pod("b", "n"), is_leaving=True))
    assert history.breaches == [("P1", "node n")]
    assert "9 of 8 nvidia.com/gpu" in history.checker.breaches[0].text


def test_p1_a_pod_that_leaves_holds_its_room_until_it_is_gone():
    leaving = replace(pod("a", "n", 8), is_leaving=True)
    assert History(node(), leaving, pod("b", "n")).breaches == [("P1", "node n")]
    assert History(node(), leaving).gone(leaving).put(pod("b", "n")).breaches == []


def test_p1_a_pod_that_has_ended_holds_none():
    done = replace(pod("a", "n", 8), phase="Succeeded")
    assert History(node(), pod("a", "n", 8), done, pod("b", "n", 8)).breaches == []


def test_p1_a_node_that_comes_back_smaller_than_what_is_on_it_counts():
    history = History(pod("a", "n", 8))
    assert history.put(node(room=())).breaches == []  # it has not said yet what it has
    assert history.put(node(room=((GPU, Decimal(4)),))).breaches == [("P1", "node n")]


def test_p1_what_a_list_told_after_a_gap_is_of_one_moment():
    history = History(node(), pod("a", "n", 8))
    both = [
        Event(9, 9.0, "pods", False, pod("b", "n", 8)),
        Event(9, 9.0, "pods", True, pod("a", "n", 8)),
    ]
    history.checker.take(both)
    assert history.breaches == []


# -- P2 ------------------------------------------------------------------------------------------


def test_p2_a_pod_on_another_node_than_before():
    assert History(pod("a"), pod("a", "n"), pod("a", "m")).breaches == [("P2", "pod t/a")]


def test_p2_a_new_pod_of_the_same_name_may_be_elsewhere():
    again = replace(pod("a", "m"), uid="other")
    assert History(pod("a", "n")).gone(pod("a", "n")).put(again).breaches == []
    assert History(pod("a", "n"), again).breaches == []  # the end of the first was not heard


@pytest.mark.parametrize(("leader", "found"), [("x", []), ("y", [("P2", "epoch 3 of lease l")])])
def test_p2_an_epoch_has_one_leader(leader, found):
    words = {"lease": "l", "epoch": "3"}
    history = History(Lease("kaisched/l", "uid", "x", 3))
    assert history.put(pod("a", "n", leader=leader, **words)).breaches == found


def test_a_take_over_is_timed_from_the_last_renewal_of_the_leader_before():
    history = History()
    for at_s, holder, epoch in ((1.0, "x", 1), (3.0, "x", 1), (19.5, "y", 2), (21.0, "y", 2)):
        history.put(Lease("kaisched/l", "uid", holder, epoch, str(at_s)), at_s=at_s)
    assert history.breaches == []
    assert history.checker.promises[1].take_overs == [(19.5, 16.5)]


# -- P3 ------------------------------------------------------------------------------------------


def gang(placed, minimum=3, grace_s=20.0):
    members = [pod(f"m{it}", "n", group="t/g") for it in range(placed)]
    return History(node(), group(minimum, grace_s), *members)


def test_p3_a_gang_below_its_minimum_past_its_grace_and_half_a_minute():
    history = gang(2)
    assert history.until(history.now_s + 48.0).breaches == []
    assert history.until(history.now_s + 52.0).breaches == [("P3", "pod group t/g")]
    assert history.until(history.now_s + 99.0).breaches == [("P3", "pod group t/g")]


@pytest.mark.parametrize(("placed", "minimum", "grace_s"), [(0, 3, 20.0), (3, 3, 20.0), (2, 3, -1)])
def test_p3_none_whole_or_exempt(placed, minimum, grace_s):
    assert gang(placed, minimum, grace_s).until(1e6).breaches == []


def test_p3_pods_that_succeeded_count():
    history = gang(3)
    history.put(replace(pod("m0", "n", group="t/g"), phase="Succeeded"))
    assert history.until(1e6).breaches == []


def test_p3_pods_that_leave_do_not():
    history = gang(3)
    history.put(replace(pod("m0", "n", group="t/g"), is_leaving=True))
    assert history.until(1e6).breaches == [("P3", "pod group t/g")]


def test_p3_a_spell_that_ends_late_is_a_breach_though_nobody_looked_meanwhile():
    history = gang(2)
    history.put(pod("m2", "n", group="t/g"), at_s=500.0)
    assert history.breaches == [("P3", "pod group t/g")]


def test_p3_time_in_which_nobody_could_do_anything_does_not_count():
    outages = Outages()
    history = History(group(3, 20.0), pod("m0", "n", group="t/g"), outages=outages)
    outages.begin(10.0)
    outages.end(40.0)
    assert history.until(80.0).breaches == []
    assert history.until(84.0).breaches == [("P3", "pod group t/g")]


def test_a_machine_that_stands_still_while_the_server_is_away_counts_once():
    outages = Outages()
    outages.begin(10.0)
    outages.add(12.0, 24.0)  # the server stands still too
    assert outages.between(0.0, 30.0) == 20.0
    outages.end(26.0)
    outages.add(25.0, 40.0)
    assert outages.between(0.0, 100.0) == 30.0
    assert outages.counted(20.0, 50.0) == 10.0


def test_what_is_in_order_waits_for_as_long_as_somebody_could_have_said_something():
    outages = Outages()
    assert outages.ago(50.0, 4.0) == 46.0
    outages.add(35.0, 47.0)
    outages.add(20.0, 34.5)
    assert outages.ago(50.0, 4.0) == pytest.approx(19.5, abs=0.01)
    assert outages.ago(50.0, 2.0) == 48.0


# -- P4 ------------------------------------------------------------------------------------------

VICTIM = pod("v", "n", 4)
SENT = replace(VICTIM, is_evicted=True, is_leaving=True)


def eviction(action="reclaim", **words):
    """A victim evicted for a job that waits, gone at 10 s."""
    told = {"t/v": (action, "t/b")} if action else {}
    first = (node(), node("m"), Queue("q", "uid"), Queue("other", "uid"), pod("b", gpus=4), VICTIM)
    history = History(*first, who_for=told, **words)
    return history.put(SENT, at_s=8.0)


def test_p4_nothing_is_bound_in_the_freed_room():
    history = eviction().gone(SENT, at_s=10.0)
    assert history.until(69.0).breaches == []
    assert history.until(71.0).breaches == [("P4", "pod t/v")]
    assert "by reclaim for t/b" in history.checker.breaches[0].text


@pytest.mark.parametrize("at_s", [10.5, 69.0])
def test_p4_a_bind_within_a_minute_whoever_it_is(at_s):
    history = eviction().gone(SENT, at_s=10.0).put(pod("c", "n"), at_s=at_s)
    assert history.until(1e6).breaches == []


def test_p4_a_bind_before_the_victims_end_or_elsewhere_is_none_in_its_room():
    history = eviction().put(pod("c", "n"), at_s=9.0).gone(SENT, at_s=10.0)
    assert history.put(pod("d", "m")).until(1e6).breaches == [("P4", "pod t/v")]


@pytest.mark.parametrize(("gpus", "found"), [(4, []), (3, [("P4", "pod t/v")])])
def test_p4_room_that_came_free_by_itself_for_its_beneficiary_excuses_it(gpus, found):
    other = pod("o", "n", gpus)
    history = eviction().put(other, at_s=8.5).gone(other, at_s=9.0).put(pod("b", "n", 4), at_s=9.5)
    assert history.gone(SENT, at_s=10.0).until(1e6).breaches == found


@pytest.mark.parametrize(("who", "where"), [("c", "n"), ("b", "m")])
def test_p4_room_that_came_free_for_others_or_elsewhere_excuses_nothing(who, where):
    other = pod("o", where, 4)
    history = (
        eviction().put(other, at_s=8.5).gone(other, at_s=9.0).put(pod(who, where, 4), at_s=9.5)
    )
    assert history.gone(SENT, at_s=10.0).until(1e6).breaches == [("P4", "pod t/v")]


def test_p4_a_victim_that_does_not_leave_is_waited_for():
    assert eviction().until(1e6).breaches == []


@pytest.mark.parametrize("action", ["stalegang", "drain"])
def test_p4_evictions_that_are_for_nobody_by_intent(action):
    assert eviction(action).gone(SENT, at_s=10.0).until(1e6).breaches == []


def test_p4_who_it_was_for_is_not_known():
    history = eviction("").gone(SENT, at_s=10.0).until(1e6)
    assert history.breaches == []
    assert history.checker.counts["evictions without a bind, untold whom for"] == 1


@pytest.mark.parametrize(("at_s", "counted"), [(14.0, 0), (16.0, 1)])
def test_p4_an_eviction_for_a_job_that_has_run_for_a_while_is_counted(at_s, counted):
    history = eviction().put(pod("b", "m", 4), at_s=10.0)
    late = pod("late", "n")
    history.checker.promises[3]._who_for = {"t/late": ("reclaim", "t/b")}.get
    history.put(late, at_s=12.0).put(replace(late, is_evicted=True), at_s=at_s)
    assert history.checker.counts["evictions for a job of which nothing waited"] == counted


CHANGES = {
    "the beneficiary is deleted": lambda it: it.gone(pod("b", gpus=4)),
    "its queue has another quota": lambda it: it.put(Queue("q", "uid", quota=3.0)),
    "its queue is deleted": lambda it: it.gone(Queue("q", "uid")),
    "the node is cordoned": lambda it: it.put(node(is_open=False)),
    "the node is deleted": lambda it: it.gone(node()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_p4_what_changed_after_it_was_sent_excuses_it(change):
    history = eviction()
    change(history)
    assert history.gone(SENT, at_s=20.0).until(1e6).breaches == []


def test_p4_other_changes_excuse_nothing():
    history = eviction().put(pod("b", "m", 4), Queue("other", "uid", quota=3.0))
    history.put(node("m", is_open=False)).gone(SENT, at_s=20.0)
    assert history.until(1e6).breaches == [("P4", "pod t/v")]


# -- P5 ------------------------------------------------------------------------------------------

QUEUES = [Queue("top", "u1", "", -1, -1), Queue("q", "u2", "top", 4, -1)]


def waits(*pods, nodes=None, groups=(), queues=QUEUES):
    found = rest.could_run(pods, nodes or [node()], groups, queues)
    return [who.removeprefix("job ") for who, _ in found]


def test_p5_a_pod_that_fits_an_idle_node_waits():
    assert waits(pod("a", gpus=8)) == ["t/a"]


@pytest.mark.parametrize(
    "nodes",
    [[node(is_open=False)], [node(is_ready=False)], [node(room=((GPU, Decimal(8)),))]],
    ids=["cordoned", "not ready", "without a pod slot"],
)
def test_p5_a_node_that_takes_nobody(nodes):
    assert waits(pod("a"), nodes=nodes) == []


def test_p5_room_is_what_is_left():
    assert waits(pod("a", gpus=4), pod("b", "n", 5)) == []
    assert waits(pod("a", gpus=3), pod("b", "n", 5)) == ["t/a"]
    leaving = replace(pod("b", "n", 5), is_leaving=True)
    assert waits(pod("a", gpus=4), leaving) == []


@pytest.mark.parametrize(
    "pods", [[pod("a", is_leaving=True)], [pod("a", is_gated=True)], [pod("a", scheduler="x")]]
)
def test_p5_a_pod_that_is_not_to_be_placed(pods):
    assert waits(*pods) == []


@pytest.mark.parametrize("limit", [-1, 5, 4, 3])
@pytest.mark.parametrize("name", ["top", "q"])
def test_p5_every_limit_on_the_way_up_counts(name, limit):
    queues = [replace(it, limit=limit) if it.key == name else it for it in QUEUES]
    is_within = limit in {-1, 5}
    assert waits(pod("a", gpus=2), pod("b", "n", 3), queues=queues) == ["t/a"] * is_within


def test_p5_what_is_not_preemptible_stays_within_the_quota():
    held = pod("b", "n", 3, priority="build")
    assert waits(pod("a", gpus=2, priority="build"), held) == []
    assert waits(pod("a", gpus=1, priority="build"), held) == ["t/a"]
    assert waits(pod("a", gpus=2), held) == ["t/a"]


def test_p5_a_queue_that_is_not_there_takes_nobody():
    assert waits(pod("a"), queues=[QUEUES[1]]) == []


def test_p5_a_gang_needs_room_for_all_that_it_lacks():
    nodes = [node("n"), node("m")]
    members = [pod(f"m{it}", gpus=3, group="t/g") for it in range(4)]
    assert waits(*members, nodes=nodes, groups=[group(4)]) == ["t/g"]
    assert waits(*members, nodes=nodes, groups=[group(5)]) == []  # one does not exist
    taken = pod("b", "n", 3)
    assert waits(*members, taken, nodes=nodes, groups=[group(4)]) == []
    assert waits(*members, taken, nodes=nodes, groups=[group(3)]) == ["t/g"]
    assert waits(*members, nodes=nodes) == []  # its pod group does not exist


def test_p5_pods_that_succeeded_are_not_lacked():
    done = [replace(pod(f"d{it}", "n", group="t/g"), phase="Succeeded") for it in range(7)]
    assert waits(*done, pod("a", group="t/g"), groups=[group(8)]) == ["t/g"]


def test_p5_a_gang_that_runs_wants_one_more():
    running = [pod("m0", "n", 4, group="t/g")]
    assert waits(*running, pod("m1", gpus=4, group="t/g"), groups=[group(1)]) == ["t/g"]
    assert waits(*running, pod("m1", gpus=5, group="t/g"), groups=[group(1)]) == []


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "much"), [("500m", Decimal("0.5")), ("8", 8), ("2Gi", 2**31), ("1k", 1000)]
)
def test_amounts(text, much):
    assert amount(text) == much


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("t/pg-single-1-0-2-03e22fc1-512d-4176-9b36-eb2625f263ea", "t/single-1-0-2"),
        ("t/gang-1", "t/gang-1"),
        ("t/pg-gang", "t/pg-gang"),
    ],
)
def test_a_job_without_a_pod_group_is_its_pod(name, job):
    assert job_of(name) == job


def test_a_pod_is_read_as_the_api_writes_it():
    read = pod_of(
        {
            "metadata": {
                "name": "a",
                "namespace": "t",
                "uid": "u",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 3,
                "labels": {"kai.scheduler/queue": "q"},
                "annotations": {
                    "pod-group-name": "g",
                    "kaisched.io/leader": "x",
                    "kaisched.io/lease": "l",
                    "kaisched.io/leader-epoch": "4",
                    "kaisched.io/run-seconds": "1.5",
                },
            },
            "spec": {
                "nodeName": "n",
                "schedulerName": "kaisched",
                "containers": [
                    {"resources": {"limits": {GPU: "2", "cpu": "1"}, "requests": {"cpu": "500m"}}},
                    {"resources": {"limits": {GPU: "1"}}},
                    {},
                ],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        }
    )
    assert read == Pod(
        "t/a",
        "u",
        "n",
        "Running",
        is_leaving=True,
        grace_s=3.0,
        group="t/g",
        queue="q",
        asks=(("cpu", Decimal("0.5")), (GPU, Decimal(3)), ("pods", Decimal(1))),
        is_evicted=True,
        lease="l",
        leader="x",
        epoch="4",
        run_s=1.5,
    )


class FakeStream:
    def __init__(self, version, *, is_up):
        self.version, self.is_up = version, is_up


def test_events_of_all_streams_are_handed_out_in_the_order_of_their_revisions():
    sorter, up = Sorter(), FakeStream(0, is_up=True)
    for order, at_s in ((3, 1.0), (1, 2.0), (2, 3.0), (4, 9.0)):
        sorter.put(Event(order, at_s, "pods", False, None))
    assert [it.order for it in sorter.ready(4.0, [up])] == [1, 2, 3]
    down = FakeStream(3, is_up=False)
    assert sorter.ready(95.0, [up, down]) == []  # what it has missed may be earlier
    down.is_up = True
    assert [it.order for it in sorter.ready(95.0, [up, down])] == [4]
    assert sorter.late == 0


def test_a_slope_has_an_error():
    rise, error = slope([0, 1800, 3600], [10.0, 11.0, 12.0])
    assert rise == pytest.approx(2.0)
    assert error == pytest.approx(0.0, abs=1e-9)
    rise, error = slope([0, 1200, 2400, 3600], [10.0, 12.0, 9.0, 11.0])
    assert abs(rise) < error


def test_memory_is_told_by_binds():
    samples = [Sample(0.0, 100.0 + at, 1, 1, 1.0, 0.0, 500.0 * at) for at in range(4)]
    assert slope_of_binds(samples) == pytest.approx((2.0, 0.0))


# -- P7 ------------------------------------------------------------------------------------------

TOP = Queue("top", "u1", "", 8, 8)
LEAF = Queue("q", "u2", "top", 8, -1)
FIRM = {"priority": "build"}


def bound(name, gpus=1, **words):
    """A pod that waits, and the same on a node."""
    return pod(name, gpus=gpus, **words), pod(name, "n", gpus, **words)


def test_p7_a_bind_counts_at_every_level_what_leaves_too():
    leaving = replace(pod("a", "n", 6), is_leaving=True)
    history = History(TOP, LEAF, leaving).put(*bound("b", 2))
    assert history.breaches == []
    assert history.put(*bound("c")).breaches == [("P7", "queue top")]
    text = history.checker.breaches[0].text
    assert "9 GPU of its limit of 8 are held, 6 by pods that leave" in text
    assert History(TOP, LEAF, leaving).gone(leaving).put(*bound("b", 8)).breaches == []


def test_p7_an_excess_from_elsewhere_is_no_bind_of_ours_but_the_next_one_is():
    history = History(TOP, LEAF, pod("a", "n", 9))
    assert history.breaches == []
    assert history.put(*bound("b")).breaches == [("P7", "queue top")]


@pytest.mark.parametrize(("after_s", "found"), [(40.0, []), (60.0, [("P7", "queue top")])])
def test_p7_a_limit_that_was_larger_a_moment_ago_counts(after_s, found):
    history = History(replace(TOP, limit=9.0), LEAF, pod("a", "n", 8)).put(TOP)
    assert history.put(*bound("b"), at_s=history.now_s + after_s).breaches == found


def test_p7_what_may_not_be_preempted_stays_within_the_quota():
    queues = replace(TOP, limit=-1), replace(LEAF, quota=2)
    history = History(*queues, pod("a", "n", 2)).put(*bound("b", 2, **FIRM))
    assert history.breaches == []
    assert history.put(*bound("c", **FIRM)).breaches == [("P7", "queue q")]
    assert "3 GPU of its quota of 2" in history.checker.breaches[0].text


def test_p7_binds_after_a_queue_came_back_are_counted():
    history = History(TOP, LEAF, pod("a", "n", 8)).gone(LEAF).put(LEAF).put(*bound("b"))
    assert history.breaches == []
    assert history.checker.counts["binds not judged, a queue came or went"] == 1


# -- P8 ------------------------------------------------------------------------------------------

FOUR = (
    Queue("top", "u1", "", 8, -1),
    Queue("q", "u2", "top", 4, -1),
    Queue("r", "u3", "top", 4, -1),
)


def reclaimed(asked, *queues, action="reclaim", moves=False, before=()):
    """A pod of q evicted for one of r, while q asks for so many GPUs."""
    history = History()
    history.checker = Checker(None, {"t/v": (action, "t/w")}.get, lambda _: moves)
    history.put(*(queues or FOUR), *before, pod("w", queue="r", gpus=1))
    history.gone(*before, at_s=50.0)
    for number in range(asked - 1):
        history.put(pod(f"o{number}", "n" * (number % 2)), at_s=51.0)
    history.put(pod("v", "n"), at_s=52.0)
    return history.put(pod("v", "n", is_evicted=True), at_s=60.0).until(120.0)


def eighth(history):
    return [it for it in history.breaches if it[0] == "P8"]


def test_p8_the_queue_that_loses_asks_for_more_than_its_quota():
    assert eighth(reclaimed(5)) == []
    assert eighth(reclaimed(4)) == [("P8", "pod t/v")]
    assert eighth(reclaimed(4, action="preempt")) == eighth(reclaimed(4, moves=True)) == []


def test_p8_what_it_asked_for_a_while_ago_counts():
    assert eighth(reclaimed(3, before=[pod("x", "n", 5)])) == []


@pytest.mark.parametrize(("quota", "found"), [(8, 1), (6, 0), (-1, 0)])
def test_p8_a_quota_is_worth_what_siblings_leave_of_their_parent(quota, found):
    """Of 6 the sibling may have 4; an unlimited quota above is not judged."""
    top = replace(FOUR[0], quota=float(quota))
    assert len(eighth(reclaimed(3, top, *FOUR[1:]))) == found
